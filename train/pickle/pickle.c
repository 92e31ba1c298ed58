/* pickle.c - see pickle.h. A pickle is a program for a small stack machine: opcodes push values, collect them since a mark, and
 * store them in a memo. Nothing is called: a call becomes a node that says so. */
#include "pickle/pickle.h"

#include <stdlib.h>
#include <string.h>

#include "pickle/pickle_nodes.h"
#include "util/grow.h"

enum { MARK = -2 };
typedef struct machine {
    gf_error *err;
    const char *name;
    const gf_pickle_rules *rules;
    gf_pickle *p;
    size_t at;
    int32_t *stack, *memo;
    size_t depth, stack_capacity, memo_used, memo_capacity;
} machine;

/* ----- nodes ----- */

static glofnd_status add_node(machine *m, gf_pickle_node n, int32_t *out) {
    gf_pickle *p = m->p;
    FAIL_IF(m->err, p->nodes >= GF_PICKLE_NODES_MAX, GLOFND_E_FORMAT, "'%.300s' holds more than %d values", m->name,
            GF_PICKLE_NODES_MAX);
    FAIL_IF(m->err, !gf_grow(&p->node, &p->node_capacity, p->nodes + 1, sizeof *p->node), GLOFND_E_MEMORY,
            "no memory for the values of '%.300s'", m->name);
    p->node[p->nodes] = n;
    *out = (int32_t)p->nodes++;
    return GLOFND_OK;
}

static glofnd_status append(machine *m, int32_t list, int32_t item) {
    gf_pickle *p = m->p;
    FAIL_IF(m->err, p->cells >= GF_PICKLE_NODES_MAX, GLOFND_E_FORMAT, "'%.300s' holds more than %d items", m->name,
            GF_PICKLE_NODES_MAX);
    FAIL_IF(m->err, !gf_grow(&p->cell, &p->cell_capacity, p->cells + 1, sizeof *p->cell), GLOFND_E_MEMORY,
            "no memory for the items of '%.300s'", m->name);
    gf_pickle_node *l = &p->node[list];
    const int32_t at = (int32_t)p->cells++;
    p->cell[at] = (gf_pickle_cell){item, -1};
    if (l->first < 0) l->first = at;
    else p->cell[l->last].next = at;
    l->last = at;
    l->value++;
    return GLOFND_OK;
}

/* ----- stack ----- */

static glofnd_status corrupt(const machine *m, const char *what) {
    GF_FAIL(m->err, GLOFND_E_FORMAT, "'%.300s' is corrupt: %s at byte %llu", m->name, what, (unsigned long long)m->at);
}

static glofnd_status push(machine *m, int32_t node) {
    FAIL_IF(m->err, !gf_grow(&m->stack, &m->stack_capacity, m->depth + 1, sizeof *m->stack), GLOFND_E_MEMORY,
            "no memory for the values of '%.300s'", m->name);
    m->stack[m->depth++] = node;
    return GLOFND_OK;
}

static glofnd_status push_new(machine *m, gf_pickle_node n) {
    int32_t node = -1;
    TRY(add_node(m, n, &node));
    return push(m, node);
}

static glofnd_status pop(machine *m, int32_t *out) {
    if (m->depth == 0 || m->stack[m->depth - 1] == MARK) return corrupt(m, "no value on the stack");
    *out = m->stack[--m->depth];
    return GLOFND_OK;
}

/* Index of the first value since the last mark. */
static glofnd_status find_mark(machine *m, size_t *first) {
    size_t k = m->depth;
    while (k > 0 && m->stack[k - 1] != MARK) k--;
    if (k == 0) return corrupt(m, "no mark on the stack");
    *first = k;
    return GLOFND_OK;
}

static const gf_pickle_node empty_list = {.kind = GF_PICKLE_LIST, .first = -1, .last = -1, .state = -1};

/* The values from stack position `first` on become a tuple in place of what lies at `keep` and above. */
static glofnd_status tuple_of(machine *m, size_t first, size_t keep) {
    int32_t tuple = -1;
    TRY(add_node(m, empty_list, &tuple));
    for (size_t k = first; k < m->depth; k++) {
        if (m->stack[k] == MARK) return corrupt(m, "a mark inside of a tuple");
        TRY(append(m, tuple, m->stack[k]));
    }
    m->depth = keep;
    return push(m, tuple);
}

/* Moves the values since the mark into the list or dict below it. */
static glofnd_status collect(machine *m, gf_pickle_kind into) {
    size_t first = 0;
    TRY(find_mark(m, &first));
    if (first < 2 || m->stack[first - 2] == MARK || m->p->node[m->stack[first - 2]].kind != into)
        return corrupt(m, "items for something that is no list or dict");
    if (into == GF_PICKLE_DICT && (m->depth - first) % 2) return corrupt(m, "a key without a value");
    for (size_t k = first; k < m->depth; k++) TRY(append(m, m->stack[first - 2], m->stack[k]));
    m->depth = first - 1;
    return GLOFND_OK;
}

static glofnd_status collect_last(machine *m, int count, gf_pickle_kind into) {
    int32_t item[2] = {-1, -1}, list = -1;
    for (int k = count - 1; k >= 0; k--) TRY(pop(m, &item[k]));
    TRY(pop(m, &list));
    if (m->p->node[list].kind != into) return corrupt(m, "items for something that is no list or dict");
    for (int k = 0; k < count; k++) TRY(append(m, list, item[k]));
    return push(m, list);
}

/* ----- memo ----- */

static glofnd_status remember(machine *m, uint64_t key) {
    if (m->depth == 0 || m->stack[m->depth - 1] == MARK) return corrupt(m, "nothing to remember");
    if (key > m->p->size) return corrupt(m, "a memo number that is too large"); /* there is at most one per byte */
    FAIL_IF(m->err, !gf_grow(&m->memo, &m->memo_capacity, (size_t)key + 1, sizeof *m->memo), GLOFND_E_MEMORY,
            "no memory for the values of '%.300s'", m->name);
    while (m->memo_used <= key) m->memo[m->memo_used++] = -1;
    m->memo[key] = m->stack[m->depth - 1];
    return GLOFND_OK;
}

static glofnd_status recall(machine *m, uint64_t key) {
    if (key >= m->memo_used || m->memo[key] < 0) return corrupt(m, "a value that was never stored");
    return push(m, m->memo[key]);
}

/* ----- bytes of the program ----- */

static glofnd_status number(machine *m, int bytes, uint64_t *out) {
    *out = 0;
    if (m->p->size - m->at < (size_t)bytes) return corrupt(m, "the end of the file");
    for (int k = 0; k < bytes; k++) *out |= (uint64_t)m->p->bytes[m->at + (size_t)k] << (8 * k);
    m->at += (size_t)bytes;
    return GLOFND_OK;
}

static glofnd_status string(machine *m, int length_bytes) {
    uint64_t n = 0;
    TRY(number(m, length_bytes, &n));
    if (n > m->p->size - m->at) return corrupt(m, "a string that is longer than the file");
    const size_t at = m->at;
    m->at += (size_t)n;
    return push_new(m, (gf_pickle_node){.kind = GF_PICKLE_STRING, .value = (int64_t)at, .n = (size_t)n, .state = -1});
}

static glofnd_status integer(machine *m, int bytes) {
    uint64_t x = 0;
    TRY(number(m, bytes, &x));
    return push_new(m, (gf_pickle_node){.kind = GF_PICKLE_INTEGER,
                                        .value = bytes == 4 ? (int32_t)(uint32_t)x : (int64_t)x,
                                        .state = -1});
}

/* LONG1: a length, then so many bytes of a little-endian number. */
static glofnd_status long_integer(machine *m) {
    uint64_t n = 0, x = 0;
    TRY(number(m, 1, &n));
    if (n > 8) return corrupt(m, "an integer of more than 8 bytes");
    TRY(number(m, (int)n, &x));
    if (n && n < 8 && x >> (8 * n - 1)) x |= ~(uint64_t)0 << (8 * n); /* the sign */
    return push_new(m, (gf_pickle_node){.kind = GF_PICKLE_INTEGER, .value = (int64_t)x, .state = -1});
}

/* BINFLOAT: its value is not kept. */
static glofnd_status real(machine *m) {
    uint64_t skipped;
    TRY(number(m, 8, &skipped));
    return push_new(m, (gf_pickle_node){.kind = GF_PICKLE_NONE, .state = -1});
}

/* ----- functions ----- */

static int is_text(const char *bytes, size_t n, const char *text) { return strlen(text) == n && memcmp(text, bytes, n) == 0; }

static int is_known(const gf_pickle_rules *rules, const char *module, size_t module_n, const char *name, size_t n) {
    for (size_t k = 0; k < rules->count; k++)
        if (is_text(module, module_n, rules->functions[k].module) && is_text(name, n, rules->functions[k].name)) return 1;
    return 0;
}

static glofnd_status add_function(machine *m, size_t module, size_t module_n, size_t name, size_t n) {
    const char *bytes = (const char *)m->p->bytes;
    FAIL_IF(m->err, !is_known(m->rules, bytes + module, module_n, bytes + name, n), GLOFND_E_FORMAT,
            "'%.200s' would call %.*s.%.*s: %s", m->name, (int)(module_n < 60 ? module_n : 60), bytes + module,
            (int)(n < 60 ? n : 60), bytes + name, m->rules->refusal);
    return push_new(m, (gf_pickle_node){.kind = GF_PICKLE_FUNCTION, .value = (int64_t)name, .n = n, .state = -1});
}

/* GLOBAL: two lines. */
static glofnd_status global(machine *m) {
    size_t at[2], n[2];
    for (int k = 0; k < 2; k++) {
        const uint8_t *end = memchr(m->p->bytes + m->at, '\n', m->p->size - m->at);
        if (!end) return corrupt(m, "a name without an end");
        at[k] = m->at;
        n[k] = (size_t)(end - m->p->bytes) - m->at;
        m->at += n[k] + 1;
    }
    return add_function(m, at[0], n[0], at[1], n[1]);
}

static glofnd_status stack_global(machine *m) {
    int32_t name = -1, module = -1;
    TRY(pop(m, &name));
    TRY(pop(m, &module));
    const gf_pickle_node a = m->p->node[module], b = m->p->node[name];
    if (a.kind != GF_PICKLE_STRING || b.kind != GF_PICKLE_STRING) return corrupt(m, "a function without a name");
    return add_function(m, (size_t)a.value, a.n, (size_t)b.value, b.n);
}

static const gf_pickle_node empty_dict = {.kind = GF_PICKLE_DICT, .first = -1, .last = -1, .state = -1};

static glofnd_status call(machine *m) {
    int32_t arguments = -1, function = -1;
    TRY(pop(m, &arguments));
    TRY(pop(m, &function));
    const gf_pickle_node f = m->p->node[function], list = m->p->node[arguments];
    if (f.kind != GF_PICKLE_FUNCTION) return corrupt(m, "a call of something that is no function");
    if (is_text((const char *)m->p->bytes + f.value, f.n, "OrderedDict") && list.kind == GF_PICKLE_LIST && list.value == 0)
        return push_new(m, empty_dict); /* its items follow */
    return push_new(m, (gf_pickle_node){.kind = GF_PICKLE_CALL, .first = function, .last = arguments, .state = -1});
}

static glofnd_status persistent(machine *m) {
    int32_t id = -1;
    TRY(pop(m, &id));
    if (!m->rules->persistent) return corrupt(m, "a persistent id");
    return push_new(m, (gf_pickle_node){.kind = GF_PICKLE_PERSISTENT, .first = id, .last = -1, .state = -1});
}

static glofnd_status build(machine *m) {
    int32_t state = -1, object = -1;
    TRY(pop(m, &state));
    TRY(pop(m, &object));
    const gf_pickle_kind kind = m->p->node[object].kind;
    if (kind != GF_PICKLE_CALL && kind != GF_PICKLE_DICT) return corrupt(m, "a state of something that was not made by a call");
    m->p->node[object].state = state;
    return push(m, object);
}

/* ----- the machine ----- */

static glofnd_status mark_tuple(machine *m) {
    size_t first = 0;
    TRY(find_mark(m, &first));
    return tuple_of(m, first, first - 1);
}

static glofnd_status short_tuple(machine *m, size_t n) {
    if (m->depth < n) return corrupt(m, "no value on the stack");
    return tuple_of(m, m->depth - n, m->depth - n);
}

static glofnd_status with_key(machine *m, int bytes, glofnd_status (*f)(machine *, uint64_t)) {
    uint64_t key = 0;
    TRY(number(m, bytes, &key));
    return f(m, key);
}

static glofnd_status step(machine *m, int op) {
    uint64_t skipped;
    switch (op) {
    case 0x80: return number(m, 1, &skipped); /* PROTO */
    case 0x95: return number(m, 8, &skipped); /* FRAME */
    case '(': return push(m, MARK);
    case '}': return push_new(m, empty_dict);
    case ']':
    case ')': return push_new(m, empty_list);
    case 'N': return push_new(m, (gf_pickle_node){.kind = GF_PICKLE_NONE, .state = -1});
    case 0x88:
    case 0x89: return push_new(m, (gf_pickle_node){.kind = GF_PICKLE_INTEGER, .value = op == 0x88, .state = -1});
    case 'K': return integer(m, 1);
    case 'M': return integer(m, 2);
    case 'J': return integer(m, 4);
    case 0x8a: return long_integer(m);
    case 'U':
    case 'C':
    case 0x8c: return string(m, 1);
    case 'T':
    case 'B':
    case 'X': return string(m, 4);
    case 0x8e:
    case 0x8d: return string(m, 8);
    case 'q': return with_key(m, 1, remember);
    case 'r': return with_key(m, 4, remember);
    case 0x94: return remember(m, m->memo_used);
    case 'h': return with_key(m, 1, recall);
    case 'j': return with_key(m, 4, recall);
    case 'e': return collect(m, GF_PICKLE_LIST);
    case 'a': return collect_last(m, 1, GF_PICKLE_LIST);
    case 'u': return collect(m, GF_PICKLE_DICT);
    case 's': return collect_last(m, 2, GF_PICKLE_DICT);
    case 't': return mark_tuple(m);
    case 0x85:
    case 0x86:
    case 0x87: return short_tuple(m, (size_t)(op - 0x84));
    case 'c': return global(m);
    case 0x93: return stack_global(m);
    case 'R': return call(m);
    case 'b': return build(m);
    case 'Q': return persistent(m);
    case 'G': return real(m);
    default:
        GF_FAIL(m->err, GLOFND_E_FORMAT, "'%.300s' is not a pickle of %s: opcode 0x%02x at byte %llu", m->name, m->rules->of,
                (unsigned)op, (unsigned long long)m->at - 1);
    }
}

static glofnd_status run(machine *m) {
    if (m->p->size < 2 || m->p->bytes[0] != 0x80) return corrupt(m, "no pickle of protocol 2 or later");
    while (m->at < m->p->size) {
        const int op = m->p->bytes[m->at++];
        if (op == '.') return pop(m, &m->p->root);
        TRY(step(m, op));
    }
    return corrupt(m, "the end of the file");
}

glofnd_status gf_pickle_parse(gf_error *err, const char *name, const gf_pickle_rules *rules, const uint8_t *bytes, size_t size,
                              gf_pickle *out) {
    *out = (gf_pickle){.bytes = bytes, .size = size, .root = -1};
    machine m = {.err = err, .name = name, .rules = rules, .p = out};
    const glofnd_status status = run(&m);
    free(m.stack);
    free(m.memo);
    if (status != GLOFND_OK) gf_pickle_free(out);
    return status;
}

void gf_pickle_free(gf_pickle *p) {
    free(p->node);
    free(p->cell);
    *p = (gf_pickle){.root = -1};
}
