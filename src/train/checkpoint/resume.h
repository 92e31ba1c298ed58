/* resume.h - which configuration a run goes on with: that of RUN/config.cfg, or where it is lost or cut, that of its newest
 * checkpoint.
 */
#ifndef GF_TRAIN_CHECKPOINT_RESUME_H
#define GF_TRAIN_CHECKPOINT_RESUME_H

#include "run/config.h"

/* Into *config, which has its presets; they stay if there is no configuration at all. *was: "lost" or "cut", if the run's own
 * file is and that of the checkpoint was taken; else NULL. */
glofnd_status gf_resume_read(gf_error *err, const char *run, gf_config *config, const char **was);
/* May checkpoint `from` of the run go on under `now`, which is resolved? gf_config_same_run tells if not. A checkpoint of an
 * earlier version does not know its configuration: the run's, if that is there, speaks for it. */
glofnd_status gf_resume_check(gf_error *err, const char *run, const char *from, const gf_config *now);
/* Makes the file of the run again from that of checkpoint `from`. */
glofnd_status gf_resume_restore(gf_error *err, const char *run, const char *from);

#endif
