/* option_table.c - see option_table.h.
 *
 * A value travels as a `number`: integers, enums and switches in `whole`, doubles in `real`. Reading text gives a number or
 * a reason why not; only a number in range is stored. */
#include "util/option_table.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util/text.h"

typedef struct number {
    int64_t whole;
    double real;
} number;

/* ----- Fields ----- */

static size_t field_bytes(const gf_option *o) {
    switch (o->type) {
    case GF_OPTION_INT64: return sizeof(int64_t);
    case GF_OPTION_DOUBLE: return sizeof(double);
    case GF_OPTION_ENUM: return sizeof(int);
    case GF_OPTION_TEXT: return (size_t)o->max;
    case GF_OPTION_STRING: return sizeof(const char *);
    case GF_OPTION_STRINGS: return sizeof(gf_option_strings);
    case GF_OPTION_INT:
    case GF_OPTION_BOOL: break;
    }
    return sizeof(int32_t);
}

static int is_text(const gf_option *o) {
    return o->type == GF_OPTION_TEXT || o->type == GF_OPTION_STRING || o->type == GF_OPTION_STRINGS;
}

static int field_is_within(const gf_option *o, size_t size) { return o->offset + field_bytes(o) <= size; }

static number field_get(const gf_option *o, const void *target) {
    const char *field = (const char *)target + o->offset;
    number x = {0, 0};
    int32_t narrow;
    if (o->type == GF_OPTION_INT64) return memcpy(&x.whole, field, sizeof x.whole), x;
    if (o->type == GF_OPTION_DOUBLE) return memcpy(&x.real, field, sizeof x.real), x;
    if (is_text(o)) return x;
    memcpy(&narrow, field, sizeof narrow);
    x.whole = narrow;
    return x;
}

_Static_assert(sizeof(int) == sizeof(int32_t), "enums are read as int32_t");

/* ----- Ranges. A `reason` is NULL when all is well, else words that complete "alpha: 2 ...". ----- */

static int name_count(const gf_option *o) {
    int n = 0;
    while (o->names[n]) n++;
    return n;
}

static const char *range_reason(const gf_option *o, number x) {
    static const char outside[] = "is out of range";
    const double real = o->type == GF_OPTION_DOUBLE ? x.real : (double)x.whole;
    if (o->type == GF_OPTION_ENUM) return x.whole >= 0 && x.whole < name_count(o) ? NULL : outside;
    if (o->type == GF_OPTION_BOOL) return x.whole == 0 || x.whole == 1 ? NULL : outside;
    if (is_text(o)) return NULL;
    if (!isfinite(real)) return "is not a finite number";
    if ((o->flags & GF_OPTION_OR_ZERO) && real == 0) return NULL;
    const int low = o->flags & GF_OPTION_ABOVE_MIN ? real > o->min : real >= o->min;
    const int high = o->flags & GF_OPTION_BELOW_MAX ? real < o->max : real <= o->max;
    if (!(low && high)) return outside;
    if (o->multiple > 1 && x.whole % o->multiple != 0) return "is not such a multiple";
    return NULL;
}

/* ----- Text to number ----- */

static const char *read_text(const gf_option *o, const char *text, number *x) {
    if (!*text) return "is empty";
    if (o->type == GF_OPTION_DOUBLE) return gf_number_read(text, &x->real);
    if (o->type == GF_OPTION_ENUM) {
        for (int i = 0; o->names[i]; i++) {
            if (strcmp(o->names[i], text) == 0) return x->whole = i, NULL;
        }
        return "is not one of the names";
    }
    if (o->type == GF_OPTION_BOOL) {
        static const char *const words[] = {"0", "1", "false", "true", "no", "yes", "off", "on"};
        for (int i = 0; i < (int)(sizeof words / sizeof words[0]); i++) {
            if (strcmp(words[i], text) == 0) return x->whole = i & 1, NULL;
        }
        return "is neither yes nor no";
    }
    double real;
    const char *reason = gf_integer_read(text, &x->whole);
    if (!reason || !(o->flags & GF_OPTION_EXPONENT) || gf_number_read(text, &real)) return reason;
    if (real != floor(real)) return reason;
    if (fabs(real) > 9007199254740992.0) return "is out of range";
    x->whole = (int64_t)real;
    return NULL;
}

/* ----- Number to text ----- */

int gf_option_format(const gf_option *o, const void *target, char *out, size_t bytes) {
    const number x = field_get(o, target);
    char text[GF_NUMBER_BYTES];
    if (o->type == GF_OPTION_TEXT) return snprintf(out, bytes, "%s", (const char *)target + o->offset);
    if (o->type == GF_OPTION_ENUM && !range_reason(o, x)) return snprintf(out, bytes, "%s", o->names[x.whole]);
    if (o->type != GF_OPTION_DOUBLE) return snprintf(out, bytes, "%lld", (long long)x.whole);
    gf_shortest_text(text, x.real);
    return snprintf(out, bytes, "%s", text);
}

int gf_option_range(const gf_option *o, char *out, size_t bytes) {
    if (o->type == GF_OPTION_BOOL) return snprintf(out, bytes, "0 or 1");
    if (o->type == GF_OPTION_TEXT) return snprintf(out, bytes, "a text of at most %d bytes", (int)o->max - 1);
    if (is_text(o)) return snprintf(out, bytes, "a text");
    if (o->type != GF_OPTION_ENUM) {
        char kind[48], min[GF_NUMBER_BYTES], max[GF_NUMBER_BYTES];
        const char *zero = o->flags & GF_OPTION_OR_ZERO ? "0, or " : "";
        const char open = o->flags & GF_OPTION_ABOVE_MIN ? '(' : '[';
        const char close = o->flags & GF_OPTION_BELOW_MAX ? ')' : ']';
        snprintf(kind, sizeof kind, o->type == GF_OPTION_DOUBLE ? "a number" : "an integer");
        if (o->multiple > 1) snprintf(kind, sizeof kind, "a multiple of %d", o->multiple);
        gf_shortest_text(min, o->min);
        gf_shortest_text(max, o->max);
        return snprintf(out, bytes, "%s%s in %c%s, %s%c", zero, kind, open, min, max, close);
    }
    int length = snprintf(out, bytes, "one of ");
    for (int i = 0; o->names[i]; i++) {
        const size_t at = (size_t)length < bytes ? (size_t)length : bytes;
        length += snprintf(out + at, bytes - at, "%s%s", i ? "|" : "", o->names[i]);
    }
    return length;
}

/* ----- Finding ----- */

const gf_option *gf_option_find(const gf_option_table *table, size_t size, const char *key) {
    for (int i = 0; i < table->count; i++) {
        if (field_is_within(&table->rows[i], size) && strcmp(table->rows[i].key, key) == 0) return &table->rows[i];
    }
    return NULL;
}

#define WORD 40 /* letters of a text that are shown: it comes from outside and may be long */

const gf_option *gf_option_nearest(const gf_option_table *table, size_t size, const char *key) {
    const gf_option *best = NULL;
    int best_distance = 0;
    for (int i = 0; i < table->count; i++) {
        const int distance = field_is_within(&table->rows[i], size) ? gf_edit_distance(key, table->rows[i].key) : -1;
        if (distance < 0 || (best && distance >= best_distance)) continue;
        best = &table->rows[i];
        best_distance = distance;
    }
    return best;
}

/* ----- Presets, setting, checking ----- */

/* A text from outside, fit for a message: short, and without control characters. */
static const char *printable(const char *text, char out[WORD + 4]) {
    int n = 0;
    for (; text[n] && n < WORD; n++) out[n] = text[n] >= ' ' && text[n] != 127 ? text[n] : '?';
    snprintf(out + n, 4, "%s", text[n] ? "..." : "");
    return out;
}

static glofnd_status fail_value(gf_error *err, const gf_option *o, const char *value, const char *reason) {
    char shown[WORD + 4], range[256];
    gf_option_range(o, range, sizeof range);
    const int in_gb = o->value && strcmp(o->value, "GB") == 0;
    GF_FAIL(err, GLOFND_E_OPTION, "%s: \"%s\" %s; expected %s%s", o->key, printable(value, shown), reason, range,
            in_gb ? ", of GB" : "");
}

static glofnd_status set_one(gf_error *err, const gf_option *o, void *target, const char *text) {
    number x = {0, 0};
    if (o->type == GF_OPTION_TEXT) {
        const size_t length = strlen(text);
        if (length >= (size_t)o->max) return fail_value(err, o, text, "is too long");
        if (strpbrk(text, "\r\n")) return fail_value(err, o, text, "holds a line break");
        if (length && (strchr(" \t", text[0]) || strchr(" \t", text[length - 1]))) /* a file of keys could not give it back */
            return fail_value(err, o, text, "begins or ends with a blank");
        memcpy((char *)target + o->offset, text, length + 1);
        return GLOFND_OK;
    }
    if (o->type == GF_OPTION_STRINGS) {
        gf_option_strings *list = (gf_option_strings *)((char *)target + o->offset);
        FAIL_IF(err, list->count == GF_OPTION_STRINGS_MAX, GLOFND_E_OPTION, "%s: given more than %d times", o->key,
                GF_OPTION_STRINGS_MAX);
        list->at[list->count++] = text;
        return GLOFND_OK;
    }
    if (o->type == GF_OPTION_STRING) return memcpy((char *)target + o->offset, &text, sizeof text), GLOFND_OK;
    const char *reason = read_text(o, text, &x);
    if (!reason) reason = range_reason(o, x);
    if (reason) return fail_value(err, o, text, reason);
    char *field = (char *)target + o->offset;
    const int32_t narrow = (int32_t)x.whole;
    if (o->type == GF_OPTION_INT64) memcpy(field, &x.whole, sizeof x.whole);
    else if (o->type == GF_OPTION_DOUBLE) memcpy(field, &x.real, sizeof x.real);
    else memcpy(field, &narrow, sizeof narrow);
    return GLOFND_OK;
}

glofnd_status gf_options_preset(gf_error *err, const gf_option_table *table, void *target, size_t size) {
    for (int i = 0; i < table->count; i++) {
        const gf_option *o = &table->rows[i];
        if (o->preset && field_is_within(o, size)) TRY(set_one(err, o, target, o->preset));
    }
    return GLOFND_OK;
}

glofnd_status gf_option_set(gf_error *err, const gf_option_table *table, void *target, size_t size, const char *key,
                            const char *text) {
    const gf_option *o = gf_option_find(table, size, key);
    if (o) return set_one(err, o, target, text);
    char shown[WORD + 4], range[256];
    const gf_option *nearest = gf_option_nearest(table, size, key);
    FAIL_IF(err, !nearest || !gf_is_near(key, nearest->key), GLOFND_E_OPTION, "unknown option \"%s\"; no known one is like it",
            printable(key, shown));
    gf_option_range(nearest, range, sizeof range);
    GF_FAIL(err, GLOFND_E_OPTION, "unknown option \"%s\"; the nearest known one is %s (%s)", printable(key, shown), nearest->key,
            range);
}

glofnd_status gf_options_check(gf_error *err, const gf_option_table *table, const void *target, size_t size) {
    for (int i = 0; i < table->count; i++) {
        const gf_option *o = &table->rows[i];
        if (!field_is_within(o, size)) continue;
        const char *reason = range_reason(o, field_get(o, target));
        char value[64];
        if (!reason) continue;
        gf_option_format(o, target, value, sizeof value);
        return fail_value(err, o, value, reason);
    }
    return GLOFND_OK;
}
