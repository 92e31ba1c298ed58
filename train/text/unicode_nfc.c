/* unicode_nfc.c - see unicode_nfc.h. Text is cut where nothing can meet: before characters that never change nor join what is
 * before them. Such a piece is taken apart, its marks are ordered, and it is put together again. */
#include "text/unicode_nfc.h"

#include <string.h>

#define MAY_CHANGE 0x100u

/* Hangul syllables are computed: leading consonant, vowel, trailing consonant. */
enum { SYLLABLE = 0xac00, LEAD = 0x1100, VOWEL = 0x1161, TRAIL = 0x11a7, LEADS = 19, VOWELS = 21, TRAILS = 28 };
#define SYLLABLES (LEADS * VOWELS * TRAILS)

typedef struct piece {
    uint32_t code[GF_NFC_MAX];
    int n;
} piece;

/* Combining class, and MAY_CHANGE. */
static uint32_t mark_of(uint32_t code) {
    if (code < 0x300) return 0;
    int lo = 0, hi = gf_nfc_marks_n - 1;
    while (lo < hi) { /* the last row that begins at or before the code */
        const int mid = lo + (hi - lo + 1) / 2;
        if (gf_nfc_marks[mid] >> 9 <= code) lo = mid;
        else hi = mid - 1;
    }
    return gf_nfc_marks[lo] & 0x1ff;
}

static uint32_t class_of(uint32_t code) { return mark_of(code) & 0xff; }

/* ----- apart ----- */

static const gf_decomposition *parts_of(uint32_t code) {
    int lo = 0, hi = gf_nfc_parts_n - 1;
    while (lo < hi) {
        const int mid = lo + (hi - lo) / 2;
        if (gf_nfc_parts[mid].code >= code) hi = mid;
        else lo = mid + 1;
    }
    return gf_nfc_parts[lo].code == code ? &gf_nfc_parts[lo] : NULL;
}

static int put(piece *p, uint32_t code) {
    if (p->n >= GF_NFC_MAX) return 0;
    p->code[p->n++] = code;
    return 1;
}

/* Returns 0: no capacity left. The second part of a character has no parts itself. */
static int put_apart(piece *p, uint32_t code) {
    const uint32_t k = code - SYLLABLE;
    if (k < SYLLABLES) {
        const int ok = put(p, LEAD + k / (VOWELS * TRAILS)) && put(p, VOWEL + k / TRAILS % VOWELS);
        return ok && (k % TRAILS == 0 || put(p, TRAIL + k % TRAILS));
    }
    const gf_decomposition *parts = code < 0xc0 ? NULL : parts_of(code);
    if (!parts) return put(p, code);
    return put_apart(p, parts->first) && (!parts->second || put(p, parts->second));
}

/* Marks of a letter by class, those of one class as they come: counted, for a hostile text may have thousands. */
static void order_marks(uint32_t *code, int n) {
    uint32_t sorted[GF_NFC_MAX];
    int at[257] = {0};
    for (int i = 0; i < n; i++) at[class_of(code[i]) + 1]++;
    for (int c = 0; c < 256; c++) at[c + 1] += at[c];
    for (int i = 0; i < n; i++) sorted[at[class_of(code[i])]++] = code[i];
    memcpy(code, sorted, (size_t)n * sizeof *code);
}

static void order(piece *p) {
    for (int i = 0, end; i < p->n; i = end + 1) {
        int sorted = 1;
        uint32_t last = 0;
        for (end = i; end < p->n; end++) {
            const uint32_t class = class_of(p->code[end]);
            if (class == 0) break;
            sorted &= last <= class;
            last = class;
        }
        if (!sorted) order_marks(p->code + i, end - i);
    }
}

/* ----- together ----- */

static int compare_pair(const gf_decomposition *d, uint32_t first, uint32_t second) {
    return d->first != first ? (d->first < first ? -1 : 1) : d->second != second ? (d->second < second ? -1 : 1) : 0;
}

/* The character that both together make; 0: none. */
static uint32_t compose(uint32_t first, uint32_t second) {
    if (first - LEAD < LEADS && second - VOWEL < VOWELS) return SYLLABLE + ((first - LEAD) * VOWELS + second - VOWEL) * TRAILS;
    if (first - SYLLABLE < SYLLABLES && (first - SYLLABLE) % TRAILS == 0 && second > TRAIL && second - TRAIL < TRAILS)
        return first + second - TRAIL;
    int lo = 0, hi = gf_nfc_pairs_n;
    while (lo < hi) {
        const int mid = lo + (hi - lo) / 2;
        const gf_decomposition *d = &gf_nfc_parts[gf_nfc_pairs[mid]];
        const int order = compare_pair(d, first, second);
        if (order == 0) return d->code;
        if (order < 0) lo = mid + 1;
        else hi = mid;
    }
    return 0;
}

/* A mark joins the letter before it, unless one between them has its class, or none. */
static void join(piece *p) {
    int out = 0, letter = -1;
    uint32_t last = 0;
    for (int i = 0; i < p->n; i++) {
        const uint32_t code = p->code[i], class = class_of(code);
        const uint32_t joined = letter >= 0 && (out - 1 == letter || last < class) ? compose(p->code[letter], code) : 0;
        if (joined) {
            p->code[letter] = joined;
            continue;
        }
        if (class == 0) letter = out;
        last = class;
        p->code[out++] = code;
    }
    p->n = out;
}

/* Returns 0: it does not fit. */
static int normalise(piece *p, const uint32_t *code, int64_t n) {
    p->n = 0;
    for (int64_t i = 0; i < n; i++) {
        if (!put_apart(p, code[i])) return 0;
    }
    order(p);
    join(p);
    return 1;
}

/* Length of the piece at code: one that stands firm or not, and all that may join it. */
static int64_t piece_length(const uint32_t *code, int64_t n, int *may_change) {
    int64_t end = 1;
    *may_change = (mark_of(code[0]) & MAY_CHANGE) != 0;
    while (end < n && (mark_of(code[end]) & MAY_CHANGE)) end++;
    *may_change |= end > 1;
    return end;
}

static int64_t first_change(const uint32_t *code, int64_t n) {
    int64_t i = 0;
    while (i < n && !(mark_of(code[i]) & MAY_CHANGE)) i++;
    return i;
}

int64_t gf_unicode_nfc(uint32_t *code, int64_t n, size_t capacity, int *changed) {
    const int64_t first = first_change(code, n);
    if (first == n) return n;
    const int64_t kept = first > 0 ? first - 1 : 0, rest = n - kept;
    uint32_t *const end = code + capacity, *from = memmove(end - rest, code + kept, (size_t)rest * sizeof *code);
    uint32_t *out = code + kept;
    piece p;
    for (int64_t size; from < end; from += size) {
        int may_change;
        size = piece_length(from, end - from, &may_change);
        const int fits = may_change && normalise(&p, from, size) && out + p.n <= from + size;
        const int64_t made = fits ? p.n : size;
        *changed |= fits && (made != size || memcmp(p.code, from, (size_t)size * sizeof *from) != 0);
        memmove(out, fits ? p.code : from, (size_t)made * sizeof *out);
        out += made;
    }
    return out - code;
}
