/* cuda_decode.c - JPEG files decoded on CUDA by nvJPEG: pixels against those of libjpeg, the same bits in every run and in every
 * batch, and complete batches through loader, decoder and feed, with files among them that are for the CPU, or damaged.
 * Skipped where nvJPEG is missing.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cuda_runtime_api.h>
#include <jpeglib.h>

#include "cuda/cuda_device.h"
#include "image/image.h"
#include "loader/cuda/cuda_feed.h"
#include "loader/loader.h"
#include "support/cuda_main.h"
#include "support/scratch.h"

enum { KINDS = 4, EACH = 16, FILES = KINDS * EACH, SLOTS = 3, BATCH = 16, SIZE = 64, STEPS = 5 };

static void ok(glofnd_status status, const gf_error *err) {
    if (status != GLOFND_OK) fail_msg("%s", err->text);
}

/* ----- files ----- */

static const int sampling[KINDS][2] = {{1, 1}, {2, 1}, {2, 2}, {1, 2}};

/* Smooth, as most of a photo is: colours at half resolution are interpolated by rules that differ between decoders at edges. */
static uint8_t level(int x, int y, int c, int i) {
    const int phase = (x * (3 + c) + y * (5 - c) + 17 * i) % 400;
    return (uint8_t)(30 + (phase < 200 ? phase : 400 - phase) * 9 / 10);
}

static uint8_t *encode(int i, int kind, int progressive, unsigned long *size) {
    struct jpeg_compress_struct c = {0};
    struct jpeg_error_mgr report;
    uint8_t *bytes = NULL;
    c.err = jpeg_std_error(&report);
    *size = 0;
    jpeg_create_compress(&c);
    jpeg_mem_dest(&c, &bytes, size);
    c.image_width = (JDIMENSION)(150 + 7 * i);
    c.image_height = (JDIMENSION)(420 - 5 * i);
    c.input_components = 3;
    c.in_color_space = JCS_RGB;
    jpeg_set_defaults(&c);
    jpeg_set_quality(&c, 92, TRUE);
    c.comp_info[0].h_samp_factor = sampling[kind][0];
    c.comp_info[0].v_samp_factor = sampling[kind][1];
    if (progressive) jpeg_simple_progression(&c);
    uint8_t *row = malloc(3 * (size_t)c.image_width);
    assert_non_null(row);
    jpeg_start_compress(&c, TRUE);
    for (int y = 0; y < (int)c.image_height; y++) {
        JSAMPROW rows[1] = {row};
        for (int x = 0; x < (int)c.image_width; x++)
            for (int k = 0; k < 3; k++) row[3 * x + k] = level(x, y, k, i);
        jpeg_write_scanlines(&c, rows, 1);
    }
    jpeg_finish_compress(&c);
    jpeg_destroy_compress(&c);
    free(row);
    return bytes;
}

/* ----- pixels ----- */

typedef struct pile {
    gf_encoded image[FILES];
    uint8_t *file[FILES];
    gf_image exact[FILES];
    size_t bytes;
} pile;

static pile p;
static gf_cuda_decoder *decoder;

static void make_pile(void) {
    gf_error err = {""};
    for (int i = 0; i < FILES; i++) {
        unsigned long size;
        uint8_t *bytes = encode(i, i / EACH, 0, &size);
        gf_plain_jpeg plain;
        assert_true(gf_jpeg_is_plain(bytes, size, &plain));
        ok(gf_image_decode(&err, "file", bytes, size, NULL, &p.exact[i]), &err);
        p.file[i] = malloc(plain.size);
        assert_non_null(p.file[i]);
        gf_jpeg_write_plain(&plain, bytes, p.file[i]);
        p.image[i] = (gf_encoded){
            .bytes = p.file[i], .size = plain.size, .width = plain.width, .height = plain.height, .at = p.bytes, .failed = 1};
        p.bytes += (3 * (size_t)plain.width * (size_t)plain.height + GF_DECODER_ALIGN - 1) / GF_DECODER_ALIGN * GF_DECODER_ALIGN;
        free(bytes);
    }
}

static glofnd_status open_decoder(gf_error *err) {
    const gf_cuda_decoder_probe probe = {.jpeg = p.file[0],
                                         .size = p.image[0].size,
                                         .width = p.image[0].width,
                                         .height = p.image[0].height,
                                         .rgb = p.exact[0].rgb};
    return gf_cuda_decoder_create(err, SLOTS, &probe, &decoder);
}

static int close_all(void **state) {
    gf_cuda_decoder_free(decoder);
    for (int i = 0; i < FILES; i++) {
        free(p.file[i]);
        gf_image_free(&p.exact[i]);
    }
    return remove_box(state);
}

static uint8_t *decode(int slot, gf_encoded *image, int64_t count) {
    gf_error err = {""};
    const gf_batch_decoder *d = gf_cuda_decoder_calls(decoder);
    size_t bytes;
    ok(d->decode(&err, d->user, slot, image, count, p.bytes), &err);
    ok(d->upload(&err, d->user, slot, NULL, 0, p.bytes), &err);
    const uint8_t *there = gf_cuda_decoder_memory(decoder, slot, &bytes);
    uint8_t *rgb = malloc(p.bytes);
    assert_true(rgb && bytes == p.bytes);
    assert_int_equal(cudaMemcpy(rgb, there, bytes, cudaMemcpyDeviceToHost), cudaSuccess);
    return rgb;
}

TEST(test_pixels) {
    uint8_t *rgb = decode(0, p.image, FILES);
    double mean = 0;
    int most = 0;
    for (int kind = 0; kind < KINDS; kind++) {
        double sum = 0, count = 0;
        int max = 0;
        for (int i = kind * EACH; i < (kind + 1) * EACH; i++) {
            const size_t n = 3 * (size_t)p.image[i].width * (size_t)p.image[i].height;
            assert_false(p.image[i].failed);
            for (size_t k = 0; k < n; k++) {
                const int difference = abs((int)rgb[p.image[i].at + k] - (int)p.exact[i].rgb[k]);
                sum += difference;
                max = difference > max ? difference : max;
            }
            count += (double)n;
        }
        print_message("%d x %d: mean difference %.3f levels, max %d\n", sampling[kind][0], sampling[kind][1], sum / count, max);
        mean = sum / count > mean ? sum / count : mean;
        most = max > most ? max : most;
    }
    free(rgb);
    assert_true(mean <= 1.0 && most <= 3);
}

/* The same bits in another slot, in a second run, and for images in smaller batches. */
TEST(test_repeats) {
    static gf_encoded few[FILES];
    uint8_t *first = decode(0, p.image, FILES), *second = decode(1, p.image, FILES);
    for (int i = 0; i < FILES; i++) {
        few[i] = p.image[i];
        if (i % 3 == 0) few[i].size = 0;
    }
    uint8_t *third = decode(2, few, FILES);
    for (int i = 0; i < FILES; i++) {
        const size_t at = p.image[i].at, n = 3 * (size_t)p.image[i].width * (size_t)p.image[i].height;
        assert_memory_equal(first + at, second + at, n);
        if (few[i].size) assert_memory_equal(first + at, third + at, n);
    }
    free(first);
    free(second);
    free(third);
}

/* ----- batches ----- */

enum { PROGRESSIVE = 5, CUT = 9 };

static void write_files(void) {
    for (int i = 0; i < FILES; i++) {
        unsigned long size;
        uint8_t *bytes = encode(i, 2, i % 16 == PROGRESSIVE, &size);
        char name[32];
        snprintf(name, sizeof name, "a/%03d.jpg", i);
        scratch_write(&box, name, bytes, i == CUT ? size / 2 : size);
        free(bytes);
    }
}

static void count_unreadable(void *user, int64_t i, const char *message) {
    assert_true(i == CUT && strstr(message, "JPEG cut short"));
    ++*(int *)user;
}

typedef struct stage { /* loader with decoder and feed */
    gf_loader *loader;
    gf_cuda_feed *feed;
    int reported;
    uint8_t *views; /* [2 BATCH][SIZE][SIZE][3] */
} stage;

static gf_augment recipe(void) {
    gf_augment a = gf_augment_pretrain(SIZE);
    a.scale_min = 0.5;
    return a;
}

static void open_stage(stage *s, const gf_dataset *d, int workers) {
    gf_error err = {""};
    float levels[3][256];
    const gf_augment a = recipe();
    gf_loader_spec spec = {.data = d,
                           .augment = a,
                           .views = 2,
                           .batch = BATCH,
                           .seed = 3,
                           .workers = workers,
                           .depth = SLOTS - 1,
                           .unreadable = count_unreadable,
                           .user = &s->reported,
                           .pack = 1,
                           .alloc = gf_cuda_pinned_alloc,
                           .release = gf_cuda_pinned_free,
                           .decoder = gf_cuda_decoder_calls(decoder)};
    gf_augment_levels(&a, levels);
    const gf_cuda_feed_spec feed = {.size = SIZE, .views = 2 * BATCH, .channels = 3, .level = levels[0]};
    *s = (stage){.views = malloc((size_t)2 * BATCH * SIZE * SIZE * 3)};
    assert_non_null(s->views);
    ok(gf_cuda_feed_create(&err, &feed, &s->feed), &err);
    ok(gf_loader_create(&err, &spec, &s->loader), &err);
}

static void close_stage(stage *s) {
    gf_cuda_feed_wait(s->feed);
    gf_loader_free(s->loader);
    gf_cuda_feed_free(s->feed);
    free(s->views);
}

static void next(stage *s, gf_batch *b) {
    gf_error err = {""};
    ok(gf_loader_next(&err, s->loader, b), &err);
    assert_true(b->decoded);
    ok(gf_cuda_feed_put_decoded(&err, s->feed, b->job, decoder, b->slot), &err);
    ok(gf_cuda_feed_bytes(&err, s->feed, s->views), &err);
}

/* The views of the CPU, about; all of them twice, with other numbers of workers, to the bit. */
TEST(test_batches) {
    enum { BYTES = 2 * BATCH * SIZE * SIZE * 3 };
    gf_error err = {""};
    gf_dataset *d;
    char text[200];
    uint8_t *kept = malloc((size_t)STEPS * BYTES);
    assert_non_null(kept);
    write_files();
    snprintf(text, sizeof text, "folder:%s?split=all", box.folder);
    ok(gf_dataset_open(&err, text, &d), &err);
    int reported = 0, of_cpu = 0;
    const gf_loader_spec plain = {.data = d,
                                  .augment = recipe(),
                                  .views = 2,
                                  .batch = BATCH,
                                  .seed = 3,
                                  .workers = 2,
                                  .depth = 2,
                                  .unreadable = count_unreadable,
                                  .user = &of_cpu};
    gf_loader *cpu;
    float levels[3][256];
    gf_augment_levels(&plain.augment, levels);
    ok(gf_loader_create(&err, &plain, &cpu), &err);
    for (int run = 0; run < 2; run++) {
        stage s;
        open_stage(&s, d, run ? 1 : 4);
        for (int step = 0; step < STEPS; step++) {
            gf_batch b, a;
            double sum = 0;
            next(&s, &b);
            if (run) assert_memory_equal(s.views, kept + (size_t)step * BYTES, BYTES);
            memcpy(kept + (size_t)step * BYTES, s.views, BYTES);
            if (run) continue;
            ok(gf_loader_next(&err, cpu, &a), &err);
            assert_memory_equal(a.id, b.id, BATCH * sizeof *a.id);
            for (int i = 0; i < BYTES; i++) {
                const int v = i / (BYTES / 2);
                const float here = levels[i % 3][s.views[i]], there = a.view[v][i - v * (BYTES / 2)];
                const float difference = here > there ? here - there : there - here;
                sum += (double)difference / (double)(levels[i % 3][1] - levels[i % 3][0]);
            }
            print_message("views of step %d: mean difference %.3f levels\n", step, sum / BYTES);
            assert_true(sum / BYTES <= 1.5);
        }
        reported += s.reported;
        close_stage(&s);
    }
    assert_true(of_cpu > 0 && reported == 2 * of_cpu);
    gf_loader_free(cpu);
    gf_dataset_free(d);
    free(kept);
}

static const char *no_decoder(void) {
    static gf_error err;
    const char *reason = no_cuda_device();
    if (reason) return reason;
    make_pile();
    if (open_decoder(&err) != GLOFND_OK) return err.text;
    printf("%s\n", gf_cuda_decoder_name(decoder));
    return NULL;
}

TEST_NEEDS(no_decoder)
TEST_GROUP(make_box, close_all)
