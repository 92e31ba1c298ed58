/* number_text.h - numbers as text, quickly: what printf gives in the C locale, to the byte.
 *
 * Tables of millions of rows are mostly numbers. Each function writes at `out`, without a 0 at the end, and returns the bytes
 * written. Numbers with at most 8 digits after the point and below a million, such as rounded similarities, take a short way; all
 * others go through snprintf.
 */
#ifndef GF_UTIL_STRINGS_NUMBER_TEXT_H
#define GF_UTIL_STRINGS_NUMBER_TEXT_H

#include <stddef.h>
#include <stdint.h>

enum {
    GF_INTEGER_ROOM = 24,
    GF_FIXED_ROOM = 328, /* 1.8e308 has 309 digits before the point */
    GF_NUMBER_ROOM = 40
};

/* As %lld. out [GF_INTEGER_ROOM] */
size_t gf_integer_text(char *out, int64_t x);
/* As %.8f. out [GF_FIXED_ROOM] */
size_t gf_fixed_text(char *out, double x);
/* For JSON: the shortest of %.15g to %.17g that reads back as x, with ".0" where it would be whole; null where x is not finite.
 * out [GF_NUMBER_ROOM] */
size_t gf_number_text(char *out, double x);

#endif
