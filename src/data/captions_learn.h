/* captions_learn.h - a vocabulary from all captions of a dataset. */
#ifndef GF_DATA_CAPTIONS_LEARN_H
#define GF_DATA_CAPTIONS_LEARN_H

#include "data/dataset.h"
#include "text/bpe/bpe_learn.h"

typedef struct gf_captions_read { /* what was met on the way */
    int64_t captions, words, different;
    int64_t without, damaged; /* samples without caption; samples left out */
    gf_error first;           /* why the first of them was */
} gf_captions_read;

/* E_ARGUMENT if this kind of data has no captions at all, saying which have. */
glofnd_status gf_captions_need(gf_error *err, const gf_dataset *d);

/* Counts the words of all captions, learns at most `merges` merges and writes them to `path`. Damaged samples are left out and
 * counted. E_ARGUMENT: the data has no captions. progress (may be NULL) is told now and then. */
glofnd_status gf_captions_learn(gf_error *err, const gf_dataset *d, int merges, const char *path,
                                void (*progress)(int64_t done, int64_t total), gf_captions_read *met, gf_bpe_learned *out);

#endif
