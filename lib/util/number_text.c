/* number_text.c - see number_text.h. */
#define _GNU_SOURCE
#include "util/number_text.h"

#include <ctype.h>
#include <errno.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { PLACES = 8 };    /* after the point */
#define SCALE 100000000 /* 10^PLACES */
#define LARGEST 1e6     /* below: at most 14 digits in all, which a double keeps apart, and 15 give back */

/* The last `count` digits of x, zeros in front where it has fewer. */
static void put_digits(char *out, uint64_t x, size_t count) {
    for (size_t i = count; i-- > 0; x /= 10) out[i] = (char)('0' + x % 10);
}

static size_t digits_of(uint64_t x) {
    size_t n = 1;
    for (; x >= 10; x /= 10) n++;
    return n;
}

size_t gf_integer_text(char *out, int64_t x) {
    const uint64_t size = x < 0 ? 0 - (uint64_t)x : (uint64_t)x;
    const size_t sign = x < 0, n = digits_of(size);
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

static size_t any_number_text(char *out, double x) {
    char text[GF_NUMBER_BYTES];
    gf_shortest_text(text, x);
    if (!strpbrk(text, ".e")) strcat(text, ".0"); /* a number stays one, also when it is whole */
    const size_t n = strlen(text);
    memcpy(out, text, n);
    return n;
}

size_t gf_number_text(char *out, double x) {
    uint64_t units;
    if (!isfinite(x)) {
        memcpy(out, "null", 4);
        return 4;
    }
    if (!in_units(x, &units) || (units > 0 && units < SCALE / 10000)) return any_number_text(out, x); /* as 1e-05 */
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

/* The locale is changed for this thread only. */
static double read_in_c_locale(const char *text, char **end) {
    const locale_t own = newlocale(LC_ALL_MASK, "C", (locale_t)0), old = own ? uselocale(own) : (locale_t)0;
    errno = 0;
    const double x = strtod(text, end);
    const int why = errno;
    if (own) uselocale(old), freelocale(own);
    errno = why;
    return x;
}

const char *gf_measure_read(const char *text, double *x) {
    const char *reason = check_start(text);
    char *end;
    if (reason) return reason;
    *x = read_in_c_locale(text, &end);
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

const char *gf_plural(int64_t n) { return n == 1 ? "" : "s"; }
