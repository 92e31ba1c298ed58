/* resume.c - see resume.h: what detectors remember, the configuration of a resumed run. */
#include "run/resume.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/file.h"
#include "run/run_folder.h"

unsigned gf_detector_memory(const gf_config *c) {
    const glofnd_options *o = &c->method;
    const int learns = gf_config_learns_lambda(c), compares = learns || o->detector == GLOFND_DETECT_FNC;
    return (learns && o->learner == GLOFND_LEARN_RING ? GF_REMEMBERS_RING : 0u) |
           (compares && o->similarity == GLOFND_SIMILARITY_BANK ? GF_REMEMBERS_BANK : 0u);
}

glofnd_status gf_detector_check_memory(gf_error *err, const gf_config *c, unsigned memory, const char *path) {
    const unsigned lacks = gf_detector_memory(c) & ~memory;
    FAIL_IF(err, lacks & GF_REMEMBERS_BANK, GLOFND_E_OPTION,
            "similarity: bank keeps averages from the first step on, and %s has none; resume with --similarity embedding, or "
            "begin a run with bank in a different --out",
            path);
    FAIL_IF(err, lacks & GF_REMEMBERS_RING, GLOFND_E_OPTION,
            "learner: ring remembers embeddings from the first step on, and %s has none; begin a run with ring in a different "
            "--out",
            path);
    return GLOFND_OK;
}

/* ----- resuming ----- */

/* 1: the value of the last key that a configuration is written with is not the same. */
static int last_differs(const gf_config *a, const gf_config *b) {
    char x[1100] = "", y[1100] = "";
    const char *key = NULL, *next;
    for (int i = 0; (next = gf_config_value(a, i, x, sizeof x)); i++) key = next;
    if (!key) return 0;
    gf_config_text(a, key, x, sizeof x);
    gf_config_text(b, key, y, sizeof y);
    return strcmp(x, y) != 0;
}

glofnd_status gf_resume_read(gf_error *err, const char *run, gf_config *config, const char **was) {
    char path[PATH_MAX], from[PATH_MAX];
    gf_config copy = {0};
    int has = 0, own = 0;
    *was = NULL;
    TRY(gf_path_join(err, path, run, GF_CONFIG_FILE));
    TRY(gf_checkpoint_latest(err, run, from));
    if (*from) TRY(gf_checkpoint_config(err, from, &copy, &has));
    TRY(gf_exists(err, path, &own));
    if (!has) return own ? gf_config_read(err, config, path) : GLOFND_OK;
    const glofnd_status status = own ? gf_config_read(err, config, path) : GLOFND_OK;
    if (status == GLOFND_E_IO) return status;
    /* A file without its end has right lines, a last one that may be unreadable, and lacks later keys. A wrong line elsewhere is
     * a mistake of the user, and an error. */
    int cut = 0;
    if (own) { /* the last line of the file has no end */
        FILE *f = gf_stream_open(path, "r");
        FAIL_IF(err, !f, GLOFND_E_IO, "%s cannot be read: %s", path, strerror(errno));
        const int last = fseek(f, -1, SEEK_END) == 0 ? getc(f) : '\n', failed = ferror(f), why = errno;
        fclose(f);
        FAIL_IF(err, failed, GLOFND_E_IO, "%s cannot be read: %s", path, strerror(why));
        cut = last != '\n';
    }
    if (status == GLOFND_OK) cut = !gf_config_covers(config, &copy) || (cut && last_differs(config, &copy));
    *was = !own ? "lost" : cut ? "cut" : NULL;
    if (!*was) return status;
    *config = copy;
    return GLOFND_OK;
}

glofnd_status gf_resume_check(gf_error *err, const char *run, const char *from, const gf_config *now, int64_t epoch_steps) {
    char path[PATH_MAX];
    gf_config before;
    int known, own;
    TRY(gf_checkpoint_config(err, from, &before, &known));
    TRY(gf_path_join(err, path, run, GF_CONFIG_FILE));
    TRY(gf_exists(err, path, &own));
    if (!known && own) {
        TRY(gf_config_init(err, &before));
        TRY(gf_config_read(err, &before, path));
        known = 1;
    }
    if (!known) return GLOFND_OK;
    TRY(gf_config_same_run(err, &before, now));
    if (epoch_steps == 0) return GLOFND_OK;
    /* Its files may have room for what its detector did not keep. */
    TRY(gf_detector_check_memory(err, now, gf_detector_memory(&before), from));
    /* What a row of an anchor holds beside its threshold depends on the learner, its scale on the similarity. */
    static const char *const keys[] = {"learner", "similarity"};
    gf_config was = before, is = *now; /* auto is what it stands for */
    was.method.learner = gf_learner_rule(&was.method), is.method.learner = gf_learner_rule(&is.method);
    const int64_t start = before.method.update_epoch;
    char old[64], new[64];
    if (!gf_config_learns_lambda(&before) || !gf_config_learns_lambda(now)) return GLOFND_OK;
    if (gf_checkpoint_step(from) <= start * epoch_steps) return GLOFND_OK;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        gf_config_text(&was, keys[i], old, sizeof old);
        gf_config_text(&is, keys[i], new, sizeof new);
        FAIL_IF(
            err, strcmp(old, new) != 0, GLOFND_E_OPTION,
            "%s: %.200s has thresholds learned with '%s' since the end of epoch %lld, and '%s' is given; resume with --%s %s, "
            "or from a checkpoint that has none yet",
            keys[i], from, old, (long long)start, new, keys[i], old);
    }
    return GLOFND_OK;
}

glofnd_status gf_resume_restore(gf_error *err, const char *run, const char *from) {
    char path[PATH_MAX];
    gf_config copy = {0};
    int has;
    TRY(gf_path_join(err, path, run, GF_CONFIG_FILE));
    TRY(gf_checkpoint_config(err, from, &copy, &has));
    return has ? gf_config_write(err, &copy, path) : GLOFND_OK;
}
