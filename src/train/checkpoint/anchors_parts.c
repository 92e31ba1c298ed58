/* anchors_parts.c - see anchors_parts.h. */
#include "train/checkpoint/anchors_parts.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "method/store/store.h"
#include "util/ctx_status.h"

void gf_parts_name(const char *anchors, int rank, int ranks, char *name, size_t bytes) {
    snprintf(name, bytes, "%s.%05d-of-%05d", anchors, rank, ranks);
}

/* R of "NAME.rrrrr-of-R", which a rank of R has written; 0 for any other file. */
static int ranks_of(const char *file, const char *name) {
    const size_t skip = strlen(name);
    int rank, ranks, end = 0;
    if (strncmp(file, name, skip) != 0 || sscanf(file + skip, ".%5d-of-%5d%n", &rank, &ranks, &end) != 2) return 0;
    return end > 0 && file[skip + (size_t)end] == 0 && rank >= 0 && rank < ranks ? ranks : 0;
}

glofnd_status gf_parts_count(gf_error *err, const char *anchors, int *ranks) {
    const char *slash = strrchr(anchors, '/');
    char folder[PATH_MAX];
    int different = 0;
    *ranks = 0;
    snprintf(folder, sizeof folder, "%.*s", slash ? (int)(slash + 1 - anchors) : 1, slash ? anchors : ".");
    DIR *d = opendir(folder);
    FAIL_IF(err, !d, GLOFND_E_IO, "%.300s cannot be searched for the anchors of ranks: %s", folder, strerror(errno));
    for (struct dirent *e; (e = readdir(d));) {
        const int found = ranks_of(e->d_name, slash ? slash + 1 : anchors);
        different |= found > 0 && *ranks > 0 && found != *ranks;
        if (found > 0) *ranks = found;
    }
    closedir(d);
    FAIL_IF(err, different, GLOFND_E_FORMAT, "%.300s: there are parts of different numbers of ranks", anchors);
    return GLOFND_OK;
}

/* ----- saving ----- */

glofnd_status gf_parts_save_shard(gf_error *err, const gf_trainer *t, const char *anchors) {
    const gf_shard *s = t->crew.team.shard;
    char path[PATH_MAX];
    gf_parts_name(anchors, t->comm->rank, t->comm->ranks, path, sizeof path);
    return gf_ctx_status(err, gf_shard_ctx(s), glofnd_store_save(gf_shard_ctx(s), gf_shard_store(s), path));
}

glofnd_status gf_parts_save_shared(gf_error *err, const gf_trainer *t, const char *anchors) {
    glofnd_ctx *c = gf_shard_ctx(t->crew.team.shard);
    gf_store_spec spec = t->store->spec;
    glofnd_store *hollow = NULL;
    spec.n = t->info.n; /* untouched rows take no space */
    TRY(gf_store_new(err, &spec, NULL, &hollow));
    glofnd_status status = gf_store_carry(err, t->store, hollow);
    if (status == GLOFND_OK) status = gf_ctx_status(err, c, glofnd_store_save(c, hollow, anchors));
    glofnd_store_free(hollow);
    return status;
}

/* ----- loading ----- */

static glofnd_status read_file(gf_error *err, glofnd_ctx *c, const char *path, int64_t first, int64_t stride, gf_parts_use use,
                               void *user) {
    glofnd_store *part = NULL;
    TRY(gf_ctx_status(err, c, glofnd_store_load(c, path, NULL, &part)));
    const glofnd_status status = use(err, user, c, part, first, stride);
    glofnd_store_free(part);
    return status;
}

static glofnd_status read_parts(gf_error *err, glofnd_ctx *c, const char *anchors, gf_parts_use use, void *user) {
    char path[PATH_MAX];
    int parts;
    TRY(gf_parts_count(err, anchors, &parts));
    for (int r = 0; r < parts; r++) {
        gf_parts_name(anchors, r, parts, path, sizeof path);
        TRY(read_file(err, c, path, r, parts, use, user));
    }
    return GLOFND_OK;
}

glofnd_status gf_parts_read(gf_error *err, glofnd_ctx *c, const char *anchors, gf_parts_use whole, gf_parts_use part,
                            void *user) {
    TRY(read_file(err, c, anchors, 0, 1, whole, user));
    return read_parts(err, c, anchors, part, user);
}

static glofnd_status adopt(gf_error *err, void *user, glofnd_ctx *c, const glofnd_store *part, int64_t first, int64_t stride) {
    return gf_shard_adopt(err, ((gf_trainer *)user)->crew.team.shard, c, part, first, stride);
}

static glofnd_status take_whole(gf_error *err, void *user, glofnd_ctx *c, const glofnd_store *whole, int64_t first,
                                int64_t stride) {
    gf_trainer *t = user;
    FAIL_IF(err, whole->spec.n != t->info.n, GLOFND_E_FORMAT, "the checkpoint holds %lld anchors, the data has %lld samples",
            (long long)whole->spec.n, (long long)t->info.n);
    TRY(gf_store_carry(err, whole, t->store));
    return adopt(err, user, c, whole, first, stride);
}

glofnd_status gf_parts_load_shard(gf_error *err, gf_trainer *t, const char *anchors) {
    return gf_parts_read(err, gf_shard_ctx(t->crew.team.shard), anchors, take_whole, adopt, t);
}

/* In portions: rows of `part` to their ids in the store of the run. */
static glofnd_status spread(gf_error *err, void *user, glofnd_ctx *c, const glofnd_store *part, int64_t first, int64_t stride) {
    enum { PORTION = 1024 };
    gf_trainer *t = user;
    glofnd_row row[PORTION];
    int64_t from[PORTION], to[PORTION];
    for (int64_t k = 0; k < part->spec.n;) {
        int64_t n = 0;
        for (; n < PORTION && k < part->spec.n && first + k * stride < t->info.n; n++, k++)
            from[n] = k, to[n] = first + k * stride;
        for (int side = 0; side < part->spec.modalities && n > 0; side++) {
            TRY(gf_ctx_status(err, c, glofnd_rows_get(c, part, side, from, n, row)));
            TRY(gf_ctx_status(err, t->ctx, glofnd_rows_put(t->ctx, t->store, side, to, n, row)));
        }
        if (n < PORTION) break;
    }
    return GLOFND_OK;
}

glofnd_status gf_parts_load_all(gf_error *err, gf_trainer *t, const char *anchors) {
    glofnd_options plain;
    glofnd_ctx *c = NULL;
    int parts;
    TRY(gf_parts_count(err, anchors, &parts));
    if (parts == 0) return GLOFND_OK;
    glofnd_options_init(&plain, sizeof plain);
    TRY(gf_ctx_create(err, &plain, &c));
    const glofnd_status status = read_parts(err, c, anchors, spread, t);
    glofnd_ctx_free(c);
    return status;
}
