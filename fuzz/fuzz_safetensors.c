/* fuzz_safetensors.c - hostile safetensors files: libFuzzer target for gf_st_open and the reads.
 *
 * The first byte chooses: unchanged, or with the length of the header corrected, so that the code behind it is reached. A file
 * that opens must hold what it promises: every tensor reads, and what was read, written again, opens with the same tensors.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "io/blockfile.h"
#include "io/json/safetensors.h"

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
