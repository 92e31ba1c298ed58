/* text.c - see text.h. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "util/text.h"

#include <ctype.h>
#include <errno.h>
#include <locale.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "util/array.h"
#include "util/print.h"

/* ----- characters ----- */

size_t gf_utf8_bytes(const unsigned char *p) {
    static const struct {
        unsigned char mask, lead;
        unsigned least;
    } kinds[] = {{0x80, 0x00, 0}, {0xe0, 0xc0, 0x80}, {0xf0, 0xe0, 0x800}, {0xf8, 0xf0, 0x10000}};
    for (size_t k = 0; k < 4; k++) {
        if ((p[0] & kinds[k].mask) != kinds[k].lead) continue;
        unsigned code = p[0] & (unsigned char)~kinds[k].mask;
        for (size_t i = 1; i <= k; i++) {
            if ((p[i] & 0xc0) != 0x80) return 0; /* also the 0 at the end, so nothing is read beyond it */
            code = code << 6 | (p[i] & 0x3f);
        }
        return code < kinds[k].least || (code >= 0xd800 && code < 0xe000) || code > 0x10ffff ? 0 : k + 1;
    }
    return 0;
}

/* n: bytes of the character, 0: broken. */
static int is_control(const unsigned char *p, size_t n) {
    return *p < 0x20 || *p == 0x7f || (n == 2 && *p == 0xc2 && p[1] < 0xa0);
}

void gf_utf8_clean(char *text, char instead) {
    for (unsigned char *p = (unsigned char *)text; *p;) {
        const size_t n = gf_utf8_bytes(p);
        if (n == 0 || is_control(p, n)) memset(p, instead, n ? n : 1);
        p += n ? n : 1;
    }
}

void gf_utf8_trim(char *text) {
    const size_t n = strlen(text);
    size_t lead = n;
    while (lead > 0 && n - lead < 3 && ((unsigned char)text[lead - 1] & 0xc0) == 0x80) lead--;
    if (lead > 0 && (unsigned char)text[lead - 1] >= 0xc0 && !gf_utf8_bytes((const unsigned char *)text + lead - 1))
        text[lead - 1] = 0;
}

/* ----- escapes ----- */

int gf_is_not_a_line(const char *text) {
    for (const unsigned char *p = (const unsigned char *)text; *p;) {
        const size_t n = gf_utf8_bytes(p);
        if (n == 0 || is_control(p, n)) return 1;
        p += n;
    }
    return 0;
}

static size_t letter_of(unsigned char c) { return c == '\\' ? '\\' : c == '\n' ? 'n' : c == '\t' ? 't' : c == '\r' ? 'r' : 0; }

size_t gf_escape_next(const char **text, int broken_only, char out[GF_ESCAPED_BYTES]) {
    static const char hex[] = "0123456789abcdef";
    const unsigned char *p = (const unsigned char *)*text;
    const size_t n = gf_utf8_bytes(p), taken = n ? n : 1, letter = broken_only ? 0 : letter_of(*p);
    *text += taken;
    if (letter) {
        out[0] = '\\', out[1] = (char)letter;
        return 2;
    }
    if (n && (broken_only || !is_control(p, n))) {
        memcpy(out, p, n);
        return n;
    }
    for (size_t k = 0; k < taken; k++) {
        char *to = out + 4 * k;
        to[0] = '\\', to[1] = 'x', to[2] = hex[p[k] >> 4], to[3] = hex[p[k] & 15];
    }
    return 4 * taken;
}

static int hex_digit(char c) {
    static const char hex[] = "0123456789abcdef";
    const char *at = c ? strchr(hex, c) : NULL;
    return at ? (int)(at - hex) : -1;
}

int gf_unescape(char *text) {
    static const char letters[] = "\\ntr", values[] = "\\\n\t\r";
    char *to = text;
    for (const char *p = text; *p;) {
        const char *letter = *p == '\\' && p[1] ? strchr(letters, p[1]) : NULL;
        if (*p != '\\') *to++ = *p++;
        else if (letter) *to++ = values[letter - letters], p += 2;
        else {
            const int high = p[1] == 'x' ? hex_digit(p[2]) : -1, low = high >= 0 ? hex_digit(p[3]) : -1;
            if (low < 0 || high * 16 + low == 0) return 0;
            *to++ = (char)(high * 16 + low), p += 4;
        }
    }
    *to = 0;
    return 1;
}

/* ----- numbers to text ----- */

enum { PLACES = 8 };    /* after the point */
#define SCALE 100000000 /* 10^PLACES */
#define LARGEST 1e6     /* below: at most 14 digits in all, which a double keeps apart, and 15 give back */

/* The last `count` digits of x, zeros in front where it has fewer. */
static void put_digits(char *out, uint64_t x, size_t count) {
    for (size_t i = count; i-- > 0; x /= 10) out[i] = (char)('0' + x % 10);
}

size_t gf_integer_text(char *out, int64_t x) {
    const uint64_t size = x < 0 ? 0 - (uint64_t)x : (uint64_t)x;
    const size_t sign = x < 0;
    size_t n = 1; /* digits */
    for (uint64_t rest = size; rest >= 10; rest /= 10) n++;
    if (sign) *out = '-';
    put_digits(out + sign, size, n);
    return sign + n;
}

/* 1 if x is the double nearest to an integer multiple of 10^-8: *units of them, without its sign. */
static int in_units(double x, uint64_t *units) {
    const double size = fabs(x);
    if (!(size < LARGEST)) return 0;
    *units = (uint64_t)(size * SCALE + 0.5);
    return (double)*units / SCALE == size;
}

static size_t put_units(char *out, uint64_t units, int sign) {
    char *p = out;
    if (sign) *p++ = '-';
    p += gf_integer_text(p, (int64_t)(units / SCALE));
    *p++ = '.';
    put_digits(p, units % SCALE, PLACES);
    return (size_t)(p - out) + PLACES;
}

/* Whatever the locale's point is, it becomes one. */
static void set_point(char *text) {
    for (char *p = text; *p; p++)
        if (!strchr("0123456789+-einfa", *p)) *p = '.';
}

size_t gf_fixed_text(char *out, double x) {
    uint64_t units;
    char text[GF_FIXED_BYTES];
    if (in_units(x, &units)) return put_units(out, units, signbit(x) != 0);
    const size_t n = (size_t)snprintf(text, sizeof text, "%.*f", PLACES, x);
    set_point(text);
    memcpy(out, text, n);
    return n;
}

size_t gf_shortest_text(char *out, double x) {
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(out, GF_NUMBER_BYTES, "%.*g", digits, x);
        if (strtod(out, NULL) == x) break;
    }
    set_point(out);
    return strlen(out);
}

size_t gf_number_text(char *out, double x) {
    uint64_t units;
    if (!isfinite(x)) {
        memcpy(out, "null", 4);
        return 4;
    }
    if (!in_units(x, &units) || (units > 0 && units < SCALE / 10000)) { /* as 1e-05 */
        char text[GF_NUMBER_BYTES];
        gf_shortest_text(text, x);
        if (!strpbrk(text, ".e")) strcat(text, ".0"); /* a number stays one, also when it is whole */
        const size_t length = strlen(text);
        memcpy(out, text, length);
        return length;
    }
    size_t n = put_units(out, units, signbit(x) != 0);
    while (out[n - 1] == '0' && out[n - 2] != '.') n--;
    return n;
}

/* ----- text to number ----- */

static const char *check_start(const char *text) {
    if (!*text) return "is empty";
    return isspace((unsigned char)*text) ? "begins with a space" : NULL; /* strtod would skip it, at the end it would not */
}

const char *gf_integer_read(const char *text, int64_t *x) {
    const char *reason = check_start(text);
    char *end;
    if (reason) return reason;
    errno = 0;
    *x = strtoll(text, &end, 10);
    if (end == text || *end) return "is not an integer";
    return errno == ERANGE ? "is out of range" : NULL;
}

const char *gf_measure_read(const char *text, double *x) {
    const char *reason = check_start(text);
    char *end;
    if (reason) return reason;
    /* The locale is changed for this thread only. */
    const locale_t own = newlocale(LC_ALL_MASK, "C", (locale_t)0), old = own ? uselocale(own) : (locale_t)0;
    errno = 0;
    *x = strtod(text, &end);
    const int why = errno;
    if (own) uselocale(old), freelocale(own);
    errno = why;
    if (end == text || *end) return "is not a number";
    return isfinite(*x) ? NULL : "is not a finite number";
}

const char *gf_number_read(const char *text, double *x) {
    const char *reason = gf_measure_read(text, x);
    if (reason) return reason;
    return errno == ERANGE ? "is too small for a double" : NULL;
}

int gf_label_read(const char *text, int64_t *y) {
    static const char *const missing[] = {"", "nan", "none", "null"};
    double x = -1.0;
    *y = -1;
    for (size_t i = 0; i < sizeof missing / sizeof *missing; i++)
        if (strcasecmp(text, missing[i]) == 0) return 1;
    if (gf_integer_read(text, y)) {
        if (gf_number_read(text, &x) || x != floor(x) || fabs(x) > 9e15) return 0;
        *y = (int64_t)x;
    }
    if (*y < 0) *y = -1;
    return 1;
}

int gf_is_class_name(const char *text) { return text[0] && strcmp(text, "nan") != 0 && strcmp(text, "NaN") != 0; }

int gf_ends_with(const char *text, const char *end) {
    const size_t n = strlen(text), m = strlen(end);
    return n > m && strcmp(text + n - m, end) == 0;
}

char *gf_text_trim(char *text) {
    while (isspace((unsigned char)*text)) text++;
    char *end = text + strlen(text);
    while (end > text && isspace((unsigned char)end[-1])) *--end = 0;
    return text;
}

int gf_has_word(const char *list, const char *word) {
    const size_t n = strlen(word);
    const char *at = n ? strstr(list, word) : NULL;
    for (; at; at = strstr(at + 1, word))
        if ((at == list || at[-1] == ' ') && (at[n] == ' ' || !at[n])) return 1;
    return 0;
}

const char *gf_plural(int64_t n) { return n == 1 ? "" : "s"; }

/* ----- a text that grows ----- */

/* Space for n more bytes and the final 0. */
static int reserve_text(gf_text *t, size_t n) {
    if (!t->failed) t->failed = !gf_grow(&t->at, &t->capacity, t->used + n + 1, 1);
    return !t->failed;
}

static void add_bytes(gf_text *t, const char *bytes, size_t n) {
    if (!reserve_text(t, n)) return;
    memcpy(t->at + t->used, bytes, n);
    t->used += n;
    t->at[t->used] = 0;
}

void gf_text_add(gf_text *t, const char *fmt, ...) {
    va_list args, again;
    va_start(args, fmt);
    va_copy(again, args);
    const int n = vsnprintf(NULL, 0, fmt, args);
    if (n < 0) t->failed = 1;
    else if (reserve_text(t, (size_t)n)) {
        vsnprintf(t->at + t->used, (size_t)n + 1, fmt, again);
        t->used += (size_t)n;
    }
    va_end(again);
    va_end(args);
}

void gf_text_show(gf_text *t, const char *raw) {
    char shown[GF_SHOWN_BYTES];
    for (size_t taken; *raw; raw += taken) {
        gf_show(raw, &taken, shown);
        add_bytes(t, shown, strlen(shown));
    }
}

void gf_text_escape(gf_text *t, const char *raw) {
    for (const unsigned char *s = (const unsigned char *)raw; *s;) {
        /* Bytes of the character at s that may stand in a page; 0: none. */
        const size_t n = s[0] < 0x20 || s[0] == 0x7F ? 0 : gf_utf8_bytes(s);
        switch (*s) {
        case '&': add_bytes(t, "&amp;", 5); break;
        case '<': add_bytes(t, "&lt;", 4); break;
        case '>': add_bytes(t, "&gt;", 4); break;
        case '"': add_bytes(t, "&quot;", 6); break;
        case '\'': add_bytes(t, "&#39;", 5); break;
        default: add_bytes(t, n ? (const char *)s : "?", n ? n : 1);
        }
        s += n ? n : 1;
    }
}

void gf_text_free(gf_text *t) {
    free(t->at);
    *t = (gf_text){0};
}

/* ----- alike words ----- */

#define WORD 40

static int least(int a, int b, int c) {
    const int ab = a < b ? a : b;
    return ab < c ? ab : c;
}

/* d[i & 3] is the row of the first i letters of a. */
int gf_edit_distance(const char *a, const char *b) {
    int d[4][WORD + 1];
    const int na = (int)strnlen(a, WORD), nb = (int)strnlen(b, WORD);
    for (int j = 0; j <= nb; j++) d[0][j] = j;
    for (int i = 1; i <= na; i++) {
        int *row = d[i & 3], *above = d[(i - 1) & 3];
        row[0] = i;
        for (int j = 1; j <= nb; j++) {
            row[j] = least(above[j] + 1, row[j - 1] + 1, above[j - 1] + (a[i - 1] != b[j - 1]));
            const int swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
            if (swapped) row[j] = least(row[j], d[(i - 2) & 3][j - 2] + 1, row[j]);
        }
    }
    return d[na & 3][nb];
}

int gf_is_near(const char *word, const char *known) {
    const int n = (int)strnlen(word, WORD), most = n <= 3 ? 1 : n <= 8 ? 2 : n / 3;
    return gf_edit_distance(word, known) <= most;
}

/* ----- paths ----- */

glofnd_status gf_path_join(gf_error *err, char out[PATH_MAX], const char *folder, const char *name) {
    const int n = snprintf(out, PATH_MAX, "%s/%s", folder, name);
    FAIL_IF(err, n < 0 || n >= PATH_MAX, GLOFND_E_ARGUMENT, "the path of %.60s in %.100s... is too long", name, folder);
    return GLOFND_OK;
}
