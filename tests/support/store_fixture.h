/* store_fixture.h - what the tests of the anchor store share: a context, a folder for files, filled stores, comparison. */
#pragma once

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dirent.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cmocka.h>

#include "method/options.h"
#include "method/store.h"

typedef struct fixture {
    glofnd_ctx *c;
    char dir[256];
} fixture;

/* TMPDIR if set; else memory, if 2 GB are free: hundreds of synced files, and pages far apart, keep a disk busy for minutes. */
static inline const char *scratch_root(void) {
    const char *given = getenv("TMPDIR");
    if (given && *given) return given;
    struct statvfs v;
    const int roomy = statvfs("/dev/shm", &v) == 0 && (uint64_t)v.f_bavail * v.f_frsize >= (uint64_t)2 << 30;
    return roomy && access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
}

static inline int fixture_open(void **state) {
    fixture *f = calloc(1, sizeof *f);
    glofnd_options o;
    if (!f) return -1;
    gf_method_options_init(&o);
    o.lambda_init = GLOFND_INIT_ONE;
    if (glofnd_ctx_create(&o, &f->c, NULL, 0) != GLOFND_OK) return -1;
    snprintf(f->dir, sizeof f->dir, "%s/glofnd-store-XXXXXX", scratch_root());
    if (!mkdtemp(f->dir)) return -1;
    *state = f;
    return 0;
}

/* Path of a file in the fixture's folder; a ring of buffers, so that a few can be used at a time. */
static inline const char *in_dir(const fixture *f, const char *name) {
    static char buffer[16][512];
    static int next;
    char *p = buffer[next++ % 16];
    snprintf(p, sizeof buffer[0], "%s/%s", f->dir, name);
    return p;
}

/* Files in the folder, hidden ones and temporary ones included. */
static inline int count_files(const char *dir) {
    int n = 0;
    DIR *d = opendir(dir);
    assert_non_null(d);
    for (struct dirent *e; (e = readdir(d));) n += strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
    closedir(d);
    return n;
}

static inline int fixture_close(void **state) {
    fixture *f = *state;
    DIR *d = opendir(f->dir);
    if (d) {
        for (struct dirent *e; (e = readdir(d));) unlink(in_dir(f, e->d_name));
        closedir(d);
    }
    rmdir(f->dir);
    glofnd_ctx_free(f->c);
    free(f);
    return 0;
}

static inline unsigned char *read_bytes(const char *path, size_t *n) {
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    struct stat st;
    assert_int_equal(fstat(fileno(f), &st), 0);
    *n = (size_t)st.st_size;
    unsigned char *p = malloc(*n + 1);
    assert_non_null(p);
    assert_int_equal(fread(p, 1, *n, f), *n);
    fclose(f);
    return p;
}

static inline void write_bytes(const char *path, const void *p, size_t n) {
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(p, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

static inline void assert_same_bytes(const char *a, const char *b) {
    size_t na, nb;
    unsigned char *pa = read_bytes(a, &na), *pb = read_bytes(b, &nb);
    assert_int_equal(na, nb);
    assert_memory_equal(pa, pb, na);
    free(pa);
    free(pb);
}

/* Repeatable numbers; not good ones, but different ones. */
static inline uint64_t next_random(uint64_t *x) {
    *x = *x * 6364136223846793005u + 1442695040888963407u;
    return *x >> 33 ^ *x << 20;
}

static inline float random_float(uint64_t *x, float lo, float hi) {
    return lo + (hi - lo) * (float)(next_random(x) % 65536) / 65536.0f;
}

static inline glofnd_anchor random_row(uint64_t *x, int temperatures) {
    glofnd_anchor r = {random_float(x, -1, 1),
                       random_float(x, -2, 2),
                       random_float(x, 0, 2),
                       random_float(x, -9, 9),
                       1 + (uint32_t)(next_random(x) % 1000),
                       0,
                       0,
                       0,
                       0};
    if (temperatures) {
        r.tau = random_float(x, 0.01f, 1);
        r.tau_m = random_float(x, -1, 1);
        r.tau_v = random_float(x, 0, 1);
        r.tau_clock = (uint32_t)next_random(x);
    }
    return r;
}

static inline void assert_rows_equal(const glofnd_anchor *a, const glofnd_anchor *b) {
    assert_memory_equal(a, b, sizeof *a); /* nine words, no padding: bit by bit */
}

static inline glofnd_store *new_store(fixture *f, int64_t n, int modalities, int temperatures, int64_t ring_rows,
                                      int64_t ring_dim, const char *path) {
    const gf_store_spec spec = {n, modalities, temperatures, ring_rows, ring_dim, 0, 0};
    glofnd_store *s = NULL;
    const glofnd_status status = gf_store_make(f->c, &spec, path, &s);
    if (status != GLOFND_OK) print_error("%s\n", glofnd_ctx_error(f->c));
    assert_int_equal(status, GLOFND_OK);
    assert_non_null(s);
    return s;
}

static inline glofnd_anchor get_row(fixture *f, const glofnd_store *s, int side, int64_t id) {
    glofnd_anchor r;
    assert_int_equal(glofnd_anchors_get(f->c, s, side, &id, 1, &r), GLOFND_OK);
    return r;
}

static inline void put_row(fixture *f, glofnd_store *s, int side, int64_t id, glofnd_anchor r) {
    assert_int_equal(glofnd_anchors_put(f->c, s, side, &id, 1, &r), GLOFND_OK);
}

/* Every `step`-th anchor on both sides, the shared rows, and 3/2 of the ring. */
static inline void fill_store(fixture *f, glofnd_store *s, int64_t step, uint64_t seed) {
    for (int side = 0; side < s->spec.modalities; side++) {
        for (int64_t id = side; id < s->spec.n; id += step) put_row(f, s, side, id, random_row(&seed, s->spec.temperatures));
        put_row(f, s, side, GLOFND_SHARED, random_row(&seed, 0));
    }
    for (int64_t i = 0; i < s->spec.ring_rows * 3 / 2; i++) {
        float row[2][64];
        for (int k = 0; k < 128; k++) row[k / 64][k % 64] = random_float(&seed, -1, 1);
        const float *rows[2] = {row[0], s->spec.modalities > 1 ? row[1] : NULL};
        gf_store_ring_push(s, rows, 64, &(int64_t){i % s->spec.n}, 1);
    }
}

static inline void assert_stores_equal(fixture *f, const glofnd_store *a, const glofnd_store *b) {
    assert_int_equal(a->spec.n, b->spec.n);
    assert_int_equal(a->spec.modalities, b->spec.modalities);
    assert_int_equal(a->spec.temperatures, b->spec.temperatures);
    assert_int_equal(a->spec.ring_rows, b->spec.ring_rows);
    assert_int_equal(a->spec.ring_dim, b->spec.ring_dim);
    assert_int_equal(a->ring_head, b->ring_head);
    assert_int_equal(a->ring_count, b->ring_count);
    assert_memory_equal(a->shared, b->shared, sizeof a->shared);
    for (int side = 0; side < a->spec.modalities; side++) {
        for (int64_t id = 0; id < a->spec.n; id++) {
            const glofnd_anchor ra = get_row(f, a, side, id), rb = get_row(f, b, side, id);
            assert_rows_equal(&ra, &rb);
        }
        if (a->ring_count == 0) continue;
        assert_memory_equal(a->ring[side].id, b->ring[side].id, (size_t)a->ring_count * sizeof(int64_t));
        assert_memory_equal(a->ring[side].rows, b->ring[side].rows, (size_t)(a->ring_count * a->spec.ring_dim) * sizeof(float));
    }
}
