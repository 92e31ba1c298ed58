/* print.h - everything that the program prints. Names of files, captions, labels, values of a configuration, and messages that
 * quote them come from outside: on a terminal their control characters would move the cursor, change the title or forge lines.
 * So all output goes through gf_print, which is fprintf except that %s and %c are shown, not obeyed. Formats are own text.
 *
 * Shown as \n, \t, \r, \xHH or \uHHHH: control characters (C0, DEL, C1), bytes that are no UTF-8, characters that change the
 * direction of text or end a line (U+061C, U+200E, U+200F, U+2028 to U+202E, U+2066 to U+2069), and the byte-order mark.
 */
#pragma once

#include <stdarg.h>
#include <stdio.h>

void gf_print(FILE *out, const char *format, ...) __attribute__((format(printf, 2, 3)));
void gf_vprint(FILE *out, const char *format, va_list args) __attribute__((format(printf, 2, 0)));
/* Text that has its own lines: help, or a table whose parts were shown one by one. Line breaks stay, all else is as above. */
void gf_print_lines(FILE *out, const char *text);
/* One unit of a text that ends with 0: its bytes in *taken, as it is shown in out. Returns the number of characters shown. */
enum { GF_SHOWN_BYTES = 12 };
int gf_show(const char *text, size_t *taken, char out[GF_SHOWN_BYTES]);
/* The whole text, as it is shown, cut where `bytes` end. */
void gf_show_text(const char *text, char *out, size_t bytes);
