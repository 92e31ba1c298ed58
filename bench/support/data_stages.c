/* data_stages.c - see data_stages.h. What a stage takes is the difference between views with and without it. */
#include "support/data_stages.h"

#include <stdio.h>
#include <stdlib.h>

#include "data/formats/shapes.h"
#include "loader/loader.h"
#include "support/clock.h"
#include "support/die.h"
#include "support/machine.h"

enum { VIEWS = 2, STAGES = 3 }; /* plain, with colour, with blur as well */

typedef struct bench {
    const gf_augment *a;
    gf_augment_scratch *scratch;
    gf_image image;
    float *out;
    int pass, item;               /* keys of the views */
    double decode, stage[STAGES]; /* seconds in this pass */
    clock_times decodes, stages[STAGES], totals;
} bench;

static bench *bench_new(const gf_augment *a) {
    gf_error err = {""};
    bench *b = calloc(1, sizeof *b);
    if (!b) die("no memory");
    b->a = a;
    b->out = malloc(sizeof *b->out * 3 * (size_t)a->size * (size_t)a->size);
    if (!b->out) die("no memory");
    if (gf_augment_scratch_create(&err, a, &b->scratch) != GLOFND_OK) die("%s", err.text);
    return b;
}

static void bench_free(bench *b) {
    gf_augment_scratch_free(b->scratch);
    gf_image_free(&b->image);
    free(b->out);
    free(b);
}

static gf_view view_of(const bench *b, int v, int width, int height) {
    gf_rng r = gf_rng_at(1, GF_RNG_AUGMENT, (uint32_t)b->pass, (uint64_t)b->item, (uint32_t)v);
    return gf_augment_draw(b->a, &r, width, height);
}

static gf_region choose(void *user, int width, int height, int *by) {
    const bench *b = user;
    const gf_view views[VIEWS] = {view_of(b, 0, width, height), view_of(b, 1, width, height)};
    return gf_augment_region(b->a, views, VIEWS, by);
}

static void time_views(bench *b, const gf_image *image) {
    for (int stage = 0; stage < STAGES; stage++) {
        const double start = seconds();
        for (int v = 0; v < VIEWS; v++) {
            gf_view view = view_of(b, v, gf_image_full_width(image), gf_image_full_height(image));
            gf_error err = {""};
            if (stage < 2) view.sigma = 0;
            if (stage < 1) view.jitter = view.gray = 0;
            if (gf_augment_apply(&err, b->a, &view, image, b->scratch, b->out, NULL) != GLOFND_OK) die("%s", err.text);
        }
        b->stage[stage] += seconds() - start;
    }
    b->item++;
}

static void end_pass(bench *b) {
    const double ms = 1e3 / b->item;
    clock_add(&b->decodes, ms * b->decode);
    for (int i = 0; i < STAGES; i++) clock_add(&b->stages[i], ms * b->stage[i]);
    clock_add(&b->totals, ms * (b->decode + b->stage[STAGES - 1]));
    b->decode = b->stage[0] = b->stage[1] = b->stage[2] = 0;
    b->item = 0;
    b->pass++;
}

static data_times times_of(bench *b) {
    const double plain = clock_median(&b->stages[0]), colour = clock_median(&b->stages[1]), all = clock_median(&b->stages[2]);
    return (data_times){
        .decode = clock_median(&b->decodes),
        .resize = plain,
        .colour = colour - plain,
        .blur = all - colour,
        .total = clock_median(&b->totals),
        .spread = clock_spread(&b->totals),
        .passes = b->pass,
    };
}

data_times data_time_files(const data_files *f, const gf_augment *a, int fast, double budget_s) {
    bench *b = bench_new(a);
    const gf_decode_hint hint = {.fast = fast, .shrink_to = gf_augment_enough(a), .choose = choose, .user = b};
    const double begin = seconds();
    for (int pass = 0; pass < 3 || seconds() - begin < budget_s; pass++) {
        for (int i = 0; i < f->count; i++) {
            gf_error err = {""};
            const double start = seconds();
            if (gf_image_decode(&err, "file", f->bytes[i], f->size[i], &hint, &b->image) != GLOFND_OK) die("%s", err.text);
            b->decode += seconds() - start;
            time_views(b, &b->image);
        }
        end_pass(b);
    }
    const data_times t = times_of(b);
    bench_free(b);
    return t;
}

data_times data_time_small(const gf_augment *a, int images, double budget_s) {
    bench *b = bench_new(a);
    const size_t bytes = (size_t)3 * (size_t)a->size * (size_t)a->size;
    uint8_t *rgb = malloc(bytes * (size_t)images);
    if (!rgb) die("no memory");
    for (int i = 0; i < images; i++) {
        const gf_scene scene = gf_scene_make(1, 0, i, i % GF_SHAPES, i % GF_TEXTURES);
        gf_scene_draw(&scene, a->size, rgb + bytes * (size_t)i);
    }
    const double begin = seconds();
    for (int pass = 0; pass < 3 || seconds() - begin < budget_s; pass++) {
        for (int i = 0; i < images; i++) {
            const gf_image image = {.width = a->size, .height = a->size, .rgb = rgb + bytes * (size_t)i};
            time_views(b, &image);
        }
        end_pass(b);
    }
    const data_times t = times_of(b);
    bench_free(b);
    free(rgb);
    return t;
}

double data_time_loader(const data_files *f, const gf_augment *a, int fast, int workers, double budget_s) {
    gf_error err = {""};
    gf_dataset *data;
    gf_loader *loader;
    gf_batch batch;
    char spec[600];
    int64_t images = 0;
    snprintf(spec, sizeof spec, "folder:%s?split=all", f->folder);
    if (gf_dataset_open(&err, spec, &data) != GLOFND_OK) die("%s", err.text);
    const gf_loader_spec s = {.data = data,
                              .augment = *a,
                              .views = VIEWS,
                              .batch = f->count < 16 ? f->count : 16,
                              .seed = 1,
                              .workers = workers,
                              .depth = 2,
                              .fast = fast,
                              .strict = 1};
    if (gf_loader_create(&err, &s, &loader) != GLOFND_OK) die("%s", err.text);
    if (gf_loader_next(&err, loader, &batch) != GLOFND_OK) die("%s", err.text);
    const double begin = seconds();
    while (seconds() - begin < budget_s) {
        if (gf_loader_next(&err, loader, &batch) != GLOFND_OK) die("%s", err.text);
        images += batch.n;
    }
    const double rate = (double)images / (seconds() - begin);
    gf_loader_free(loader);
    gf_dataset_free(data);
    return rate;
}
