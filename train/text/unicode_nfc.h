/* unicode_nfc.h - characters and their marks composed (Unicode's form NFC): e and a combining acute accent become one character.
 *
 * The tables are made by tools/generate/make_unicode_tables.py.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* Longer sequences of a letter and its marks, taken apart, stay unchanged. Unicode's stream-safe text has at most 30 marks. */
#define GF_NFC_MAX 4096

/* In place: code [capacity]; sequences that need more stay unchanged. Characters become at most as many as their UTF-8
 * has bytes. Returns how many there are now; *changed is set where they are others. */
int64_t gf_unicode_nfc(uint32_t *code, int64_t n, size_t capacity, int *changed);

typedef struct gf_decomposition {
    uint32_t code, first, second; /* second 0: stands for `first` alone */
} gf_decomposition;

extern const uint32_t gf_nfc_marks[]; /* first code point << 9 | may change << 8 | combining class: holds up to the next row */
extern const int gf_nfc_marks_n;
extern const gf_decomposition gf_nfc_parts[]; /* in order of code; one step each */
extern const int gf_nfc_parts_n;
extern const uint16_t gf_nfc_pairs[]; /* rows of gf_nfc_parts that are composed again, in order of first, second */
extern const int gf_nfc_pairs_n;
