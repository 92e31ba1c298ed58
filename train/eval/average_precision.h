/* average_precision.h - average precision of a ranking, as Pascal VOC 2007 defines it. */
#pragma once

#include "util/status.h"

/* Mean over the recalls 0, 0.1 ... 1 of the largest precision at that recall or more. score, positive [n]: positive 1 counts as
 * right, 0 as wrong, others are left out. Of equal scores the smaller index comes first. NaN in *out: no positive. */
glofnd_status gf_average_precision11(gf_error *err, const double *score, const uint8_t *positive, int64_t n, double *out);
