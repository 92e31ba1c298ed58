/* unicode.c - see unicode.h. */
#include "text/unicode.h"

#include <string.h>

/* ----- UTF-8 ----- */

/* Bytes of a character by its first byte, 0: no character begins so; and the range of its second byte, which rules out
 * overlong forms, surrogates and what lies beyond the last code point. */
static int sequence(uint8_t first, uint8_t *low, uint8_t *high) {
    *low = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
    *high = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
    return first < 0x80 ? 1 : first < 0xc2 ? 0 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : first < 0xf5 ? 4 : 0;
}

uint32_t gf_utf8_next(const uint8_t **at, const uint8_t *end) {
    const uint8_t first = *(*at)++;
    if (first < 0x80) return first;
    uint8_t low, high;
    const int n = sequence(first, &low, &high);
    if (n == 0) return GF_UNICODE_BAD;
    uint32_t code = first & (0xffu >> (n + 1));
    for (int k = 1; k < n; k++) {
        if (*at >= end || **at < low || **at > high) return GF_UNICODE_BAD;
        code = code << 6 | (*(*at)++ & 0x3fu);
        low = 0x80;
        high = 0xbf;
    }
    return code;
}

int gf_utf8_put(uint32_t code, uint8_t out[4]) {
    static const uint8_t mark[5] = {0, 0, 0xc0, 0xe0, 0xf0};
    const int n = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    for (int k = n - 1; k > 0; k--) {
        out[k] = (uint8_t)(0x80 | (code & 0x3f));
        code >>= 6;
    }
    out[0] = (uint8_t)(mark[n == 1 ? 0 : n] | code);
    return n;
}

/* ----- classes and forms ----- */

int gf_unicode_class(uint32_t code) {
    if ((code | 0x20) - 'a' < 26) return GF_LETTER | GF_CASED;
    if (code == ' ') return GF_SPACE;
    int lo = 0, hi = gf_unicode_classes_n - 1;
    while (lo < hi) { /* the last row that begins at or before the code */
        const int mid = lo + (hi - lo + 1) / 2;
        if (gf_unicode_classes[mid] >> 5 <= code) lo = mid;
        else hi = mid - 1;
    }
    return (int)(gf_unicode_classes[lo] & 31);
}

uint32_t gf_unicode_lower(uint32_t code) {
    if (code < 0x80) return code - 'A' < 26 ? code + 32 : code;
    int lo = 0, hi = gf_unicode_lower_runs_n - 1;
    while (lo < hi) { /* the first run that ends at or after the code */
        const int mid = lo + (hi - lo) / 2;
        if (gf_unicode_lower_runs[mid].last >= code) hi = mid;
        else lo = mid + 1;
    }
    const gf_unicode_run *run = &gf_unicode_lower_runs[lo];
    if (code < run->first || code > run->last || (code - run->first) % (uint32_t)run->step != 0) return code;
    return (uint32_t)((int64_t)code + run->difference);
}

const gf_unicode_form *gf_unicode_plain(uint32_t code) {
    if ((code >= 0x20 && code < 0x7f) || code > 0xffff) return NULL;
    int lo = 0, hi = gf_unicode_forms_n - 1;
    while (lo < hi) {
        const int mid = lo + (hi - lo) / 2;
        if (gf_unicode_forms[mid].code >= code) hi = mid;
        else lo = mid + 1;
    }
    return gf_unicode_forms[lo].code == code ? &gf_unicode_forms[lo] : NULL;
}

uint32_t gf_unicode_windows(uint32_t code) {
    static const uint16_t means[32] = {
        /* what it leaves open stands for itself */
        0x20ac, 0x81,   0x201a, 0x192,  0x201e, 0x2026, 0x2020, 0x2021, 0x2c6, 0x2030, 0x160, 0x2039, 0x152, 0x8d, 0x17d, 0x8f,
        0x90,   0x2018, 0x2019, 0x201c, 0x201d, 0x2022, 0x2013, 0x2014, 0x2dc, 0x2122, 0x161, 0x203a, 0x153, 0x9d, 0x17e, 0x178,
    };
    return code >= 0x80 && code < 0xa0 ? means[code - 0x80] : code;
}

/* As strcmp with a name of n bytes. */
static int compare_name(const char *known, const char *name, size_t n) {
    const int order = strncmp(known, name, n);
    return order != 0 ? order : known[n] != 0;
}

const gf_entity *gf_entity_find(const char *name, size_t n) {
    int lo = 0, hi = gf_entities_n;
    while (lo < hi) {
        const int mid = lo + (hi - lo) / 2, order = compare_name(gf_entities[mid].name, name, n);
        if (order == 0) return &gf_entities[mid];
        if (order < 0) lo = mid + 1;
        else hi = mid;
    }
    return NULL;
}
