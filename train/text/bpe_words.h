/* bpe_words.h - from a caption to the words that byte-pair encoding works on: cleaning, and the split of CLIP.
 *
 *     gf_words w = {0};
 *     TRY(gf_words_begin(err, &w, text, n));
 *     while ((kind = gf_words_next(&w, &bytes, &size)) != GF_WORD_END) ...
 *     gf_words_free(&w);
 *
 * Cleaning: entities of HTML, text decoded wrongly repaired, typographic forms made plain, characters composed, white space
 * collapsed, lower case. Words: the marks of start and end, the contractions 's 't 're 've 'm 'll 'd, runs of letters, single
 * digits, runs of anything else.
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

/* E_ARGUMENT: more than GF_WORDS_TEXT_MAX bytes. */
glofnd_status gf_words_begin(gf_error *err, gf_words *w, const char *text, size_t n);
/* The next word, valid until the next call. */
gf_word_kind gf_words_next(gf_words *w, const uint8_t **bytes, size_t *size);
void gf_words_free(gf_words *w);
