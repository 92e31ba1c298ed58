/* base64.h - bytes as text, for pages that carry their data inside. */
#ifndef GF_PLOT_BASE64_H
#define GF_PLOT_BASE64_H

#include "util/strings/text_buffer.h"

#define GF_BASE64_BYTES(n) (((n) + 2) / 3 * 4) /* characters of n bytes */

/* The standard alphabet, padded with '='. */
void gf_text_base64(gf_text *out, const void *bytes, size_t n);

#endif
