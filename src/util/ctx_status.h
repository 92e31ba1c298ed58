/* ctx_status.h - a context's message as ours: the library's own calls inside of larger things. */
#ifndef GF_UTIL_CTX_STATUS_H
#define GF_UTIL_CTX_STATUS_H

#include "util/status.h"

static inline glofnd_status gf_ctx_status(gf_error *err, const glofnd_ctx *c, glofnd_status status) {
    FAIL_IF(err, status != GLOFND_OK, status, "%s", glofnd_ctx_error(c));
    return GLOFND_OK;
}

#endif
