/* branch.h - a run that begins as a copy of another one's checkpoint, and continues with other values of late keys
 * (run/config/late_keys.h): with the bits of a run of its own. */
#pragma once

#include "run/config.h"

/* Makes the folder `run`, which does not exist: the checkpoint of `trunk` after `step` steps and its logs, and a config.cfg,
 * there and in the checkpoint, that has the late keys of `config`, which is resolved. It appears whole, or not at all. The trunk
 * may be training meanwhile. */
glofnd_status gf_branch_make(gf_error *err, const char *trunk, int64_t step, const char *run, const gf_config *config);
/* Removes what a killed process has left of it. */
void gf_branch_clean(const char *run);
