/* told.h - a context's message as ours: the library's own calls inside of larger things. */
#ifndef GF_BASE_TOLD_H
#define GF_BASE_TOLD_H

#include "base/status.h"

static inline glofnd_status gf_told(gf_error *err, const glofnd_ctx *c, glofnd_status status) {
    FAIL_IF(err, status != GLOFND_OK, status, "%s", glofnd_ctx_error(c));
    return GLOFND_OK;
}

#endif
