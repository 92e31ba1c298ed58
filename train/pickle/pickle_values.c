/* pickle_values.c - see pickle.h: the values of a parsed pickle. */
#include <string.h>

#include "pickle/pickle_nodes.h"

static const gf_pickle_node *node_of(const gf_pickle *p, int32_t node, gf_pickle_kind k) {
    return node >= 0 && (size_t)node < p->nodes && p->node[node].kind == k ? &p->node[node] : NULL;
}

int gf_pickle_string(const gf_pickle *p, int32_t node, const char **text, size_t *n) {
    const gf_pickle_node *s = node_of(p, node, GF_PICKLE_STRING);
    if (!s) return 0;
    *text = (const char *)p->bytes + s->value;
    *n = s->n;
    return 1;
}

int gf_pickle_integer(const gf_pickle *p, int32_t node, int64_t *out) {
    const gf_pickle_node *s = node_of(p, node, GF_PICKLE_INTEGER);
    if (s) *out = s->value;
    return s != NULL;
}

int32_t gf_pickle_get(const gf_pickle *p, int32_t dict, const char *key) {
    const gf_pickle_node *d = node_of(p, dict, GF_PICKLE_DICT);
    int32_t found = -1;
    for (int32_t c = d ? d->first : -1; c >= 0; c = p->cell[p->cell[c].next].next) {
        const char *text;
        size_t n;
        if (gf_pickle_string(p, p->cell[c].node, &text, &n) && n == strlen(key) && memcmp(text, key, n) == 0)
            found = p->cell[p->cell[c].next].node;
    }
    return found;
}

int64_t gf_pickle_each(const gf_pickle *p, int32_t list, int (*item)(void *user, int64_t i, int32_t node), void *user) {
    const gf_pickle_node *l = node_of(p, list, GF_PICKLE_LIST);
    if (!l) return -1;
    int64_t i = 0;
    for (int32_t c = l->first; c >= 0; c = p->cell[c].next)
        if (!item(user, i++, p->cell[c].node)) break;
    return l->value;
}

int64_t gf_pickle_each_pair(const gf_pickle *p, int32_t dict, int (*pair)(void *user, int32_t key, int32_t value), void *user) {
    const gf_pickle_node *d = node_of(p, dict, GF_PICKLE_DICT);
    if (!d) return -1;
    for (int32_t c = d->first; c >= 0; c = p->cell[p->cell[c].next].next)
        if (!pair(user, p->cell[c].node, p->cell[p->cell[c].next].node)) break;
    return d->value / 2;
}

int64_t gf_pickle_count(const gf_pickle *p, int32_t list) {
    const gf_pickle_node *l = node_of(p, list, GF_PICKLE_LIST);
    return l ? l->value : -1;
}

int gf_pickle_items(const gf_pickle *p, int32_t list, int32_t *out, int n) {
    const gf_pickle_node *l = node_of(p, list, GF_PICKLE_LIST);
    int k = 0;
    for (int32_t c = l ? l->first : -1; c >= 0 && k < n; c = p->cell[c].next) out[k++] = p->cell[c].node;
    return k == n;
}

int gf_pickle_is_function(const gf_pickle *p, int32_t node, const char *name) {
    const gf_pickle_node *f = node_of(p, node, GF_PICKLE_FUNCTION);
    return f && f->n == strlen(name) && memcmp(p->bytes + f->value, name, f->n) == 0;
}

int32_t gf_pickle_call(const gf_pickle *p, int32_t node, const char *name) {
    const gf_pickle_node *c = node_of(p, node, GF_PICKLE_CALL);
    return c && gf_pickle_is_function(p, c->first, name) ? c->last : -1;
}

int32_t gf_pickle_persistent(const gf_pickle *p, int32_t node) {
    const gf_pickle_node *x = node_of(p, node, GF_PICKLE_PERSISTENT);
    return x ? x->first : -1;
}

/* ----- arrays of NumPy ----- */

const gf_pickle_rules gf_pickle_numpy = {.of = "CIFAR",
                                         .refusal = "it is not a file of CIFAR",
                                         .functions = (const gf_pickle_function[]){{"numpy.core.multiarray", "_reconstruct"},
                                                                                   {"numpy._core.multiarray", "_reconstruct"},
                                                                                   {"numpy", "ndarray"},
                                                                                   {"numpy", "dtype"}},
                                         .count = 4};

/* numpy.dtype("u1", ...) */
static int is_byte_type(const gf_pickle *p, int32_t node) {
    int32_t name;
    const char *text;
    size_t n;
    if (!gf_pickle_items(p, gf_pickle_call(p, node, "dtype"), &name, 1) || !gf_pickle_string(p, name, &text, &n)) return 0;
    return (n == 2 && memcmp(text, "u1", 2) == 0) || (n == 3 && memcmp(text, "|u1", 3) == 0);
}

/* State of an array: version, shape, type, whether columns come first, bytes. */
int gf_pickle_bytes(const gf_pickle *p, int32_t node, gf_pickle_array *out) {
    const gf_pickle_node *c = node_of(p, node, GF_PICKLE_CALL);
    int32_t state[5], shape[2];
    int64_t fortran;
    const char *text;
    if (gf_pickle_call(p, node, "_reconstruct") < 0 || !gf_pickle_items(p, c->state, state, 5) || !is_byte_type(p, state[2]))
        return 0;
    if (!gf_pickle_integer(p, state[3], &fortran) || fortran || !gf_pickle_string(p, state[4], &text, &out->n)) return 0;
    const gf_pickle_node *dims = node_of(p, state[1], GF_PICKLE_LIST);
    out->columns = 1;
    if (!dims || dims->value < 1 || dims->value > 2 || !gf_pickle_items(p, state[1], shape, (int)dims->value)) return 0;
    if (!gf_pickle_integer(p, shape[0], &out->rows) || (dims->value == 2 && !gf_pickle_integer(p, shape[1], &out->columns)))
        return 0;
    out->at = (size_t)((const uint8_t *)text - p->bytes);
    const int64_t n = (int64_t)out->n;
    return out->rows >= 0 && out->columns > 0 && n / out->columns == out->rows && n % out->columns == 0;
}
