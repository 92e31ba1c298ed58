/* scratch.c - see scratch.h. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "scratch.h"

#include <assert.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "image/image.h"

int scratch_make(scratch *s) {
    strcpy(s->folder, "/tmp/glofnd-test-XXXXXX");
    return mkdtemp(s->folder) ? 0 : -1;
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *where) {
    (void)st, (void)kind, (void)where;
    return remove(path);
}

int scratch_remove(scratch *s) { return nftw(s->folder, remove_one, 16, FTW_DEPTH | FTW_PHYS); }

scratch box;

int make_box(void **state) {
    (void)state;
    return scratch_make(&box);
}

int remove_box(void **state) {
    (void)state;
    return scratch_remove(&box);
}

int remove_empty_box(void **state) {
    (void)state;
    return rmdir(box.folder);
}

const char *path_of(const char *name) { return scratch_path(&box, name); }

const char *scratch_path(scratch *s, const char *name) {
    static char paths[4][512];
    static int turn;
    char *path = paths[turn++ % 4];
    const int n = snprintf(path, sizeof paths[0], "%s/%s", s->folder, name);
    assert(n > 0 && (size_t)n < sizeof paths[0]);
    (void)n;
    return path;
}

void scratch_write(scratch *s, const char *name, const void *bytes, size_t n) {
    char path[512];
    strcpy(path, scratch_path(s, name));
    for (char *p = path + strlen(s->folder) + 1; (p = strchr(p, '/')) != NULL; p++) {
        *p = 0;
        mkdir(path, 0777);
        *p = '/';
    }
    FILE *f = fopen(path, "wb");
    assert(f);
    const size_t done = n ? fwrite(bytes, 1, n, f) : 0;
    const int closed = fclose(f);
    assert(done == n && closed == 0);
    (void)done, (void)closed;
}

void scratch_text(scratch *s, const char *name, const char *text) { scratch_write(s, name, text, strlen(text)); }

void scratch_png(scratch *s, const char *name, int size, uint8_t gray) {
    gf_image m = {0};
    uint8_t *bytes = NULL;
    size_t n = 0;
    glofnd_status status = gf_image_resize(NULL, &m, size, size);
    assert(status == GLOFND_OK);
    memset(m.rgb, gray, (size_t)3 * (size_t)size * (size_t)size);
    status = gf_image_encode_png(NULL, &m, &bytes, &n);
    assert(status == GLOFND_OK);
    (void)status;
    scratch_write(s, name, bytes, n);
    free(bytes);
    gf_image_free(&m);
}
