/* npy_order.c - arrays in big endian or in Fortran order become what all others are; see npy_header.h. */
#include <stdlib.h>
#include <string.h>

#include "io/npy_header.h"

void gf_npy_swap(void *data, int64_t count, size_t bytes) {
    unsigned char *p = data;
    for (int64_t i = 0; i < count; i++, p += bytes) {
        for (size_t k = 0; k < bytes / 2; k++) {
            const unsigned char other = p[bytes - 1 - k];
            p[bytes - 1 - k] = p[k];
            p[k] = other;
        }
    }
}

/* The first index varies fastest in `from`, the last one in `to`. */
static void reorder(unsigned char *to, const unsigned char *from, const gf_npy *a, size_t bytes) {
    int64_t index[GF_NPY_MAX_RANK] = {0}, stride[GF_NPY_MAX_RANK] = {0}, at = 0, step = 1;
    for (int k = 0; k < a->rank; k++) stride[k] = step, step *= a->shape[k];
    for (int64_t i = 0; i < a->count; i++, to += bytes) {
        memcpy(to, from + (size_t)at * bytes, bytes);
        for (int k = a->rank - 1; k >= 0; k--) {
            at += stride[k];
            if (++index[k] < a->shape[k]) break;
            at -= stride[k] * a->shape[k];
            index[k] = 0;
        }
    }
}

glofnd_status gf_npy_normalize(gf_error *err, const char *name, gf_npy *a) {
    const size_t bytes = gf_npy_type_bytes(a->type);
    if (a->swapped) gf_npy_swap(a->data, a->count, bytes);
    if (a->fortran && a->rank > 1 && a->count > 0) {
        unsigned char *rows = malloc((size_t)a->count * bytes);
        FAIL_IF(err, !rows, GLOFND_E_MEMORY, "%.300s: no memory for %lld elements", name, (long long)a->count);
        reorder(rows, a->data, a, bytes);
        free(a->data);
        a->data = rows;
    }
    a->swapped = a->fortran = 0;
    return GLOFND_OK;
}
