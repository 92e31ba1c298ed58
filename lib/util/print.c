/* print.c - see print.h. Formats are walked conversion by conversion; numbers are left to snprintf. */
#define _POSIX_C_SOURCE 200809L
#include "util/print.h"

#include <limits.h>
#include <stdint.h>
#include <string.h>

#include "util/text.h"

/* ----- one unit of text ----- */

static unsigned code_of(const unsigned char *p, size_t n) {
    unsigned code = n == 1 ? p[0] : p[0] & (0xffu >> (n + 1));
    for (size_t i = 1; i < n; i++) code = code << 6 | (p[i] & 0x3f);
    return code;
}

static int is_hidden(unsigned code) {
    return (code >= 0x80 && code < 0xa0) || code == 0x61c || code == 0x200e || code == 0x200f ||
           (code >= 0x2028 && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069) || code == 0xfeff;
}

int gf_show(const char *text, size_t *taken, char out[GF_SHOWN_BYTES]) {
    static const char letters[] = {['\t'] = 't', ['\n'] = 'n', ['\r'] = 'r'};
    const unsigned char *p = (const unsigned char *)text;
    const size_t n = gf_utf8_bytes(p);
    const unsigned code = n ? code_of(p, n) : 0;
    *taken = n ? n : 1;
    if (n == 1 && code < sizeof letters && letters[code]) return snprintf(out, GF_SHOWN_BYTES, "\\%c", letters[code]);
    if (n == 0 || (n == 1 && (code < 0x20 || code == 0x7f))) return snprintf(out, GF_SHOWN_BYTES, "\\x%02x", p[0]);
    if (is_hidden(code)) return snprintf(out, GF_SHOWN_BYTES, "\\u%04x", code);
    memcpy(out, text, n);
    out[n] = 0;
    return 1;
}

void gf_show_text(const char *text, char *out, size_t bytes) {
    char unit[GF_SHOWN_BYTES];
    size_t taken, used = 0;
    for (; *text; text += taken) {
        gf_show(text, &taken, unit);
        const size_t n = strlen(unit);
        if (used + n >= bytes) break;
        memcpy(out + used, unit, n);
        used += n;
    }
    if (bytes) out[used] = 0;
}

/* ----- output: one write for a message of usual length, so that those of several processes do not mix ----- */

typedef struct sink {
    FILE *out;
    size_t used;
    char held[2000];
} sink;

static void sink_flush(sink *s) {
    if (s->used) fwrite(s->held, 1, s->used, s->out);
    s->used = 0;
}

static void sink_put(sink *s, const char *text, size_t n) {
    while (n > 0) {
        if (s->used == sizeof s->held) sink_flush(s);
        const size_t some = n < sizeof s->held - s->used ? n : sizeof s->held - s->used;
        memcpy(s->held + s->used, text, some);
        s->used += some;
        text += some;
        n -= some;
    }
}

static void put_spaces(sink *s, int n) {
    for (; n > 0; n--) sink_put(s, " ", 1);
}

void gf_print_lines(FILE *out, const char *text) {
    sink s = {.out = out};
    char unit[GF_SHOWN_BYTES];
    for (size_t taken; *text; text += taken) {
        gf_show(text, &taken, unit);
        if (*text == '\n') sink_put(&s, "\n", 1);
        else sink_put(&s, unit, strlen(unit));
    }
    sink_flush(&s);
}

/* ----- conversions ----- */

typedef struct conversion {
    char flags[8];
    int width, precision; /* precision -1: none */
    char length[3], kind;
} conversion;

typedef struct arguments { /* a va_list that functions can share */
    va_list list;
} arguments;

static int read_number(const char **p, arguments *a) {
    int n = 0;
    if (**p == '*') return (*p)++, va_arg(a->list, int);
    for (; **p >= '0' && **p <= '9'; (*p)++) n = n < INT_MAX / 10 - 9 ? 10 * n + (**p - '0') : n;
    return n;
}

/* From behind the %; returns where it ends. */
static const char *read_conversion(const char *p, arguments *a, conversion *c) {
    size_t n = 0;
    *c = (conversion){.precision = -1};
    for (; *p && strchr("-+ #0", *p); p++)
        if (n + 2 < sizeof c->flags) c->flags[n++] = *p;
    c->width = read_number(&p, a);
    if (c->width < 0) c->flags[n] = '-', c->width = c->width > -INT_MAX ? -c->width : 0;
    if (*p == '.') p++, c->precision = read_number(&p, a);
    for (n = 0; *p && strchr("hlzjtL", *p); p++)
        if (n + 1 < sizeof c->length) c->length[n++] = *p;
    c->kind = *p;
    return *p ? p + 1 : p;
}

/* Bytes of the text that %.Ns takes: whole characters of its first `precision` bytes (-1: all of it). */
static size_t bytes_taken(const char *text, int precision) {
    if (precision < 0) return strlen(text);
    char tail[5] = "";
    const size_t n = strnlen(text, (size_t)precision), last = n < 4 ? n : 4;
    if (n < (size_t)precision) return n;
    memcpy(tail, text + n - last, last);
    gf_utf8_trim(tail);
    return n - last + strlen(tail);
}

/* gf_show of a text of n bytes, n > 0, with none behind it read. */
static int show_first(const char *text, size_t n, size_t *taken, char out[GF_SHOWN_BYTES]) {
    char first[5] = "";
    memcpy(first, text, n < 4 ? n : 4);
    return gf_show(first, taken, out);
}

/* Pads by characters, not by bytes. */
static void put_text(sink *s, const conversion *c, const char *text) {
    char unit[GF_SHOWN_BYTES];
    const size_t n = bytes_taken(text, c->precision);
    const int left = strchr(c->flags, '-') != NULL;
    int columns = 0;
    size_t taken;
    for (size_t at = 0; at < n; at += taken) columns += show_first(text + at, n - at, &taken, unit);
    if (!left) put_spaces(s, c->width - columns);
    for (size_t at = 0; at < n; at += taken) {
        show_first(text + at, n - at, &taken, unit);
        sink_put(s, unit, strlen(unit));
    }
    if (left) put_spaces(s, c->width - columns);
}

static int64_t signed_argument(const conversion *c, arguments *a) {
    if (strcmp(c->length, "ll") == 0) return va_arg(a->list, long long);
    if (c->length[0] == 'l') return va_arg(a->list, long);
    if (c->length[0] == 'z' || c->length[0] == 't') return va_arg(a->list, ptrdiff_t);
    if (c->length[0] == 'j') return va_arg(a->list, intmax_t);
    return va_arg(a->list, int);
}

static uint64_t unsigned_argument(const conversion *c, arguments *a) {
    if (strcmp(c->length, "ll") == 0) return va_arg(a->list, unsigned long long);
    if (c->length[0] == 'l') return va_arg(a->list, unsigned long);
    if (c->length[0] == 'z' || c->length[0] == 't') return va_arg(a->list, size_t);
    if (c->length[0] == 'j') return va_arg(a->list, uintmax_t);
    return va_arg(a->list, unsigned);
}

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
static void put_number(sink *s, const conversion *c, arguments *a) {
    char format[32], text[400];
    const int real = strchr("fFgGeEaA", c->kind) != NULL, is_signed = c->kind == 'd' || c->kind == 'i';
    const int width = c->width < 200 ? c->width : 200, precision = c->precision < 60 ? c->precision : 60;
    snprintf(format, sizeof format, "%%%s*.*%s%c", c->flags, real ? "" : "ll", c->kind);
    int n;
    if (real) n = snprintf(text, sizeof text, format, width, precision, va_arg(a->list, double));
    else if (is_signed) n = snprintf(text, sizeof text, format, width, precision, (long long)signed_argument(c, a));
    else n = snprintf(text, sizeof text, format, width, precision, (unsigned long long)unsigned_argument(c, a));
    if (n > 0) sink_put(s, text, (size_t)n < sizeof text ? (size_t)n : sizeof text - 1);
}
#pragma GCC diagnostic pop

static void put_argument(sink *s, const conversion *c, arguments *a) {
    if (c->kind == '%') sink_put(s, "%", 1);
    else if (c->kind == 's') {
        const char *text = va_arg(a->list, const char *);
        put_text(s, c, text ? text : "(null)");
    } else if (c->kind == 'c') {
        const char text[2] = {(char)va_arg(a->list, int), 0};
        put_text(s, c, text);
    } else if (c->kind) put_number(s, c, a);
}

void gf_vprint(FILE *out, const char *format, va_list args) {
    sink s = {.out = out};
    arguments a;
    conversion c;
    va_copy(a.list, args);
    while (*format) {
        const size_t own = strcspn(format, "%");
        sink_put(&s, format, own);
        format += own;
        if (!*format) break;
        format = read_conversion(format + 1, &a, &c);
        put_argument(&s, &c, &a);
    }
    va_end(a.list);
    sink_flush(&s);
}

void gf_print(FILE *out, const char *format, ...) {
    va_list args;
    va_start(args, format);
    gf_vprint(out, format, args);
    va_end(args);
}
