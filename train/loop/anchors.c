/* anchors.c - see anchors.h. */
#include "loop/anchors.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "dist/step_ranks.h"
#include "io/blockfile.h"
#include "io/file.h"
#include "method/store.h"
#include "run/resume.h"
#include "run/run_folder.h"
#include "util/array.h"
#include "util/status.h"
#include "util/text.h"

#define MAGIC "GLOFNDKY"
#define VERSION 1
#define HEAD_BYTES 28 /* magic, version, this, number of keys, CRC */

/* ----- keys: the file ----- */

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

static glofnd_status read_tail(gf_reader *r) {
    TRY(gf_check_crc(r, "keys", -1));
    return gf_reader_end(r);
}

glofnd_status gf_keys_same(gf_error *err, const gf_dataset *d, const char *path, int *same) {
    gf_reader r;
    int64_t n = 0;
    TRY(gf_reader_open(err, &r, path));
    glofnd_status status = read_head(&r, &n);
    *same = n == gf_dataset_describe(d).n;
    for (int64_t i = 0; i < n && r.status == GLOFND_OK; i++) *same &= gf_get_u64(&r) == gf_dataset_key(d, i);
    if (status == GLOFND_OK) status = read_tail(&r);
    gf_reader_close(&r);
    return status;
}

/* ----- keys: mapping; both lists sorted by (key, position), then walked together ----- */

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

static glofnd_status load_places(gf_error *err, const char *path, place **out, int64_t *n) {
    gf_reader r;
    TRY(gf_reader_open(err, &r, path));
    glofnd_status status = read_head(&r, n);
    if (status == GLOFND_OK) status = alloc_places(err, *n, out);
    for (int64_t i = 0; i < *n && status == GLOFND_OK; i++) (*out)[i] = (place){gf_get_u64(&r), i};
    if (status == GLOFND_OK) status = read_tail(&r);
    gf_reader_close(&r);
    return status;
}

glofnd_status gf_keys_map(gf_error *err, const gf_dataset *d, const char *path, int64_t **to, gf_remap *out) {
    place *old = NULL, *new = NULL;
    const int64_t n = gf_dataset_describe(d).n;
    int64_t rows = 0;
    *to = NULL;
    glofnd_status status = load_places(err, path, &old, &rows);
    if (status == GLOFND_OK) status = alloc_places(err, n, &new);
    if (status == GLOFND_OK) {
        for (int64_t i = 0; i < n; i++) new[i] = (place){gf_dataset_key(d, i), i};
        *to = malloc(sizeof **to * (size_t)(rows > 0 ? rows : 1));
        if (*to) {
            qsort(old, (size_t)rows, sizeof *old, by_key);
            qsort(new, (size_t)n, sizeof *new, by_key);
            *out = (gf_remap){.changed = rows != n, .rows = rows};
            for (int64_t i = 0, k = 0; i < rows; i++) {
                while (k < n && new[k].key < old[i].key) k++;
                const int found = k < n && new[k].key == old[i].key;
                (*to)[old[i].at] = found ? new[k++].at : -1;
                out->kept += found;
                out->changed |= (*to)[old[i].at] != old[i].at;
            }
            out->lost = rows - out->kept;
            out->fresh = n - out->kept;
            for (int64_t k = 1; k < n; k++) out->repeated += new[k].key == new[k - 1].key;
        } else status = gf_fail(err, GLOFND_E_MEMORY, "no memory to map %lld anchors", (long long)rows);
    }
    free(old);
    free(new);
    return status;
}

/* ----- keys: pictures behind numbered ones ----- */

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
    const char *format = gf_dataset_describe(d).format;
    const int numbered = strcmp(format, "shapes") == 0 || strcmp(format, "cifar10") == 0 || strcmp(format, "cifar100") == 0 ||
                         strcmp(format, "mnist") == 0 || strcmp(format, "fashion_mnist") == 0;
    gf_dataset *old = NULL;
    if (!numbered || strcmp(spec, before) == 0) return GLOFND_OK;
    if (gf_dataset_open(NULL, before, &old) != GLOFND_OK) return GLOFND_OK;
    const int same = same_pictures(d, old);
    gf_dataset_free(old);
    FAIL_IF(err, !same, GLOFND_E_ARGUMENT,
            "%.200s has different pictures from %.200s, which the run was trained on; give that one by --data", spec, before);
    return GLOFND_OK;
}

/* ----- anchors of a run that remembers more ----- */

static int same_ring(const gf_store_spec *a, const gf_store_spec *b) {
    return a->ring_rows == b->ring_rows && a->ring_dim == b->ring_dim;
}

/* E_OPTION: the run remembers what the stored anchors do not have; E_FORMAT: they are of another kind. `path`: of their file, for
 * the message. */
static glofnd_status check_memory(gf_error *err, const gf_config *c, const gf_store_spec *stored, const gf_store_spec *own,
                                  const char *path) {
    FAIL_IF(err, stored->keyed, GLOFND_E_FORMAT, "%s: the stored anchors have keys, and the samples of this data have positions",
            path);
    const unsigned memory = gf_detector_memory(c);
    FAIL_IF(err, stored->modalities != own->modalities || stored->temperatures != own->temperatures, GLOFND_E_FORMAT,
            "%s holds anchors of a different loss", path);
    TRY(gf_detector_check_memory(
        err, c, (stored->bank_dim > 0 ? GF_REMEMBERS_BANK : 0u) | (stored->ring_rows > 0 ? GF_REMEMBERS_RING : 0u), path));
    FAIL_IF(err, memory & GF_REMEMBERS_BANK && stored->bank_dim != own->bank_dim, GLOFND_E_FORMAT,
            "similarity: bank needs averages of %lld numbers, and those of %s have %lld", (long long)own->bank_dim, path,
            (long long)stored->bank_dim);
    FAIL_IF(err, memory & GF_REMEMBERS_RING && !same_ring(stored, own), GLOFND_E_OPTION,
            "ring_rows: %s has a ring of %lld embeddings, and %lld are given; resume with --ring-rows %lld, or begin a run in a "
            "different --out",
            path, (long long)stored->ring_rows, (long long)own->ring_rows, (long long)stored->ring_rows);
    return GLOFND_OK;
}

/* 1: they are as the run's own. */
static int fits_as_it_is(const gf_config *c, const gf_store_spec *stored, const gf_store_spec *own) {
    const unsigned memory = gf_detector_memory(c);
    if (stored->bank_dim != own->bank_dim || !same_ring(stored, own)) return 0;
    return (stored->bank_dim == 0 || memory & GF_REMEMBERS_BANK) && (stored->ring_rows == 0 || memory & GF_REMEMBERS_RING);
}

static glofnd_status copy_store_rows(gf_error *err, const glofnd_store *from, int bank, glofnd_store *to) {
    glofnd_anchor *rows = malloc(GF_STORE_BLOCK * sizeof *rows);
    uint16_t *averages = bank ? malloc(GF_STORE_BLOCK * (size_t)from->spec.bank_dim * sizeof *averages) : NULL;
    const int ok = rows && (averages || !bank);
    for (int64_t b = 0; ok && b < gf_store_blocks(from); b++)
        if (gf_bit(from->touched, b)) {
            /* Rows of one block; those never seen stay so. averages: [GF_STORE_BLOCK][bank_dim], or NULL. */
            const int64_t first = b * GF_STORE_BLOCK, n = gf_store_block_rows(from, b);
            int64_t id[GF_STORE_BLOCK];
            for (int64_t i = 0; i < n; i++) id[i] = first + i;
            for (int side = 0; side < from->spec.modalities; side++) {
                gf_store_gather(from, side, id, n, 0, rows);
                gf_store_scatter(to, side, id, n, rows);
                if (averages) gf_store_bank_gather(from, side, id, n, averages);
                if (averages) gf_store_bank_scatter(to, side, id, n, averages);
            }
        }
    free(rows);
    free(averages);
    FAIL_IF(err, !ok, GLOFND_E_MEMORY, "no memory to copy anchors");
    return GLOFND_OK;
}

/* A store in memory, of as many anchors as `stored` and else like `own`, with the state of `stored`, which is in memory, too, and
 * has been checked. */
static glofnd_status fit_store(gf_error *err, const gf_config *c, const glofnd_store *stored, const gf_store_spec *own,
                               glofnd_store **out) {
    const unsigned memory = gf_detector_memory(c);
    gf_store_spec spec = *own;
    spec.n = stored->spec.n;
    *out = NULL;
    TRY(gf_store_new(err, &spec, NULL, out));
    glofnd_status status = copy_store_rows(err, stored, memory & GF_REMEMBERS_BANK, *out);
    /* What belongs to no anchor: the shared rows, and the ring. */
    if (status == GLOFND_OK && memory & GF_REMEMBERS_RING) status = gf_store_carry(err, stored, *out);
    else if (status == GLOFND_OK) memcpy((*out)->shared, stored->shared, sizeof stored->shared);
    if (status == GLOFND_OK) return GLOFND_OK;
    glofnd_store_free(*out);
    *out = NULL;
    return status;
}

/* ----- parts of ranks ----- */

void gf_anchors_part_name(const char *anchors, int rank, int ranks, char *name, size_t bytes) {
    const int n = snprintf(name, bytes, GF_ANCHORS_PART_FORMAT, anchors, rank, ranks);
    if (n < 0 || (size_t)n >= bytes) *name = 0; /* cannot be: paths of runs are short enough */
}

/* R of "NAME.rrrrr-of-R", which a rank of R has written; 0 for any other file. */
static int ranks_of(const char *file, const char *name) {
    const size_t skip = strlen(name);
    int rank, ranks, end = 0;
    if (strncmp(file, name, skip) != 0 || sscanf(file + skip, ".%5d-of-%5d%n", &rank, &ranks, &end) != 2) return 0;
    return end > 0 && file[skip + (size_t)end] == 0 && rank >= 0 && rank < ranks ? ranks : 0;
}

glofnd_status gf_anchors_part_count(gf_error *err, const char *anchors, int *ranks) {
    const char *slash = strrchr(anchors, '/');
    char folder[PATH_MAX];
    int different = 0;
    *ranks = 0;
    snprintf(folder, sizeof folder, "%.*s", slash ? (int)(slash + 1 - anchors) : 1, slash ? anchors : ".");
    int error = 0;
    DIR *d = gf_open_folder(folder);
    FAIL_IF(err, !d, GLOFND_E_IO, "%.300s cannot be searched for the anchors of ranks: %s", folder, strerror(errno));
    for (struct dirent *e; (e = gf_next_entry(d, &error));) {
        const int found = ranks_of(e->d_name, slash ? slash + 1 : anchors);
        different |= found > 0 && *ranks > 0 && found != *ranks;
        if (found > 0) *ranks = found;
    }
    closedir(d);
    FAIL_IF(err, error, GLOFND_E_IO, "%.300s cannot be searched for the anchors of ranks: %s", folder, strerror(error));
    FAIL_IF(err, different, GLOFND_E_FORMAT, "%.300s: it has parts of different numbers of ranks", anchors);
    return GLOFND_OK;
}

/* ----- saving ----- */

glofnd_status gf_anchors_save_shard(gf_error *err, const gf_trainer *t, const char *anchors) {
    const gf_shard *s = gf_loss_stage_shard(t->loss);
    char path[PATH_MAX];
    gf_anchors_part_name(anchors, t->comm->rank, t->comm->ranks, path, sizeof path);
    return gf_ctx_status(err, gf_shard_ctx(s), glofnd_store_save(gf_shard_ctx(s), gf_shard_store(s), path));
}

glofnd_status gf_anchors_save(gf_error *err, const gf_trainer *t, const char *anchors, const char *keys) {
    glofnd_ctx *c = gf_loss_stage_ctx(t->loss);
    if (t->comm) {
        /* Ring and shared lambda, in a store that has no rows; with averages the working store, which is that and has them. */
        glofnd_ctx *ctx = gf_shard_ctx(gf_loss_stage_shard(t->loss)), *work = gf_loss_stage_ctx(t->loss);
        gf_store_spec spec = gf_loss_stage_store(t->loss)->spec;
        glofnd_store *empty = NULL;
        if (spec.bank_dim) TRY(gf_ctx_status(err, work, glofnd_store_save(work, gf_loss_stage_store(t->loss), anchors)));
        else {
            spec.n = t->info.n; /* untouched rows take no space */
            TRY(gf_store_new(err, &spec, NULL, &empty));
            glofnd_status status = gf_store_carry(err, gf_loss_stage_store(t->loss), empty);
            if (status == GLOFND_OK) status = gf_ctx_status(err, ctx, glofnd_store_save(ctx, empty, anchors));
            glofnd_store_free(empty);
            TRY(status);
        }
    } else TRY(gf_ctx_status(err, c, glofnd_store_save(c, gf_loss_stage_store(t->loss), anchors)));
    return gf_keys_save(err, t->data, keys);
}

/* ----- loading: every file of a checkpoint in turn ----- */

static glofnd_status read_anchor_file(gf_error *err, glofnd_ctx *c, const char *path, int64_t first, int64_t stride,
                                      gf_anchors_use use, void *user) {
    glofnd_store *part = NULL;
    TRY(gf_ctx_status(err, c, glofnd_store_load(c, path, NULL, &part)));
    const glofnd_status status = use(err, user, c, part, first, stride);
    glofnd_store_free(part);
    return status;
}

static glofnd_status read_anchor_parts(gf_error *err, glofnd_ctx *c, const char *anchors, gf_anchors_use use, void *user) {
    char path[PATH_MAX];
    int parts;
    TRY(gf_anchors_part_count(err, anchors, &parts));
    for (int r = 0; r < parts; r++) {
        gf_anchors_part_name(anchors, r, parts, path, sizeof path);
        TRY(read_anchor_file(err, c, path, r, parts, use, user));
    }
    return GLOFND_OK;
}

/* Reads every file once, into memory: first `anchors` itself for `whole` (with 0 and 1), then the parts for `part`. */
static glofnd_status read_anchor_files(gf_error *err, glofnd_ctx *c, const char *anchors, gf_anchors_use whole,
                                       gf_anchors_use part, void *user) {
    TRY(read_anchor_file(err, c, anchors, 0, 1, whole, user));
    return read_anchor_parts(err, c, anchors, part, user);
}

/* ----- loading: the same data ----- */

/* Rows of `part` to their ids in the store of the run, in portions. */
static glofnd_status copy_part_rows(gf_error *err, void *user, glofnd_ctx *c, const glofnd_store *part, int64_t first,
                                    int64_t stride) {
    enum { PORTION = 1024 };
    const gf_trainer *t = user;
    glofnd_ctx *own = gf_loss_stage_ctx(t->loss);
    glofnd_anchor row[PORTION];
    int64_t from[PORTION], to[PORTION];
    for (int64_t k = 0; k < part->spec.n;) {
        int64_t n = 0;
        for (; n < PORTION && k < part->spec.n && first + k * stride < t->info.n; n++, k++)
            from[n] = k, to[n] = first + k * stride;
        for (int side = 0; side < part->spec.modalities && n > 0; side++) {
            TRY(gf_ctx_status(err, c, glofnd_anchors_get(c, part, side, from, n, row)));
            TRY(gf_ctx_status(err, own, glofnd_anchors_put(own, gf_loss_stage_store(t->loss), side, to, n, row)));
        }
        if (n < PORTION) break;
    }
    return GLOFND_OK;
}

static glofnd_status adopt_rows(gf_error *err, void *user, glofnd_ctx *c, const glofnd_store *part, int64_t first,
                                int64_t stride) {
    return gf_shard_adopt(err, gf_loss_stage_shard(((gf_trainer *)user)->loss), c, part, first, stride);
}

static int is_seen(const uint16_t *average, int64_t dim) {
    for (int64_t i = 0; i < dim; i++)
        if (average[i]) return 1;
    return 0;
}

enum { AVERAGES = 1024 }; /* at a time */

static glofnd_status take_shared(gf_error *err, const gf_trainer *t, const glofnd_store *whole) {
    TRY(gf_store_carry(err, whole, gf_loss_stage_store(t->loss)));
    /* Averages of all anchors to the working store, where the run has some. */
    const glofnd_store *work = gf_loss_stage_store(t->loss);
    const int64_t dim = work->spec.bank_dim;
    if (dim == 0) return GLOFND_OK;
    uint16_t *rows = malloc(sizeof *rows * (size_t)(AVERAGES * dim));
    FAIL_IF(err, !rows, GLOFND_E_MEMORY, "no memory for %d averages of a checkpoint", AVERAGES);
    glofnd_status status = GLOFND_OK;
    for (int side = 0; side < work->spec.modalities; side++)
        for (int64_t id = 0; id < t->info.n && status == GLOFND_OK;) {
            /* The next averages of one side that are not empty, from id on, to the working store; rows [AVERAGES][dim]. */
            glofnd_ctx *c = gf_loss_stage_ctx(t->loss);
            const int64_t stored = whole->spec.bank_dim; /* 0: the checkpoint has none */
            int64_t seen[AVERAGES], n = 0;
            for (; n < AVERAGES && id < t->info.n; ++id) {
                gf_store_bank_gather(whole, side, &id, 1, rows + n * stored);
                seen[n] = id;
                n += is_seen(rows + n * stored, stored);
            }
            status = gf_ctx_status(err, c, glofnd_bank_put(c, gf_loss_stage_store(t->loss), side, seen, n, rows));
        }
    free(rows);
    return status;
}

/* Where the run's own store is another, by way of one that has what the run remembers. */
static glofnd_status adopt_shared(gf_error *err, void *user, glofnd_ctx *c, const glofnd_store *whole, int64_t first,
                                  int64_t stride) {
    gf_trainer *t = user;
    const gf_store_spec *own = &gf_loss_stage_store(t->loss)->spec;
    glofnd_store *fitted = NULL;
    FAIL_IF(err, whole->spec.n != t->info.n, GLOFND_E_FORMAT, "the checkpoint holds %lld anchors, the data has %lld samples",
            (long long)whole->spec.n, (long long)t->info.n);
    TRY(check_memory(err, &t->config, &whole->spec, own, "the checkpoint"));
    if (!fits_as_it_is(&t->config, &whole->spec, own)) TRY(fit_store(err, &t->config, whole, own, &fitted));
    const glofnd_status status = take_shared(err, t, fitted ? fitted : whole);
    glofnd_store_free(fitted);
    TRY(status);
    return adopt_rows(err, user, c, whole, first, stride);
}

/* ----- loading: other data, or anchors of a run that remembers more ----- */

typedef struct changes {
    const gf_store_spec *own;
    const char *anchors, *scratch; /* files: as stored; to be made */
    const gf_remap *counts;
    const int64_t *to; /* NULL: the data is the same */
} changes;

static glofnd_status write_changed(gf_error *err, const gf_trainer *t, glofnd_ctx *c, const changes *x) {
    glofnd_store *old = NULL, *moved = NULL, *fitted = NULL; /* as stored; for other data; as the run remembers */
    TRY(gf_ctx_status(err, c, glofnd_store_load(c, x->anchors, NULL, &old)));
    glofnd_status status = GLOFND_OK;
    if (old->spec.n != x->counts->rows)
        status = gf_fail(err, GLOFND_E_FORMAT, "%s holds %lld anchors, and there are %lld keys", x->anchors,
                         (long long)old->spec.n, (long long)x->counts->rows);
    if (status == GLOFND_OK) status = check_memory(err, &t->config, &old->spec, x->own, x->anchors);
    if (status == GLOFND_OK && x->to) status = gf_store_remap(err, old, t->info.n, x->to, &moved);
    if (status == GLOFND_OK && !fits_as_it_is(&t->config, &old->spec, x->own))
        status = fit_store(err, &t->config, moved ? moved : old, x->own, &fitted);
    const glofnd_store *new = fitted ? fitted : moved ? moved : old;
    if (status == GLOFND_OK) status = gf_ctx_status(err, c, glofnd_store_save(c, new, x->scratch));
    glofnd_store_free(fitted);
    glofnd_store_free(moved);
    glofnd_store_free(old);
    return status;
}

/* By way of a file, since the store that trains may live in one, or on a device. */
static glofnd_status load_changed(gf_error *err, gf_trainer *t, const changes *x) {
    glofnd_options plain = t->config.method;
    glofnd_ctx *c = NULL;
    plain.device = GLOFND_DEVICE_CPU;
    TRY(gf_ctx_create(err, &plain, &c));
    glofnd_status status = write_changed(err, t, c, x);
    glofnd_ctx_free(c);
    if (status == GLOFND_OK) status = gf_loss_stage_load(err, t->loss, x->scratch);
    unlink(x->scratch);
    return status;
}

static glofnd_status refuse_remap(gf_error *err, const gf_remap *x) {
    if (x->lost == 0 && x->fresh == 0)
        GF_FAIL(err, GLOFND_E_FORMAT,
                "the samples are in a different order from the checkpoint's; --remap lets every anchor follow its sample");
    GF_FAIL(
        err, GLOFND_E_FORMAT,
        "the data is not the one of the checkpoint: of its %lld samples %lld are found and %lld are missing, and %lld are new; "
        "give the same data, or --remap to continue with the anchors that are found",
        (long long)x->rows, (long long)x->kept, (long long)x->lost, (long long)x->fresh);
}

glofnd_status gf_anchors_load(gf_error *err, gf_trainer *t, const char *anchors, const char *keys, const char *scratch, int remap,
                              gf_remap *out) {
    int same = 1, there, parts;
    int64_t *to = NULL;
    *out = (gf_remap){.rows = t->info.n, .kept = t->info.n};
    TRY(gf_exists(err, keys, &there));
    if (there) TRY(gf_keys_same(err, t->data, keys, &same));
    /* One of several ranks: its own anchors out of all files, ring and shared lambda, all averages. */
    if (same && t->comm)
        return read_anchor_files(err, gf_shard_ctx(gf_loss_stage_shard(t->loss)), anchors, adopt_shared, adopt_rows, t);
    const gf_store_spec own = gf_loss_stage_store(t->loss)->spec;
    if (same) { /* the same data, one rank */
        const gf_remap counts = {.rows = t->info.n};
        const changes x = {&own, anchors, scratch, &counts, NULL};
        TRY(gf_loss_stage_load(err, t->loss, anchors));
        const gf_store_spec *stored = &gf_loss_stage_store(t->loss)->spec;
        TRY(check_memory(err, &t->config, stored, &own, anchors));
        if (!fits_as_it_is(&t->config, stored, &own)) TRY(load_changed(err, t, &x));
    }
    TRY(gf_anchors_part_count(err, anchors, &parts));
    if (same) { /* anchors of all parts into the store, which has been loaded from `anchors` */
        glofnd_options plain;
        glofnd_ctx *c = NULL;
        if (parts == 0) return GLOFND_OK;
        gf_method_options_init(&plain);
        TRY(gf_ctx_create(err, &plain, &c));
        const glofnd_status status = read_anchor_parts(err, c, anchors, copy_part_rows, t);
        glofnd_ctx_free(c);
        return status;
    }
    FAIL_IF(err, remap && (t->comm || parts > 0), GLOFND_E_UNSUPPORTED,
            "--remap works on one rank, from a checkpoint of one rank: resume once with one rank and the previous data");
    TRY(gf_keys_map(err, t->data, keys, &to, out));
    const changes x = {&own, anchors, scratch, out, to};
    const glofnd_status status = remap ? load_changed(err, t, &x) : refuse_remap(err, out);
    free(to);
    return status;
}

/* ----- learned thresholds ----- */

#define CHANGED_MAX 0.1 /* share of the samples that may be missing or new: more is other data */

typedef struct source {
    const char *run, *spec;
    const gf_config *config;
    const gf_dataset *data;
    int partial;
    char folder[PATH_MAX]; /* of the checkpoint */
    char keys[PATH_MAX];   /* "": it has none */
} source;

void gf_learned_free(gf_learned *l) {
    for (int side = 0; side < 2; side++) free(l->at[side]);
    *l = (gf_learned){.step = l->step};
}

static glofnd_status alloc_values(gf_error *err, int64_t n, float **out) {
    *out = malloc((size_t)n * sizeof **out);
    FAIL_IF(err, !*out, GLOFND_E_MEMORY, "no memory for %lld thresholds", (long long)n);
    return GLOFND_OK;
}

/* ----- learned thresholds: in the order of the rows ----- */

/* Rows of one file to their places; those never visited leave what is there. */
static glofnd_status take_rows(gf_error *err, void *user, glofnd_ctx *c, const glofnd_store *part, int64_t first,
                               int64_t stride) {
    enum { PORTION = 1024 };
    const gf_learned *l = user;
    glofnd_anchor row[PORTION];
    int64_t id[PORTION];
    const int64_t rows = gf_shard_size(l->n, (int)first, (int)stride);
    FAIL_IF(err, part->spec.n != rows || part->spec.modalities != l->sides, GLOFND_E_FORMAT,
            "part %lld of %lld of the anchors holds %lld of %d sides instead of %lld of %d", (long long)first, (long long)stride,
            (long long)part->spec.n, (int)part->spec.modalities, (long long)rows, l->sides);
    for (int64_t k = 0, n; k < rows; k += n) {
        n = rows - k < PORTION ? rows - k : PORTION;
        for (int64_t i = 0; i < n; i++) id[i] = k + i;
        for (int side = 0; side < l->sides; side++) {
            TRY(gf_ctx_status(err, c, glofnd_anchors_get(c, part, side, id, n, row)));
            for (int64_t i = 0; i < n; i++)
                if (row[i].clock) l->at[side][first + (k + i) * stride] = row[i].lambda;
        }
    }
    return GLOFND_OK;
}

/* The file that every checkpoint has: all rows, or with parts none of them; and the shared threshold of each side, which is in
 * force where an anchor has none of its own. */
static glofnd_status take_whole(gf_error *err, void *user, glofnd_ctx *c, const glofnd_store *whole, int64_t first,
                                int64_t stride) {
    gf_learned *l = user;
    FAIL_IF(err, whole->spec.n != l->n, GLOFND_E_FORMAT,
            "the checkpoint holds %lld anchors, not %lld: give the data the run was trained on by --data",
            (long long)whole->spec.n, (long long)l->n);
    l->sides = whole->spec.modalities;
    for (int side = 0; side < l->sides; side++) {
        const glofnd_anchor shared = gf_store_shared_get(whole, side);
        TRY(alloc_values(err, l->n, &l->at[side]));
        for (int64_t i = 0; i < l->n; i++) l->at[side][i] = shared.clock ? shared.lambda : NAN;
    }
    return take_rows(err, user, c, whole, first, stride);
}

static int is_any(const gf_learned *l) {
    for (int side = 0; side < l->sides; side++)
        for (int64_t i = 0; i < l->n; i++)
            if (!isnan(l->at[side][i])) return 1;
    return 0;
}

/* ----- learned thresholds: in the order of the data ----- */

static glofnd_status refuse_thresholds(gf_error *err, const char *run, int partial, const gf_remap *x) {
    const double max = partial ? CHANGED_MAX * (double)x->rows : 0.0;
    FAIL_IF(err, (double)GF_MAX(x->lost, x->fresh) > max, GLOFND_E_ARGUMENT,
            "%.200s has thresholds of %lld samples: %lld of them are in this data and %lld are missing, and %lld here have none; "
            "give the data it was trained on by --data",
            run, (long long)x->rows, (long long)x->kept, (long long)x->lost, (long long)x->fresh);
    FAIL_IF(
        err, x->repeated, GLOFND_E_ARGUMENT,
        "the samples are in a different order from that of the training of %.200s, and %lld of their names are repeated, so that "
        "thresholds cannot be assigned to samples; give the data in its previous order by --data",
        run, (long long)x->repeated);
    return GLOFND_OK;
}

/* Row i goes to position to[i] of n samples; those that are missing go, and new ones have none. */
static glofnd_status put_in_order(gf_error *err, gf_learned *l, const int64_t *to, int64_t n) {
    for (int side = 0; side < l->sides; side++) {
        float *moved;
        TRY(alloc_values(err, n, &moved));
        for (int64_t i = 0; i < n; i++) moved[i] = NAN;
        for (int64_t i = 0; i < l->n; i++)
            if (to[i] >= 0) moved[to[i]] = l->at[side][i];
        free(l->at[side]);
        l->at[side] = moved;
    }
    l->n = n;
    return GLOFND_OK;
}

/* ----- learned thresholds: all of it ----- */

static glofnd_status read_checkpoint(gf_error *err, source *x, gf_learned *l) {
    char anchors[PATH_MAX];
    int listed;
    TRY(gf_path_join(err, anchors, x->folder, GF_ANCHORS_FILE));
    TRY(gf_path_join(err, x->keys, x->folder, GF_KEYS_FILE));
    TRY(gf_manifest_check_one(err, x->folder, GF_ANCHORS_FILE, &listed));
    TRY(gf_manifest_check_one(err, x->folder, GF_KEYS_FILE, &listed)); /* lost or corrupt keys are not "no keys" */
    TRY(gf_exists(err, x->keys, &listed));
    if (!listed) *x->keys = 0;
    /* Without keys, in a checkpoint of an earlier version, only numbers of samples can be compared. */
    if (*x->keys) {
        /* of the file; E_FORMAT: corrupt */
        gf_reader r;
        TRY(gf_reader_open(err, &r, x->keys));
        const glofnd_status rows_status = read_head(&r, &l->n);
        gf_reader_close(&r);
        TRY(rows_status);
    } else l->n = gf_dataset_describe(x->data).n;

    glofnd_options plain;
    glofnd_ctx *c = NULL;
    gf_method_options_init(&plain); /* of the CPU: the run's device need not be here */
    TRY(gf_ctx_create(err, &plain, &c));
    glofnd_status status = read_anchor_files(err, c, anchors, take_whole, take_rows, l);
    glofnd_ctx_free(c);
    TRY(status);
    if (!is_any(l)) return gf_learned_free(l), GLOFND_OK;
    if (*x->keys) {
        gf_remap found;
        int64_t *to = NULL;
        int same = 0;
        TRY(gf_keys_same(err, x->data, x->keys, &same));
        if (!same) {
            TRY(gf_keys_map(err, x->data, x->keys, &to, &found));
            status = refuse_thresholds(err, x->run, x->partial, &found);
            if (status == GLOFND_OK) status = put_in_order(err, l, to, gf_dataset_describe(x->data).n);
            free(to);
            l->lost = found.lost, l->fresh = found.fresh;
            TRY(status);
        }
    }
    /* Against the SPEC in the checkpoint, or the run's, since checkpoints of earlier versions have none. */
    gf_config then;
    int has = 0;
    TRY(gf_checkpoint_config(err, x->folder, &then, &has));
    return gf_keys_check_pictures(err, x->data, x->spec, has ? then.data : x->config->data);
}

glofnd_status gf_learned_read(gf_error *err, const char *run, const gf_config *c, const gf_dataset *d, const char *spec,
                              int partial, gf_learned *out) {
    source x = {.run = run, .spec = spec, .config = c, .data = d, .partial = partial};
    *out = (gf_learned){.step = -1};
    TRY(gf_checkpoint_latest(err, run, x.folder));
    if (!*x.folder) return GLOFND_OK;
    out->step = gf_checkpoint_step(x.folder);
    const glofnd_status status = read_checkpoint(err, &x, out);
    if (status != GLOFND_OK) gf_learned_free(out);
    return status;
}
