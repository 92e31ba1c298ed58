/* cifar.c - CIFAR-10 and CIFAR-100 in the official binary files.
 *
 * A record is its labels (CIFAR-10: one byte; CIFAR-100: coarse, fine) and 3072 bytes, planes R G B of 32 x 32. Labels are read
 * once at open; pixels are read by pread per sample.
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
#include "io/file.h"
#include "util/text.h"

#define SIDE 32
#define PLANE (SIDE * SIDE)
#define FILES_MAX 5
#define CHUNK 512 /* records read at once for their labels */

typedef struct cifar_layout {
    const char *train[FILES_MAX + 1], *test[FILES_MAX + 1];
    const char *folder, *python_folder;     /* the archives of the two versions unpack to these */
    const char *python_train, *python_test; /* first files of the Python version */
    const char *class_names, *coarse_names; /* files with one name a line */
    int label_bytes;                        /* before the pixels of a record */
    int classes, coarse_classes;
} cifar_layout;

static const cifar_layout layout10 = {
    .train = {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin", "data_batch_5.bin"},
    .test = {"test_batch.bin"},
    .folder = "cifar-10-batches-bin",
    .python_folder = "cifar-10-batches-py",
    .python_train = "data_batch_1",
    .python_test = "test_batch",
    .class_names = "batches.meta.txt",
    .label_bytes = 1,
    .classes = 10,
};
static const cifar_layout layout100 = {
    .train = {"train.bin"},
    .test = {"test.bin"},
    .folder = "cifar-100-binary",
    .python_folder = "cifar-100-python",
    .python_train = "train",
    .python_test = "test",
    .class_names = "fine_label_names.txt",
    .coarse_names = "coarse_label_names.txt",
    .label_bytes = 2,
    .classes = 100,
    .coarse_classes = 20,
};

typedef struct cifar {
    const cifar_layout *layout;
    int test, coarse, captions;
    char folder[PATH_MAX];
    int files;
    int fd[FILES_MAX];
    int64_t first[FILES_MAX + 1]; /* positions where the files begin, and the end */
    uint8_t *label;               /* [n] */
} cifar;

static size_t record_bytes(const cifar *c) { return (size_t)c->layout->label_bytes + 3 * PLANE; }

/* 1: place/inside/file is there, or place/file; `folder` is the one that has it. */
static int find_file(char folder[PATH_MAX], const char *place, const char *inside, const char *file) {
    char path[PATH_MAX];
    if (gf_path_join(NULL, folder, place, inside) == GLOFND_OK && gf_path_join(NULL, path, folder, file) == GLOFND_OK &&
        access(path, F_OK) == 0)
        return 1;
    snprintf(folder, PATH_MAX, "%s", place);
    return gf_path_join(NULL, path, place, file) == GLOFND_OK && !gf_is_folder(path) && access(path, F_OK) == 0;
}

static glofnd_status read_labels(gf_error *err, cifar *c, int file, const char *name, int classes, uint8_t *buffer) {
    const int64_t n = c->first[file + 1] - c->first[file];
    const int at = c->layout->label_bytes == 2 && !c->coarse; /* the fine label comes second */
    for (int64_t start = 0; start < n; start += CHUNK) {
        const int64_t count = n - start < CHUNK ? n - start : CHUNK;
        TRY(gf_file_read_at(err, c->fd[file], name, (uint64_t)start * record_bytes(c), buffer, (size_t)count * record_bytes(c)));
        for (int64_t i = 0; i < count; i++) {
            const uint8_t label = buffer[(size_t)i * record_bytes(c) + (size_t)at];
            FAIL_IF(err, label >= classes, GLOFND_E_FORMAT, "'%.200s/%s': record %lld has label %d of %d classes", c->folder,
                    name, (long long)(start + i), label, classes);
            c->label[c->first[file] + start + i] = label;
        }
    }
    return GLOFND_OK;
}

static glofnd_status open_cifar(gf_error *err, gf_dataset *d) {
    const cifar_layout *l = d->format == &gf_format_cifar10 ? &layout10 : &layout100;
    cifar *c = calloc(1, sizeof *c);
    FAIL_IF(err, !c, GLOFND_E_MEMORY, "no memory to open CIFAR");
    d->self = c;
    c->layout = l;
    int64_t coarse = 0, captions = 0;
    const char *split = gf_spec_value(&d->spec, "split");
    FAIL_IF(err, split && strcmp(split, "train") && strcmp(split, "test"), GLOFND_E_OPTION,
            "data '%s': split is '%.60s'; it must be train or test", d->spec.format, split);
    TRY(gf_spec_integer(err, &d->spec, "coarse", 0, 1, &coarse));
    TRY(gf_spec_integer(err, &d->spec, "captions", 0, 1, &captions));
    c->test = split && strcmp(split, "test") == 0;
    c->coarse = (int)coarse;
    c->captions = (int)captions;
    d->info.classes = c->coarse ? l->coarse_classes : l->classes;

    const char *const *names = c->test ? l->test : l->train;
    const char *place = d->spec.place;
    char path[PATH_MAX];
    FAIL_IF(err, strlen(place) >= sizeof c->folder, GLOFND_E_ARGUMENT, "the path '%.300s' is too long", place);
    if (!find_file(c->folder, place, l->folder, names[0])) {
        FAIL_IF(err, !gf_is_folder(place), GLOFND_E_IO, "'%.300s' is not a folder that can be read", place);
        FAIL_IF(
            err, find_file(path, place, l->python_folder, c->test ? l->python_test : l->python_train), GLOFND_E_FORMAT,
            "'%.300s' holds the Python version; download the binary version, or convert it: python -m glofnd convert %.300s %s",
            path, path, l->folder);
        GF_FAIL(err, GLOFND_E_IO, "'%.300s' has no %s; it must hold the official binary files", place, names[0]);
    }
    for (int k = 0; names[k]; k++) {
        gf_file_stamp stamp;
        TRY(gf_path_join(err, path, c->folder, names[k]));
        TRY(gf_file_open(err, path, &c->fd[c->files], &stamp));
        const int64_t n = (int64_t)(stamp.size / record_bytes(c));
        c->files++;
        FAIL_IF(err, n == 0 || stamp.size % record_bytes(c) != 0, GLOFND_E_FORMAT,
                "'%.300s' has %llu bytes; expected one or more records of %llu bytes", path, (unsigned long long)stamp.size,
                (unsigned long long)record_bytes(c));
        c->first[c->files] = c->first[c->files - 1] + n;
    }
    uint8_t *buffer = malloc(CHUNK * record_bytes(c));
    c->label = malloc((size_t)c->first[c->files]);
    glofnd_status status = GLOFND_OK;
    if (!buffer || !c->label) status = gf_fail(err, GLOFND_E_MEMORY, "no memory for %lld labels", (long long)c->first[c->files]);
    for (int k = 0; k < c->files && status == GLOFND_OK; k++) status = read_labels(err, c, k, names[k], d->info.classes, buffer);
    free(buffer);
    TRY(status);
    d->info.n = c->first[c->files];
    d->info.width = d->info.height = SIDE;

    /* A missing or short file leaves the classes unnamed. */
    const char *class_names = c->coarse ? l->coarse_names : l->class_names;
    TRY(gf_path_join(err, path, c->folder, class_names));
    if (access(path, R_OK) == 0) TRY(gf_read_lines(err, path, 0, &d->classes));
    if (d->classes.n < d->info.classes) gf_string_list_free(&d->classes);
    else d->classes.n = d->info.classes;
    FAIL_IF(err, c->captions && d->classes.n == 0, GLOFND_E_IO, "'%.300s' has no %s, from which captions would be made",
            c->folder, class_names);
    d->info.has_text = c->captions;
    return GLOFND_OK;
}

static void close_cifar(void *self) {
    cifar *c = self;
    if (!c) return;
    for (int k = 0; k < c->files; k++) close(c->fd[k]);
    free(c->label);
    free(c);
}

static int32_t cifar_label(const gf_dataset *d, int64_t i) { return ((const cifar *)d->self)->label[i]; }

static const char *split_of(const gf_dataset *d) { return ((const cifar *)d->self)->test ? "test" : "train"; }

static void cifar_name(const gf_dataset *d, int64_t i, char *out, size_t bytes) {
    snprintf(out, bytes, "%s %s #%lld", d->format->name, split_of(d), (long long)i);
}

static uint64_t cifar_key(const gf_dataset *d, int64_t i) {
    char text[64];
    const int n = snprintf(text, sizeof text, "%s/%s/%lld", d->format->name, split_of(d), (long long)i);
    return gf_key_hash(text, (size_t)n);
}

/* ?captions=1: the class is the caption. */
static glofnd_status read_caption(gf_error *err, const gf_dataset *d, int64_t i, gf_sample *out) {
    (void)i;
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
    cifar_name(d, i, name, sizeof name);
    TRY(gf_file_read_at(err, c->fd[file], name, (uint64_t)(i - c->first[file]) * record_bytes(c), record, record_bytes(c)));
    TRY(gf_image_resize(err, &out->image, SIDE, SIDE));
    const uint8_t *plane = record + c->layout->label_bytes;
    for (int p = 0; p < PLANE; p++)
        for (int k = 0; k < 3; k++) out->image.rgb[3 * p + k] = plane[k * PLANE + p];
    return read_caption(err, d, i, out);
}

static int cifar_test_spec(const gf_dataset *d, char *out, size_t bytes) {
    const cifar *c = d->self;
    char path[PATH_MAX];
    if (c->test || gf_path_join(NULL, path, c->folder, c->layout->test[0]) != GLOFND_OK) return 0;
    if (access(path, F_OK) != 0) return 0;
    const int n = snprintf(out, bytes, "%s:%s?split=test%s%s", d->format->name, d->spec.place, c->coarse ? "&coarse=1" : "",
                           c->captions ? "&captions=1" : "");
    return n > 0 && (size_t)n < bytes;
}

#define CIFAR_FORMAT(name_, options_)                                                                                        \
    {                                                                                                                        \
        .name = name_, .options = options_, .open = open_cifar, .close = close_cifar, .label = cifar_label,                  \
        .name_of = cifar_name, .key = cifar_key, .read = read_cifar, .read_text = read_caption, .test_spec = cifar_test_spec \
    }

static const char *const options10[] = {"split", "captions", NULL};
static const char *const options100[] = {"split", "coarse", "captions", NULL};

const gf_dataset_format gf_format_cifar10 = CIFAR_FORMAT("cifar10", options10);
const gf_dataset_format gf_format_cifar100 = CIFAR_FORMAT("cifar100", options100);
