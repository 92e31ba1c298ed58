/* status.c - see status.h; the status list itself is the X-macro in glofnd.h. */
#include "util/status.h"

#include <stdarg.h>
#include <stdio.h>

glofnd_status gf_fail(gf_error *err, glofnd_status status, const char *fmt, ...) {
    if (err) {
        va_list args;
        va_start(args, fmt);
        vsnprintf(err->text, sizeof err->text, fmt, args);
        va_end(args);
    }
    return status;
}

const char *glofnd_status_text(glofnd_status status) {
    switch (status) {
#define GLOFND_X(name, value, text) \
    case GLOFND_##name: return text;
        GLOFND_STATUS_LIST(GLOFND_X)
#undef GLOFND_X
    case GLOFND_STATUS_MAX_: break;
    }
    return "unknown status";
}

const char *glofnd_status_name(glofnd_status status) {
    switch (status) {
#define GLOFND_X(name, value, text) \
    case GLOFND_##name: return "GLOFND_" #name;
        GLOFND_STATUS_LIST(GLOFND_X)
#undef GLOFND_X
    case GLOFND_STATUS_MAX_: break;
    }
    return "GLOFND_E_UNKNOWN";
}

glofnd_status gf_struct_check(gf_error *err, const char *name, const char *type, size_t size, size_t smallest, size_t known) {
    FAIL_IF(err, size < smallest || size > known, GLOFND_E_ARGUMENT,
            "%s.size is %zu, this library knows %zu to %zu: set it to sizeof(%s)", name, size, smallest, known, type);
    return GLOFND_OK;
}

glofnd_status gf_explain(glofnd_status status, const gf_error *err, char *why, size_t why_bytes) {
    if (why && why_bytes) snprintf(why, why_bytes, "%s", status == GLOFND_OK ? "" : err->text);
    return status;
}
