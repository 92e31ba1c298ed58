/* run_folder.c - see run_folder.h: the manifest, checkpoints, a folder that is trained in, files of a run, its state. */
#include "run/run_folder.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/appendlog.h"
#include "io/blockfile.h"
#include "io/file.h"
#include "io/jsonl.h"
#include "io/safetensors.h"
#include "util/text.h"

enum { LINE = 96, CRC_DIGITS = 8, BYTES_MAX = 1 << 20 }; /* BYTES_MAX: of DONE, for some ten thousand ranks */

#define END "end "

typedef struct file_sums { /* of one file */
    uint64_t bytes, mixed;
    uint32_t crc;
} file_sums;

static glofnd_status sum_file(gf_error *err, const char *path, file_sums *out) {
    unsigned char part[1 << 14];
    gf_reader r;
    TRY(gf_reader_open(err, &r, path));
    *out = (file_sums){.bytes = r.size, .mixed = GF_CHECKSUM_START};
    while (r.status == GLOFND_OK && gf_reader_left(&r) > 0) {
        const uint64_t left = gf_reader_left(&r);
        const size_t n = left < sizeof part ? (size_t)left : sizeof part;
        gf_get(&r, part, n);
        out->mixed = gf_checksum(out->mixed, part, n);
    }
    out->crc = r.crc;
    gf_reader_close(&r);
    return r.status;
}

/* digits: of the checksum; they distinguish the two kinds. */
static glofnd_status manifest_line(gf_error *err, const char *folder, const char *name, int digits, char line[LINE]) {
    char path[PATH_MAX];
    file_sums s;
    TRY(gf_path_join(err, path, folder, name));
    TRY(sum_file(err, path, &s));
    if (digits == CRC_DIGITS) snprintf(line, LINE, "%08x %llu %s", (unsigned)s.crc, (unsigned long long)s.bytes, name);
    else snprintf(line, LINE, "%016llx %llu %s", (unsigned long long)s.mixed, (unsigned long long)s.bytes, name);
    return GLOFND_OK;
}

/* ----- the manifest: checking ----- */

/* The file must be as its line says. */
static glofnd_status check_manifest_line(gf_error *err, const char *folder, const char *line) {
    char expected[LINE];
    const char *name = strrchr(line, ' ');
    FAIL_IF(err, !name || strlen(line) >= LINE || strchr(name, '/'), GLOFND_E_FORMAT, "%s/" GF_DONE_FILE " is corrupt", folder);
    TRY(manifest_line(err, folder, name + 1, (int)strcspn(line, " "), expected));
    FAIL_IF(err, strcmp(expected, line) != 0, GLOFND_E_FORMAT,
            "%s/%s is corrupt, or of a different checkpoint: its length or checksum is not the one in " GF_DONE_FILE
            "; put the right one back, or remove the folder of the checkpoint to let --resume start from the beginning",
            folder, name + 1);
    return GLOFND_OK;
}

static glofnd_status check_manifest_text(gf_error *err, const char *folder, char *done, const char *const *needed, int count) {
    for (int i = 0; i < count; i++)
        FAIL_IF(err, !strstr(done, needed[i]), GLOFND_E_FORMAT, "%s/" GF_DONE_FILE " does not list %s: it is corrupt", folder,
                needed[i]);
    int lines = 0, must_end = 0, ended = 0;
    for (char *line = done, *end; *line; line = end + 1) {
        end = strchr(line, '\n');
        FAIL_IF(err, !end || ended, GLOFND_E_FORMAT, "%s/" GF_DONE_FILE " is corrupt", folder);
        *end = 0;
        must_end |= strcspn(line, " ") != CRC_DIGITS;
        ended = strncmp(line, END, strlen(END)) == 0;
        if (ended) {
            /* "end LINES". */
            char expected[LINE];
            snprintf(expected, sizeof expected, END "%d", lines);
            FAIL_IF(err, strcmp(line, expected) != 0, GLOFND_E_FORMAT, "%s/" GF_DONE_FILE " is corrupt", folder);
        } else TRY(check_manifest_line(err, folder, line));
        lines++;
    }
    FAIL_IF(err, must_end && !ended, GLOFND_E_FORMAT,
            "%s/" GF_DONE_FILE " is cut short: remove the folder of the checkpoint to let --resume start from the beginning",
            folder);
    return GLOFND_OK;
}

/* *done: all of DONE, to be freed. */
static glofnd_status read_manifest(gf_error *err, const char *folder, char **done) {
    char path[PATH_MAX];
    TRY(gf_path_join(err, path, folder, GF_DONE_FILE));
    FILE *f = gf_stream_open(path, "r");
    FAIL_IF(err, !f, GLOFND_E_IO, "%s cannot be read: %s", path, strerror(errno));
    *done = malloc(BYTES_MAX + 1);
    if (*done) (*done)[fread(*done, 1, BYTES_MAX, f)] = 0;
    const int failed = ferror(f), why = errno;
    fclose(f);
    FAIL_IF(err, !*done, GLOFND_E_MEMORY, "no memory to read %s", path);
    if (!failed) return GLOFND_OK;
    free(*done);
    GF_FAIL(err, GLOFND_E_IO, "%s cannot be read: %s", path, strerror(why));
}

glofnd_status gf_manifest_check(gf_error *err, const char *folder, const char *const *needed, int count) {
    char *done;
    TRY(read_manifest(err, folder, &done));
    const glofnd_status status = check_manifest_text(err, folder, done, needed, count);
    free(done);
    return status;
}

/* The line of DONE that lists `name`; "": none. */
static glofnd_status find_manifest_line(gf_error *err, const char *folder, const char *name, char found[LINE]) {
    char *done, *rest;
    *found = 0;
    TRY(read_manifest(err, folder, &done));
    for (char *line = strtok_r(done, "\n", &rest); line && !*found; line = strtok_r(NULL, "\n", &rest)) {
        const char *space = strrchr(line, ' ');
        if (space && strcmp(space + 1, name) == 0 && strlen(line) < LINE) memcpy(found, line, strlen(line) + 1);
    }
    free(done);
    return GLOFND_OK;
}

glofnd_status gf_manifest_check_one(gf_error *err, const char *folder, const char *name, int *listed) {
    char line[LINE];
    TRY(find_manifest_line(err, folder, name, line));
    *listed = *line != 0;
    return *listed ? check_manifest_line(err, folder, line) : GLOFND_OK;
}

glofnd_status gf_manifest_same(gf_error *err, const char *folder, const char *other, const char *name, int *same) {
    char line[LINE], there[LINE];
    *same = 0;
    TRY(find_manifest_line(err, folder, name, line));
    if (!*line) return GLOFND_OK;
    TRY(manifest_line(err, other, name, (int)strcspn(line, " "), there));
    *same = strcmp(line, there) == 0;
    return GLOFND_OK;
}

/* ----- checkpoints: which there are ----- */

/* N of a folder "PREFIXN"; -1 for any other name. */
static int64_t step_of_name(const char *name, const char *prefix) {
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

static glofnd_status find_latest(gf_error *err, const char *folder, DIR *d, const char *prefix, char path[PATH_MAX]) {
    int64_t latest = -1;
    char candidate[PATH_MAX];
    int error = 0, complete;
    *path = 0;
    for (struct dirent *e; (e = gf_next_entry(d, &error));) {
        const int64_t n = step_of_name(e->d_name, prefix);
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
    /* d NULL: there is no such folder. A link to nothing, as to a disk that is not mounted, is a failure. */
    int there = 0;
    d = gf_open_folder(folder);
    const int why = errno;
    if (!d && why == ENOENT) TRY(gf_exists(err, folder, &there));
    FAIL_IF(err, !d && (there || why != ENOENT), GLOFND_E_IO,
            "%s cannot be read: %s; whether it holds a checkpoint is unknown, so nothing is begun or changed", folder,
            strerror(why));
    if (!d) return GLOFND_OK;
    glofnd_status status = find_latest(err, folder, d, GF_CHECKPOINT, path);
    rewinddir(d);
    if (status == GLOFND_OK && !*path) status = find_latest(err, folder, d, GF_CHECKPOINT_RETIRED, path);
    closedir(d);
    return status;
}

int64_t gf_checkpoint_step(const char *path) {
    char name[64];
    size_t end = strlen(path);
    while (end > 1 && path[end - 1] == '/') end--;
    size_t begin = end;
    while (begin > 0 && path[begin - 1] != '/') begin--;
    snprintf(name, sizeof name, "%.*s", (int)(end - begin < sizeof name ? end - begin : sizeof name), path + begin);
    const int64_t n = step_of_name(name, GF_CHECKPOINT);
    return n >= 0 ? n : step_of_name(name, GF_CHECKPOINT_RETIRED);
}

/* ----- checkpoints: one that is complete ----- */

glofnd_status gf_checkpoint_config(gf_error *err, const char *path, gf_config *config, int *has) {
    char file[PATH_MAX];
    TRY(gf_path_join(err, file, path, GF_CONFIG_FILE));
    TRY(gf_manifest_check_one(err, path, GF_CONFIG_FILE, has));
    if (!*has) return GLOFND_OK;
    TRY(gf_config_init(err, config));
    return gf_config_read(err, config, file);
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
    gf_jsonl_reader r = {0};
    TRY(gf_jsonl_read_open(err, &r, state));
    const int known = gf_jsonl_next(&r) && gf_jsonl_get_integer(&r, "vocab_crc", &found);
    const glofnd_status status = r.status;
    gf_jsonl_read_close(&r);
    TRY(status);
    FAIL_IF(err, !known, GLOFND_E_FORMAT, "%.300s is not that of an image-text run", state);
    *crc = (uint32_t)found;
    return GLOFND_OK;
}

/* ----- checkpoints: a new one ----- */

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
    if (step_of_name(name, GF_CHECKPOINT) < 0 || gf_path_join(NULL, path, folder, name) != GLOFND_OK) return 0;
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
            const int64_t step = step_of_name(e->d_name, GF_CHECKPOINT);
            if (step > before && step < oldest && is_complete_step(folder, e->d_name)) before = step;
        }
        found = before >= 0;
        if (found) oldest = before;
    }
    rewinddir(d);
    return oldest;
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
        const int64_t step = step_of_name(e->d_name, GF_CHECKPOINT), retired = step_of_name(e->d_name, GF_CHECKPOINT_RETIRED);
        const int newest = (step == latest || retired == latest) && has_prefix(e->d_name, kind);
        int stays = step >= oldest;
        for (int i = 0; i < keep->count && !alone; i++) stays |= keep->step[i] == step;
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
    const int retired = slash && step_of_name(slash + 1, GF_CHECKPOINT_RETIRED) >= 0;
    if (slash) remove_others(folder, gf_checkpoint_step(latest), retired ? GF_CHECKPOINT_RETIRED : GF_CHECKPOINT, keep);
    return GLOFND_OK;
}

/* Older checkpoints go first: a step-N counts more than any before-N. */
glofnd_status gf_checkpoint_retire(gf_error *err, const char *run, const char *path) {
    char retired[PATH_MAX], name[64], folder[PATH_MAX];
    const char *slash = strrchr(path, '/');
    const int64_t n = slash ? step_of_name(slash + 1, GF_CHECKPOINT) : -1;
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
    char path[PATH_MAX], line[LINE];
    gf_writer w;
    TRY(gf_path_join(err, path, d->final, GF_DONE_FILE));
    TRY(gf_writer_open(err, &w, path));
    for (int i = 0; i < count && w.status == GLOFND_OK; i++) {
        w.status = manifest_line(err, d->final, name[i], 2 * CRC_DIGITS, line);
        if (w.status == GLOFND_OK) gf_put(&w, line, strlen(line));
        gf_put(&w, "\n", 1);
    }
    gf_put(&w, line, (size_t)snprintf(line, sizeof line, END "%d\n", count));
    TRY(gf_writer_finish(&w));
    remove_others(d->folder, d->step, GF_CHECKPOINT, keep);
    return GLOFND_OK;
}

/* ----- a folder that is trained in ----- */

static int is_leftover(const char *name) {
    /* clang-format off */
    static const char *const prefixes[] = {
        GF_CONFIG_FILE GF_TEMP_MARK, GF_MODEL_FILE GF_TEMP_MARK, GF_VOCABULARY_FILE GF_TEMP_MARK, GF_MEMORY_FILE GF_TEMP_MARK,
        GF_LOG_FILE GF_TEMP_MARK, GF_LOG_FILE GF_LOG_CUT GF_TEMP_MARK, GF_EVENTS_FILE GF_TEMP_MARK,
        GF_EVENTS_FILE GF_LOG_CUT GF_TEMP_MARK, GF_ANCHORS_WORK, GF_ANCHORS_REMAPPED, GF_RANKS_PROBE,
    };
    /* clang-format on */
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++)
        if (strncmp(name, prefixes[i], strlen(prefixes[i])) == 0) return 1;
    return 0;
}

int gf_run_hold_has(const gf_run_hold *h, const char *name) {
    return faccessat(h->folder, name, F_OK, 0) == 0 || errno != ENOENT;
}

glofnd_status gf_run_hold_take(gf_error *err, const char *run, int resume, gf_run_hold *h) {
    /* A run does not begin among files of the user that it would overwrite, or remove after a failure. */
    static const char *const files[] = {GF_CONFIG_FILE,     GF_MODEL_FILE,  GF_CHECKPOINTS, GF_EVAL_FILE,
                                        GF_VOCABULARY_FILE, GF_EVENTS_FILE, GF_MEMORY_FILE};
    char latest[PATH_MAX];
    FAIL_IF(err, strlen(run) > PATH_MAX - 128, GLOFND_E_ARGUMENT, "the path of the run folder is too long");
    TRY(gf_folder_make(err, run, &h->made));
    TRY(gf_folder_lock(err, run, &h->folder));
    FAIL_IF(err, access(run, W_OK | X_OK) != 0, GLOFND_E_IO, "%s cannot be written to: %s", run, strerror(errno));
    FAIL_IF(err, gf_checkpoint_step(run) >= 0 && gf_run_hold_has(h, GF_DONE_FILE), GLOFND_E_ARGUMENT,
            "%s is a checkpoint; to continue its run give the run's folder, to begin another one from it copy it to "
            "NEW/checkpoints",
            run);
    const int logged = gf_run_hold_has(h, GF_LOG_FILE);
    TRY(gf_checkpoint_latest(err, run, latest));
    FAIL_IF(err, !resume && *latest, GLOFND_E_ARGUMENT,
            "%s holds a run already; continue it by --resume, or choose a different --out", run);
    FAIL_IF(
        err, !resume && logged, GLOFND_E_ARGUMENT,
        "%s holds a run already, without a checkpoint; begin it again by --resume, with the keys that should change, or choose a "
        "different --out",
        run);
    for (size_t i = 0; i < sizeof files / sizeof *files && !resume; i++)
        FAIL_IF(err, gf_run_hold_has(h, files[i]), GLOFND_E_ARGUMENT,
                "%s has %s already, but no run to resume: choose a different --out, or move the file away", run, files[i]);
    FAIL_IF(err, resume && !*latest && gf_run_hold_has(h, GF_MODEL_FILE), GLOFND_E_ARGUMENT,
            "%s has a model, but no checkpoint to resume; to begin with its weights choose a different --out and --init "
            "%s/" GF_MODEL_FILE,
            run, run);
    /* Removes scratch files, and temporary names of files that were being written. */
    int error = 0;
    const int fd = dup(h->folder);
    DIR *d = fd < 0 ? NULL : fdopendir(fd);
    if (!d && fd >= 0) close(fd);
    for (struct dirent *e; d && (e = gf_next_entry(d, &error));)
        if (is_leftover(e->d_name)) unlinkat(h->folder, e->d_name, 0);
    if (d) closedir(d);
    return GLOFND_OK;
}

void gf_run_hold_clear(const gf_run_hold *h) {
    static const char *const files[] = {GF_LOG_FILE, GF_EVENTS_FILE, GF_CONFIG_FILE, GF_VOCABULARY_FILE, GF_MEMORY_FILE};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) unlinkat(h->folder, files[i], 0);
    if (h->made) unlinkat(h->folder, GF_PLANS_FILE, 0);
}

/* ----- files of a run ----- */

/* Files that training, evaluations and sweeps continue or read. Reports, thresholds and comparisons can be made again. */
static const char *const run_files[] = {GF_CONFIG_FILE,  GF_MODEL_FILE,  GF_LOG_FILE,        GF_EVENTS_FILE,
                                        GF_EVAL_FILE,    GF_MEMORY_FILE, GF_VOCABULARY_FILE, GF_PLANS_FILE,
                                        GF_ANCHORS_WORK, GF_CHECKPOINTS, GF_SWEEP_FILE};

glofnd_status gf_own_files_check(gf_error *err, const char *flag, const char *path) {
    char folder[PATH_MAX], name[NAME_MAX + 1], mark[PATH_MAX];
    int run = 0;
    if (!path) return GLOFND_OK;
    /* Folder and name of a path that leads to a file, links followed. */
    char target[PATH_MAX];
    const char *at = realpath(path, target) ? target : path;
    const char *slash = strrchr(at, '/'), *base = slash ? slash + 1 : at;
    const size_t n = strlen(base), in = slash ? (size_t)(slash - at) + (slash == at) : 1;
    FAIL_IF(err, in >= PATH_MAX || n > NAME_MAX, GLOFND_E_ARGUMENT, "the path %.100s... is too long", path);
    memcpy(folder, slash ? at : ".", in);
    folder[in] = 0;
    memcpy(name, base, n + 1);
    const int checkpoint = gf_checkpoint_step(folder) >= 0;
    int own = 0;
    for (size_t i = 0; i < sizeof run_files / sizeof *run_files; i++) own |= strcmp(name, run_files[i]) == 0;
    if (!checkpoint && !own) return GLOFND_OK;
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

/* ----- the state of a run ----- */

typedef struct model {         /* RUN/model.safetensors */
    int there, whole, checked; /* whole: it can be read and nothing contradicts it; checked: by its own checksum */
    int64_t step, vocabulary;  /* -1: it does not say */
} model;

/* A number among the texts of a model; -1: none. */
static int64_t number_of_model(const gf_st_file *f, const char *key, int base) {
    const char *text = gf_st_find_text(f, key);
    char *end = NULL;
    const long long n = text && isxdigit((unsigned char)*text) ? strtoll(text, &end, base) : -1;
    return end && !*end ? n : -1;
}

static glofnd_status find_state(gf_error *err, const char *run, gf_run_state *out) {
    model m = {.step = -1, .vocabulary = -1};
    *out = (gf_run_state){.step = -1, .vocabulary = -1};
    TRY(gf_checkpoint_latest(err, run, out->checkpoint));
    TRY(gf_path_join(err, out->weights, run, GF_MODEL_FILE));
    gf_st_file f = {0};
    TRY(gf_exists(err, out->weights, &m.there));
    if (m.there) { /* a corrupt one is a finding, not a failure: the checkpoint may be fine */
        glofnd_status status = gf_st_open(err, out->weights, &f);
        if (status == GLOFND_OK)
            m.step = number_of_model(&f, GF_MODEL_STEP, 10), m.vocabulary = number_of_model(&f, GF_MODEL_VOCABULARY, 16);
        if (status == GLOFND_OK) status = gf_st_check(err, &f, &m.checked);
        gf_st_close(&f);
        m.whole = status == GLOFND_OK;
        if (status == GLOFND_E_IO || status == GLOFND_E_MEMORY) return status;
    }
    if (*out->checkpoint) {
        char own[PATH_MAX];
        int same = 0, listed = 0;
        memcpy(own, out->weights, sizeof own);
        out->step = gf_checkpoint_step(out->checkpoint);
        if (m.there && m.whole) TRY(gf_manifest_same(err, out->checkpoint, run, GF_MODEL_FILE, &same));
        if (same) return GLOFND_OK;
        if (m.there) {
            /* The model is not of the checkpoint's step, or has other bytes. */
            char what[80] = "is not the one of that step";
            if (!m.whole) snprintf(what, sizeof what, "is corrupt");
            else if (m.step >= 0 && m.step != out->step) snprintf(what, sizeof what, "is of step %lld", (long long)m.step);
            snprintf(out->note, sizeof out->note,
                     "the newest complete state is the checkpoint of step %lld, which is used; %.300s %s", (long long)out->step,
                     own, what);
        } else
            snprintf(out->note, sizeof out->note, "%.300s is not there: the run has not finished, or the file was removed", own);
        TRY(gf_path_join(err, out->weights, out->checkpoint, GF_MODEL_FILE));
        TRY(gf_manifest_check_one(err, out->checkpoint, GF_MODEL_FILE, &listed));
        FAIL_IF(err, !listed, GLOFND_E_FORMAT, "%s/" GF_DONE_FILE " does not list " GF_MODEL_FILE ": it is corrupt",
                out->checkpoint);
        return GLOFND_OK;
    }
    /* Without a checkpoint the model is all there is. */
    FAIL_IF(err, !m.there, GLOFND_E_IO, "%s has neither " GF_MODEL_FILE " nor a complete checkpoint", run);
    if (!m.whole) return GLOFND_E_FORMAT; /* with the message of find_state */
    out->step = m.step, out->vocabulary = m.vocabulary;
    if (!m.checked)
        snprintf(
            out->note, sizeof out->note,
            "%.300s was written by an earlier version or another program: it has no checksum, so its weights cannot be checked",
            out->weights);
    return GLOFND_OK;
}

int gf_run_state_changed(const char *run, const gf_run_state *s) {
    char now[PATH_MAX];
    gf_error ignored;
    return gf_checkpoint_latest(&ignored, run, now) == GLOFND_OK && strcmp(now, s->checkpoint) != 0;
}

glofnd_status gf_run_state_find(gf_error *err, const char *run, gf_run_state *out) {
    enum { TRIES = 5 }; /* a run that trains may replace its checkpoint meanwhile */
    glofnd_status status = GLOFND_OK;
    for (int i = 0; i < TRIES; i++) {
        status = find_state(err, run, out);
        if (status == GLOFND_OK || !gf_run_state_changed(run, out)) break;
    }
    return status;
}
