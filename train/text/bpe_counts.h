/* bpe_counts.h - the words counted so far: for bpe_learn.c. */
#pragma once

#include "text/bpe_learn.h"

struct gf_bpe_counts {
    gf_words split; /* scratch of the caption under way */
    uint8_t *bytes; /* all different words */
    size_t used, bytes_capacity;
    struct gf_bpe_counted {
        size_t at; /* in bytes; up to that of the next one, or `used` */
        int64_t times;
    } * word; /* [n], in order of appearance */
    int64_t n;
    size_t capacity;
    int64_t *slots;  /* hash table of word numbers + 1 */
    int64_t slots_n; /* a power of two */
    int64_t total;
};

static inline size_t gf_bpe_counted_end(const gf_bpe_counts *c, int64_t i) { return i + 1 < c->n ? c->word[i + 1].at : c->used; }
