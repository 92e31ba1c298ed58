/* unit_safetensors.c - safetensors files: the bytes Python's package writes, round trips, conversions.
 *     unit_safetensors write FILE    a file of all types, which tests/sh/safetensors.sh reads with Python
 *     unit_safetensors check FILE    the same contents, as Python wrote them */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "support/test.h"

#include <dirent.h>
#include <math.h>
#include <signal.h>
#include <sys/resource.h>

#include "support/safetensors_fixture.h"

/* ----- writing --------------------------------------------------------------------------------------------------- */

static const float three[3] = {1, 2, 3};
static const int64_t two[2] = {7, -1};
static const gf_st_tensor pair[2] = {{.name = "b", .type = GF_ST_I64, .rank = 2, .shape = {2, 1}, .data = two},
                                     {.name = "a", .type = GF_ST_F32, .rank = 1, .shape = {3}, .data = three}};
static const gf_st_text format_pt = {"format", "pt"};

static void write_pair(void) {
    gf_error err = {""};
    if (gf_st_write(&err, path_of("a"), pair, 2, &format_pt, 1) != GLOFND_OK) fail_msg("%s", err.text);
}

TEST(writes_what_python_writes) {
    unsigned char got[512];
    for (int again = 0; again < 2; again++) { /* the second time over the first */
        write_pair();
        assert_int_equal(read_bytes(got, sizeof got), GOLDEN);
        assert_memory_equal(got, golden, GOLDEN);
    }
    unlink(path_of("a"));
}

/* Names of eight lengths: the header always ends at a multiple of 8, with no more blanks than that takes. */
TEST(header_is_filled_to_8) {
    for (int n = 1; n <= 8; n++) {
        unsigned char got[512];
        gf_error err = {""};
        gf_st_tensor t = pair[1];
        t.name = &"abcdefgh"[8 - n];
        assert_int_equal(gf_st_write(&err, path_of("a"), &t, 1, NULL, 0), GLOFND_OK);
        const size_t size = read_bytes(got, sizeof got), header = (size_t)gf_le64(got);
        assert_int_equal(header % 8, 0);
        assert_int_equal(size, 8 + header + sizeof three);
        assert_memory_equal(got + 8 + header, three, sizeof three);
        assert_non_null(memchr(got + 8 + header - 8, '}', 8));
    }
    unlink(path_of("a"));
}

static int files_in_folder(void) {
    DIR *d = opendir(box.folder);
    assert_non_null(d);
    int n = 0;
    while (readdir(d)) n++;
    closedir(d);
    return n - 2;
}

static void not_written(const gf_st_tensor *tensors, int64_t count, const gf_st_text *texts, int64_t text_count,
                        const char *word) {
    unsigned char got[512];
    gf_error err = {""};
    const glofnd_status status = gf_st_write(&err, path_of("a"), tensors, count, texts, text_count);
    if (status != GLOFND_E_ARGUMENT || !strstr(err.text, word))
        fail_msg("status %d, '%s'; expected '%s'", status, err.text, word);
    assert_int_equal(read_bytes(got, sizeof got), GOLDEN);
    assert_memory_equal(got, golden, GOLDEN);
    assert_int_equal(files_in_folder(), 1);
}

TEST(nonsense_is_not_written) {
    write_pair();
    const gf_st_tensor good = pair[1], twice[2] = {pair[1], pair[1]};
    gf_st_tensor bad = good;
    not_written(twice, 2, NULL, 0, "two called 'a'");
    bad.name = "__metadata__";
    not_written(&bad, 1, NULL, 0, "__metadata__");
    bad.name = NULL;
    not_written(&bad, 1, NULL, 0, "without name");
    bad.name = "\xff\x1b[2J";
    not_written(&bad, 1, NULL, 0, "'??[2J' is not UTF-8");
    bad = good, bad.type = (gf_st_type)99;
    not_written(&bad, 1, NULL, 0, "type, rank or shape");
    bad = good, bad.rank = 9;
    not_written(&bad, 1, NULL, 0, "type, rank or shape");
    bad = good, bad.shape[0] = -1;
    not_written(&bad, 1, NULL, 0, "type, rank or shape");
    bad = good, bad.shape[0] = INT64_MAX / 2;
    not_written(&bad, 1, NULL, 0, "type, rank or shape");
    bad = good, bad.data = NULL;
    not_written(&bad, 1, NULL, 0, "no data");
    const gf_st_text same[2] = {{"k", "1"}, {"k", "2"}}, invalid = {"k", "\xff"}, no_text = {"k", NULL};
    not_written(&good, 1, same, 2, "two texts 'k'");
    not_written(&good, 1, &invalid, 1, "UTF-8");
    not_written(&good, 1, &no_text, 1, "UTF-8");
    unlink(path_of("a"));
}

TEST(full_disk_leaves_the_old_file) {
    static float large[100000];
    const gf_st_tensor t = {.name = "large", .type = GF_ST_F32, .rank = 1, .shape = {100000}, .data = large};
    unsigned char got[512];
    gf_error err = {""};
    struct rlimit old, tight;
    write_pair();
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &old);
    tight = old;
    tight.rlim_cur = 200000;
    setrlimit(RLIMIT_FSIZE, &tight);
    const glofnd_status status = gf_st_write(&err, path_of("a"), &t, 1, NULL, 0);
    setrlimit(RLIMIT_FSIZE, &old);
    assert_int_equal(status, GLOFND_E_IO);
    assert_non_null(strstr(err.text, "left as it was"));
    assert_int_equal(read_bytes(got, sizeof got), GOLDEN);
    assert_memory_equal(got, golden, GOLDEN);
    assert_int_equal(files_in_folder(), 1);
    unlink(path_of("a"));
}

/* ----- reading back ---------------------------------------------------------------------------------------------- */

TEST(reads_back) {
    gf_error err = {""};
    float x[3] = {0};
    int64_t y[2] = {0};
    write_pair();
    gf_st_file f = open_file();
    assert_int_equal(f.count, 2);
    assert_int_equal(f.text_count, 1);
    assert_string_equal(gf_st_find_text(&f, "format"), "pt");
    assert_null(gf_st_find_text(&f, "b"));
    assert_null(gf_st_find(&f, "format"));
    const gf_st_tensor *a = gf_st_find(&f, "a"), *b = gf_st_find(&f, "b");
    assert_true(b == &f.tensors[0] && a == &f.tensors[1]);
    assert_true(a->type == GF_ST_F32 && a->rank == 1 && a->shape[0] == 3 && a->count == 3 && a->at == GOLDEN - 12);
    assert_true(b->type == GF_ST_I64 && b->rank == 2 && b->shape[0] == 2 && b->shape[1] == 1 && b->count == 2);
    assert_int_equal(gf_st_read(&err, &f, b, y, sizeof y), GLOFND_OK);
    assert_memory_equal(y, two, sizeof y);
    assert_int_equal(gf_st_read_f32(&err, &f, a, x, 3), GLOFND_OK);
    assert_memory_equal(x, three, sizeof x);
    assert_int_equal(gf_st_read_f32(&err, &f, b, x, 2), GLOFND_OK);
    assert_true(x[0] == 7 && x[1] == -1);
    assert_int_equal(gf_st_read_f32(&err, &f, a, x, 2), GLOFND_E_ARGUMENT);
    assert_non_null(strstr(err.text, "3 elements, and 2 are asked for"));
    assert_int_equal(gf_st_read(&err, &f, b, y, 8), GLOFND_E_ARGUMENT);
    assert_int_equal(truncate(path_of("a"), GOLDEN - 1), 0);
    assert_int_equal(gf_st_read_f32(&err, &f, a, x, 3), GLOFND_E_IO);
    assert_non_null(strstr(err.text, "cut meanwhile"));
    gf_st_close(&f);
    gf_st_close(&f);
    gf_st_close(NULL);
    unlink(path_of("a"));
}

/* Scalars, empty tensors side by side, one more axis than anybody needs, odd sizes that leave later data unaligned. */
TEST(odd_shapes_come_back) {
    const unsigned char raw[64] = {1, 0, 2, 0, 3};
    const gf_st_tensor odd[] = {
        {.name = "one \"byte\"", .type = GF_ST_U8, .rank = 0, .data = raw},
        {.name = "none", .type = GF_ST_F64, .rank = 3, .shape = {2, 0, INT64_MAX / 16}},
        {.name = "none2", .type = GF_ST_F32, .rank = 1, .shape = {0}},
        {.name = "", .type = GF_ST_F32, .rank = 8, .shape = {1, 1, 1, 2, 1, 1, 1, 1}, .data = raw},
        {.name = "\xe2\x82\xac", .type = GF_ST_I32, .rank = 1, .shape = {2}, .data = raw},
    };
    gf_error err = {""};
    assert_int_equal(gf_st_write(&err, path_of("a"), odd, 5, NULL, 0), GLOFND_OK);
    gf_st_file f = open_file();
    assert_int_equal(f.count, 5);
    for (int i = 0; i < 5; i++) {
        unsigned char got[64] = {0};
        const gf_st_tensor *t = gf_st_find(&f, odd[i].name);
        assert_non_null(t);
        assert_int_equal(t->type, odd[i].type);
        assert_int_equal(t->rank, odd[i].rank);
        for (int k = 0; k < t->rank; k++) assert_int_equal(t->shape[k], odd[i].shape[k]);
        const size_t bytes = (size_t)t->count * gf_st_type_bytes(t->type);
        assert_int_equal(bytes, ((size_t[]){1, 0, 0, 8, 8})[i]);
        assert_int_equal(gf_st_read(&err, &f, t, got, bytes), GLOFND_OK);
        assert_memory_equal(got, raw, bytes);
    }
    gf_st_close(&f);
    assert_int_equal(gf_st_write(&err, path_of("a"), NULL, 0, NULL, 0), GLOFND_OK);
    f = open_file();
    assert_int_equal(f.count, 0);
    assert_null(gf_st_find(&f, "a"));
    gf_st_close(&f);
    unlink(path_of("a"));
}

/* ----- conversion ------------------------------------------------------------------------------------------------ */

static void read_as_float(gf_st_type type, const void *data, int64_t n, float *out) {
    gf_error err = {""};
    const gf_st_tensor t = {.name = "t", .type = type, .rank = 1, .shape = {n}, .data = data};
    assert_int_equal(gf_st_write(&err, path_of("a"), &t, 1, NULL, 0), GLOFND_OK);
    gf_st_file f = open_file();
    assert_int_equal(gf_st_read_f32(&err, &f, gf_st_find(&f, "t"), out, n), GLOFND_OK);
    gf_st_close(&f);
    unlink(path_of("a"));
}

static void same_float(float got, double expected, unsigned of) {
    const float rounded = (float)expected;
    if (isnan(expected) ? !isnan(got) : got != rounded || signbit(got) != signbit(rounded))
        fail_msg("%#x reads as %.9g instead of %.9g", of, (double)got, expected);
}

/* All 65536 of both kinds, against the definition. */
TEST(every_half_converts) {
    enum { ALL = 65536 };
    uint16_t *halves = malloc(ALL * sizeof *halves);
    float *out = malloc(ALL * sizeof *out);
    assert_true(halves && out);
    for (unsigned h = 0; h < ALL; h++) halves[h] = (uint16_t)h;
    read_as_float(GF_ST_F16, halves, ALL, out);
    for (unsigned h = 0; h < ALL; h++) {
        const int exponent = h >> 10 & 31, fraction = h & 1023;
        const double size = exponent == 31 ? (double)(fraction ? NAN : INFINITY)
                                           : ldexp(exponent ? 1024 + fraction : fraction, (exponent ? exponent : 1) - 25);
        same_float(out[h], h >> 15 ? -size : size, h);
    }
    read_as_float(GF_ST_BF16, halves, ALL, out);
    for (unsigned h = 0; h < ALL; h++) {
        const int exponent = h >> 7 & 255, fraction = h & 127;
        const double size = exponent == 255 ? (double)(fraction ? NAN : INFINITY)
                                            : ldexp(exponent ? 128 + fraction : fraction, (exponent ? exponent : 1) - 134);
        same_float(out[h], h >> 15 ? -size : size, h);
    }
    free(halves);
    free(out);
}

TEST(numbers_convert) {
    const double f64[] = {0.1, -1e300, 1e-300, (double)NAN, -0.0};
    const int64_t i64[] = {INT64_MIN, INT64_MAX, 16777217, 0, -5};
    const int32_t i32[] = {INT32_MIN, INT32_MAX, -16777217, 0, 5};
    const int8_t i8[] = {-128, 127, -1, 0, 1};
    const uint8_t u8[] = {0, 1, 127, 128, 255};
    float out[5];
    read_as_float(GF_ST_F64, f64, 5, out);
    assert_true(out[0] == 0.1f && out[1] == -INFINITY && out[2] == 0 && isnan(out[3]) && out[4] == 0 && signbit(out[4]));
    read_as_float(GF_ST_I64, i64, 5, out);
    assert_true(out[0] == -0x1p63f && out[1] == 0x1p63f && out[2] == 16777216.0f && out[3] == 0 && out[4] == -5);
    read_as_float(GF_ST_I32, i32, 5, out);
    assert_true(out[0] == -0x1p31f && out[1] == 0x1p31f && out[2] == -16777216.0f && out[3] == 0 && out[4] == 5);
    read_as_float(GF_ST_I8, i8, 5, out);
    assert_true(out[0] == -128 && out[1] == 127 && out[2] == -1 && out[3] == 0 && out[4] == 1);
    read_as_float(GF_ST_U8, u8, 5, out);
    assert_true(out[0] == 0 && out[1] == 1 && out[2] == 127 && out[3] == 128 && out[4] == 255);
    read_as_float(GF_ST_BOOL, u8, 5, out);
    assert_true(out[0] == 0 && out[1] == 1 && out[2] == 1 && out[3] == 1 && out[4] == 1);
}

/* ----- with Python ----------------------------------------------------------------------------------------------- */

enum { SAMPLES = 9 };
static const unsigned char sample_raw[48] = {0, 1,  0,  1,  1,  0x3c, 0,  0xbc, 0x80, 0x3f, 2,  0x40, 3,  0xc0, 5,  0x3f,
                                             7, 0,  0,  0,  0,  0,    0,  0,    1,    2,    3,  4,    5,  6,    7,  8,
                                             9, 10, 11, 12, 13, 14,   15, 16,   17,   18,   19, 20,   21, 22,   23, 24};

static void make_samples(gf_st_tensor t[SAMPLES]) {
    for (int k = 0; k < SAMPLES; k++) {
        t[k] = (gf_st_tensor){.name = gf_st_type_name((gf_st_type)k), .type = (gf_st_type)k, .rank = 2, .shape = {2, 3}};
        t[k].data = sample_raw;
    }
    t[GF_ST_BOOL].shape[0] = 1; /* only the first bytes are all 0 and 1; and all after it is unaligned */
}

static int write_samples(const char *path) {
    gf_st_tensor t[SAMPLES];
    const gf_st_text texts[] = {{"format", "pt"}, {"quote \"\\\n", "\xe2\x82\xac"}};
    gf_error err = {""};
    make_samples(t);
    const gf_st_tensor first = t[0];
    t[0] = t[GF_ST_BOOL];
    t[GF_ST_BOOL] = first;
    if (gf_st_write(&err, path, t, SAMPLES, texts, 2) == GLOFND_OK) return 0;
    return fprintf(stderr, "%s\n", err.text), 1;
}

static int check_samples(const char *path) {
    gf_st_tensor expected[SAMPLES];
    gf_st_file f = {0};
    gf_error err = {""};
    int failures = 0;
    make_samples(expected);
    if (gf_st_open(&err, path, &f) != GLOFND_OK) return fprintf(stderr, "%s\n", err.text), 1;
    for (int k = 0; k < SAMPLES; k++) {
        unsigned char got[48];
        const gf_st_tensor *e = &expected[k], *t = gf_st_find(&f, e->name);
        const size_t bytes = (size_t)(e->shape[0] * e->shape[1]) * gf_st_type_bytes(e->type);
        const int same = t && t->type == e->type && t->rank == 2 && t->shape[0] == e->shape[0] && t->shape[1] == e->shape[1] &&
                         gf_st_read(&err, &f, t, got, bytes) == GLOFND_OK && memcmp(got, sample_raw, bytes) == 0;
        if (!same) fprintf(stderr, "%s differs\n", e->name);
        failures += !same;
    }
    const char *text = gf_st_find_text(&f, "quote \"\\\n");
    failures += !text || strcmp(text, "\xe2\x82\xac") != 0 || f.text_count != 2 || f.count != SAMPLES;
    gf_st_close(&f);
    return failures;
}

TEST_GROUP(make_box, remove_empty_box)

/* For tests/sh/safetensors.sh. */
static int write_or_check(int argc, char **argv) {
    if (argc != 3) return -1;
    return strcmp(argv[1], "write") == 0 ? write_samples(argv[2]) : strcmp(argv[1], "check") == 0 ? check_samples(argv[2]) : -1;
}

TEST_COMMAND(write_or_check)
