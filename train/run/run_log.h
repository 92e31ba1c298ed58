/* run_log.h - what a run records while it trains: the keys of RUN/log.jsonl, each once and in the order of the file, its memory,
 * and reading both. Other events of the file, which no report reads, are "damaged" and "remap" (loop/monitor.c).
 *
 * X(NAME, key, kind, factor). A number that is not finite is null, and a missing number is NaN when read. factor: from the file
 * to figures in reports, as 100 for percent.
 */
#pragma once

#include "io/jsonl.h"
#include "run/config.h"
#include "run/run_eval.h"
#include "util/status.h"
#include "util/text.h"

typedef enum gf_log_kind {
    GF_LOG_INTEGER,
    GF_LOG_NUMBER,
    GF_LOG_CLIP,      /* a number that only runs of task clip have */
    GF_LOG_OPTIONAL,  /* a number that is left out where it does not exist */
    GF_LOG_BOTTLENECK /* the slowest stage of the step, by name: follows from the times */
} gf_log_kind;

/* clang-format off */
#define GF_LOG_STEP_KEYS(X)                                                                                                  \
    X(STEP, "step", INTEGER, 1.0)                     X(EPOCH, "epoch", INTEGER, 1.0)                                         \
    X(LOSS, "loss", NUMBER, 1.0)                      X(LR, "lr", NUMBER, 1.0)                                                \
    X(GRAD_NORM, "grad_norm", NUMBER, 1.0)            X(LAMBDA, "lambda", NUMBER, 1.0)                                        \
    X(KEPT, "kept", NUMBER, 100.0)                    X(LOG_U, "log_u", NUMBER, 1.0)                                          \
    X(TAU, "tau", CLIP, 1.0)                          X(RESCUED, "rescued", INTEGER, 1.0)                                     \
    X(TIME_LOAD, "time_load", NUMBER, 1e3)            X(TIME_FORWARD, "time_forward", NUMBER, 1e3)                            \
    X(TIME_LOSS, "time_loss", NUMBER, 1e3)            X(TIME_BACKWARD, "time_backward", NUMBER, 1e3)                          \
    X(TIME_OPTIMIZER, "time_optimizer", NUMBER, 1e3)  X(TIME_READ, "time_read", NUMBER, 1e3)                                  \
    X(TIME_AUGMENT, "time_augment", NUMBER, 1e3)      X(TIME_BOTTLENECK, "time_bottleneck", BOTTLENECK, 1.0)                  \
    X(SPEED, "images_per_s", NUMBER, 1.0)             X(NEIGHBOURS, "neighbours", OPTIONAL, 1.0)          \
    X(BIAS, "bias", OPTIONAL, 1.0)

#define GF_LOG_EPOCH_KEYS(X)                                                                                                 \
    X(STEP, "step", INTEGER, 1.0)                     X(EPOCH, "epoch", INTEGER, 1.0)                                         \
    X(LOSS, "loss", NUMBER, 1.0)                      X(LAMBDA, "lambda", NUMBER, 1.0)                                        \
    X(LAMBDA_IMAGE, "lambda_image", CLIP, 1.0)        X(LAMBDA_TEXT, "lambda_text", CLIP, 1.0)                                \
    X(KEPT, "kept", NUMBER, 100.0)                    X(FLAGGED, "flagged", NUMBER, 100.0)                                    \
    X(PRECISION, "precision", NUMBER, 100.0)          X(RECALL, "recall", NUMBER, 100.0)                                      \
    X(F1, "f1", NUMBER, 100.0)                        X(POOLED_PRECISION, "pooled_precision", NUMBER, 100.0)                  \
    X(POOLED_RECALL, "pooled_recall", NUMBER, 100.0)  X(POOLED_F1, "pooled_f1", NUMBER, 100.0)                                \
    X(DAMAGED, "damaged", INTEGER, 1.0)               X(SECONDS, "time_elapsed", NUMBER, 1.0)                                 \
    X(KNN, "knn", OPTIONAL, 100.0)
/* clang-format on */

#define GF_LOG_X(name, key, kind, factor) GF_STEP_##name,
typedef enum gf_run_step { GF_LOG_STEP_KEYS(GF_LOG_X) GF_RUN_STEP_COUNT } gf_run_step;
#undef GF_LOG_X
#define GF_LOG_X(name, key, kind, factor) GF_RUN_##name,
typedef enum gf_run_field { GF_LOG_EPOCH_KEYS(GF_LOG_X) GF_RUN_FIELD_COUNT } gf_run_field;
#undef GF_LOG_X

typedef struct gf_log_key {
    const char *key;
    gf_log_kind kind;
    double factor;
} gf_log_key;

typedef struct gf_log_event {
    const char *name; /* of the event */
    const gf_log_key *key;
    int count;
} gf_log_event;

extern const gf_log_event gf_log_step, gf_log_epoch;

/* Begins a line with the event and its keys; value [count] as in the file, without factors. gf_jsonl_end ends it. */
void gf_log_write(gf_jsonl *j, const gf_log_event *event, const double *value, int clip);

/* ----- memory -----
 *
 * RUN/memory.json: the memory that a run holds, by kind, for reports. It is not in log.jsonl, since the peak differs between
 * equal runs. */

/* Bytes of the memory that the nets are in: a GPU's, or the host's. */
typedef struct gf_memory_split {
    int64_t weights;     /* parameters, running averages, gradients, working copies */
    int64_t optimizer;   /* its state; gradients of parts added up */
    int64_t activations; /* kept by forward for backward, and gradients on their way */
    int64_t workspace;   /* scratch of layers, tables */
    int64_t loss;        /* embeddings and their gradients, the method's arrays, state of the anchors */
    int64_t data;        /* batches ready or under way; images that stay on the GPU */
    int64_t peak;        /* max in use: CPU, by the process; GPU, by all processes on it, libraries included */
} gf_memory_split;

typedef struct gf_memory_record {
    int known;     /* 0: no record */
    int64_t step;  /* after which it was written */
    int64_t ranks; /* the record is the first one's */
    int gpu;
    int64_t anchors; /* samples with a state of their own, on all ranks */
    gf_memory_split bytes;
} gf_memory_record;

/* Replaces the file of an earlier step. */
glofnd_status gf_memory_write(gf_error *err, const char *run, const gf_memory_record *r);

/* ----- reading -----
 *
 * The records of a run, also while it is training: config.cfg, log.jsonl, memory.json,
 * eval.jsonl (run_eval.h).
 *
 *     gf_run_log r;  TRY(gf_run_log_read(err, "run1", &r));  ...  gf_run_log_free(&r);
 *
 * Lines that are no JSON objects are counted and skipped; a last line that is still being written is left for later. */

typedef struct gf_run_log {
    char name[128]; /* last part of the folder's path */
    char path[1024];
    gf_config config;
    int64_t epochs, epoch_capacity;
    double *field[GF_RUN_FIELD_COUNT]; /* [epochs] each, by the number of the epoch; NaN where its line is missing */
    int64_t steps, step_capacity;
    double *step[GF_RUN_STEP_COUNT]; /* [steps] each */
    int64_t epoch_steps;             /* steps of an epoch; 0: unknown before the first has ended */
    int64_t skipped;                 /* lines of both files that are no JSON objects */
    int64_t damaged;                 /* unreadable samples */
    int finished;                    /* the final weights exist */
    int labelled;                    /* some epoch was measured against labels */
    gf_memory_record memory;
    gf_run_eval eval;
} gf_run_log;

/* E_IO: not a run folder. Missing logs and evaluations are fine. */
glofnd_status gf_run_log_read(gf_error *err, const char *run, gf_run_log *out);
void gf_run_log_free(gf_run_log *r); /* a zeroed one is fine */
/* A number of a log as a count; 0 if it is none. */
int64_t gf_run_count(double x);
/* Value of the last epoch; NaN if there is none. */
double gf_run_last(const gf_run_log *r, gf_run_field field);
double gf_run_last_of(const gf_run_log *r, const char *key); /* by its key in log.jsonl; NaN if there is none */
/* Mean over the last `max` logged steps that have the figure; NaN if none has. */
double gf_run_step_mean(const gf_run_log *r, gf_run_step field, int64_t max);
/* Position of logged step i in epochs: 2.5 is the middle of the third. In steps where the length of an epoch is unknown. */
double gf_run_place(const gf_run_log *r, int64_t i);
