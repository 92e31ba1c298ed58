/* own_files.c - see own_files.h. */
#include "run/own_files.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "io/calls.h"
#include "run/checkpoint_folder.h"
#include "run/layout.h"
#include "util/path.h"

/* Files that training, evaluations and sweeps continue or read. Reports, thresholds and comparisons can be made again. */
static const char *const own[] = {GF_CONFIG_FILE,  GF_MODEL_FILE,  GF_LOG_FILE,        GF_EVENTS_FILE,
                                  GF_EVAL_FILE,    GF_MEMORY_FILE, GF_VOCABULARY_FILE, GF_PLANS_FILE,
                                  GF_ANCHORS_WORK, GF_CHECKPOINTS, GF_SWEEP_FILE};

static int is_own(const char *name) {
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        if (strcmp(name, own[i]) == 0) return 1;
    return 0;
}

/* Folder and name of a path that leads to a file, links followed. */
static glofnd_status split(gf_error *err, const char *path, char folder[PATH_MAX], char name[NAME_MAX + 1]) {
    char target[PATH_MAX];
    const char *at = realpath(path, target) ? target : path;
    const char *slash = strrchr(at, '/'), *base = slash ? slash + 1 : at;
    const size_t n = strlen(base), in = slash ? (size_t)(slash - at) + (slash == at) : 1;
    FAIL_IF(err, in >= PATH_MAX || n > NAME_MAX, GLOFND_E_ARGUMENT, "the path %.100s... is too long", path);
    memcpy(folder, slash ? at : ".", in);
    folder[in] = 0;
    memcpy(name, base, n + 1);
    return GLOFND_OK;
}

glofnd_status gf_own_files_check(gf_error *err, const char *flag, const char *path) {
    char folder[PATH_MAX], name[NAME_MAX + 1], mark[PATH_MAX];
    int run = 0;
    if (!path) return GLOFND_OK;
    TRY(split(err, path, folder, name));
    const int checkpoint = gf_checkpoint_step(folder) >= 0;
    if (!checkpoint && !is_own(name)) return GLOFND_OK;
    TRY(gf_path_join(err, mark, folder,
                     checkpoint                         ? GF_DONE_FILE
                     : strcmp(name, GF_SWEEP_FILE) == 0 ? GF_SWEEP_FILE
                                                        : GF_CONFIG_FILE));
    TRY(gf_exists(err, mark, &run));
    FAIL_IF(err, run && checkpoint, GLOFND_E_ARGUMENT,
            "%s: %.300s would lie in a checkpoint, and go when it does; choose a different folder", flag, path);
    FAIL_IF(err, run, GLOFND_E_ARGUMENT, "%s: %.300s is a file of the run in %.200s; choose a different name or folder", flag,
            path, folder);
    return GLOFND_OK;
}
