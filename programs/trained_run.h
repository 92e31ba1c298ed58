/* trained_run.h - what the verbs that open a trained run share: progress over images and pairs, warnings, and the device. */
#pragma once

#include "data/dataset.h"
#include "eval/encode.h"
#include "programs/cli.h"
#include "run/progress.h"

#define EVAL_NOT_LEARNED "%s has no learned thresholds: its detector never started or learns none, or no checkpoint is left"

#define EVAL_NAMED 3 /* samples that are named when they are left out; the others are counted */

typedef struct eval_progress {
    gf_progress line;
    const char *what;
} eval_progress;

void eval_progress_begin(eval_progress *p, const char *what);
void eval_progress_draw(void *user, int64_t done, int64_t total);      /* user: a eval_progress */
void eval_progress_pairs(void *user, const char *stage, double share); /* of a gf_sweep_job */
void eval_progress_end(eval_progress *p);                              /* reports how many were left out, if not all were named */
void eval_warn(void *user, int64_t i, const char *message);            /* of an unreadable sample */
void eval_note(const gf_dataset *d);                                   /* gf_dataset_note, if there is one; d may be NULL */
void eval_warn_caption(void *user, int64_t i, const char *message);    /* of one whose image is used all the same */

/* ----- the device -----
 *
 * Where the encoder of a run works: --device and --threads of `embed`, `discover` and all of `eval`. */

typedef struct device_flags {
    const char *device; /* NULL: as the run was trained */
    int64_t threads;    /* 0: as the run */
} device_flags;

#define DEVICE_USAGE "[--device cpu|cuda] [--threads N]"
/* Their rows; f: a device_flags within s. */
#define DEVICE_FLAGS(s, f)                                                                                                     \
    CLI_STRING(s, f.device, "device", "NAME", "cpu or cuda; default: the device of the run, or the CPU if it is unavailable"), \
        CLI_INTEGER(s, f.threads, "threads", "N", NULL, 1, 1024, "number of threads; default: as the run; changes no result")

/* CLI_USAGE with a message if there is no such device. */
int device_flags_check(const char *title, const char *device);
int device_flags_read(const cli_call *call, const device_flags *f, gf_encoder_device *out);
/* Reports on stderr the step of the weights, and that the run's own device cannot be used, where that is so. `verb` begins the
 * line. */
void device_flags_report(const char *verb, const gf_run_encoder *e);
/* Opens the encoder and reports. */
glofnd_status device_flags_open(gf_error *err, const char *verb, const gf_run_encoder_spec *spec, gf_run_encoder **out);
