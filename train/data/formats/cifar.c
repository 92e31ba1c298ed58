/* cifar.c - CIFAR-10 and CIFAR-100 in the official binary files, or in those of the Python version (cifar.h).
 *
 * A binary record is its labels (CIFAR-10: one byte; CIFAR-100: coarse, fine) and 3072 bytes, planes R G B of 32 x 32. Labels
 * are read once at open; pixels are read by pread per sample.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "data/dataset_format.h"
#include "data/formats/cifar.h"
#include "io/file.h"
#include "util/path.h"

#define SIDE 32
#define PLANE (SIDE * SIDE)
#define FILES_MAX 5
#define CHUNK 512 /* records read at once for their labels */

typedef struct version { /* of the download */
    const char *train[FILES_MAX + 1], *test[FILES_MAX + 1];
    const char *folder;               /* the archive unpacks to it */
    const char *names, *coarse_names; /* files; pickles: keys in the file `meta` */
    const char *meta;                 /* NULL: binary files */
    const char *labels, *coarse_labels;
} version;

typedef struct layout {
    version binary, python;
    int label_bytes; /* before the pixels of a binary record */
    int classes, coarse_classes;
} layout;

static const layout layout10 = {
    .binary = {.train = {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin", "data_batch_5.bin"},
               .test = {"test_batch.bin"},
               .folder = "cifar-10-batches-bin",
               .names = "batches.meta.txt"},
    .python = {.train = {"data_batch_1", "data_batch_2", "data_batch_3", "data_batch_4", "data_batch_5"},
               .test = {"test_batch"},
               .folder = "cifar-10-batches-py",
               .meta = "batches.meta",
               .names = "label_names",
               .labels = "labels"},
    .label_bytes = 1,
    .classes = 10,
};
static const layout layout100 = {
    .binary = {.train = {"train.bin"},
               .test = {"test.bin"},
               .folder = "cifar-100-binary",
               .names = "fine_label_names.txt",
               .coarse_names = "coarse_label_names.txt"},
    .python = {.train = {"train"},
               .test = {"test"},
               .folder = "cifar-100-python",
               .meta = "meta",
               .names = "fine_label_names",
               .coarse_names = "coarse_label_names",
               .labels = "fine_labels",
               .coarse_labels = "coarse_labels"},
    .label_bytes = 2,
    .classes = 100,
    .coarse_classes = 20,
};

typedef struct cifar {
    const layout *layout;
    const version *version;
    const char *split;
    char folder[PATH_MAX];
    int coarse, captions;
    int files;
    int fd[FILES_MAX];
    uint64_t pixels_at[FILES_MAX];
    int64_t first[FILES_MAX + 1]; /* positions where the files begin, and the end */
    uint8_t *label;               /* [n] */
} cifar;

static int label_bytes(const cifar *c) { return c->version->meta ? 0 : c->layout->label_bytes; }

static size_t record_bytes(const cifar *c) { return (size_t)label_bytes(c) + 3 * PLANE; }

static const char *const *files_of(const cifar *c) {
    return strcmp(c->split, "test") == 0 ? c->version->test : c->version->train;
}

/* 1: the first file of the split is in the folder of the archive, or in the place itself; c->folder is where. */
static int find_version(cifar *c, const char *place, const version *v) {
    char path[PATH_MAX];
    c->version = v;
    if (gf_path_join(NULL, c->folder, place, v->folder) == GLOFND_OK &&
        gf_path_join(NULL, path, c->folder, files_of(c)[0]) == GLOFND_OK && access(path, F_OK) == 0)
        return 1;
    snprintf(c->folder, sizeof c->folder, "%s", place);
    return gf_path_join(NULL, path, place, files_of(c)[0]) == GLOFND_OK && !gf_is_folder(path) && access(path, F_OK) == 0;
}

static glofnd_status find_folder(gf_error *err, cifar *c, const char *place) {
    FAIL_IF(err, strlen(place) >= sizeof c->folder, GLOFND_E_ARGUMENT, "the path '%.300s' is too long", place);
    if (find_version(c, place, &c->layout->binary) || find_version(c, place, &c->layout->python)) return GLOFND_OK;
    FAIL_IF(err, !gf_is_folder(place), GLOFND_E_IO, "'%.300s' is not a folder that can be read", place);
    const char *file = files_of(c)[0];
    c->version = &c->layout->binary;
    GF_FAIL(err, GLOFND_E_IO, "'%.300s' has no %s; it must hold the official binary files, or %s of the Python version", place,
            files_of(c)[0], file);
}

/* A pickle: its labels are taken at once, its pixels stay in the file. */
static glofnd_status open_pickle(gf_error *err, cifar *c, const char *name) {
    char path[PATH_MAX];
    gf_cifar_pickle p = {0};
    const int64_t first = c->first[c->files];
    TRY(gf_path_join(err, path, c->folder, name));
    TRY(gf_cifar_pickle_read(err, path, c->coarse ? c->version->coarse_labels : c->version->labels,
                             c->coarse ? c->layout->coarse_classes : c->layout->classes, &p));
    uint8_t *all = realloc(c->label, (size_t)(first + p.n));
    if (all) {
        c->label = all;
        memcpy(all + first, p.label, (size_t)p.n);
    }
    free(p.label);
    FAIL_IF(err, !all, GLOFND_E_MEMORY, "no memory for %lld labels", (long long)(first + p.n));
    TRY(gf_file_open(err, path, &c->fd[c->files], NULL));
    c->pixels_at[c->files++] = p.pixels_at;
    c->first[c->files] = first + p.n;
    return GLOFND_OK;
}

static glofnd_status open_file(gf_error *err, cifar *c, const char *name) {
    char path[PATH_MAX];
    gf_file_stamp stamp;
    TRY(gf_path_join(err, path, c->folder, name));
    TRY(gf_file_open(err, path, &c->fd[c->files], &stamp));
    const int64_t n = (int64_t)(stamp.size / record_bytes(c));
    c->files++;
    FAIL_IF(err, n == 0 || stamp.size % record_bytes(c) != 0, GLOFND_E_FORMAT,
            "'%.300s' has %llu bytes; expected one or more records of %llu bytes", path, (unsigned long long)stamp.size,
            (unsigned long long)record_bytes(c));
    c->first[c->files] = c->first[c->files - 1] + n;
    return GLOFND_OK;
}

static glofnd_status check_label(gf_error *err, const cifar *c, const char *name, int64_t record, int label) {
    const int classes = c->coarse ? c->layout->coarse_classes : c->layout->classes;
    FAIL_IF(err, label >= classes, GLOFND_E_FORMAT, "'%.200s/%s': record %lld has label %d of %d classes", c->folder, name,
            (long long)record, label, classes);
    return GLOFND_OK;
}

static glofnd_status read_labels(gf_error *err, cifar *c, int file, const char *name, uint8_t *buffer) {
    const int64_t n = c->first[file + 1] - c->first[file];
    const int at = label_bytes(c) == 2 && !c->coarse; /* the fine label comes second */
    for (int64_t start = 0; start < n; start += CHUNK) {
        const int64_t count = n - start < CHUNK ? n - start : CHUNK;
        TRY(gf_file_read_at(err, c->fd[file], name, (uint64_t)start * record_bytes(c), buffer, (size_t)count * record_bytes(c)));
        for (int64_t i = 0; i < count; i++) {
            const uint8_t label = buffer[(size_t)i * record_bytes(c) + (size_t)at];
            TRY(check_label(err, c, name, start + i, label));
            c->label[c->first[file] + start + i] = label;
        }
    }
    return GLOFND_OK;
}

static glofnd_status read_all_labels(gf_error *err, cifar *c, const char *const *names) {
    uint8_t *buffer = malloc(CHUNK * record_bytes(c));
    c->label = malloc((size_t)c->first[c->files]);
    glofnd_status status = GLOFND_OK;
    if (!buffer || !c->label) status = gf_fail(err, GLOFND_E_MEMORY, "no memory for %lld labels", (long long)c->first[c->files]);
    for (int k = 0; k < c->files && status == GLOFND_OK; k++) status = read_labels(err, c, k, names[k], buffer);
    free(buffer);
    return status;
}

/* A missing or short file leaves the classes unnamed. */
static glofnd_status read_class_names(gf_error *err, const cifar *c, gf_dataset *d) {
    char path[PATH_MAX];
    const version *v = c->version;
    const char *names = c->coarse ? v->coarse_names : v->names;
    TRY(gf_path_join(err, path, c->folder, v->meta ? v->meta : names));
    if (access(path, R_OK) == 0)
        TRY(v->meta ? gf_cifar_pickle_names(err, path, names, &d->classes) : gf_read_lines(err, path, 0, &d->classes));
    if (d->classes.n < d->info.classes) gf_string_list_free(&d->classes);
    else d->classes.n = d->info.classes;
    return GLOFND_OK;
}

static glofnd_status choose_split(gf_error *err, const gf_spec *spec, const char **split) {
    *split = gf_spec_value(spec, "split");
    if (!*split) *split = "train";
    FAIL_IF(err, strcmp(*split, "train") && strcmp(*split, "test"), GLOFND_E_OPTION,
            "data '%s': split is '%.60s'; it must be train or test", spec->format, *split);
    return GLOFND_OK;
}

static glofnd_status open_cifar(gf_error *err, gf_dataset *d, const layout *l) {
    cifar *c = calloc(1, sizeof *c);
    FAIL_IF(err, !c, GLOFND_E_MEMORY, "no memory to open CIFAR");
    d->self = c;
    c->layout = l;
    int64_t coarse = 0, captions = 0;
    TRY(choose_split(err, &d->spec, &c->split));
    TRY(gf_spec_integer(err, &d->spec, "coarse", 0, 1, &coarse));
    TRY(gf_spec_integer(err, &d->spec, "captions", 0, 1, &captions));
    c->coarse = (int)coarse;
    c->captions = (int)captions;
    TRY(find_folder(err, c, d->spec.place));
    const char *const *names = files_of(c);
    for (int k = 0; names[k]; k++) TRY(c->version->meta ? open_pickle(err, c, names[k]) : open_file(err, c, names[k]));
    if (!c->version->meta) TRY(read_all_labels(err, c, names));
    d->info.n = c->first[c->files];
    d->info.classes = c->coarse ? l->coarse_classes : l->classes;
    d->info.width = d->info.height = SIDE;
    TRY(read_class_names(err, c, d));
    FAIL_IF(err, c->captions && d->classes.n == 0, GLOFND_E_IO, "'%.300s' has no %s, from which captions would be made",
            c->folder,
            c->version->meta ? c->version->meta
            : c->coarse      ? c->version->coarse_names
                             : c->version->names);
    d->info.has_text = c->captions;
    return GLOFND_OK;
}

static glofnd_status open_cifar10(gf_error *err, gf_dataset *d) { return open_cifar(err, d, &layout10); }

static glofnd_status open_cifar100(gf_error *err, gf_dataset *d) { return open_cifar(err, d, &layout100); }

static void close_cifar(void *self) {
    cifar *c = self;
    if (!c) return;
    for (int k = 0; k < c->files; k++) close(c->fd[k]);
    free(c->label);
    free(c);
}

static int32_t label_of(const gf_dataset *d, int64_t i) { return ((const cifar *)d->self)->label[i]; }

static void name_of(const gf_dataset *d, int64_t i, char *out, size_t bytes) {
    const cifar *c = d->self;
    snprintf(out, bytes, "%s %s #%lld", d->format->name, c->split, (long long)i);
}

static uint64_t key_of(const gf_dataset *d, int64_t i) {
    const cifar *c = d->self;
    char text[64];
    const int n = snprintf(text, sizeof text, "%s/%s/%lld", d->format->name, c->split, (long long)i);
    return gf_key_hash(text, (size_t)n);
}

/* ?captions=1 */
static glofnd_status describe(gf_error *err, const gf_dataset *d, gf_sample *out) {
    if (!((const cifar *)d->self)->captions) return GLOFND_OK;
    return gf_sample_set_class_text(err, out, gf_string_list_get(&d->classes, out->label));
}

static glofnd_status read_cifar(gf_error *err, const gf_dataset *d, int64_t i, const gf_decode_hint *hint, gf_sample *out) {
    (void)hint;
    const cifar *c = d->self;
    int file = 0;
    while (i >= c->first[file + 1]) file++;
    uint8_t record[2 + 3 * PLANE];
    char name[64];
    name_of(d, i, name, sizeof name);
    const uint64_t at = c->pixels_at[file] + (uint64_t)(i - c->first[file]) * record_bytes(c);
    TRY(gf_file_read_at(err, c->fd[file], name, at, record, record_bytes(c)));
    TRY(gf_image_resize(err, &out->image, SIDE, SIDE));
    const uint8_t *plane = record + label_bytes(c);
    for (int p = 0; p < PLANE; p++) {
        for (int k = 0; k < 3; k++) out->image.rgb[3 * p + k] = plane[k * PLANE + p];
    }
    return describe(err, d, out);
}

static glofnd_status read_text(gf_error *err, const gf_dataset *d, int64_t i, gf_sample *out) {
    (void)i;
    return describe(err, d, out);
}

static int test_spec(const gf_dataset *d, char *out, size_t bytes) {
    const cifar *c = d->self;
    char path[PATH_MAX];
    if (strcmp(c->split, "train") != 0 || gf_path_join(NULL, path, c->folder, c->version->test[0]) != GLOFND_OK) return 0;
    if (access(path, F_OK) != 0) return 0;
    const int n = snprintf(out, bytes, "%s:%s?split=test%s%s", d->format->name, d->spec.place, c->coarse ? "&coarse=1" : "",
                           c->captions ? "&captions=1" : "");
    return n > 0 && (size_t)n < bytes;
}

static const char *const options10[] = {"split", "captions", NULL};
static const char *const options100[] = {"split", "coarse", "captions", NULL};

const gf_dataset_format gf_format_cifar10 = {
    .name = "cifar10",
    .options = options10,
    .open = open_cifar10,
    .close = close_cifar,
    .label = label_of,
    .name_of = name_of,
    .key = key_of,
    .read = read_cifar,
    .read_text = read_text,
    .test_spec = test_spec,
};
const gf_dataset_format gf_format_cifar100 = {
    .name = "cifar100",
    .options = options100,
    .open = open_cifar100,
    .close = close_cifar,
    .label = label_of,
    .name_of = name_of,
    .key = key_of,
    .read = read_cifar,
    .read_text = read_text,
    .test_spec = test_spec,
};
