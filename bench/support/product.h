/* product.h - a whole matrix product made of the library's tile kernel: packed, blocked for the caches, on all threads.
 *
 * It is what the materialising implementation uses, so that both sides of the comparison multiply with the same kernel.
 */
#pragma once

#include <stdint.h>

#include "support/pool.h"

typedef struct matrix { /* element (i, j) is at[i * ld + j]; transposed: at[j * ld + i] */
    const float *at;
    int64_t ld;
    int transposed;
} matrix;

/* c [m][n] = a [m][k] b [k][n], c with rows c_ld apart; m and n multiples of 32. Scratch comes from the pool. */
void product(memory_pool *p, float *c, int64_t c_ld, matrix a, matrix b, int64_t m, int64_t n, int64_t k, int threads);
