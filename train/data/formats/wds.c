/* wds.c - WebDataset shards as a dataset: positions run through the shards in order. See wds.h for samples and index files. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "data/formats/wds.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "data/dataset_format.h"
#include "util/parallel.h"

#define KEEP_OPEN 256 /* up to this number of shards stay open; beyond, a read opens its shard */
#define THREADS_MAX 8

typedef struct opening { /* the task of opening one shard */
    gf_wds_shard shard;
    int fd;
    glofnd_status status;
    gf_error err;
} opening;

typedef struct wds {
    gf_string_list paths; /* of the shards */
    opening *shards;      /* [paths.n] */
    int64_t *first;       /* [paths.n + 1] positions where shards begin */
    int keep_open;
    int must_write; /* gf_wds_index_all: scan anew, and fail if an index cannot be written */
} wds;

/* ----- opening ----- */

static glofnd_status index_path(gf_error *err, const char *shard, char out[PATH_MAX]) {
    const int n = snprintf(out, PATH_MAX, "%s.gfidx", shard);
    FAIL_IF(err, n < 0 || n >= PATH_MAX, GLOFND_E_IO, "the path '%.400s' is too long", shard);
    return GLOFND_OK;
}

static glofnd_status open_shard(gf_error *err, const wds *w, const char *path, opening *o) {
    gf_file_stamp stamp;
    char index[PATH_MAX];
    TRY(index_path(err, path, index));
    TRY(gf_file_open(err, path, &o->fd, &stamp));
    if (!w->must_write && gf_wds_index_load(NULL, index, stamp, &o->shard) == GLOFND_OK) return GLOFND_OK;
    TRY(gf_wds_scan(err, path, o->fd, stamp, &o->shard));
    if (w->must_write) return gf_wds_index_save(err, index, &o->shard);
    (void)gf_wds_index_save(NULL, index, &o->shard); /* a read-only folder: kept in memory */
    return GLOFND_OK;
}

static void open_task(void *arg, int64_t task, int thread) {
    (void)thread;
    wds *w = arg;
    opening *o = &w->shards[task];
    o->status = open_shard(&o->err, w, gf_string_list_get(&w->paths, task), o);
    if (!w->keep_open && o->fd >= 0) {
        close(o->fd);
        o->fd = -1;
    }
}

static glofnd_status open_shards(gf_error *err, wds *w) {
    const int64_t n = w->paths.n;
    w->shards = calloc((size_t)n, sizeof *w->shards);
    w->first = calloc((size_t)n + 1, sizeof *w->first);
    FAIL_IF(err, !w->shards || !w->first, GLOFND_E_MEMORY, "no memory for %lld shards", (long long)n);
    for (int64_t k = 0; k < n; k++) w->shards[k].fd = -1;
    w->keep_open = n <= KEEP_OPEN;
    const int threads = gf_parallel_default();
    gf_parallel(threads < THREADS_MAX ? threads : THREADS_MAX, n, open_task, w);
    for (int64_t k = 0; k < n; k++) {
        if (w->shards[k].status != GLOFND_OK) return gf_fail(err, w->shards[k].status, "%s", w->shards[k].err.text);
        w->first[k + 1] = w->first[k] + w->shards[k].shard.keys.n;
    }
    return GLOFND_OK;
}

static void close_wds(void *self) {
    wds *w = self;
    if (!w) return;
    for (int64_t k = 0; w->shards && k < w->paths.n; k++) {
        gf_wds_shard_free(&w->shards[k].shard);
        if (w->shards[k].fd >= 0) close(w->shards[k].fd);
    }
    free(w->shards);
    free(w->first);
    gf_string_list_free(&w->paths);
    free(w);
}

/* NAME beside the first shard, or in the folder above. 0: neither is there. */
static int find_beside(const wds *w, const char *name, char *path, size_t bytes) {
    char above[64];
    const char *shard = gf_string_list_get(&w->paths, 0);
    snprintf(above, sizeof above, "../%.50s", name);
    if (gf_path_beside(NULL, shard, name, path, bytes) == GLOFND_OK && access(path, R_OK) == 0) return 1;
    return gf_path_beside(NULL, shard, above, path, bytes) == GLOFND_OK && access(path, R_OK) == 0;
}

static int templates(const gf_dataset *d, char *out, size_t bytes) {
    return find_beside(d->self, "zeroshot_classification_templates.txt", out, bytes);
}

/* It may name more classes than these shards have samples of. */
static glofnd_status read_class_names(gf_error *err, const wds *w, gf_dataset *d) {
    char path[PATH_MAX];
    if (d->info.classes == 0 || !find_beside(w, "classnames.txt", path, sizeof path)) return GLOFND_OK;
    TRY(gf_read_class_names(err, d, path, d->info.classes, GF_CLASSES_MAX, &d->classes));
    if (d->classes.n > 0) d->info.classes = (int32_t)d->classes.n;
    return GLOFND_OK;
}

/* Shards with a remark: their number, the first of them, and the sum of remarks. */
typedef struct tally {
    int64_t shards, first, sum;
} tally;

static void count(tally *t, int64_t shard, int64_t amount) {
    if (amount > 0 && t->shards++ == 0) t->first = shard;
    t->sum += amount;
}

static void write_note(const wds *w, gf_dataset *d) {
    tally left = {0}, unused = {0}, unmarked = {0}, empty = {0};
    for (int64_t k = 0; k < w->paths.n; k++) {
        const gf_wds_shard *s = &w->shards[k].shard;
        count(&left, k, s->left_out);
        count(&unused, k, s->unused);
        count(&unmarked, k, s->no_end_mark);
        count(&empty, k, s->keys.n == 0);
    }
    if (left.sum)
        gf_dataset_add_note(d, "%lld key%s without %s left out, in %lld shard%s, the first: %.300s:%.150s", (long long)left.sum,
                            left.sum == 1 ? "" : "s", gf_image_endings(), (long long)left.shards, left.shards == 1 ? "" : "s",
                            gf_string_list_get(&w->paths, left.first), w->shards[left.first].shard.left_first);
    if (unused.sum)
        gf_dataset_add_note(
            d, "%lld member%s cannot be used, so that captions or labels are missing, in %lld shard%s, the first: %.300s: %.250s",
            (long long)unused.sum, unused.sum == 1 ? "" : "s", (long long)unused.shards, unused.shards == 1 ? "" : "s",
            gf_string_list_get(&w->paths, unused.first), w->shards[unused.first].shard.unused_first);
    if (unmarked.sum)
        gf_dataset_add_note(d, "%lld shard%s without tar's end mark, perhaps cut short, the first: %.300s",
                            (long long)unmarked.sum, unmarked.sum == 1 ? "" : "s", gf_string_list_get(&w->paths, unmarked.first));
    if (empty.sum)
        gf_dataset_add_note(d, "%lld shard%s without a sample, the first: %.300s", (long long)empty.sum,
                            empty.sum == 1 ? "" : "s", gf_string_list_get(&w->paths, empty.first));
}

static glofnd_status check_complete(gf_error *err, const gf_dataset *d) {
    const wds *w = d->self;
    for (int64_t k = 0; k < w->paths.n; k++) {
        const gf_wds_shard *s = &w->shards[k].shard;
        FAIL_IF(
            err, s->no_end_mark, GLOFND_E_FORMAT,
            "'%.300s' ends without tar's end mark, perhaps cut short; copy or download it again, or if it is meant to end so, "
            "add the mark with truncate -s +1024",
            gf_string_list_get(&w->paths, k));
        FAIL_IF(err, s->unused, GLOFND_E_FORMAT,
                "'%.200s': %.200s (%lld such in this shard); without strict, its sample is taken "
                "without it",
                gf_string_list_get(&w->paths, k), s->unused_first, (long long)s->unused);
    }
    return GLOFND_OK;
}

static void summarise(const wds *w, gf_dataset_info *info) {
    info->n = w->first[w->paths.n];
    for (int64_t k = 0; k < w->paths.n; k++) {
        const gf_wds_shard *s = &w->shards[k].shard;
        for (int64_t i = 0; i < s->keys.n; i++) {
            if (s->entries[i].label >= info->classes) info->classes = s->entries[i].label + 1;
            if (s->entries[i].text_size > 0) info->has_text = 1;
        }
    }
}

static glofnd_status open_wds(gf_error *err, gf_dataset *d) {
    wds *w = calloc(1, sizeof *w);
    FAIL_IF(err, !w, GLOFND_E_MEMORY, "no memory to open shards");
    d->self = w;
    TRY(gf_shards_find(err, d->spec.place, &w->paths));
    TRY(open_shards(err, w));
    summarise(w, &d->info);
    write_note(w, d);
    FAIL_IF(err, d->info.n == 0, GLOFND_E_FORMAT, "'%.200s' holds no sample with a %s%s%.250s", d->spec.place, gf_image_endings(),
            d->note[0] ? ": " : "", d->note);
    return read_class_names(err, w, d);
}

glofnd_status gf_wds_index_all(gf_error *err, const char *pattern, int64_t *shards, int64_t *samples) {
    wds *w = calloc(1, sizeof *w);
    FAIL_IF(err, !w, GLOFND_E_MEMORY, "no memory to open shards");
    w->must_write = 1;
    glofnd_status status = gf_shards_find(err, pattern, &w->paths);
    if (status == GLOFND_OK) status = open_shards(err, w);
    if (status == GLOFND_OK) {
        *shards = w->paths.n;
        *samples = w->first[w->paths.n];
    }
    close_wds(w);
    return status;
}

/* ----- reading ----- */

typedef struct place {
    int64_t shard;
    const gf_wds_entry *e;
    const char *key, *path;
} place;

static place place_of(const gf_dataset *d, int64_t i) {
    const wds *w = d->self;
    int64_t lo = 0, hi = w->paths.n - 1;
    while (lo < hi) { /* the last shard that begins at or before i */
        const int64_t mid = lo + (hi - lo + 1) / 2;
        if (w->first[mid] <= i) lo = mid;
        else hi = mid - 1;
    }
    const gf_wds_shard *s = &w->shards[lo].shard;
    const int64_t entry = i - w->first[lo];
    return (place){lo, &s->entries[entry], gf_string_list_get(&s->keys, entry), gf_string_list_get(&w->paths, lo)};
}

static int32_t label_of(const gf_dataset *d, int64_t i) { return place_of(d, i).e->label; }

static int32_t group_of(const gf_dataset *d, int64_t i) { return place_of(d, i).e->group; }

static void name_of(const gf_dataset *d, int64_t i, char *out, size_t bytes) {
    const place p = place_of(d, i);
    snprintf(out, bytes, "%s:%s", p.path, p.key);
}

static uint64_t key_of(const gf_dataset *d, int64_t i) {
    const char *key = place_of(d, i).key;
    return gf_key_hash(key, strlen(key));
}

static glofnd_status set_text(gf_error *err, const char *name, const gf_wds_entry *e, const char *text, gf_sample *out) {
    if (!(e->flags & GF_WDS_TEXT_IS_JSON)) return gf_sample_set_text(err, out, text, e->text_size);
    char *caption = NULL;
    int32_t label;
    TRY(gf_wds_json(err, name, text, e->text_size, &label, &caption));
    const glofnd_status status = caption ? gf_sample_set_text(err, out, caption, strlen(caption)) : GLOFND_OK;
    free(caption);
    return status;
}

static glofnd_status read_entry_text(gf_error *err, int fd, const char *name, const gf_wds_entry *e, gf_sample *out) {
    if (e->text_size == 0) return GLOFND_OK;
    TRY(gf_file_reserve(err, name, (size_t)e->text_size + 1, &out->encoded, &out->encoded_capacity));
    TRY(gf_file_read_at(err, fd, name, e->text_at, out->encoded, e->text_size));
    out->encoded[e->text_size] = 0;
    return set_text(err, name, e, (char *)out->encoded, out);
}

static glofnd_status read_entry(gf_error *err, int fd, const char *name, const gf_wds_entry *e, const gf_decode_hint *hint,
                                gf_sample *out) {
    TRY(read_entry_text(err, fd, name, e, out));
    TRY(gf_file_reserve(err, name, e->image_size, &out->encoded, &out->encoded_capacity));
    TRY(gf_file_read_at(err, fd, name, e->image_at, out->encoded, e->image_size));
    out->encoded_size = e->image_size;
    return gf_image_decode(err, name, out->encoded, e->image_size, hint, &out->image);
}

static glofnd_status read_parts(gf_error *err, const gf_dataset *d, int64_t i, int image, const gf_decode_hint *hint,
                                gf_sample *out) {
    const wds *w = d->self;
    const place p = place_of(d, i);
    char name[PATH_MAX];
    name_of(d, i, name, sizeof name);
    int fd = w->shards[p.shard].fd;
    const int own = fd < 0;
    if (own) TRY(gf_file_open(err, p.path, &fd, NULL));
    const glofnd_status status = image ? read_entry(err, fd, name, p.e, hint, out) : read_entry_text(err, fd, name, p.e, out);
    if (own) close(fd);
    return status;
}

static glofnd_status read_wds(gf_error *err, const gf_dataset *d, int64_t i, const gf_decode_hint *hint, gf_sample *out) {
    return read_parts(err, d, i, 1, hint, out);
}

static glofnd_status read_text(gf_error *err, const gf_dataset *d, int64_t i, gf_sample *out) {
    return read_parts(err, d, i, 0, NULL, out);
}

static glofnd_status find(gf_error *err, const gf_dataset *d, int64_t i, char *path, size_t bytes, gf_span *out) {
    const place p = place_of(d, i);
    const int n = snprintf(path, bytes, "%s", p.path);
    FAIL_IF(err, n < 0 || (size_t)n >= bytes, GLOFND_E_FORMAT, "the path '%.400s' is too long", p.path);
    *out = (gf_span){p.e->image_at, p.e->image_size};
    return GLOFND_OK;
}

static const char *const options[] = {NULL};

const gf_dataset_format gf_format_wds = {
    .name = "wds",
    .options = options,
    .open = open_wds,
    .close = close_wds,
    .label = label_of,
    .group = group_of,
    .templates = templates,
    .name_of = name_of,
    .key = key_of,
    .read = read_wds,
    .read_text = read_text,
    .check_complete = check_complete,
    .find = find,
};
