/* unit_npy.c - .npy files: round trips, headers as NumPy writes them, and damaged ones. Damaged input must give a status and a
 * message that names the file, and leave the output alone. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "support/test.h"

#include "io/npy.h"
#include "support/scratch.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A file image: prefix of `version`, text header, `data_bytes` bytes 0, 1, 2, ... */
typedef struct image {
    unsigned char bytes[4096];
    size_t size;
} image;

static image make_image(int version, const char *text, size_t data_bytes) {
    image m = {.bytes = {0x93, 'N', 'U', 'M', 'P', 'Y', (unsigned char)version, 0}};
    const size_t length = strlen(text), start = version == 1 ? 10 : 12;
    assert_true(start + length + data_bytes <= sizeof m.bytes);
    m.bytes[8] = (unsigned char)(length & 255);
    m.bytes[9] = (unsigned char)(length >> 8);
    memcpy(m.bytes + start, text, length);
    for (size_t i = 0; i < data_bytes; i++) m.bytes[start + length + i] = (unsigned char)i;
    m.size = start + length + data_bytes;
    return m;
}

static void refused(const image *m, glofnd_status status, const char *word) {
    gf_error err = {""};
    gf_npy a = {.rank = 77};
    const glofnd_status got = gf_npy_decode(&err, "some.npy", m->bytes, m->size, &a);
    if (got != status || !strstr(err.text, word) || !strstr(err.text, "some.npy"))
        fail_msg("status %d, message '%s'; expected status %d and the word '%s'", got, err.text, status, word);
    assert_int_equal(a.rank, 77);
    assert_null(a.data);
}

static void refused_text(const char *text, const char *word) {
    const image m = make_image(1, text, 24);
    refused(&m, GLOFND_E_FORMAT, word);
}

/* ----- round trips ---------------------------------------------------------------------------------------------- */

static void round_trip(gf_npy_type type, int rank, const int64_t *shape) {
    unsigned char data[8 * 24];
    gf_npy a = {.type = type, .rank = rank, .data = data}, b = {0};
    gf_error err = {""};
    int64_t count = 1;
    for (int k = 0; k < rank; k++) a.shape[k] = shape[k], count *= shape[k];
    for (size_t i = 0; i < sizeof data; i++) data[i] = (unsigned char)(37 * i + 11);
    assert_int_equal(gf_npy_write(&err, path_of("a.npy"), &a), GLOFND_OK);
    assert_int_equal(gf_npy_read(&err, path_of("a.npy"), &b), GLOFND_OK);
    assert_int_equal(b.type, type);
    assert_int_equal(b.rank, rank);
    assert_int_equal(b.count, count);
    for (int k = 0; k < rank; k++) assert_int_equal(b.shape[k], shape[k]);
    assert_memory_equal(b.data, data, (size_t)count * gf_npy_type_bytes(type));
    gf_npy_free(&b);
    assert_null(b.data);
    gf_npy_free(&b);
    gf_npy_free(NULL);
    unlink(path_of("a.npy"));
}

TEST(writes_and_reads_back) {
    const gf_npy_type types[] = {GF_NPY_F4, GF_NPY_F8, GF_NPY_I8, GF_NPY_I4, GF_NPY_U1};
    const int64_t plain[] = {2, 3, 4}, empty[] = {3, 0}, ones[] = {1, 1, 1, 1, 1, 1, 2, 3};
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        round_trip(types[i], 3, plain);
        round_trip(types[i], 1, plain);
        round_trip(types[i], 0, NULL);
        round_trip(types[i], 2, empty);
        round_trip(types[i], 8, ones);
    }
}

/* The exact bytes NumPy 1.x and 2.x write for numpy.arange(3, dtype='<i4'). */
TEST(writes_what_numpy_writes) {
    static const char head[] = "\x93NUMPY\x01\x00v\x00{'descr': '<i4', 'fortran_order': False, 'shape': (3,), }";
    const int32_t data[3] = {0, 1, 2};
    const gf_npy a = {.type = GF_NPY_I4, .rank = 1, .shape = {3}, .data = (void *)data};
    unsigned char got[256];
    assert_int_equal(gf_npy_write(NULL, path_of("a.npy"), &a), GLOFND_OK);
    FILE *f = fopen(path_of("a.npy"), "rb");
    assert_non_null(f);
    assert_int_equal(fread(got, 1, sizeof got, f), 128 + 12);
    fclose(f);
    assert_memory_equal(got, head, sizeof head - 1);
    for (size_t i = sizeof head - 1; i < 127; i++) assert_int_equal(got[i], ' ');
    assert_int_equal(got[127], '\n');
    assert_memory_equal(got + 128, data, sizeof data);
    unlink(path_of("a.npy"));
}

static void fill_numbers(const void *arg, int64_t first, int64_t rows, void *to) {
    const int64_t width = *(const int64_t *)arg;
    for (int64_t i = 0; i < rows * width; i++) ((int32_t *)to)[i] = (int32_t)(3 * (first * width + i) + 1);
}

/* Rows that are made while they are written, in several pieces: the array that was meant. */
TEST(writes_rows_as_they_are_made) {
    static const int64_t shapes[][2] = {{0, 3}, {1, 1}, {7, 0}, {500000, 5}, {3, 2000000}}; /* pieces have 4 MB */
    for (size_t k = 0; k < sizeof shapes / sizeof *shapes; k++) {
        const gf_npy a = {.type = GF_NPY_I4, .rank = 2, .shape = {shapes[k][0], shapes[k][1]}}, number = {.type = GF_NPY_I4};
        gf_npy b = {0};
        assert_int_equal(gf_npy_write_rows(NULL, path_of("a.npy"), &a, fill_numbers, &shapes[k][1]), GLOFND_OK);
        assert_int_equal(gf_npy_read(NULL, path_of("a.npy"), &b), GLOFND_OK);
        assert_int_equal(b.shape[0], shapes[k][0]);
        assert_int_equal(b.shape[1], shapes[k][1]);
        for (int64_t i = 0; i < b.count; i++) assert_int_equal(((const int32_t *)b.data)[i], 3 * i + 1);
        gf_npy_free(&b);
        assert_int_equal(gf_npy_write_rows(NULL, path_of("a.npy"), &number, fill_numbers, &shapes[k][1]), GLOFND_E_ARGUMENT);
        assert_int_equal(gf_npy_write_rows(NULL, path_of("missing/a.npy"), &a, fill_numbers, &shapes[k][1]), GLOFND_E_IO);
    }
}

TEST(header_fits_the_longest_shape) {
    unsigned char none = 0;
    gf_npy a = {.type = GF_NPY_U1, .rank = 8, .data = &none}, b = {0};
    for (int k = 1; k < 8; k++) a.shape[k] = INT64_MAX;
    a.shape[0] = 0;
    assert_int_equal(gf_npy_write(NULL, path_of("a.npy"), &a), GLOFND_E_ARGUMENT); /* the rest overflows */
    for (int k = 2; k < 8; k++) a.shape[k] = 1;
    gf_error err = {""};
    assert_int_equal(gf_npy_write(&err, path_of("a.npy"), &a), GLOFND_OK);
    assert_int_equal(gf_npy_read(&err, path_of("a.npy"), &b), GLOFND_OK);
    assert_int_equal(b.shape[1], INT64_MAX);
    assert_int_equal(b.count, 0);
    gf_npy_free(&b);
    unlink(path_of("a.npy"));
}

TEST(refuses_to_write_nonsense) {
    float x = 0;
    const gf_npy half = {.type = GF_NPY_F2, .rank = 0, .data = &x}, deep = {.type = GF_NPY_F4, .rank = 9, .data = &x};
    const gf_npy negative = {.type = GF_NPY_F4, .rank = 1, .shape = {-1}, .data = &x};
    const gf_npy no_data = {.type = GF_NPY_F4, .rank = 1, .shape = {1}}, good = {.type = GF_NPY_F4, .rank = 0, .data = &x};
    assert_int_equal(gf_npy_write(NULL, path_of("a.npy"), &half), GLOFND_E_ARGUMENT);
    assert_int_equal(gf_npy_write(NULL, path_of("a.npy"), &deep), GLOFND_E_ARGUMENT);
    assert_int_equal(gf_npy_write(NULL, path_of("a.npy"), &negative), GLOFND_E_ARGUMENT);
    assert_int_equal(gf_npy_write(NULL, path_of("a.npy"), &no_data), GLOFND_E_ARGUMENT);
    assert_int_equal(gf_npy_write(NULL, NULL, &good), GLOFND_E_ARGUMENT);
    assert_int_equal(gf_npy_write(NULL, path_of("missing/a.npy"), &good), GLOFND_E_IO);
    assert_int_equal(access(path_of("a.npy"), F_OK), -1);
}

/* ----- elements ------------------------------------------------------------------------------------------------- */

TEST(converts_half_precision) {
    const struct {
        uint16_t bits;
        double value;
    } known[] = {{0x3c00, 1.0},      {0xc000, -2.0},           {0x7bff, 65504.0},        {0x0001, 0x1p-24},
                 {0x0400, 0x1p-14},  {0x03ff, 1023 * 0x1p-24}, {0x3555, 0.333251953125}, {0x8000, -0.0},
                 {0x7c00, INFINITY}, {0xfc00, -INFINITY}};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        const gf_npy a = {.type = GF_NPY_F2, .count = 1, .data = (void *)&known[i].bits};
        assert_true(gf_npy_f64(&a, 0) == known[i].value);
    }
    const uint16_t nan_bits = 0x7e01;
    const gf_npy a = {.type = GF_NPY_F2, .count = 1, .data = (void *)&nan_bits};
    assert_true(isnan(gf_npy_f64(&a, 0)));
    assert_int_equal(gf_npy_i64(&a, 0), 0);
}

TEST(converts_elements) {
    const int64_t big[2] = {INT64_MIN, INT64_C(9007199254740993)};
    const uint8_t byte = 200;
    const double real[2] = {-3.7, 1e300};
    const gf_npy a = {.type = GF_NPY_I8, .data = (void *)big}, b = {.type = GF_NPY_U1, .data = (void *)&byte};
    const gf_npy c = {.type = GF_NPY_F8, .data = (void *)real};
    assert_true(gf_npy_i64(&a, 0) == INT64_MIN && gf_npy_i64(&a, 1) == big[1]); /* not by way of double */
    assert_true(gf_npy_i64(&b, 0) == 200 && gf_npy_f64(&b, 0) == 200.0);
    assert_true(gf_npy_i64(&c, 0) == -3 && gf_npy_i64(&c, 1) == 0);
}

/* ----- headers -------------------------------------------------------------------------------------------------- */

TEST(accepts_all_versions_and_spellings) {
    static const char *const texts[] = {"{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }          \n",
                                        "{\"shape\":(2,3,),\"fortran_order\":False,\"descr\":\"<f4\"}",
                                        " { 'fortran_order' : False , 'descr' : '<f4' , 'shape' : ( 2L , 3L ) } "};
    for (int version = 1; version <= 3; version++) {
        for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
            const image m = make_image(version, texts[i], 24);
            gf_error err = {""};
            gf_npy a = {0};
            if (gf_npy_decode(&err, "m", m.bytes, m.size, &a) != GLOFND_OK) fail_msg("version %d: %s", version, err.text);
            assert_true(a.type == GF_NPY_F4 && a.rank == 2 && a.shape[0] == 2 && a.shape[1] == 3 && a.count == 6);
            assert_int_equal(((unsigned char *)a.data)[23], 23);
            gf_npy_free(&a);
        }
    }
}

TEST(refuses_bad_prefixes) {
    const char *text = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }";
    image m = make_image(1, text, 24);
    m.bytes[1] = 'M';
    refused(&m, GLOFND_E_FORMAT, "not a .npy file");
    m = make_image(1, text, 24);
    m.bytes[6] = 4;
    refused(&m, GLOFND_E_FORMAT, "version 4.0");
    m = make_image(2, text, 24);
    m.bytes[10] = 1; /* header length 65536 + ... */
    refused(&m, GLOFND_E_FORMAT, "at most 65535");
    m = make_image(1, text, 0);
    m.bytes[9] = 16;
    refused(&m, GLOFND_E_FORMAT, "cut");
}

/* Bytes 0, 1, 2 ...: element (i, j, k) of a Fortran array [2][3][2] is number i + 2 j + 6 k. */
TEST(reads_either_order) {
    gf_error err = {""};
    gf_npy a = {0};
    const image fortran = make_image(1, "{'descr': '|u1', 'fortran_order': True, 'shape': (2, 3, 2)}", 12);
    assert_int_equal(gf_npy_decode(&err, "some.npy", fortran.bytes, fortran.size, &a), GLOFND_OK);
    for (int64_t i = 0; i < 12; i++) assert_int_equal(gf_npy_i64(&a, i), i / 6 + i / 2 % 3 * 2 + i % 2 * 6);
    assert_int_equal(a.fortran, 0);
    gf_npy_free(&a);
    const image big = make_image(1, "{'descr': '>i4', 'fortran_order': True, 'shape': (2, 1)}", 8);
    assert_int_equal(gf_npy_decode(&err, "some.npy", big.bytes, big.size, &a), GLOFND_OK);
    assert_int_equal(gf_npy_i64(&a, 0), 0x00010203);
    assert_int_equal(gf_npy_i64(&a, 1), 0x04050607);
    gf_npy_free(&a);
}

TEST(refuses_bad_texts) {
    refused_text("{'descr': '>f3', 'fortran_order': False, 'shape': (2, 3)}", ">f3");
    refused_text("{'descr': '>u1', 'fortran_order': False, 'shape': (2, 3)}", ">u1");
    refused_text("{'descr': '<c8', 'fortran_order': False, 'shape': (2, 3)}", "<c8");
    refused_text("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (6,)}", "structured");
    refused_text("{'descr': '<f4', 'fortran_order': 0, 'shape': (2, 3)}", "fortran_order");
    refused_text("{'descr': '<f4', 'fortran_order': False, 'shape': (2, -3)}", "integers");
    refused_text("{'descr': '<f4', 'fortran_order': False, 'shape': (2 3)}", "','");
    refused_text("{'descr': '<f4', 'fortran_order': False, 'shape': (6)}", "tuple");
    refused_text("{'descr': '<f4', 'fortran_order': False, 'shape': 6}", "'('");
    refused_text("{'descr': '<f4', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,6)}", "more than 8 axes");
    refused_text("{'descr': '<f4', 'fortran_order': False, 'shape': (9223372036854775808,)}", "63 bits");
    refused_text("{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296)}", "63 bits");
    refused_text("{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904,)}", "63 bits");
    refused_text("{'descr': '<f4', 'fortran_order': False}", "'shape' is missing");
    refused_text("{'descr': '<f4', 'shape': (6,)}", "'fortran_order' is missing");
    refused_text("{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (6,)}", "twice");
    refused_text("{'descr': '<f4', 'fortran_order': False, 'shape': (6,), 'extra': 1}", "extra");
    refused_text("{'descr': '<f4', 'fortran_order': False, 'shape': (6,)} x", "after the closing brace");
    refused_text("{'descr': '<f4' 'fortran_order': False, 'shape': (6,)}", "','");
    refused_text("{'descr': '<f4", "does not end");
    refused_text("{'descr' '<f4'}", "':'");
    refused_text("", "'{'");
}

TEST(refuses_wrong_sizes_before_allocating) {
    image m = make_image(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3)}", 23);
    refused(&m, GLOFND_E_FORMAT, "cut");
    m = make_image(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3)}", 25);
    refused(&m, GLOFND_E_FORMAT, "1 bytes after");
    m = make_image(1, "{'descr': '<f8', 'fortran_order': False, 'shape': (1152921504606846975,)}", 24);
    refused(&m, GLOFND_E_FORMAT, "cut"); /* 8 EiB promised: no allocation may be tried */
}

/* Decodes a heap copy of the exact size, so that the address sanitizer sees a read one byte too far. */
static void refused_exactly(const image *m) {
    unsigned char *copy = malloc(m->size ? m->size : 1);
    gf_npy a = {0};
    assert_non_null(copy);
    memcpy(copy, m->bytes, m->size);
    assert_int_equal(gf_npy_decode(NULL, "m", copy, m->size, &a), GLOFND_E_FORMAT);
    free(copy);
}

/* A good file cut at every length, and with every single byte changed: never a crash, never a read past the end (run under the
 * address sanitizer), and a cut file is never accepted. */
TEST(survives_cuts_and_flips) {
    static const char text[] = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }";
    const image good = make_image(1, text, 24);
    for (size_t n = 0; n < good.size; n++) {
        image m = good;
        m.size = n;
        refused_exactly(&m);
    }
    for (size_t n = 0; n < sizeof text - 1; n++) { /* the text itself ends early, and nothing follows */
        char part[sizeof text];
        memcpy(part, text, n);
        part[n] = 0;
        const image m = make_image(1, part, 0);
        refused_exactly(&m);
    }
    for (size_t n = 0; n < good.size; n++) {
        for (int bit = 0; bit < 8; bit++) {
            image m = good;
            gf_npy a = {0};
            m.bytes[n] ^= (unsigned char)(1 << bit);
            if (gf_npy_decode(NULL, "m", m.bytes, m.size, &a) == GLOFND_OK) gf_npy_free(&a);
        }
    }
}

/* ----- files ---------------------------------------------------------------------------------------------------- */

static void refused_file(const char *path, const char *word) {
    gf_error err = {""};
    gf_npy a = {.rank = 77};
    assert_int_equal(gf_npy_read(&err, path, &a), GLOFND_E_IO);
    if (!strstr(err.text, word) || !strstr(err.text, path)) fail_msg("message '%s'", err.text);
    assert_int_equal(a.rank, 77);
}

TEST(refuses_what_is_no_file) {
    refused_file(path_of("absent.npy"), "cannot be opened");
    refused_file(box.folder, "regular file");
    assert_int_equal(mkfifo(path_of("pipe"), 0600), 0);
    refused_file(path_of("pipe"), "regular file");
    unlink(path_of("pipe"));
    assert_int_equal(gf_npy_read(NULL, NULL, &(gf_npy){0}), GLOFND_E_ARGUMENT);
}

TEST(reads_cut_files_as_damaged) {
    const image good = make_image(2, "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }\n", 24);
    for (size_t n = 0; n <= good.size; n++) {
        FILE *f = fopen(path_of("cut.npy"), "wb");
        gf_npy a = {0};
        assert_non_null(f);
        assert_int_equal(fwrite(good.bytes, 1, n, f), n);
        fclose(f);
        assert_int_equal(gf_npy_read(NULL, path_of("cut.npy"), &a), n == good.size ? GLOFND_OK : GLOFND_E_FORMAT);
        gf_npy_free(&a);
    }
    unlink(path_of("cut.npy"));
}

TEST_GROUP(make_box, remove_empty_box)
