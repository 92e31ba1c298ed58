/* utf8.h - characters of UTF-8. */
#pragma once

#include <stddef.h>

/* Bytes of the character at p, a text that ends with 0; 0: none. Rejects what is longer than needed, surrogates, and beyond
 * U+10FFFF. */
size_t gf_utf8_bytes(const unsigned char *p);
/* Replaces, in place, every byte of control characters (C0, DEL, C1) and of broken UTF-8: what is left is one line, and UTF-8. */
void gf_utf8_clean(char *text, char instead);
/* Drops the piece of a character at the end of a text that did not fit where it was copied to. */
void gf_utf8_trim(char *text);
