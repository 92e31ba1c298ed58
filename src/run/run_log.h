/* run_log.h - what a run left behind, read for a report or while it goes on: config.cfg, log.jsonl, memory.json,
 * eval.jsonl.
 *
 *     gf_run_log r;  TRY(gf_run_log_read(err, "run1", &r));  ...  gf_run_log_free(&r);
 * or, to see what is new every time:
 *     gf_run_tail t;  TRY(gf_run_tail_open(err, "run1", &t));  while (...) TRY(gf_run_tail_more(&t));  gf_run_tail_close(&t);
 *
 * Lines that are no JSON objects are counted and skipped; a last line that is still being written is left for later.
 */
#ifndef GF_RUN_RUN_LOG_H
#define GF_RUN_RUN_LOG_H

#include "run/config.h"
#include "run/log_schema.h"
#include "run/memory_file.h"
#include "run/run_eval.h"

typedef struct gf_run_log {
    char name[128]; /* last part of the folder's path */
    char path[1024];
    gf_config config;
    int64_t epochs, room;
    double *field[GF_RUN_FIELD_COUNT]; /* [epochs] each, by the epoch's number; NaN where the log has lost its line */
    int64_t steps, step_room;
    double *step[GF_RUN_STEP_COUNT]; /* [steps] each */
    int64_t epoch_steps;             /* steps of an epoch; 0: not known before the first has ended */
    int64_t skipped;                 /* damaged lines of both files */
    int64_t damaged;                 /* samples that could not be read */
    int finished;                    /* the final weights are there */
    gf_memory_record memory;
    gf_run_eval eval;
} gf_run_log;

/* E_IO: not the folder of a run. Missing logs and evaluations are fine. */
glofnd_status gf_run_log_read(gf_error *err, const char *run, gf_run_log *out);
void gf_run_log_free(gf_run_log *r); /* a zeroed one is fine */
/* A number of a log as a count: 0 where it is none. */
int64_t gf_run_count(double x);
/* Of the last epoch; NaN if there is none. */
double gf_run_last(const gf_run_log *r, gf_run_field field);
double gf_run_last_of(const gf_run_log *r, const char *key); /* by its key in log.jsonl; NaN if there is none */
/* Mean of the last `most` logged steps that have the figure; NaN if none has. */
double gf_run_step_mean(const gf_run_log *r, gf_run_step field, int64_t most);
/* Where in the run logged step i is, in epochs: 2.5 is the middle of the third. Steps where epochs have no known length. */
double gf_run_place(const gf_run_log *r, int64_t i);
/* "runs/a/" is "a"; "." and ".." stay. */
void gf_run_name(const char *run, char *out, size_t bytes);

/* ----- while it goes on ----- */

typedef struct gf_run_tail {
    gf_run_log log;
    gf_error *err; /* borrowed */
    gf_jsonl_reader lines;
    int64_t end, end_skipped; /* of the last line that was taken: its end in bytes, damaged ones before it */
    char file[1100];
} gf_run_tail;

glofnd_status gf_run_tail_open(gf_error *err, const char *run, gf_run_tail *t);
/* Takes the lines that came since; a log that became shorter (a run that was resumed) is read anew. */
glofnd_status gf_run_tail_more(gf_run_tail *t);
void gf_run_tail_close(gf_run_tail *t); /* frees t->log as well */

#endif
