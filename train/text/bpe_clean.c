/* bpe_clean.c - see bpe_clean.h. Each step rewrites the array of code points in place.
 *
 * The reference runs ftfy line by line, until it changes nothing more; then HTML entities twice, white space, lower case with
 * Python's results.
 */
#include "text/bpe_clean.h"

#include <string.h>

#include "text/bpe_entities.h"
#include "text/mojibake.h"
#include "text/unicode.h"
#include "text/unicode_nfc.h"

#define ROUNDS 16              /* of all repairs; what takes more, takes it to be hostile */
#define LINE_CHARS_MAX 1000000 /* characters that are repaired as one */
#define SIGMA 0x3a3u
#define FINAL_SIGMA 0x3c2u
#define CAPITAL_DOTTED_I 0x130u
#define DOT_ABOVE 0x307u
#define ESCAPE 0x1bu

/* ----- repairs ----- */

static int has(const uint32_t *s, int64_t n, uint32_t c) {
    for (int64_t i = 0; i < n; i++) {
        if (s[i] == c) return 1;
    }
    return 0;
}

static int64_t decode(const uint8_t *text, size_t n, uint32_t *code) {
    const uint8_t *at = text, *const end = text + n;
    int64_t out = 0;
    while (at < end) code[out++] = gf_utf8_next(&at, end);
    return out;
}

/* Moves n codes to the end of the buffer, so that the front can be written while they are read. What is written for a code never
 * overtakes what is still to be read: each code came from at least as many bytes as it makes codes, and the capacity counts these
 * bytes. */
static const uint32_t *to_end(uint32_t *code, int64_t n, size_t capacity) {
    return memmove(code + (int64_t)capacity - n, code, (size_t)n * sizeof *code);
}

/* Length of a terminal command, "ESC [ 1 ; 31 m"; 1 for an ESC alone. */
static int64_t command_length(const uint32_t *s, int64_t n) {
    int64_t at = 2;
    if (n < 2 || s[1] != '[') return 1;
    while (at < n && (s[at] == ';' || s[at] - '0' < 10)) at++;
    return at < n && s[at] < 0x80 && (s[at] | 0x20) - 'a' < 26 ? at + 1 : 1;
}

static int64_t drop_commands(uint32_t *code, int64_t n, int *changed) {
    int64_t out = 0;
    for (int64_t i = 0; i < n;) {
        if (code[i] == ESCAPE) i += command_length(code + i, n - i);
        else code[out++] = code[i++];
    }
    *changed |= out != n;
    return out;
}

static int64_t make_plain(uint32_t *code, int64_t n, size_t capacity, int *changed) {
    const uint32_t *from = to_end(code, n, capacity);
    int64_t out = 0;
    for (int64_t i = 0; i < n; i++) {
        const gf_unicode_form *form = gf_unicode_plain(from[i]);
        *changed |= form != NULL;
        if (!form) code[out++] = from[i];
        for (int k = 0; form && k < 3 && form->to[k]; k++) code[out++] = form->to[k];
    }
    return out;
}

/* All repairs once; *changed: there was something to do. */
static int64_t repair_once(uint32_t *code, int64_t n, size_t capacity, uint8_t *scratch, int entities, int *changed) {
    int64_t m = entities ? gf_entities_replace(code, n, 1) : n;
    *changed = m != n;
    m = gf_mojibake_repair(code, m, scratch, changed);
    m = make_plain(code, m, capacity, changed);
    m = drop_commands(code, m, changed);
    return gf_unicode_nfc(code, m, capacity, changed);
}

static int64_t line_length(const uint32_t *s, int64_t n) {
    int64_t size = 0;
    while (size < n && size < LINE_CHARS_MAX && s[size] != '\n') size++;
    return size < n && size < LINE_CHARS_MAX ? size + 1 : size;
}

/* A line with a < is taken for HTML, in which entities are meant; then also those that follow. */
static int64_t repair_lines(uint32_t *code, int64_t n, size_t capacity, uint8_t *scratch) {
    const uint32_t *from = to_end(code, n, capacity), *const end = code + capacity;
    uint32_t *line = code;
    for (int entities = 1; from < end;) {
        int64_t size = line_length(from, end - from);
        memmove(line, from, (size_t)size * sizeof *line);
        from += size;
        entities = entities && !has(line, size, '<');
        int changed = 1;
        for (int round = 0; changed && round < ROUNDS; round++)
            size = repair_once(line, size, (size_t)(from - line), scratch, entities, &changed);
        line += size;
    }
    return line - code;
}

/* 1: it has no character that a repair would change. */
static int is_plain(const uint8_t *text, size_t n) {
    int odd = 0;
    for (size_t i = 0; i < n; i++) odd |= (uint8_t)(text[i] - 0x20) > 0x5e || text[i] == '&';
    return !odd;
}

/* ----- white space, lower case ----- */

static int64_t collapse_spaces(uint32_t *code, int64_t n) {
    int64_t out = 0;
    for (int64_t i = 0; i < n; i++) {
        if (!(gf_unicode_class(code[i]) & GF_SPACE)) code[out++] = code[i];
        else if (out > 0 && code[out - 1] != ' ') code[out++] = ' ';
    }
    return out > 0 && code[out - 1] == ' ' ? out - 1 : out;
}

/* Does a cased character follow from `i` on (step 1) or come before (step -1), those apart that case ignores? */
static int touches_cased(const uint32_t *s, int64_t n, int64_t i, int step) {
    for (; i >= 0 && i < n; i += step) {
        const int class = gf_unicode_class(s[i]);
        if (!(class & GF_CASE_IGNORABLE)) return (class & GF_CASED) != 0;
    }
    return 0;
}

/* A capital sigma that ends a word has a lower case of its own. Only the source decides: what is lowered is cased before and
 * after, so that the order does not matter; but the front of it may be overwritten, so the letters before are looked for in what
 * was written. */
static int64_t make_lower(uint32_t *code, int64_t n, size_t capacity) {
    const uint32_t *from = to_end(code, n, capacity);
    int64_t out = 0;
    for (int64_t i = 0; i < n; i++) {
        const uint32_t c = from[i];
        if (c == SIGMA && touches_cased(code, out, out - 1, -1) && !touches_cased(from, n, i + 1, 1)) code[out++] = FINAL_SIGMA;
        else code[out++] = c == CAPITAL_DOTTED_I ? 'i' : gf_unicode_lower(c);
        if (c == CAPITAL_DOTTED_I) code[out++] = DOT_ABOVE;
    }
    return out;
}

int64_t gf_clean_text(const uint8_t *text, size_t n, uint32_t *code, uint8_t *scratch) {
    int64_t m = decode(text, n, code);
    if (!is_plain(text, n)) {
        m = repair_lines(code, m, n, scratch);
        for (int k = 0; k < 2; k++) m = gf_entities_replace(code, m, 0);
    }
    m = collapse_spaces(code, m);
    return make_lower(code, m, n);
}
