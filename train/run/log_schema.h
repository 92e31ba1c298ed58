/* log_schema.h - the keys of RUN/log.jsonl, each once and in the order of the file: gf_log_write writes them, run_log.h reads
 * them. Other events of the file, which no report reads, are "damaged", "remap" and "decoder" (train/monitor.c).
 *
 * X(NAME, key, kind, factor). A number that is not finite is null, and a missing number is NaN when read. factor: from the file
 * to figures in reports, as 100 for percent.
 */
#pragma once

#include "io/jsonl.h"

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
    X(SPEED, "images_per_s", NUMBER, 1.0)             X(NEIGHBOURS, "neighbours", OPTIONAL, 1.0)

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
