/* learned_thresholds.c - see learned_thresholds.h. */
#include "loop/learned_thresholds.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dist/step_ranks.h"
#include "io/file.h"
#include "loop/anchors.h"
#include "method/store.h"
#include "run/run_folder.h"
#include "util/array.h"
#include "util/status.h"

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

/* ----- files of the checkpoint: thresholds in the order of its rows ----- */

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

static glofnd_status read_files(gf_error *err, const char *anchors, gf_learned *l) {
    glofnd_options plain;
    glofnd_ctx *c = NULL;
    gf_method_options_init(&plain); /* of the CPU: the run's device need not be here */
    TRY(gf_ctx_create(err, &plain, &c));
    const glofnd_status status = gf_anchors_read(err, c, anchors, take_whole, take_rows, l);
    glofnd_ctx_free(c);
    return status;
}

static int is_any(const gf_learned *l) {
    for (int side = 0; side < l->sides; side++)
        for (int64_t i = 0; i < l->n; i++)
            if (!isnan(l->at[side][i])) return 1;
    return 0;
}

/* ----- to the order of the data ----- */

static glofnd_status refuse(gf_error *err, const char *run, int partial, const gf_remap *x) {
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

static glofnd_status follow_keys(gf_error *err, const source *x, gf_learned *l) {
    gf_remap found;
    int64_t *to = NULL;
    int same = 0;
    TRY(gf_keys_same(err, x->data, x->keys, &same));
    if (same) return GLOFND_OK;
    TRY(gf_keys_map(err, x->data, x->keys, &to, &found));
    glofnd_status status = refuse(err, x->run, x->partial, &found);
    if (status == GLOFND_OK) status = put_in_order(err, l, to, gf_dataset_describe(x->data).n);
    free(to);
    l->lost = found.lost, l->fresh = found.fresh;
    return status;
}

/* Against the SPEC in the checkpoint, or the run's, since checkpoints of earlier versions have none. */
static glofnd_status compare_pictures(gf_error *err, const source *x) {
    gf_config then;
    int has = 0;
    TRY(gf_checkpoint_config(err, x->folder, &then, &has));
    return gf_keys_check_pictures(err, x->data, x->spec, has ? then.data : x->config->data);
}

/* ----- all of it ----- */

/* Without keys, in a checkpoint of an earlier version, only numbers of samples can be compared. */
static glofnd_status count_rows(gf_error *err, const source *x, int64_t *n) {
    if (*x->keys) return gf_keys_count(err, x->keys, n);
    *n = gf_dataset_describe(x->data).n;
    return GLOFND_OK;
}

static glofnd_status read_checkpoint(gf_error *err, source *x, gf_learned *l) {
    char anchors[PATH_MAX];
    int listed;
    TRY(gf_path_join(err, anchors, x->folder, GF_ANCHORS_FILE));
    TRY(gf_path_join(err, x->keys, x->folder, GF_KEYS_FILE));
    TRY(gf_manifest_check_one(err, x->folder, GF_ANCHORS_FILE, &listed));
    TRY(gf_manifest_check_one(err, x->folder, GF_KEYS_FILE, &listed)); /* lost or corrupt keys are not "no keys" */
    TRY(gf_exists(err, x->keys, &listed));
    if (!listed) *x->keys = 0;
    TRY(count_rows(err, x, &l->n));
    TRY(read_files(err, anchors, l));
    if (!is_any(l)) return gf_learned_free(l), GLOFND_OK;
    if (*x->keys) TRY(follow_keys(err, x, l));
    return compare_pictures(err, x);
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
