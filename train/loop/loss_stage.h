/* loss_stage.h - the method in a training run: from the embeddings of a step to the loss and their gradients.
 *
 * It owns the context, the anchor store and the arrays of a step: on a GPU ids, labels and groups of the batch there, with
 * several ranks the gathered embeddings and links. A step is
 *     gf_loss_stage_begin    the batch is drawn: its ids, labels and groups go where the loss is computed
 *     gf_loss_stage_run      the encoders have embedded it: loss, gradients, lambda and u; only queued on a GPU
 *     gf_loss_stage_finish   waits, and returns the statistics of the batch
 *
 * Until the detector starts (update_epoch) the context has no detector, and the step is that of `detector = none`, bit for
 * bit; equal contents are masked from the first step on (mask_duplicates). Groups of the baselines are made outside of the
 * step: IFND's and those of a file by groups.h, WCL's (detector components) here, of the embeddings of the batch. */
#pragma once

#include "dist/step_ranks.h"
#include "loop/encoders.h"
#include "loop/groups.h"
#include "loop/guide.h"
#include "run/config.h"

typedef struct gf_loss_stage gf_loss_stage;

typedef struct gf_loss_stage_spec {
    const gf_config *config; /* borrowed, as the encoders */
    gf_encoders *encoders;
    gf_comm *comm;                  /* NULL: one rank */
    int64_t samples;                /* of the data: an anchor each */
    int labelled;                   /* they have labels: precision and recall of flags are measured */
    const gf_sample_groups *groups; /* detector groups, of the samples; NULL: of equal contents, or none. Borrowed */
    const gf_guide *guide;          /* detector fixed; NULL: none. Borrowed */
    const char *store_path;         /* working file of the store; NULL: in memory */
} gf_loss_stage_spec;

glofnd_status gf_loss_stage_create(gf_error *err, const gf_loss_stage_spec *spec, gf_loss_stage **out);
/* Several ranks: collective, once all have created theirs. wire: between the memories that the encoders are in. */
glofnd_status gf_loss_stage_connect(gf_error *err, gf_loss_stage *l, gf_comm *wire);
void gf_loss_stage_free(gf_loss_stage *l); /* before the encoders; NULL is fine */

/* b: borrowed until finish. step: for messages. tau: the learned temperature; 0: by the options. bias: the learned one; NAN:
 * by the options. support: embeddings of extra
 * views of the own samples, [fnc_support][rows][dim] on the host, borrowed until finish; NULL: none. */
glofnd_status gf_loss_stage_begin(gf_error *err, gf_loss_stage *l, const gf_batch *b, int64_t step, double tau, double bias,
                                  const float *support);
glofnd_status gf_loss_stage_run(gf_error *err, gf_loss_stage *l);
/* E_NUMERIC: the loss is not finite. */
glofnd_status gf_loss_stage_finish(gf_error *err, gf_loss_stage *l, glofnd_stats *stats, glofnd_counters *counters);
/* Equal for steps that may be replayed from one record; 0: none may. */
uint64_t gf_loss_stage_key(gf_loss_stage *l);

/* For checkpoints and reports. The store is that of all anchors; with several ranks of the drawn ones, or of the averages of all
 * (similarity BANK), and the shard holds this rank's part of all (NULL: one rank). */
glofnd_ctx *gf_loss_stage_ctx(const gf_loss_stage *l);
glofnd_store *gf_loss_stage_store(const gf_loss_stage *l);
gf_shard *gf_loss_stage_shard(const gf_loss_stage *l);
/* Replaces the store by that of a file. E_FORMAT: it holds a different number of anchors. */
glofnd_status gf_loss_stage_load(gf_error *err, gf_loss_stage *l, const char *path);
int64_t gf_loss_stage_bytes(const gf_loss_stage *l); /* held where the encoders are */

/* ----- the learned temperature -----
 *
 * One temperature for all samples, learned with the weights as log(1/tau): an Adam step without decay, a learning rate of its own
 * that falls where tau is small, and bounds. */

typedef struct gf_learned_tau {
    float log_scale; /* log(1/tau) */
    float m, v;      /* moments of its gradient */
} gf_learned_tau;

gf_learned_tau gf_learned_tau_start(const gf_config *c);
double gf_learned_tau_value(const gf_learned_tau *tau);
/* The bias of loss sigmoid, learned as the temperature is. */
typedef struct gf_learned_bias {
    float value;
    float m, v; /* moments of its gradient */
} gf_learned_bias;

void gf_learned_bias_move(gf_learned_bias *bias, const gf_config *c, double grad, double lr, int64_t step);

/* Update number `step` = 1, 2, ...; grad_scale is d loss / d (1/tau), lr the present rate of the weights. */
void gf_learned_tau_move(gf_learned_tau *tau, const gf_config *c, double grad_scale, double lr, int64_t step);
