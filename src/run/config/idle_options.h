/* idle_options.h - options that are set, but have no effect with the others of a configuration. */
#pragma once

#include "run/config.h"

/* The k-th of them (from 0) in words, or NULL when there are no more. c: resolved. */
const char *gf_idle_option(const gf_config *c, int k);
