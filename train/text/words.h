/* words.h - from a caption to the words that byte-pair encoding works on: cleaning, and the split of CLIP.
 *
 *     gf_words w = {0};
 *     TRY(gf_words_begin(err, &w, text, n));
 *     while ((kind = gf_words_next(&w, &bytes, &size)) != GF_WORD_END) ...
 *     gf_words_free(&w);
 *
 * Cleaning: HTML's entities, quotes and other typographic forms made plain, characters composed (NFC), white space collapsed,
 * lower case. Text that was decoded with a wrong character set is not repaired (docs/text.md). Words: the marks of start and end,
 * the contractions 's 't 're 've 'm 'll 'd, runs of letters, single digits, runs of anything else.
 *
 * Unicode is utf8proc's; a build without it takes ASCII alone.
 */
#pragma once

#include "util/status.h"

#define GF_WORDS_START "<start_of_text>"
#define GF_WORDS_END "<end_of_text>"
#define GF_WORDS_TEXT_MAX ((size_t)1 << 24)

typedef enum gf_word_kind { GF_WORD_END, GF_WORD, GF_WORD_START_MARK, GF_WORD_END_MARK } gf_word_kind;

typedef struct gf_words { /* all zero: new; memory is kept from text to text */
    uint32_t *code;       /* [n] the cleaned text */
    int64_t n, at;
    uint8_t *bytes; /* [4 n] the word given last, as UTF-8 */
    void *block;
    size_t capacity; /* bytes of text it can hold */
} gf_words;

/* E_ARGUMENT: more than GF_WORDS_TEXT_MAX bytes. E_UNSUPPORTED: a character beyond ASCII in a build without utf8proc. */
glofnd_status gf_words_begin(gf_error *err, gf_words *w, const char *text, size_t n);
/* The next word, valid until the next call. */
gf_word_kind gf_words_next(gf_words *w, const uint8_t **bytes, size_t *size);
void gf_words_free(gf_words *w);

/* ----- the parts of it ----- */

#define GF_UNICODE_MAX 0x10ffffu
#define GF_UNICODE_BAD 0xfffdu /* the replacement character */

/* The character at *at (< end), which moves after it. Ill-formed bytes give U+FFFD, one for each longest beginning of a
 * character that goes wrong, as Python's errors="replace". */
uint32_t gf_utf8_next(const uint8_t **at, const uint8_t *end);
/* Writes 1 to 4 bytes. */
int gf_utf8_put(uint32_t code, uint8_t out[4]);

/* Cleans n bytes of text to code points: code [n]. Words are parted by one space; none at the ends. Returns how many. No step
 * makes more characters than there were bytes. */
int64_t gf_clean_text(const uint8_t *text, size_t n, uint32_t *code);

/* Characters and their marks composed (Unicode's form NFC), in place: code [capacity]. A letter with its marks of more than
 * GF_COMPOSE_MAX characters stays unchanged (stream-safe text has at most 30), so that the time is linear. Returns how many
 * there are now: never more than the UTF-8 of the text has bytes. */
#define GF_COMPOSE_MAX 1000
int64_t gf_compose(uint32_t *code, int64_t n, size_t capacity);
