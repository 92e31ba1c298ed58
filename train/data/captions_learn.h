/* captions_learn.h - a vocabulary from all captions of a dataset. */
#pragma once

#include "data/dataset.h"
#include "text/bpe_learn.h"

typedef struct gf_captions_read { /* counts */
    int64_t captions, words, different;
    int64_t without, unreadable; /* samples without caption; samples left out */
    gf_error first;              /* reason of the first one left out */
} gf_captions_read;

/* E_ARGUMENT if the dataset has no captions at all; the message names formats that have. */
glofnd_status gf_captions_require(gf_error *err, const gf_dataset *d);

/* Counts the words of all captions, learns at most `merges` merges and writes them to `path`. Unreadable samples are left out
 * and counted. E_ARGUMENT: the data has no captions. progress (may be NULL) is called now and then. */
glofnd_status gf_captions_learn(gf_error *err, const gf_dataset *d, int merges, const char *path,
                                void (*progress)(int64_t done, int64_t total), gf_captions_read *met, gf_bpe_learned *out);
