/* cuda_augment.c - views made on CUDA against those of the CPU: every byte, for all sizes of pictures and views, every colour,
 * both layouts of memory; the normalised input; and complete batches through loader and feed, with unreadable samples among them.
 * With the argument `quick` only a few views, of every kind, for compute-sanitizer.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cuda_runtime_api.h>

#include "cuda/cuda_device.h"
#include "data/dataset_format.h"
#include "loader/cuda/cuda_augment.h"
#include "loader/cuda/cuda_feed.h"
#include "loader/loader.h"
#include "support/cuda_main.h"
#include "support/random.h"
#include "util/dtype.h"

static void ok(glofnd_status status, const gf_error *err) {
    if (status != GLOFND_OK) fail_msg("%s", err->text);
}

static void *allocate(size_t bytes) {
    void *p = malloc(bytes ? bytes : 1);
    assert_non_null(p);
    return p;
}

static gf_cuda_feed *feed_of(const gf_augment *a, int64_t views, gf_type type, int channels) {
    gf_error err = {""};
    float level[3][256];
    gf_cuda_feed *f = NULL;
    gf_augment_levels(a, level);
    const gf_cuda_feed_spec spec = {
        .size = a->size, .views = views, .type = type, .channels = channels, .level = level[0], .stream = NULL};
    ok(gf_cuda_feed_create(&err, &spec, &f), &err);
    return f;
}

/* ----- views of one picture after the other ----- */

typedef struct album { /* views, each of a picture of its own, by the CPU */
    int n, capacity;
    gf_view_job *job;
    gf_pixels pixels;
    uint8_t *bytes; /* [capacity][size][size][3] */
    float *floats;  /* likewise */
    gf_augment recipe;
    gf_augment_scratch *scratch;
} album;

static size_t numbers(const album *a) { return (size_t)a->recipe.size * (size_t)a->recipe.size * 3; }

static album album_of(const gf_augment *recipe, int views, size_t bytes) {
    gf_error err = {""};
    album a = {.capacity = views, .recipe = *recipe};
    a.job = allocate((size_t)views * sizeof *a.job);
    a.pixels = (gf_pixels){.bytes = allocate(bytes), .capacity = bytes};
    a.bytes = allocate((size_t)views * numbers(&a));
    a.floats = allocate((size_t)views * numbers(&a) * sizeof *a.floats);
    ok(gf_augment_scratch_create(&err, recipe, &a.scratch), &err);
    return a;
}

static void album_free(album *a) {
    gf_augment_scratch_free(a->scratch);
    free(a->job);
    free(a->pixels.bytes);
    free(a->bytes);
    free(a->floats);
}

/* Memory for a picture. */
static gf_image place(album *a, int width, int height) {
    const size_t bytes = (size_t)width * (size_t)height * 3;
    gf_image m = {.width = width, .height = height, .rgb = a->pixels.bytes + a->pixels.used};
    assert_true(a->n < a->capacity && a->pixels.used + bytes <= a->pixels.capacity);
    a->pixels.used += bytes;
    return m;
}

static void add(album *a, const gf_view *v, const gf_image *m) {
    gf_error err = {""};
    ok(gf_augment_job(&err, v, m, &a->job[a->n]), &err);
    a->job[a->n].at += m->rgb - a->pixels.bytes;
    const size_t at = (size_t)a->n * numbers(a);
    ok(gf_augment_apply(&err, &a->recipe, v, m, a->scratch, a->floats + at, a->bytes + at), &err);
    a->n++;
}

static void compare_floats(const album *a, gf_cuda_feed *f, gf_type type, int channels) {
    gf_error err = {""};
    const size_t pixels = (size_t)a->n * numbers(a) / 3, bytes = pixels * (size_t)channels * gf_type_bytes[type];
    void *device = NULL, *host = allocate(bytes);
    assert_int_equal(cudaMalloc(&device, bytes), cudaSuccess);
    ok(gf_cuda_feed_take(&err, f, device), &err);
    assert_int_equal(cudaMemcpy(host, device, bytes, cudaMemcpyDeviceToHost), cudaSuccess);
    size_t wrong = 0;
    for (size_t i = 0; i < pixels * (size_t)channels; i++) {
        const size_t c = i % (size_t)channels;
        const float x = c < 3 ? a->floats[i / (size_t)channels * 3 + c] : 0.0f;
        wrong += type == GF_TYPE_F32 ? ((const float *)host)[i] != x : ((const uint16_t *)host)[i] != gf_bf16_from_float(x);
    }
    assert_int_equal(wrong, 0);
    cudaFree(device);
    free(host);
}

static void compare(const album *a, gf_type type, int channels) {
    gf_error err = {""};
    gf_cuda_feed *f = feed_of(&a->recipe, a->n, type, channels);
    uint8_t *got = allocate((size_t)a->n * numbers(a));
    ok(gf_cuda_feed_put(&err, f, a->job, &a->pixels, 1), &err);
    ok(gf_cuda_feed_bytes(&err, f, got), &err);
    size_t wrong = 0, first = 0;
    for (size_t i = 0; i < (size_t)a->n * numbers(a); i++) {
        if (got[i] != a->bytes[i] && wrong++ == 0) first = i;
    }
    if (wrong) {
        const gf_view_job *j = &a->job[first / numbers(a)];
        fail_msg("size %d: %zu bytes differ, the first: view %zu byte %zu, %d instead of %d; box %d x %d, order %d %d %d %d, "
                 "gray %d, flip %d, radius %d",
                 a->recipe.size, wrong, first / numbers(a), first % numbers(a), got[first], a->bytes[first], j->width, j->height,
                 j->order[0], j->order[1], j->order[2], j->order[3], j->gray, j->flip, j->radius);
    }
    compare_floats(a, f, type, channels);
    gf_cuda_feed_free(f);
    free(got);
}

static int between(rng *g, int low, int high) { return low + (int)rng_below(g, high - low + 1); }

/* Smooth, so that blur and resize have an effect, with noise, so that all levels occur. */
static void paint(rng *g, gf_image *m) {
    const int a = between(g, 1, 9), b = between(g, 1, 9), noise = between(g, 1, 255);
    for (int i = 0; i < m->width * m->height * 3; i++)
        m->rgb[i] = (uint8_t)(i % 3 * 40 + i / 3 % m->width * a + i / 3 / m->width * b + between(g, 0, noise));
}

/* All operations, often; strong ones too. */
static gf_augment recipe_of(int size) {
    gf_augment a = gf_augment_pretrain(size);
    a.blur_p = 0.5;
    a.hue = 0.5;
    a.saturation = a.contrast = a.brightness = 0.9;
    a.blur_max = 3;
    return a;
}

static void check_random(int size, int views, int smallest, int largest, gf_type type, int channels) {
    const gf_augment recipe = recipe_of(size);
    rng g = {(uint64_t)(size + largest)};
    album a = album_of(&recipe, views, (size_t)views * (size_t)largest * (size_t)largest * 3);
    for (int i = 0; i < views; i++) {
        gf_image m = place(&a, between(&g, smallest, largest), between(&g, smallest, largest));
        paint(&g, &m);
        gf_rng r = gf_rng_at(7, GF_RNG_AUGMENT, 1, (uint64_t)i, (uint32_t)size);
        gf_view v = gf_augment_draw(&recipe, &r, m.width, m.height);
        if (i % 5 == 0) v.left = v.top = 0, v.width = m.width, v.height = m.height;
        add(&a, &v, &m);
    }
    compare(&a, type, channels);
    album_free(&a);
}

TEST(test_small) {
    check_random(32, 512, 32, 32, GF_TYPE_BF16, 8);
    check_random(32, 200, 1, 256, GF_TYPE_F32, 8);
    check_random(33, 60, 1, 90, GF_TYPE_BF16, 3);
    check_random(1, 9, 1, 8, GF_TYPE_F32, 3);
    check_random(7, 40, 3, 56, GF_TYPE_F32, 3);
    check_random(64, 60, 20, 300, GF_TYPE_BF16, 8);
}

TEST(test_large) {
    check_random(96, 40, 60, 200, GF_TYPE_BF16, 8);
    check_random(97, 20, 60, 776, GF_TYPE_F32, 3);
    check_random(224, 40, 200, 600, GF_TYPE_BF16, 8);
    check_random(224, 6, 1200, 1792, GF_TYPE_BF16, 8);
    check_random(227, 10, 10, 600, GF_TYPE_F32, 8);
    check_random(256, 20, 100, 600, GF_TYPE_BF16, 8);
}

/* Too large for shared memory. */
TEST(test_scratch) {
    check_random(301, 20, 100, 600, GF_TYPE_BF16, 8);
    check_random(384, 160, 100, 400, GF_TYPE_BF16, 8); /* more views than blocks */
    check_random(512, 6, 400, 2000, GF_TYPE_BF16, 8);
}

TEST(test_wide_blur) {
    gf_augment recipe = recipe_of(48);
    rng g = {5};
    album a = album_of(&recipe, 40, 40 * 64 * 64 * 3);
    for (int i = 0; i < 40; i++) {
        gf_image m = place(&a, 64, 64);
        paint(&g, &m);
        add(&a, &(gf_view){.width = 64, .height = 64, .sigma = i < 20 ? 0.05 * (i + 1) : 5.0 * (i - 19)}, &m);
    }
    compare(&a, GF_TYPE_F32, 3);
    album_free(&a);
}

/* All 2^24 colours, 512 x 512 of them in a picture, through one operation each time. */
TEST(test_colours) {
    enum { SIDE = 512, VIEWS = 64 };
    static const double factor[][2] = {{0, 1.37}, {1, 0.61}, {2, 1.19}, {2, 0}, {3, 0.07}, {3, -0.5}, {3, 0.4999}};
    gf_augment recipe = recipe_of(SIDE);
    rng g = {11};
    for (size_t k = 0; k < sizeof factor / sizeof *factor; k++) {
        album a = album_of(&recipe, VIEWS, (size_t)VIEWS * SIDE * SIDE * 3);
        for (int i = 0; i < VIEWS; i++) {
            gf_image m = place(&a, SIDE, SIDE);
            for (int p = 0; p < SIDE * SIDE; p++) {
                const int colour = i * SIDE * SIDE + p;
                for (int c = 0; c < 3; c++) m.rgb[3 * p + c] = (uint8_t)(colour >> (8 * c));
            }
            gf_view v = {.width = SIDE, .height = SIDE, .jitter = 1, .order = {-1, -1, (int)factor[k][0], -1}, .gray = 0};
            v.factor[(int)factor[k][0]] = factor[k][1] + (k < 2 ? 1e-3 * between(&g, 0, 99) : 0);
            add(&a, &v, &m);
        }
        compare(&a, GF_TYPE_BF16, 3);
        album_free(&a);
    }
}

/* ----- batches ----- */

static struct {
    const gf_dataset_format *inner;
    int odd; /* one sample in so many is unreadable */
} flaky;

static glofnd_status flaky_read(gf_error *err, const gf_dataset *d, int64_t i, const gf_decode_hint *hint, gf_sample *out) {
    FAIL_IF(err, i % flaky.odd == 1, GLOFND_E_FORMAT, "sample %lld is corrupt", (long long)i);
    return flaky.inner->read(err, d, i, hint, out);
}

enum { BATCH = 24, STEPS = 12 };

static int reported;

static void count_unreadable(void *user, int64_t i, const char *message) {
    (void)user;
    assert_true(i % flaky.odd == 1 && strstr(message, "corrupt"));
    reported++;
}

static gf_loader *loader_of(const gf_loader_spec *spec) {
    gf_error err = {""};
    gf_loader *l = NULL;
    ok(gf_loader_create(&err, spec, &l), &err);
    return l;
}

/* Batches of the two loaders are the same: one makes views, the other feeds `f`, one batch ahead, as a trainer does. */
static void compare_batches(gf_loader *cpu, gf_loader *raw, gf_cuda_feed *f, int size) {
    gf_error err = {""};
    const size_t view = (size_t)BATCH * (size_t)size * (size_t)size * 3;
    float *device = NULL, *host = allocate(2 * view * sizeof *host);
    gf_batch a, b, next;
    assert_int_equal(cudaMalloc((void **)&device, 2 * view * sizeof *device), cudaSuccess);
    next.job = NULL;
    for (int step = 0; step < STEPS; step++) {
        ok(gf_loader_next(&err, cpu, &a), &err);
        const int before = reported;
        ok(gf_loader_next(&err, raw, &b), &err);
        assert_true(reported >= before && b.n == BATCH && b.step == a.step && b.epoch == a.epoch);
        if (next.job) assert_true(b.job == next.job);
        else ok(gf_cuda_feed_put(&err, f, b.job, b.pixels, b.pixel_chunks), &err);
        assert_memory_equal(a.id, b.id, BATCH * sizeof *a.id);
        assert_memory_equal(a.label, b.label, BATCH * sizeof *a.label);
        ok(gf_cuda_feed_take(&err, f, device), &err);
        ok(gf_loader_peek(&err, raw, &next), &err);
        if (next.job) ok(gf_cuda_feed_put(&err, f, next.job, next.pixels, next.pixel_chunks), &err);
        assert_int_equal(cudaMemcpy(host, device, 2 * view * sizeof *host, cudaMemcpyDeviceToHost), cudaSuccess);
        assert_memory_equal(host, a.view[0], view * sizeof *host);
        assert_memory_equal(host + view, a.view[1], view * sizeof *host);
    }
    cudaFree(device);
    free(host);
}

static void check_batches(const char *text, int size, int resident, int odd) {
    gf_error err = {""};
    gf_dataset *shapes = NULL, data;
    gf_preload *kept = NULL;
    ok(gf_dataset_open(&err, text, &shapes), &err);
    gf_dataset_format kind = *shapes->format;
    kind.read = flaky_read;
    flaky.inner = shapes->format;
    flaky.odd = odd;
    data = *shapes;
    data.format = &kind;
    gf_loader_spec spec = {.data = &data,
                           .augment = gf_augment_pretrain(size),
                           .views = 2,
                           .batch = BATCH,
                           .seed = 3,
                           .workers = 3,
                           .depth = 2,
                           .unreadable = count_unreadable};
    reported = 0;
    gf_loader *cpu = loader_of(&spec);
    gf_cuda_feed *f = feed_of(&spec.augment, 2 * BATCH, GF_TYPE_F32, 3);
    if (resident) {
        ok(gf_preload_load(&err, &data, 2, &kept), &err);
        ok(gf_cuda_feed_keep(&err, f, gf_preload_pixels(kept), (size_t)gf_preload_bytes(&data)), &err);
        gf_preload_drop_pixels(kept);
    }
    spec.pack = 1;
    spec.preload = kept;
    spec.alloc = gf_cuda_pinned_alloc;
    spec.release = gf_cuda_pinned_free;
    gf_loader *raw = loader_of(&spec);
    compare_batches(cpu, raw, f, size);
    assert_true(reported > 10 && reported % 2 == 0 && gf_loader_unreadable(cpu) == gf_loader_unreadable(raw));
    gf_cuda_feed_free(f);
    gf_loader_free(raw);
    gf_loader_free(cpu);
    gf_preload_free(kept);
    gf_dataset_free(shapes);
}

TEST(test_batches) {
    check_batches("shapes:n=100,classes=5,size=40,seed=3", 32, 1, 7);
    check_batches("shapes:n=100,classes=5,size=40,seed=3", 32, 0, 7);
    check_batches("shapes:n=60,classes=5,size=300,seed=3", 96, 0, 5);
    check_batches("shapes:n=60,classes=5,size=300,seed=3", 32, 0, 5); /* boxes that the workers must shrink */
}

TEST(test_refusals) {
    gf_error err = {""};
    const gf_augment large = recipe_of(600), small = recipe_of(8);
    float level[3][256];
    gf_cuda_feed *f = NULL;
    gf_augment_levels(&large, level);
    const gf_cuda_feed_spec spec = {.size = 600, .views = 2, .channels = 8, .level = level[0]};
    assert_int_equal(gf_cuda_feed_create(&err, &spec, &f), GLOFND_E_UNSUPPORTED);
    assert_null(f);
    f = feed_of(&small, 1, GF_TYPE_F32, 3);
    uint8_t pixels[65 * 65 * 3] = {0};
    const gf_pixels run = {.bytes = pixels, .used = sizeof pixels};
    gf_view_job j = {.stride = 65 * 3, .width = 65, .height = 65, .order = {-1, -1, -1, -1}, .radius = -1};
    assert_int_equal(gf_cuda_feed_put(&err, f, &j, &run, 1), GLOFND_E_ARGUMENT); /* more than 8 times as wide */
    j.width = j.height = 64;
    assert_int_equal(gf_cuda_feed_put(&err, f, &j, NULL, 0), GLOFND_E_ARGUMENT); /* pictures that were never kept */
    ok(gf_cuda_feed_put(&err, f, &j, &run, 1), &err);
    gf_cuda_feed_free(f);
}

/* A little of all, for sanitizers. */
TEST(test_quick) {
    check_random(32, 24, 32, 32, GF_TYPE_BF16, 8);
    check_random(33, 12, 1, 90, GF_TYPE_F32, 3);
    check_random(224, 6, 200, 400, GF_TYPE_BF16, 8);
    check_random(301, 3, 100, 400, GF_TYPE_BF16, 8);
}

TEST_NEEDS(no_cuda_device)
