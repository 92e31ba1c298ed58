/* spec.h - the text that names a dataset: format:place?option=value&option=value.
 *
 * Options begin at the last '?' that is followed by `word=`, so that globs may contain '?'.
 */
#pragma once

#include "util/status.h"

#define GF_SPEC_OPTIONS 16
#define GF_SPEC_BYTES 8192

typedef struct gf_spec {
    char *text;                 /* a copy, cut into the strings below */
    const char *format, *place; /* place may be "" */
    int options;
    struct {
        const char *key, *value;
    } option[GF_SPEC_OPTIONS];
} gf_spec;

glofnd_status gf_spec_parse(gf_error *err, const char *text, gf_spec *out);
/* Parses the place as a list key=value,key=value of further options (shapes). */
glofnd_status gf_spec_open_place(gf_error *err, gf_spec *s);
/* E_OPTION naming the first option that is not in `known` (ended by NULL), and the known ones. */
glofnd_status gf_spec_check(gf_error *err, const gf_spec *s, const char *const *known);
const char *gf_spec_value(const gf_spec *s, const char *key); /* NULL: not given */
/* *value is unchanged if the option is not given. */
glofnd_status gf_spec_integer(gf_error *err, const gf_spec *s, const char *key, int64_t lo, int64_t hi, int64_t *value);
/* The SPEC as text, with this option set to `value`; 0 if `bytes` are too few. */
int gf_spec_with(const gf_spec *s, const char *key, const char *value, char *out, size_t bytes);
void gf_spec_free(gf_spec *s);
