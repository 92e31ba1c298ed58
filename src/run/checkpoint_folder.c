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

#include "io/json/jsonl.h"
#include "run/layout.h"
#include "run/manifest.h"
#include "util/strings/number_text.h"

/* ----- which there are ----- */

/* N of a folder "PREFIXN"; -1 for any other name. */
static int64_t number_of(const char *name, const char *prefix) {
    const size_t skip = strlen(prefix);
    int64_t n;
    if (strncmp(name, prefix, skip) != 0 || name[skip] < '0' || name[skip] > '9') return -1;
    return gf_integer_read(name + skip, &n) ? -1 : n;
}

static int is_complete(const char *path) {
    char done[PATH_MAX];
    return gf_path_join(NULL, done, path, GF_DONE_FILE) == GLOFND_OK && access(done, F_OK) == 0;
}

static void find_latest(const char *folder, const char *prefix, char path[PATH_MAX]) {
    int64_t latest = -1;
    char candidate[PATH_MAX];
    DIR *d = opendir(folder);
    *path = 0;
    for (struct dirent *e; d && (e = readdir(d));) {
        const int64_t n = number_of(e->d_name, prefix);
        if (n <= latest || gf_path_join(NULL, candidate, folder, e->d_name) != GLOFND_OK || !is_complete(candidate)) continue;
        latest = n;
        memcpy(path, candidate, sizeof candidate);
    }
    if (d) closedir(d);
}

glofnd_status gf_checkpoint_latest(gf_error *err, const char *run, char path[PATH_MAX]) {
    char folder[PATH_MAX];
    TRY(gf_path_join(err, folder, run, GF_CHECKPOINTS));
    find_latest(folder, GF_CHECKPOINT, path);
    if (!*path) find_latest(folder, GF_CHECKPOINT_RETIRED, path);
    return GLOFND_OK;
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
    TRY(gf_path_join(err, state, path, GF_STATE_FILE));
    TRY(read_vocabulary(err, state, &found));
    *crc = (uint32_t)found;
    return GLOFND_OK;
}

glofnd_status gf_checkpoint_retire(gf_error *err, const char *path) {
    char retired[PATH_MAX], name[64];
    const char *slash = strrchr(path, '/');
    const int64_t n = slash ? number_of(slash + 1, GF_CHECKPOINT) : -1;
    if (n < 0) return GLOFND_OK; /* it is already */
    snprintf(name, sizeof name, "../" GF_CHECKPOINT_RETIRED "%lld", (long long)n);
    TRY(gf_path_join(err, retired, path, name));
    FAIL_IF(err, rename(path, retired) != 0, GLOFND_E_IO, "%s cannot be renamed to %s: %s", path, retired, strerror(errno));
    return GLOFND_OK;
}

/* ----- a new one ----- */

static glofnd_status make_folder(gf_error *err, const char *path) {
    FAIL_IF(err, mkdir(path, 0777) != 0 && errno != EEXIST, GLOFND_E_IO, "%s cannot be made: %s", path, strerror(errno));
    return GLOFND_OK;
}

static void sync_folder(const char *path) {
    const int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return;
    fsync(fd);
    close(fd);
}

/* Files of a checkpoint, then the folder; no deeper. */
static void remove_folder(const char *path) {
    DIR *d = opendir(path);
    char file[PATH_MAX];
    for (struct dirent *e; d && (e = readdir(d));)
        if (e->d_name[0] != '.' && gf_path_join(NULL, file, path, e->d_name) == GLOFND_OK) unlink(file);
    if (d) closedir(d);
    rmdir(path);
}

static void remove_others(const char *folder, int64_t keep) {
    DIR *d = opendir(folder);
    char path[PATH_MAX];
    for (struct dirent *e; d && (e = readdir(d));) {
        const int64_t n = number_of(e->d_name, GF_CHECKPOINT);
        const int stale = (n >= 0 && n != keep) || number_of(e->d_name, GF_CHECKPOINT_RETIRED) >= 0 ||
                          strncmp(e->d_name, GF_CHECKPOINT_UNFINISHED, strlen(GF_CHECKPOINT_UNFINISHED)) == 0;
        if (stale && gf_path_join(NULL, path, folder, e->d_name) == GLOFND_OK) remove_folder(path);
    }
    if (d) closedir(d);
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

int gf_checkpoint_draft_exists(const gf_checkpoint_draft *d) { return is_complete(d->final); }

glofnd_status gf_checkpoint_draft_create(gf_error *err, const gf_checkpoint_draft *d) {
    TRY(make_folder(err, d->folder));
    remove_folder(d->temp);
    remove_folder(d->final); /* without DONE: torn by an earlier kill */
    return make_folder(err, d->temp);
}

void gf_checkpoint_draft_discard(const gf_checkpoint_draft *d) { remove_folder(d->temp); }

glofnd_status gf_checkpoint_draft_publish(gf_error *err, const gf_checkpoint_draft *d, const char *const *name, int count) {
    sync_folder(d->temp);
    FAIL_IF(err, rename(d->temp, d->final) != 0, GLOFND_E_IO, "%s cannot be renamed to %s: %s", d->temp, d->final,
            strerror(errno));
    sync_folder(d->folder);
    TRY(gf_manifest_write(err, d->final, name, count));
    remove_others(d->folder, d->step);
    return GLOFND_OK;
}
