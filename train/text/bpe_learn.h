/* bpe_learn.h - learns a byte-pair vocabulary from captions.
 *
 *     gf_bpe_counts *c;  TRY(gf_bpe_counts_create(err, &c));
 *     for every caption: TRY(gf_bpe_counts_add(err, c, text, n));
 *     TRY(gf_bpe_learn(err, c, merges, path, &result));  gf_bpe_counts_free(c);
 *
 * Captions are cleaned and split as for encoding; only the different words and how often each came are kept. Then, again and
 * again, the most frequent pair of neighbouring symbols becomes a symbol; of equally frequent ones, the pair with the smaller
 * numbers. Same captions in any order, same vocabulary.
 */
#pragma once

#include "text/words.h"

typedef struct gf_bpe_counts gf_bpe_counts;

typedef struct gf_bpe_learned {
    int merges; /* fewer than requested if no pair occurs twice any more */
    int32_t vocab;
} gf_bpe_learned;

glofnd_status gf_bpe_counts_create(gf_error *err, gf_bpe_counts **out);
void gf_bpe_counts_free(gf_bpe_counts *c);
/* Words of more than GF_BPE_WORD_MAX bytes are left out: no language has them. */
#define GF_BPE_WORD_MAX 256
glofnd_status gf_bpe_counts_add(gf_error *err, gf_bpe_counts *c, const char *text, size_t n);
int64_t gf_bpe_counts_words(const gf_bpe_counts *c, int64_t *different);
/* Learns and writes the merges file: gzip if the name ends in .gz. E_ARGUMENT: no words. */
glofnd_status gf_bpe_learn(gf_error *err, const gf_bpe_counts *c, int merges, const char *path, gf_bpe_learned *out);
