/* captions.h - the captions of a sample: one per line of its text, one drawn per epoch; and a vocabulary from all captions of a
 * dataset.
 *
 * The draw is a pure function of (seed, epoch, sample): any worker, rank or resumed run draws the same one.
 */
#pragma once

#include "data/dataset.h"
#include "text/bpe.h"

typedef struct gf_caption { /* a line of a borrowed text: not closed by 0 */
    const char *text;
    size_t n;
} gf_caption;

/* Lines that are not blank. NULL text: 0. */
int64_t gf_captions_count(const char *text);
/* Caption k of them, without blanks at its ends; {"", 0} if there are fewer. */
gf_caption gf_caption_at(const char *text, int64_t k);
gf_caption gf_caption_draw(const char *text, uint64_t seed, uint32_t epoch, uint64_t sample);

/* ----- a vocabulary ----- */

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
