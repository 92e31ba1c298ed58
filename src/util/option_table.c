/* option_table.c - see option_table.h.
 *
 * A value travels as a `number`: whole numbers, enums and switches in `whole`, doubles in `real`. Reading text gives a number or
 * a reason why not; only a number in range is stored. */
#define _GNU_SOURCE
#include "util/option_table.h"

#include <ctype.h>
#include <errno.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util/strings/suggest.h"

typedef struct number {
    int64_t whole;
    double real;
} number;

/* ----- The C locale, for this thread only, around everything that reads or writes a decimal point. ----- */

typedef struct locale_pair {
    locale_t own, old;
} locale_pair;

static locale_pair locale_enter(void) {
    locale_pair pair = {newlocale(LC_ALL_MASK, "C", (locale_t)0), (locale_t)0};
    if (pair.own) pair.old = uselocale(pair.own);
    return pair;
}

static void locale_leave(locale_pair pair) {
    if (!pair.own) return;
    uselocale(pair.old);
    freelocale(pair.own);
}

/* ----- Fields ----- */

static size_t field_bytes(const gf_option *o) {
    switch (o->type) {
    case GF_OPTION_INT64: return sizeof(int64_t);
    case GF_OPTION_DOUBLE: return sizeof(double);
    case GF_OPTION_ENUM: return sizeof(int);
    case GF_OPTION_TEXT: return (size_t)o->max;
    case GF_OPTION_INT:
    case GF_OPTION_BOOL: break;
    }
    return sizeof(int32_t);
}

static int within(const gf_option *o, size_t size) { return o->offset + field_bytes(o) <= size; }

static number field_get(const gf_option *o, const void *target) {
    const char *field = (const char *)target + o->offset;
    number x = {0, 0};
    int32_t narrow;
    switch (o->type) {
    case GF_OPTION_INT64: memcpy(&x.whole, field, sizeof x.whole); return x;
    case GF_OPTION_DOUBLE: memcpy(&x.real, field, sizeof x.real); return x;
    case GF_OPTION_TEXT: return x;
    case GF_OPTION_INT:
    case GF_OPTION_ENUM:
    case GF_OPTION_BOOL: break;
    }
    memcpy(&narrow, field, sizeof narrow);
    x.whole = narrow;
    return x;
}

static void field_put(const gf_option *o, void *target, number x) {
    char *field = (char *)target + o->offset;
    int32_t narrow = (int32_t)x.whole;
    switch (o->type) {
    case GF_OPTION_INT64: memcpy(field, &x.whole, sizeof x.whole); return;
    case GF_OPTION_DOUBLE: memcpy(field, &x.real, sizeof x.real); return;
    case GF_OPTION_TEXT: return;
    case GF_OPTION_INT:
    case GF_OPTION_ENUM:
    case GF_OPTION_BOOL: break;
    }
    memcpy(field, &narrow, sizeof narrow);
}

_Static_assert(sizeof(int) == sizeof(int32_t), "enums are read as int32_t");

/* ----- Ranges. A `reason` is NULL when all is well, else words that complete "alpha: 2 ...". ----- */

static int name_count(const gf_option *o) {
    int n = 0;
    while (o->names[n]) n++;
    return n;
}

static int in_bounds(const gf_option *o, double x) {
    const int low = o->flags & GF_OPTION_ABOVE_MIN ? x > o->min : x >= o->min;
    const int high = o->flags & GF_OPTION_BELOW_MAX ? x < o->max : x <= o->max;
    return low && high;
}

static const char *range_reason(const gf_option *o, number x) {
    static const char outside[] = "is out of range";
    const double real = o->type == GF_OPTION_DOUBLE ? x.real : (double)x.whole;
    switch (o->type) {
    case GF_OPTION_ENUM: return x.whole >= 0 && x.whole < name_count(o) ? NULL : outside;
    case GF_OPTION_BOOL: return x.whole == 0 || x.whole == 1 ? NULL : outside;
    case GF_OPTION_TEXT: return NULL;
    case GF_OPTION_INT:
    case GF_OPTION_INT64:
    case GF_OPTION_DOUBLE: break;
    }
    if (!isfinite(real)) return "is not a finite number";
    if ((o->flags & GF_OPTION_OR_ZERO) && real == 0) return NULL;
    if (!in_bounds(o, real)) return outside;
    if (o->multiple > 1 && x.whole % o->multiple != 0) return "is not such a multiple";
    return NULL;
}

/* ----- Text to number ----- */

static const char *read_real(const char *text, double *x) {
    char *end;
    errno = 0;
    *x = strtod(text, &end);
    if (end == text || *end) return "is not a number";
    if (!isfinite(*x)) return "is not a finite number";
    return errno == ERANGE ? "is too small for a double" : NULL;
}

static const char *read_whole(const char *text, int64_t *x) {
    char *end;
    errno = 0;
    *x = strtoll(text, &end, 10);
    if (end == text || *end) return "is not a whole number";
    return errno == ERANGE ? "is out of range" : NULL;
}

static const char *read_name(const gf_option *o, const char *text, int64_t *x) {
    for (int i = 0; o->names[i]; i++) {
        if (strcmp(o->names[i], text) == 0) return *x = i, NULL;
    }
    return "is not one of the names";
}

static const char *read_switch(const char *text, int64_t *x) {
    static const char *const words[] = {"0", "1", "false", "true", "no", "yes", "off", "on"};
    for (int i = 0; i < (int)(sizeof words / sizeof words[0]); i++) {
        if (strcmp(words[i], text) == 0) return *x = i & 1, NULL;
    }
    return "is neither yes nor no";
}

static const char *read_text(const gf_option *o, const char *text, number *x) {
    if (!*text) return "is empty";
    if (isspace((unsigned char)*text)) return "begins with a space"; /* strtod would skip it, at the end it would not */
    switch (o->type) {
    case GF_OPTION_DOUBLE: return read_real(text, &x->real);
    case GF_OPTION_ENUM: return read_name(o, text, &x->whole);
    case GF_OPTION_BOOL: return read_switch(text, &x->whole);
    case GF_OPTION_TEXT:
    case GF_OPTION_INT:
    case GF_OPTION_INT64: break;
    }
    return read_whole(text, &x->whole);
}

/* ----- Number to text ----- */

/* The shortest of 15 to 17 digits that reads back to the same bits. */
static int write_real(double x, char *out, size_t bytes) {
    char text[40];
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, x);
        if (strtod(text, NULL) == x) break;
    }
    return snprintf(out, bytes, "%s", text);
}

int gf_option_format(const gf_option *o, const void *target, char *out, size_t bytes) {
    const number x = field_get(o, target);
    if (o->type == GF_OPTION_TEXT) return snprintf(out, bytes, "%s", (const char *)target + o->offset);
    if (o->type == GF_OPTION_ENUM && !range_reason(o, x)) return snprintf(out, bytes, "%s", o->names[x.whole]);
    if (o->type != GF_OPTION_DOUBLE) return snprintf(out, bytes, "%lld", (long long)x.whole);
    const locale_pair locale = locale_enter();
    const int length = write_real(x.real, out, bytes);
    locale_leave(locale);
    return length;
}

static int write_names(const gf_option *o, char *out, size_t bytes) {
    int length = snprintf(out, bytes, "one of ");
    for (int i = 0; o->names[i]; i++) {
        const size_t at = (size_t)length < bytes ? (size_t)length : bytes;
        length += snprintf(out + at, bytes - at, "%s%s", i ? "|" : "", o->names[i]);
    }
    return length;
}

static int write_bounds(const gf_option *o, char *out, size_t bytes) {
    char kind[48];
    const char *zero = o->flags & GF_OPTION_OR_ZERO ? "0, or " : "";
    const char open = o->flags & GF_OPTION_ABOVE_MIN ? '(' : '[';
    const char close = o->flags & GF_OPTION_BELOW_MAX ? ')' : ']';
    snprintf(kind, sizeof kind, o->type == GF_OPTION_DOUBLE ? "a number" : "a whole number");
    if (o->multiple > 1) snprintf(kind, sizeof kind, "a multiple of %d", o->multiple);
    return snprintf(out, bytes, "%s%s in %c%.15g, %.15g%c", zero, kind, open, o->min, o->max, close);
}

int gf_option_range(const gf_option *o, char *out, size_t bytes) {
    if (o->type == GF_OPTION_BOOL) return snprintf(out, bytes, "0 or 1");
    if (o->type == GF_OPTION_TEXT) return snprintf(out, bytes, "a text of at most %d bytes", (int)o->max - 1);
    if (o->type == GF_OPTION_ENUM) return write_names(o, out, bytes);
    const locale_pair locale = locale_enter();
    const int length = write_bounds(o, out, bytes);
    locale_leave(locale);
    return length;
}

/* ----- Finding ----- */

const gf_option *gf_option_find(const gf_option_table *table, size_t size, const char *key) {
    for (int i = 0; i < table->count; i++) {
        if (within(&table->rows[i], size) && strcmp(table->rows[i].key, key) == 0) return &table->rows[i];
    }
    return NULL;
}

#define WORD 40 /* letters of a text that are shown; they come from strangers and may be long */

const gf_option *gf_option_nearest(const gf_option_table *table, size_t size, const char *key) {
    const gf_option *best = NULL;
    int best_distance = 0;
    for (int i = 0; i < table->count; i++) {
        const int distance = within(&table->rows[i], size) ? gf_edit_distance(key, table->rows[i].key) : -1;
        if (distance < 0 || (best && distance >= best_distance)) continue;
        best = &table->rows[i];
        best_distance = distance;
    }
    return best;
}

/* ----- The three users of a table ----- */

/* A stranger's text, fit for a message: short, and without control characters. */
static const char *printable(const char *text, char out[WORD + 4]) {
    int n = 0;
    for (; text[n] && n < WORD; n++) out[n] = text[n] >= ' ' && text[n] != 127 ? text[n] : '?';
    snprintf(out + n, 4, "%s", text[n] ? "..." : "");
    return out;
}

static glofnd_status fail_unknown(gf_error *err, const gf_option_table *table, size_t size, const char *key) {
    char shown[WORD + 4], range[256];
    const gf_option *nearest = gf_option_nearest(table, size, key);
    FAIL_IF(err, !nearest || !gf_is_near(key, nearest->key), GLOFND_E_OPTION, "unknown option \"%s\"; no known one is like it",
            printable(key, shown));
    gf_option_range(nearest, range, sizeof range);
    GF_FAIL(err, GLOFND_E_OPTION, "unknown option \"%s\"; the nearest known one is %s (%s)", printable(key, shown), nearest->key,
            range);
}

static glofnd_status fail_value(gf_error *err, const gf_option *o, const char *value, const char *reason) {
    char shown[WORD + 4], range[256];
    gf_option_range(o, range, sizeof range);
    GF_FAIL(err, GLOFND_E_OPTION, "%s: \"%s\" %s; it takes %s", o->key, printable(value, shown), reason, range);
}

static glofnd_status set_text(gf_error *err, const gf_option *o, void *target, const char *text) {
    const size_t length = strlen(text);
    if (length >= (size_t)o->max) return fail_value(err, o, text, "is too long");
    if (strpbrk(text, "\r\n")) return fail_value(err, o, text, "holds a line break");
    if (length && (strchr(" \t", text[0]) || strchr(" \t", text[length - 1]))) /* a file of keys could not give it back */
        return fail_value(err, o, text, "begins or ends with a blank");
    memcpy((char *)target + o->offset, text, length + 1);
    return GLOFND_OK;
}

static glofnd_status set_one(gf_error *err, const gf_option *o, void *target, const char *text) {
    number x = {0, 0};
    if (o->type == GF_OPTION_TEXT) return set_text(err, o, target, text);
    const locale_pair locale = locale_enter();
    const char *reason = read_text(o, text, &x);
    locale_leave(locale);
    if (!reason) reason = range_reason(o, x);
    if (reason) return fail_value(err, o, text, reason);
    field_put(o, target, x);
    return GLOFND_OK;
}

glofnd_status gf_options_preset(gf_error *err, const gf_option_table *table, void *target, size_t size) {
    for (int i = 0; i < table->count; i++) {
        if (within(&table->rows[i], size)) TRY(set_one(err, &table->rows[i], target, table->rows[i].preset));
    }
    return GLOFND_OK;
}

glofnd_status gf_option_set(gf_error *err, const gf_option_table *table, void *target, size_t size, const char *key,
                            const char *text) {
    const gf_option *o = gf_option_find(table, size, key);
    return o ? set_one(err, o, target, text) : fail_unknown(err, table, size, key);
}

glofnd_status gf_options_check(gf_error *err, const gf_option_table *table, const void *target, size_t size) {
    for (int i = 0; i < table->count; i++) {
        const gf_option *o = &table->rows[i];
        if (!within(o, size)) continue;
        const char *reason = range_reason(o, field_get(o, target));
        char value[64];
        if (!reason) continue;
        gf_option_format(o, target, value, sizeof value);
        return fail_value(err, o, value, reason);
    }
    return GLOFND_OK;
}
