/* bpe_clean.c - see bpe_clean.h. Each step rewrites the array of code points in place.
 *
 * The reference runs ftfy, which also repairs wrongly decoded text; here are only those of its repairs that look at one
 * character at a time. Then HTML entities twice, white space, lower case with Python's results.
 */
#include "data/bpe_clean.h"

#include <string.h>

#include "data/unicode.h"

#define NAME_MOST 32            /* characters of an entity's name, semicolon included */
#define STRICT_ROUNDS 8         /* of nested entities, before the two of CLIP */
#define SIGMA 0x3a3u
#define FINAL_SIGMA 0x3c2u
#define CAPITAL_DOTTED_I 0x130u
#define DOT_ABOVE 0x307u

/* ----- HTML entities ----- */

typedef struct reference {      /* what an entity stands for */
    int64_t length;             /* characters read, & included; 0: no entity */
    int made;                   /* characters it stands for: 0 .. 2 */
    uint32_t to[2];
} reference;

/* Windows-1252 for 0x80 .. 0x9f; what it leaves open stands for itself. */
static const uint16_t windows[32] = {
    0x20ac, 0x81,   0x201a, 0x192,  0x201e, 0x2026, 0x2020, 0x2021, 0x2c6, 0x2030, 0x160, 0x2039, 0x152, 0x8d, 0x17d, 0x8f,
    0x90,   0x2018, 0x2019, 0x201c, 0x201d, 0x2022, 0x2013, 0x2014, 0x2dc, 0x2122, 0x161, 0x203a, 0x153, 0x9d, 0x17e, 0x178,
};

/* What browsers make of a number: nothing, where it is a control or no character. Returns how many characters, 0 or 1. */
static int number_means(uint32_t x, uint32_t *to) {
    const int blank = x == '\t' || x == '\n' || x == '\f' || x == '\r';
    *to = x >= 0x80 && x < 0xa0 ? windows[x - 0x80] : x;
    if (x == 0 || x > GF_UNICODE_MOST || (x >= 0xd800 && x <= 0xdfff)) *to = GF_UNICODE_BAD;
    else if ((x < 0x20 && !blank) || x == 0x7f || (x >= 0xfdd0 && x <= 0xfdef) || (x & 0xfffe) == 0xfffe) return 0;
    return 1;
}

static int digit_of(uint32_t c, int base) {
    if (c >= '0' && c <= '9') return (int)(c - '0');
    const uint32_t low = c | 0x20;
    return base == 16 && low >= 'a' && low <= 'f' ? (int)(low - 'a' + 10) : -1;
}

/* "&#...": s is at the &. */
static reference read_number(const uint32_t *s, int64_t n) {
    int64_t at = 2;
    const int base = at < n && (s[at] | 0x20) == 'x' ? 16 : 10;
    at += base == 16;
    const int64_t start = at;
    uint32_t x = 0;
    for (int digit; at < n && (digit = digit_of(s[at], base)) >= 0; at++) {
        x = x > GF_UNICODE_MOST ? x : x * (uint32_t)base + (uint32_t)digit;
    }
    reference r = {0};
    if (at == start) return r;
    r.made = number_means(x, r.to);
    r.length = at + (at < n && s[at] == ';');
    return r;
}

static reference entity_reference(const gf_entity *e, int64_t length) {
    const int two = e->second > GF_ENTITY_BARE;
    return (reference){length, 1 + two, {e->first, two ? e->second : 0}};
}

static int is_name(uint32_t c) {
    return c < 0x80 && ((c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z'));
}

/* "&EACUTE;": a name known in small letters only. Lower case comes later anyway. */
static const gf_entity *find_in_capitals(const char *name, size_t n) {
    char small[NAME_MOST];
    for (size_t i = 0; i < n; i++) {
        if (name[i] >= 'a' && name[i] <= 'z') return NULL;
        small[i] = (char)(name[i] >= 'A' && name[i] <= 'Z' ? name[i] + 32 : name[i]);
    }
    return gf_entity_find(small, n);
}

/* "&name;", or the longest beginning that stands without a semicolon. `strict`: with a semicolon only. */
static reference read_name(const uint32_t *s, int64_t n, int strict) {
    char name[NAME_MOST];
    int64_t size = 0;
    for (; size < NAME_MOST && 1 + size < n && is_name(s[1 + size]); size++) name[size] = (char)s[1 + size];
    if (size > 0 && 1 + size < n && s[1 + size] == ';') {
        const gf_entity *e = gf_entity_find(name, (size_t)size);
        if (!e && strict) e = find_in_capitals(name, (size_t)size);
        if (e) return entity_reference(e, size + 2);
    }
    for (; !strict && size >= 2; size--) {
        const gf_entity *e = gf_entity_find(name, (size_t)size);
        if (e && e->second == GF_ENTITY_BARE) return entity_reference(e, size + 1);
    }
    return (reference){0};
}

static reference read_reference(const uint32_t *s, int64_t n, int strict) {
    const reference r = n > 1 && s[1] == '#' ? read_number(s, n) : read_name(s, n, strict);
    return strict && r.length > 0 && s[r.length - 1] != ';' ? (reference){0} : r;
}

/* Returns the new count; equal to n: nothing was there, for an entity is longer than what it stands for. */
static int64_t unescape(uint32_t *s, int64_t n, int strict) {
    int64_t out = 0;
    for (int64_t at = 0; at < n;) {
        const reference r = s[at] == '&' ? read_reference(s + at, n - at, strict) : (reference){0};
        if (r.length == 0) {
            s[out++] = s[at++];
            continue;
        }
        for (int k = 0; k < r.made; k++) s[out++] = r.to[k];
        at += r.length;
    }
    return out;
}

static int has(const uint32_t *s, int64_t n, uint32_t c) {
    for (int64_t i = 0; i < n; i++) {
        if (s[i] == c) return 1;
    }
    return 0;
}

/* ----- plain forms, white space, lower case ----- */

static int64_t decode(const uint8_t *text, size_t n, uint32_t *code) {
    const uint8_t *at = text, *const end = text + n;
    int64_t out = 0;
    while (at < end) code[out++] = gf_utf8_next(&at, end);
    return out;
}

/* Moves n codes to the end of the room, so that the front can be written while they are read. What is written for a code never
 * overtakes what is still to be read: each code came from at least as many bytes as it makes codes, and room counts these
 * bytes. */
static const uint32_t *to_end(uint32_t *code, int64_t n, size_t room) {
    return memmove(code + (int64_t)room - n, code, (size_t)n * sizeof *code);
}

static int64_t make_plain(uint32_t *code, int64_t n, size_t room) {
    const uint32_t *from = to_end(code, n, room);
    int64_t out = 0;
    for (int64_t i = 0; i < n; i++) {
        const gf_unicode_form *form = gf_unicode_plain(from[i]);
        if (!form) code[out++] = from[i];
        for (int k = 0; form && k < 3 && form->to[k]; k++) code[out++] = form->to[k];
    }
    return out;
}

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

/* A capital sigma that ends a word has a lower case of its own. Only the source is looked at: what is lowered is cased before and
 * after, so that the order does not matter; but the front of it may be overwritten, so the letters before are looked for in what
 * was written. */
static int64_t make_lower(uint32_t *code, int64_t n, size_t room) {
    const uint32_t *from = to_end(code, n, room);
    int64_t out = 0;
    for (int64_t i = 0; i < n; i++) {
        const uint32_t c = from[i];
        if (c == SIGMA && touches_cased(code, out, out - 1, -1) && !touches_cased(from, n, i + 1, 1)) code[out++] = FINAL_SIGMA;
        else code[out++] = c == CAPITAL_DOTTED_I ? 'i' : gf_unicode_lower(c);
        if (c == CAPITAL_DOTTED_I) code[out++] = DOT_ABOVE;
    }
    return out;
}

int64_t gf_clean_text(const uint8_t *text, size_t n, uint32_t *code) {
    int64_t m = decode(text, n, code);
    for (int64_t round = 0, before = -1; round < STRICT_ROUNDS && m != before && !has(code, m, '<'); round++) {
        before = m;
        m = unescape(code, m, 1);
    }
    m = make_plain(code, m, n);
    for (int k = 0; k < 2; k++) m = unescape(code, m, 0);
    m = collapse_spaces(code, m);
    return make_lower(code, m, n);
}
