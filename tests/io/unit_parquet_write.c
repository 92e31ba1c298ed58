/* unit_parquet_write.c - Parquet files of the own writer, read by the own reader: several row groups and pages, empty tables,
 * equal bytes for equal calls. tests/sh/discover_parquet.sh reads its files by other readers. */
#include "support/test.h"

#include "io/parquet.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const gf_table_column columns[] = {{"row", GF_COLUMN_INT32},
                                          {"big", GF_COLUMN_INT64},
                                          {"value", GF_COLUMN_FLOAT},
                                          {"flag", GF_COLUMN_FLAG},
                                          {"name", GF_COLUMN_TEXT}};
enum { COLUMNS = 5, PAGE = 1000 };

static void keep_bytes(void *user, const void *bytes, size_t n) { gf_byte_buffer_add(user, bytes, n); }

static int64_t big_at(int64_t i) { return i * INT64_C(1000000007) - (INT64_C(1) << 40); }

/* Names of `letters` characters and more, so that a page has a known size. */
static void add_page(gf_parquet_out *w, int64_t first, int64_t rows, int letters) {
    gf_byte_buffer value[COLUMNS] = {{0}};
    char *name = malloc((size_t)letters + 32);
    assert_non_null(name);
    memset(name, 'x', (size_t)letters);
    for (int64_t i = first; i < first + rows; i++) {
        const int32_t row = (int32_t)(i - 3);
        const int64_t big = big_at(i);
        const float x = 0.5f * (float)i;
        const uint8_t flag = i % 3 == 0;
        const uint32_t n = (uint32_t)(letters + snprintf(name + letters, 32, "%d", (int)i));
        gf_byte_buffer_add(&value[0], &row, sizeof row);
        gf_byte_buffer_add(&value[1], &big, sizeof big);
        gf_byte_buffer_add(&value[2], &x, sizeof x);
        gf_byte_buffer_add(&value[3], &flag, sizeof flag);
        gf_byte_buffer_add(&value[4], &n, sizeof n);
        gf_byte_buffer_add(&value[4], name, n);
    }
    gf_parquet_out_add(w, rows, value);
    for (int c = 0; c < COLUMNS; c++) gf_byte_buffer_free(&value[c]);
    free(name);
}

static gf_byte_buffer written(int64_t rows, int letters) {
    gf_byte_buffer file = {0};
    gf_parquet_out w;
    gf_parquet_out_begin(&w, columns, COLUMNS, keep_bytes, &file);
    for (int64_t i = 0; i < rows; i += PAGE) add_page(&w, i, rows - i < PAGE ? rows - i : PAGE, letters);
    gf_parquet_out_end(&w);
    assert_null(w.failed);
    gf_parquet_out_free(&w);
    assert_false(file.failed);
    return file;
}

static void check_column(const gf_parquet *f, const char *name, int letters) {
    gf_error err = {""};
    gf_parquet_cursor c;
    gf_string_list list = {0};
    int64_t leaf = -1;
    assert_int_equal(gf_parquet_find(&err, f, name, &leaf), GLOFND_OK);
    gf_parquet_cursor_init(&c, f, leaf);
    if (gf_parquet_texts(&err, &c, f->rows, &list) != GLOFND_OK) fail_msg("%s", err.text);
    for (int64_t i = 0; i < f->rows; i++) {
        char text[32];
        const char *found = gf_string_list_get(&list, i);
        snprintf(text, sizeof text, "%lld", (long long)(name[0] == 'r' ? i - 3 : name[0] == 'b' ? big_at(i) : i));
        if (name[0] == 'n') assert_int_equal(strspn(found, "x"), letters);
        assert_string_equal(found + (name[0] == 'n' ? letters : 0), text);
    }
    gf_string_list_free(&list);
    gf_parquet_cursor_free(&c);
}

static void check_file(int64_t rows, int letters, int64_t groups) {
    gf_error err = {""};
    gf_parquet f;
    gf_byte_buffer file = written(rows, letters), again = written(rows, letters);
    assert_true(file.used == again.used && memcmp(file.at, again.at, file.used) == 0);
    if (gf_parquet_open_bytes(&err, "written", file.at, file.used, &f) != GLOFND_OK) fail_msg("%s", err.text);
    assert_int_equal(f.rows, rows);
    assert_int_equal(f.leaves, COLUMNS);
    assert_int_equal(f.groups, groups);
    check_column(&f, "row", letters);
    check_column(&f, "big", letters);
    check_column(&f, "name", letters);
    gf_parquet_close(&f);
    gf_byte_buffer_free(&file);
    gf_byte_buffer_free(&again);
}

TEST(what_is_written_is_read) {
    check_file(0, 1, 0);
    check_file(1, 0, 1);
    check_file(2345, 7, 1);
}

TEST(large_tables_have_row_groups) {
    check_file(5 * PAGE + 5, 20000, 2); /* 20 MB a page of names: a group is closed beyond 64 MB */
}
