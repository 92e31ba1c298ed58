/* store_crcs.h - makes the checksums of an altered anchor store file right again, as far as its sections can be followed.
 *
 * For tests and fuzzers that must get past the checksums: a reader of its own, from FORMATS.md and not from store_file.c.
 */
#pragma once

#include <string.h>

#include "io/blockfile.h"

enum { /* offsets of the header's fields, and of those of a block */
       AT_VERSION = 8,
       AT_HEADER_BYTES = 12,
       AT_N = 16,
       AT_MODALITIES = 24,
       AT_TEMPERATURES = 28,
       AT_RECORD_BYTES = 32,
       AT_BLOCK_RECORDS = 36,
       AT_RING_ROWS = 40,
       AT_RING_DIM = 48,
       AT_RING_HEAD = 56,
       AT_RING_COUNT = 64,
       AT_BLOCKS = 72,
       AT_RING_BLOCKS = 80,
       AT_FILE_BYTES = 88,
       AT_SHARED = 96,
       AT_HEADER_CRC = 136,
       AT_BODY = 140, /* version 1 */
       AT_BANK_DIM = 136,
       AT_KEYED = 144, /* version 3, u32, and a zero after it */
       AT_BODY_KEYED = 156,
       IN_BLOCK_ROWS = 8,
       IN_BLOCK_RUNS = 12,
       IN_BLOCK_LIST = 16
};

/* Closes the section [at, at + length) if it lies in the file; returns what follows its CRC, or 0. */
static inline size_t close_section(unsigned char *p, size_t n, size_t at, uint64_t length, uint32_t *chain) {
    if (at > n || length > n - at || n - at - length < 4) return 0;
    unsigned char *crc = p + at + length;
    gf_le32_put(crc, gf_crc32c(0, p + at, (size_t)length));
    *chain = gf_crc32c(*chain, crc, 4);
    return at + (size_t)length + 4;
}

static inline size_t close_blocks(unsigned char *p, size_t n, size_t at, uint32_t *chain) {
    const uint64_t blocks = gf_le64(p + AT_BLOCKS), record_bytes = gf_le32(p + AT_RECORD_BYTES);
    for (uint64_t b = 0; at && b < blocks; b++) {
        if (n - at < IN_BLOCK_LIST) return 0;
        const uint64_t rows = gf_le32(p + at + IN_BLOCK_ROWS), runs = gf_le32(p + at + IN_BLOCK_RUNS);
        at = close_section(p, n, at, IN_BLOCK_LIST + runs * 4 + (rows * record_bytes & 0xffffffff), chain);
    }
    return at;
}

static inline size_t close_ring(unsigned char *p, size_t n, size_t at, uint32_t *chain) {
    const uint64_t blocks = gf_le64(p + AT_RING_BLOCKS), dim = gf_le64(p + AT_RING_DIM) & 0xffffffff;
    for (uint64_t b = 0; at && b < blocks; b++) {
        if (n - at < 16) return 0;
        const uint64_t rows = gf_le32(p + at + 12) & 0xffff;
        at = close_section(p, n, at, 16 + rows * (8 + dim * 4), chain);
    }
    return at;
}

static inline void fix_store_crcs(unsigned char *p, size_t n) {
    static const uint64_t header[] = {AT_HEADER_CRC, AT_HEADER_CRC, 144, 152}; /* by version */
    const uint32_t version = n >= AT_BODY ? gf_le32(p + AT_VERSION) : 0;
    uint32_t chain = 0;
    size_t at = close_section(p, n, 0, header[version < 4 ? version : 0], &chain);
    if (at) at = close_blocks(p, n, at, &chain);
    if (at) at = close_ring(p, n, at, &chain);
    if (!at || n - at < 24) return;
    gf_le32_put(p + at + 16, chain);
    close_section(p, n, at, 20, &chain);
}
