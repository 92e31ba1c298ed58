/* sweep.h - the plan of a sweep: the runs of a grid of values and seeds, and OUT/sweep.jsonl, the record of finished ones. */
#pragma once

#include <limits.h>
#include <stdatomic.h>
#include <sys/types.h>

#include "report/compare.h"
#include "run/config.h"

enum { SWEEP_CONFIG_MAX = 8, SWEEP_VARY_MAX = 8, SWEEP_SET_MAX = 64, SWEEP_EVAL_MAX = 8, SWEEP_VALUES_MAX = 256 };

typedef struct sweep_axis {
    const char *key;
    const char *value[SWEEP_VALUES_MAX];
    int count;
    int source; /* of the plan, when it was given */
} sweep_axis;

typedef struct sweep_plan {
    const char *verb;         /* whose messages these are: sweep, reproduce */
    const char *out, *choose; /* folder; text in the name of the figure that chooses, or NULL */
    const char *config[SWEEP_CONFIG_MAX];
    sweep_axis vary[SWEEP_VARY_MAX], seeds;
    const char *set[SWEEP_SET_MAX];   /* "key=value" */
    const char *eval[SWEEP_EVAL_MAX]; /* "linear --fractions 100,10": arguments of `glofnd eval` */
    int config_count, vary_count, set_count, eval_count;
    int source;        /* counts the files that settings come from, then the command line: a later one wins */
    int config_source; /* of config[] */
    int64_t jobs;
    int share;  /* runs share what comes before their detectors: share.h */
    char *text; /* memory of the texts above */
    size_t text_used, text_capacity;
} sweep_plan;

typedef struct sweep_run {
    char name[200], path[1024];
    const char *value[SWEEP_VARY_MAX]; /* of plan->vary */
    const char *seed;
    gf_config config, resolved;   /* as given; with open values filled */
    uint32_t config_crc;          /* runs made under a different configuration are refused */
    int finished;                 /* by sweep.jsonl, and its weights exist */
    unsigned evaluated;           /* bits of plan->eval */
    int waited;                   /* 1: the message that its folder is in use was printed */
    int group;                    /* share.h: runs of equal numbers take the same steps until their detectors start */
    int trunk;                    /* it begins as a copy of this run; -1: by itself */
    int32_t from;                 /* after so many epochs */
    int64_t epoch_steps;          /* 0: not needed */
    int32_t keep[GF_KEPT_EPOCHS]; /* checkpoint_epochs: its own, and those of its branches */
    int keep_count;
} sweep_run;

/* One setting by name, as on the command line or in a sweep file: config, vary, seeds, set, data, eval, jobs, share, choose, out.
 * `folder`: of a relative config, or NULL. Texts are copied. */
glofnd_status sweep_set(gf_error *err, sweep_plan *p, const char *key, const char *value, const char *folder);
/* A sweep file: lines `key = value` with these names, # comments. */
glofnd_status sweep_read(gf_error *err, sweep_plan *p, const char *path);
void sweep_free(sweep_plan *p);

/* All runs of the grid, checked: the first axis varies slowest, seeds fastest. *runs is to be freed. */
glofnd_status sweep_make(gf_error *err, const sweep_plan *p, sweep_run **runs, int *count);
/* Reads OUT/sweep.jsonl. E_ARGUMENT: a run of this name was made under a different configuration. */
glofnd_status sweep_read_log(gf_error *err, const sweep_plan *p, sweep_run *runs, int count);
/* Appends a record: event "start", "finished" or "evaluated" (with the arguments of the evaluation). */
glofnd_status sweep_record(gf_error *err, const sweep_plan *p, const sweep_run *r, const char *event, const char *eval);
int sweep_has_model(const sweep_run *r); /* the final weights exist */

/* ----- jobs ----- */

/* Commands of this program as processes, some at a time; each with its own log file. */

#define JOB_ARGUMENTS_MAX 192

typedef enum job_state { JOB_WAITING, JOB_RUNNING, JOB_DONE, JOB_FAILED } job_state;

typedef struct job {
    const char *argv[JOB_ARGUMENTS_MAX]; /* ends with NULL; argv[0] is the name of the program */
    char log[PATH_MAX];                  /* its output is appended here */
    void *user;
    job_state state; /* DONE from the start: left out */
    pid_t pid;
    int signal; /* that ended it; 0: none did */
} job;

typedef struct jobs {
    job *job;
    int count, parallel;
    const atomic_int *stop;           /* set: running jobs are asked to end (SIGTERM), waiting ones stay so */
    int (*ready)(void *user, job *j); /* 0: it cannot start yet, but will once others have gone on; NULL: all can */
    void (*started)(void *user, job *j);
    int (*ended)(void *user, job *j, int exit_code); /* 0: it counts as failed */
    void (*tick)(void *user);                        /* several times a second */
    void *user;
} jobs;

/* Runs all that wait, and returns when all have ended. The number that failed or could not be started. */
int jobs_run(jobs *all);

/* ----- commands -----
 *
 * The commands of a sweep: arguments of `glofnd pretrain` and `glofnd eval` for a run, and checks of the evaluations before the
 * first run. */

#define SWEEP_COMMAND_MAX (1 << 15) /* bytes of the arguments */

typedef struct sweep_command { /* argv of a job, and its memory */
    job *job;
    int count;
    char *text; /* [SWEEP_COMMAND_MAX] */
    size_t used;
    int cut; /* 1: some arguments did not fit, and the command must not be run */
} sweep_command;

void sweep_pretrain_command(sweep_command *w, const sweep_plan *p, const sweep_run *r);
/* The data of the run is added to a call that names none. */
void sweep_eval_command(sweep_command *w, const sweep_run *r, const char *call);

/* E_OPTION: an evaluation has wrong arguments. The messages of `glofnd eval` go to stderr. */
glofnd_status sweep_check_calls(gf_error *err, const sweep_plan *p, const sweep_run *first);
/* After sweep_read_log. E_OPTION: the data of a run that is still to be trained cannot be opened; or a missing evaluation is not
 * for runs of this task, or its data cannot be opened or lacks labels or captions. */
glofnd_status sweep_check_data(gf_error *err, const sweep_plan *p, const sweep_run *runs, int count);

/* Ends a sweep of which all that can be is finished. */
typedef glofnd_status (*sweep_end)(gf_error *err, const sweep_plan *p, const sweep_run *runs, int count, void *user);
/* Pretrains and evaluates what is missing, then `end`, or compares if that is NULL; dry: only lists the runs. Returns an exit
 * code. */
int sweep_run_plan(const sweep_plan *p, int dry, sweep_end end, void *user);

/* ----- shared steps -----
 *
 * Sweep --share: runs that take the same steps until their detectors start (run/resume.h) share them.
 *
 * Of such a group the run that remembers most, and of these the one whose detector starts last, is trained as it is, and keeps
 * its checkpoints where others start. These, its branches, begin as copies of them. A branch may be the trunk of others in
 * turn: one that starts later than its trunk has checkpoints that others can begin with. */

/* Sets trunk, from and keep of the runs, by what is on the disk: only runs without a folder become branches. */
glofnd_status sweep_share_plan(gf_error *err, const sweep_plan *p, sweep_run *runs, int count);
/* 1: the branch r can start: its folder is there now, or it has become a run of its own. 0: its checkpoint is still to come.
 * trunk_ended: the trunk makes none now. said: a line about it, or "". */
int sweep_share_begin(sweep_run *runs, int count, sweep_run *r, int trunk_ended, char *said, size_t bytes);
/* Removes shared checkpoints that no run needs any more, but for the newest ones that every run keeps; `leftovers`: also copies
 * that a kill has cut, when none is being made. */
void sweep_share_clean(const sweep_plan *p, const sweep_run *runs, int count, int leftovers);
/* What is shared, a line each: for people. */
void sweep_share_print(FILE *to, const sweep_plan *p, const sweep_run *runs, int count);
