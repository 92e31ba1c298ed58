/* fuzz_pickle.c - libFuzzer target of the reader of CIFAR's pickles. What is accepted lies inside the file. */
#include <stdlib.h>
#include <string.h>

#include "pickle/pickle.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int look_at(void *user, int64_t i, int32_t node) {
    const gf_pickle *p = user;
    const char *text;
    size_t n;
    int64_t x;
    (void)gf_pickle_integer(p, node, &x);
    if (gf_pickle_string(p, node, &text, &n) && (text < (const char *)p->bytes || n > p->size)) abort();
    return i < 100;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    gf_error err = {""};
    gf_pickle p;
    gf_pickle_array a;
    if (gf_pickle_parse(&err, "fuzz", &gf_pickle_numpy, data, size, &p) != GLOFND_OK) {
        if (!strstr(err.text, "fuzz")) abort();
        return 0;
    }
    if (p.root < 0 || (size_t)p.root >= p.nodes) abort();
    (void)gf_pickle_each(&p, gf_pickle_get(&p, p.root, "labels"), look_at, &p);
    (void)gf_pickle_each(&p, p.root, look_at, &p);
    for (int k = 0; k < 2; k++)
        if (gf_pickle_bytes(&p, k ? p.root : gf_pickle_get(&p, p.root, "data"), &a) &&
            (a.at > size || a.n > size - a.at || (uint64_t)a.rows * (uint64_t)a.columns != a.n))
            abort();
    gf_pickle_free(&p);
    return 0;
}
