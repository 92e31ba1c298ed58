/* fuzz_config.c - libFuzzer target of configuration files. What is accepted and can be resolved is written, read again, and is
 * the same. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "run/config.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_again(const gf_config *c) {
    char path[64];
    gf_error err = {""};
    gf_config back;
    snprintf(path, sizeof path, "/dev/shm/fuzz-config-%ld", (long)getpid());
    if (gf_config_write(&err, c, path) != GLOFND_OK) abort();
    if (gf_config_init(&err, &back) != GLOFND_OK || gf_config_read(&err, &back, path) != GLOFND_OK) abort();
    const gf_option *o;
    int in_method;
    for (int i = 0; (o = gf_config_option(i, &in_method)); i++) {
        char a[2048], b[2048];
        gf_config_text(c, o->key, a, sizeof a);
        gf_config_text(&back, o->key, b, sizeof b);
        if (strcmp(a, b) != 0) abort();
    }
    unlink(path);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static int fd = -1;
    char path[64];
    gf_error err = {""};
    gf_config c;
    if (fd < 0) fd = memfd_create("config", 0);
    if (ftruncate(fd, 0) != 0 || pwrite(fd, data, size, 0) != (ssize_t)size) abort();
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (gf_config_init(&err, &c) != GLOFND_OK) abort();
    if (gf_config_read(&err, &c, path) != GLOFND_OK) {
        if (!strstr(err.text, path)) abort(); /* every refusal names the file */
        return 0;
    }
    if (gf_config_resolve(&err, &c) == GLOFND_OK) check_again(&c);
    else if (!err.text[0]) abort();
    return 0;
}
