/* resume.h - continuing from a checkpoint: the configuration of a resumed run, and what its detector needs of the first steps.
 *
 * Some detectors remember the first steps: the learner ring embeddings, similarity bank averages. A checkpoint that has more
 * than a run remembers serves it, too: the rest is left out when it is loaded (loop/anchors.c). */
#pragma once

#include "run/config.h"

enum { GF_REMEMBERS_RING = 1, GF_REMEMBERS_BANK = 2 };

/* All configurations here are resolved. */
/* GF_REMEMBERS_*: what its detector keeps from the first step on. */
unsigned gf_detector_memory(const gf_config *c);
/* E_OPTION: its detector remembers what `path`, which has `memory`, lacks. */
glofnd_status gf_detector_check_memory(gf_error *err, const gf_config *c, unsigned memory, const char *path);
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
