/* ctx_status.h - turns a failed libglofnd call into our own status, with the library's message. */
#ifndef GF_UTIL_CTX_STATUS_H
#define GF_UTIL_CTX_STATUS_H

#include "util/status.h"

static inline glofnd_status gf_ctx_create(gf_error *err, const glofnd_options *o, glofnd_ctx **out) {
    return glofnd_ctx_create(o, out, err ? err->text : NULL, err ? sizeof err->text : 0);
}

static inline glofnd_status gf_ctx_status(gf_error *err, const glofnd_ctx *c, glofnd_status status) {
    FAIL_IF(err, status != GLOFND_OK, status, "%s", glofnd_ctx_error(c));
    return GLOFND_OK;
}

#endif
