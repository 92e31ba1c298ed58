/* fuzz_parquet.c - hostile Parquet files: libFuzzer target of the footer, the pages and all codecs. The first byte chooses: the
 * bytes as they are, or with the length of the footer and both magics put right, so that the code behind them is reached. What is
 * refused must be refused with a text that names the file. */
#include <stdlib.h>
#include <string.h>

#include "fuzz/mutate.h"
#include "io/parquet.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(glofnd_status status, const gf_error *err) {
    if (status != GLOFND_OK && status != GLOFND_E_MEMORY && !strstr(err->text, "fuzz")) abort();
}

/* Rows as the caller of the reader takes them: some at a time, never more than the memory at hand. */
static void read_lists(const gf_parquet *f, int64_t leaf) {
    enum { FLOATS = 1 << 12 };
    static float x[FLOATS];
    gf_error err = {""};
    gf_parquet_cursor c;
    int64_t dim = 0;
    glofnd_status status = gf_parquet_list_length(&err, f, leaf, &dim);
    check(status, &err);
    if (status != GLOFND_OK || dim < 1 || dim > FLOATS) return;
    gf_parquet_cursor_init(&c, f, leaf);
    const int64_t some = FLOATS / dim;
    for (int64_t row = 0; row < f->rows && row < 64 * some && status == GLOFND_OK; row += some)
        status = gf_parquet_floats(&err, &c, some < f->rows - row ? some : f->rows - row, dim, x);
    check(status, &err);
    check(gf_parquet_seek(&err, &c, f->rows / 2 < 1000 ? f->rows / 2 : 1000), &err);
    gf_parquet_cursor_free(&c);
}

static void read_texts(const gf_parquet *f, int64_t leaf) {
    gf_error err = {""};
    gf_parquet_cursor c;
    gf_string_list list = {0};
    gf_parquet_cursor_init(&c, f, leaf);
    check(gf_parquet_texts(&err, &c, f->rows < 1000 ? f->rows : 1000, &list), &err);
    gf_string_list_free(&list);
    gf_parquet_cursor_free(&c);
}

static void read_file(const uint8_t *data, size_t size) {
    gf_error err = {""};
    gf_parquet f;
    const glofnd_status status = gf_parquet_open_bytes(&err, "fuzz", data, size, &f);
    check(status, &err);
    if (status != GLOFND_OK) return;
    for (int64_t leaf = 0; leaf < f.leaves && leaf < 8; leaf++) {
        read_lists(&f, leaf);
        read_texts(&f, leaf);
    }
    gf_parquet_close(&f);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 16) return 0;
    if (data[0] != 'F') {
        read_file(data, size);
        return 0;
    }
    /* 'F', two bytes: length of the footer */
    const size_t n = size - 3, room = n - 8, length = ((size_t)data[1] | (size_t)data[2] << 8) % (room + 1);
    uint8_t *copy = malloc(n);
    if (!copy) return 0;
    memcpy(copy, data + 3, n);
    for (int k = 0; k < 4; k++) copy[n - 8 + (size_t)k] = (uint8_t)(length >> 8 * k);
    memcpy(copy + n - 4, "PAR1", 4);
    read_file(copy, n);
    free(copy);
    return 0;
}

/* Half of the time a byte of a varint changes by little, which keeps the structure; the rest is libFuzzer's. */
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed) {
    dice d = {seed};
    if (size < 32 || roll(&d, 2)) return LLVMFuzzerMutate(data, size, max_size);
    for (uint32_t k = 0, times = 1 + roll(&d, 3); k < times; k++) {
        const size_t tail = size < 2000 ? size : 2000, at = size - 1 - roll(&d, (uint32_t)tail);
        data[at] = (uint8_t)(roll(&d, 2) ? data[at] + (int)roll(&d, 9) - 4 : (int)odd_number(&d));
    }
    return size;
}
