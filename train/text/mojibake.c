/* mojibake.c - see mojibake.h. */
#include "text/mojibake.h"

#include <string.h>

#include "text/mojibake_bytes.h"
#include "text/mojibake_rules.h"
#include "text/mojibake_tables.h"
#include "text/unicode.h"

#define ROUNDS 16 /* each level of wrong decoding makes text longer, so that few suffice */
#define DEPTH 8   /* of parts of parts */

static int64_t repair(uint32_t *s, int64_t n, uint8_t *bytes, int depth, int *changed);

/* Takes the first encoding in which all of it is UTF-8. Returns the new count, -1: none fits. */
static int64_t reinterpret(uint32_t *s, int64_t n, uint8_t *bytes, int *changed) {
    for (int encoding = 0; encoding < GF_ENCODINGS; encoding++) {
        const int lost = encoding >= GF_WINDOWS_FIRST && encoding <= GF_WINDOWS_LAST;
        const int64_t size = gf_mojibake_encode(s, n, encoding, bytes);
        const int64_t made = size < 0 ? -1 : gf_mojibake_decode(bytes, size, lost, s, changed);
        if (made >= 0) {
            *changed |= made != n;
            return made;
        }
    }
    return -1;
}

static uint32_t roles(uint32_t code) {
    const gf_mojibake_row *row = gf_mojibake_find(code);
    return row ? row->kinds : code == ' ' ? GF_MK_CONTINUES : 0; /* a space may have been byte 0xA0 */
}

/* Length of what may be one character of UTF-8, each byte of it a character; 0: none. */
static int64_t one_length(const uint32_t *s, int64_t n) {
    const uint32_t first = roles(s[0]);
    const int length = first & GF_MK_BEGINS_2 ? 2 : first & GF_MK_BEGINS_3 ? 3 : first & GF_MK_BEGINS_4 ? 4 : 0;
    for (int k = 1; k < length; k++) {
        if (k >= n || !(roles(s[k]) & GF_MK_CONTINUES)) return 0;
    }
    return length;
}

static int64_t run_length(const uint32_t *s, int64_t n) {
    int64_t size = 0;
    for (int64_t more = 1; more > 0 && size < n; size += more) more = one_length(s + size, n - size);
    return size;
}

/* Repairs runs of such characters by themselves, but none that begins amid others of the kind: that is worse than nothing. */
static int64_t repair_parts(uint32_t *s, int64_t n, uint8_t *bytes, int depth, int *changed) {
    int64_t out = 0;
    uint32_t before = 0; /* the character before, as it was */
    *changed = 0;
    for (int64_t i = 0; i < n;) {
        const int64_t run = roles(before) & GF_MK_CONTINUES_STRICT ? 0 : run_length(s + i, n - i), size = run > 0 ? run : 1;
        int differs = 0;
        before = s[i + size - 1];
        const int64_t made = run > 0 && run < n ? repair(s + i, run, bytes, depth - 1, &differs) : size;
        memmove(s + out, s + i, (size_t)made * sizeof *s);
        *changed |= differs;
        out += made;
        i += size;
    }
    return out;
}

/* Latin-1 that was Windows-1252: these controls never occur in text. */
static void repair_controls(uint32_t *s, int64_t n, int *changed) {
    for (int64_t i = 0; i < n; i++) {
        const uint32_t meant = gf_unicode_windows(s[i]);
        *changed |= meant != s[i];
        s[i] = meant;
    }
}

static int64_t repair(uint32_t *s, int64_t n, uint8_t *bytes, int depth, int *changed) {
    int step = depth > 0;
    for (int round = 0; step && round < ROUNDS && gf_mojibake_suspected(s, n); round++) {
        const int64_t made = reinterpret(s, n, bytes, &step);
        n = made >= 0 ? made : repair_parts(s, n, bytes, depth, &step);
        if (made < 0 && !step) repair_controls(s, n, &step);
        *changed |= step;
    }
    return n;
}

int64_t gf_mojibake_repair(uint32_t *s, int64_t n, uint8_t *bytes, int *changed) { return repair(s, n, bytes, DEPTH, changed); }
