/* late_keys.h - keys of the configuration that do nothing before the detector starts. Runs that differ in no other key take the
 * same steps until then, bit for bit (train/loss_stage.c, options_now): they can share them (run/state/branch.h).
 *
 * Some detectors remember the first steps: the learner ring embeddings, similarity bank averages. A checkpoint that has more than
 * a run remembers serves it, too: the rest is left out when it is loaded (train/checkpoint/fit_anchors.h). */
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
