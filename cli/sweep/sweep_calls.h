/* sweep_calls.h - the calls of this program that a sweep makes: their words, and what is wrong with them whatever the runs will
 * be. */
#ifndef GF_CLI_SWEEP_SWEEP_CALLS_H
#define GF_CLI_SWEEP_SWEEP_CALLS_H

#include "cli/sweep/jobs.h"
#include "cli/sweep/sweep.h"

#define SWEEP_WORDS_ROOM (1 << 15) /* bytes of the words of a call */

typedef struct sweep_words { /* argv of a job, and the memory behind it */
    job *job;
    int count;
    char *text; /* [SWEEP_WORDS_ROOM] */
    size_t used;
} sweep_words;

void sweep_pretrain_words(sweep_words *w, const sweep_plan *p, const sweep_run *r);
void sweep_eval_words(sweep_words *w, const sweep_run *r, const char *call);

/* E_OPTION: words of an evaluation that cannot be. What `glofnd eval` says of them goes to stderr. */
glofnd_status sweep_check_words(gf_error *err, const sweep_plan *p, const sweep_run *first);
/* After sweep_recall. E_OPTION: the data of a run that is still to be trained cannot be opened, or an evaluation that is still to
 * be made is none for runs of this task, or its data cannot be opened or has not what it needs. */
glofnd_status sweep_check_data(gf_error *err, const sweep_plan *p, const sweep_run *runs, int count);

#endif
