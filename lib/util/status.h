/* status.h - how library code reports failure: a status, and a text in the caller's gf_error.
 *
 * FAIL_IF at the origin, TRY on the way up. GF_FAIL is for the unconditional case.
 *     FAIL_IF(err, n < 1, GLOFND_E_ARGUMENT, "n is %lld; it must be at least 1", (long long)n);
 *     TRY(gf_store_check(err, spec));
 */
#pragma once

#include "glofnd.h"

typedef struct gf_error {
    char text[512];
} gf_error;

/* Writes the text (err may be NULL) and returns `status`. */
glofnd_status gf_fail(gf_error *err, glofnd_status status, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* A struct of the caller, which begins with its size (Growth in glofnd.h). E_ARGUMENT if it is shorter than that of 1.0, or uses
 * members after the `known` bytes. GF_STRUCT_OUT for `known`: it is to be filled, by gf_struct_fill(). */
#define GF_STRUCT_OUT SIZE_MAX
glofnd_status gf_struct_check(gf_error *err, const char *name, const char *type, const void *given, size_t smallest,
                              size_t known);
void gf_struct_fill(void *out, const void *from, size_t known);

#define GF_FAIL(err, status, ...) return gf_fail((err), (status), __VA_ARGS__)
#define FAIL_IF(err, cond, status, ...)                         \
    do {                                                        \
        if (cond) return gf_fail((err), (status), __VA_ARGS__); \
    } while (0)
#define TRY(expr)                                         \
    do {                                                  \
        glofnd_status try_status_ = (expr);               \
        if (try_status_ != GLOFND_OK) return try_status_; \
    } while (0)

/* Failed libglofnd calls as our own status, with the text of the library. */
static inline glofnd_status gf_ctx_create(gf_error *err, const glofnd_options *o, glofnd_ctx **out) {
    return glofnd_ctx_create(o, out, err ? err->text : NULL, err ? sizeof err->text : 0);
}

static inline glofnd_status gf_ctx_status(gf_error *err, const glofnd_ctx *c, glofnd_status status) {
    FAIL_IF(err, status != GLOFND_OK, status, "%s", glofnd_ctx_error(c));
    return GLOFND_OK;
}
/* Hands the text of a failure (or "" for none) to a caller without context. */
glofnd_status gf_explain(glofnd_status status, const gf_error *err, char *why, size_t why_bytes);
