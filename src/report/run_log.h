/* run_log.h - what a run left behind, read for a report: config.cfg, the epochs of log.jsonl, the evaluations of eval.jsonl. */
#ifndef GF_REPORT_RUN_LOG_H
#define GF_REPORT_RUN_LOG_H

#include "train/config.h"

/* What is kept of an epoch: X(field, key in log.jsonl, factor). Missing or null: NaN. */
#define GF_RUN_FIELDS(X)                                                                                              \
    X(LOSS, "loss", 1.0) X(LAMBDA, "lambda", 1.0) X(FLAGGED, "flagged", 100.0) X(PRECISION, "precision", 100.0)        \
    X(RECALL, "recall", 100.0) X(F1, "f1", 100.0) X(POOLED_PRECISION, "pooled_precision", 100.0)                      \
    X(POOLED_RECALL, "pooled_recall", 100.0) X(SECONDS, "time_elapsed", 1.0)

typedef enum gf_run_field {
#define GF_RUN_X(name, key, factor) GF_RUN_##name,
    GF_RUN_FIELDS(GF_RUN_X)
#undef GF_RUN_X
    GF_RUN_FIELD_COUNT
} gf_run_field;

typedef struct gf_run_log {
    char name[128];             /* last part of the folder's path */
    gf_config config;
    int64_t epochs, room;
    double *field[GF_RUN_FIELD_COUNT];  /* [epochs] each */
    double knn, knn_untrained;  /* top-1 in percent, the newest of each; NaN: not evaluated */
    int64_t knn_k;
    char knn_test[256];         /* what it was tested on; "" if it was not */
} gf_run_log;

/* E_IO: not the folder of a run. E_FORMAT names the file and line. A missing eval.jsonl is fine. */
glofnd_status gf_run_log_read(gf_error *err, const char *run, gf_run_log *out);
void gf_run_log_free(gf_run_log *r);
/* Of the last epoch; NaN if there is none. */
double gf_run_last(const gf_run_log *r, gf_run_field field);

#endif
