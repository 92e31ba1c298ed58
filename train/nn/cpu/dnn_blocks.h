/* dnn_blocks.h - rows cut into blocks, one task each. The blocks follow from the shape alone, so that what is summed per block
 * and then over blocks in order has the same bits for any number of threads.
 */
#pragma once

#include <stdint.h>

#define GF_BLOCKS_MAX 256
#define GF_BLOCK_NUMBERS 65536 /* fewer are not worth a task */

static inline int64_t gf_larger(int64_t a, int64_t b) { return a > b ? a : b; }
static inline int64_t gf_smaller(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t gf_parts(int64_t n, int64_t size) { return (n + size - 1) / size; }

static inline int64_t gf_block_rows(int64_t rows, int64_t c) {
    return gf_larger(gf_parts(rows, GF_BLOCKS_MAX), gf_larger(1, GF_BLOCK_NUMBERS / c));
}
static inline int64_t gf_blocks(int64_t rows, int64_t c) { return gf_parts(rows, gf_block_rows(rows, c)); }
/* Of `rows` rows or fewer, at most: the number of blocks falls where they become larger. */
static inline int64_t gf_blocks_max(int64_t rows, int64_t c) {
    return gf_smaller(GF_BLOCKS_MAX, gf_parts(rows, gf_larger(1, GF_BLOCK_NUMBERS / c)));
}
