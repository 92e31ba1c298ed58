/* caption_tokens.h - the caption of a sample, drawn for the epoch, as tokens; groups of samples in a batch that have the same
 * caption or the same image.
 */
#pragma once

#include "data/dataset.h"
#include "text/bpe.h"

typedef struct gf_content { /* two samples with an equal number have the same image, or the same tokens */
    uint64_t image, text;
} gf_content;

/* ids [context] of a caption of `text` (one per line) drawn by (seed, epoch, sample). E_FORMAT, naming the sample: no caption,
 * one without a word, or one of more than GF_WORDS_TEXT_MAX bytes. */
glofnd_status gf_tokens_draw(gf_error *err, const gf_bpe *b, gf_bpe_scratch *s, const gf_dataset *d, int64_t sample,
                             const char *text, uint64_t seed, uint32_t epoch, int context, int32_t *ids);
uint64_t gf_tokens_hash(const int32_t *ids, int context);

/* group [n]: the same number for samples that have an image or a text in common, directly or through others; -1: with no other
 * sample. order: scratch [n]. */
void gf_content_groups(const gf_content *content, int64_t n, int64_t *order, int32_t *group);
