/* run_log.h - the records of a run, read for a report or while it is training: config.cfg, log.jsonl (log_schema.h), memory.json,
 * eval.jsonl (run_eval.h).
 *
 *     gf_run_log r;  TRY(gf_run_log_read(err, "run1", &r));  ...  gf_run_log_free(&r);
 * or, to follow new lines:
 *     gf_run_tail t;  TRY(gf_run_tail_open(err, "run1", &t));  while (...) TRY(gf_run_tail_more(&t));  gf_run_tail_close(&t);
 *
 * Lines that are no JSON objects are counted and skipped; a last line that is still being written is left for later.
 */
#pragma once

#include "run/config.h"
#include "run/log_schema.h"
#include "run/memory_file.h"
#include "run/run_eval.h"
#include "util/path.h"

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
/* "runs/a/" is "a"; "." and ".." stay. */
void gf_run_name(const char *run, char *out, size_t bytes);

/* ----- while it is training ----- */

typedef struct gf_run_tail {
    gf_run_log log;
    gf_error *err; /* borrowed */
    gf_jsonl_reader lines;
    int64_t end, end_skipped; /* of the last line that was read: its end in bytes, skipped lines before it */
    char file[PATH_MAX];
} gf_run_tail;

glofnd_status gf_run_tail_open(gf_error *err, const char *run, gf_run_tail *t);
/* Reads the lines that are new; a log that became shorter (of a resumed run) is read again. */
glofnd_status gf_run_tail_more(gf_run_tail *t);
void gf_run_tail_close(gf_run_tail *t); /* frees t->log as well */
