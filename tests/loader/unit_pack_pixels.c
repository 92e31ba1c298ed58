/* unit_pack_pixels.c - packed samples of a loader, for a device that makes the views: their jobs and pixels give the views of a
 * loader that
 * makes them itself; preloaded images; batches peeked at ahead of time; unreadable samples.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "support/test.h"

#include "data/dataset_format.h"
#include "loader/loader.h"
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BATCH = 12, STEPS = 9 };

static void ok(glofnd_status status, const gf_error *err) {
    if (status != GLOFND_OK) fail_msg("%s", err->text);
}

/* ----- data, some of it unreadable ----- */

static struct {
    const gf_dataset_format *inner;
    int odd;              /* every so many samples one is unreadable; 0: none */
    glofnd_status status; /* what reading it says */
    atomic_int reads;
} flaky;

static glofnd_status flaky_read(gf_error *err, const gf_dataset *d, int64_t i, const gf_decode_hint *hint, gf_sample *out) {
    flaky.reads++;
    FAIL_IF(err, flaky.odd && i % flaky.odd == 1, flaky.status, "sample %lld is corrupt", (long long)i);
    return flaky.inner->read(err, d, i, hint, out);
}

static gf_dataset *shapes, data;
static gf_dataset_format kind;

static void open_data(const char *text, int odd) {
    gf_error err = {""};
    ok(gf_dataset_open(&err, text, &shapes), &err);
    kind = *shapes->format;
    kind.read = flaky_read;
    flaky.inner = shapes->format;
    flaky.odd = odd;
    flaky.status = GLOFND_E_FORMAT;
    flaky.reads = 0;
    data = *shapes;
    data.format = &kind;
}

static int64_t named[1000];
static int names;

static void name(void *user, int64_t i, const char *message) {
    (void)user;
    assert_true(strstr(message, "is corrupt") && names < 1000);
    named[names++] = i;
}

static gf_filter filter = GF_FILTER_LINEAR; /* of views */

static gf_loader_spec spec_of(int size) {
    gf_augment a = gf_augment_pretrain(size);
    a.blur_p = 0.5;
    a.view_filter = filter;
    return (gf_loader_spec){
        .data = &data, .augment = a, .views = 2, .batch = BATCH, .seed = 5, .workers = 3, .depth = 2, .unreadable = name};
}

static gf_loader *loader_of(const gf_loader_spec *spec) {
    gf_error err = {""};
    gf_loader *l = NULL;
    ok(gf_loader_create(&err, spec, &l), &err);
    return l;
}

/* ----- a view from a job, by the CPU ----- */

/* The pixels a job looks at begin here. */
static const uint8_t *box_of(const gf_batch *b, const uint8_t *kept, const gf_view_job *j) {
    const int64_t last = j->at + (int64_t)(j->height - 1) * j->stride + 3 * (int64_t)j->width;
    if (kept) return kept + j->at;
    for (int i = 0; i < b->pixel_chunks; i++) {
        const gf_pixels *p = &b->pixels[i];
        if (j->at >= (int64_t)p->first && last <= (int64_t)(p->first + p->used)) return p->bytes + (j->at - (int64_t)p->first);
    }
    fail_msg("a box of %d x %d lies outside all pixels", (int)j->width, (int)j->height);
    return NULL;
}

/* The view drawn for the sample, but with the box of the job as the whole image. */
static void check_item(const gf_loader_spec *spec, const gf_batch *views, const gf_batch *raw, const uint8_t *kept, int64_t item,
                       int v, gf_augment_scratch *x) {
    gf_error err = {""};
    const gf_view_job *j = &raw->job[v * raw->n + item];
    const gf_dataset_info info = gf_dataset_describe(&data);
    const size_t image = (size_t)spec->augment.size * (size_t)spec->augment.size * 3;
    gf_rng r = gf_rng_at(spec->seed, GF_RNG_AUGMENT, raw->epoch, (uint64_t)raw->id[item], (uint32_t)v);
    gf_view view = gf_augment_draw(&spec->augment, &r, info.width, info.height);
    gf_image box = {.width = j->width, .height = j->height};
    box.rgb = malloc((size_t)j->width * (size_t)j->height * 3);
    float *out = malloc(image * sizeof *out);
    const uint8_t *from = box_of(raw, kept, j);
    for (int y = 0; y < j->height; y++)
        memcpy(box.rgb + (size_t)y * (size_t)j->width * 3, from + (int64_t)y * j->stride, (size_t)j->width * 3);
    assert_true(j->width <= GF_VIEW_SCALE * spec->augment.size && j->height <= GF_VIEW_SCALE * spec->augment.size);
    assert_true(j->flip == view.flip && j->gray == view.gray && (j->radius >= 0) == (view.sigma > 0));
    view.left = view.top = 0;
    view.width = j->width;
    view.height = j->height;
    ok(gf_augment_apply(&err, &spec->augment, &view, &box, x, out, NULL), &err);
    assert_memory_equal(out, views->view[v] + (size_t)item * image, image * sizeof *out);
    free(box.rgb);
    free(out);
}

static void check_batches(const char *text, int size, int resident, int odd) {
    gf_error err = {""};
    gf_preload *kept = NULL;
    gf_augment_scratch *x = NULL;
    open_data(text, odd);
    gf_loader_spec spec = spec_of(size);
    gf_loader *cpu = loader_of(&spec);
    ok(gf_augment_scratch_create(&err, &spec.augment, &x), &err);
    if (resident) ok(gf_preload_load(&err, &data, 3, &kept), &err);
    spec.pack = 1;
    spec.preload = kept;
    gf_loader *raw = loader_of(&spec);
    for (int step = 0; step < STEPS; step++) {
        gf_batch a, b;
        int met[2];
        names = 0;
        ok(gf_loader_next(&err, cpu, &a), &err);
        met[0] = names;
        ok(gf_loader_next(&err, raw, &b), &err);
        met[1] = names - met[0];
        assert_int_equal(met[0], met[1]);
        assert_memory_equal(named, named + met[0], (size_t)met[0] * sizeof *named);
        assert_true(b.n == BATCH && a.step == b.step && a.epoch == b.epoch && !b.view[0] && !b.view[1]);
        assert_memory_equal(a.id, b.id, BATCH * sizeof *a.id);
        assert_memory_equal(a.label, b.label, BATCH * sizeof *a.label);
        for (int64_t item = 0; item < BATCH; item++)
            for (int v = 0; v < 2; v++) check_item(&spec, &a, &b, kept ? gf_preload_pixels(kept) : NULL, item, v, x);
    }
    assert_true(gf_loader_unreadable(cpu) == gf_loader_unreadable(raw) && (gf_loader_unreadable(raw) > 0) == (odd > 0));
    gf_loader_free(raw);
    gf_loader_free(cpu);
    gf_preload_free(kept);
    gf_augment_scratch_free(x);
    gf_dataset_free(shapes);
}

TEST(test_packed) {
    check_batches("shapes:n=50,classes=5,size=40,seed=3", 32, 0, 0);
    check_batches("shapes:n=50,classes=5,size=40,seed=3", 32, 0, 7);
    check_batches("shapes:n=50,classes=5,size=120,seed=3", 48, 0, 7);
}

TEST(test_resident) {
    check_batches("shapes:n=50,classes=5,size=40,seed=3", 32, 1, 0);
    check_batches("shapes:n=50,classes=5,size=40,seed=3", 32, 1, 7);
}

/* Boxes wider than a device resizes, and samples of more bytes than are packed. */
TEST(test_shrunk) { check_batches("shapes:n=20,classes=5,size=200,seed=3", 16, 0, 7); }

/* A device resizes linearly: bicubic views come resized, and its own resizing changes nothing. */
TEST(test_cubic) {
    gf_error err = {""};
    gf_batch linear, cubic;
    filter = GF_FILTER_CUBIC;
    check_batches("shapes:n=50,classes=5,size=40,seed=3", 32, 0, 7);
    check_batches("shapes:n=50,classes=5,size=120,seed=3", 48, 0, 0);
    open_data("shapes:n=50,classes=5,size=40,seed=3", 0);
    gf_loader_spec spec = spec_of(32);
    gf_loader *b = loader_of(&spec);
    filter = GF_FILTER_LINEAR;
    spec = spec_of(32);
    gf_loader *a = loader_of(&spec);
    ok(gf_loader_next(&err, a, &linear), &err);
    ok(gf_loader_next(&err, b, &cubic), &err);
    assert_memory_not_equal(linear.view[0], cubic.view[0], (size_t)32 * 32 * 3 * BATCH * sizeof(float));
    gf_loader_free(a);
    gf_loader_free(b);
    gf_dataset_free(shapes);
}

/* Nothing is read twice, and what is read goes nowhere but to the device. */
TEST(test_resident_reads_once) {
    gf_error err = {""};
    gf_preload *kept = NULL;
    gf_batch b;
    open_data("shapes:n=50,classes=5,size=40,seed=3", 0);
    assert_int_equal(gf_preload_bytes(&data), 50 * 40 * 40 * 3);
    ok(gf_preload_load(&err, &data, 2, &kept), &err);
    gf_preload_drop_pixels(kept);
    gf_loader_spec spec = spec_of(32);
    spec.pack = 1;
    spec.preload = kept;
    gf_loader *l = loader_of(&spec);
    for (int i = 0; i < 20; i++) ok(gf_loader_next(&err, l, &b), &err);
    assert_int_equal(flaky.reads, 50);
    assert_int_equal(b.pixel_chunks, 0);
    gf_loader_free(l);
    gf_preload_free(kept);
    gf_dataset_free(shapes);
}

TEST(test_resident_errors) {
    gf_error err = {""};
    gf_preload *kept = NULL;
    open_data("shapes:n=50,classes=5,size=40,seed=3", 7);
    ok(gf_preload_load(&err, &data, 2, &kept), &err);
    assert_int_equal(gf_preload_status(&err, kept, 8), GLOFND_E_FORMAT);
    assert_true(strstr(err.text, "sample 8 is corrupt") != NULL);
    assert_int_equal(gf_preload_status(&err, kept, 7), GLOFND_OK);
    gf_loader_spec spec = spec_of(32);
    spec.pack = spec.strict = 1;
    spec.preload = kept;
    spec.batch = 40;
    gf_loader *l = loader_of(&spec);
    gf_batch b;
    assert_int_equal(gf_loader_next(&err, l, &b), GLOFND_E_FORMAT);
    assert_true(strstr(err.text, "is corrupt") != NULL);
    gf_loader_free(l);
    gf_preload_free(kept);
    flaky.status = GLOFND_E_MEMORY; /* no sample's own fault */
    assert_int_equal(gf_preload_load(&err, &data, 2, &kept), GLOFND_E_MEMORY);
    gf_dataset_free(shapes);
}

/* A batch is seen before it is taken, stays where it is, and its unreadable samples are named when it is taken. */
TEST(test_peek) {
    gf_error err = {""};
    gf_batch ahead, b, later;
    open_data("shapes:n=50,classes=5,size=40,seed=3", 3);
    gf_loader_spec spec = spec_of(32);
    spec.pack = 1;
    gf_loader *l = loader_of(&spec);
    names = 0;
    for (int i = 0; i < 6; i++) {
        do {
            ok(gf_loader_peek(&err, l, &ahead), &err);
            if (ahead.n == 0) usleep(500);
        } while (ahead.n == 0);
        const int before = names;
        const gf_view_job first = ahead.job[0];
        ok(gf_loader_next(&err, l, &b), &err);
        assert_true(names > before && b.job == ahead.job && b.id == ahead.id && b.step == ahead.step && b.epoch == ahead.epoch);
        for (int k = 0; k < 50; k++) { /* the one taken stays when the next is looked at */
            ok(gf_loader_peek(&err, l, &later), &err);
            assert_memory_equal(&first, &b.job[0], sizeof first);
            usleep(100);
        }
    }
    gf_loader_free(l);
    gf_dataset_free(shapes);
}

TEST(test_refusals) {
    gf_loader *l = NULL;
    open_data("shapes:n=50,classes=5,size=40,seed=3", 0);
    gf_loader_spec spec = spec_of(32);
    spec.pack = 1;
    spec.views = 0;
    assert_int_equal(gf_loader_create(NULL, &spec, &l), GLOFND_E_ARGUMENT);
    spec.views = 1;
    spec.once = 1;
    assert_int_equal(gf_loader_create(NULL, &spec, &l), GLOFND_E_ARGUMENT);
    spec.pack = 0;
    l = loader_of(&spec);
    assert_int_equal(gf_loader_peek(NULL, l, &(gf_batch){0}), GLOFND_E_ARGUMENT);
    gf_loader_free(l);
    gf_dataset_free(shapes);
}
