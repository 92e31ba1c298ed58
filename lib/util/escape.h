/* escape.h - texts of any content as cells of a table with tabs and lines, and back: \\ \n \t \r, and \xHH for every byte of
 * other control characters (C0, DEL, C1) and of broken UTF-8. What results is one line, and UTF-8. */
#pragma once

#include <stddef.h>

enum { GF_ESCAPED_BYTES = 12 };
/* 1: the text has a control character or broken UTF-8; a backslash alone does not count. */
int gf_is_not_a_line(const char *text);
/* One unit of a text that ends with 0, escaped; moves *text behind it. Returns the bytes in out. broken_only: all but broken
 * UTF-8 as it is. */
size_t gf_escape_next(const char **text, int broken_only, char out[GF_ESCAPED_BYTES]);
/* Undoes it, in place. 0: a backslash begins none of these. */
int gf_unescape(char *text);
