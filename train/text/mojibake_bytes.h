/* mojibake_bytes.h - from characters back to the bytes they were decoded from, and from those to characters as UTF-8. */
#pragma once

#include <stdint.h>

/* The bytes of s in `encoding` (mojibake_tables.h), with what was lost on the way mended as far as it can be guessed: a space
 * that was byte 0xA0 (not with MacRoman); a character of which bytes were lost (Windows only), which becomes the byte
 * GF_SUBSTITUTE. bytes [3 n / 2]. Returns their number; -1: a character is not in the encoding. */
int64_t gf_mojibake_encode(const uint32_t *s, int64_t n, int encoding, uint8_t *bytes);
/* Bytes as UTF-8, also with surrogate pairs (CESU-8) and Java's 0; with `lost`, GF_SUBSTITUTE is U+FFFD. Returns how many
 * characters, -1: they are not UTF-8, and s is as it was. *changed: not what s held before. */
int64_t gf_mojibake_decode(const uint8_t *bytes, int64_t n, int lost, uint32_t *s, int *changed);
