/* resume.c - see resume.h: keys that may differ, the configuration of a resumed run, branches. */
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

/* `sooner`: it acts from the first step on where samples of equal contents are no negatives (task clip, mask_duplicates).
 * `shapes`: it acts then on what is remembered, not on the steps. A key that is not listed must be equal. start_epoch comes
 * before the two that it sets. */
/* clang-format off */
static const struct {
    const char *key;
    int sooner;
    unsigned shapes;
} late_keys[] = {
    {"start_epoch", 0, 0}, {"update_epoch", 0, 0}, {"mask_epoch", 0, 0}, {"detector", 0, 0}, {"alpha", 0, 0},
    {"action", 1, 0}, {"omega", 1, 0}, {"attract_omega", 1, 0},
    {"lambda_init", 0, 0}, {"lambda_lr", 0, 0}, {"lambda_warmup", 0, 0}, {"lambda_beta1", 0, 0},
    {"lambda_beta2", 0, 0}, {"lambda_decay", 0, 0}, {"learner", 0, 0}, {"ring_rows", 0, GF_REMEMBERS_RING},
    {"similarity", 0, GF_REMEMBERS_RING}, /* a ring of embeddings, or of averages */ {"bank_momentum", 0, GF_REMEMBERS_BANK},
    {"fnc_rule", 0, 0}, {"fnc_threshold", 0, 0}, {"fnc_support", 0, 0}, {"margin", 0, 0},
    {"neighbours", 0, 0}, {"neighbour_rows", 0, 0}, {"neighbour_weight", 0, 0}, {"neighbour_share", 0, 0},
    {"groups", 0, 0}, {"kmeans_groups", 0, 0}, {"kmeans_epochs", 0, 0}, {"kmeans_iterations", 0, 0}, {"kmeans_accept", 0, 0},
    {"checkpoint_epochs", 0, 0},
};
/* clang-format on */

static int masks_duplicates(const gf_config *c) { return c->task == GF_TASK_CLIP && c->mask_duplicates; }

/* Without a detector duplicates are masked nevertheless, by the epochs of a detector. */
int32_t gf_detector_start(const gf_config *c) {
    const int none = c->method.detector == GLOFND_DETECT_NONE && !masks_duplicates(c);
    return none || c->method.update_epoch > c->epochs ? c->epochs : c->method.update_epoch;
}

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

/* memory: what the run that begins as a copy remembers. */
static int may_differ(const gf_config *c, const char *key, unsigned memory) {
    for (size_t i = 0; i < sizeof late_keys / sizeof *late_keys; i++)
        if (strcmp(late_keys[i].key, key) == 0)
            return !(late_keys[i].sooner && masks_duplicates(c)) && !(late_keys[i].shapes & memory);
    return 0;
}

static const char *first_key_that_differs(const gf_config *a, const gf_config *b, unsigned memory) {
    char x[1100], y[1100];
    const char *key;
    for (int i = 0; (key = gf_config_value(a, i, x, sizeof x)); i++) {
        gf_config_value(b, i, y, sizeof y);
        if (strcmp(x, y) != 0 && !may_differ(a, key, memory)) return key;
    }
    return NULL;
}

const char *gf_early_key(const gf_config *a, const gf_config *b) { return first_key_that_differs(a, b, 0); }

const char *gf_parting_key(const gf_config *trunk, const gf_config *branch) {
    const unsigned memory = gf_detector_memory(branch), lacks = memory & ~gf_detector_memory(trunk);
    const char *key = first_key_that_differs(trunk, branch, memory & ~lacks);
    if (key || !lacks) return key;
    if (lacks & GF_REMEMBERS_RING && trunk->method.learner != branch->method.learner) return "learner";
    if (lacks & GF_REMEMBERS_BANK && trunk->method.similarity != branch->method.similarity) return "similarity";
    return "detector";
}

glofnd_status gf_late_keys_copy(gf_error *err, gf_config *to, const gf_config *from) {
    char value[1100];
    for (size_t i = 0; i < sizeof late_keys / sizeof *late_keys; i++) {
        gf_config_text(from, late_keys[i].key, value, sizeof value);
        TRY(gf_config_set(err, to, late_keys[i].key, value));
    }
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
    const int64_t start = before.method.update_epoch;
    char old[64], new[64];
    if (!gf_config_learns_lambda(&before) || !gf_config_learns_lambda(now)) return GLOFND_OK;
    if (gf_checkpoint_step(from) <= start * epoch_steps) return GLOFND_OK;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        gf_config_text(&before, keys[i], old, sizeof old);
        gf_config_text(now, keys[i], new, sizeof new);
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

/* ----- branches -----
 *
 * The copy is made as RUN.tmp-copy, synced, and renamed. */

#define COPY GF_TEMP_MARK "copy"
enum { PORTION = 1 << 20, DEPTH = 3 }; /* bytes copied at a time; RUN/checkpoints/step-N/file */

static glofnd_status copy_named(gf_error *err, const char *folder, const char *name, const char *to) {
    char source[PATH_MAX], target[PATH_MAX];
    TRY(gf_path_join(err, source, folder, name));
    TRY(gf_path_join(err, target, to, name));
    /* As long as it is now: a log may grow. */
    gf_file_stamp stamp;
    gf_writer w;
    int fd;
    TRY(gf_file_open(err, source, &fd, &stamp));
    glofnd_status status = gf_writer_open(err, &w, target);
    unsigned char *part = malloc(PORTION);
    if (status == GLOFND_OK && !part) status = gf_fail(err, GLOFND_E_MEMORY, "no memory to copy %s", source);
    for (uint64_t at = 0; at < stamp.size && status == GLOFND_OK && w.status == GLOFND_OK; at += PORTION) {
        const size_t n = stamp.size - at < PORTION ? (size_t)(stamp.size - at) : PORTION;
        status = gf_file_read_at(err, fd, source, at, part, n);
        if (status == GLOFND_OK) gf_put(&w, part, n);
    }
    free(part);
    if (status == GLOFND_OK) status = gf_writer_commit(&w);
    gf_writer_close(&w);
    gf_close(fd);
    return status;
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

/* The checkpoint, the logs, and the configuration with the late keys of `config`. */
static glofnd_status fill_branch(gf_error *err, const char *trunk, int64_t step, const char *copy, const gf_config *config) {
    char from[PATH_MAX], to[PATH_MAX];
    TRY(gf_checkpoint_path(err, trunk, step, from));
    TRY(gf_checkpoint_path(err, copy, step, to));
    int error = 0;
    glofnd_status status = GLOFND_OK;
    TRY(gf_folder_make(err, to, NULL));
    DIR *d = gf_open_folder(from);
    FAIL_IF(err, !d, GLOFND_E_IO, "%s cannot be read: %s", from, strerror(errno));
    /* Evaluations of a checkpoint are no part of it. */
    for (struct dirent *e; status == GLOFND_OK && (e = gf_next_entry(d, &error));)
        if (e->d_name[0] != '.' && strcmp(e->d_name, GF_EVAL_FILE) != 0 && strcmp(e->d_name, GF_EVAL_EVENTS) != 0)
            status = copy_named(err, from, e->d_name, to);
    closedir(d);
    TRY(status);
    FAIL_IF(err, error, GLOFND_E_IO, "%s cannot be read: %s", from, strerror(error));
    gf_folder_sync(to);
    TRY(gf_manifest_check(err, to, NULL, 0));
    /* Not every run has all of them: plans.txt is of a GPU, vocab.txt of task clip. */
    static const char *const names[] = {GF_LOG_FILE, GF_EVENTS_FILE, GF_PLANS_FILE, GF_VOCABULARY_FILE};
    char path[PATH_MAX];
    int there, has;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        TRY(gf_path_join(err, path, trunk, names[i]));
        TRY(gf_exists(err, path, &there));
        if (there) TRY(copy_named(err, trunk, names[i], copy));
    }
    /* In the copied checkpoint, too: a config.cfg that is lost later is restored from there. */
    gf_config c;
    TRY(gf_checkpoint_config(err, to, &c, &has));
    FAIL_IF(err, !has, GLOFND_E_FORMAT, "%s has no " GF_CONFIG_FILE, to);
    TRY(gf_late_keys_copy(err, &c, config));
    TRY(gf_path_join(err, path, copy, GF_CONFIG_FILE));
    TRY(gf_config_write(err, &c, path));
    TRY(gf_path_join(err, path, to, GF_CONFIG_FILE));
    TRY(gf_config_write(err, &c, path));
    TRY(gf_manifest_renew(err, to, GF_CONFIG_FILE));
    gf_folder_sync(to);
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
    glofnd_status status = fill_branch(err, trunk, step, copy, config);
    if (status == GLOFND_OK && rename(copy, run) != 0)
        status = gf_fail(err, GLOFND_E_IO, "%s cannot be renamed to %s: %s", copy, run, strerror(errno));
    if (status != GLOFND_OK) remove_tree(copy, DEPTH); /* a full disk needs the space */
    return status;
}
