/* retrieval.h - finding the image of a caption among all images, and a caption of an image among all captions.
 *
 * Recall@k is the share of queries for which what belongs to them is among the k most similar; of equally similar ones the one
 * with the smaller index comes first. Memory: gf_nearest's, 80 bytes per image and caption.
 */
#ifndef GF_EVAL_CLIP_RETRIEVAL_H
#define GF_EVAL_CLIP_RETRIEVAL_H

#include "pairs/tiles.h"

#define GF_RECALLS 3
extern const int gf_recall_at[GF_RECALLS]; /* 1, 5, 10 */

typedef struct gf_retrieval_input { /* embeddings of any length */
    const float *image, *text;      /* [images][dim], [texts][dim] */
    int64_t images, texts, dim;
    const int64_t *owner; /* [texts] the image that a caption belongs to; any number per image */
    gf_pair_how how;      /* threads 0: all */
} gf_retrieval_input;

typedef struct gf_recalls { /* shares, and their mean over k */
    double at[GF_RECALLS], mean;
} gf_recalls;

typedef struct gf_retrieval {
    int64_t images, texts;
    int64_t asked;                   /* images with a caption: the others can be found by mistake, but are not asked for theirs */
    gf_recalls ir, tr;               /* text to image, image to text: right if any of its captions is found */
    gf_recalls ir_chance, tr_chance; /* what a random order would have */
    double mean;                     /* of the two means */
} gf_retrieval;

/* E_ARGUMENT: no image or caption, an owner out of range. E_NUMERIC: an embedding is not finite. */
glofnd_status gf_retrieval_measure(gf_error *err, const gf_retrieval_input *in, gf_retrieval *out);

#endif
