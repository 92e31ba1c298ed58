/* branch.c - see branch.h. The copy is made as RUN.tmp-copy, synced, and renamed. */
#include "run/branch.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/calls.h"
#include "io/file.h"
#include "io/folders.h"
#include "run/checkpoint_folder.h"
#include "run/late_keys.h"
#include "run/layout.h"
#include "run/manifest.h"

#define COPY GF_TEMP_MARK "copy"
enum { PORTION = 1 << 20, DEPTH = 3 }; /* bytes copied at a time; RUN/checkpoints/step-N/file */

/* ----- files ----- */

static glofnd_status copy_bytes(gf_error *err, int fd, const char *name, uint64_t size, gf_writer *w) {
    unsigned char *part = malloc(PORTION);
    glofnd_status status = part ? GLOFND_OK : gf_fail(err, GLOFND_E_MEMORY, "no memory to copy %s", name);
    for (uint64_t at = 0; at < size && status == GLOFND_OK && w->status == GLOFND_OK; at += PORTION) {
        const size_t n = size - at < PORTION ? (size_t)(size - at) : PORTION;
        status = gf_file_read_at(err, fd, name, at, part, n);
        if (status == GLOFND_OK) gf_put(w, part, n);
    }
    free(part);
    return status;
}

/* As long as it is now: a log may grow. */
static glofnd_status copy_file(gf_error *err, const char *from, const char *to) {
    gf_file_stamp stamp;
    gf_writer w;
    int fd;
    TRY(gf_file_open(err, from, &fd, &stamp));
    glofnd_status status = gf_writer_open(err, &w, to);
    if (status == GLOFND_OK) status = copy_bytes(err, fd, from, stamp.size, &w);
    if (status == GLOFND_OK) status = gf_writer_commit(&w);
    gf_writer_close(&w);
    gf_close(fd);
    return status;
}

static glofnd_status copy_named(gf_error *err, const char *folder, const char *name, const char *to) {
    char source[PATH_MAX], target[PATH_MAX];
    TRY(gf_path_join(err, source, folder, name));
    TRY(gf_path_join(err, target, to, name));
    return copy_file(err, source, target);
}

/* Not every run has all of them: plans.txt is of a GPU, vocab.txt of task clip. */
static glofnd_status copy_logs(gf_error *err, const char *trunk, const char *to) {
    static const char *const names[] = {GF_LOG_FILE, GF_EVENTS_FILE, GF_PLANS_FILE, GF_VOCABULARY_FILE};
    char path[PATH_MAX];
    int there;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        TRY(gf_path_join(err, path, trunk, names[i]));
        TRY(gf_exists(err, path, &there));
        if (there) TRY(copy_named(err, trunk, names[i], to));
    }
    return GLOFND_OK;
}

/* ----- folders ----- */

/* Evaluations of a checkpoint are no part of it. */
static int is_state(const char *name) {
    return name[0] != '.' && strcmp(name, GF_EVAL_FILE) != 0 && strcmp(name, GF_EVAL_EVENTS) != 0;
}

static glofnd_status copy_checkpoint(gf_error *err, const char *from, const char *to) {
    int error = 0;
    glofnd_status status = GLOFND_OK;
    TRY(gf_folder_make(err, to, NULL));
    DIR *d = gf_open_folder(from);
    FAIL_IF(err, !d, GLOFND_E_IO, "%s cannot be read: %s", from, strerror(errno));
    for (struct dirent *e; status == GLOFND_OK && (e = gf_next_entry(d, &error));)
        if (is_state(e->d_name)) status = copy_named(err, from, e->d_name, to);
    closedir(d);
    TRY(status);
    FAIL_IF(err, error, GLOFND_E_IO, "%s cannot be read: %s", from, strerror(error));
    gf_folder_sync(to);
    return gf_manifest_check(err, to, NULL, 0);
}

static void remove_tree(const char *path, int depth) {
    char inner[PATH_MAX];
    int error = 0;
    if (unlink(path) == 0 || depth < 0) return;
    DIR *d = gf_open_folder(path);
    for (struct dirent *e; d && (e = gf_next_entry(d, &error));)
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0 &&
            gf_path_join(NULL, inner, path, e->d_name) == GLOFND_OK)
            remove_tree(inner, depth - 1);
    if (d) closedir(d);
    rmdir(path);
}

/* ----- the branch ----- */

/* In the copied checkpoint, too: a config.cfg that is lost later is restored from there. */
static glofnd_status write_configs(gf_error *err, const char *checkpoint, const gf_config *late, const char *to) {
    gf_config c;
    char path[PATH_MAX];
    int has;
    TRY(gf_checkpoint_config(err, checkpoint, &c, &has));
    FAIL_IF(err, !has, GLOFND_E_FORMAT, "%s has no " GF_CONFIG_FILE, checkpoint);
    TRY(gf_late_keys_copy(err, &c, late));
    TRY(gf_path_join(err, path, to, GF_CONFIG_FILE));
    TRY(gf_config_write(err, &c, path));
    TRY(gf_path_join(err, path, checkpoint, GF_CONFIG_FILE));
    TRY(gf_config_write(err, &c, path));
    TRY(gf_manifest_renew(err, checkpoint, GF_CONFIG_FILE));
    gf_folder_sync(checkpoint);
    return GLOFND_OK;
}

static glofnd_status fill(gf_error *err, const char *trunk, int64_t step, const char *copy, const gf_config *config) {
    char from[PATH_MAX], to[PATH_MAX];
    TRY(gf_checkpoint_path(err, trunk, step, from));
    TRY(gf_checkpoint_path(err, copy, step, to));
    TRY(copy_checkpoint(err, from, to));
    TRY(copy_logs(err, trunk, copy));
    TRY(write_configs(err, to, config, copy));
    gf_folder_sync(copy);
    return GLOFND_OK;
}

static glofnd_status name_copy(gf_error *err, const char *run, char copy[PATH_MAX]) {
    const int n = snprintf(copy, PATH_MAX, "%s" COPY, run);
    FAIL_IF(err, n < 0 || n >= PATH_MAX, GLOFND_E_ARGUMENT, "the path of the run folder is too long");
    return GLOFND_OK;
}

void gf_branch_clean(const char *run) {
    char copy[PATH_MAX];
    if (name_copy(NULL, run, copy) == GLOFND_OK) remove_tree(copy, DEPTH);
}

glofnd_status gf_branch_make(gf_error *err, const char *trunk, int64_t step, const char *run, const gf_config *config) {
    char copy[PATH_MAX];
    TRY(name_copy(err, run, copy));
    remove_tree(copy, DEPTH);
    glofnd_status status = fill(err, trunk, step, copy, config);
    if (status == GLOFND_OK && rename(copy, run) != 0)
        status = gf_fail(err, GLOFND_E_IO, "%s cannot be renamed to %s: %s", copy, run, strerror(errno));
    if (status != GLOFND_OK) remove_tree(copy, DEPTH); /* a full disk needs the space */
    return status;
}
