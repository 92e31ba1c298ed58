/* preload.c - see loader.h. */
#include "loader/loader.h"

#include <stdlib.h>
#include <string.h>

#include "util/parallel.h"

enum { CHUNK = 64 }; /* samples read at a time by one thread */

typedef struct failure {
    glofnd_status status;
    gf_error why;
} failure;

struct gf_preload {
    const gf_dataset *data;
    gf_dataset_info info;
    uint8_t *pixels;
    uint64_t *hash;    /* [n] */
    failure **failed;  /* [n] NULL: readable */
    gf_sample *sample; /* [threads] while reading */
};

int64_t gf_preload_bytes(const gf_dataset *d) {
    const gf_dataset_info info = gf_dataset_describe(d);
    if (info.width < 1 || info.height < 1 || info.width > GF_IMAGE_SIDE_MAX || info.height > GF_IMAGE_SIDE_MAX) return 0;
    const int64_t image = (int64_t)info.width * info.height * 3;
    return info.n > INT64_MAX / image ? INT64_MAX : info.n * image;
}

static glofnd_status read_one(gf_error *err, const gf_preload *r, gf_sample *sample, int64_t i, uint8_t *to) {
    const int width = r->info.width, height = r->info.height;
    TRY(gf_dataset_read(err, r->data, i, NULL, sample));
    FAIL_IF(err, sample->image.width != width || sample->image.height != height, GLOFND_E_FORMAT,
            "sample %lld has %d x %d pixels, while the dataset has %d x %d", (long long)i, sample->image.width,
            sample->image.height, width, height);
    memcpy(to, sample->image.rgb, (size_t)width * (size_t)height * 3);
    r->hash[i] = gf_sample_image_hash(sample);
    return GLOFND_OK;
}

/* Stands for a failure that there was no memory to keep. */
static failure no_memory = {GLOFND_E_MEMORY, {"no memory to note an unreadable sample"}};

static void read_chunk(void *arg, int64_t task, int thread) {
    gf_preload *r = arg;
    const size_t image = (size_t)r->info.width * (size_t)r->info.height * 3;
    const int64_t begin = task * CHUNK, end = begin + CHUNK < r->info.n ? begin + CHUNK : r->info.n;
    for (int64_t i = begin; i < end; i++) {
        failure t = {GLOFND_OK, {""}};
        t.status = read_one(&t.why, r, &r->sample[thread], i, r->pixels + (size_t)i * image);
        if (t.status == GLOFND_OK) continue;
        failure *kept = malloc(sizeof *kept);
        if (kept) *kept = t;
        r->failed[i] = kept ? kept : &no_memory;
    }
}

static glofnd_status read_all(gf_error *err, gf_preload *r, int threads) {
    const size_t n = (size_t)r->info.n, bytes = (size_t)gf_preload_bytes(r->data);
    r->pixels = calloc(bytes, 1);
    r->hash = calloc(n, sizeof *r->hash);
    r->failed = calloc(n, sizeof *r->failed);
    r->sample = calloc((size_t)threads, sizeof *r->sample);
    FAIL_IF(err, !r->pixels || !r->hash || !r->failed || !r->sample, GLOFND_E_MEMORY, "no memory for all %zu images (%zu bytes)",
            n, bytes);
    gf_parallel(threads, (r->info.n + CHUNK - 1) / CHUNK, read_chunk, r);
    for (int i = 0; i < threads; i++) gf_sample_free(&r->sample[i]);
    for (size_t i = 0; i < n; i++) {
        const failure *t = r->failed[i];
        FAIL_IF(err, t && t->status != GLOFND_E_FORMAT && t->status != GLOFND_E_IO, t->status, "%s", t->why.text);
    }
    return GLOFND_OK;
}

glofnd_status gf_preload_load(gf_error *err, const gf_dataset *d, int threads, gf_preload **out) {
    gf_preload *r = calloc(1, sizeof *r);
    *out = NULL;
    FAIL_IF(err, !r, GLOFND_E_MEMORY, "no memory for a dataset");
    r->data = d;
    r->info = gf_dataset_describe(d);
    const glofnd_status status = read_all(err, r, threads);
    if (status == GLOFND_OK) *out = r;
    else gf_preload_free(r);
    return status;
}

void gf_preload_free(gf_preload *r) {
    if (!r) return;
    for (int64_t i = 0; r->failed && i < r->info.n; i++) {
        if (r->failed[i] != &no_memory) free(r->failed[i]);
    }
    free(r->failed);
    free(r->sample);
    free(r->pixels);
    free(r->hash);
    free(r);
}

const uint8_t *gf_preload_pixels(const gf_preload *r) { return r->pixels; }

void gf_preload_drop_pixels(gf_preload *r) {
    free(r->pixels);
    r->pixels = NULL;
}

glofnd_status gf_preload_status(gf_error *err, const gf_preload *r, int64_t i) {
    const failure *t = r->failed[i];
    FAIL_IF(err, t, t->status, "%s", t->why.text);
    return GLOFND_OK;
}

uint64_t gf_preload_hash(const gf_preload *r, int64_t i) { return r->hash[i]; }

void gf_preload_size(const gf_preload *r, int *width, int *height) {
    *width = r->info.width;
    *height = r->info.height;
}
