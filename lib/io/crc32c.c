/* crc32c.c - CRC-32C eight bytes at a time.
 *
 * table[k][b] is the CRC of byte b followed by k zero bytes; eight lookups xored together then advance the CRC by eight bytes.
 * CRCs are linear over xor, so a table of 256 follows from its eight single-bit entries: those are written down below and the
 * preprocessor makes the rest, which keeps the tables constant (no initialisation, no state shared between threads).
 */
#include "io/crc32c.h"

#define BIT(b, i, x) ((b) >> (i)&1 ? (x) : 0u)
#define ENTRY(b, x0, x1, x2, x3, x4, x5, x6, x7) \
    BIT(b, 0, x0) ^ BIT(b, 1, x1) ^ BIT(b, 2, x2) ^ BIT(b, 3, x3) ^ BIT(b, 4, x4) ^ BIT(b, 5, x5) ^ BIT(b, 6, x6) ^ BIT(b, 7, x7)
#define FOUR(b, ...) ENTRY(b, __VA_ARGS__), ENTRY(b + 1, __VA_ARGS__), ENTRY(b + 2, __VA_ARGS__), ENTRY(b + 3, __VA_ARGS__)
#define SIXTEEN(b, ...) FOUR(b, __VA_ARGS__), FOUR(b + 4, __VA_ARGS__), FOUR(b + 8, __VA_ARGS__), FOUR(b + 12, __VA_ARGS__)
#define SIXTYFOUR(b, ...) \
    SIXTEEN(b, __VA_ARGS__), SIXTEEN(b + 16, __VA_ARGS__), SIXTEEN(b + 32, __VA_ARGS__), SIXTEEN(b + 48, __VA_ARGS__)
#define TABLE(...) \
    { SIXTYFOUR(0, __VA_ARGS__), SIXTYFOUR(64, __VA_ARGS__), SIXTYFOUR(128, __VA_ARGS__), SIXTYFOUR(192, __VA_ARGS__) }

static const uint32_t table[8][256] = {
    TABLE(0xf26b8303, 0xe13b70f7, 0xc79a971f, 0x8ad958cf, 0x105ec76f, 0x20bd8ede, 0x417b1dbc, 0x82f63b78),
    TABLE(0x13a29877, 0x274530ee, 0x4e8a61dc, 0x9d14c3b8, 0x3fc5f181, 0x7f8be302, 0xff17c604, 0xfbc3faf9),
    TABLE(0xa541927e, 0x4f6f520d, 0x9edea41a, 0x38513ec5, 0x70a27d8a, 0xe144fb14, 0xc76580d9, 0x8b277743),
    TABLE(0xdd45aab8, 0xbf672381, 0x7b2231f3, 0xf64463e6, 0xe964b13d, 0xd725148b, 0xaba65fe7, 0x52a0c93f),
    TABLE(0x38116fac, 0x7022df58, 0xe045beb0, 0xc5670b91, 0x8f2261d3, 0x1ba8b557, 0x37516aae, 0x6ea2d55c),
    TABLE(0xef306b19, 0xdb8ca0c3, 0xb2f53777, 0x6006181f, 0xc00c303e, 0x85f4168d, 0x0e045beb, 0x1c08b7d6),
    TABLE(0x68032cc8, 0xd0065990, 0xa5e0c5d1, 0x4e2dfd53, 0x9c5bfaa6, 0x3d5b83bd, 0x7ab7077a, 0xf56e0ef4),
    TABLE(0x493c7d27, 0x9278fa4e, 0x211d826d, 0x423b04da, 0x847609b4, 0x0d006599, 0x1a00cb32, 0x34019664),
};

static uint32_t load_u32(const unsigned char *p) {
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

uint32_t gf_crc32c(uint32_t crc, const void *data, size_t n) {
    const unsigned char *p = data;
    crc = ~crc;
    for (; n >= 8; n -= 8, p += 8) {
        const uint32_t lo = crc ^ load_u32(p), hi = load_u32(p + 4);
        crc = table[7][lo & 255] ^ table[6][lo >> 8 & 255] ^ table[5][lo >> 16 & 255] ^ table[4][lo >> 24] ^ table[3][hi & 255] ^
              table[2][hi >> 8 & 255] ^ table[1][hi >> 16 & 255] ^ table[0][hi >> 24];
    }
    for (; n > 0; n--, p++) crc = crc >> 8 ^ table[0][(crc ^ *p) & 255];
    return ~crc;
}
