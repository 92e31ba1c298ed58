/* resume.c - see resume.h. */
#include "run/resume.h"

#include <stdio.h>
#include <unistd.h>

#include "run/checkpoint_folder.h"
#include "run/layout.h"

/* 1: the last line has no end. */
static int is_cut(const char *path) {
    FILE *f = fopen(path, "rb");
    const int last = f && fseek(f, -1, SEEK_END) == 0 ? getc(f) : '\n';
    if (f) fclose(f);
    return last != '\n';
}

/* A file without its end has right lines, a last one that may be unreadable, and lacks later keys. A wrong line elsewhere is a
 * mistake of the user, and an error. */
static glofnd_status read_own(gf_error *err, const char *path, const gf_config *copy, gf_config *own, const char **was) {
    const int there = access(path, F_OK) == 0;
    const glofnd_status status = there ? gf_config_read(err, own, path) : GLOFND_OK;
    const int cut = status == GLOFND_OK ? !gf_config_covers(own, copy) : status != GLOFND_E_IO && is_cut(path);
    *was = !there ? "lost" : cut ? "cut" : NULL;
    return *was ? GLOFND_OK : status;
}

glofnd_status gf_resume_read(gf_error *err, const char *run, gf_config *config, const char **was) {
    char path[PATH_MAX], from[PATH_MAX];
    gf_config copy = {0};
    int has = 0;
    *was = NULL;
    TRY(gf_path_join(err, path, run, GF_CONFIG_FILE));
    TRY(gf_checkpoint_latest(err, run, from));
    if (*from) TRY(gf_checkpoint_config(err, from, &copy, &has));
    if (!has) return access(path, F_OK) == 0 ? gf_config_read(err, config, path) : GLOFND_OK;
    TRY(read_own(err, path, &copy, config, was));
    if (*was) *config = copy;
    return GLOFND_OK;
}

glofnd_status gf_resume_check(gf_error *err, const char *run, const char *from, const gf_config *now) {
    char path[PATH_MAX];
    gf_config before;
    int known;
    TRY(gf_checkpoint_config(err, from, &before, &known));
    TRY(gf_path_join(err, path, run, GF_CONFIG_FILE));
    if (!known && access(path, F_OK) == 0) {
        TRY(gf_config_init(err, &before));
        TRY(gf_config_read(err, &before, path));
        known = 1;
    }
    return known ? gf_config_same_run(err, &before, now) : GLOFND_OK;
}

glofnd_status gf_resume_restore(gf_error *err, const char *run, const char *from) {
    char path[PATH_MAX];
    gf_config copy = {0};
    int has;
    TRY(gf_path_join(err, path, run, GF_CONFIG_FILE));
    TRY(gf_checkpoint_config(err, from, &copy, &has));
    return has ? gf_config_write(err, &copy, path) : GLOFND_OK;
}
