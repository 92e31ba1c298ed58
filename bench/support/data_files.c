/* data_files.c - see data_files.h. */
#include "support/data_files.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "data/formats/shapes.h"
#include "image/image.h"
#include "io/file.h"
#include "support/die.h"
#include "util/parallel.h"

enum { WIDTH = 500, HEIGHT = 375, QUALITY = 90 };

/* ---- drawing ---- */

static float lattice(uint32_t x, uint32_t y, uint32_t seed) { /* -1 .. 1 */
    uint32_t h = (x * 0x9E3779B1u) ^ (y * 0x85EBCA77u) ^ (seed * 0xC2B2AE3Du);
    h = (h ^ (h >> 15)) * 0x2C1B3C6Du;
    h = (h ^ (h >> 12)) * 0x297A2D39u;
    return (float)(h >> 8) / 8388608.0f - 1.0f;
}

/* Noise whose values, `cell` pixels apart, are joined by straight lines. */
static float noise(int x, int y, int cell, uint32_t seed) {
    const uint32_t left = (uint32_t)(x / cell), top = (uint32_t)(y / cell);
    const float u = (float)(x % cell) / (float)cell, v = (float)(y % cell) / (float)cell;
    const float above = lattice(left, top, seed) * (1 - u) + lattice(left + 1, top, seed) * u;
    const float below = lattice(left, top + 1, seed) * (1 - u) + lattice(left + 1, top + 1, seed) * u;
    return above * (1 - v) + below * v;
}

/* Amplitudes fall with the scale, as in photos; one noise for all colours, since photos differ mostly in light. */
static void add_noise(gf_image *m, uint32_t seed) {
    for (int y = 0; y < m->height; y++) {
        for (int x = 0; x < m->width; x++) {
            uint8_t *p = m->rgb + 3 * ((size_t)y * (size_t)m->width + (size_t)x);
            float sum = 0;
            for (int cell = 64, amplitude = 32; cell >= 1; cell /= 2, amplitude = amplitude * 3 / 4)
                sum += (float)amplitude * noise(x, y, cell, seed + (uint32_t)cell);
            for (int c = 0; c < 3; c++) {
                const float level = (float)p[c] + sum + 6 * noise(x, y, 16, seed + 100 + (uint32_t)c);
                p[c] = (uint8_t)(level < 0 ? 0 : level > 255 ? 255 : level);
            }
        }
    }
}

/* The middle of a square drawing. */
static void draw_picture(gf_image *m, int i, int width, int height) {
    const int side = width > height ? width : height;
    const size_t left = (size_t)(side - width) / 2, top = (size_t)(side - height) / 2, row = 3 * (size_t)width;
    int shape, texture;
    uint8_t *square = malloc((size_t)3 * (size_t)side * (size_t)side);
    if (!square || gf_image_resize(NULL, m, width, height) != GLOFND_OK) die("no memory");
    gf_shapes_class(i % GF_SHAPE_CLASSES, &shape, &texture);
    const gf_scene scene = gf_scene_make(1, 0, i, shape, texture);
    gf_scene_draw(&scene, side, square);
    for (size_t y = 0; y < (size_t)height; y++) memcpy(m->rgb + y * row, square + 3 * ((top + y) * (size_t)side + left), row);
    free(square);
    add_noise(m, (uint32_t)i * 1000);
}

static void path_of(const data_files *f, const char *name, char *out, size_t capacity) {
    if (snprintf(out, capacity, "%s/%s", f->folder, name) >= (int)capacity) die("a path is too long");
}

static void write_file(const char *path, const uint8_t *bytes, size_t size) {
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(bytes, 1, size, file) != size || fclose(file) != 0) die("cannot write %s", path);
}

static void take(data_files *f, uint8_t *bytes, size_t size, int width, int height) {
    const double n = f->count + 1;
    f->bytes[f->count] = bytes;
    f->size[f->count] = size;
    f->mean_bytes += ((double)size - f->mean_bytes) / n;
    f->mean_width += (width - f->mean_width) / n;
    f->mean_height += (height - f->mean_height) / n;
    f->count++;
}

void data_files_draw(data_files *f, int count) {
    gf_error err = {""};
    gf_image m = {0};
    const char *parent = getenv("TMPDIR");
    *f = (data_files){.drawn = 1};
    snprintf(f->folder, sizeof f->folder, "%s/glofnd-bench-XXXXXX", parent ? parent : "/tmp");
    if (!mkdtemp(f->folder)) die("no temporary folder %s", f->folder);
    for (int i = 0; i < count && i < FILES_MAX; i++) {
        char name[32], path[600];
        uint8_t *bytes;
        size_t size;
        draw_picture(&m, i, WIDTH, HEIGHT);
        if (gf_image_encode_jpeg(&err, &m, QUALITY, &bytes, &size) != GLOFND_OK) die("%s", err.text);
        snprintf(name, sizeof name, "%04d.jpg", i);
        path_of(f, name, path, sizeof path);
        write_file(path, bytes, size);
        take(f, bytes, size, WIDTH, HEIGHT);
    }
    gf_image_free(&m);
}

/* ---- files to keep ---- */

typedef struct drawing {
    const char *folder;
    const data_sizes *sizes;
} drawing;

static void draw_file(void *arg, int64_t i, int thread) {
    const drawing *d = arg;
    const int k = (int)(i % d->sizes->count);
    gf_error err = {""};
    gf_image m = {0};
    char path[600];
    uint8_t *bytes;
    size_t size;
    (void)thread;
    draw_picture(&m, (int)i, d->sizes->width[k], d->sizes->height[k]);
    if (gf_image_encode_jpeg(&err, &m, QUALITY, &bytes, &size) != GLOFND_OK) die("%s", err.text);
    if (snprintf(path, sizeof path, "%s/%05d.jpg", d->folder, (int)i) >= (int)sizeof path) die("a path is too long");
    write_file(path, bytes, size);
    free(bytes);
    gf_image_free(&m);
}

void data_files_write(const char *folder, const data_sizes *sizes, int count, int threads) {
    drawing d = {folder, sizes};
    gf_parallel(threads, count, draw_file, &d);
}

/* ---- a folder ---- */

static int is_jpeg(const struct dirent *e) {
    const char *dot = strrchr(e->d_name, '.');
    return dot && (strcasecmp(dot, ".jpg") == 0 || strcasecmp(dot, ".jpeg") == 0);
}

void data_files_open(data_files *f, const char *folder, int max) {
    struct dirent **names;
    gf_error err = {""};
    gf_image m = {0};
    *f = (data_files){0};
    if (snprintf(f->folder, sizeof f->folder, "%s", folder) >= (int)sizeof f->folder) die("a path is too long");
    const int n = scandir(folder, &names, is_jpeg, alphasort);
    if (n < 0) die("no folder %s", folder);
    for (int i = 0; i < n; i++) {
        char path[1024];
        uint8_t *bytes = NULL;
        size_t capacity = 0, size = 0;
        if (f->count < max && f->count < FILES_MAX) {
            path_of(f, names[i]->d_name, path, sizeof path);
            if (gf_file_read(&err, path, GF_FILE_BYTES_MAX, &bytes, &capacity, &size) != GLOFND_OK ||
                gf_image_decode(&err, path, bytes, size, NULL, &m) != GLOFND_OK)
                die("%s", err.text);
            take(f, bytes, size, m.width, m.height);
        }
        free(names[i]);
    }
    free(names);
    gf_image_free(&m);
    if (f->count == 0) die("no JPEG files in %s", folder);
}

void data_files_free(data_files *f) {
    for (int i = 0; i < f->count; i++) {
        char name[32], path[600];
        free(f->bytes[i]);
        snprintf(name, sizeof name, "%04d.jpg", i);
        path_of(f, name, path, sizeof path);
        if (f->drawn) unlink(path);
    }
    if (f->drawn) rmdir(f->folder);
    *f = (data_files){0};
}
