/* flaky.c - see flaky.h. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "flaky.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "data/dataset_format.h"

struct flaky flaky;
gf_dataset *flaky_shapes;
static const gf_dataset_format *inner; /* the kind of the shapes */
static gf_dataset_format kind;
static gf_dataset data; /* the shapes with that kind */

static glofnd_status flaky_read(gf_error *err, const gf_dataset *d, int64_t i, const gf_decode_hint *hint, gf_sample *out) {
    flaky.reads++;
    if (flaky.nap) usleep((useconds_t)flaky.nap);
    FAIL_IF(err, flaky.state[i] == CORRUPT, GLOFND_E_FORMAT, "sample %lld is corrupt", (long long)i);
    FAIL_IF(err, flaky.state[i] == BROKEN_DISK, GLOFND_E_IO, "sample %lld cannot be read", (long long)i);
    FAIL_IF(err, flaky.state[i] == NO_MEMORY, GLOFND_E_MEMORY, "no memory for sample %lld", (long long)i);
    return inner->read(err, d, i, hint, out);
}

int flaky_open(void **state) {
    (void)state;
    gf_error err = {""};
    if (gf_dataset_open(&err, "shapes:n=61,classes=5,size=20,seed=3", &flaky_shapes) != GLOFND_OK) fail_msg("%s", err.text);
    inner = flaky_shapes->format;
    kind = *flaky_shapes->format;
    kind.read = flaky_read;
    data = *flaky_shapes;
    data.format = &kind;
    return 0;
}

int flaky_close(void **state) {
    (void)state;
    gf_dataset_free(flaky_shapes);
    return 0;
}

int flaky_heal(void **state) {
    (void)state;
    memset(flaky.state, SOUND, sizeof flaky.state);
    flaky.nap = 0;
    return 0;
}

void flaky_report(void *user, int64_t i, const char *message) {
    flaky_reports *r = user;
    char number[32];
    snprintf(number, sizeof number, "sample %lld", (long long)i);
    assert_true(strstr(message, number) && r->n < 1000);
    r->id[r->n++] = i;
}

gf_loader_spec flaky_spec(int workers) {
    return (gf_loader_spec){.data = &data,
                            .augment = gf_augment_pretrain(SIZE),
                            .views = 2,
                            .batch = BATCH,
                            .seed = SEED,
                            .workers = workers,
                            .depth = 2};
}

gf_loader *flaky_loader(const gf_loader_spec *spec) {
    gf_error err = {""};
    gf_loader *l = NULL;
    if (gf_loader_create(&err, spec, &l) != GLOFND_OK) fail_msg("%s", err.text);
    return l;
}

gf_batch flaky_next(gf_loader *l) {
    gf_error err = {""};
    gf_batch b;
    if (gf_loader_next(&err, l, &b) != GLOFND_OK) fail_msg("%s", err.text);
    return b;
}

void flaky_seek(gf_loader *l, uint32_t epoch, int64_t step) { assert_int_equal(gf_loader_seek(NULL, l, epoch, step), GLOFND_OK); }

void flaky_says(const gf_error *err, const char *word) {
    if (!strstr(err->text, word)) fail_msg("'%s' does not say '%s'", err->text, word);
}

void flaky_fails(gf_loader *l, glofnd_status status, const char *word) {
    gf_error err = {""};
    assert_int_equal(gf_loader_next(&err, l, &(gf_batch){0}), status);
    flaky_says(&err, word);
}

static void add_hash(uint64_t *hash, const void *data_, size_t bytes) {
    const uint8_t *at = data_;
    for (size_t i = 0; i < bytes; i++) *hash = (*hash ^ at[i]) * 0x100000001b3u;
}

uint64_t flaky_hash(const gf_batch *b) {
    uint64_t hash = 0xcbf29ce484222325u;
    add_hash(&hash, &b->n, sizeof b->n);
    add_hash(&hash, &b->epoch, sizeof b->epoch);
    add_hash(&hash, &b->step, sizeof b->step);
    add_hash(&hash, b->id, (size_t)b->n * sizeof *b->id);
    add_hash(&hash, b->label, (size_t)b->n * sizeof *b->label);
    for (int v = 0; v < 2; v++) {
        if (b->view[v]) add_hash(&hash, b->view[v], (size_t)b->n * IMAGE * sizeof(float));
    }
    return hash;
}

void flaky_hashes(const gf_loader_spec *spec, uint64_t *hash, int count) {
    gf_loader *l = flaky_loader(spec);
    for (int i = 0; i < count; i++) {
        const gf_batch b = flaky_next(l);
        hash[i] = flaky_hash(&b);
    }
    gf_loader_free(l);
}

void flaky_check_views(const gf_batch *b, int64_t item, int views) {
    const gf_augment a = gf_augment_pretrain(SIZE);
    gf_error err = {""};
    gf_augment_scratch *x = NULL;
    gf_sample sample = {0};
    float expected[IMAGE];
    assert_int_equal(gf_augment_scratch_create(&err, &a, &x), GLOFND_OK);
    assert_int_equal(gf_dataset_read(&err, flaky_shapes, b->id[item], 0, &sample), GLOFND_OK);
    for (int v = 0; v < views; v++) {
        gf_rng r = gf_rng_at(SEED, GF_RNG_AUGMENT, b->epoch, (uint64_t)b->id[item], (uint32_t)v);
        const gf_view view = gf_augment_draw(&a, &r, sample.image.width, sample.image.height);
        assert_int_equal(gf_augment_apply(&err, &a, &view, &sample.image, x, expected, NULL), GLOFND_OK);
        assert_memory_equal(b->view[v] + item * IMAGE, expected, sizeof expected);
    }
    gf_sample_free(&sample);
    gf_augment_scratch_free(x);
}
