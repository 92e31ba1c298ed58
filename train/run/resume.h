/* resume.h - continuing from a checkpoint: which keys of the configuration may differ, the configuration of a resumed run,
 * and runs that begin as copies of another one.
 *
 * Late keys do nothing before the detector starts. Runs that differ in no other key take the same steps until then, bit for
 * bit (loop/loss_stage.c, phase_of_epoch): they can share them.
 *
 * Some detectors remember the first steps: the learner ring embeddings, similarity bank averages. A checkpoint that has more
 * than a run remembers serves it, too: the rest is left out when it is loaded (loop/anchors.c). */
#pragma once

#include "run/config.h"

enum { GF_REMEMBERS_RING = 1, GF_REMEMBERS_BANK = 2 };

/* All configurations here are resolved. */
/* The epochs before the keys below begin to act; c->epochs: they never do. */
int32_t gf_detector_start(const gf_config *c);
/* GF_REMEMBERS_*: what its detector keeps from the first step on. */
unsigned gf_detector_memory(const gf_config *c);
/* E_OPTION: its detector remembers what `path`, which has `memory`, lacks. */
glofnd_status gf_detector_check_memory(gf_error *err, const gf_config *c, unsigned memory, const char *path);
/* NULL: both take the same steps until the earlier start. Else a key in which they must not differ. */
const char *gf_early_key(const gf_config *a, const gf_config *b);
/* NULL: also, the trunk's checkpoints have all that the branch remembers. Else a key in which they must not differ. */
const char *gf_parting_key(const gf_config *trunk, const gf_config *branch);
/* The values of these keys in `from`. */
glofnd_status gf_late_keys_copy(gf_error *err, gf_config *to, const gf_config *from);

/* ----- resuming -----
 *
 * The configuration that a resumed run continues with: RUN/config.cfg, or the copy in its newest checkpoint where that is lost
 * or cut. */

/* Into *config, which has its presets; they stay if there is no configuration at all. *was: "lost" or "cut", if the run's own
 * file is and the checkpoint's copy was taken; else NULL. */
glofnd_status gf_resume_read(gf_error *err, const char *run, gf_config *config, const char **was);
/* Checks that checkpoint `from` of the run can continue under `now`, which is resolved (gf_config_same_run); epoch_steps: of an
 * epoch, to know whether it has thresholds, which only their own learner continues; 0: weights alone count. A checkpoint of an
 * earlier version has no configuration: then the run's counts, if it exists. */
glofnd_status gf_resume_check(gf_error *err, const char *run, const char *from, const gf_config *now, int64_t epoch_steps);
/* Writes RUN/config.cfg again from the copy in checkpoint `from`. */
glofnd_status gf_resume_restore(gf_error *err, const char *run, const char *from);

/* ----- branches -----
 *
 * A run that begins as a copy of another one's checkpoint, and continues with other values of late keys
 *: with the bits of a run of its own. */

/* Makes the folder `run`, which does not exist: the checkpoint of `trunk` after `step` steps and its logs, and a config.cfg,
 * there and in the checkpoint, that has the late keys of `config`, which is resolved. It appears whole, or not at all. The trunk
 * may be training meanwhile. */
glofnd_status gf_branch_make(gf_error *err, const char *trunk, int64_t step, const char *run, const gf_config *config);
/* Removes what a killed process has left of it. */
void gf_branch_clean(const char *run);
