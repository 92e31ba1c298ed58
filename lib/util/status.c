/* status.c - see status.h; the status list itself is the X-macro in glofnd.h. */
#include "util/status.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

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

#define STRUCT_BYTES_MAX 4096 /* a size that was never set is more, most times: what follows such a struct is not read */

glofnd_status gf_struct_check(gf_error *err, const char *name, const char *type, const void *given, size_t smallest,
                              size_t known) {
    size_t size;
    FAIL_IF(err, !given, GLOFND_E_ARGUMENT, "%s is NULL", name);
    memcpy(&size, given, sizeof size);
    FAIL_IF(err, size < smallest || size > STRUCT_BYTES_MAX, GLOFND_E_ARGUMENT, "%s.size is %zu: set it to sizeof(%s)", name,
            size, type);
    for (size_t i = known; i < size; i++)
        FAIL_IF(err, ((const char *)given)[i] != 0, GLOFND_E_ARGUMENT,
                "%s.size is %zu, and a member after the %zu bytes that this library knows is not 0: it needs a newer library",
                name, size, known);
    return GLOFND_OK;
}

void gf_struct_fill(void *out, const void *from, size_t known) {
    size_t size;
    memcpy(&size, out, sizeof size);
    memset(out, 0, size);
    memcpy(out, from, size < known ? size : known);
    memcpy(out, &size, sizeof size);
}

glofnd_status gf_explain(glofnd_status status, const gf_error *err, char *why, size_t why_bytes) {
    if (why && why_bytes) snprintf(why, why_bytes, "%s", status == GLOFND_OK ? "" : err->text);
    return status;
}
