/* caption_lengths.h - lengths of real captions, for texts of benchmarks: the 30,000 captions of Flickr8k's training part in
 * CLIP's tokens, start and end included: 14.1 on average, 4 to 42. tools/bench_torch_clip.py has the same table.
 */
#pragma once

#include <stdint.h>

#define CAPTION_LENGTH_MIN 4

/* Captions of 4, 5, .. 42 tokens. */
static const int caption_lengths[] = {8,    24,   132,  366, 855, 1795, 2413, 2666, 3129, 3095, 3090, 2741, 2432,
                                      1938, 1493, 1061, 786, 611, 420,  293,  192,  144,  89,   78,   52,   33,
                                      25,   8,    6,    7,   6,   5,    2,    2,    1,    1,    0,    0,    1};

static inline int64_t caption_divisor(int64_t a, int64_t b) { return b ? caption_divisor(b, a % b) : a; }

/* Length of text i of n: the n quantiles of the table, in a mixed order. */
static inline int caption_length(int64_t i, int64_t n) {
    const int count = (int)(sizeof caption_lengths / sizeof *caption_lengths);
    int64_t all = 0, below = 0, step = n * 5 / 8 + 1;
    while (caption_divisor(n, step) > 1) step++;
    for (int k = 0; k < count; k++) all += caption_lengths[k];
    const int64_t at = (2 * (i * step % n) + 1) * all / (2 * n);
    for (int k = 0; k < count; k++)
        if (at < (below += caption_lengths[k])) return CAPTION_LENGTH_MIN + k;
    return CAPTION_LENGTH_MIN + count - 1;
}
