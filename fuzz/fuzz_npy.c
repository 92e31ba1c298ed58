/* fuzz_npy.c - libFuzzer target of the .npy reader. What is accepted must hold its own promises.
 *     clang -g -O1 -fsanitize=fuzzer,address,undefined -Iinclude -Isrc fuzz/fuzz_npy.c src/io/npy.c src/io/npy_header.c ... */
#include <stdlib.h>
#include <string.h>

#include "io/npy.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

extern volatile double sink; /* keeps the reads of the elements alive */
volatile double sink;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    gf_error err = {""};
    gf_npy a = {0};
    if (gf_npy_decode(&err, "fuzz", data, size, &a) != GLOFND_OK) {
        if (!strstr(err.text, "fuzz")) abort(); /* every refusal names the file */
        return 0;
    }
    int64_t count = 1;
    for (int k = 0; k < a.rank; k++) count *= a.shape[k] ? a.shape[k] : 0;
    if (a.rank < 0 || a.rank > GF_NPY_MAX_RANK || a.count != count || !a.data) abort();
    if ((uint64_t)a.count * gf_npy_type_bytes(a.type) >= size) abort();
    double sum = 0.0;
    for (int64_t i = 0; i < a.count; i++) sum += gf_npy_f64(&a, i) + (double)gf_npy_i64(&a, i);
    sink = sum;
    gf_npy_free(&a);
    return 0;
}
