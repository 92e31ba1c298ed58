/* number_text.h - numbers to text and back, as in the C locale, whatever the program set.
 *
 * Tables of millions of rows are mostly numbers, so writing is quick: what printf gives, to the byte. Each function writes at
 * `out`, without a 0 at the end, and returns the bytes written. Numbers with at most 8 digits after the point and below a
 * million, such as rounded similarities, take a short way; all others go through snprintf.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum {
    GF_INTEGER_BYTES = 24,
    GF_FIXED_BYTES = 328, /* 1.8e308 has 309 digits before the point */
    GF_NUMBER_BYTES = 40
};

/* As %lld. out [GF_INTEGER_BYTES] */
size_t gf_integer_text(char *out, int64_t x);
/* As %.8f. out [GF_FIXED_BYTES] */
size_t gf_fixed_text(char *out, double x);
/* For JSON: the shortest of %.15g to %.17g that reads back as x, with ".0" where it would be whole; null where x is not finite.
 * out [GF_NUMBER_BYTES] */
size_t gf_number_text(char *out, double x);

/* The shortest of %.15g to %.17g that reads back as x, with a 0 at the end. out [GF_NUMBER_BYTES] */
size_t gf_shortest_text(char *out, double x);

/* The ending of a noun after a count: "" of 1, else "s". */
const char *gf_plural(int64_t n);

/* The whole text as an integer, or as a finite number: NULL, or why not, in words that complete "x ...". */
const char *gf_integer_read(const char *text, int64_t *x);
const char *gf_number_read(const char *text, double *x);
/* The same, but a number too small for a double is the nearest one, as 0. */
const char *gf_measure_read(const char *text, double *x);

/* A label from a file: 3, and 3.0, as data frames write integers of which some are missing; -1: unknown, a negative number, an
 * empty text, nan, None or null. 0: none of these. */
int gf_label_read(const char *text, int64_t *y);
/* 0: what programs write where the name of a class is missing: "", nan. None may be a name. */
int gf_is_class_name(const char *text);
