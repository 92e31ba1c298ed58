/* fuzz_npy.c - libFuzzer target of the .npy reader. What is accepted must hold its own promises. The mutator writes headers of
 * every type and order, with shapes and lengths that fit or nearly fit.
 *     clang -g -O1 -fsanitize=fuzzer,address,undefined -Iinclude -Ilib fuzz/fuzz_npy.c lib/io/npy.c ... */
#include <stdlib.h>
#include <string.h>

#include "fuzz/mutate.h"
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

/* ----- mutation ----- */

static size_t put_shape(dice *d, char *out, size_t bytes, int64_t *count) {
    const uint32_t rank = roll(d, 10) ? roll(d, 4) : roll(d, 40);
    size_t n = 0;
    *count = 1;
    for (uint32_t k = 0; k < rank && n + 32 < bytes; k++) {
        const int64_t side = odd_number(d);
        *count = side >= 0 && side < 100 && *count < 10000 ? *count * side : 0;
        n += (size_t)snprintf(out + n, bytes - n, "%lld%s", (long long)side, k + 1 < rank || rank == 1 ? ", " : "");
    }
    out[n] = 0;
    return n;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed) {
    static const char *const types[] = {"<f4", "<f2", "<f8", ">f4", "|u1", "<i8", "<i4",
                                        "|b1", "<U3", "|S5", "<c8", "=f4", "O",   ""};
    static const int widths[] = {4, 2, 8, 4, 1, 8, 4, 1, 12, 5, 8, 4, 8, 0};
    dice d = {seed};
    char shape[400], head[600];
    int64_t count;
    if (roll(&d, 3) == 0 || max_size < 800) return LLVMFuzzerMutate(data, size, max_size);
    const uint32_t type = roll(&d, sizeof types / sizeof *types), version = roll(&d, 8) ? 1 + roll(&d, 3) : roll(&d, 256);
    put_shape(&d, shape, sizeof shape, &count);
    int n = snprintf(head, sizeof head, "{'descr': '%s', 'fortran_order': %s, 'shape': (%s), }", types[type],
                     roll(&d, 2) ? "True" : "False", shape);
    const size_t prefix = version == 1 ? 10 : 12, pad = roll(&d, 4) ? 63 - (prefix + (size_t)n) % 64 : roll(&d, 70);
    const size_t length = (size_t)n + pad + 1;
    size_t total = prefix;
    memcpy(data, "\x93NUMPY", 6);
    data[6] = (uint8_t)version, data[7] = 0;
    for (size_t k = 8; k < prefix; k++) data[k] = (uint8_t)(length >> 8 * (k - 8));
    memcpy(data + total, head, (size_t)n), total += (size_t)n;
    memset(data + total, ' ', pad), total += pad;
    data[total++] = '\n';
    const size_t body = (size_t)count * (size_t)widths[type], room = max_size - total;
    const size_t some = body < room ? body : room;
    memset(data + total, (int)roll(&d, 256), some), total += some;
    if (roll(&d, 3) == 0 && total > 0) total -= roll(&d, 3);
    return roll(&d, 4) == 0 ? LLVMFuzzerMutate(data, total, max_size) : total;
}
