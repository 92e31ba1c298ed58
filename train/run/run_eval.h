/* run_eval.h - the evaluations of a run, RUN/eval.jsonl: the keys, each once (event, key, role, and how a figure is shown),
 * writing and reading records.
 *
 * The table in run_eval.c drives the writer, the reader, the settings that decide which records are comparable, `compare`,
 * `report` and `sweep --choose`. A new figure is one row there, one call of the writer, and one word in FORMATS.md.
 *
 * A record of a newer version may have keys that the table does not have. A key of another event has the role it has there;
 * time_* is a time; any other key is a setting, so that records which differ in it are not compared by mistake. */
#pragma once

#include "io/jsonl.h"
#include "run/config.h"
#include "util/status.h"
#include "util/text.h"

#define GF_EVAL_TRAINED "trained" /* event: training continued, all records before it are stale */
#define GF_EVAL_EPOCH "epoch"     /* event of log.jsonl; its figures are compared like those of eval.jsonl */
#define GF_EVAL_KEYS_MAX 24       /* keys of one event */

typedef enum gf_eval_role {
    GF_EVAL_NAME,    /* part of the record's name, or implied by it */
    GF_EVAL_SETTING, /* the figures depend on it: records that differ in it are not compared */
    GF_EVAL_FIGURE,  /* measured, or implied by the settings */
    GF_EVAL_TIME     /* seconds; differs between equal calls */
} gf_eval_role;

typedef struct gf_eval_key {
    const char *key;
    gf_eval_role role;
    const char *title;  /* of a figure in tables; NULL: it is recorded only */
    double factor;      /* from the record to the table: 100 for shares in percent */
    int better;         /* 1: higher is better, -1: lower is, 0: neither */
    int detail;         /* `compare` shows it only with --all */
    const char *unless; /* "KEY" or "KEY=VALUE": in records that have it the setting is implied */
} gf_eval_key;

/* The rows of an event, without those that every record has; NULL and 0 for an unknown event. */
const gf_eval_key *gf_eval_keys(const char *event, int *count);
/* The row of a key in records of this event; NULL: they have no such key. */
const gf_eval_key *gf_eval_key_find(const char *event, const char *key);
/* Position of an event in tables. */
int gf_eval_rank(const char *event);
/* 1: the name of a figure can have this word in it. Numbers, datasets and protocols with numbers are unknown here. */
int gf_eval_has_word(const char *word);

/* ----- settings -----
 *
 * The settings that the figures of an eval.jsonl record depend on, as text: records with equal settings are comparable.
 *
 * The table says which keys are settings. The text has a line "key=value" for each, by rising key. Long values are
 * truncated and closed by their checksum. */

#define GF_SETTINGS_MAX 3000 /* bytes of the text; a checksum replaces the settings that do not fit */

#define GF_SETTINGS_KEY_MAX 48 /* bytes of a key in the text */

/* Settings of the epochs in the log of a run: the samples and batches that precision and recall were measured on. */
void gf_settings_of_run(const gf_config *config, char out[GF_SETTINGS_MAX]);

/* A key in which a and b differ: the test samples if they do, else the data, names of datasets, or the first key. NULL: they are
 * equal. It ends at '=' or at 0, and may point into a or b. */
const char *gf_settings_difference(const char *a, const char *b);
/* 1: a and b differ in this key. */
int gf_settings_differ(const char *a, const char *b, const char *key);
/* For people: "alpha 0.3", "data SPEC", of the test samples the SPEC alone; "alpha not recorded". */
void gf_settings_describe(const char *settings, const char *key, char *out, size_t bytes);

/* ----- charts -----
 *
 * Figures of an evaluation as TensorBoard shows them: RUN/eval/events.out.tfevents.TIME.PID, a file for each evaluation, so
 * that several may run at a time. They are not in the file of training, which a resumed run cuts.
 *
 * Tag: "EVENT/PROTOCOL NAMES/FIGURE", as "linear/paper-centre fraction=0.1/top1"; step: that of the newest checkpoint. */

typedef struct gf_eval_chart { /* a record in the making */
    char run[PATH_MAX];
    char event[32], names[200];
    int untrained, count;
    struct {
        const char *key; /* of the table */
        double value;
    } figure[GF_EVAL_KEYS_MAX];
} gf_eval_chart;

/* ----- writing -----
 *
 * Appends records to RUN/eval.jsonl, and their figures to files for TensorBoard. Keys are checked against
 * the table: one that records of this event do not have fails, and the record is not written.
 *
 *     gf_eval_writer w = {0};
 *     TRY(gf_eval_writer_open(err, &w, run));
 *     gf_eval_writer_begin(&w, "knn");
 *     gf_eval_put_number(&w, "top1", 0.5);
 *     gf_eval_writer_end(&w);
 *     return gf_eval_writer_close(&w); */

/* The message of close begins with this where eval.jsonl has the records and only the file for TensorBoard failed. */
#define GF_EVAL_CHARTS_LACK "eval.jsonl has it, but TensorBoard's charts lack it"

typedef struct gf_eval_writer { /* all zero: closed */
    gf_jsonl log;
    const char *event; /* of the present record; borrowed */
    gf_eval_chart chart;
    glofnd_status charted; /* first failure of its file: eval.jsonl is written all the same */
} gf_eval_writer;

/* Failures stick, as with gf_jsonl: end and close return the first one; those of the file for TensorBoard only close does. */
glofnd_status gf_eval_writer_open(gf_error *err, gf_eval_writer *w, const char *run);
void gf_eval_writer_begin(gf_eval_writer *w, const char *event);
void gf_eval_put_number(gf_eval_writer *w, const char *key, double x);
void gf_eval_put_integer(gf_eval_writer *w, const char *key, int64_t x);
void gf_eval_put_flag(gf_eval_writer *w, const char *key, int yes);
void gf_eval_put_text(gf_eval_writer *w, const char *key, const char *text);
void gf_eval_put_numbers(gf_eval_writer *w, const char *key, const double *x, int64_t n);
void gf_eval_put_texts(gf_eval_writer *w, const char *key, const char *const *text, int64_t n);
glofnd_status gf_eval_writer_end(gf_eval_writer *w);
glofnd_status gf_eval_writer_close(gf_eval_writer *w);

/* ----- reading -----
 *
 * The evaluations of a run, read from RUN/eval.jsonl (FORMATS.md): the newest record of each kind.
 *
 * Two records are of one kind if they have the same identity: name and settings. `report` and `compare` put only figures of one
 * identity beside each other. */

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
    char unknown[GF_SETTINGS_KEY_MAX]; /* a key that the table does not have, as of a newer version; "": none */
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
