/* typed.h - a batch of a scene in a given type and layout, and the float32 batch that holds the same numbers. */
#pragma once

#include "compare.h"
#include "scene.h"

typedef struct typed_batch {
    glofnd_batch q;            /* in the type, at the strides */
    glofnd_batch plain;        /* float32 without padding: the same numbers */
    glofnd_batch_extra *extra; /* of q */
    void *memory;              /* of q's embeddings */
    void *gradients;           /* [rows][...] of q's type and strides */
    size_t gradient_bytes;
    void *grad_a, *grad_b; /* in `gradients` */
} typed_batch;

enum { /* layouts */
       TYPED_PLAIN,
       TYPED_PADDED,      /* rows apart by an odd number, different for a and b, first row not at the beginning */
       TYPED_INTERLEAVED, /* [rows][2][dim]: the views of a sample side by side */
       TYPED_LAYOUTS
};

/* Rounds the embeddings of b in place, so that `plain` and `q` hold the same numbers. Lives as long as b. */
typed_batch typed_make(scene_batch *b, glofnd_dtype dtype, glofnd_dtype grad_dtype, int layout);
void typed_free(typed_batch *t);
/* Fills the gradients with a pattern; 1: numbers that lie between the rows still have it. */
void typed_clear(typed_batch *t);
int typed_gaps_are_clear(const typed_batch *t);
/* Number j of row i of a gradient, and the same number of a float32 gradient [rows][dim] after rounding. */
float typed_gradient(const typed_batch *t, int view, int64_t i, int64_t j);
float typed_rounded(const typed_batch *t, const float *gradient, int64_t i, int64_t j);
/* Statistics and gradients of a step of t are those of the float32 step `plain`, bit for bit after rounding. */
void expect_typed_step(const scene *s, int step, const typed_batch *t, const outputs *plain, const glofnd_stats *stats);
/* The stores of x and y hold the same bits. */
void expect_equal_rows(const scene *s, const runner *x, const runner *y);
