/* anchors.c - see anchors.h. */
#include "loop/anchors.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "io/file.h"
#include "loop/fit_anchors.h"
#include "method/store.h"
#include "run/run_folder.h"
#include "util/status.h"
#include "util/text.h"

/* ----- parts of ranks ----- */

void gf_anchors_part_name(const char *anchors, int rank, int ranks, char *name, size_t bytes) {
    snprintf(name, bytes, GF_ANCHORS_PART_FORMAT, anchors, rank, ranks);
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

/* Ring and shared lambda, in a store that has no rows; with averages the working store, which is that and has them. */
static glofnd_status save_shared(gf_error *err, const gf_trainer *t, const char *anchors) {
    glofnd_ctx *c = gf_shard_ctx(gf_loss_stage_shard(t->loss)), *work = gf_loss_stage_ctx(t->loss);
    gf_store_spec spec = gf_loss_stage_store(t->loss)->spec;
    glofnd_store *empty = NULL;
    if (spec.bank_dim) return gf_ctx_status(err, work, glofnd_store_save(work, gf_loss_stage_store(t->loss), anchors));
    spec.n = t->info.n; /* untouched rows take no space */
    TRY(gf_store_new(err, &spec, NULL, &empty));
    glofnd_status status = gf_store_carry(err, gf_loss_stage_store(t->loss), empty);
    if (status == GLOFND_OK) status = gf_ctx_status(err, c, glofnd_store_save(c, empty, anchors));
    glofnd_store_free(empty);
    return status;
}

glofnd_status gf_anchors_save(gf_error *err, const gf_trainer *t, const char *anchors, const char *keys) {
    glofnd_ctx *c = gf_loss_stage_ctx(t->loss);
    if (t->comm) TRY(save_shared(err, t, anchors));
    else TRY(gf_ctx_status(err, c, glofnd_store_save(c, gf_loss_stage_store(t->loss), anchors)));
    return gf_keys_save(err, t->data, keys);
}

/* ----- loading: every file of a checkpoint in turn ----- */

static glofnd_status read_file(gf_error *err, glofnd_ctx *c, const char *path, int64_t first, int64_t stride, gf_anchors_use use,
                               void *user) {
    glofnd_store *part = NULL;
    TRY(gf_ctx_status(err, c, glofnd_store_load(c, path, NULL, &part)));
    const glofnd_status status = use(err, user, c, part, first, stride);
    glofnd_store_free(part);
    return status;
}

static glofnd_status read_parts(gf_error *err, glofnd_ctx *c, const char *anchors, gf_anchors_use use, void *user) {
    char path[PATH_MAX];
    int parts;
    TRY(gf_anchors_part_count(err, anchors, &parts));
    for (int r = 0; r < parts; r++) {
        gf_anchors_part_name(anchors, r, parts, path, sizeof path);
        TRY(read_file(err, c, path, r, parts, use, user));
    }
    return GLOFND_OK;
}

glofnd_status gf_anchors_read(gf_error *err, glofnd_ctx *c, const char *anchors, gf_anchors_use whole, gf_anchors_use part,
                              void *user) {
    TRY(read_file(err, c, anchors, 0, 1, whole, user));
    return read_parts(err, c, anchors, part, user);
}

/* ----- loading: the same data ----- */

/* Rows of `part` to their ids in the store of the run, in portions. */
static glofnd_status copy_rows(gf_error *err, void *user, glofnd_ctx *c, const glofnd_store *part, int64_t first,
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

/* One rank: anchors of all parts into the store, which has been loaded from `anchors`. */
static glofnd_status load_parts(gf_error *err, gf_trainer *t, const char *anchors) {
    glofnd_options plain;
    glofnd_ctx *c = NULL;
    int parts;
    TRY(gf_anchors_part_count(err, anchors, &parts));
    if (parts == 0) return GLOFND_OK;
    gf_method_options_init(&plain);
    TRY(gf_ctx_create(err, &plain, &c));
    const glofnd_status status = read_parts(err, c, anchors, copy_rows, t);
    glofnd_ctx_free(c);
    return status;
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

/* The next averages of one side that are not empty, from *id on, to the working store; rows [AVERAGES][dim]. */
static glofnd_status copy_some(gf_error *err, const gf_trainer *t, const glofnd_store *whole, int side, int64_t *id,
                               uint16_t *rows) {
    glofnd_ctx *c = gf_loss_stage_ctx(t->loss);
    const int64_t dim = whole->spec.bank_dim;
    int64_t seen[AVERAGES], n = 0;
    for (; n < AVERAGES && *id < t->info.n; ++*id) {
        gf_store_bank_gather(whole, side, id, 1, rows + n * dim);
        seen[n] = *id;
        n += is_seen(rows + n * dim, dim);
    }
    return gf_ctx_status(err, c, glofnd_bank_put(c, gf_loss_stage_store(t->loss), side, seen, n, rows));
}

/* Averages of all anchors to the working store, where the run has some. */
static glofnd_status copy_averages(gf_error *err, const gf_trainer *t, const glofnd_store *whole) {
    const glofnd_store *work = gf_loss_stage_store(t->loss);
    const int64_t dim = work->spec.bank_dim;
    if (dim == 0) return GLOFND_OK;
    uint16_t *rows = malloc(sizeof *rows * (size_t)(AVERAGES * dim));
    FAIL_IF(err, !rows, GLOFND_E_MEMORY, "no memory for %d averages of a checkpoint", AVERAGES);
    glofnd_status status = GLOFND_OK;
    for (int side = 0; side < work->spec.modalities; side++)
        for (int64_t id = 0; id < t->info.n && status == GLOFND_OK;) status = copy_some(err, t, whole, side, &id, rows);
    free(rows);
    return status;
}

static glofnd_status take_shared(gf_error *err, const gf_trainer *t, const glofnd_store *whole) {
    TRY(gf_store_carry(err, whole, gf_loss_stage_store(t->loss)));
    return copy_averages(err, t, whole);
}

/* Where the run's own store is another, by way of one that has what the run remembers. */
static glofnd_status adopt_shared(gf_error *err, void *user, glofnd_ctx *c, const glofnd_store *whole, int64_t first,
                                  int64_t stride) {
    gf_trainer *t = user;
    const gf_store_spec *own = &gf_loss_stage_store(t->loss)->spec;
    glofnd_store *fitted = NULL;
    FAIL_IF(err, whole->spec.n != t->info.n, GLOFND_E_FORMAT, "the checkpoint holds %lld anchors, the data has %lld samples",
            (long long)whole->spec.n, (long long)t->info.n);
    TRY(gf_anchors_check_memory(err, &t->config, &whole->spec, own, "the checkpoint"));
    if (!gf_anchors_fit_as_they_are(&t->config, &whole->spec, own)) TRY(gf_anchors_fit(err, &t->config, whole, own, &fitted));
    const glofnd_status status = take_shared(err, t, fitted ? fitted : whole);
    glofnd_store_free(fitted);
    TRY(status);
    return adopt_rows(err, user, c, whole, first, stride);
}

/* One of several ranks: its own anchors out of all files, ring and shared lambda, all averages. */
static glofnd_status load_shard(gf_error *err, gf_trainer *t, const char *anchors) {
    return gf_anchors_read(err, gf_shard_ctx(gf_loss_stage_shard(t->loss)), anchors, adopt_shared, adopt_rows, t);
}

/* ----- loading: other data, or anchors of a run that remembers more ----- */

typedef struct changes {
    const gf_store_spec *own;
    const char *anchors, *scratch; /* files: as stored; to be made */
    const gf_remap *counts;
    const int64_t *to; /* NULL: the data is the same */
} changes;

/* *moved, *fitted: stores on the way, to be freed; NULL: not needed. */
static glofnd_status change(gf_error *err, const gf_trainer *t, const changes *x, const glofnd_store *old, glofnd_store **moved,
                            glofnd_store **fitted) {
    FAIL_IF(err, old->spec.n != x->counts->rows, GLOFND_E_FORMAT, "%s holds %lld anchors, and there are %lld keys", x->anchors,
            (long long)old->spec.n, (long long)x->counts->rows);
    TRY(gf_anchors_check_memory(err, &t->config, &old->spec, x->own, x->anchors));
    if (x->to) TRY(gf_store_remap(err, old, t->info.n, x->to, moved));
    if (gf_anchors_fit_as_they_are(&t->config, &old->spec, x->own)) return GLOFND_OK;
    return gf_anchors_fit(err, &t->config, *moved ? *moved : old, x->own, fitted);
}

static glofnd_status write_changed(gf_error *err, const gf_trainer *t, glofnd_ctx *c, const changes *x) {
    glofnd_store *old = NULL, *moved = NULL, *fitted = NULL;
    TRY(gf_ctx_status(err, c, glofnd_store_load(c, x->anchors, NULL, &old)));
    glofnd_status status = change(err, t, x, old, &moved, &fitted);
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

/* The same data, one rank. */
static glofnd_status load_whole(gf_error *err, gf_trainer *t, const char *anchors, const char *scratch) {
    const gf_store_spec own = gf_loss_stage_store(t->loss)->spec;
    const gf_remap counts = {.rows = t->info.n};
    const changes x = {&own, anchors, scratch, &counts, NULL};
    TRY(gf_loss_stage_load(err, t->loss, anchors));
    const gf_store_spec *stored = &gf_loss_stage_store(t->loss)->spec;
    TRY(gf_anchors_check_memory(err, &t->config, stored, &own, anchors));
    return gf_anchors_fit_as_they_are(&t->config, stored, &own) ? GLOFND_OK : load_changed(err, t, &x);
}

static glofnd_status refuse(gf_error *err, const gf_remap *x) {
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
    if (same && t->comm) return load_shard(err, t, anchors);
    if (same) TRY(load_whole(err, t, anchors, scratch));
    if (same) return load_parts(err, t, anchors);
    TRY(gf_anchors_part_count(err, anchors, &parts));
    FAIL_IF(err, remap && (t->comm || parts > 0), GLOFND_E_UNSUPPORTED,
            "--remap works on one rank, from a checkpoint of one rank: resume once with one rank and the previous data");
    TRY(gf_keys_map(err, t->data, keys, &to, out));
    const gf_store_spec own = gf_loss_stage_store(t->loss)->spec;
    const changes x = {&own, anchors, scratch, out, to};
    const glofnd_status status = remap ? load_changed(err, t, &x) : refuse(err, out);
    free(to);
    return status;
}
