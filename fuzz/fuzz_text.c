/* fuzz_text.c - captions cleaned: any bytes, in memory of exactly the promised size. The result is at most as long, its
 * characters are characters, parted by single spaces. */
#include <stdlib.h>

#include "text/words.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    uint32_t *code = malloc(size * sizeof *code + 1);
    if (!code) abort();
    const int64_t count = gf_clean_text(data, size, code);
    if (count < 0 || count > (int64_t)size) abort();
    for (int64_t i = 0; i < count; i++) {
        if (code[i] > GF_UNICODE_MAX || (code[i] >= 0xd800 && code[i] <= 0xdfff)) abort();
        if (code[i] == ' ' && (i == 0 || i == count - 1 || code[i - 1] == ' ')) abort();
    }
    free(code);
    return 0;
}
