/* augment.cu - time of the views of a batch on this GPU.
 *
 *     build/bench/cuda/augment
 *
 * Random pictures on the device, jobs drawn by the pretraining recipe: the fused kernel from pictures to 8-bit views, the kernel
 * that normalises them into a network's input (bf16, 8 channels), and a complete put + take with pictures copied from pinned
 * memory. Rows with a single operation show its share of the time. Last, the views per second that the loader's workers draw.
 * Medians of 30; GB/s counts the bytes of boxes, views and input, each once.
 */
#include <cuda_runtime.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern "C" {
#include "loader/loader.h"
#include "util/machine.h"
}
#include "loader/cuda/cuda_augment.h"
#include "loader/cuda/cuda_feed.h"

enum { RUNS = 30, EPOCHS = 4 };

static void die(const char *why) {
    fprintf(stderr, "augment: %s\n", why);
    exit(1);
}

static void must(cudaError_t e) {
    if (e != cudaSuccess) die(cudaGetErrorString(e));
}

static void ok(glofnd_status status, const gf_error *err) {
    if (status != GLOFND_OK) die(err->text);
}

typedef struct setting {
    const char *name;
    int size, views, width, height;
    int resident;
} setting;

typedef struct bench {
    setting s;
    gf_augment recipe;
    gf_view_job *jobs;         /* [EPOCHS][views] on the host */
    gf_pixels pixels;          /* pinned */
    size_t picture, box_bytes; /* of one picture; of all boxes of an epoch, in the mean */
    uint8_t *device, *out, *scratch;
    gf_view_job *there; /* jobs on the device */
    void *input;
    float *level;
} bench;

static void draw_jobs(bench *b) {
    gf_error err;
    const setting *s = &b->s;
    gf_image m;
    memset(&m, 0, sizeof m);
    m.width = s->width, m.height = s->height;
    b->box_bytes = 0;
    for (int i = 0; i < EPOCHS * s->views; i++) {
        const int view = i % s->views, sample = view % (s->views / 2);
        gf_rng r = gf_rng_at(1, GF_RNG_AUGMENT, (uint32_t)(i / s->views), (uint64_t)sample, (uint32_t)(view / (s->views / 2)));
        const gf_view v = gf_augment_draw(&b->recipe, &r, s->width, s->height);
        ok(gf_augment_job(&err, &v, &m, &b->jobs[i]), &err);
        b->jobs[i].at += (int64_t)sample * (int64_t)b->picture;
        b->box_bytes += 3 * (size_t)v.width * (size_t)v.height / EPOCHS;
    }
}

static bench open_bench(const setting *s) {
    bench b;
    memset(&b, 0, sizeof b);
    b.s = *s;
    b.recipe = gf_augment_pretrain(s->size);
    b.picture = 3 * (size_t)s->width * (size_t)s->height;
    b.jobs = (gf_view_job *)calloc((size_t)EPOCHS * (size_t)s->views, sizeof *b.jobs);
    b.pixels.used = b.pixels.capacity = b.picture * (size_t)(s->views / 2);
    b.pixels.bytes = (uint8_t *)gf_cuda_pinned_alloc(b.pixels.capacity);
    if (!b.jobs || !b.pixels.bytes) die("no memory");
    uint32_t noise = 1;
    for (size_t i = 0; i < b.pixels.used; i++) b.pixels.bytes[i] = (uint8_t)((noise = noise * 1664525u + 1013904223u) >> 24);
    size_t scratch = 0;
    if (!gf_cuda_augment_scratch(s->size, &scratch)) die("views of this size cannot be made here");
    float level[3][256];
    gf_augment_levels(&b.recipe, level);
    must(cudaMalloc((void **)&b.device, b.pixels.used));
    must(cudaMalloc((void **)&b.scratch, scratch + 1));
    must(cudaMalloc((void **)&b.out, (size_t)s->views * gf_cuda_view_bytes(s->size)));
    must(cudaMalloc((void **)&b.there, (size_t)EPOCHS * (size_t)s->views * sizeof *b.there));
    must(cudaMalloc(&b.input, (size_t)s->views * (size_t)(s->size * s->size) * 16));
    must(cudaMalloc((void **)&b.level, sizeof level));
    must(cudaMemcpy(b.level, level, sizeof level, cudaMemcpyHostToDevice));
    must(cudaMemcpy(b.device, b.pixels.bytes, b.pixels.used, cudaMemcpyHostToDevice));
    draw_jobs(&b);
    return b;
}

static void close_bench(bench *b) {
    gf_cuda_pinned_free(b->pixels.bytes);
    free(b->jobs);
    cudaFree(b->device), cudaFree(b->out), cudaFree(b->scratch), cudaFree(b->there), cudaFree(b->input), cudaFree(b->level);
}

static int by_size(const void *a, const void *b) {
    const float x = *(const float *)a, y = *(const float *)b;
    return x < y ? -1 : x > y;
}

static void make(const bench *b, int run) {
    gf_cuda_augment a;
    const gf_view_job *jobs = b->jobs + run % EPOCHS * b->s.views;
    memset(&a, 0, sizeof a);
    a.jobs = b->there + run % EPOCHS * b->s.views, a.pictures = b->device, a.out = b->out, a.scratch = b->scratch;
    a.views = b->s.views, a.size = b->s.size;
    for (int v = 0; v < b->s.views; v++) {
        if (jobs[v].width > a.widest) a.widest = jobs[v].width;
        if (jobs[v].height > a.tallest) a.tallest = jobs[v].height;
        a.blurred |= jobs[v].radius >= 0;
    }
    must(gf_cuda_augment_run(&a, NULL));
}

static void normalise(const bench *b, int run) {
    (void)run;
    must(gf_cuda_normalise(b->input, GF_TYPE_BF16, 8, b->out, b->s.views, b->s.size, b->level, NULL));
}

/* Median milliseconds. */
static double timed(const bench *b, void (*work)(const bench *, int)) {
    float ms[RUNS];
    cudaEvent_t from, to;
    must(cudaEventCreate(&from));
    must(cudaEventCreate(&to));
    for (int i = -3; i < RUNS; i++) {
        must(cudaEventRecord(from, NULL));
        work(b, i + 4);
        must(cudaEventRecord(to, NULL));
        must(cudaEventSynchronize(to));
        if (i >= 0) must(cudaEventElapsedTime(&ms[i], from, to));
    }
    cudaEventDestroy(from);
    cudaEventDestroy(to);
    qsort(ms, RUNS, sizeof *ms, by_size);
    return ms[RUNS / 2];
}

/* Milliseconds of a put and a take with nothing else to do, on the wall clock. */
static double whole(const bench *b) {
    gf_error err;
    float level[3][256], ms[RUNS];
    gf_cuda_feed *f = NULL;
    gf_augment_levels(&b->recipe, level);
    gf_cuda_feed_spec spec;
    memset(&spec, 0, sizeof spec);
    spec.size = b->s.size, spec.views = b->s.views, spec.type = GF_TYPE_BF16, spec.channels = 8, spec.level = level[0];
    ok(gf_cuda_feed_create(&err, &spec, &f), &err);
    if (b->s.resident) ok(gf_cuda_feed_keep(&err, f, b->pixels.bytes, b->pixels.used), &err);
    for (int i = -3; i < RUNS; i++) {
        const double from = gf_clock();
        const gf_view_job *jobs = b->jobs + (i + 4) % EPOCHS * b->s.views;
        ok(gf_cuda_feed_put(&err, f, jobs, &b->pixels, b->s.resident ? 0 : 1), &err);
        ok(gf_cuda_feed_take(&err, f, b->input), &err);
        must(cudaDeviceSynchronize());
        if (i >= 0) ms[i] = (float)(1e3 * (gf_clock() - from));
    }
    gf_cuda_feed_free(f);
    qsort(ms, RUNS, sizeof *ms, by_size);
    return ms[RUNS / 2];
}

static double upload(bench *b) {
    must(cudaMemcpy(b->there, b->jobs, (size_t)EPOCHS * (size_t)b->s.views * sizeof *b->jobs, cudaMemcpyHostToDevice));
    return timed(b, make);
}

static gf_augment plain(int size) {
    gf_augment a = gf_augment_pretrain(size);
    a.jitter_p = a.gray_p = a.blur_p = 0;
    return a;
}

/* One operation at a time, beside the resize. */
static void parts(bench *b) {
    static const char *const names[] = {"resize", "+ brightness", "+ contrast", "+ saturation", "+ hue", "+ gray", "+ blur"};
    for (int k = 0; k < 7; k++) {
        b->recipe = plain(b->s.size);
        double *const strength[] = {NULL, &b->recipe.brightness, &b->recipe.contrast, &b->recipe.saturation, &b->recipe.hue};
        b->recipe.jitter_p = k >= 1 && k <= 4;
        for (int i = 1; i <= 4; i++)
            if (i != k) *strength[i] = 0;
        b->recipe.gray_p = k == 5;
        b->recipe.blur_p = k == 6;
        draw_jobs(b);
        printf("    %-14s %8.4f ms\n", names[k], upload(b));
    }
}

/* Samples per second that a loader can draw and describe where all images are on the device. */
static double draw_rate(int workers) {
    gf_error err;
    gf_dataset *data = NULL;
    gf_preload *kept = NULL;
    gf_loader *loader = NULL;
    gf_loader_spec spec;
    gf_batch b;
    int64_t samples = 0;
    ok(gf_dataset_open(&err, "shapes:n=4096,classes=10,size=32", &data), &err);
    ok(gf_preload_load(&err, data, 8, &kept), &err);
    memset(&spec, 0, sizeof spec);
    spec.data = data, spec.augment = gf_augment_pretrain(32), spec.views = 2, spec.batch = 256;
    spec.workers = workers, spec.depth = 2, spec.pack = 1, spec.preload = kept;
    ok(gf_loader_create(&err, &spec, &loader), &err);
    ok(gf_loader_next(&err, loader, &b), &err);
    const double from = gf_clock();
    for (; gf_clock() - from < 0.5; samples += b.n) ok(gf_loader_next(&err, loader, &b), &err);
    const double rate = (double)samples / (gf_clock() - from);
    gf_loader_free(loader);
    gf_preload_free(kept);
    gf_dataset_free(data);
    return rate;
}

static void run(const setting *s) {
    bench b = open_bench(s);
    const double views = s->views, pixels = views * s->size * s->size;
    const double make_ms = upload(&b), in_ms = timed(&b, normalise), whole_ms = whole(&b);
    printf("%-28s %4d views  kernel %7.4f ms %6.0f GB/s   normalise %7.4f ms %6.0f GB/s   both %10.0f views/s   "
           "put + take %7.3f ms\n",
           s->name, s->views, make_ms, ((double)b.box_bytes + 3 * pixels) / make_ms * 1e-6, in_ms, 19 * pixels / in_ms * 1e-6,
           1e3 * views / (make_ms + in_ms), whole_ms);
    parts(&b);
    close_bench(&b);
}

int main(void) {
    static const setting settings[] = {
        {"32 px of 32 x 32, resident", 32, 512, 32, 32, 1}, {"32 px of 32 x 32, resident", 32, 2048, 32, 32, 1},
        {"96 px of 96 x 96", 96, 512, 96, 96, 0},           {"224 px of 500 x 375", 224, 256, 500, 375, 0},
        {"224 px of 1000 x 750", 224, 256, 1000, 750, 0},   {"384 px of 500 x 375", 384, 128, 500, 375, 0},
    };
    int devices = 0;
    if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) die("no CUDA device");
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) run(&settings[i]);
    for (int workers = 1; workers <= 16; workers *= 2)
        printf("loader, resident, %2d workers: %.0f views/s drawn\n", workers, 2 * draw_rate(workers));
    return 0;
}
