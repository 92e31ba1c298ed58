/* retrieval.h - image-text retrieval: the image of a caption among all images, and a caption of an image among all captions.
 *
 * Recall@k is the share of queries with a match among the k most similar candidates; of equally similar ones the smaller index
 * comes first. Memory: that of gf_nearest(), and 80 bytes per image and caption.
 */
#pragma once

#include "pairs/pairs_sweep.h"

#define GF_RECALLS 3
extern const int gf_recall_at[GF_RECALLS]; /* 1, 5, 10 */

typedef struct gf_retrieval_input { /* embeddings of any length */
    const float *image, *text;      /* [images][dim], [texts][dim] */
    int64_t images, texts, dim;
    const int64_t *owner; /* [texts] image of a caption; any number of captions per image */
    gf_sweep_job job;     /* threads 0: all */
} gf_retrieval_input;

typedef struct gf_recalls { /* shares, and their mean over k */
    double at[GF_RECALLS], mean;
} gf_recalls;

typedef struct gf_retrieval {
    int64_t images, texts;
    int64_t queries;                 /* images with a caption; the others are only candidates */
    gf_recalls ir, tr;               /* text to image; image to text, where any of its captions is a match */
    gf_recalls ir_chance, tr_chance; /* of a random order */
    double mean;                     /* of the two means */
} gf_retrieval;

/* E_ARGUMENT: no image or caption, an owner out of range. E_NUMERIC: an embedding is not finite. */
glofnd_status gf_retrieval_measure(gf_error *err, const gf_retrieval_input *in, gf_retrieval *out);
