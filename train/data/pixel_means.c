/* pixel_means.c - see pixel_means.h.
 *
 * A cell covers 1/8 of each side, so its edges may cut pixels. Lengths are counted in eighths of a pixel: pixel p covers
 * [8 p, 8 p + 8), cell k of a side with n pixels covers [k n, (k + 1) n). All of it is integers, and no image is too small. */
#include "data/pixel_means.h"

#include <stdlib.h>
#include <string.h>

#include "util/array.h"

enum { CELLS = GF_PIXEL_CELLS, MEANS = GF_PIXEL_MEANS, CHUNK = 1024 };

/* Eighths of pixel p that lie in cell k. */
static int64_t overlap(int64_t p, int64_t k, int64_t n) {
    const int64_t from = GF_MAX(CELLS * p, k * n), to = GF_MIN(CELLS * (p + 1), (k + 1) * n);
    return GF_MAX(to - from, 0);
}

void gf_pixel_means(const gf_image *m, float *row) {
    const int64_t width = m->width, height = m->height;
    int64_t sum[MEANS] = {0}, total = 0;
    for (int64_t y = 0; y < height; y++) {
        const uint8_t *pixel = m->rgb + (size_t)y * (size_t)width * 3;
        int64_t line[CELLS * 3] = {0};
        for (int64_t x = 0; x < width; x++, pixel += 3)
            for (int64_t k = CELLS * x / width; k < CELLS && k * width < CELLS * (x + 1); k++) {
                const int64_t part = overlap(x, k, width);
                for (int c = 0; c < 3; c++) line[3 * k + c] += part * pixel[c];
            }
        for (int64_t k = CELLS * y / height; k < CELLS && k * height < CELLS * (y + 1); k++) {
            const int64_t part = overlap(y, k, height);
            for (int c = 0; c < CELLS * 3; c++) sum[k * CELLS * 3 + c] += part * line[c];
        }
    }
    for (int i = 0; i < MEANS; i++) total += sum[i];
    for (int i = 0; i < MEANS; i++)
        row[i] = (float)((double)(MEANS * sum[i] - total) / ((double)MEANS * (double)width * (double)height));
}

typedef struct means_work {
    const gf_dataset *d;
    gf_sample *sample; /* [threads] */
    int64_t first;     /* of the chunk */
    gf_error *why;     /* [CHUNK] */
    glofnd_status *status;
    float *x;
} means_work;

static void make_row(void *arg, int64_t task, int thread) {
    const means_work *w = arg;
    const int64_t i = w->first + task;
    gf_sample *s = &w->sample[thread];
    float *row = w->x + i * MEANS;
    w->status[task] = gf_dataset_read(&w->why[task], w->d, i, NULL, s);
    if (w->status[task] == GLOFND_OK) gf_pixel_means(&s->image, row);
    else memset(row, 0, MEANS * sizeof *row);
}

static glofnd_status make_rows(gf_error *err, const gf_pixel_means_job *job, means_work *w) {
    const int64_t n = gf_dataset_describe(w->d).n;
    for (w->first = 0; w->first < n; w->first += CHUNK) {
        const int64_t count = GF_MIN(CHUNK, n - w->first);
        FAIL_IF(err, gf_job_stopped(&job->watch), GLOFND_E_CANCELLED, "stopped");
        gf_parallel(job->threads, count, make_row, w);
        for (int64_t k = 0; k < count; k++) {
            const glofnd_status status = w->status[k];
            if (status == GLOFND_OK) continue;
            if (status != GLOFND_E_FORMAT && status != GLOFND_E_IO) return gf_fail(err, status, "%s", w->why[k].text);
            if (job->unreadable) job->unreadable(job->user, w->first + k, w->why[k].text);
        }
        gf_job_report(&job->watch, (double)(w->first + count) / (double)n);
    }
    return GLOFND_OK;
}

glofnd_status gf_dataset_pixel_means(gf_error *err, const gf_dataset *d, const gf_pixel_means_job *job, float *x) {
    means_work w = {.d = d,
                    .sample = calloc((size_t)job->threads, sizeof *w.sample),
                    .why = calloc(CHUNK, sizeof *w.why),
                    .status = calloc(CHUNK, sizeof *w.status),
                    .x = x};
    const glofnd_status status =
        w.sample && w.why && w.status ? make_rows(err, job, &w) : gf_fail(err, GLOFND_E_MEMORY, "no memory to read images");
    for (int t = 0; w.sample && t < job->threads; t++) gf_sample_free(&w.sample[t]);
    free(w.sample);
    free(w.why);
    free(w.status);
    return status;
}
