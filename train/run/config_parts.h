/* config_parts.h - shared by the files of run/config. */
#pragma once

#include "run/config.h"

/* The run's options; gf_method_options has the others. */
const gf_option_table *gf_config_table(void);
int gf_config_is_given(const gf_config *c, const char *key);
/* Keys that were not given take the defaults of a new run. */
glofnd_status gf_config_take_defaults(gf_error *err, gf_config *c);

/* ----- shares of the schedule: "35%" ----- */

/* The place of a key in gf_config.share; -1: it takes no share. */
int gf_config_share_of(const char *key);
/* Reads "35%". E_OPTION: the number is not in [0, 100]. */
glofnd_status gf_config_read_share(gf_error *err, const char *key, const char *text, double *share);
/* Shares of the epochs become epochs. That of warmup_steps waits for the number of steps: gf_config_share_steps. */
void gf_config_resolve_shares(gf_config *c);
