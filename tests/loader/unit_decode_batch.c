/* unit_decode_batch.c - batches whose JPEG files a device decodes: the same samples, views and reports as without it, whatever
 * the device refuses, for any number of workers. The device is a stand-in that decodes by libjpeg to the host's memory, so
 * that every byte can be compared.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "support/test.h"

#include "loader/loader.h"
#include "support/random.h"
#include "support/scratch.h"
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef GF_HAVE_JPEG

enum { N = 53, BATCH = 8, STEPS = 13, SIZE = 24, SLOTS = 3, LARGE = 7, CUT = 11, TORN = 12, TEXT = 20, DRAWN = 31 };

static void ok(glofnd_status status, const gf_error *err) {
    if (status != GLOFND_OK) fail_msg("%s", err->text);
}

/* ----- files ----- */

static void draw(gf_image *m, rng *g, int width, int height) {
    gf_error err = {""};
    ok(gf_image_resize(&err, m, width, height), &err);
    for (int i = 0; i < 3 * width * height; i++) m->rgb[i] = (uint8_t)(i / width + rng_below(g, 50));
}

/* Most are for the device; some end early, one is a text, one a PNG by the name .jpg. LARGE has boxes that are too large. */
static int write_files(void **state) {
    gf_image m = {0};
    rng g = {3};
    if (make_box(state)) return -1;
    for (int i = 0; i < N; i++) {
        gf_error err = {""};
        char name[32];
        uint8_t *bytes = NULL;
        size_t size = 0;
        draw(&m, &g, i == LARGE ? 900 : 40 + i, i == LARGE ? 700 : 75 - i);
        if (i == DRAWN) ok(gf_image_encode_png(&err, &m, &bytes, &size), &err);
        else ok(gf_image_encode_jpeg(&err, &m, 90, &bytes, &size), &err);
        if (i == CUT) size -= size / 3;
        if (i == TORN) bytes[size - 10] = 0xff, bytes[size - 9] = 0xd9; /* sound for the device; libjpeg finds it out */
        if (i == TEXT) memcpy(bytes, "no image", 8);
        snprintf(name, sizeof name, "a/%03d.jpg", i);
        scratch_write(&box, name, bytes, size);
        free(bytes);
    }
    gf_image_free(&m);
    return 0;
}

/* ----- the device ----- */

static struct {
    uint8_t *memory[SLOTS];
    size_t bytes[SLOTS];
    int refused;       /* one image in so many; 0: none */
    atomic_int broken; /* glofnd_status */
    atomic_int decoded, uploads;
} device;

static void grow(int slot, size_t bytes) {
    assert_in_range(slot, 0, SLOTS - 1);
    if (bytes <= device.bytes[slot]) return;
    device.memory[slot] = realloc(device.memory[slot], bytes);
    assert_non_null(device.memory[slot]);
    device.bytes[slot] = bytes;
}

/* By the file alone, as nvJPEG refuses. */
static int is_refused(const gf_encoded *e) { return device.refused && e->bytes[e->size - 12] % device.refused == 0; }

static glofnd_status decode(gf_error *err, void *user, int slot, gf_encoded *image, int64_t count, size_t bytes) {
    assert_ptr_equal(user, &device);
    FAIL_IF(err, device.broken, (glofnd_status)device.broken, "the device is broken");
    grow(slot, bytes);
    memset(device.memory[slot], 0xee, device.bytes[slot]);
    for (int64_t i = 0; i < count; i++) {
        gf_image m = {0};
        if (image[i].size == 0) continue;
        assert_true(image[i].at % GF_DECODER_ALIGN == 0 && !image[i].failed);
        /* what libjpeg finds damaged, the device may as well */
        image[i].failed =
            is_refused(&image[i]) || gf_image_decode(NULL, "", image[i].bytes, image[i].size, NULL, &m) != GLOFND_OK;
        const size_t pixels = (size_t)image[i].width * (size_t)image[i].height * 3;
        assert_true(image[i].at + pixels <= bytes);
        if (!image[i].failed) {
            assert_true(m.width == image[i].width && m.height == image[i].height);
            memcpy(device.memory[slot] + image[i].at, m.rgb, pixels);
            device.decoded++;
        }
        gf_image_free(&m);
    }
    return GLOFND_OK;
}

static glofnd_status upload(gf_error *err, void *user, int slot, const gf_pixels *run, int count, size_t at) {
    (void)err;
    assert_ptr_equal(user, &device);
    for (int i = 0; i < count; i++) {
        if (run[i].used == 0) continue;
        grow(slot, at + run[i].first + run[i].used);
        memcpy(device.memory[slot] + at + run[i].first, run[i].bytes, run[i].used);
        device.uploads++;
    }
    return GLOFND_OK;
}

static const gf_batch_decoder decoder = {.user = &device, .decode = decode, .upload = upload};

static int heal(void **state) {
    (void)state;
    device.refused = 0;
    device.broken = GLOFND_OK;
    device.decoded = device.uploads = 0;
    return 0;
}

static int close_all(void **state) {
    for (int i = 0; i < SLOTS; i++) free(device.memory[i]);
    return remove_box(state);
}

/* ----- comparing ----- */

typedef struct reports {
    char text[200][200];
    int n;
} reports;

static void report(void *user, int64_t i, const char *message) {
    reports *r = user;
    assert_in_range(r->n, 0, 199);
    snprintf(r->text[r->n++], sizeof r->text[0], "%lld %.180s", (long long)i, message);
}

static gf_loader_spec spec_of(const gf_dataset *d, int workers, reports *r) {
    return (gf_loader_spec){.data = d,
                            .augment = gf_augment_pretrain(SIZE),
                            .views = 2,
                            .batch = BATCH,
                            .seed = 5,
                            .workers = workers,
                            .depth = SLOTS - 1,
                            .pack = 1,
                            .unreadable = report,
                            .user = r};
}

static const uint8_t *box_of(const gf_batch *b, const gf_view_job *j) {
    const int64_t last = j->at + (int64_t)(j->height - 1) * j->stride + 3 * (int64_t)j->width;
    if (b->decoded) {
        assert_true(j->at >= 0 && last <= (int64_t)device.bytes[b->slot]);
        return device.memory[b->slot] + j->at;
    }
    for (int i = 0; i < b->pixel_chunks; i++) {
        const gf_pixels *p = &b->pixels[i];
        if (j->at >= (int64_t)p->first && last <= (int64_t)(p->first + p->used)) return p->bytes + (j->at - (int64_t)p->first);
    }
    fail_msg("a box lies outside all pixels");
    return NULL;
}

static void check_job(const gf_batch *a, const gf_batch *b, int64_t i) {
    gf_view_job x = a->job[i], y = b->job[i];
    const uint8_t *from = box_of(a, &x), *other = box_of(b, &y);
    for (int row = 0; row < x.height; row++)
        assert_memory_equal(from + (int64_t)row * x.stride, other + (int64_t)row * y.stride, 3 * (size_t)x.width);
    x.at = y.at = x.stride = y.stride = 0;
    assert_memory_equal(&x, &y, sizeof x);
}

static void check_batches(gf_loader *cpu, gf_loader *gpu) {
    gf_error err = {""};
    for (int step = 0; step < STEPS; step++) {
        gf_batch a, b;
        ok(gf_loader_next(&err, cpu, &a), &err);
        ok(gf_loader_next(&err, gpu, &b), &err);
        assert_true(!a.decoded && b.decoded && b.n == BATCH && a.epoch == b.epoch && a.step == b.step);
        assert_memory_equal(a.id, b.id, BATCH * sizeof *a.id);
        assert_memory_equal(a.label, b.label, BATCH * sizeof *a.label);
        for (int64_t i = 0; i < 2 * BATCH; i++) check_job(&a, &b, i);
    }
}

static void compare(int workers, int refused) {
    static reports of_cpu, of_gpu;
    gf_error err = {""};
    gf_dataset *d;
    gf_loader *cpu, *gpu;
    char text[200];
    heal(NULL);
    device.refused = refused;
    of_cpu.n = of_gpu.n = 0;
    snprintf(text, sizeof text, "folder:%s?split=all", box.folder);
    ok(gf_dataset_open(&err, text, &d), &err);
    gf_loader_spec spec = spec_of(d, 2, &of_cpu);
    ok(gf_loader_create(&err, &spec, &cpu), &err);
    spec = spec_of(d, workers, &of_gpu);
    spec.decoder = &decoder;
    ok(gf_loader_create(&err, &spec, &gpu), &err);
    check_batches(cpu, gpu);
    assert_int_equal(of_cpu.n, of_gpu.n);
    assert_true(of_cpu.n >= 6);
    for (int i = 0; i < of_cpu.n; i++) assert_string_equal(of_cpu.text[i], of_gpu.text[i]);
    if (refused == 1) assert_int_equal(device.decoded, 0);
    else assert_in_range(device.decoded, STEPS * BATCH / 4, 2 * STEPS * BATCH);
    assert_true(device.uploads > 0);
    gf_loader_free(cpu);
    gf_loader_free(gpu);
    gf_dataset_free(d);
}

TEST_WITH(test_all, heal, NULL) {
    compare(1, 0);
    compare(4, 0);
}

TEST_WITH(test_refused, heal, NULL) {
    compare(3, 3);
    compare(1, 2);
    compare(2, 1); /* all of them */
}

/* A failure of the device is one of the batch, and stays until the next seek. */
TEST_WITH(test_broken, heal, NULL) {
    static reports r;
    gf_error err = {""};
    gf_dataset *d;
    gf_loader *l;
    gf_batch b;
    char text[200];
    snprintf(text, sizeof text, "folder:%s?split=all", box.folder);
    ok(gf_dataset_open(&err, text, &d), &err);
    gf_loader_spec spec = spec_of(d, 2, &r);
    spec.decoder = &decoder;
    ok(gf_loader_create(&err, &spec, &l), &err);
    device.broken = GLOFND_E_DEVICE;
    assert_int_equal(gf_loader_next(&err, l, &b), GLOFND_E_DEVICE);
    assert_string_equal(err.text, "the device is broken");
    assert_int_equal(gf_loader_next(&err, l, &b), GLOFND_E_DEVICE);
    device.broken = GLOFND_OK;
    ok(gf_loader_seek(&err, l, 0, 1), &err);
    ok(gf_loader_next(&err, l, &b), &err);
    assert_true(b.step == 1 && b.decoded);
    gf_loader_free(l);
    gf_dataset_free(d);
}

/* With strict, a damaged file that the device found out ends with the text of libjpeg. */
TEST_WITH(test_strict, heal, NULL) {
    gf_error err = {""}, other = {""};
    gf_dataset *d;
    char text[200];
    snprintf(text, sizeof text, "folder:%s?split=all", box.folder);
    ok(gf_dataset_open(&err, text, &d), &err);
    for (int with = 0; with < 2; with++) {
        gf_loader *l;
        gf_batch b;
        gf_loader_spec spec = spec_of(d, 2, NULL);
        spec.strict = 1;
        spec.decoder = with ? &decoder : NULL;
        ok(gf_loader_create(&err, &spec, &l), &err);
        glofnd_status status = GLOFND_OK;
        while (status == GLOFND_OK) status = gf_loader_next(with ? &err : &other, l, &b);
        assert_int_equal(status, GLOFND_E_FORMAT);
        gf_loader_free(l);
    }
    assert_string_equal(err.text, other.text);
    gf_dataset_free(d);
}

TEST_GROUP(write_files, close_all)

#else
TEST_SKIP("built without libjpeg")
#endif
