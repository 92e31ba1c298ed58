/* fuzz_text.c - captions cleaned: any bytes, in memory of exactly the promised size. The result is at most as long, its
 * characters are characters, parted by single spaces. First byte: if odd, each byte of the rest is decoded as Windows-1252 first,
 * which makes UTF-8 in it what the repair is for. */
#include <stdlib.h>
#include <string.h>

#include "text/bpe_clean.h"
#include "text/unicode.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const uint8_t *text, size_t n) {
    uint32_t *code = malloc(n * sizeof *code + 1);
    uint8_t *scratch = malloc(n + n / 2 + 1);
    if (!code || !scratch) abort();
    const int64_t count = gf_clean_text(text, n, code, scratch);
    if (count < 0 || count > (int64_t)n) abort();
    for (int64_t i = 0; i < count; i++) {
        if (code[i] > GF_UNICODE_MAX || (code[i] >= 0xd800 && code[i] <= 0xdfff)) abort();
        if (code[i] == ' ' && (i == 0 || i == count - 1 || code[i - 1] == ' ')) abort();
    }
    free(code);
    free(scratch);
}

static void check_as_windows(const uint8_t *data, size_t size) {
    uint8_t *text = malloc(4 * size + 1);
    size_t n = 0;
    if (!text) abort();
    for (size_t i = 0; i < size; i++) n += (size_t)gf_utf8_put(gf_unicode_windows(data[i]), text + n);
    check(text, n);
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 1) return 0;
    if (data[0] % 2) {
        check_as_windows(data + 1, size - 1);
        return 0;
    }
    uint8_t *text = malloc(size);
    if (!text) abort();
    memcpy(text, data + 1, size - 1);
    check(text, size - 1);
    free(text);
    return 0;
}
