/* scene.h - a scene is a small training run: options, shapes, and batches of clustered random embeddings, drawn from its seed.
 *
 * Samples belong to classes; the embeddings of a class lie around a common direction. Each step is one epoch, so that a scene of
 * five steps passes update_epoch and mask_epoch, and draws its batch from `anchors` ids, so that anchors come back.
 *     scene s = scene_make("sogclr", LOSS_SOGCLR);  s.o.alpha = 0.1;  scene_avoid_ties(&s);
 *     scene_batch b;  scene_draw(&s, step, &b);  ... b.q is a glofnd_batch ...  scene_batch_free(&b);
 */
#pragma once

#include "method/options.h"
#include "reference.h"
#include "support/losses.h"

typedef struct scene {
    char name[128];
    glofnd_options o;
    int64_t batch, dim, anchors, classes;
    int steps;
    int with_labels, with_groups, with_support;
    int64_t candidates[2]; /* beyond the batch, of a and of b */
    int with_candidate_ids;
    int64_t guide_dim;  /* detector fixed: of a guide with an embedding and a threshold per id */
    int keyed;          /* a store of keys, which are the ids */
    int with_positives; /* some samples are positives of each other, by id */
    int repeats;        /* 1: the second of every four samples is that before it; 2: the second and third of every six are */
    double noise;       /* spread of a class around its direction */
    double lambda0;     /* not 0: anchors start at thresholds around this, visited once */
    uint64_t seed;
} scene;

typedef struct scene_batch {
    glofnd_batch q;
    glofnd_batch_extra *extra; /* of q */
    float *a, *b, *support_a, *support_b, *candidates[2], *guide, *guide_threshold;
    int64_t *id, *candidate_id[2];
    int32_t *label, *group, *positives;
} scene_batch;

scene scene_make(const char *name, int loss);
int scene_two_views(const scene *s);
gf_store_spec scene_spec(const scene *s);
void scene_draw(const scene *s, int step, scene_batch *out);
void scene_batch_free(scene_batch *b);
/* The state every store of the scene starts from: row i of a side. */
glofnd_anchor scene_start(const scene *s, int side, int64_t i);
void scene_ref_store(const scene *s, ref_store *out);
/* Moves the seed on until no compared similarity of the whole run lies within 1e-6 of its threshold, so that float32 and double
 * must give the same flags, and until the loss is finite. Returns how many seeds were passed over; fails the test after 500. */
int scene_avoid_ties(scene *s);
