/* fuzz_mat.c - libFuzzer target of the reader of MATLAB files. The header is added, so that the fuzzer begins behind it. */
#include <stdlib.h>
#include <string.h>

#include "data/official/mat5.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void walk(const gf_mat_array *a, int depth) {
    char text[64];
    int64_t x;
    if (depth > GF_MAT_NESTING_MAX || a->n < 0 || a->rank > GF_MAT_RANK_MAX) abort();
    const int64_t few = a->n < 100 ? a->n : 100;
    for (int64_t i = 0; i < few; i++) {
        if (gf_mat_integer(a, i, -5, 1000, &x) && (x < -5 || x > 1000)) abort();
        if (gf_mat_cell(a, i)) walk(gf_mat_cell(a, i), depth + 1);
        if (a->kind == GF_MAT_STRUCTS)
            for (int k = 0; k < a->fields; k++) walk(&a->child[i * a->fields + k], depth + 1);
    }
    if (gf_mat_integer(a, a->n, INT64_MIN, INT64_MAX, &x)) abort();
    if (gf_mat_text(a, text, sizeof text) && strlen(text) >= sizeof text) abort();
    (void)gf_mat_field(a, 0, "class");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    gf_error err = {""};
    gf_mat m;
    uint8_t *bytes = calloc(1, size + 128);
    if (!bytes) abort();
    memcpy(bytes + 124, "\x00\x01IM", 4);
    if (size) memcpy(bytes + 128, data, size);
    if (gf_mat_parse(&err, "fuzz", bytes, size + 128, &m) != GLOFND_OK) {
        if (!strstr(err.text, "fuzz") && !strstr(err.text, "no memory")) abort();
        return 0;
    }
    for (size_t i = 0; i < m.variables; i++) walk(&m.variable[i], 0);
    gf_mat_free(&m);
    return 0;
}
