/* unit_number_text.c - numbers as text against snprintf, and tables that have the same bytes for any number of threads. */
#include "support/test.h"

#include "discover/output_files.h"
#include "support/random.h"
#include "support/scratch.h"
#include "util/text.h"
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static gf_error err;
/* ----- numbers ----- */

static void same_text(const char *expected, const char *text, size_t n) {
    if (n == strlen(expected) && memcmp(expected, text, n) == 0) return;
    fail_msg("\"%.*s\" instead of \"%s\"", (int)n, text, expected);
}

static void check_integer(int64_t x) {
    char expected[64], text[GF_INTEGER_BYTES];
    snprintf(expected, sizeof expected, "%lld", (long long)x);
    same_text(expected, text, gf_integer_text(text, x));
}

static void check_number(double x) {
    char expected[400], text[GF_FIXED_BYTES];
    snprintf(expected, sizeof expected, "%.8f", x);
    same_text(expected, text, gf_fixed_text(text, x));
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(expected, sizeof expected, "%.*g", digits, x);
        if (strtod(expected, NULL) == x) break;
    }
    if (!strpbrk(expected, ".e")) strcat(expected, ".0");
    same_text(isfinite(x) ? expected : "null", text, gf_number_text(text, x));
}

TEST(integers_are_as_printf_has_them) {
    rng g = {7};
    const int64_t special[] = {0, 1, -1, 9, 10, -10, 99, 100, INT32_MIN, INT32_MAX, INT64_MAX, INT64_MIN};
    for (size_t i = 0; i < sizeof special / sizeof *special; i++) check_integer(special[i]);
    for (int i = 0; i < 100000; i++) check_integer((int64_t)ldexp(rng_normal(&g), i % 62));
}

TEST(numbers_are_as_printf_has_them) {
    rng g = {8};
    const double special[] = {0.0,
                              -0.0,
                              1.0,
                              -1.0,
                              0.5,
                              1e-8,
                              -1e-8,
                              9.999e-5,
                              1e-4,
                              0.00012345,
                              1.00000012,
                              0.1 + 0.2,
                              4e-9,
                              5e-9,
                              1e-300,
                              999999.99999999,
                              1e6,
                              1e15,
                              123456789012.0,
                              DBL_MAX,
                              -DBL_MAX,
                              DBL_MIN,
                              5e-324,
                              (double)NAN,
                              (double)INFINITY,
                              -(double)INFINITY};
    for (size_t i = 0; i < sizeof special / sizeof *special; i++) check_number(special[i]);
    for (int i = 0; i < 200000; i++) {
        const double x = rng_normal(&g);
        check_number(round((double)(float)(x / 4.0) * 1e8) / 1e8); /* as similarities are written */
        check_number(round(ldexp(x, i % 24) * 1e8) / 1e8);
        check_number(i % 8 ? (double)(float)x : ldexp(x, i % 2000 - 1000));
    }
}

/* ----- tables ----- */

enum { ITEMS = 10007 };

static void fill(const void *arg, int64_t from, int64_t to, gf_lines *out) {
    (void)arg;
    for (int64_t i = from; i < to; i++) {
        gf_cell_integer(&out[0], i);
        gf_row_end(&out[0]);
        if (i % 3 == 0) gf_lines_quoted(&out[1], i % 2 ? "a\"b\\\n\xc3\xa9" : "\xff");
    }
}

/* Content of file f of a table of two files, with so many threads. Free it. */
static char *written(int threads, const char *name, int f) {
    const char *files[] = {"numbers.tsv", "names.jsonl"};
    char path[600];
    static const char *const names[] = {"numbers.tsv", "names.jsonl", NULL};
    static const gf_output_kind kind = {.names = names};
    gf_output_folder to = {0};
    assert_int_equal(gf_output_folder_open(&err, &to, scratch_path(&box, name), 0, &kind), GLOFND_OK);
    gf_table_columns columns = {0};
    gf_table_columns_add(&columns, GF_COLUMN_INT64, "number");
    const gf_table_files t = {
        .name = {"numbers", files[1]}, .columns = {&columns}, .items = ITEMS, .block = 10, .fill = fill, .threads = threads};
    assert_int_equal(gf_table_files_write(&err, &to, &t), GLOFND_OK);
    snprintf(path, sizeof path, "%s/%s", to.temp, files[f]);
    FILE *file = fopen(path, "rb");
    char *text = calloc(1, 1 << 20);
    assert_true(file && text && fread(text, 1, (1 << 20) - 1, file) > 0);
    fclose(file);
    gf_output_folder_close(&to);
    return text;
}

TEST(tables_are_the_same_for_any_number_of_threads) {
    for (int f = 0; f < 2; f++) {
        char *one = written(1, "one", f), *two = written(2, "two", f), *five = written(5, "five", f);
        assert_string_equal(one, two);
        assert_string_equal(one, five);
        if (f == 0) {
            char *p = one + strlen("number\n");
            for (long i = 0; i < ITEMS; i++) assert_int_equal(strtol(p, &p, 10), i);
            assert_string_equal(p, "\n");
        } else {
            const char first[] = "\"\\ufffd\"\"a\\\"b\\\\\\u000a\xc3\xa9\"";
            assert_memory_equal(one, first, sizeof first - 1);
        }
        free(one);
        free(two);
        free(five);
    }
}

TEST_GROUP(make_box, remove_box)
