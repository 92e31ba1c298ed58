/* unit_parquet.c - Parquet files of pyarrow (tests/fixtures/parquet, whose make.py says what is in them) in every codec, encoding
 * and page version; files that are refused, by row; and files with every byte damaged. */
#include "support/test.h"

#include "io/file.h"
#include "io/parquet.h"
#include "io/parquet_codec.h"
#include "support/source_file.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N = 23, DIM = 5 };

static float number_at(int64_t i, int64_t j) { return (float)((i * 7 + j * 3) % 64) / 8.0f - 4.0f; }

static const char *fixture(const char *name) {
    char file[120];
    snprintf(file, sizeof file, "tests/fixtures/parquet/%s.parquet", name);
    return source_file(file);
}

static void open_column(const char *name, const char *column, gf_parquet *f, gf_parquet_cursor *c) {
    gf_error err = {""};
    int64_t leaf = -1;
    if (gf_parquet_open(&err, fixture(name), f) != GLOFND_OK) fail_msg("%s", err.text);
    if (gf_parquet_find(&err, f, column, &leaf) != GLOFND_OK) fail_msg("%s", err.text);
    gf_parquet_cursor_init(c, f, leaf);
}

static int codec_is_missing(const gf_parquet *f) { return gf_page_codec_check(NULL, "", f->chunk[0].codec) != GLOFND_OK; }

static void check_rows(const char *name, gf_parquet_cursor *c, int64_t first, int64_t rows) {
    gf_error err = {""};
    float x[N * DIM];
    if (gf_parquet_seek(&err, c, first) != GLOFND_OK) fail_msg("%s: %s", name, err.text);
    if (gf_parquet_floats(&err, c, rows, DIM, x) != GLOFND_OK) fail_msg("%s: %s", name, err.text);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < DIM; j++)
            if (x[i * DIM + j] != number_at(first + i, j)) fail_msg("%s: row %d is wrong", name, (int)(first + i));
}

static void check_texts(const char *name) {
    gf_error err = {""};
    gf_parquet f;
    gf_parquet_cursor c;
    static const char *const columns[] = {"key", "number", "small"};
    for (int k = 0; k < 3; k++) {
        gf_string_list list = {0};
        open_column(name, columns[k], &f, &c);
        if (gf_parquet_texts(&err, &c, N, &list) != GLOFND_OK) fail_msg("%s: %s", name, err.text);
        assert_int_equal(list.n, N);
        for (int i = 0; i < N; i++) {
            char text[40];
            if (k == 0) snprintf(text, sizeof text, i % 3 == 0 ? "same" : "row %d", i);
            else snprintf(text, sizeof text, "%d", k == 1 ? i * 1000003 - 5 : i - 3);
            assert_string_equal(gf_string_list_get(&list, i), text);
        }
        gf_string_list_free(&list);
        gf_parquet_cursor_free(&c);
        gf_parquet_close(&f);
    }
}

TEST(reads_every_codec_encoding_and_version) {
    static const char *const names[] = {
        "none-v1-plain-f32",  "none-v1-dict-f64",   "none-v2-dict-f16", "snappy-v1-dict-f32", "snappy-v2-plain-fixed",
        "gzip-v1-plain-f16",  "gzip-v2-dict-f32",   "zstd-v1-dict-f32", "zstd-v2-plain-f64",  "none-v1-split-f32",
        "none-v1-pages-f32",  "snappy-v2-item-f32", "defaults",         "two-level",          "none-v2-delta-f32",
        "lz4-v1-lengths-f64", "lz4-v2-dict-f16"};
    for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
        gf_parquet f;
        gf_parquet_cursor c;
        gf_error err = {""};
        int64_t length = 0;
        open_column(names[k], "emb", &f, &c);
        const int missing = codec_is_missing(&f);
        assert_int_equal(f.rows, N);
        if (!missing) {
            assert_int_equal(gf_parquet_list_length(&err, &f, c.leaf, &length), GLOFND_OK);
            assert_int_equal(length, DIM);
            check_rows(names[k], &c, 0, N);
            check_rows(names[k], &c, 9, 2); /* across the border of two row groups, and back */
            check_rows(names[k], &c, 11, 3);
            check_rows(names[k], &c, 22, 1);
            for (int64_t i = N - 1; i >= 0; i--) check_rows(names[k], &c, i, 1);
        }
        gf_parquet_cursor_free(&c);
        gf_parquet_close(&f);
        if (!missing && strcmp(names[k], "two-level") != 0) check_texts(names[k]);
    }
}

TEST(finds_columns_by_field_path_and_kind) {
    gf_error err = {""};
    gf_parquet f;
    int64_t leaf = -1, other = -1;
    assert_int_equal(gf_parquet_open(&err, fixture("none-v1-plain-f32"), &f), GLOFND_OK);
    assert_int_equal(gf_parquet_find(&err, &f, NULL, &leaf), GLOFND_OK);
    assert_int_equal(gf_parquet_find(&err, &f, "emb.list.element", &other), GLOFND_OK);
    assert_int_equal(leaf, other);
    assert_int_equal(gf_parquet_find(&err, &f, "em", &other), GLOFND_E_ARGUMENT);
    assert_non_null(strstr(err.text, "key, emb.list.element, number, small"));
    assert_int_equal(gf_parquet_find(&err, &f, "number", &other), GLOFND_OK);
    assert_int_equal(gf_parquet_list_length(&err, &f, other, &leaf), GLOFND_E_FORMAT);
    assert_non_null(strstr(err.text, "'number'"));
    gf_parquet_close(&f);
}

TEST(refuses_by_row) {
    static const struct {
        const char *name, *word;
    } bad[] = {{"bad-ragged", "row 21 has 3 numbers; expected 5"},
               {"bad-long", "row 21 has more numbers"},
               {"bad-brotli", "compressed by Brotli"}};
    float x[N * DIM];
    for (size_t k = 0; k < sizeof bad / sizeof *bad; k++) {
        gf_error err = {""};
        gf_parquet f;
        gf_parquet_cursor c;
        open_column(bad[k].name, "emb", &f, &c);
        if (gf_parquet_floats(&err, &c, N, DIM, x) == GLOFND_OK || !strstr(err.text, bad[k].word))
            fail_msg("%s: '%s'", bad[k].name, err.text);
        assert_non_null(strstr(err.text, ".parquet"));
        gf_parquet_cursor_free(&c);
        gf_parquet_close(&f);
    }
}

/* A row that is null, and one with a null in its list: NaN, and rows behind them are where they belong, from wherever they are
 * read. */
TEST(nulls_are_nan) {
    static const struct {
        const char *name;
        int row, first, last; /* numbers that are NaN */
    } with[] = {{"bad-null-row", 12, 0, DIM - 1}, {"bad-null-number", 4, 2, 2}};
    float whole[N * DIM], x[N * DIM], good[N * DIM];
    gf_error err = {""};
    gf_parquet f;
    gf_parquet_cursor c;
    open_column("none-v1-plain-f32", "emb", &f, &c);
    assert_int_equal(gf_parquet_floats(&err, &c, N, DIM, good), GLOFND_OK);
    gf_parquet_cursor_free(&c);
    gf_parquet_close(&f);
    for (size_t k = 0; k < 2; k++) {
        int64_t length = 0;
        open_column(with[k].name, "emb", &f, &c);
        assert_int_equal(gf_parquet_list_length(&err, &f, c.leaf, &length), GLOFND_OK);
        assert_int_equal(length, DIM);
        if (gf_parquet_floats(&err, &c, N, DIM, whole) != GLOFND_OK) fail_msg("%s", err.text);
        for (int i = 0; i < N * DIM; i++) {
            const int place = i % DIM, missing = i / DIM == with[k].row && place >= with[k].first && place <= with[k].last;
            if (missing) assert_true(isnan(whole[i]));
            else if (i / DIM != with[k].row) assert_true(whole[i] == good[i]);
        }
        for (int first = N - 1; first >= 0; first--)
            for (int rows = 1; first + rows <= N; rows += 3) {
                assert_int_equal(gf_parquet_seek(&err, &c, first), GLOFND_OK);
                assert_int_equal(gf_parquet_floats(&err, &c, rows, DIM, x), GLOFND_OK);
                assert_memory_equal(x, whole + first * DIM, (size_t)(rows * DIM) * sizeof *x);
            }
        gf_parquet_cursor_free(&c);
        gf_parquet_close(&f);
    }
}

/* ----- differences: blocks and miniblocks of all widths, sums that wrap, common beginnings, nulls ----- */

enum { MANY = 1000 };

static void wanted_text(const char *column, int i, char *out, size_t n) {
    const uint64_t x = (uint64_t)i * (uint64_t)i * (uint64_t)i * 0x9E3779B97F4A7C15u;
    const int64_t wild = (int64_t)(i % 500 > 250 ? x : x & (((uint64_t)1 << i % 40) - 1));
    static const char *const words[] = {"dog", "cat", "emu"};
    char letters[100];
    memset(letters, 'x', sizeof letters);
    if (strcmp(column, "wild") == 0) snprintf(out, n, "%lld", (long long)wild);
    else if (strcmp(column, "narrow") == 0) snprintf(out, n, "%d", (int)(int32_t)(uint32_t)wild);
    else if (strcmp(column, "label") == 0) snprintf(out, n, "%s", i % 11 == 5 ? "" : words[i % 3]);
    else if (i == 77) out[0] = 0;
    else snprintf(out, n, "images/%03d/%.*s%d.jpg", i / 100, i % 90, letters, i);
}

TEST(reads_differences) {
    static const char *const files[] = {"many-none", "many-lz4"}, *const columns[] = {"wild", "narrow", "path", "label"};
    for (int k = 0; k < 8; k++) {
        gf_error err = {""};
        gf_parquet f;
        gf_parquet_cursor c;
        gf_string_list list = {0};
        open_column(files[k / 4], columns[k % 4], &f, &c);
        c.null_is_empty = 1;
        if (gf_parquet_texts(&err, &c, MANY, &list) != GLOFND_OK) fail_msg("%s", err.text);
        for (int i = 0; i < MANY; i++) {
            char text[160];
            wanted_text(columns[k % 4], i, text, sizeof text);
            assert_string_equal(gf_string_list_get(&list, i), text);
        }
        gf_string_list_free(&list);
        gf_parquet_cursor_free(&c);
        gf_parquet_close(&f);
    }
}

TEST(nulls_are_refused_where_a_name_is_needed) {
    gf_error err = {""};
    gf_parquet f;
    gf_parquet_cursor c;
    gf_string_list list = {0};
    open_column("many-none", "label", &f, &c);
    assert_int_equal(gf_parquet_texts(&err, &c, MANY, &list), GLOFND_E_FORMAT);
    assert_non_null(strstr(err.text, "row 5 is null"));
    gf_string_list_free(&list);
    gf_parquet_cursor_free(&c);
    gf_parquet_close(&f);
}

TEST(differences_end_where_they_say) {
    /* blocks of 128 in 4 miniblocks, 5 integers from 7 on: differences 1, 1 + 3, 1 + 2, 1 + 1 in 2 bits; then "x" */
    static const uint8_t page[] = {0x80, 1, 4, 5, 14, 2, 2, 0, 0, 0, 0 | 3 << 2 | 2 << 4 | 1 << 6, 0, 0, 0, 0, 0, 0, 0, 'x'};
    static const int64_t wanted[] = {7, 8, 12, 15, 17};
    gf_delta d;
    int64_t x;
    assert_int_equal(gf_delta_begin(&d, page, sizeof page), 1);
    for (int i = 0; i < 5; i++) {
        assert_ptr_equal(gf_delta_end(&d), page + sizeof page - 1);
        assert_int_equal(gf_delta_next(&d, &x), 1);
        assert_int_equal(x, wanted[i]);
    }
    assert_int_equal(gf_delta_next(&d, &x), 0);
    for (size_t n = 5; n < sizeof page - 1; n++) { /* cut */
        assert_int_equal(gf_delta_begin(&d, page, n), 1);
        assert_null(gf_delta_end(&d));
    }
    static const uint8_t bad[][5] = {{0x80, 1, 0, 5, 14}, {0x80, 1, 3, 5, 14}, {64, 4, 5, 14, 0}, {0, 1, 5, 14, 0}, {0x80, 0x80}};
    for (int i = 0; i < 5; i++) assert_int_equal(gf_delta_begin(&d, bad[i], sizeof bad[i]), 0);
}

TEST(lz4_decodes_literals_and_copies) {
    /* "abc", copy 4 + 1 from 3 back over what it writes; 20 literals by an extra byte, copy 19 + 4 from 1 back; "end" */
    static const uint8_t packed[] = {0x31, 'a', 'b', 'c', 3,   0,   0xff, 5,   '0', '1', '2', '3', '4', '5',  '6', '7', '8', '9',
                                     '0',  '1', '2', '3', '4', '5', '6',  '7', '8', '9', 1,   0,   4,   0x30, 'e', 'n', 'd'};
    static const char wanted[] = "abcabcab012345678901234567899999999999999999999999999end";
    uint8_t out[80];
    const size_t n = 8 + 20 + 23 + 3;
    assert_int_equal(gf_lz4_decode(packed, sizeof packed, out, n), 1);
    assert_memory_equal(out, wanted, 28);
    for (size_t i = 28; i < 51; i++) assert_int_equal(out[i], '9');
    assert_memory_equal(out + 51, "end", 3);
    for (size_t cut = 0; cut < sizeof packed; cut++) assert_int_equal(gf_lz4_decode(packed, cut, out, n), 0);
    assert_int_equal(gf_lz4_decode(packed, sizeof packed, out, n - 1), 0);
    assert_int_equal(gf_lz4_decode(packed, sizeof packed, out, n + 1), 0);
    static const uint8_t far[] = {0x10, 'a', 2, 0, 0x10, 'b'}, none[] = {0x10, 'a', 0, 0, 0x10, 'b'};
    assert_int_equal(gf_lz4_decode(far, sizeof far, out, 6), 0);
    assert_int_equal(gf_lz4_decode(none, sizeof none, out, 6), 0);
}

/* Whatever comes, it is read or refused with a text that names the file. */
static void try_bytes(const uint8_t *bytes, size_t n) {
    gf_error err = {""};
    gf_parquet f;
    int64_t leaf = 0, length = 0;
    float x[N * DIM];
    glofnd_status status = gf_parquet_open_bytes(&err, "some file", bytes, n, &f);
    if (status == GLOFND_OK) {
        gf_parquet_cursor c;
        gf_string_list list = {0};
        status = gf_parquet_find(&err, &f, NULL, &leaf);
        if (status == GLOFND_OK) status = gf_parquet_list_length(&err, &f, leaf, &length);
        gf_parquet_cursor_init(&c, &f, leaf);
        if (status == GLOFND_OK && length == DIM && f.rows <= N) status = gf_parquet_floats(&err, &c, f.rows, DIM, x);
        gf_parquet_cursor_free(&c);
        for (leaf = 0; leaf < f.leaves && leaf < 4; leaf++) {
            gf_parquet_cursor_init(&c, &f, leaf);
            if (status == GLOFND_OK && f.rows <= N && f.leaf[leaf].max_rep == 0)
                status = gf_parquet_texts(&err, &c, f.rows, &list);
            gf_parquet_cursor_free(&c);
        }
        gf_string_list_free(&list);
        gf_parquet_close(&f);
    }
    if (status != GLOFND_OK && !strstr(err.text, "some file")) fail_msg("a refusal without the file: '%s'", err.text);
}

TEST(survives_any_damaged_byte_and_cut) {
    static const char *const names[] = {"none-v1-dict-f64", "snappy-v2-plain-fixed", "gzip-v2-dict-f32",
                                        "zstd-v1-dict-f32", "none-v2-delta-f32",     "lz4-v1-lengths-f64"};
    for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
        gf_error err = {""};
        uint8_t *bytes = NULL;
        size_t capacity = 0, n = 0;
        assert_int_equal(gf_file_read(&err, fixture(names[k]), 1 << 20, &bytes, &capacity, &n), GLOFND_OK);
        for (size_t i = 0; i < n; i++) {
            static const uint8_t other[] = {0x00, 0xff, 0x80, 0x01};
            const uint8_t before = bytes[i];
            for (int m = 0; m < 4; m++) {
                bytes[i] = m < 2 ? other[m] : before ^ other[m];
                try_bytes(bytes, n);
            }
            bytes[i] = before;
            if (i % 7 == 0) try_bytes(bytes, i);
        }
        free(bytes);
    }
}

TEST(snappy_decodes_literals_and_copies) {
    /* 3 literals "abc"; copy 4 bytes from 3 back; copy 5 from 2 back by the 2-byte form, over what it writes */
    static const uint8_t packed[] = {12, 2 << 2, 'a', 'b', 'c', 1 | 0 << 2, 3, 2 | 4 << 2, 2, 0};
    uint8_t out[12];
    assert_int_equal(gf_snappy_decode(packed, sizeof packed, out, 12), 1);
    assert_memory_equal(out, "abcabca", 7);
    for (int i = 7; i < 12; i++) assert_int_equal(out[i], out[i - 2]);
    for (size_t n = 0; n < sizeof packed; n++) assert_int_equal(gf_snappy_decode(packed, n, out, 12), 0);
    static const uint8_t far[] = {8, 2 << 2, 'a', 'b', 'c', 1 | 1 << 2, 4};
    assert_int_equal(gf_snappy_decode(far, sizeof far, out, 8), 0);
    assert_int_equal(gf_snappy_decode(packed, sizeof packed, out, 11), 0);
}
