/* unit_embedding_set.c - embeddings from files as people have them: every type and order of arrays, shards by folder and pattern,
 * tables; one matrix whatever they are cut into. */
#include "support/test.h"

#include "embeddings/embedding_set.h"
#include "io/npy.h"
#include "support/scratch.h"
#include "support/source_file.h"
#include "util/dtype.h"
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N = 7, DIM = 3 };

static float number_at(int64_t i, int64_t j) { return (float)(i * DIM + j) / 4.0f - 2.0f; } /* exact in 16 bits */

/* An array [rows][DIM] from row `first` on: type f2, f4 or f8, either order of bytes ('<', '>') and axes. */
static void write_npy(const char *name, const char *descr, int fortran, int64_t first, int64_t rows) {
    unsigned char bytes[1024];
    const size_t width = (size_t)(descr[2] - '0');
    memset(bytes, ' ', 128);
    memcpy(bytes, "\x93NUMPY\x01\x00\x76\x00", 10);
    const int n = snprintf((char *)bytes + 10, 118, "{'descr': '%s', 'fortran_order': %s, 'shape': (%d, %d), }", descr,
                           fortran ? "True" : "False", (int)rows, DIM);
    bytes[10 + n] = ' ', bytes[127] = '\n';
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < DIM; j++) {
            const float x = number_at(first + i, j);
            const double y = x;
            const uint16_t h = gf_f16_from_float(x);
            unsigned char *at = bytes + 128 + (size_t)(fortran ? j * rows + i : i * DIM + j) * width;
            memcpy(at, width == 8 ? (const void *)&y : width == 4 ? (const void *)&x : (const void *)&h, width);
            if (descr[0] == '>') gf_npy_swap(at, 1, width);
        }
    scratch_write(&box, name, bytes, 128 + (size_t)(rows * DIM) * width);
}

static gf_embedding_set *open_set(const char *const *path, int paths, const char *column, const char *id) {
    gf_error err = {""};
    gf_embedding_set *s = NULL;
    const gf_embedding_input in = {.path = path, .paths = paths, .column = column, .id = id};
    if (gf_embeddings_open(&err, &in, &s) != GLOFND_OK) fail_msg("%s", err.text);
    return s;
}

static void expect_rows(gf_embedding_set *s, int64_t n) {
    float x[64 * DIM];
    gf_error err = {""};
    assert_int_equal(gf_embeddings_rows(s), n);
    assert_int_equal(gf_embeddings_dim(s), DIM);
    for (int64_t first = 0; first < n; first++)
        for (int64_t rows = 1; rows <= n - first; rows++) {
            if (gf_embeddings_read(&err, s, first, rows, x) != GLOFND_OK) fail_msg("%s", err.text);
            for (int64_t i = 0; i < rows * DIM; i++) assert_true(x[i] == number_at(first + i / DIM, i % DIM));
        }
    assert_int_equal(gf_embeddings_read(&err, s, n - 1, 2, x), GLOFND_E_ARGUMENT);
}

static void expect_file(const char *name, int64_t n) {
    const char *path = path_of(name);
    gf_embedding_set *s = open_set(&path, 1, NULL, NULL);
    expect_rows(s, n);
    gf_embeddings_close(s);
}

TEST(reads_every_type_and_order) {
    static const char *const types[] = {"<f4", "<f2", "<f8", ">f4", ">f2", ">f8"};
    for (int k = 0; k < 6; k++)
        for (int fortran = 0; fortran < 2; fortran++) {
            write_npy("one.npy", types[k], fortran, 0, N);
            expect_file("one.npy", N);
        }
}

TEST(shards_are_one_matrix_in_natural_order) {
    char pattern[3][240], parts[120];
    write_npy("parts/emb_2.npy", "<f4", 0, 0, 2);
    write_npy("parts/emb_10.npy", ">f8", 1, 2, 4);
    write_npy("parts/emb_011.npy", "<f2", 0, 6, 1);
    scratch_text(&box, "parts/_SUCCESS", "");
    scratch_text(&box, "parts/.emb_1.npy.crc", "x");
    scratch_text(&box, "parts/metadata.csv", "a,b\n1,2\n"); /* beside arrays a table is no shard */
    snprintf(parts, sizeof parts, "%s", path_of("parts"));
    snprintf(pattern[0], sizeof pattern[0], "%s", parts);
    snprintf(pattern[1], sizeof pattern[1], "%s/emb_*.npy", parts);
    snprintf(pattern[2], sizeof pattern[2], "%s/emb_{2,10,011}.npy", parts);
    for (int k = 0; k < 3; k++) {
        const char *path = pattern[k];
        gf_embedding_set *s = open_set(&path, 1, NULL, NULL);
        assert_int_equal(gf_embeddings_files(s), 3);
        expect_rows(s, N);
        gf_embeddings_close(s);
    }
    char file[2][120];
    snprintf(file[0], sizeof file[0], "%s", path_of("parts/emb_2.npy"));
    snprintf(file[1], sizeof file[1], "%s", path_of("parts/emb_10.npy"));
    const char *const two[] = {file[0], file[1]};
    gf_embedding_set *s = open_set(two, 2, NULL, NULL);
    expect_rows(s, 6);
    gf_embeddings_close(s);
}

TEST(a_folder_of_tables_is_read_where_it_has_no_arrays) {
    scratch_text(&box, "tables/b10.tsv", "-1.25\t-1\t-0.75\n");
    scratch_text(&box, "tables/b9.csv", "x,y,z\n-2,-1.75,-1.5\n");
    scratch_text(&box, "tables/readme.txt", "");
    expect_file("tables", 2);
}

static void expect_names(gf_embedding_set *s, const char *first, const char *last) {
    gf_error err = {""};
    gf_string_list names = {0};
    assert_int_equal(gf_embeddings_have_names(s), 1);
    assert_int_equal(gf_embeddings_names(&err, s, &names), GLOFND_OK);
    assert_int_equal(names.n, gf_embeddings_rows(s));
    assert_string_equal(gf_string_list_get(&names, 0), first);
    assert_string_equal(gf_string_list_get(&names, names.n - 1), last);
    gf_string_list_free(&names);
}

static void expect_table(const char *name, const char *text, const char *column, const char *id, int named) {
    scratch_text(&box, name, text);
    const char *path = path_of(name);
    gf_embedding_set *s = open_set(&path, 1, column, id);
    expect_rows(s, 2);
    if (named) expect_names(s, "a", "b");
    else assert_int_equal(gf_embeddings_have_names(s), 0);
    gf_embeddings_close(s);
}

TEST(tables_have_columns_or_a_list) {
    expect_table("t.csv", "name,x,y,z\na,-2,-1.75,-1.5\nb,-1.25,-1,-0.75\n", NULL, NULL, 1);
    expect_table("t.csv", "-2,-1.75,-1.5\n-1.25,-1,-0.75\n\n", NULL, NULL, 0);
    expect_table("t.csv", "0,1,2\n-2,-1.75,-1.5\n-1.25,-1,-0.75\n", NULL, NULL, 0);
    expect_table("t.tsv", "a\t-2\t-1.75\t-1.5\nb\t-1.25\t-1\t-0.75", NULL, NULL, 1);
    expect_table("t.csv", "\xef\xbb\xbfkey,v\na,\"[-2, -1.75, -1.5]\"\nb,\"[-1.25 -1 -0.75]\"\n", NULL, NULL, 1);
    expect_table("t.tsv", "v\tkey\tcaption\n-2;-1.75;-1.5\ta\tc\n-1.25;-1;-0.75\tb\tc\n", "v", "key", 1);
}

static void expect_columns(const char *text, const char *column, const char *said, int64_t dim) {
    scratch_text(&box, "c.csv", text);
    const char *path = path_of("c.csv");
    gf_embedding_set *s = open_set(&path, 1, column, NULL);
    if (said) assert_string_equal(gf_embeddings_columns(s), said);
    else assert_null(gf_embeddings_columns(s)); /* no titles */
    assert_int_equal(gf_embeddings_dim(s), dim);
    gf_embeddings_close(s);
}

/* Rows of three; the first of them are bad, the last two those of expect_table. */
static void expect_bad_rows_first(const char *text, int64_t bad) {
    scratch_text(&box, "c.csv", text);
    const char *path = path_of("c.csv");
    gf_embedding_set *s = open_set(&path, 1, NULL, NULL);
    gf_error err = {""};
    float x[5 * DIM];
    assert_int_equal(gf_embeddings_dim(s), DIM);
    assert_int_equal(gf_embeddings_rows(s), bad + 2);
    assert_int_equal(gf_embeddings_read(&err, s, 0, bad + 2, x), GLOFND_OK);
    for (int64_t i = 0; i < bad; i++) assert_true(isnan(x[i * DIM]) || isnan(x[i * DIM + 1]));
    for (int64_t i = 0; i < 2 * DIM; i++) assert_true(x[bad * DIM + i] == number_at(i / DIM, i % DIM));
    gf_embeddings_close(s);
}

TEST(an_empty_cell_in_the_first_row_is_a_bad_row) {
    expect_bad_rows_first("x,y,z\n1,,2\n-2,-1.75,-1.5\n-1.25,-1,-0.75\n", 1);
    expect_bad_rows_first("x,y,z\n,,\n,,3\n-2,-1.75,-1.5\n-1.25,-1,-0.75\n", 2);
    expect_bad_rows_first("v,id\n,7\nNone,8\n,9\n\"[-2, -1.75, -1.5]\",10\n\"[-1.25 -1 -0.75]\",11\n", 3);
    expect_bad_rows_first("v\n\"\"\n\"[-2, -1.75, -1.5]\"\n\n\"[-1.25 -1 -0.75]\"\n", 1); /* an empty line is no row */
    expect_table("t.csv", "name,x,y,z\n\na,-2,-1.75,-1.5\nb,-1.25,-1,-0.75\n", NULL, NULL, 1);
    expect_columns("e0,name,note\n1,,nan\n2,b,5\n3,c,6\n", NULL, "2 columns, e0 to note; names: name", 2);
    expect_columns("e0,e1,label\n1,2,\n3,4,5\n", NULL, "2 columns, e0 to e1; left out: label", 2);
}

/* As pandas writes two dimensions: 0 and 1 are titles where no row of data could stand. */
TEST(titles_0_and_1_of_data_frames_are_no_row) {
    expect_columns(",0,1\n0,0.5,-1.5\n1,2.5,3\n", NULL, "2 columns, 0 to 1; names: the first one", 2);
    expect_columns(",0,1\na,1,2\nb,2,3\n", NULL, "2 columns, 0 to 1; names: the first one", 2);
    expect_columns(",0,1,label\n0,0.5,-1.5,3\n1,2.5,3,4\n", NULL, "2 columns, 0 to 1; names: the first one; left out: label", 2);
    expect_columns("name,0,1\na,0.5,-1.5\nb,2.5,3\n", NULL, "2 columns, 0 to 1; names: name", 2);
    expect_columns("0,1\n0.5,-1.5\n2.5,3\n", NULL, "2 columns, 0 to 1", 2);
    expect_columns("0,1\n1,0\n", NULL, NULL, 2); /* a row: so are the others */
    expect_columns("0.0,1.0\n0.5,1.5\n", NULL, NULL, 2);
    expect_columns("a,0,1\nb,1,0\n", NULL, NULL, 2);
}

TEST(blanks_around_cells_do_not_count) {
    expect_table("t.csv", "-2, -1.75, -1.5\n-1.25, -1, -0.75\n", NULL, NULL, 0); /* np.savetxt(delimiter=", ") */
    expect_table("t.csv", "name, x, y, z \na, -2, -1.75, -1.5\nb, -1.25 ,-1\t, -0.75 \n", NULL, NULL, 1);
    expect_table("t.csv", "name,x,y,z\na,-2,-1.75,-1.5 \nb,-1.25,-1,-0.75 \n", NULL, NULL, 1);
    expect_table("t.csv", "v, key\n\"[-2, -1.75, -1.5]\",a\n\"[-1.25 -1 -0.75]\",b\n", "v", "key", 1);
    expect_columns("e0, e1, label\n1, 2, 5\n3, 4, 6\n", NULL, "2 columns, e0 to e1; left out: label", 2);
    expect_bad_rows_first("x,y,z\n1, ,2\n-2,-1.75,-1.5\n-1.25,-1,-0.75\n", 1);
}

TEST(columns_and_lines_without_anything_do_not_count) {
    expect_columns("a,b,\n1,2,\n3,4,\n", NULL, "2 columns, a to b; left out: one without a title", 2);
    expect_columns("name,note,a,b\nx,,1,2\ny,,3,4\n", NULL, "2 columns, a to b; names: name; left out: note", 2);
    expect_table("t.tsv", "\r\n\nname\tx\ty\tz\na\t-2\t-1.75\t-1.5\nb\t-1.25\t-1\t-0.75\n", NULL, "name", 1);
}

TEST(numbers_below_all_doubles_are_zero) {
    expect_columns("name,e0,e1\na,1e-400,2\nb,3,-4e-320\n", NULL, "2 columns, e0 to e1; names: name", 2);
}

/* Texts, separated by blanks, `-`: an empty one; the labels as digits, `?`: unknown; the names of classes. */
static void expect_labels(const char *texts, const char *labels, const char *classes) {
    gf_error err = {""};
    gf_string_list list = {0};
    int32_t *label = NULL;
    gf_string_list class = {0};
    char said[64] = "";
    for (const char *at = texts; *at; at += strspn(at, " ")) {
        const size_t n = strcspn(at, " ");
        assert_int_equal(gf_string_list_add(&err, &list, at, n == 1 && *at == '-' ? 0 : n), GLOFND_OK);
        at += n;
    }
    if (gf_row_labels_of_texts(&err, &list, list.n, &label, &class) != GLOFND_OK) fail_msg("%s", err.text);
    for (int64_t i = 0; i < list.n; i++) assert_int_equal(label[i], labels[i] == '?' ? -1 : labels[i] - '0');
    for (int64_t i = 0; i < class.n; i++) strcat(strcat(said, gf_string_list_get(&class, i)), " ");
    assert_string_equal(said, classes);
    free(label);
    gf_string_list_free(&class);
    gf_string_list_free(&list);
}

/* Integers of which some are missing are written as 3.0. */
TEST(labels_are_unknown_where_data_frames_have_none) {
    expect_labels("3 -1 - 0", "3??0", "");
    expect_labels("3.0 -1.0 - 0.0", "3??0", "");
    expect_labels("3.0 nan 1 None NaN null 0", "3?1???0", "");
    expect_labels("b nan a NaN - b", "1?0??1", "a b ");
    expect_labels("b None a -1", "3120", "-1 None a b ");
    expect_labels("1.5 1.0", "10", "1.0 1.5 ");
}

TEST(ids_and_labels_are_no_dimensions) {
    expect_table("t.csv", "x,y,z,Label\n-2,-1.75,-1.5,3\n-1.25,-1,-0.75,4\n", NULL, NULL, 0);
    expect_table("t.csv", "index,name,e0,e1,e2,y\n7,a,-2,-1.75,-1.5,1.0\n8,b,-1.25,-1,-0.75,\n", NULL, NULL, 1);
    expect_columns("id,e0,e1,class\n7,1,2,0\n8,3,4,1\n", NULL, "2 columns, e0 to e1; names: id; left out: class", 2);
    expect_columns("Unnamed: 0,e0,e1\n7,1,2\n8,3,4\n", NULL, "2 columns, e0 to e1; names: Unnamed: 0", 2);
    expect_columns("id,e0,target\n0.5,1,0.25\n8,3,1\n", NULL, "3 columns, id to target", 3); /* no integers */
    expect_columns("x,y\n1,2\n3,4\n", NULL, "2 columns, x to y", 2);
    expect_columns("e0,e1,name,label\n1,2,a,cat\n3,4,b,dog\n", NULL, "2 columns, e0 to e1; names: name; left out: label", 2);
    expect_columns("id,y\n1,2\n3,4\n", "y", "column y; names: id", 1);
    expect_columns("id,emb\n5,\"[1, 2]\"\n6,\"[3, 4]\"\n", NULL, "column emb; names: id", 2);
}

TEST(parquet_has_names_and_shards) {
    const char *const path[] = {source_file("tests/fixtures/parquet/defaults.parquet")};
    float x[23 * 5];
    gf_error err = {""};
    gf_embedding_set *s = open_set(path, 1, NULL, "key");
    assert_int_equal(gf_embeddings_rows(s), 23);
    expect_names(s, "same", "row 22");
    assert_int_equal(gf_embeddings_read(&err, s, 3, 20, x), GLOFND_OK);
    assert_true(x[1] == (float)((3 * 7 + 3) % 64) / 8.0f - 4.0f);
    gf_embeddings_close(s);
}

static void expect_refused(const char *const *path, int paths, const char *column, const char *word) {
    gf_error err = {""};
    gf_embedding_set *s = NULL;
    const gf_embedding_input in = {.path = path, .paths = paths, .column = column};
    if (gf_embeddings_open(&err, &in, &s) == GLOFND_OK || !strstr(err.text, word))
        fail_msg("'%s' instead of '%s'", err.text, word);
    assert_null(s);
}

/* Spark writes a Parquet file per task, also of tasks without rows. */
TEST(files_without_rows_are_left_out) {
    char path[7][160];
    const char *list[7];
    write_npy("full0.npy", "<f4", 0, 0, 3);
    write_npy("full1.npy", "<f4", 1, 3, N - 3);
    write_npy("void.npy", "<f4", 0, 0, 0);
    scratch_text(&box, "void.csv", "a,b,c\n");
    static const char *const names[] = {"void.npy", "full0.npy", "void.csv", "void.npy", "full1.npy", "void.npy"};
    for (int i = 0; i < 6; i++) snprintf(path[i], sizeof path[i], "%s", path_of(names[i])), list[i] = path[i];
    snprintf(path[6], sizeof path[6], "%s", source_file("tests/fixtures/parquet/no-rows.parquet")), list[6] = path[6];
    for (int i = 0; i < 2; i++) { /* with and without the Parquet file in front */
        const char *const front[] = {list[6], list[0], list[1], list[2], list[3], list[4], list[5]};
        gf_embedding_set *s = open_set(front + i, 7 - i, NULL, NULL);
        expect_rows(s, N);
        assert_int_equal(gf_embeddings_first(s, 3 - i), 3);
        gf_embeddings_close(s);
    }
    const char *const none[] = {list[0], list[6]};
    expect_refused(none, 2, NULL, "no rows");
    expect_refused(none, 1, NULL, "an empty array, 0 x 3");
    expect_refused(none + 1, 1, NULL, "no-rows.parquet: no rows");
}

TEST(a_file_that_changes_is_noticed) {
    gf_error err = {""};
    write_npy("still.npy", "<f4", 0, 0, N);
    write_npy("moving.npy", "<f4", 0, 0, N);
    char still[PATH_MAX], moving[PATH_MAX];
    snprintf(still, sizeof still, "%s", path_of("still.npy"));
    snprintf(moving, sizeof moving, "%s", path_of("moving.npy"));
    gf_embedding_set *s = open_set((const char *const[]){still, moving}, 2, NULL, NULL);
    assert_int_equal(gf_embeddings_check_unchanged(&err, s), GLOFND_OK);
    write_npy("moving.npy", "<f4", 0, 0, N + 1);
    assert_int_equal(gf_embeddings_check_unchanged(&err, s), GLOFND_E_ARGUMENT);
    assert_non_null(strstr(err.text, "moving.npy' was changed while it was read"));
    gf_embeddings_close(s);
}

TEST(refuses_with_the_file) {
    static const struct {
        const char *text, *column, *word;
    } bad[] = {{"x,y\n1,2\n3\n", NULL, "line 3: 1 columns"},
               {"a,1,2\nb,1,two\n", NULL, "line 2, column 3: 'two' is not a number"},
               {"v\n\"[1,2]\"\n\"[1,2,3]\"\n", NULL, "line 3: 3 numbers; expected 2"},
               {"v\n\"[1,x]\"\n", NULL, "'x' in a list"},
               {"a,b\nc,d\n", NULL, "choose the column of embeddings: column=NAME"},
               {"a,b,1\n", NULL, "2 columns of text; choose the names: id=NAME"},
               {"a,b\n1,2\n", "w", "no column 'w'"},
               {"a,b\n", NULL, "no rows"},
               {"id,label\n1,2\n", NULL, "no column of numbers but an id or labels"},
               {"e,label\n1,2\n3,2.5\n", NULL, "line 3: '2.5' in column 'label'"},
               {"a,b,c,emb\n1,2\n", "emb", "line 2: 2 columns; the first line has 4"},
               {"x,y\nr1,1,2\nr2,3,4\n", NULL, "line 2: 3 columns; the first line has 2"},
               {"x;y\n1;2\n", NULL, "its columns are separated by semicolons; expected commas or tabs"},
               {"name;x;y\na;1,5;2,5\n", NULL, "its columns are separated by semicolons"}, /* as with decimal commas */
               {"x y\n1 2\n", NULL, "columns are separated by commas or tabs"},
               {"v,w\n,\n", "v", "no row has numbers"},
               {"\n\nx,y\n1,2\n3\n", NULL, "line 5: 1 columns"},
               {"\"a,b\n", NULL, "a quote is not closed"}};
    char name[120];
    for (size_t k = 0; k < sizeof bad / sizeof *bad; k++) {
        scratch_text(&box, "bad.csv", bad[k].text);
        const char *path = path_of("bad.csv");
        expect_refused(&path, 1, bad[k].column, bad[k].word);
        expect_refused(&path, 1, bad[k].column, "bad.csv");
    }
    scratch_text(&box, "c.csv.gz", "\x1f\x8b\b");
    snprintf(name, sizeof name, "%s", path_of("c.csv.gz"));
    const char *const packed[] = {name};
    expect_refused(packed, 1, NULL, "c.csv.gz is compressed; unpack it first");
    write_npy("a.npy", "<f4", 0, 0, N);
    scratch_text(&box, "b.csv", "1,2\n");
    char file[2][120];
    snprintf(file[0], sizeof file[0], "%s", path_of("a.npy"));
    snprintf(file[1], sizeof file[1], "%s", path_of("b.csv"));
    const char *const two[] = {file[0], file[1]};
    expect_refused(two, 2, NULL, "rows of 2 numbers; those of");
    snprintf(name, sizeof name, "%s", path_of("nothing-*.npy"));
    const char *const none[] = {name};
    expect_refused(none, 1, NULL, "no file matches");
}

TEST_GROUP(make_box, remove_box)
