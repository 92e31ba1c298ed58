/* stored_neighbours.h - reads the folder of a discovery back, for `glofnd discover --from`. */
#pragma once

#include "discover/rethreshold.h"

/* E_FORMAT: a file of it is not as a discovery writes it. E_ARGUMENT: the result of a query, of learned thresholds, or of an
 * earlier version. */
glofnd_status gf_stored_result_read(gf_error *err, const char *folder, gf_stored_result *x);
