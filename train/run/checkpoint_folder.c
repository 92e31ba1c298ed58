/* checkpoint_folder.c - see checkpoint_folder.h. */
#include "run/checkpoint_folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/calls.h"
#include "io/folders.h"
#include "io/jsonl.h"
#include "run/layout.h"
#include "run/manifest.h"
#include "util/number_text.h"

/* ----- which there are ----- */

/* N of a folder "PREFIXN"; -1 for any other name. */
static int64_t number_of(const char *name, const char *prefix) {
    const size_t skip = strlen(prefix);
    int64_t n;
    if (strncmp(name, prefix, skip) != 0 || name[skip] < '0' || name[skip] > '9') return -1;
    return gf_integer_read(name + skip, &n) ? -1 : n;
}

/* *yes: the folder holds DONE. A failure to look is no answer. */
static glofnd_status check_complete(gf_error *err, const char *path, int *yes) {
    char done[PATH_MAX];
    TRY(gf_path_join(err, done, path, GF_DONE_FILE));
    return gf_exists(err, done, yes);
}

/* *d NULL: there is no such folder. A link to nothing, as to a disk that is not mounted, is a failure. */
static glofnd_status open_folder(gf_error *err, const char *folder, DIR **d) {
    int there = 0;
    *d = gf_open_folder(folder);
    const int why = errno;
    if (!*d && why == ENOENT) TRY(gf_exists(err, folder, &there));
    FAIL_IF(err, !*d && (there || why != ENOENT), GLOFND_E_IO,
            "%s cannot be read: %s; whether it holds a checkpoint is unknown, so nothing is begun or changed", folder,
            strerror(why));
    return GLOFND_OK;
}

static glofnd_status find_latest(gf_error *err, const char *folder, DIR *d, const char *prefix, char path[PATH_MAX]) {
    int64_t latest = -1;
    char candidate[PATH_MAX];
    int error = 0, complete;
    *path = 0;
    for (struct dirent *e; (e = gf_next_entry(d, &error));) {
        const int64_t n = number_of(e->d_name, prefix);
        if (n <= latest) continue;
        TRY(gf_path_join(err, candidate, folder, e->d_name));
        TRY(check_complete(err, candidate, &complete));
        if (!complete) continue;
        latest = n;
        memcpy(path, candidate, sizeof candidate);
    }
    FAIL_IF(err, error, GLOFND_E_IO, "%s cannot be read: %s; whether it holds a checkpoint is unknown", folder, strerror(error));
    return GLOFND_OK;
}

glofnd_status gf_checkpoint_latest(gf_error *err, const char *run, char path[PATH_MAX]) {
    char folder[PATH_MAX];
    int itself = 0;
    DIR *d;
    *path = 0;
    TRY(gf_path_join(err, folder, run, GF_CHECKPOINTS));
    if (gf_checkpoint_step(run) >= 0) TRY(check_complete(err, run, &itself));
    if (itself) memcpy(path, run, strlen(run) + 1); /* shorter than folder */
    if (itself) return GLOFND_OK;
    TRY(open_folder(err, folder, &d));
    if (!d) return GLOFND_OK;
    glofnd_status status = find_latest(err, folder, d, GF_CHECKPOINT, path);
    rewinddir(d);
    if (status == GLOFND_OK && !*path) status = find_latest(err, folder, d, GF_CHECKPOINT_RETIRED, path);
    closedir(d);
    return status;
}

glofnd_status gf_checkpoint_path(gf_error *err, const char *run, int64_t step, char path[PATH_MAX]) {
    gf_checkpoint_draft d;
    TRY(gf_checkpoint_draft_init(err, &d, run, step));
    memcpy(path, d.final, sizeof d.final);
    return GLOFND_OK;
}

glofnd_status gf_checkpoint_exists(gf_error *err, const char *run, int64_t step, int *yes) {
    char path[PATH_MAX];
    TRY(gf_checkpoint_path(err, run, step, path));
    return check_complete(err, path, yes);
}

int64_t gf_checkpoint_step(const char *path) {
    char name[64];
    size_t end = strlen(path);
    while (end > 1 && path[end - 1] == '/') end--;
    size_t begin = end;
    while (begin > 0 && path[begin - 1] != '/') begin--;
    snprintf(name, sizeof name, "%.*s", (int)(end - begin < sizeof name ? end - begin : sizeof name), path + begin);
    const int64_t n = number_of(name, GF_CHECKPOINT);
    return n >= 0 ? n : number_of(name, GF_CHECKPOINT_RETIRED);
}

/* ----- one that is complete ----- */

glofnd_status gf_checkpoint_config(gf_error *err, const char *path, gf_config *config, int *has) {
    char file[PATH_MAX];
    TRY(gf_path_join(err, file, path, GF_CONFIG_FILE));
    TRY(gf_manifest_check_one(err, path, GF_CONFIG_FILE, has));
    if (!*has) return GLOFND_OK;
    TRY(gf_config_init(err, config));
    return gf_config_read(err, config, file);
}

static glofnd_status read_vocabulary(gf_error *err, const char *state, int64_t *crc) {
    gf_jsonl_reader r = {0};
    TRY(gf_jsonl_read_open(err, &r, state));
    const int found = gf_jsonl_next(&r) && gf_jsonl_get_integer(&r, "vocab_crc", crc);
    glofnd_status status = r.status;
    gf_jsonl_read_close(&r);
    if (status == GLOFND_OK && !found) status = gf_fail(err, GLOFND_E_FORMAT, "%.300s is not that of an image-text run", state);
    return status;
}

glofnd_status gf_checkpoint_vocabulary(gf_error *err, const char *run, uint32_t *crc, int *has) {
    char path[PATH_MAX], state[PATH_MAX];
    int64_t found = 0;
    TRY(gf_checkpoint_latest(err, run, path));
    *has = *path != 0;
    if (!*has) return GLOFND_OK;
    int listed;
    TRY(gf_manifest_check_one(err, path, GF_STATE_FILE, &listed));
    TRY(gf_path_join(err, state, path, GF_STATE_FILE));
    TRY(read_vocabulary(err, state, &found));
    *crc = (uint32_t)found;
    return GLOFND_OK;
}

/* ----- a new one ----- */

static glofnd_status make_folder(gf_error *err, const char *path) {
    FAIL_IF(err, mkdir(path, 0777) != 0 && errno != EEXIST, GLOFND_E_IO, "%s cannot be made: %s", path, strerror(errno));
    return GLOFND_OK;
}

static int has_prefix(const char *name, const char *prefix) { return strncmp(name, prefix, strlen(prefix)) == 0; }

/* Its files, then the folder; no deeper. */
static void remove_files(const char *path) {
    char file[PATH_MAX];
    int error = 0;
    DIR *d = gf_open_folder(path);
    for (struct dirent *e; d && (e = gf_next_entry(d, &error));)
        if (e->d_name[0] != '.' && gf_path_join(NULL, file, path, e->d_name) == GLOFND_OK) unlink(file);
    if (d) closedir(d);
    rmdir(path);
}

/* DONE goes first, so that a folder that is half removed is never taken for a checkpoint; if it does not go, nothing else
 * does. */
static void remove_folder(const char *path) {
    char file[PATH_MAX];
    if (gf_path_join(NULL, file, path, GF_DONE_FILE) != GLOFND_OK) return;
    const int had = unlink(file) == 0;
    if (!had && errno != ENOENT) return;
    if (had) gf_folder_sync(path);
    if (gf_path_join(NULL, file, path, GF_EVAL_EVENTS) == GLOFND_OK) remove_files(file); /* of an evaluated checkpoint */
    remove_files(path);
}

/* 1: a complete step-N. Where that cannot be known it counts as one. */
static int is_complete_step(const char *folder, const char *name) {
    char path[PATH_MAX];
    int yes = 1;
    if (number_of(name, GF_CHECKPOINT) < 0 || gf_path_join(NULL, path, folder, name) != GLOFND_OK) return 0;
    return check_complete(NULL, path, &yes) != GLOFND_OK || yes;
}

/* The oldest step of the newest `count` complete ones up to `latest`. */
static int64_t oldest_to_keep(const char *folder, DIR *d, int64_t latest, int count) {
    int64_t oldest = latest;
    for (int found = 1; found && --count > 0;) {
        int64_t before = -1;
        int error = 0;
        rewinddir(d);
        for (struct dirent *e; (e = gf_next_entry(d, &error));) {
            const int64_t step = number_of(e->d_name, GF_CHECKPOINT);
            if (step > before && step < oldest && is_complete_step(folder, e->d_name)) before = step;
        }
        found = before >= 0;
        if (found) oldest = before;
    }
    rewinddir(d);
    return oldest;
}

static int is_kept(const gf_checkpoint_keep *keep, int64_t step) {
    for (int i = 0; i < keep->count; i++)
        if (keep->step[i] == step) return 1;
    return 0;
}

/* All but the one of step `latest`, whose name begins with `kind`, and the steps before it that stay. One that does not go is
 * passed over: the next checkpoint tries again. */
static void remove_others(const char *folder, int64_t latest, const char *kind, const gf_checkpoint_keep *keep) {
    char path[PATH_MAX];
    int error = 0;
    DIR *d = gf_open_folder(folder);
    if (!d) return;
    const int alone = strcmp(kind, GF_CHECKPOINT) != 0;
    const int64_t oldest = oldest_to_keep(folder, d, latest, alone ? 1 : keep->newest);
    for (struct dirent *e; (e = gf_next_entry(d, &error));) {
        const int64_t step = number_of(e->d_name, GF_CHECKPOINT), retired = number_of(e->d_name, GF_CHECKPOINT_RETIRED);
        const int newest = (step == latest || retired == latest) && has_prefix(e->d_name, kind);
        const int stays = step >= oldest || (!alone && is_kept(keep, step));
        const int kept = newest || (stays && step < latest && is_complete_step(folder, e->d_name));
        const int own = step >= 0 || retired >= 0 || has_prefix(e->d_name, GF_CHECKPOINT_UNFINISHED);
        if (own && !kept && gf_path_join(NULL, path, folder, e->d_name) == GLOFND_OK) remove_folder(path);
    }
    closedir(d);
}

glofnd_status gf_checkpoint_clean(gf_error *err, const char *run, const char *latest, const gf_checkpoint_keep *keep) {
    char folder[PATH_MAX];
    const char *slash = strrchr(latest, '/');
    TRY(gf_path_join(err, folder, run, GF_CHECKPOINTS));
    const int retired = slash && number_of(slash + 1, GF_CHECKPOINT_RETIRED) >= 0;
    if (slash) remove_others(folder, gf_checkpoint_step(latest), retired ? GF_CHECKPOINT_RETIRED : GF_CHECKPOINT, keep);
    return GLOFND_OK;
}

void gf_checkpoint_drop(const char *run, int64_t step, int newest) {
    char folder[PATH_MAX], path[PATH_MAX];
    int complete = 0;
    if (gf_checkpoint_path(NULL, run, step, path) != GLOFND_OK || check_complete(NULL, path, &complete) != GLOFND_OK) return;
    DIR *d = complete && gf_path_join(NULL, folder, run, GF_CHECKPOINTS) == GLOFND_OK ? gf_open_folder(folder) : NULL;
    if (!d) return;
    const int64_t oldest = oldest_to_keep(folder, d, INT64_MAX, newest + 1);
    closedir(d);
    if (step < oldest) remove_folder(path);
}

/* Older checkpoints go first: a step-N counts more than any before-N. */
glofnd_status gf_checkpoint_retire(gf_error *err, const char *run, const char *path) {
    char retired[PATH_MAX], name[64], folder[PATH_MAX];
    const char *slash = strrchr(path, '/');
    const int64_t n = slash ? number_of(slash + 1, GF_CHECKPOINT) : -1;
    TRY(gf_checkpoint_clean(err, run, path, &(gf_checkpoint_keep){.newest = 1}));
    if (n < 0) return GLOFND_OK; /* it is already */
    TRY(gf_path_join(err, folder, run, GF_CHECKPOINTS));
    snprintf(name, sizeof name, GF_CHECKPOINT_RETIRED "%lld", (long long)n);
    TRY(gf_path_join(err, retired, folder, name));
    FAIL_IF(err, rename(path, retired) != 0, GLOFND_E_IO, "%s cannot be renamed to %s: %s", path, retired, strerror(errno));
    gf_folder_sync(folder);
    return GLOFND_OK;
}

glofnd_status gf_checkpoint_draft_init(gf_error *err, gf_checkpoint_draft *d, const char *run, int64_t step) {
    char name[64];
    d->step = step;
    TRY(gf_path_join(err, d->folder, run, GF_CHECKPOINTS));
    snprintf(name, sizeof name, GF_CHECKPOINT_UNFINISHED "%lld", (long long)step);
    TRY(gf_path_join(err, d->temp, d->folder, name));
    snprintf(name, sizeof name, GF_CHECKPOINT "%lld", (long long)step);
    return gf_path_join(err, d->final, d->folder, name);
}

glofnd_status gf_checkpoint_draft_exists(gf_error *err, const gf_checkpoint_draft *d, int *yes) {
    return check_complete(err, d->final, yes);
}

glofnd_status gf_checkpoint_draft_create(gf_error *err, const gf_checkpoint_draft *d) {
    TRY(make_folder(err, d->folder));
    remove_folder(d->temp);
    remove_folder(d->final); /* without DONE: torn by an earlier kill */
    return make_folder(err, d->temp);
}

void gf_checkpoint_draft_discard(const gf_checkpoint_draft *d) { remove_folder(d->temp); }

glofnd_status gf_checkpoint_draft_publish(gf_error *err, const gf_checkpoint_draft *d, const char *const *name, int count,
                                          const gf_checkpoint_keep *keep) {
    gf_folder_sync(d->temp);
    FAIL_IF(err, rename(d->temp, d->final) != 0, GLOFND_E_IO, "%s cannot be renamed to %s: %s", d->temp, d->final,
            strerror(errno));
    gf_folder_sync(d->folder);
    TRY(gf_manifest_write(err, d->final, name, count));
    remove_others(d->folder, d->step, GF_CHECKPOINT, keep);
    return GLOFND_OK;
}
