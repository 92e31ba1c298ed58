/* run_eval.h - the evaluations of a run, read from RUN/eval.jsonl (docs/formats.md): the newest line of each kind.
 *
 * What makes two lines the same kind is said here once, by their key: `report` and `compare` put only figures of one key beside
 * each other. */
#ifndef GF_RUN_RUN_EVAL_H
#define GF_RUN_RUN_EVAL_H

#include "io/json/jsonl.h"
#include "run/eval_settings.h"

#define GF_EVAL_NAME 240
#define GF_EVAL_KEY (GF_EVAL_NAME + GF_SETTINGS)

typedef struct gf_eval_line { /* figures a line does not have are NaN, texts "" */
    char event[24], protocol[80], dataset[64], detector[24], pairs[24], truth[24], metric[24];
    char data[512], test[512];
    char settings[GF_SETTINGS]; /* all its figures depend on, but for what its name says */
    char key[GF_EVAL_KEY];      /* its name, a newline, the settings: what was measured; not whether untrained */
    int64_t number;             /* of the line, from 1: larger ones are newer */
    int untrained;
    double fraction, k, temperature;
    double top1, top5, score, precision, recall, f1, flagged, alpha, anchors;
    double ir1, ir5, ir10, tr1, tr5, tr10, mean; /* retrieval: images by their captions, captions by their images */
    double mae, rmse, fnc_mae, fnc_rmse, optimum_mean, lambda_mean;
} gf_eval_line;

typedef struct gf_run_eval {
    gf_eval_line *line; /* [count] in the order in which each kind was first seen */
    int count, room;
    int64_t skipped; /* damaged lines */
} gf_run_eval;

/* How many lines at the beginning of an eval.jsonl are about weights that are no more: training went on after them. */
glofnd_status gf_run_eval_stale(gf_error *err, const char *path, int64_t *lines);
/* A file that is not there is fine. */
glofnd_status gf_run_eval_read(gf_error *err, const char *run, gf_run_eval *out);
void gf_run_eval_free(gf_run_eval *e); /* a zeroed one is fine */

gf_eval_line gf_eval_line_of(const gf_jsonl_reader *r);
/* Fills the key from the name, which other fields make, and the settings. */
void gf_eval_identify(gf_eval_line *e);
/* "linear paper 10 %", "knn k 20", "last epoch" */
void gf_eval_name(const gf_eval_line *e, char *out, size_t bytes);

/* The next line that is a JSON object; others are added to *skipped. 0: the end, or a failure in r->status. */
int gf_run_line(gf_jsonl_reader *r, int64_t *skipped);

#endif
