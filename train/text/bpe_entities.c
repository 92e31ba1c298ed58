/* bpe_entities.c - see bpe_entities.h. */
#include "text/bpe_entities.h"

#include <stddef.h>

#include "text/unicode.h"

#define NAME_MOST 32 /* characters of an entity's name, semicolon included */

typedef struct reference { /* what an entity stands for */
    int64_t length;        /* characters read, & included; 0: no entity */
    int made;              /* characters it stands for: 0 .. 2 */
    uint32_t to[2];
} reference;

/* A character by its number, as browsers decode it. Returns the number of characters: 0 for a control or no character, else 1. */
static int number_means(uint32_t x, uint32_t *to) {
    const int blank = x == '\t' || x == '\n' || x == '\f' || x == '\r';
    *to = gf_unicode_windows(x);
    if (x == 0 || x > GF_UNICODE_MAX || (x >= 0xd800 && x <= 0xdfff)) *to = GF_UNICODE_BAD;
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
        x = x > GF_UNICODE_MAX ? x : x * (uint32_t)base + (uint32_t)digit;
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

static int is_name(uint32_t c) { return c < 0x80 && ((c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z')); }

/* Python's upper case of a character that a name stands for; some have none of their own. Returns how many characters. */
static int capital_of(uint32_t x, uint32_t to[2]) {
    static const uint16_t special[][3] = {
        {0xb5, 0x39c, 0},  {0xdf, 'S', 'S'},  {0x131, 'I', 0},   {0x149, 0x2bc, 'N'}, {0x3c2, 0x3a3, 0}, {0x3d1, 0x398, 0},
        {0x3d5, 0x3a6, 0}, {0x3d6, 0x3a0, 0}, {0x3f0, 0x39a, 0}, {0x3f1, 0x3a1, 0},   {0x3f5, 0x395, 0},
    };
    to[0] = x;
    for (size_t k = 0; k < sizeof special / sizeof *special; k++) {
        if (special[k][0] != x) continue;
        to[0] = special[k][1], to[1] = special[k][2];
        return 1 + (to[1] != 0);
    }
    for (int k = 0; k < gf_unicode_lower_runs_n; k++) {
        const gf_unicode_run *run = &gf_unicode_lower_runs[k];
        const uint32_t capital = (uint32_t)((int64_t)x - run->difference);
        if (capital < run->first || capital > run->last || (capital - run->first) % (uint32_t)run->step != 0) continue;
        to[0] = capital;
        break;
    }
    return 1;
}

/* "&EACUTE;": a name known in small letters only, written in capitals; not "&LTDOT;", which begins as "&LT" does. */
static reference read_capitals(const char *name, size_t n) {
    char small[NAME_MOST];
    for (size_t i = 0; i < n; i++) {
        if (name[i] >= 'a' && name[i] <= 'z') return (reference){0};
        small[i] = (char)(name[i] >= 'A' && name[i] <= 'Z' ? name[i] + 32 : name[i]);
    }
    for (size_t size = 2; size < n; size++) {
        const gf_entity *begin = gf_entity_find(name, size);
        if (begin && begin->second == GF_ENTITY_BARE) return (reference){0};
    }
    const gf_entity *e = gf_entity_find(small, n);
    if (!e) return (reference){0};
    reference r = entity_reference(e, (int64_t)n + 2);
    if (r.made == 1) r.made = capital_of(e->first, r.to);
    return r;
}

/* "&name;", or the longest beginning that stands without a semicolon. `strict`: with a semicolon only. */
static reference read_name(const uint32_t *s, int64_t n, int strict) {
    char name[NAME_MOST];
    int64_t size = 0;
    for (; size < NAME_MOST && 1 + size < n && is_name(s[1 + size]); size++) name[size] = (char)s[1 + size];
    if (size > 0 && 1 + size < n && s[1 + size] == ';') {
        const gf_entity *e = gf_entity_find(name, (size_t)size);
        const reference capitals = !e && strict ? read_capitals(name, (size_t)size) : (reference){0};
        if (e || capitals.made) return e ? entity_reference(e, size + 2) : capitals;
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

int64_t gf_entities_replace(uint32_t *s, int64_t n, int strict) {
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
