/* fuzz_store.c - hostile anchor store files: libFuzzer target for glofnd_store_load.
 *
 * The first byte chooses: as it is, or with its checksums made right, so that what lies behind them is reached too. A file that
 * loads must save to the very bytes it was loaded from: equal stores give equal files, so anything else is a byte that was read
 * but not checked.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../tests/support/store_crcs.h"
#include "method/options.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void save_and_compare(glofnd_ctx *c, const glofnd_store *s, const unsigned char *file, size_t n) {
    char path[64];
    snprintf(path, sizeof path, "/dev/shm/fuzz-store-%ld", (long)getpid());
    if (glofnd_store_save(c, s, path) != GLOFND_OK) {
        fprintf(stderr, "%s\n", glofnd_ctx_error(c));
        abort();
    }
    FILE *f = fopen(path, "rb");
    unsigned char *again = malloc(n + 1);
    if (!f || !again || fread(again, 1, n + 1, f) != n || memcmp(again, file, n) != 0) abort();
    free(again);
    fclose(f);
    unlink(path);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static glofnd_ctx *c;
    static int fd = -1;
    char path[64];
    if (!c) {
        glofnd_options o;
        gf_method_options_init(&o);
        o.lambda_init = GLOFND_INIT_ONE;
        if (glofnd_ctx_create(&o, &c, NULL, 0) != GLOFND_OK) abort();
        fd = memfd_create("store", 0);
    }
    if (size < 1) return 0;
    const size_t n = size - 1;
    unsigned char *file = malloc(n + 1);
    if (!file) abort();
    memcpy(file, data + 1, n);
    if (data[0] & 1) {
        if (n >= AT_BODY && data[0] & 2) gf_le64_put(file + AT_FILE_BYTES, n);
        fix_store_crcs(file, n);
    }
    if (ftruncate(fd, 0) != 0 || pwrite(fd, file, n, 0) != (ssize_t)n) abort();
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    glofnd_store *s = NULL;
    const glofnd_status status = glofnd_store_load(c, path, NULL, &s);
    if ((status == GLOFND_OK) != (s != NULL)) abort();
    if (s) save_and_compare(c, s, file, n);
    glofnd_store_free(s);
    free(file);
    return 0;
}
