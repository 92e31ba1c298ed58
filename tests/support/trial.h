/* trial.h - small training runs for tests: a trainer from settings, steps of it, its checkpoints, all inside a scratch folder.
 *
 * Anything that fails ends the test with the library's own words.
 */
#pragma once

#include "loop/checkpoint.h"
#include "run/run_folder.h"

typedef struct trial_setting { /* lists end with a NULL key */
    const char *key, *value;
} trial_setting;

typedef struct trial_place { /* files the trainer works with, and its ranks; NULL: none */
    const char *store, *plans;
    gf_comm *comm;
} trial_place;

/* Group setup and teardown: the tests run in a folder of their own. */
int trial_enter(void **state);
int trial_leave(void **state);
int trial_vocabulary(const char *name); /* the smallest one, to that file; 0: done */

void trial_fine(glofnd_status status, const gf_error *err);
/* `base`, then `more` (may be NULL) over it. The test is skipped where networks are not built in. */
gf_trainer *trial_make(const trial_setting *base, const trial_setting *more, trial_place place);
gf_trainer *trial_open(const trial_setting *base, const trial_setting *more); /* not built */
void trial_steps(gf_trainer *t, int n);
void trial_save(gf_trainer *t, const char *run, gf_log_marks marks);
gf_log_marks trial_load(gf_trainer *t, const char *run); /* the newest checkpoint */
