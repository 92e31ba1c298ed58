/* checkpoint.c - see checkpoint.h. */
#include "train/checkpoint/checkpoint.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/json/jsonl.h"
#include "io/json/safetensors.h"
#include "run/layout.h"
#include "run/manifest.h"
#include "train/checkpoint/anchors_parts.h"

typedef struct text {
    char at[PATH_MAX];
} text;

static glofnd_status join(gf_error *err, text *out, const char *folder, const char *name) {
    const int n = snprintf(out->at, sizeof out->at, "%s/%s", folder, name);
    FAIL_IF(err, n < 0 || (size_t)n >= sizeof out->at, GLOFND_E_ARGUMENT, "the path %.100s/... is too long", folder);
    return GLOFND_OK;
}

/* ----- optimizer ----- */

static gf_st_tensor moments(const char *name, const float *data, int64_t count) {
    return (gf_st_tensor){.name = name, .type = GF_ST_F32, .rank = 1, .shape = {count}, .data = data};
}

static glofnd_status save_optimizer(gf_error *err, const gf_trainer *t, const char *path) {
    const int64_t n = t->state_count;
    float *flat = malloc(2 * (size_t)n * sizeof *flat);
    FAIL_IF(err, !flat, GLOFND_E_MEMORY, "no memory for a copy of the optimizer's state");
    const gf_st_tensor list[2] = {moments("state1", flat, n), moments("state2", flat + n, n)};
    const int states = gf_trainer_states(t);
    glofnd_status status = gf_trainer_get_state(err, t, 1, flat);
    if (status == GLOFND_OK && states == 2) status = gf_trainer_get_state(err, t, 2, flat + n);
    if (status == GLOFND_OK) status = gf_st_write(err, path, list, states, NULL, 0);
    free(flat);
    return status;
}

static glofnd_status load_moments(gf_error *err, const gf_st_file *f, gf_trainer *t, int which) {
    const char *name = which == 1 ? "state1" : "state2";
    const gf_st_tensor *x = gf_st_find(f, name);
    FAIL_IF(err, !x, GLOFND_E_FORMAT, "%s: there is no %s; it belongs to another optimizer", f->path, name);
    float *flat = malloc((size_t)t->state_count * sizeof *flat);
    FAIL_IF(err, !flat, GLOFND_E_MEMORY, "no memory for a copy of the optimizer's state");
    glofnd_status status = gf_st_read_f32(err, f, x, flat, t->state_count);
    if (status == GLOFND_OK) status = gf_trainer_put_state(err, t, which, flat);
    free(flat);
    return status;
}

static glofnd_status load_optimizer(gf_error *err, gf_trainer *t, const char *path) {
    gf_st_file f = {0};
    TRY(gf_st_open(err, path, &f));
    glofnd_status status = GLOFND_OK;
    for (int which = 1; which <= gf_trainer_states(t) && status == GLOFND_OK; which++) status = load_moments(err, &f, t, which);
    gf_st_close(&f);
    return status;
}

/* ----- position ----- */

#define SUMS(X) \
    X(loss) X(lambda) X(kept) X(steps) X(pairs) X(flagged) X(same) X(hits) X(precision) X(recall) X(quality_steps) X(damaged)

static void put_temperature(gf_jsonl *j, const gf_trainer *t) {
    if (t->config.task != GF_TASK_CLIP) return;
    gf_jsonl_integer(j, "vocab_crc", (int64_t)t->vocab_crc);
    gf_jsonl_number(j, "log_scale", (double)t->scale.log_scale);
    gf_jsonl_number(j, "log_scale_m", (double)t->scale.m);
    gf_jsonl_number(j, "log_scale_v", (double)t->scale.v);
}

static glofnd_status get_temperature(gf_error *err, gf_jsonl_reader *r, gf_trainer *t) {
    double scale = 0, m = 0, v = 0;
    int64_t crc = 0;
    if (t->config.task != GF_TASK_CLIP) return GLOFND_OK;
    const int complete = gf_jsonl_get_integer(r, "vocab_crc", &crc) && gf_jsonl_get(r, "log_scale", &scale) &&
                         gf_jsonl_get(r, "log_scale_m", &m) && gf_jsonl_get(r, "log_scale_v", &v);
    FAIL_IF(err, !complete, GLOFND_E_FORMAT, "state.json is not that of an image-text run");
    FAIL_IF(err, crc != (int64_t)t->vocab_crc, GLOFND_E_FORMAT,
            "the vocabulary is not the one the checkpoint was trained with; put back its " GF_VOCABULARY_FILE);
    FAIL_IF(err, !(scale >= 0.0 && scale < 10.0) || !isfinite(m) || !isfinite(v), GLOFND_E_FORMAT,
            "state.json holds a temperature that cannot be");
    t->scale = (gf_learned_tau){(float)scale, (float)m, (float)v};
    return GLOFND_OK;
}

static glofnd_status save_position(gf_error *err, const gf_trainer *t, const char *path, gf_log_marks marks) {
    gf_jsonl j = {0};
    TRY(gf_jsonl_open(&j, err, path, 0));
    gf_jsonl_begin(&j);
    gf_jsonl_integer(&j, "version", 1);
    gf_jsonl_integer(&j, "step", t->step);
    gf_jsonl_integer(&j, "log_lines", marks.log_lines);
    gf_jsonl_integer(&j, "event_bytes", marks.event_bytes);
#define X(name) gf_jsonl_number(&j, "epoch_" #name, t->sums.name);
    SUMS(X)
#undef X
    put_temperature(&j, t);
    gf_jsonl_end(&j);
    gf_jsonl_sync(&j);
    return gf_jsonl_close(&j);
}

/* Other data has other steps per epoch: the epoch begins again, and with it its sums. */
static void begin_epoch_again(gf_trainer *t, const gf_remap *found) {
    const int64_t steps_then = found->rows / t->config.batch;
    const int64_t epoch = steps_then > 0 ? t->step / steps_then : 0;
    t->step = (epoch < t->config.epochs ? epoch : t->config.epochs) * t->epoch_steps;
    t->sums = (gf_epoch_sums){0};
}

static glofnd_status read_position(gf_error *err, gf_trainer *t, gf_jsonl_reader *r, const gf_remap *found, gf_log_marks *marks) {
    int64_t version = 0;
    int complete = gf_jsonl_next(r) && gf_jsonl_get_integer(r, "version", &version) &&
                   gf_jsonl_get_integer(r, "step", &t->step) && gf_jsonl_get_integer(r, "log_lines", &marks->log_lines) &&
                   gf_jsonl_get_integer(r, "event_bytes", &marks->event_bytes);
    FAIL_IF(err, complete && version > 1, GLOFND_E_FORMAT, "state.json was made by a newer version");
#define X(name) complete = complete && gf_jsonl_get(r, "epoch_" #name, &t->sums.name);
    SUMS(X)
#undef X
    complete = complete && marks->log_lines >= 0 && marks->event_bytes >= 0 && t->step >= 0;
    FAIL_IF(err, !complete, GLOFND_E_FORMAT, "state.json is not the position of a run");
    TRY(get_temperature(err, r, t));
    if (found->changed) begin_epoch_again(t, found);
    FAIL_IF(err, t->step > gf_trainer_steps(t), GLOFND_E_OPTION,
            "epochs: %d make %lld steps in all, and the run to resume has done %lld", (int)t->config.epochs,
            (long long)gf_trainer_steps(t), (long long)t->step);
    return GLOFND_OK;
}

static glofnd_status load_position(gf_error *err, gf_trainer *t, const char *path, const gf_remap *found, gf_log_marks *marks) {
    gf_jsonl_reader r = {0};
    TRY(gf_jsonl_read_open(&r, err, path));
    const glofnd_status status = read_position(err, t, &r, found, marks);
    gf_jsonl_read_close(&r);
    return status;
}

/* ----- folders ----- */

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
    text name;
    for (struct dirent *e; d && (e = readdir(d));)
        if (e->d_name[0] != '.' && join(NULL, &name, path, e->d_name) == GLOFND_OK) unlink(name.at);
    if (d) closedir(d);
    rmdir(path);
}

#define CURRENT "step-"
#define RETIRED "before-" /* of other data: its steps do not compare with those of a "step-N" */

/* N of a folder "PREFIXN"; -1 for any other name. */
static int64_t number_of(const char *name, const char *prefix) {
    const size_t skip = strlen(prefix);
    char *end;
    if (strncmp(name, prefix, skip) != 0 || name[skip] < '0' || name[skip] > '9') return -1;
    const long long n = strtoll(name + skip, &end, 10);
    return *end ? -1 : n;
}

static int is_complete(const char *folder, const char *name) {
    text step, done;
    return join(NULL, &step, folder, name) == GLOFND_OK && join(NULL, &done, step.at, GF_DONE_FILE) == GLOFND_OK &&
           access(done.at, F_OK) == 0;
}

static void remove_others(const char *folder, int64_t keep) {
    DIR *d = opendir(folder);
    text path;
    for (struct dirent *e; d && (e = readdir(d));) {
        const int64_t n = number_of(e->d_name, CURRENT);
        const int stale = (n >= 0 && n != keep) || number_of(e->d_name, RETIRED) >= 0 || strncmp(e->d_name, "tmp-", 4) == 0;
        if (stale && join(NULL, &path, folder, e->d_name) == GLOFND_OK) remove_folder(path.at);
    }
    if (d) closedir(d);
}

static void find_latest(const char *folder, const char *prefix, char *path, size_t bytes) {
    int64_t best = -1;
    DIR *d = opendir(folder);
    *path = 0;
    for (struct dirent *e; d && (e = readdir(d));) {
        const int64_t n = number_of(e->d_name, prefix);
        if (n > best && is_complete(folder, e->d_name)) {
            best = n;
            snprintf(path, bytes, "%s/%s", folder, e->d_name);
        }
    }
    if (d) closedir(d);
}

glofnd_status gf_checkpoint_latest(gf_error *err, const char *run, char *path, size_t bytes) {
    text folder;
    TRY(join(err, &folder, run, GF_CHECKPOINTS));
    find_latest(folder.at, CURRENT, path, bytes);
    if (!*path) find_latest(folder.at, RETIRED, path, bytes);
    return GLOFND_OK;
}

glofnd_status gf_checkpoint_retire(gf_error *err, const char *path) {
    text retired;
    char up[64];
    const char *name = strrchr(path, '/');
    const int64_t n = name ? number_of(name + 1, CURRENT) : -1;
    if (n < 0) return GLOFND_OK; /* it is already */
    snprintf(up, sizeof up, "../" RETIRED "%lld", (long long)n);
    TRY(join(err, &retired, path, up));
    FAIL_IF(err, rename(path, retired.at) != 0, GLOFND_E_IO, "%s cannot be renamed to %s: %s", path, retired.at, strerror(errno));
    return GLOFND_OK;
}

/* ----- files ----- */

/* Those before KEYS are in every checkpoint; earlier versions wrote no keys, or no configuration, and did not list them. */
enum { MODEL, OPTIM, ANCHORS, STATE, KEYS, CONFIG, FILES };
static const char *const names[FILES] = {GF_MODEL_FILE, "optim.safetensors", GF_ANCHORS_FILE,
                                         "state.json",  GF_KEYS_FILE,        GF_CONFIG_FILE};

static glofnd_status name_files(gf_error *err, const char *folder, text paths[FILES]) {
    for (int i = 0; i < FILES; i++) TRY(join(err, &paths[i], folder, names[i]));
    return GLOFND_OK;
}

static glofnd_status save_files(gf_error *err, const gf_trainer *t, const char *folder, gf_log_marks marks) {
    text path[FILES];
    TRY(name_files(err, folder, path));
    TRY(gf_model_save(err, t, path[MODEL].at));
    TRY(save_optimizer(err, t, path[OPTIM].at));
    TRY(gf_anchors_save(err, t, path[ANCHORS].at, path[KEYS].at));
    TRY(gf_config_write(err, &t->config, path[CONFIG].at));
    return save_position(err, t, path[STATE].at, marks);
}

/* parts: files of the anchors of several ranks. */
static glofnd_status mark_done(gf_error *err, const char *folder, int parts) {
    char name[80];
    text done;
    gf_writer w;
    TRY(join(err, &done, folder, GF_DONE_FILE));
    TRY(gf_writer_open(&w, err, done.at));
    for (int i = 0; i < FILES && w.status == GLOFND_OK; i++) w.status = gf_manifest_add(err, &w, folder, names[i]);
    for (int r = 0; r < parts && w.status == GLOFND_OK; r++) {
        gf_parts_name(names[ANCHORS], r, parts, name, sizeof name);
        w.status = gf_manifest_add(err, &w, folder, name);
    }
    if (w.status == GLOFND_OK) w.status = gf_manifest_end(&w, FILES + parts);
    const glofnd_status status = gf_writer_commit(&w);
    gf_writer_close(&w);
    return status;
}

/* ----- saving ----- */

typedef struct places { /* of a checkpoint on its way */
    text folder, temp, final;
    char name[64]; /* of `final` in `folder` */
} places;

static glofnd_status find_places(gf_error *err, const gf_trainer *t, const char *run, places *p) {
    TRY(join(err, &p->folder, run, GF_CHECKPOINTS));
    snprintf(p->name, sizeof p->name, "tmp-%lld", (long long)t->step);
    TRY(join(err, &p->temp, p->folder.at, p->name));
    snprintf(p->name, sizeof p->name, CURRENT "%lld", (long long)t->step);
    return join(err, &p->final, p->folder.at, p->name);
}

static glofnd_status make_places(gf_error *err, const places *p) {
    TRY(make_folder(err, p->folder.at));
    remove_folder(p->temp.at);
    remove_folder(p->final.at); /* without DONE: torn by an earlier kill */
    return make_folder(err, p->temp.at);
}

static glofnd_status publish(gf_error *err, const places *p, int64_t step, int parts) {
    sync_folder(p->temp.at);
    FAIL_IF(err, rename(p->temp.at, p->final.at) != 0, GLOFND_E_IO, "%s cannot be renamed to %s: %s", p->temp.at, p->final.at,
            strerror(errno));
    sync_folder(p->folder.at);
    TRY(mark_done(err, p->final.at, parts));
    remove_others(p->folder.at, step);
    return GLOFND_OK;
}

static glofnd_status save_alone(gf_error *err, const gf_trainer *t, const places *p, gf_log_marks marks) {
    TRY(make_places(err, p));
    const glofnd_status status = save_files(err, t, p->temp.at, marks);
    if (status != GLOFND_OK) remove_folder(p->temp.at); /* a full disk needs the space */
    TRY(status);
    return publish(err, p, t->step, 0);
}

/* Every rank writes the anchors it owns; the first one all the rest. They go on together, or fail together. */
static glofnd_status save_together(gf_error *err, const gf_trainer *t, const places *p, gf_log_marks marks) {
    gf_comm *c = t->comm;
    const int first = c->rank == 0;
    text anchors;
    TRY(join(err, &anchors, p->temp.at, names[ANCHORS]));
    TRY(gf_comm_agree(err, c, first ? make_places(err, p) : GLOFND_OK));
    glofnd_status status = gf_parts_save_shard(err, t, anchors.at);
    if (status == GLOFND_OK && first) status = save_files(err, t, p->temp.at, marks);
    status = gf_comm_agree(err, c, status);
    if (status != GLOFND_OK && first) remove_folder(p->temp.at);
    TRY(status);
    return gf_comm_agree(err, c, first ? publish(err, p, t->step, c->ranks) : GLOFND_OK);
}

/* Is it there already: resumed here, and nothing happened since? The first rank's answer counts. */
static glofnd_status is_there(gf_error *err, const gf_trainer *t, const places *p, int *there) {
    double x = !t->comm || t->comm->rank == 0 ? is_complete(p->folder.at, p->name) : 0;
    if (t->comm) TRY(t->comm->kind->sum(err, t->comm, &x, 1));
    *there = x > 0.0;
    return GLOFND_OK;
}

glofnd_status gf_checkpoint_save(gf_error *err, const gf_trainer *t, const char *run, gf_log_marks marks) {
    places p;
    int there = 0;
    TRY(find_places(err, t, run, &p));
    TRY(is_there(err, t, &p, &there));
    if (there) return GLOFND_OK;
    return t->comm ? save_together(err, t, &p, marks) : save_alone(err, t, &p, marks);
}

/* ----- loading ----- */

glofnd_status gf_checkpoint_config(gf_error *err, const char *path, gf_config *config, int *has) {
    text copy;
    TRY(join(err, &copy, path, names[CONFIG]));
    TRY(gf_manifest_check_one(err, path, names[CONFIG], has));
    if (!*has) return GLOFND_OK;
    TRY(gf_config_init(err, config));
    return gf_config_read(err, config, copy.at);
}

static glofnd_status read_vocabulary(gf_error *err, const char *state, int64_t *crc) {
    gf_jsonl_reader r = {0};
    TRY(gf_jsonl_read_open(&r, err, state));
    const int there = gf_jsonl_next(&r) && gf_jsonl_get_integer(&r, "vocab_crc", crc);
    glofnd_status status = r.status;
    gf_jsonl_read_close(&r);
    if (status == GLOFND_OK && !there) status = gf_fail(err, GLOFND_E_FORMAT, "%.300s is not that of an image-text run", state);
    return status;
}

glofnd_status gf_checkpoint_vocabulary(gf_error *err, const char *run, uint32_t *crc, int *has) {
    text folder, state;
    int64_t found = 0;
    TRY(gf_checkpoint_latest(err, run, folder.at, sizeof folder.at));
    *has = *folder.at != 0;
    if (!*has) return GLOFND_OK;
    TRY(join(err, &state, folder.at, names[STATE]));
    TRY(read_vocabulary(err, state.at, &found));
    *crc = (uint32_t)found;
    return GLOFND_OK;
}

/* Keys that are numbers may be equal where pictures are not. */
static glofnd_status compare_pictures(gf_error *err, const gf_trainer *t, const char *path, const gf_remap *found) {
    gf_config then;
    int has = 0;
    if (found->kept == 0) return GLOFND_OK;
    TRY(gf_checkpoint_config(err, path, &then, &has));
    return has ? gf_keys_enough(err, t->data, t->config.data, then.data) : GLOFND_OK;
}

glofnd_status gf_checkpoint_load(gf_error *err, gf_trainer *t, const char *path, int remap, gf_remap *found,
                                 gf_log_marks *marks) {
    text at[FILES], scratch;
    TRY(name_files(err, path, at));
    TRY(join(err, &scratch, path, "../../" GF_ANCHORS_REMAPPED));
    TRY(gf_manifest_check(err, path, names, KEYS));
    TRY(gf_model_load(err, t, at[MODEL].at));
    TRY(load_optimizer(err, t, at[OPTIM].at));
    TRY(gf_anchors_load(err, t, at[ANCHORS].at, at[KEYS].at, scratch.at, remap, found));
    TRY(compare_pictures(err, t, path, found));
    TRY(load_position(err, t, at[STATE].at, found, marks));
    return gf_loader_seek(err, t->loader, (uint32_t)(t->step / t->epoch_steps), t->step % t->epoch_steps);
}
