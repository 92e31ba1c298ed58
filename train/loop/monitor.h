/* monitor.h - the records of a run: log.jsonl, a TensorBoard event file, and the progress line; the thresholds that they show. */
#pragma once

#include "io/jsonl.h"
#include "loop/checkpoint.h"
#include "loop/trainer.h"
#include "run/progress.h"
#include "run/run_folder.h"
#include "run/run_log.h"
#include "run/tfevents.h"

/* ----- thresholds -----
 *
 * The thresholds in force of all anchors, of all ranks: for the log line and histogram of an epoch. */

#define GF_LAMBDAS_MAX 1000000 /* per side: of larger data, those of every k-th anchor */

typedef struct gf_lambdas { /* all zero: none yet */
    float *side[2];         /* [count] of images, of texts (NULL with two views), in the order of samples */
    int64_t count;
} gf_lambdas;

/* Collective: every rank gets all, the same numbers as one rank would. At most `max` are taken, evenly spaced; memory is kept
 * from call to call, for the same trainer. */
glofnd_status gf_lambdas_take(gf_error *err, const gf_trainer *t, int64_t max, gf_lambdas *x);
void gf_lambdas_free(gf_lambdas *x);
double gf_lambdas_mean(const gf_lambdas *x, int side); /* NaN: none */

/* ----- the records ----- */

typedef struct gf_monitor {
    gf_jsonl log;
    gf_events events;
    gf_progress progress;
    double started, summarised; /* by the monotonic clock; the last summary, or 0 */
    int64_t lines;              /* in log.jsonl */
    int events_cut;             /* the event file did not match the marks */
    int restored; /* files that were removed or replaced during training and are written again; to be cleared by the reader */
} gf_monitor;

/* Opens both files, and keeps the part that belongs to `marks` (all zero: new files); what is cut stays in files .cut until
 * gf_monitor_forget_tails. Files that are missing or shorter are no failure: their whole records are kept; `lines` and
 * `events_cut` show it. E_IO: a file cannot be read; it is as it was. */
glofnd_status gf_monitor_open(gf_error *err, gf_monitor *m, const gf_trainer *t, const char *run, gf_log_marks marks,
                              gf_progress_mode mode);
void gf_monitor_close(gf_monitor *m);
/* After every step: the progress line, and every log_steps a record. */
glofnd_status gf_monitor_step(gf_monitor *m, const gf_trainer *t);
/* After the last step of an epoch, with the thresholds as they are then. knn: top-1 of an evaluation, NaN: there was none.
 * value [GF_RUN_FIELD_COUNT]: the record, for others. */
glofnd_status gf_monitor_epoch(gf_monitor *m, const gf_trainer *t, const gf_lambdas *lambdas, double knn, double *value);
/* An epoch as one line of text, at most every ten seconds, after an evaluation and after the last epoch; 0: not now. */
int gf_monitor_summary(gf_monitor *m, const gf_trainer *t, double knn, char *out, size_t bytes);
/* After a resume with other data. */
glofnd_status gf_monitor_remapped(gf_monitor *m, const gf_trainer *t, const gf_remap *found);
/* An unreadable sample, by number and name. */
void gf_monitor_unreadable(gf_monitor *m, const gf_trainer *t, int64_t step, int64_t i, const char *message);
/* To disk; *marks: how much there is. A file that was removed or replaced meanwhile is written again. */
glofnd_status gf_monitor_sync(gf_monitor *m, gf_log_marks *marks);
/* Removes the files .cut of a run. */
void gf_monitor_forget_tails(gf_error *err, const char *run);
