/* fuzz_safetensors.c - hostile safetensors files: libFuzzer target for gf_st_open and the reads.
 *
 * The first byte chooses: unchanged, or with the length of the header corrected, so that the code behind it is reached. A file
 * that opens must hold what it promises: every tensor reads, and what was read, written again, opens with the same tensors. The
 * mutator writes headers of tensors whose shapes and offsets fit or nearly fit.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fuzz/mutate.h"
#include "io/blockfile.h"
#include "io/safetensors.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void same_tensors(const gf_st_file *a, const gf_st_file *b) {
    if (a->count != b->count || a->text_count != b->text_count) abort();
    for (int64_t i = 0; i < a->count; i++) {
        const gf_st_tensor *t = &a->tensors[i], *u = gf_st_find(b, t->name);
        if (!u || u->type != t->type || u->rank != t->rank || u->count != t->count) abort();
        if (memcmp(u->shape, t->shape, sizeof t->shape) != 0) abort();
    }
    for (int64_t i = 0; i < a->text_count; i++) {
        const char *text = gf_st_find_text(b, a->texts[i].key);
        if (!text || strcmp(text, a->texts[i].text) != 0) abort();
    }
}

/* Reads all tensors of f, raw and as floats, and writes them to `again`. */
static void copy_file(const gf_st_file *f, const char *again) {
    gf_error err = {""};
    gf_st_tensor *copy = calloc((size_t)f->count + 1, sizeof *copy);
    if (!copy) abort();
    for (int64_t i = 0; i < f->count; i++) {
        copy[i] = f->tensors[i];
        const size_t bytes = (size_t)copy[i].count * gf_st_type_bytes(copy[i].type);
        void *raw = malloc(bytes + 1);
        float *values = malloc((size_t)copy[i].count * sizeof *values + 1);
        if (!raw || !values || gf_st_read(&err, f, &copy[i], raw, bytes) != GLOFND_OK) abort();
        if (gf_st_read_f32(&err, f, &copy[i], values, copy[i].count) != GLOFND_OK) abort();
        free(values);
        copy[i].data = raw;
    }
    if (gf_st_write(&err, again, copy, f->count, f->texts, f->text_count) != GLOFND_OK) {
        fprintf(stderr, "%s\n", err.text);
        abort();
    }
    for (int64_t i = 0; i < f->count; i++) free((void *)copy[i].data);
    free(copy);
}

static int make_input(const uint8_t *data, size_t size) {
    static int fd = -1;
    unsigned char prefix[8];
    if (fd < 0) fd = memfd_create("safetensors", 0);
    if (ftruncate(fd, 0) != 0 || pwrite(fd, data + 1, size - 1, 0) != (ssize_t)(size - 1)) abort();
    if (data[0] & 1 && size > 9) {
        const unsigned char *end = memrchr(data + 9, '}', size - 9);
        gf_le64_put(prefix, end ? (uint64_t)(end - (data + 9)) + 1 : 0);
        if (pwrite(fd, prefix, sizeof prefix, 0) != (ssize_t)sizeof prefix) abort();
    }
    return fd;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char path[64], again[64];
    gf_error err = {""};
    gf_st_file f = {0}, g = {0};
    if (size < 1) return 0;
    snprintf(path, sizeof path, "/proc/self/fd/%d", make_input(data, size));
    snprintf(again, sizeof again, "/dev/shm/fuzz-safetensors-%ld", (long)getpid());
    if (gf_st_open(&err, path, &f) != GLOFND_OK) {
        if (!strstr(err.text, path)) abort(); /* every refusal names the file */
        return 0;
    }
    copy_file(&f, again);
    if (gf_st_open(&err, again, &g) != GLOFND_OK) abort();
    same_tensors(&f, &g);
    gf_st_close(&f);
    gf_st_close(&g);
    unlink(again);
    return 0;
}

/* ----- mutation ----- */

static int64_t put_tensor(dice *d, char *out, size_t bytes, uint32_t i, int64_t at) {
    static const char *const types[] = {"F32", "F16", "BF16", "F64", "I64", "I32", "U8", "BOOL", "I8", "F8_E4M3", "X", ""};
    static const int widths[] = {4, 2, 2, 8, 8, 4, 1, 1, 1, 1, 1, 1};
    const uint32_t type = roll(d, sizeof types / sizeof *types), rank = roll(d, 8) ? roll(d, 3) : roll(d, 12);
    int64_t count = 1;
    size_t n = (size_t)snprintf(out, bytes, "%s\"t%u\": {\"dtype\": \"%s\", \"shape\": [", i ? ", " : "", roll(d, 9) ? i : 0,
                                types[type]);
    for (uint32_t k = 0; k < rank; k++) {
        const int64_t side = odd_number(d);
        count = side >= 0 && side < 20 && count < 1000 ? count * side : 1;
        n += (size_t)snprintf(out + n, bytes - n, "%s%lld", k ? ", " : "", (long long)side);
    }
    int64_t end = at + count * widths[type], begin = at;
    if (roll(d, 8) == 0) begin = odd_number(d);
    if (roll(d, 8) == 0) end = odd_number(d);
    snprintf(out + n, bytes - n, "], \"data_offsets\": [%lld, %lld]}", (long long)begin, (long long)end);
    return end >= at && end < 4000 ? end : at;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed) {
    dice d = {seed};
    char head[4096] = "{", one[600];
    int64_t at = 0;
    if (roll(&d, 3) == 0 || max_size < 9000) return LLVMFuzzerMutate(data, size, max_size);
    const uint32_t tensors = roll(&d, 5);
    for (uint32_t i = 0; i < tensors; i++) {
        at = put_tensor(&d, one, sizeof one, i, at);
        strcat(head, one);
    }
    if (roll(&d, 2)) strcat(head, tensors ? ", \"__metadata__\": {\"a\": \"b\"}" : "\"__metadata__\": {}");
    strcat(head, "}");
    const size_t n = strlen(head), body = (size_t)at + (roll(&d, 8) == 0);
    memset(data, 0, 9);
    data[0] = 1; /* the length is set by the target */
    memcpy(data + 9, head, n);
    memset(data + 9 + n, (int)roll(&d, 64), body);
    return roll(&d, 4) == 0 ? LLVMFuzzerMutate(data, 9 + n + body, max_size) : 9 + n + body;
}
