/* sweep_command.h - the commands of a sweep: arguments of `glofnd pretrain` and `glofnd eval` for a run, and checks of the
 * evaluations before the first run. */
#pragma once

#include "programs/sweep/jobs.h"
#include "programs/sweep/sweep.h"

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
/* The next of argv[*i ...], arguments of `glofnd eval WHAT` behind the run, that is neither a flag nor its value; *i moves past
 * it. NULL: none is left. */
const char *sweep_next_word(const char *what, int argc, const char *const *argv, int *i);

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
