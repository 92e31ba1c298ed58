/* mojibake_tables.h - characters that wrongly decoded UTF-8 can consist of: their kinds, and their byte in each encoding. Made by
 * tools/generate/make_mojibake_tables.py. */
#pragma once

#include <stdint.h>

/* In the order in which they are tried. */
enum { GF_LATIN_1, GF_WINDOWS_FIRST, GF_WINDOWS_LAST = 6, GF_ISO_8859_2, GF_MAC_ROMAN, GF_CP437, GF_ENCODINGS };

#define GF_SUBSTITUTE 0x1a /* in the encodings of Windows, the byte of a character that was lost */

enum gf_mojibake_kind {
    GF_MK_FREE = 1 << 0,    /* in any company */
    GF_MK_CONTROL = 1 << 1, /* U+0080 to U+009F */
    GF_MK_ODD = 1 << 2,     /* hardly ever meant: broken bar, dagger, U+FFFD */
    GF_MK_LAW = 1 << 3,
    GF_MK_MONEY = 1 << 4,
    GF_MK_OPENING = 1 << 5, /* punctuation before a word, or after it: */
    GF_MK_CLOSING = 1 << 6,
    GF_MK_NUMERIC = 1 << 7,
    GF_MK_FACE = 1 << 8,    /* letters that faces are drawn with, which excuses them */
    GF_MK_CAPITAL = 1 << 9, /* Latin letters with accents */
    GF_MK_SMALL = 1 << 10,
    GF_MK_CAPITAL_PLAIN = 1 << 11, /* Greek and Cyrillic ones */
    GF_MK_SMALL_PLAIN = 1 << 12,
    GF_MK_BOX = 1 << 13,      /* lines of tables */
    GF_MK_BEGINS_2 = 1 << 14, /* as a byte, in some encoding: begins a character of two bytes */
    GF_MK_BEGINS_3 = 1 << 15,
    GF_MK_BEGINS_4 = 1 << 16,
    GF_MK_CONTINUES = 1 << 17,
    GF_MK_CONTINUES_STRICT = 1 << 18 /* and seldom stands for itself beside such */
};

typedef struct gf_mojibake_row {
    uint16_t code;
    uint32_t kinds;
    uint8_t byte[GF_ENCODINGS - GF_WINDOWS_FIRST]; /* 0: not in this encoding */
} gf_mojibake_row;

extern const gf_mojibake_row gf_mojibake_rows[]; /* in order of code */
extern const int gf_mojibake_rows_n;

/* NULL: ASCII, or a character of no interest here. */
const gf_mojibake_row *gf_mojibake_find(uint32_t code);
