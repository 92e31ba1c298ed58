/* json_tree.c - see json_tree.h. */
#include "io/json_tree.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "util/grow.h"
#include "util/utf8.h"

typedef struct parser {
    gf_error *err;
    const char *where, *begin, *at, *end;
    int depth;
    gf_json *j;
    size_t used; /* of j->text, which is as long as the input: nothing becomes longer */
} parser;

static glofnd_status wrong(const parser *p, const char *what) {
    GF_FAIL(p->err, GLOFND_E_FORMAT, "%.300s: not valid JSON at byte %zu: %s", p->where, (size_t)(p->at - p->begin), what);
}

static void skip_blanks(parser *p) {
    while (*p->at == ' ' || *p->at == '\t' || *p->at == '\n' || *p->at == '\r') p->at++;
}

static glofnd_status add_node(parser *p, gf_json_kind kind, int64_t *out) {
    gf_json *j = p->j;
    FAIL_IF(p->err, !gf_grow(&j->node, &j->capacity, j->count + 1, sizeof *j->node), GLOFND_E_MEMORY, "%.300s: no memory for it",
            p->where);
    j->node[j->count] = (gf_json_node){.kind = kind, .first = -1, .next = -1};
    *out = (int64_t)j->count++;
    return GLOFND_OK;
}

/* ----- texts ----- */

/* The four digits at `at`; -1: they are none. */
static int32_t hex4(const char *at) {
    int32_t x = 0;
    for (int k = 0; k < 4; k++) {
        const char c = at[k];
        const int digit = c >= '0' && c <= '9'   ? c - '0'
                          : c >= 'a' && c <= 'f' ? c - 'a' + 10
                          : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                                 : -1;
        if (digit < 0) return -1;
        x = 16 * x + digit;
    }
    return x;
}

static void put_character(parser *p, int32_t c) {
    char *to = p->j->text + p->used;
    if (c < 0x80) *to++ = (char)c;
    else if (c < 0x800) *to++ = (char)(0xc0 | c >> 6), *to++ = (char)(0x80 | (c & 63));
    else if (c < 0x10000) *to++ = (char)(0xe0 | c >> 12), *to++ = (char)(0x80 | (c >> 6 & 63)), *to++ = (char)(0x80 | (c & 63));
    else
        *to++ = (char)(0xf0 | c >> 18), *to++ = (char)(0x80 | (c >> 12 & 63)), *to++ = (char)(0x80 | (c >> 6 & 63)),
        *to++ = (char)(0x80 | (c & 63));
    p->used = (size_t)(to - p->j->text);
}

/* \uXXXX, or two of them that are one character beyond U+FFFF. */
static glofnd_status read_code(parser *p) {
    int32_t c = hex4(p->at + 2);
    if (c < 0) return wrong(p, "\\u needs four hexadecimal digits");
    if (c == 0) return wrong(p, "\\u0000");
    if (c >= 0xd800 && c < 0xe000) {
        const int32_t low = c < 0xdc00 && p->at[6] == '\\' && p->at[7] == 'u' ? hex4(p->at + 8) : -1;
        if (low < 0xdc00 || low >= 0xe000) return wrong(p, "half of a character");
        c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
        p->at += 6;
    }
    p->at += 6;
    put_character(p, c);
    return GLOFND_OK;
}

static glofnd_status read_escape(parser *p) {
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    if (p->at[1] == 'u') return read_code(p);
    const char *known = p->at[1] ? strchr(from, p->at[1]) : NULL;
    if (!known) return wrong(p, "an unknown escape");
    put_character(p, to[known - from]);
    p->at += 2;
    return GLOFND_OK;
}

static glofnd_status read_text(parser *p, size_t *out) {
    *out = p->used;
    if (*p->at != '"') return wrong(p, "expected a text in quotes");
    p->at++;
    while (*p->at != '"') {
        if (*p->at == '\\') {
            TRY(read_escape(p));
            continue;
        }
        const size_t n = (unsigned char)*p->at < ' ' ? 0 : gf_utf8_bytes((const unsigned char *)p->at);
        if (n == 0) return wrong(p, p->at >= p->end ? "a text is not closed" : "a control character, or broken UTF-8");
        memcpy(p->j->text + p->used, p->at, n);
        p->used += n, p->at += n;
    }
    p->at++;
    p->j->text[p->used++] = 0;
    return GLOFND_OK;
}

/* ----- numbers and words ----- */

static int is_digit(char c) { return c >= '0' && c <= '9'; }

static glofnd_status read_number(parser *p, gf_json_node *node) {
    const char *begin = p->at;
    if (*p->at == '-') p->at++;
    if (!is_digit(*p->at)) return wrong(p, "expected a value");
    if (*p->at == '0' && is_digit(p->at[1])) return wrong(p, "a number begins with 0");
    while (is_digit(*p->at)) p->at++;
    const char *whole = p->at;
    if (*p->at == '.') {
        for (p->at++; is_digit(*p->at);) p->at++;
        if (!is_digit(p->at[-1])) return wrong(p, "a number ends with a point");
    }
    if (*p->at == 'e' || *p->at == 'E') {
        p->at += p->at[1] == '-' || p->at[1] == '+' ? 2 : 1;
        if (!is_digit(*p->at)) return wrong(p, "an exponent without digits");
        while (is_digit(*p->at)) p->at++;
    }
    node->kind = p->at == whole ? GF_JSON_INTEGER : GF_JSON_REAL;
    errno = 0;
    node->integer = node->kind == GF_JSON_INTEGER ? strtoll(begin, NULL, 10) : 0;
    return errno == ERANGE ? wrong(p, "an integer of more than 64 bits") : GLOFND_OK;
}

static int read_word(parser *p, const char *word) {
    const size_t n = strlen(word);
    if (strncmp(p->at, word, n) != 0) return 0;
    p->at += n;
    return 1;
}

/* ----- arrays and objects ----- */

static int by_text(const void *x, const void *y) { return strcmp(*(const char *const *)x, *(const char *const *)y); }

static glofnd_status check_keys(const parser *p, int64_t object) {
    const gf_json *j = p->j;
    const size_t count = (size_t)j->node[object].count;
    const char **key = malloc((count + 1) * sizeof *key);
    size_t n = 0;
    int twice = 0;
    FAIL_IF(p->err, !key, GLOFND_E_MEMORY, "%.300s: no memory for it", p->where);
    for (int64_t k = j->node[object].first; k >= 0; k = j->node[k].next) key[n++] = gf_json_text(j, j->node[k].key);
    qsort(key, n, sizeof *key, by_text);
    for (size_t k = 1; k < n && !twice; k++) twice = strcmp(key[k - 1], key[k]) == 0;
    free(key);
    return twice ? wrong(p, "a duplicate key") : GLOFND_OK;
}

static glofnd_status read_value(parser *p, int64_t *out);

/* One child of `parent`, behind `last`. */
static glofnd_status read_child(parser *p, int64_t parent, int64_t *last) {
    size_t key = 0;
    int64_t child = -1;
    skip_blanks(p);
    if (p->j->node[parent].kind == GF_JSON_OBJECT) {
        TRY(read_text(p, &key));
        skip_blanks(p);
        if (*p->at != ':') return wrong(p, "expected ':'");
        p->at++;
    }
    TRY(read_value(p, &child));
    gf_json_node *node = p->j->node; /* may have moved */
    node[child].key = key;
    if (*last < 0) node[parent].first = child;
    else node[*last].next = child;
    node[parent].count++;
    *last = child;
    skip_blanks(p);
    return GLOFND_OK;
}

static glofnd_status read_children(parser *p, int64_t parent, char close) {
    int64_t last = -1;
    p->at++;
    if (--p->depth < 0) GF_FAIL(p->err, GLOFND_E_FORMAT, "%.300s: JSON that is nested too deeply", p->where);
    skip_blanks(p);
    while (*p->at != close) {
        TRY(read_child(p, parent, &last));
        if (*p->at == close) break;
        if (*p->at != ',') return wrong(p, close == '}' ? "expected ',' or '}'" : "expected ',' or ']'");
        p->at++;
        skip_blanks(p);
        if (*p->at == close) return wrong(p, "nothing behind a comma");
    }
    p->at++, p->depth++;
    return close == '}' ? check_keys(p, parent) : GLOFND_OK;
}

static glofnd_status read_value(parser *p, int64_t *out) {
    TRY(add_node(p, GF_JSON_NULL, out));
    gf_json_node *node = &p->j->node[*out];
    skip_blanks(p);
    switch (*p->at) {
    case '{': node->kind = GF_JSON_OBJECT; return read_children(p, *out, '}');
    case '[': node->kind = GF_JSON_ARRAY; return read_children(p, *out, ']');
    case '"': node->kind = GF_JSON_TEXT; return read_text(p, &node->text);
    default: break;
    }
    if (read_word(p, "null")) return GLOFND_OK;
    if (read_word(p, "true")) node->kind = GF_JSON_TRUE;
    else if (read_word(p, "false")) node->kind = GF_JSON_FALSE;
    else return read_number(p, node);
    return GLOFND_OK;
}

/* ----- calls ----- */

glofnd_status gf_json_read(gf_error *err, const char *where, const char *text, size_t n, int depth, gf_json *out) {
    gf_json j = {.text = malloc(n + 1)};
    parser p = {.err = err, .where = where, .begin = text, .at = text, .end = text + n, .depth = depth, .j = &j};
    int64_t root = 0;
    FAIL_IF(err, !j.text, GLOFND_E_MEMORY, "%.300s: no memory for it", where);
    glofnd_status status = read_value(&p, &root);
    if (status == GLOFND_OK) {
        skip_blanks(&p);
        if (p.at != p.end) status = wrong(&p, "something behind its end");
    }
    if (status == GLOFND_OK) *out = j;
    else gf_json_free(&j);
    return status;
}

void gf_json_free(gf_json *j) {
    free(j->node);
    free(j->text);
    *j = (gf_json){0};
}

int64_t gf_json_find(const gf_json *j, int64_t node, const char *key) {
    if (node < 0 || j->node[node].kind != GF_JSON_OBJECT) return -1;
    for (int64_t k = j->node[node].first; k >= 0; k = j->node[k].next)
        if (strcmp(gf_json_text(j, j->node[k].key), key) == 0) return k;
    return -1;
}
