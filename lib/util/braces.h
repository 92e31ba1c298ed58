/* braces.h - names from a pattern with braces, as a shell expands them: {000..012} and {a,b}. */
#pragma once

#include "util/string_list.h"

#define GF_BRACES_MAX 1000000 /* names one pattern may expand to */

/* Names in the order they are written. E_ARGUMENT: unbalanced, or more than GF_BRACES_MAX. */
glofnd_status gf_braces_expand(gf_error *err, const char *pattern, gf_string_list *out);
/* The number of names, without expanding it; INT64_MAX: more than GF_BRACES_MAX. */
int64_t gf_braces_count(const char *pattern);
