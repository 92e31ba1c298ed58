/* idx.c - MNIST and data sets in its IDX files: mnist:DIR (also KMNIST and EMNIST), fashion_mnist:DIR (with names of classes).
 *
 * An IDX file is two zero bytes, the type (8: bytes), the number of axes, each axis as 32-bit big-endian integer, and the bytes.
 * Images are [n][height][width] grey bytes, labels [n] bytes. Plain files are read by pread per sample; those packed with gzip are
 * unpacked into memory once. EMNIST stores columns before rows, so its images are transposed.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "data/dataset_format.h"
#include "io/file.h"
#include "io/parquet_codec.h"
#include "util/text.h"

#define NAME_BYTES 128
#define SET_BYTES 32
#define PIXELS_MAX ((uint64_t)1 << 20) /* of an image */
#define PACKED_MAX ((uint64_t)1 << 31) /* bytes of a packed file, and of what it holds */

typedef struct idx_file {
    char path[PATH_MAX];
    int fd;             /* -1: unpacked */
    uint8_t *unpacked;  /* the whole file */
    uint64_t size;      /* bytes */
    uint32_t extent[3]; /* of the axes */
} idx_file;

typedef struct idx {
    int test;
    char set[SET_BYTES]; /* of EMNIST, "": no set */
    char folder[PATH_MAX];
    idx_file images;
    uint8_t *label; /* [n], or NULL: no labels */
} idx;

static const char *const fashion_classes[] = {"T-shirt/top", "Trouser", "Pullover", "Dress", "Coat",
                                              "Sandal",      "Shirt",   "Sneaker",  "Bag",   "Ankle boot"};

/* ----- which files ----- */

/* train-images-idx3-ubyte, t10k-images.idx3-ubyte.gz, emnist-letters-test-images-idx3-ubyte: 1 if it is one of this split. */
static int is_images(const char *name, int test, char set[SET_BYTES]) {
    static const char *const splits[2][3] = {{"train", NULL}, {"t10k", "test", NULL}};
    set[0] = 0;
    if (strncmp(name, "emnist-", 7) == 0) {
        const char *end = strchr(name + 7, '-');
        if (!end || end == name + 7 || end - name - 7 >= SET_BYTES) return 0;
        snprintf(set, SET_BYTES, "%.*s", (int)(end - name - 7), name + 7);
        name = end + 1;
    }
    for (const char *const *s = splits[test]; *s; s++) {
        const size_t n = strlen(*s);
        if (strncmp(name, *s, n) != 0 || strncmp(name + n, "-images", 7) != 0) continue;
        const char *rest = name + n + 7;
        if ((*rest == '-' || *rest == '.') && (strcmp(rest + 1, "idx3-ubyte") == 0 || strcmp(rest + 1, "idx3-ubyte.gz") == 0))
            return 1;
    }
    return 0;
}

/* The images of the split in c->folder: `name`, "": there are none. A plain file goes before a packed one. */
static glofnd_status find_images(gf_error *err, const char *folder, int test, const char *wanted, char name[NAME_BYTES],
                                 char set[SET_BYTES]) {
    char other[SET_BYTES] = "";
    int error = 0, sets = 0;
    name[0] = set[0] = 0;
    DIR *d = gf_open_folder(folder);
    if (!d) return GLOFND_OK;
    for (struct dirent *e; (e = gf_next_entry(d, &error));) {
        char its[SET_BYTES];
        if (strlen(e->d_name) >= NAME_BYTES || !is_images(e->d_name, test, its)) continue;
        if (wanted && strcmp(its, wanted) != 0) continue;
        if (name[0] && strcmp(its, set) != 0) {
            snprintf(other, sizeof other, "%s", its);
            sets = 1;
        } else if (!name[0] || gf_ends_with(name, ".gz")) {
            snprintf(name, NAME_BYTES, "%.*s", NAME_BYTES - 1, e->d_name); /* it fits */
            snprintf(set, SET_BYTES, "%s", its);
        }
    }
    closedir(d);
    FAIL_IF(err, error, GLOFND_E_IO, "'%.300s' cannot be read: %s", folder, strerror(error));
    FAIL_IF(err, sets, GLOFND_E_OPTION, "'%.300s' holds several data sets, such as '%s' and '%s'; choose one by ?set=NAME",
            folder, strcmp(set, other) < 0 ? set : other, strcmp(set, other) < 0 ? other : set);
    return GLOFND_OK;
}

/* ----- their bytes ----- */

static void close_file(idx_file *f) {
    if (f->fd >= 0) close(f->fd);
    free(f->unpacked);
    *f = (idx_file){.fd = -1};
}

/* The end of a gzip file states how many bytes it unpacks to. */
static glofnd_status unpack(gf_error *err, idx_file *f) {
    uint8_t *packed = NULL;
    size_t capacity = 0, size = 0;
    FAIL_IF(err, gf_page_codec_check(NULL, f->path, GF_CODEC_GZIP) != GLOFND_OK, GLOFND_E_UNSUPPORTED,
            "'%.300s' is packed by gzip, and libz.so.1 is not on this machine; install it (Debian: zlib1g), or unpack the file: "
            "gunzip",
            f->path);
    glofnd_status status = gf_file_read(err, f->path, PACKED_MAX - 1, &packed, &capacity, &size);
    const uint8_t *end = packed + size;
    if (status == GLOFND_OK && size < 18) status = gf_fail(err, GLOFND_E_FORMAT, "'%.300s': not a gzip file", f->path);
    if (status == GLOFND_OK)
        f->size = (uint64_t)end[-4] | (uint64_t)end[-3] << 8 | (uint64_t)end[-2] << 16 | (uint64_t)end[-1] << 24;
    if (status == GLOFND_OK && f->size >= PACKED_MAX)
        status = gf_fail(err, GLOFND_E_FORMAT, "'%.300s' unpacks to %llu bytes; the limit is %llu: unpack it first (gunzip)",
                         f->path, (unsigned long long)f->size, (unsigned long long)PACKED_MAX - 1);
    if (status == GLOFND_OK) status = gf_page_codec_bound(err, f->path, GF_CODEC_GZIP, size, (size_t)f->size);
    if (status == GLOFND_OK) {
        f->unpacked = malloc((size_t)f->size + 1);
        if (!f->unpacked) status = gf_fail(err, GLOFND_E_MEMORY, "no memory to unpack '%.300s'", f->path);
    }
    if (status == GLOFND_OK) status = gf_page_unpack(err, f->path, GF_CODEC_GZIP, packed, size, f->unpacked, (size_t)f->size);
    free(packed);
    return status;
}

static glofnd_status read_file(gf_error *err, const idx_file *f, uint64_t at, void *out, size_t n) {
    if (!f->unpacked) return gf_file_read_at(err, f->fd, f->path, at, out, n);
    FAIL_IF(err, at > f->size || n > f->size - at, GLOFND_E_FORMAT, "'%.300s' is cut short", f->path);
    if (n) memcpy(out, f->unpacked + at, n);
    return GLOFND_OK;
}

/* After a failure, too, close_file. */
static glofnd_status open_file(gf_error *err, idx_file *f, const char *folder, const char *name, int axes) {
    gf_file_stamp stamp = {0};
    uint8_t head[16];
    *f = (idx_file){.fd = -1};
    TRY(gf_path_join(err, f->path, folder, name));
    TRY(gf_file_open(err, f->path, &f->fd, &stamp));
    f->size = stamp.size;
    if (gf_ends_with(name, ".gz")) {
        close(f->fd);
        f->fd = -1;
        TRY(unpack(err, f));
    }
    const size_t begin = 4 + 4 * (size_t)axes;
    FAIL_IF(err, f->size < begin, GLOFND_E_FORMAT, "'%.300s' has %llu bytes; an IDX file with %d axes has at least %zu", f->path,
            (unsigned long long)f->size, axes, begin);
    TRY(read_file(err, f, 0, head, begin));
    FAIL_IF(err, head[0] || head[1] || head[2] != 8 || head[3] != axes, GLOFND_E_FORMAT,
            "'%.300s' begins with %02x%02x%02x%02x; an IDX file of bytes with %d axes begins with 0000080%d", f->path, head[0],
            head[1], head[2], head[3], axes, axes);
    for (int k = 0; k < axes; k++) {
        const uint8_t *p = head + 4 + 4 * k;
        f->extent[k] = (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
    }
    const uint64_t each = axes == 3 ? (uint64_t)f->extent[1] * f->extent[2] : 1;
    FAIL_IF(err, f->extent[0] < 1 || f->extent[0] > INT32_MAX || each < 1 || each > PIXELS_MAX, GLOFND_E_FORMAT,
            "'%.300s' states %u x %u x %u bytes, which no such data set has", f->path, f->extent[0], axes == 3 ? f->extent[1] : 1,
            axes == 3 ? f->extent[2] : 1);
    FAIL_IF(err, f->size != begin + each * f->extent[0], GLOFND_E_FORMAT,
            "'%.300s' has %llu bytes; expected %llu for %u %s: the file is cut short or corrupt", f->path,
            (unsigned long long)f->size, (unsigned long long)(begin + each * f->extent[0]), f->extent[0],
            axes == 3 ? "images" : "labels");
    return GLOFND_OK;
}

/* ----- the data set ----- */

/* c->label and d->info.classes, from the file of labels that belongs to `images`. */
static glofnd_status read_labels(gf_error *err, gf_dataset *d, idx *c, const char *images) {
    char name[NAME_BYTES + 4], path[PATH_MAX];
    idx_file f = {.fd = -1};
    snprintf(name, sizeof name, "%s", images);
    memcpy(strstr(name, "-images") + 1, "labels", 6);
    strstr(name, "idx3")[3] = '1';
    const size_t plain = strlen(name) - (gf_ends_with(name, ".gz") ? 3 : 0);
    name[plain] = 0;
    TRY(gf_path_join(err, path, c->folder, name));
    if (access(path, F_OK) != 0) {
        memcpy(name + plain, ".gz", 4);
        TRY(gf_path_join(err, path, c->folder, name));
    }
    if (access(path, F_OK) != 0) {
        name[plain] = 0;
        gf_dataset_add_note(d, "'%.300s' has no %s: the images have no labels", c->folder, name);
        return GLOFND_OK;
    }
    const uint32_t n = c->images.extent[0];
    glofnd_status status = open_file(err, &f, c->folder, name, 1);
    if (status == GLOFND_OK && f.extent[0] != n)
        status = gf_fail(err, GLOFND_E_FORMAT, "'%.300s' has %u labels for %u images", f.path, f.extent[0], n);
    if (status == GLOFND_OK && !(c->label = malloc(n))) status = gf_fail(err, GLOFND_E_MEMORY, "no memory for %u labels", n);
    if (status == GLOFND_OK) status = read_file(err, &f, 8, c->label, n);
    close_file(&f);
    TRY(status);
    for (uint32_t i = 0; i < n; i++)
        if (c->label[i] >= d->info.classes) d->info.classes = c->label[i] + 1;
    return GLOFND_OK;
}

static glofnd_status open_idx(gf_error *err, gf_dataset *d) {
    static const char *const inside[] = {"", "raw", "gzip", "MNIST/raw", "FashionMNIST/raw", "KMNIST/raw", "EMNIST/raw"};
    idx *c = calloc(1, sizeof *c);
    FAIL_IF(err, !c, GLOFND_E_MEMORY, "no memory to open IDX files");
    d->self = c;
    c->images.fd = -1;
    const char *split = gf_spec_value(&d->spec, "split"), *set = gf_spec_value(&d->spec, "set"), *place = d->spec.place;
    char name[NAME_BYTES] = "";
    FAIL_IF(err, split && strcmp(split, "train") && strcmp(split, "test"), GLOFND_E_OPTION,
            "data '%s': split is '%.60s'; it must be train or test", d->spec.format, split);
    FAIL_IF(err, !gf_is_folder(place), GLOFND_E_IO, "'%.300s' is not a folder that can be read", place);
    c->test = split && strcmp(split, "test") == 0;
    for (size_t k = 0; k < sizeof inside / sizeof *inside && !name[0]; k++) {
        if (inside[k][0]) TRY(gf_path_join(err, c->folder, place, inside[k]));
        else TRY(gf_path_join(err, c->folder, place, "."));
        TRY(find_images(err, c->folder, c->test, set, name, c->set));
    }
    const char *file = c->test ? (set ? "test" : "t10k") : "train";
    FAIL_IF(err, !name[0], GLOFND_E_IO, "'%.300s' has no %s%.60s%s%s-images-idx3-ubyte, plain or with .gz", place,
            set ? "emnist-" : "", set ? set : "", set ? "-" : "", file);
    TRY(open_file(err, &c->images, c->folder, name, 3));
    d->info.n = c->images.extent[0];
    d->info.height = (int)c->images.extent[c->set[0] ? 2 : 1];
    d->info.width = (int)c->images.extent[c->set[0] ? 1 : 2];
    TRY(read_labels(err, d, c, name));
    const int fashion = d->format == &gf_format_fashion_mnist;
    char path[PATH_MAX];
    FAIL_IF(err, fashion && d->info.classes > 10, GLOFND_E_FORMAT,
            "'%.300s' has labels up to %d; Fashion-MNIST has 10 classes: read it as mnist:", c->folder, d->info.classes - 1);
    TRY(gf_path_join(err, path, c->folder, "classnames.txt"));
    TRY(gf_read_class_names(err, d, path, d->info.classes, GF_CLASSES_MAX, &d->classes));
    for (int k = 0; fashion && d->classes.n == k && k < d->info.classes; k++)
        TRY(gf_string_list_add(err, &d->classes, fashion_classes[k], strlen(fashion_classes[k])));
    return GLOFND_OK;
}

static void close_idx(void *self) {
    idx *c = self;
    if (!c) return;
    close_file(&c->images);
    free(c->label);
    free(c);
}

static int32_t idx_label(const gf_dataset *d, int64_t i) {
    const idx *c = d->self;
    return c->label ? c->label[i] : -1;
}

/* "mnist train #0", "emnist letters test #7" */
static void idx_name(const gf_dataset *d, int64_t i, char *out, size_t bytes) {
    const idx *c = d->self;
    const char *split = c->test ? "test" : "train";
    if (c->set[0]) snprintf(out, bytes, "emnist %s %s #%lld", c->set, split, (long long)i);
    else snprintf(out, bytes, "%s %s #%lld", d->format->name, split, (long long)i);
}

static uint64_t idx_key(const gf_dataset *d, int64_t i) {
    const idx *c = d->self;
    char text[96];
    const int n = snprintf(text, sizeof text, "mnist/%s/%s/%lld", c->set, c->test ? "test" : "train", (long long)i);
    return gf_key_hash(text, (size_t)n);
}

static glofnd_status read_idx(gf_error *err, const gf_dataset *d, int64_t i, const gf_decode_hint *hint, gf_sample *out) {
    (void)hint;
    const idx *c = d->self;
    const int width = d->info.width, height = d->info.height, upright = !c->set[0];
    const size_t pixels = (size_t)width * (size_t)height;
    TRY(gf_image_resize(err, &out->image, width, height));
    uint8_t *rgb = out->image.rgb, *grey = rgb + 2 * pixels; /* read into the last third, spread from the first pixel on */
    if (!upright) TRY(gf_file_reserve(err, "an image", pixels, &out->encoded, &out->encoded_capacity));
    if (!upright) grey = out->encoded;
    TRY(read_file(err, &c->images, 16 + (uint64_t)i * pixels, grey, pixels));
    for (int y = 0; y < height; y++)
        for (int x = 0; x < width; x++) {
            const uint8_t value = grey[upright ? (size_t)y * (size_t)width + (size_t)x : (size_t)x * (size_t)height + (size_t)y];
            uint8_t *p = rgb + 3 * ((size_t)y * (size_t)width + (size_t)x);
            p[0] = p[1] = p[2] = value;
        }
    return GLOFND_OK;
}

static int idx_test_spec(const gf_dataset *d, char *out, size_t bytes) {
    const idx *c = d->self;
    char name[NAME_BYTES], set[SET_BYTES];
    if (c->test || find_images(NULL, c->folder, 1, c->set, name, set) != GLOFND_OK || !name[0]) return 0;
    return gf_spec_with(&d->spec, "split", "test", out, bytes);
}

#define IDX_FORMAT(name_, options_)                                                                                        \
    {                                                                                                                      \
        .name = name_, .options = options_, .open = open_idx, .close = close_idx, .label = idx_label, .name_of = idx_name, \
        .key = idx_key, .read = read_idx, .test_spec = idx_test_spec                                                       \
    }

static const char *const mnist_options[] = {"split", "set", NULL};
static const char *const fashion_options[] = {"split", NULL};

const gf_dataset_format gf_format_mnist = IDX_FORMAT("mnist", mnist_options);
const gf_dataset_format gf_format_fashion_mnist = IDX_FORMAT("fashion_mnist", fashion_options);
