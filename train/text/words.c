/* words.c - see words.h. Cleaning is a list of steps over an array of code points, each in place.
 *
 * The reference, open_clip's tokenizer, runs ftfy, then html.unescape twice, then collapses white space and lowers with Python's
 * results. What ftfy does to text that was decoded correctly is done here too.
 */
#include "text/words.h"

#include <stdlib.h>
#include <string.h>

#ifdef GF_HAVE_UTF8PROC
#include <utf8proc.h>
#endif

#include "util/machine.h"

/* ----- UTF-8 ----- */

uint32_t gf_utf8_next(const uint8_t **at, const uint8_t *end) {
    const uint8_t first = *(*at)++;
    if (first < 0x80) return first;
    const int n = first < 0xc2 ? 0 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : first < 0xf5 ? 4 : 0;
    if (n == 0) return GF_UNICODE_BAD;
    /* The range of the second byte rules out overlong forms, surrogates and what lies beyond the last code point. */
    uint8_t low = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80, high = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
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
    out[0] = (uint8_t)(mark[n] | code);
    return n;
}

/* ----- Unicode ----- */

enum { LETTER = 1, NUMBER, SPACE }; /* 0: anything else */

#ifdef GF_HAVE_UTF8PROC

typedef utf8proc_int32_t code_point;

static int category(uint32_t code) { return (int)utf8proc_category((code_point)code); }

static int class_beyond_ascii(uint32_t code) {
    const int c = category(code);
    if (c >= UTF8PROC_CATEGORY_LU && c <= UTF8PROC_CATEGORY_LO) return LETTER;
    if (c >= UTF8PROC_CATEGORY_ND && c <= UTF8PROC_CATEGORY_NO) return NUMBER;
    return c >= UTF8PROC_CATEGORY_ZS && c <= UTF8PROC_CATEGORY_ZP ? SPACE : 0;
}

static int is_cased(uint32_t code) {
    const int c = category(code);
    return c == UTF8PROC_CATEGORY_LU || c == UTF8PROC_CATEGORY_LL || c == UTF8PROC_CATEGORY_LT;
}

/* What the end of a word does not stop at: marks, modifiers, invisible characters, and signs inside of words. */
static int is_case_ignorable(uint32_t code) {
    const int c = category(code);
    return c == UTF8PROC_CATEGORY_MN || c == UTF8PROC_CATEGORY_ME || c == UTF8PROC_CATEGORY_CF || c == UTF8PROC_CATEGORY_LM ||
           c == UTF8PROC_CATEGORY_SK || code == '\'' || code == '.' || code == ':' || code == 0xb7 || code == 0x2019;
}

static uint32_t lower_case(uint32_t code) {
    return code < 0x80 ? code + (code - 'A' < 26 ? 32 : 0) : (uint32_t)utf8proc_tolower((code_point)code);
}

/* Its compatibility form, composed, in to [4]; returns how many characters. */
static int compatibility_form(uint32_t code, uint32_t to[4]) {
    code_point part[4];
    utf8proc_ssize_t n = utf8proc_decompose_char((code_point)code, part, 4, UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT, NULL);
    if (n > 0 && n <= 4) n = utf8proc_normalize_utf32(part, n, UTF8PROC_COMPOSE | UTF8PROC_STABLE);
    if (n <= 0 || n > 4) return to[0] = code, 1;
    for (int k = 0; k < (int)n; k++) to[k] = (uint32_t)part[k];
    return (int)n;
}

/* A letter with its marks, n <= GF_COMPOSE_MAX, in NFC to `to`; returns how many, 0: it stays as it is. */
static int64_t compose_letter(const uint32_t *from, int64_t n, uint32_t *to) {
    code_point part[4 * GF_COMPOSE_MAX]; /* no character is taken apart into more than four */
    utf8proc_ssize_t count = 0;
    for (int64_t i = 0; i < n; i++) {
        const utf8proc_ssize_t more = utf8proc_decompose_char((code_point)from[i], part + count, 4, UTF8PROC_DECOMPOSE, NULL);
        if (more <= 0 || more > 4) return 0;
        count += more;
    }
    for (utf8proc_ssize_t i = 1; i < count; i++) { /* marks in the order of their classes, equal ones as they came */
        const code_point moved = part[i];
        const int class = utf8proc_get_property(moved)->combining_class;
        utf8proc_ssize_t k = i;
        for (; class > 0 && k > 0 && utf8proc_get_property(part[k - 1])->combining_class > class; k--) part[k] = part[k - 1];
        part[k] = moved;
    }
    count = utf8proc_normalize_utf32(part, count, UTF8PROC_COMPOSE | UTF8PROC_STABLE);
    for (utf8proc_ssize_t i = 0; i < count; i++) to[i] = (uint32_t)part[i];
    return count > 0 ? count : 0;
}

/* May be composed with what comes before it: marks, and the vowels and last consonants of Korean. */
static int joins_before(uint32_t code) {
    const int c = category(code);
    return code >= 0x300 && ((c >= UTF8PROC_CATEGORY_MN && c <= UTF8PROC_CATEGORY_ME) || (code >= 0x1160 && code <= 0x11ff));
}

#else /* only ASCII comes this far */

static int class_beyond_ascii(uint32_t code) { return (void)code, 0; }
static int is_cased(uint32_t code) { return (code | 0x20) - 'a' < 26; }
static int is_case_ignorable(uint32_t code) { return (void)code, 0; }
static uint32_t lower_case(uint32_t code) { return code + (code - 'A' < 26 ? 32 : 0); }
static int compatibility_form(uint32_t code, uint32_t to[4]) { return to[0] = code, 1; }
static int64_t compose_letter(const uint32_t *from, int64_t n, uint32_t *to) { return (void)from, (void)n, (void)to, 0; }
static int joins_before(uint32_t code) { return (void)code, 0; }

#endif

static int class_of(uint32_t code) {
    if (code >= 0x80) return class_beyond_ascii(code);
    if ((code | 0x20) - 'a' < 26) return LETTER;
    if (code - '0' < 10) return NUMBER;
    return code == ' ' || code - '\t' < 5 || code - 0x1c < 4 ? SPACE : 0;
}

/* A Latin-1 control (U+0080 to U+009F) read as a byte of Windows-1252; any other character: itself. */
static uint32_t windows_character(uint32_t code) {
    static const uint16_t means[32] = {
        /* what it leaves open stands for itself */
        0x20ac, 0x81,   0x201a, 0x192,  0x201e, 0x2026, 0x2020, 0x2021, 0x2c6, 0x2030, 0x160, 0x2039, 0x152, 0x8d, 0x17d, 0x8f,
        0x90,   0x2018, 0x2019, 0x201c, 0x201d, 0x2022, 0x2013, 0x2014, 0x2dc, 0x2122, 0x161, 0x203a, 0x153, 0x9d, 0x17e, 0x178,
    };
    return code >= 0x80 && code < 0xa0 ? means[code - 0x80] : code;
}

/* Moves n codes to the end of the array, so that the front can be written while they are read. What is written for a code never
 * overtakes what is still to be read: each code came from at least as many bytes as it makes codes, and the capacity counts
 * these bytes. */
static const uint32_t *move_to_end(uint32_t *code, int64_t n, size_t capacity) {
    return memmove(code + (int64_t)capacity - n, code, (size_t)n * sizeof *code);
}

/* ----- HTML's entities: "&eacute;", "&#233;" ----- */

#define ENTITY_NAME_MAX 8

typedef struct entity_run { /* names of characters that follow each other */
    uint32_t first;
    int bare; /* also without a semicolon */
    const char *names;
} entity_run;

/* Those of HTML 4 that captions have: Latin-1, Greek, punctuation and signs. */
/* clang-format off */
static const entity_run entities[] = {
    {'"', 1, "quot"}, {'"', 1, "QUOT"}, {'&', 1, "amp"}, {'&', 1, "AMP"}, {'\'', 0, "apos"}, {'<', 1, "lt"}, {'<', 1, "LT"},
    {'>', 1, "gt"}, {'>', 1, "GT"},
    {0xa0, 1,
     "nbsp iexcl cent pound curren yen brvbar sect uml copy ordf laquo not shy reg macr deg plusmn sup2 sup3 acute micro para "
     "middot cedil sup1 ordm raquo frac14 frac12 frac34 iquest Agrave Aacute Acirc Atilde Auml Aring AElig Ccedil Egrave Eacute "
     "Ecirc Euml Igrave Iacute Icirc Iuml ETH Ntilde Ograve Oacute Ocirc Otilde Ouml times Oslash Ugrave Uacute Ucirc Uuml "
     "Yacute THORN szlig agrave aacute acirc atilde auml aring aelig ccedil egrave eacute ecirc euml igrave iacute icirc iuml "
     "eth ntilde ograve oacute ocirc otilde ouml divide oslash ugrave uacute ucirc uuml yacute thorn yuml"},
    {0xa9, 1, "COPY"}, {0xae, 1, "REG"}, {0x152, 0, "OElig oelig"}, {0x160, 0, "Scaron scaron"}, {0x178, 0, "Yuml"},
    {0x2c6, 0, "circ"}, {0x2dc, 0, "tilde"},
    {0x391, 0, "Alpha Beta Gamma Delta Epsilon Zeta Eta Theta Iota Kappa Lambda Mu Nu Xi Omicron Pi Rho"},
    {0x3a3, 0, "Sigma Tau Upsilon Phi Chi Psi Omega"},
    {0x3b1, 0,
     "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi omicron pi rho sigmaf sigma tau upsilon phi chi "
     "psi omega"},
    {0x2002, 0, "ensp emsp"}, {0x2009, 0, "thinsp"}, {0x200c, 0, "zwnj zwj lrm rlm"}, {0x2013, 0, "ndash mdash"},
    {0x2018, 0, "lsquo rsquo sbquo"}, {0x201c, 0, "ldquo rdquo bdquo"}, {0x2020, 0, "dagger Dagger bull"},
    {0x2026, 0, "hellip"}, {0x2030, 0, "permil"}, {0x2032, 0, "prime Prime"}, {0x2039, 0, "lsaquo rsaquo"},
    {0x20ac, 0, "euro"}, {0x2122, 0, "trade"}, {0x2190, 0, "larr uarr rarr darr harr"}, {0x2212, 0, "minus"},
    {0x221e, 0, "infin"}, {0x2248, 0, "asymp"}, {0x2260, 0, "ne"}, {0x2264, 0, "le ge"}, {0x2660, 0, "spades"},
    {0x2663, 0, "clubs"}, {0x2665, 0, "hearts diams"},
};
/* clang-format on */

/* The character of a name, 0: none. `bare`: only those that stand without a semicolon. */
static uint32_t entity_by_name(const char *name, size_t n, int bare) {
    for (size_t k = 0; k < sizeof entities / sizeof *entities; k++) {
        if (bare && !entities[k].bare) continue;
        uint32_t code = entities[k].first;
        for (const char *at = entities[k].names; *at; code++) {
            const size_t length = strcspn(at, " ");
            if (length == n && memcmp(at, name, n) == 0) return code;
            at += length;
            at += *at == ' ';
        }
    }
    return 0;
}

/* "&#233;" or "&#xe9;", the semicolon may be missing. Returns the characters read, 0: none. *made: 0 or 1 character in *to, as
 * browsers decode it. */
static int64_t read_number(const uint32_t *s, int64_t n, int *made, uint32_t *to) {
    int64_t at = 2;
    const uint32_t base = at < n && (s[at] | 0x20) == 'x' ? 16 : 10;
    at += base == 16;
    const int64_t start = at;
    uint32_t x = 0;
    for (; at < n; at++) {
        const uint32_t low = s[at] | 0x20, digit = s[at] - '0' < 10 ? s[at] - '0' : low - 'a' < 6 ? low - 'a' + 10 : 16;
        if (digit >= base) break;
        if (x <= GF_UNICODE_MAX) x = x * base + digit;
    }
    if (at == start) return 0;
    const int blank = x == '\t' || x == '\n' || x == '\f' || x == '\r';
    *made = 1;
    *to = windows_character(x);
    if (x == 0 || x > GF_UNICODE_MAX || (x >= 0xd800 && x <= 0xdfff)) *to = GF_UNICODE_BAD;
    else if ((x < 0x20 && !blank) || x == 0x7f || (x >= 0xfdd0 && x <= 0xfdef) || (x & 0xfffe) == 0xfffe) *made = 0;
    return at + (at < n && s[at] == ';');
}

/* "&name;", or the longest beginning that stands without a semicolon. */
static int64_t read_name(const uint32_t *s, int64_t n, uint32_t *to) {
    char name[ENTITY_NAME_MAX];
    int64_t size = 0;
    for (; size < ENTITY_NAME_MAX && 1 + size < n && s[1 + size] < 0x80; size++) {
        const uint32_t c = s[1 + size];
        if (c - '0' >= 10 && (c | 0x20) - 'a' >= 26) break;
        name[size] = (char)c;
    }
    if (size > 0 && 1 + size < n && s[1 + size] == ';') {
        *to = entity_by_name(name, (size_t)size, 0);
        if (*to) return size + 2;
    }
    for (; size >= 2; size--) {
        *to = entity_by_name(name, (size_t)size, 1);
        if (*to) return size + 1;
    }
    return 0;
}

/* As Python's html.unescape, for the names above; strict, as ftfy: only with a semicolon. */
static int64_t replace_entities(uint32_t *code, int64_t n, int strict) {
    int64_t out = 0;
    for (int64_t i = 0; i < n;) {
        uint32_t to = 0;
        int made = 1;
        int64_t length = 0;
        if (code[i] == '&')
            length = i + 1 < n && code[i + 1] == '#' ? read_number(code + i, n - i, &made, &to) : read_name(code + i, n - i, &to);
        if (length == 0 || (strict && code[i + length - 1] != ';')) {
            code[out++] = code[i++];
            continue;
        }
        if (made) code[out++] = to;
        i += length;
    }
    return out;
}

/* ----- plain and composed forms ----- */

static int is_dropped(uint32_t c) {
    return c < 0x09 || c == 0x0b || (c >= 0x0e && c < 0x20) || c == 0x7f || (c >= 0x206a && c <= 0x206f) || c == 0xfeff ||
           (c >= 0xfff9 && c <= 0xfffc);
}

/* Latin ligatures; letters as wide as Chinese ones, and half-width kana. */
static int has_plain_form(uint32_t c) {
    return (c >= 0xff01 && c <= 0xffef) || c == 0x3000 || (c >= 0xfb00 && c <= 0xfb06) || c == 0x132 || c == 0x133 ||
           c == 0x149 || (c >= 0x1c4 && c <= 0x1cc) || (c >= 0x1f1 && c <= 0x1f3);
}

static uint32_t straight_quote(uint32_t c) {
    if ((c >= 0x2018 && c <= 0x201b) || c == 0x2bc) return '\'';
    return c >= 0x201c && c <= 0x201f ? '"' : c;
}

static int64_t make_plain(uint32_t *code, int64_t n, size_t capacity) {
    const uint32_t *from = move_to_end(code, n, capacity);
    int64_t out = 0;
    for (int64_t i = 0; i < n; i++) {
        uint32_t to[4] = {windows_character(from[i])};
        if (is_dropped(to[0])) continue;
        const int made = has_plain_form(to[0]) ? compatibility_form(to[0], to) : 1;
        for (int k = 0; k < made; k++) code[out++] = straight_quote(to[k]);
    }
    return out;
}

int64_t gf_compose(uint32_t *code, int64_t n, size_t capacity) {
    const uint32_t *from = move_to_end(code, n, capacity);
    int64_t out = 0;
    for (int64_t i = 0; i < n;) {
        int64_t size = 1;
        while (i + size < n && joins_before(from[i + size])) size++;
        const int alone = size == 1 && from[i] < 0x300;
        const int64_t made = alone || size > GF_COMPOSE_MAX ? 0 : compose_letter(from + i, size, code + out);
        if (made == 0) memmove(code + out, from + i, (size_t)size * sizeof *code);
        out += made > 0 ? made : size;
        i += size;
    }
    return out;
}

/* ----- white space, lower case ----- */

#define SIGMA 0x3a3u
#define FINAL_SIGMA 0x3c2u
#define CAPITAL_DOTTED_I 0x130u
#define DOT_ABOVE 0x307u

static int64_t collapse_spaces(uint32_t *code, int64_t n) {
    int64_t out = 0;
    for (int64_t i = 0; i < n; i++)
        if (class_of(code[i]) != SPACE) code[out++] = code[i];
        else if (out > 0 && code[out - 1] != ' ') code[out++] = ' ';
    return out > 0 && code[out - 1] == ' ' ? out - 1 : out;
}

/* Does a cased character follow from `i` on (step 1) or come before (step -1), those apart that case ignores? */
static int touches_cased(const uint32_t *s, int64_t n, int64_t i, int step) {
    while (i >= 0 && i < n && is_case_ignorable(s[i])) i += step;
    return i >= 0 && i < n && is_cased(s[i]);
}

/* A capital sigma that ends a word has a lower case of its own. What is lowered is cased before and after, so the letters before
 * are looked for in what was written. */
static int64_t make_lower(uint32_t *code, int64_t n, size_t capacity) {
    const uint32_t *from = move_to_end(code, n, capacity);
    int64_t out = 0;
    for (int64_t i = 0; i < n; i++) {
        const uint32_t c = from[i];
        if (c == SIGMA && touches_cased(code, out, out - 1, -1) && !touches_cased(from, n, i + 1, 1)) code[out++] = FINAL_SIGMA;
        else code[out++] = c == CAPITAL_DOTTED_I ? 'i' : lower_case(c);
        if (c == CAPITAL_DOTTED_I) code[out++] = DOT_ABOVE;
    }
    return out;
}

/* ----- all steps ----- */

int64_t gf_clean_text(const uint8_t *text, size_t n, uint32_t *code) {
    const uint8_t *at = text, *const end = text + n;
    int64_t m = 0;
    int plain = 1, html = 0;
    while (at < end) {
        const uint32_t c = gf_utf8_next(&at, end);
        plain &= c - 0x20 <= 0x5e && c != '&'; /* nothing to make plain, to compose or to unescape */
        html |= c == '<';
        code[m++] = c;
    }
    if (!plain) {
        if (!html) m = replace_entities(code, m, 1); /* as ftfy: beside tags, typographic forms of entities are meant */
        m = make_plain(code, m, n);
        m = gf_compose(code, m, n);
        for (int k = 0; k < 2; k++) m = replace_entities(code, m, 0);
    }
    m = collapse_spaces(code, m);
    return make_lower(code, m, n);
}

/* ----- words ----- */

#define LONG_S 0x17fu     /* has no capital of its own, so it counts as an s where case does not matter */
#define IOTA_BELOW 0x345u /* a mark whose capital is a letter: to the reference, blind to case, it is neither */

glofnd_status gf_words_begin(gf_error *err, gf_words *w, const char *text, size_t n) {
    FAIL_IF(err, n > GF_WORDS_TEXT_MAX, GLOFND_E_ARGUMENT, "a caption of %llu bytes; the limit is %llu", (unsigned long long)n,
            (unsigned long long)GF_WORDS_TEXT_MAX);
#ifndef GF_HAVE_UTF8PROC
    for (size_t i = 0; i < n; i++)
        FAIL_IF(err, (uint8_t)text[i] >= 0x80, GLOFND_E_UNSUPPORTED, "a caption with letters beyond ASCII: %s",
                GF_LEFT_OUT("utf8proc", "libutf8proc-dev"));
#endif
    if (n + 1 > w->capacity) {
        const size_t capacity = n + 1 < 1024 ? 1024 : n + 1;
        void *block = malloc(capacity * 8); /* code points, then the bytes of a word that is the whole text */
        FAIL_IF(err, !block, GLOFND_E_MEMORY, "no memory for a caption of %llu bytes", (unsigned long long)n);
        free(w->block);
        w->block = block;
        w->code = block;
        w->bytes = (uint8_t *)block + capacity * 4;
        w->capacity = capacity;
    }
    w->n = gf_clean_text((const uint8_t *)text, n, w->code);
    w->at = 0;
    return GLOFND_OK;
}

void gf_words_free(gf_words *w) {
    free(w->block);
    *w = (gf_words){0};
}

static int word_class(uint32_t code) { return code == IOTA_BELOW ? SPACE : class_of(code); }

/* Characters of `word` that the text has here, whatever their case; 0: not this word. */
static int64_t match_word(const gf_words *w, const char *word) {
    int64_t k = 0;
    for (; word[k]; k++) {
        if (w->at + k >= w->n) return 0;
        const uint32_t c = w->code[w->at + k];
        if (c != (uint8_t)word[k] && !(c == LONG_S && word[k] == 's')) return 0;
    }
    return k;
}

static int64_t word_length(const gf_words *w) {
    static const char *const known[] = {GF_WORDS_START, GF_WORDS_END, "'s", "'t", "'re", "'ve", "'m", "'ll", "'d"};
    const uint32_t first = w->code[w->at];
    for (size_t k = 0; (first == '<' || first == '\'') && k < sizeof known / sizeof *known; k++) {
        const int64_t n = match_word(w, known[k]);
        if (n > 0) return n;
    }
    const int class = word_class(first);
    if (class == NUMBER) return 1;
    int64_t end = w->at;
    while (end < w->n && word_class(w->code[end]) == class) end++;
    return end - w->at;
}

gf_word_kind gf_words_next(gf_words *w, const uint8_t **bytes, size_t *size) {
    while (w->at < w->n && word_class(w->code[w->at]) == SPACE) w->at++;
    if (w->at >= w->n) return GF_WORD_END;
    const int64_t end = w->at + word_length(w);
    size_t used = 0;
    while (w->at < end) used += (size_t)gf_utf8_put(w->code[w->at++], w->bytes + used);
    *bytes = w->bytes;
    *size = used;
    const size_t start_n = strlen(GF_WORDS_START), end_n = strlen(GF_WORDS_END);
    if (used == start_n && memcmp(w->bytes, GF_WORDS_START, start_n) == 0) return GF_WORD_START_MARK;
    return used == end_n && memcmp(w->bytes, GF_WORDS_END, end_n) == 0 ? GF_WORD_END_MARK : GF_WORD;
}
