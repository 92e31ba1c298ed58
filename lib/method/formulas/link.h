/* link.h - what the other rows of a batch need to know of one row; two of them per sample travel between ranks as bytes. */
#pragma once

#include "glofnd.h"

typedef struct gf_link {
    float theta, floor;   /* keep iff (S <= theta and not of one group) or S <= floor */
    float log_w, inv_tau; /* a kept pair weighs exp(S * inv_tau + log_w) in the gradient */
    float pos, attract;   /* weight of the positive pair; what a flagged pair is attracted with */
    int32_t kept, tie;    /* kept negatives; FNC TOPK: of the scores equal to theta, columns up to this are flagged */
} gf_link;

#if defined(GLOFND_EXPERIMENTAL) && !defined(__cplusplus)
_Static_assert(GLOFND_LINK_BYTES == 2 * sizeof(gf_link), "links of a sample");
#endif
