/* fuzz_torch.c - libFuzzer target of the reader of files of torch.save. What opens can be read: every tensor lies in the file.
 *
 * The first byte chooses: the rest is the file; or it is the pickle, behind it up to 64 bytes of a storage, of a sound archive,
 * so that the code behind the archive is reached. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "torch/torch_file.h"
#include "tests/support/torch_writer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int make_input(const uint8_t *data, size_t size) {
    static int fd = -1;
    static archive a;
    if (fd < 0) fd = memfd_create("torch", 0);
    if (data[0] & 1 && size < sizeof a.file.bytes / 2) {
        const size_t storage = size - 1 < 64 ? 0 : 64;
        a.file.n = a.table.n = 0, a.count = 0, a.zip64 = data[0] >> 1 & 1;
        store(&a, "x/data.pkl", data + 1, size - 1 - storage);
        store(&a, "x/data/0", data + size - storage, storage);
        finish(&a);
        data = a.file.bytes, size = a.file.n;
    } else {
        data++, size--;
    }
    if (ftruncate(fd, 0) != 0 || pwrite(fd, data, size, 0) != (ssize_t)size) abort();
    return fd;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char path[64];
    gf_error err = {""};
    gf_st_file f = {0};
    if (size < 1) return 0;
    snprintf(path, sizeof path, "/proc/self/fd/%d", make_input(data, size));
    if (gf_torch_open(&err, path, &f) != GLOFND_OK) {
        if (!strstr(err.text, path)) abort(); /* every refusal names the file */
        return 0;
    }
    for (int64_t i = 0; i < f.count; i++) {
        const gf_st_tensor *t = &f.tensors[i];
        if (gf_st_find(&f, t->name) != t) abort(); /* names are different */
        if (t->count > 1 << 16) continue;          /* strides of 0 */
        float *x = malloc(sizeof *x * (size_t)t->count + 1);
        if (!x || gf_st_read_f32(&err, &f, t, x, t->count) != GLOFND_OK) abort();
        free(x);
    }
    gf_st_close(&f);
    return 0;
}
