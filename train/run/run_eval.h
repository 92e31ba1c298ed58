/* run_eval.h - the evaluations of a run, read from RUN/eval.jsonl (eval_schema.h, docs/formats.md): the newest record of each
 * kind.
 *
 * Two records are of one kind if they have the same identity: name and settings. `report` and `compare` put only figures of one
 * identity beside each other. */
#pragma once

#include "io/jsonl.h"
#include "run/eval_schema.h"
#include "run/eval_settings.h"

#define GF_EVAL_NAME_MAX 240
#define GF_EVAL_IDENTITY_MAX (GF_EVAL_NAME_MAX + GF_SETTINGS_MAX)

typedef struct gf_eval_line { /* numbers that a record does not have are NaN, texts "" */
    char event[24], protocol[80], dataset[64], detector[24], pairs[24], truth[24], metric[24];
    char data[512], test[512];
    double fraction, k;
    double value[GF_EVAL_KEYS_MAX];      /* by row of gf_eval_keys(event) */
    char settings[GF_SETTINGS_MAX];      /* all its figures depend on, but for what its name says */
    char identity[GF_EVAL_IDENTITY_MAX]; /* its name, a newline, the settings; `untrained` is not part of it */
    int64_t number;                      /* of the line, from 1: larger ones are newer */
    int untrained;
} gf_eval_line;

typedef struct gf_run_eval {
    gf_eval_line *line; /* [count] in the order in which each kind was first seen */
    int count;
    size_t capacity;
    int64_t skipped;                   /* lines that are no JSON objects */
    char unknown[GF_SETTINGS_KEY_MAX]; /* a key that eval_schema.h does not have, as of a newer version; "": none */
} gf_run_eval;

/* A missing file is fine. Stale records, which measured weights that later training replaced, are left out. */
glofnd_status gf_run_eval_read(gf_error *err, const char *run, gf_run_eval *out);
void gf_run_eval_free(gf_run_eval *e); /* a zeroed one is fine */

/* A figure as tables show it: "top1" in percent; NaN: the record does not have it. */
double gf_eval_figure(const gf_eval_line *e, const char *key);
/* Fills the identity from the settings and the other fields. */
void gf_eval_identify(gf_eval_line *e);
/* "linear paper 10 %", "knn k 20", "last epoch" */
void gf_eval_name(const gf_eval_line *e, char *out, size_t bytes);

/* The next line that is a JSON object; others are added to *skipped. 0: the end, or a failure in r->status. */
int gf_run_line(gf_jsonl_reader *r, int64_t *skipped);
