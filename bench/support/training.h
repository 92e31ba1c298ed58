/* training.h - nets in training on the CPU: all that a step needs, and its time by parts. Two kinds: one encoder that sees two
 * views (views.c), and two encoders, of images and of texts (image_text.c).
 */
#pragma once

#include "method/options.h"
#include "nn/net.h"

#define TRAINING_PARTS 8 /* at most */

typedef struct training_case {
    const char *net; /* views: "resnet18", "resnet50"; encoders, CLIP's: "vitb32", "rn50" */
    int size, batch; /* pixels; samples of two views, or pairs */
    gf_precision precision;
    int whole_texts; /* as gf_net_spec */
} training_case;
const char *training_precision(const training_case *c); /* "fp32", "bf16" */

typedef struct training { /* what both kinds have; the head of their own structs */
    glofnd_ctx *ctx;
    glofnd_store *store;
    float *x, *grad[2]; /* [images][size][size][3]; two of [batch][dim], in one block */
    int64_t *id;
    int64_t batch, dim;
    float loss; /* of the last step, as part_ms is */
    double part_ms[TRAINING_PARTS];
} training;

extern double (*training_clock)(void); /* of all times of a step: gf_clock, or gf_cpu_clock */

typedef struct training_kind {
    int parts;
    const char *const *names;                               /* [parts] */
    training *(*make)(const training_case *c, int threads); /* dies without memory, or nets */
    double (*step)(training *t);                            /* ms */
    size_t (*bytes)(const training *t);                     /* of the nets and the optimizer */
    void (*free)(training *t);
} training_kind;

extern const training_kind training_of_views, training_of_towers;

/* ----- for the kinds ----- */

void *training_take(size_t count, size_t each);                /* zeroed; dies without memory */
void training_fine(glofnd_status status, const gf_error *err); /* or dies */
/* All of *t but the nets and x. `loss` takes two views of one encoder, or a side of each of two. */
void training_begin(training *t, const training_case *c, glofnd_pairing pairing, int64_t dim, int threads);
void training_draw(training *t, int64_t images, int size, uint64_t *state); /* x */
void training_loss(training *t, const float *a, const float *b);            /* its gradients are then in t->grad */
void training_end(training *t);                                             /* and of t itself */
