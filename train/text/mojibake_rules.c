/* mojibake_rules.c - see mojibake_rules.h. Which neighbours are suspicious is what ftfy 6.3 (by Robyn Speer) has found out; here
 * it is a table of rules, each a row of sets of characters that follow each other. */
#include "text/mojibake_rules.h"

#include <stddef.h>
#include <uchar.h>

#include "text/mojibake_tables.h"
#include "text/unicode.h"

#define RULE_MAX 7 /* characters of the longest rule */

enum {                        /* kinds that any character may have, behind those of the table */
       LATIN_SMALL = 1 << 24, /* a to z */
       LATIN_CAPITAL = 1 << 25,
       BLANK = 1 << 26,
       WORD = 1 << 27,      /* letter, digit, underscore */
       NOT_LATIN = 1 << 28, /* neither a to z nor A to Z */
       ANY = 1 << 29,       /* all but a line break */
       FREE = GF_MK_FREE,
       CONTROL = GF_MK_CONTROL,
       ODD = GF_MK_ODD,
       LAW = GF_MK_LAW,
       MONEY = GF_MK_MONEY,
       OPENING = GF_MK_OPENING,
       CLOSING = GF_MK_CLOSING,
       NUMERIC = GF_MK_NUMERIC,
       FACE = GF_MK_FACE,
       CAPITAL = GF_MK_CAPITAL,
       SMALL = GF_MK_SMALL,
       BOX = GF_MK_BOX,
       PLAIN = GF_MK_CAPITAL_PLAIN | GF_MK_SMALL_PLAIN,
       SMALL_PLAIN = GF_MK_SMALL_PLAIN,
       ACCENTED = CAPITAL | SMALL,
       LATIN = LATIN_SMALL | LATIN_CAPITAL,
       MARK = OPENING | CLOSING,
       SIGN = BOX | MARK | MONEY | NUMERIC | LAW
};

typedef struct set { /* characters of these kinds, and those listed */
    uint32_t kinds;
    const char16_t *listed; /* NULL: the rule ends before */
} set;

#define KIND(kinds) \
    { (kinds), u"" }
#define ONE_OF(listed) \
    { 0, listed }
#define EITHER(kinds, listed) \
    { (kinds), listed }

static const set rules[][RULE_MAX] = {
    {KIND(CONTROL)},
    {KIND(ODD | ACCENTED | SIGN), KIND(ODD)},
    {KIND(LATIN), KIND(PLAIN), KIND(ODD)},
    {KIND(ODD), KIND(ACCENTED | SIGN)},
    {KIND(SMALL | SMALL_PLAIN | BOX | CLOSING | MONEY | NUMERIC), KIND(CAPITAL)},
    {KIND(BOX | CLOSING | MONEY | NUMERIC), KIND(SMALL)},
    {KIND(SMALL | BOX | CLOSING), KIND(MONEY)},
    {KIND(BLANK), KIND(CAPITAL), KIND(MONEY)},
    {KIND(CAPITAL | BOX), KIND(NUMERIC | LAW)},
    {KIND(ACCENTED | BOX | MONEY | CLOSING), KIND(OPENING), KIND(NUMERIC)},
    {KIND(ACCENTED | MONEY | NUMERIC | BOX | LAW), KIND(CLOSING), KIND(OPENING)},
    {KIND(MONEY | NUMERIC | BOX), KIND(OPENING)},
    {KIND(LATIN_SMALL), KIND(CAPITAL), KIND(OPENING | MONEY)},
    {KIND(BOX), KIND(FACE | CLOSING)},
    {KIND(ACCENTED | MONEY | NUMERIC | MARK | LAW), KIND(BOX)},
    {KIND(ACCENTED), KIND(MARK), KIND(WORD)},
    {ONE_OF(u"Œœ"), KIND(NOT_LATIN)},
    {KIND(CAPITAL), ONE_OF(u"°")},
    /* Windows-1252: two bytes; Arabic; scripts of South Asia; a space that was à or a no-break space */
    {ONE_OF(u"ÂÃÎÐ"), EITHER(MARK, u"€œŠš¢£Ÿž\u00a0\u00ad®©°·»–—´")},
    {ONE_OF(u"×"), ONE_OF(u"²³")},
    {ONE_OF(u"ØÙ"), EITHER(FREE | MONEY | ODD | NUMERIC | OPENING, u"ŸŠ®°µ»"), ONE_OF(u"ØÙ"),
     EITHER(FREE | MONEY | ODD | NUMERIC | OPENING, u"ŸŠ®°µ»")},
    {ONE_OF(u"à"), ONE_OF(u"²µ¹¼½¾")},
    {KIND(LATIN_SMALL), ONE_OF(u"ÃÂ"), ONE_OF(u" ")},
    {KIND(LATIN_SMALL), KIND(BLANK), ONE_OF(u"ÃÂ"), ONE_OF(u" ")},
    {EITHER(LATIN_SMALL | CLOSING, u".,?!"), ONE_OF(u"Â"), EITHER(MARK, u" ")},
    /* the Macintosh's */
    {ONE_OF(u"√"), ONE_OF(u"±∂†≠®™´≤≥¥µø")},
    {ONE_OF(u"≈"), ONE_OF(u"°¢")},
    {ONE_OF(u"‚"), ONE_OF(u"Ä"), ONE_OF(u"ìîïòôúùû†°¢π")},
    {ONE_OF(u"‚"), ONE_OF(u"âó"), ONE_OF(u"àä°ê")},
    /* Windows-1251; the last one was decoded wrongly three times */
    {ONE_OF(u"в"), ONE_OF(u"Ђ")},
    {ONE_OF(u"ВГРС"), EITHER(CONTROL | ODD | MARK | MONEY, u"°µ"), ONE_OF(u"ВГРС")},
    {ONE_OF(u"Г"), ONE_OF(u"ў"), ONE_OF(u"В"), ONE_OF(u"Ђ"), ONE_OF(u"В"), KIND(ANY), EITHER(LATIN, u" ")},
    /* Windows-1253, Windows-1257 */
    {ONE_OF(u"β"), ONE_OF(u"€"), ONE_OF(u"™\u00a0Ά\u00ad®°")},
    {ONE_OF(u"ΒΓΞΟ"), EITHER(CONTROL | ODD | MARK | MONEY, u"°"), ONE_OF(u"ΒΓΞΟ")},
    {ONE_OF(u"ā"), ONE_OF(u"€")},
};

const gf_mojibake_row *gf_mojibake_find(uint32_t code) {
    int lo = 0, hi = gf_mojibake_rows_n - 1;
    if (code < 0x80) return NULL;
    while (lo < hi) {
        const int mid = lo + (hi - lo) / 2;
        if (gf_mojibake_rows[mid].code >= code) hi = mid;
        else lo = mid + 1;
    }
    return gf_mojibake_rows[lo].code == code ? &gf_mojibake_rows[lo] : NULL;
}

static uint32_t kinds_of(uint32_t code) {
    if (code - 'a' < 26) return LATIN_SMALL | WORD | ANY;
    if (code - 'A' < 26) return LATIN_CAPITAL | WORD | ANY;
    const gf_mojibake_row *row = gf_mojibake_find(code);
    const int class = gf_unicode_class(code);
    uint32_t kinds = NOT_LATIN | (row ? row->kinds : 0);
    if (class & GF_SPACE) kinds |= BLANK;
    if ((class & (GF_LETTER | GF_NUMBER)) || code == '_') kinds |= WORD;
    return code == '\n' ? kinds : kinds | ANY;
}

static int is_in(const set *s, uint32_t code, uint32_t kinds) {
    if (kinds & s->kinds) return 1;
    for (const char16_t *c = s->listed; *c; c++) {
        if (*c == code) return 1;
    }
    return 0;
}

/* The first character of the rule is known to fit. */
static int rest_fits(const set *rule, const uint32_t *s, int64_t n) {
    for (int k = 1; k < RULE_MAX && rule[k].listed; k++) {
        if (k >= n || !is_in(&rule[k], s[k], kinds_of(s[k]))) return 0;
    }
    return 1;
}

static int rule_fits_at(const uint32_t *s, int64_t n) {
    const uint32_t kinds = kinds_of(s[0]);
    for (size_t k = 0; k < sizeof rules / sizeof *rules; k++) {
        if (is_in(&rules[k][0], s[0], kinds) && rest_fits(rules[k], s, n)) return 1;
    }
    return 0;
}

int gf_mojibake_suspected(const uint32_t *s, int64_t n) {
    if (n >= 2 && (s[0] == 0xc3 || s[0] == 0xc2) && s[1] == ' ') return 1; /* here only does the beginning count */
    for (int64_t i = 0; i < n; i++) {
        if (i + 2 < n && (s[i] | s[i + 1] | s[i + 2]) < 0x80) continue; /* every rule has one beyond ASCII among these */
        if (rule_fits_at(s + i, n - i)) return 1;
    }
    return 0;
}
