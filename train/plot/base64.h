/* base64.h - base64 encoding, for data inside pages. */
#pragma once

#include "util/text.h"

#define GF_BASE64_BYTES(n) (((n) + 2) / 3 * 4) /* characters of n bytes */

/* Standard alphabet, padded with '='. */
void gf_text_base64(gf_text *out, const void *bytes, size_t n);
