/* run_data.h - where the data of a run is: config.cfg has its SPEC as it was given, which may be a path relative to the folder
 * where the run was started. */
#pragma once

#include "util/status.h"

/* The SPEC to open. A relative place that does not exist from here is looked for from the run's folder, and from those above
 * it, the nearest first. 1: found there, `out` is the SPEC with that place; 0: `out` is `spec`. */
int gf_run_data_find(const char *run, const char *spec, char *out, size_t bytes);
/* The same of the SPEC in the run's configuration. E_IO: it has none. */
glofnd_status gf_run_data_of(gf_error *err, const char *run, char *out, size_t bytes);
