/* compare.h - a library run beside a reference run, and how close they must be.
 *
 * Where the tolerances come from: the library holds unit vectors and similarities in float32. A similarity is off by a few
 * roundings of 2^-24 (SIM_ERROR), an exponential exp(S/tau) therefore by SIM_ERROR/tau relative, and so are the weights of the
 * gradient, u and the loss. Everything else (counts, flags, clocks) is exact, because scenes keep similarities 1e-6 away from
 * thresholds.
 */
#pragma once

#include "method/formulas/row.h"
#include "scene.h"

#define SIM_ERROR 3e-7
#define FLOAT_ERROR 1.2e-7 /* one rounding to float32, relative */

/* Fails the test, naming scene, step and quantity, unless both are NaN or |got - want| <= tolerance. */
void expect_near(const char *scene_name, int step, const char *what, double got, double want, double tolerance);
void expect_equal(const char *scene_name, int step, const char *what, int64_t got, int64_t want);
#define expect_ok(ctx, call) expect_status_ok((call), (ctx), #call)
void expect_status_ok(glofnd_status status, const glofnd_ctx *c, const char *call);

/* The library's side of a scene. */
typedef struct runner {
    glofnd_ctx *ctx;
    glofnd_store *store;
} runner;

typedef struct outputs { /* of one step */
    int64_t batch, dim;
    float *grad_a, *grad_b; /* [B][d] */
    int64_t candidates[2];
    float *grad_candidates[2]; /* [candidates][d] */
    int32_t *group;            /* [B] detector COMPONENTS: the groups of the batch */
    gf_link *links;            /* [B][2] */
    uint8_t *keep;             /* as glofnd_step_mask */
    glofnd_stats stats;
    glofnd_counters counters;
} outputs;

runner runner_make(const scene *s);
void runner_free(runner *w);
outputs outputs_make(const scene *s);
void outputs_free(outputs *out);

/* The batch whose candidates' gradients go to `out`. */
glofnd_batch with_candidate_gradients(const glofnd_batch *q, const outputs *out);
void run_step(runner *w, const glofnd_batch *q, outputs *out);      /* glofnd_step; links and keep are not touched */
void run_two_calls(runner *w, const glofnd_batch *q, outputs *out); /* rows, mask, grad */

/* Similarity BANK: the batch with the averages of its samples, in `extra`, for bank_free(); else the batch as it is. */
glofnd_batch batch_with_bank(const runner *w, const glofnd_batch *q, glofnd_batch_extra *extra);
void bank_free(glofnd_batch_extra *extra);

double weight_error(const ref_step *r);   /* relative error allowed for a weight, see above */
double gradient_scale(const ref_step *r); /* largest gradient before the projection */
void expect_outputs(const scene *s, int step, const glofnd_batch *q, const outputs *out, const ref_step *r);
void expect_keep(const scene *s, int step, const outputs *out, const ref_step *r);
/* Rows 0 .. n - 1 of a side in one call: on a device each call waits for all work on it. */
void read_rows(const runner *w, int side, int64_t n, glofnd_anchor *rows);
void expect_store(const scene *s, int step, runner *w, const ref_store *ref, const ref_step *r);

/* All of it: avoids ties, runs `steps` steps through glofnd_step and through the two calls, compares both each time. */
void check_scene_against_reference(scene *s);
