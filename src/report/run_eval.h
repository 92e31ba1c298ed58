/* run_eval.h - the evaluations of a run, read from RUN/eval.jsonl (docs/formats.md): the newest line of each kind. */
#ifndef GF_REPORT_RUN_EVAL_H
#define GF_REPORT_RUN_EVAL_H

#include "io/json/jsonl.h"

typedef struct gf_eval_line {   /* figures a line does not have are NaN, texts "" */
    char event[24], protocol[80], dataset[64], detector[24], pairs[24];
    char data[256], test[256];
    int untrained;
    double fraction, k;
    double top1, top5, score, precision, recall, f1, flagged, alpha, anchors;
    double ir1, ir5, ir10, tr1, tr5, tr10;      /* retrieval: images by their captions, captions by their images */
    double mae, rmse, fnc_mae, fnc_rmse, optimum_mean, lambda_mean;
} gf_eval_line;

typedef struct gf_run_eval {
    gf_eval_line *line;         /* [count] in the order in which each kind was first seen */
    int count, room;
    int64_t skipped;            /* damaged lines */
} gf_run_eval;

/* A file that is not there is fine. */
glofnd_status gf_run_eval_read(gf_error *err, const char *run, gf_run_eval *out);
void gf_run_eval_free(gf_run_eval *e);          /* a zeroed one is fine */

/* The next line that is a JSON object; others are added to *skipped. 0: the end, or a failure in r->status. */
int gf_run_line(gf_jsonl_reader *r, int64_t *skipped);

#endif
