/* idle_options.h - options that are set, but have no effect with the others of a configuration. */
#pragma once

#include "run/config.h"

/* Message about the k-th such option (from 0), or NULL if there are k or fewer. c: resolved. */
const char *gf_idle_option(const gf_config *c, int k);
