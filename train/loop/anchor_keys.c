/* anchor_keys.c - see anchor_keys.h. */
#include "loop/anchor_keys.h"

#include <stdlib.h>
#include <string.h>

#include "io/blockfile.h"

#define MAGIC "GLOFNDKY"
#define VERSION 1
#define HEAD_BYTES 28 /* magic, version, this, number of keys, CRC */

/* ----- key file ----- */

glofnd_status gf_keys_save(gf_error *err, const gf_dataset *d, const char *path) {
    const int64_t n = gf_dataset_describe(d).n;
    gf_writer w;
    TRY(gf_writer_open(err, &w, path));
    gf_put(&w, MAGIC, 8);
    gf_put_u32(&w, VERSION);
    gf_put_u32(&w, HEAD_BYTES);
    gf_put_u64(&w, (uint64_t)n);
    gf_put_crc(&w);
    for (int64_t i = 0; i < n && w.status == GLOFND_OK; i++) gf_put_u64(&w, gf_dataset_key(d, i));
    gf_put_crc(&w);
    return gf_writer_finish(&w);
}

static glofnd_status read_head(gf_reader *r, int64_t *n) {
    char magic[8];
    gf_get(r, magic, sizeof magic);
    const uint32_t version = gf_get_u32(r), head = gf_get_u32(r);
    const uint64_t count = gf_get_u64(r);
    FAIL_IF(r->err, r->status == GLOFND_OK && memcmp(magic, MAGIC, 8) != 0, GLOFND_E_FORMAT, "%s is not a key file", r->path);
    TRY(gf_check_crc(r, "head", -1));
    FAIL_IF(r->err, version > VERSION, GLOFND_E_FORMAT, "%s was made by a newer version", r->path);
    FAIL_IF(r->err, head != HEAD_BYTES || count > gf_reader_left(r) / 8, GLOFND_E_FORMAT, "%s is too short for %llu keys",
            r->path, (unsigned long long)count);
    *n = (int64_t)count;
    return GLOFND_OK;
}

glofnd_status gf_keys_count(gf_error *err, const char *path, int64_t *n) {
    gf_reader r;
    TRY(gf_reader_open(err, &r, path));
    const glofnd_status status = read_head(&r, n);
    gf_reader_close(&r);
    return status;
}

static glofnd_status read_tail(gf_reader *r) {
    TRY(gf_check_crc(r, "keys", -1));
    return gf_reader_end(r);
}

static glofnd_status compare_keys(gf_reader *r, const gf_dataset *d, int *same) {
    int64_t n = 0;
    TRY(read_head(r, &n));
    *same = n == gf_dataset_describe(d).n;
    for (int64_t i = 0; i < n && r->status == GLOFND_OK; i++) *same &= gf_get_u64(r) == gf_dataset_key(d, i);
    return read_tail(r);
}

glofnd_status gf_keys_same(gf_error *err, const gf_dataset *d, const char *path, int *same) {
    gf_reader r;
    TRY(gf_reader_open(err, &r, path));
    const glofnd_status status = compare_keys(&r, d, same);
    gf_reader_close(&r);
    return status;
}

/* ----- mapping: both lists sorted by (key, position), then walked together ----- */

typedef struct place {
    uint64_t key;
    int64_t at;
} place;

static int by_key(const void *a, const void *b) {
    const place *x = a, *y = b;
    if (x->key != y->key) return x->key < y->key ? -1 : 1;
    return (x->at > y->at) - (x->at < y->at);
}

static glofnd_status alloc_places(gf_error *err, int64_t n, place **out) {
    *out = malloc(sizeof **out * (size_t)(n > 0 ? n : 1));
    FAIL_IF(err, !*out, GLOFND_E_MEMORY, "no memory to sort %lld keys", (long long)n);
    return GLOFND_OK;
}

static glofnd_status read_places(gf_reader *r, place **out, int64_t *n) {
    TRY(read_head(r, n));
    TRY(alloc_places(r->err, *n, out));
    for (int64_t i = 0; i < *n; i++) (*out)[i] = (place){gf_get_u64(r), i};
    return read_tail(r);
}

static glofnd_status load_places(gf_error *err, const char *path, place **out, int64_t *n) {
    gf_reader r;
    TRY(gf_reader_open(err, &r, path));
    const glofnd_status status = read_places(&r, out, n);
    gf_reader_close(&r);
    return status;
}

static glofnd_status list_places(gf_error *err, const gf_dataset *d, place **out, int64_t *n) {
    *n = gf_dataset_describe(d).n;
    TRY(alloc_places(err, *n, out));
    for (int64_t i = 0; i < *n; i++) (*out)[i] = (place){gf_dataset_key(d, i), i};
    return GLOFND_OK;
}

static void join_places(place *old, int64_t rows, place *new, int64_t n, int64_t *to, gf_remap *out) {
    qsort(old, (size_t)rows, sizeof *old, by_key);
    qsort(new, (size_t)n, sizeof *new, by_key);
    *out = (gf_remap){.changed = rows != n, .rows = rows};
    for (int64_t i = 0, k = 0; i < rows; i++) {
        while (k < n && new[k].key < old[i].key) k++;
        const int found = k < n && new[k].key == old[i].key;
        to[old[i].at] = found ? new[k++].at : -1;
        out->kept += found;
        out->changed |= to[old[i].at] != old[i].at;
    }
    out->lost = rows - out->kept;
    out->fresh = n - out->kept;
    for (int64_t k = 1; k < n; k++) out->repeated += new[k].key == new[k - 1].key;
}

glofnd_status gf_keys_map(gf_error *err, const gf_dataset *d, const char *path, int64_t **to, gf_remap *out) {
    place *old = NULL, *new = NULL;
    int64_t rows = 0, n = 0;
    *to = NULL;
    glofnd_status status = load_places(err, path, &old, &rows);
    if (status == GLOFND_OK) status = list_places(err, d, &new, &n);
    if (status == GLOFND_OK) {
        *to = malloc(sizeof **to * (size_t)(rows > 0 ? rows : 1));
        if (*to) join_places(old, rows, new, n, *to, out);
        else status = gf_fail(err, GLOFND_E_MEMORY, "no memory to map %lld anchors", (long long)rows);
    }
    free(old);
    free(new);
    return status;
}

/* ----- pictures behind numbered keys ----- */

static int is_numbered(const char *format) {
    return strcmp(format, "shapes") == 0 || strcmp(format, "cifar10") == 0 || strcmp(format, "cifar100") == 0;
}

/* The class of a drawn image decides what it shows; the classes of CIFAR may be the coarse ones, of the same pictures. */
static int same_pictures(const gf_dataset *a, const gf_dataset *b) {
    const gf_dataset_info x = gf_dataset_describe(a), y = gf_dataset_describe(b);
    if (x.width != y.width || x.height != y.height) return 0;
    if (x.classes != y.classes) return strcmp(x.format, "shapes") != 0;
    for (int64_t i = 0; i < x.n && i < y.n; i++)
        if (gf_dataset_label(a, i) != gf_dataset_label(b, i)) return 0;
    return 1;
}

glofnd_status gf_keys_check_pictures(gf_error *err, const gf_dataset *d, const char *spec, const char *before) {
    gf_dataset *old = NULL;
    if (!is_numbered(gf_dataset_describe(d).format) || strcmp(spec, before) == 0) return GLOFND_OK;
    if (gf_dataset_open(NULL, before, &old) != GLOFND_OK) return GLOFND_OK;
    const int same = same_pictures(d, old);
    gf_dataset_free(old);
    FAIL_IF(err, !same, GLOFND_E_ARGUMENT,
            "%.200s has different pictures from %.200s, which the run was trained on; give that one by --data", spec, before);
    return GLOFND_OK;
}
