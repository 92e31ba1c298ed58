/* option_table.h - options as one table: key, type, default, range, help. The table drives everything that touches an option:
 * defaults, parsing of text, range checks, printing, help.
 *
 * A table describes fields of one plain struct, its `target`. `size` is the size of that struct as its owner knows it: options
 * that lie (partly) beyond it do not exist for that call, so a struct may grow at its end.
 *
 *     static const gf_option rows[] = {
 *         {.key = "alpha", .type = GF_OPTION_DOUBLE, .offset = offsetof(config, alpha), .preset = "0.01", .min = 0, .max = 1,
 *          .flags = GF_OPTION_BELOW_MAX, .group = "threshold", .help = "share of negatives to flag"}, ...
 *     static const gf_option_table table = {rows, sizeof rows / sizeof rows[0]};
 *     TRY(gf_options_preset(err, &table, &c, sizeof c));
 *     TRY(gf_option_set(err, &table, &c, sizeof c, "alpha", "0.05"));
 *     TRY(gf_options_check(err, &table, &c, sizeof c));
 *
 * Text is read and written as in the C locale, whatever the program set.
 */
#pragma once

#include "util/status.h"

typedef enum gf_option_type {
    GF_OPTION_INT,    /* int32_t */
    GF_OPTION_INT64,  /* int64_t */
    GF_OPTION_DOUBLE, /* double, always finite */
    GF_OPTION_ENUM,   /* an enum with values 0, 1, ... in the order of `names` */
    GF_OPTION_BOOL,   /* int32_t, 0 or 1 */
    GF_OPTION_TEXT,   /* char[max]: any text that fits, also none */
    GF_OPTION_STRING, /* const char *, borrowed: any text */
    GF_OPTION_STRINGS /* gf_option_strings: may be set several times */
} gf_option_type;

enum {                          /* bits of gf_option.flags */
       GF_OPTION_ABOVE_MIN = 1, /* min itself is not allowed */
       GF_OPTION_BELOW_MAX = 2, /* max itself is not allowed */
       GF_OPTION_OR_ZERO = 4,   /* 0 is allowed beside the range */
       GF_OPTION_EXPONENT = 8   /* integers may be written as 1e7 */
};

enum { GF_OPTION_STRINGS_MAX = 64 };

typedef struct gf_option_strings {
    const char *at[GF_OPTION_STRINGS_MAX];
    int count;
} gf_option_strings;

typedef struct gf_option {
    const char *key;
    gf_option_type type;
    size_t offset;      /* of the field in the target */
    const char *preset; /* default, as text; NULL: none, the field keeps its value */
    double min, max;    /* numbers; bounds of integers stay below 2^53, so that they compare exactly */
    unsigned flags;
    int multiple;             /* integers: > 1 asks for a multiple of it */
    const char *const *names; /* ENUM: ends with NULL */
    const char *group, *help;
    const char *value; /* stands for the value in help: "FILE"; NULL: a switch, or names */
} gf_option;

typedef struct gf_option_table {
    const gf_option *rows;
    int count;
} gf_option_table;

/* NULL if there is none of that name within `size`. */
const gf_option *gf_option_find(const gf_option_table *table, size_t size, const char *key);
/* The key within `size` with the fewest typing errors between it and `key`; NULL only for a table without options. */
const gf_option *gf_option_nearest(const gf_option_table *table, size_t size, const char *key);

/* Every option to its default. Fails only if the table itself is wrong. */
glofnd_status gf_options_preset(gf_error *err, const gf_option_table *table, void *target, size_t size);
/* One option from text. On failure the text names the key and the expected values, for an unknown key the nearest known one if
 * one is near; the target is unchanged. */
glofnd_status gf_option_set(gf_error *err, const gf_option_table *table, void *target, size_t size, const char *key,
                            const char *text);
/* The ranges of all fields of a struct that was filled by hand. */
glofnd_status gf_options_check(gf_error *err, const gf_option_table *table, const void *target, size_t size);

/* The value as text that gf_option_set reads back to the same bits. Returns its length as snprintf does. */
int gf_option_format(const gf_option *option, const void *target, char *out, size_t bytes);
/* The values an option accepts: "a number in [0, 1)". Returns its length as snprintf does. */
int gf_option_range(const gf_option *option, char *out, size_t bytes);
