/* checksum.c - see checksum.h. */
#include "io/checksum.h"

static uint64_t word_of(const unsigned char *p, size_t n) {
    uint64_t word = 0;
    for (size_t i = 0; i < n; i++) word |= (uint64_t)p[i] << 8 * i;
    return word;
}

/* A bijection of h, so that different values stay different; and not linear, so that no field of a file can cancel the bytes
 * before it, as a CRC does. */
static uint64_t stir(uint64_t h, uint64_t word) {
    h = (h ^ word) * 0x9e3779b97f4a7c15u;
    return h ^ h >> 32;
}

uint64_t gf_checksum(uint64_t h, const void *bytes, size_t n) {
    const unsigned char *p = bytes;
    for (; n >= 8; n -= 8, p += 8) h = stir(h, word_of(p, 8));
    return n > 0 ? stir(h, word_of(p, n)) : h;
}
