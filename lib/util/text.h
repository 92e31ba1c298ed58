/* text.h - texts: characters of UTF-8, escapes, numbers, a text that grows, words that are alike, paths. */
#pragma once

#include <limits.h>
#include <stddef.h>
#include <stdint.h>

#include "util/status.h"

/* ----- characters ----- */

/* Bytes of the character at p, a text that ends with 0; 0: none. Rejects what is longer than needed, surrogates, and beyond
 * U+10FFFF. */
size_t gf_utf8_bytes(const unsigned char *p);
/* Replaces, in place, every byte of control characters (C0, DEL, C1) and of broken UTF-8: what is left is one line, and UTF-8. */
void gf_utf8_clean(char *text, char instead);
/* Drops the piece of a character at the end of a text that did not fit where it was copied to. */
void gf_utf8_trim(char *text);

/* ----- escapes -----
 *
 * Texts of any content as cells of a table with tabs and lines, and back: \\ \n \t \r, and \xHH for every byte of
 * other control characters (C0, DEL, C1) and of broken UTF-8. What results is one line, and UTF-8. */

enum { GF_ESCAPED_BYTES = 12 };
/* 1: the text has a control character or broken UTF-8; a backslash alone does not count. */
int gf_is_not_a_line(const char *text);
/* One unit of a text that ends with 0, escaped; moves *text behind it. Returns the bytes in out. broken_only: all but broken
 * UTF-8 as it is. */
size_t gf_escape_next(const char **text, int broken_only, char out[GF_ESCAPED_BYTES]);
/* Undoes it, in place. 0: a backslash begins none of these. */
int gf_unescape(char *text);

/* ----- numbers to text and back, as in the C locale, whatever the program set -----
 *
 * Tables of millions of rows are mostly numbers, so writing is quick: what printf gives, to the byte. Each function writes at
 * `out`, without a 0 at the end, and returns the bytes written. Numbers with at most 8 digits after the point and below a
 * million, such as rounded similarities, take a short way; all others go through snprintf. */

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

/* The text without blanks at both ends; in place. */
char *gf_text_trim(char *text);
/* 1: the list, words with a space between them, has this word. */
int gf_has_word(const char *list, const char *word);
/* The ending of a noun after a count: "" of 1, else "s". */
const char *gf_plural(int64_t n);
/* 1: the text is more than `end`, and ends with it. */
int gf_ends_with(const char *text, const char *end);

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

/* ----- a text that grows: running out of memory sticks and is asked for once, at the end ----- */

typedef struct gf_text {
    char *at; /* ends with 0; NULL while empty */
    size_t used, capacity;
    int failed;
} gf_text;

void gf_text_add(gf_text *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* A text from outside, as it is shown on a terminal: see print.h. */
void gf_text_show(gf_text *t, const char *raw);
/* For HTML: & < > " ' as entities; bytes that are no plain characters (control, broken UTF-8) as '?'. */
void gf_text_escape(gf_text *t, const char *raw);
void gf_text_free(gf_text *t);

/* ----- how far apart two words are, for messages that guess what was meant ----- */

/* Letters to insert, delete, replace or swap with their neighbour. The first 40 of each word count: words may be long. */
int gf_edit_distance(const char *a, const char *b);
/* 1: `word` is likely `known` with typing errors. One error in words of up to three letters, two up to eight, then a third. */
int gf_is_near(const char *word, const char *known);

/* ----- paths ----- */

/* FOLDER/NAME. E_ARGUMENT: it is too long for a path. */
glofnd_status gf_path_join(gf_error *err, char out[PATH_MAX], const char *folder, const char *name);
