/* unicode.h - the little of Unicode that captions need: UTF-8, classes of characters, lower case, plain forms, HTML's names.
 *
 * The tables are made by tools/generate/make_unicode_tables.py; ASCII takes short cuts. Nothing here fails: what is not UTF-8
 * reads as U+FFFD.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define GF_UNICODE_MAX 0x10ffffu
#define GF_UNICODE_BAD 0xfffdu /* the replacement character */

enum { GF_LETTER = 1, GF_NUMBER = 2, GF_SPACE = 4, GF_CASED = 8, GF_CASE_IGNORABLE = 16 };

/* The character at *at (< end), which moves after it. Ill-formed bytes give U+FFFD, one for each longest beginning of a
 * character that goes wrong, as Python's errors="replace". */
uint32_t gf_utf8_next(const uint8_t **at, const uint8_t *end);
/* Writes 1 to 4 bytes. */
int gf_utf8_put(uint32_t code, uint8_t out[4]);

/* Bits of the enum above; 0: anything else. */
int gf_unicode_class(uint32_t code);
/* Simple lower case: one character for one (U+0130 and the last sigma of a word are the caller's business). */
uint32_t gf_unicode_lower(uint32_t code);

typedef struct gf_unicode_run {
    uint32_t first, last;
    int step, difference;
} gf_unicode_run;

typedef struct gf_unicode_form {
    uint16_t code, to[3]; /* up to the first 0 */
} gf_unicode_form;

typedef struct gf_entity {
    const char *name;       /* without & and semicolon */
    uint32_t first, second; /* second: a further character, 0, or GF_ENTITY_BARE */
} gf_entity;

#define GF_ENTITY_BARE 1u /* also stands without a semicolon */

/* Replacement of a character by cleaning (quotes, ligatures, widths, controls); NULL: itself. */
const gf_unicode_form *gf_unicode_plain(uint32_t code);
/* A Latin-1 control (U+0080 to U+009F) read as a byte of Windows-1252; any other character: itself. */
uint32_t gf_unicode_windows(uint32_t code);
/* The entity of this name, [n] bytes; NULL: none. */
const gf_entity *gf_entity_find(const char *name, size_t n);

extern const uint32_t gf_unicode_classes[];
extern const int gf_unicode_classes_n;
extern const gf_unicode_run gf_unicode_lower_runs[];
extern const int gf_unicode_lower_runs_n;
extern const gf_unicode_form gf_unicode_forms[];
extern const int gf_unicode_forms_n;
extern const gf_entity gf_entities[]; /* in bytewise order of names */
extern const int gf_entities_n;
