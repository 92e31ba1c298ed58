/* bpe_words.c - the split of a cleaned caption into words. See bpe_words.h; the cleaning is in bpe_clean.c. */
#include "text/bpe_words.h"

#include <stdlib.h>
#include <string.h>

#include "text/bpe_clean.h"
#include "text/unicode.h"

#define LONG_S 0x17fu /* has no capital of its own, so it counts as an s where case does not matter */

#define IOTA_BELOW 0x345u /* a mark whose capital is a letter: to the reference, blind to case, it is neither */

static int word_class(uint32_t code) {
    return code == IOTA_BELOW ? GF_SPACE : gf_unicode_class(code) & (GF_LETTER | GF_NUMBER | GF_SPACE);
}

static glofnd_status reserve(gf_error *err, gf_words *w, size_t n) {
    FAIL_IF(err, n > GF_WORDS_TEXT_MAX, GLOFND_E_ARGUMENT, "a caption of %llu bytes; the limit is %llu", (unsigned long long)n,
            (unsigned long long)GF_WORDS_TEXT_MAX);
    if (n + 1 <= w->capacity) return GLOFND_OK;
    const size_t capacity = n + 1 < 1024 ? 1024 : n + 1;
    void *block = malloc(capacity * 8); /* code points, then the bytes of a word that is the whole text */
    FAIL_IF(err, !block, GLOFND_E_MEMORY, "no memory for a caption of %llu bytes", (unsigned long long)n);
    free(w->block);
    w->block = block;
    w->code = block;
    w->bytes = (uint8_t *)block + capacity * 4;
    w->capacity = capacity;
    return GLOFND_OK;
}

glofnd_status gf_words_begin(gf_error *err, gf_words *w, const char *text, size_t n) {
    TRY(reserve(err, w, n));
    w->n = gf_clean_text((const uint8_t *)text, n, w->code, w->bytes);
    w->at = 0;
    return GLOFND_OK;
}

void gf_words_free(gf_words *w) {
    free(w->block);
    *w = (gf_words){0};
}

/* Characters of `word` that the text has at `at`, whatever their case; 0: not this word. */
static int64_t matches(const gf_words *w, int64_t at, const char *word) {
    int64_t k = 0;
    for (; word[k]; k++) {
        if (at + k >= w->n) return 0;
        const uint32_t c = w->code[at + k];
        if (c != (uint8_t)word[k] && !(c == LONG_S && word[k] == 's')) return 0;
    }
    return k;
}

static int64_t contraction(const gf_words *w) {
    static const char *const known[] = {"'s", "'t", "'re", "'ve", "'m", "'ll", "'d"};
    if (w->code[w->at] != '\'') return 0;
    for (size_t k = 0; k < sizeof known / sizeof *known; k++) {
        const int64_t n = matches(w, w->at, known[k]);
        if (n > 0) return n;
    }
    return 0;
}

/* Length of the run of characters that are of class `want` (0: neither letter, number nor space). */
static int64_t run(const gf_words *w, int want) {
    int64_t end = w->at;
    while (end < w->n && word_class(w->code[end]) == want) end++;
    return end - w->at;
}

static int64_t word_length(const gf_words *w) {
    int64_t n = 0;
    if (w->code[w->at] == '<') n = matches(w, w->at, GF_WORDS_START);
    if (n == 0 && w->code[w->at] == '<') n = matches(w, w->at, GF_WORDS_END);
    if (n == 0) n = contraction(w);
    if (n > 0) return n;
    const int class = word_class(w->code[w->at]);
    return class == GF_NUMBER ? 1 : run(w, class);
}

static int is_mark(const uint8_t *bytes, size_t size, const char *mark) {
    return size == strlen(mark) && memcmp(bytes, mark, size) == 0;
}

gf_word_kind gf_words_next(gf_words *w, const uint8_t **bytes, size_t *size) {
    while (w->at < w->n && word_class(w->code[w->at]) == GF_SPACE) w->at++;
    if (w->at >= w->n) return GF_WORD_END;
    const int64_t end = w->at + word_length(w);
    size_t used = 0;
    while (w->at < end) used += (size_t)gf_utf8_put(w->code[w->at++], w->bytes + used);
    *bytes = w->bytes;
    *size = used;
    if (w->bytes[0] != '<') return GF_WORD;
    if (is_mark(w->bytes, used, GF_WORDS_START)) return GF_WORD_START_MARK;
    return is_mark(w->bytes, used, GF_WORDS_END) ? GF_WORD_END_MARK : GF_WORD;
}
