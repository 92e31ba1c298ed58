/* checkpoint.c - see checkpoint.h. */
#include "train/checkpoint.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/blockfile.h"
#include "io/json/jsonl.h"
#include "io/json/safetensors.h"

typedef struct text {
    char at[PATH_MAX];
} text;

static glofnd_status join(gf_error *err, text *out, const char *folder, const char *name) {
    const int n = snprintf(out->at, sizeof out->at, "%s/%s", folder, name);
    FAIL_IF(err, n < 0 || (size_t)n >= sizeof out->at, GLOFND_E_ARGUMENT, "the path %.100s/... is too long", folder);
    return GLOFND_OK;
}

/* ----- weights ----- */

static gf_st_tensor *tensor_list(const gf_trainer *t) {
    gf_st_tensor *list = calloc((size_t)t->tensor_count, sizeof *list);
    for (int i = 0; list && i < t->tensor_count; i++) {
        const gf_tensor *x = &t->tensors[i];
        list[i] = (gf_st_tensor){.name = x->name, .type = GF_ST_F32, .rank = x->rank, .data = x->value};
        for (int a = 0; a < x->rank; a++) list[i].shape[a] = x->shape[a];
    }
    return list;
}

glofnd_status gf_weights_save(gf_error *err, const gf_trainer *t, const char *path) {
    gf_st_tensor *list = tensor_list(t);
    FAIL_IF(err, !list, GLOFND_E_MEMORY, "no memory for a list of %d tensors", t->tensor_count);
    const gf_st_text format = {"format", "pt"};
    const glofnd_status status = gf_st_write(err, path, list, t->tensor_count, &format, 1);
    free(list);
    return status;
}

static int same_shape(const gf_tensor *x, const gf_st_tensor *y) {
    if (x->rank != y->rank) return 0;
    for (int a = 0; a < x->rank; a++)
        if (x->shape[a] != y->shape[a]) return 0;
    return 1;
}

static glofnd_status load_tensor(gf_error *err, const gf_st_file *f, const gf_tensor *x, int backbone_only) {
    const gf_st_tensor *y = gf_st_find(f, x->name);
    if (!y && backbone_only && strncmp(x->name, "head.", 5) == 0) return GLOFND_OK;
    FAIL_IF(err, !y, GLOFND_E_FORMAT, "%s: there is no tensor %s, which this network has", f->path, x->name);
    FAIL_IF(err, !same_shape(x, y), GLOFND_E_FORMAT,
            "%s: %s has another shape than in this network; arch, stem and head must agree",
            f->path, x->name);
    return gf_st_read_f32(err, f, y, x->value, x->count);
}

glofnd_status gf_weights_load(gf_error *err, gf_trainer *t, const char *path, int backbone_only) {
    gf_st_file f = {0};
    TRY(gf_st_open(err, path, &f));
    glofnd_status status = GLOFND_OK;
    for (int i = 0; i < t->tensor_count && status == GLOFND_OK; i++) status = load_tensor(err, &f, &t->tensors[i], backbone_only);
    gf_st_close(&f);
    gf_net_touch(t->net);
    return status;
}

/* ----- optimizer ----- */

static gf_st_tensor moments(const char *name, const float *data, int64_t count) {
    return (gf_st_tensor){.name = name, .type = GF_ST_F32, .rank = 1, .shape = {count}, .data = data};
}

static glofnd_status save_optimizer(gf_error *err, const gf_trainer *t, const char *path) {
    const gf_st_tensor list[2] = {moments("state1", t->state1, t->state_count), moments("state2", t->state2, t->state_count)};
    return gf_st_write(err, path, list, t->state2 ? 2 : 1, NULL, 0);
}

static glofnd_status load_moments(gf_error *err, const gf_st_file *f, const char *name, float *out, int64_t count) {
    const gf_st_tensor *x = gf_st_find(f, name);
    FAIL_IF(err, !x, GLOFND_E_FORMAT, "%s: there is no %s; it belongs to another optimizer", f->path, name);
    return gf_st_read_f32(err, f, x, out, count);
}

static glofnd_status load_optimizer(gf_error *err, gf_trainer *t, const char *path) {
    gf_st_file f = {0};
    TRY(gf_st_open(err, path, &f));
    glofnd_status status = load_moments(err, &f, "state1", t->state1, t->state_count);
    if (status == GLOFND_OK && t->state2) status = load_moments(err, &f, "state2", t->state2, t->state_count);
    gf_st_close(&f);
    return status;
}

/* ----- anchors ----- */

static glofnd_status save_anchors(gf_error *err, const gf_trainer *t, const char *path) {
    const glofnd_status status = glofnd_store_save(t->ctx, t->store, path);
    FAIL_IF(err, status != GLOFND_OK, status, "%s", glofnd_ctx_error(t->ctx));
    return GLOFND_OK;
}

static glofnd_status load_anchors(gf_error *err, gf_trainer *t, const char *path) {
    glofnd_store *s = NULL;
    glofnd_store_info info;
    const glofnd_status status = glofnd_store_load(t->ctx, path, NULL, &s);
    FAIL_IF(err, status != GLOFND_OK, status, "%s", glofnd_ctx_error(t->ctx));
    glofnd_store_describe(s, &info);
    if (info.spec.n != t->info.n) {
        glofnd_store_free(s);
        GF_FAIL(err, GLOFND_E_FORMAT, "%s holds %lld anchors, the data has %lld samples", path, (long long)info.spec.n,
                (long long)t->info.n);
    }
    glofnd_store_free(t->store);
    t->store = s;
    return GLOFND_OK;
}

/* ----- position ----- */

#define SUMS(X) \
    X(loss) X(lambda) X(kept) X(steps) X(pairs) X(flagged) X(same) X(hits) X(precision) X(recall) X(quality_steps) X(damaged)

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
    gf_jsonl_end(&j);
    gf_jsonl_sync(&j);
    return gf_jsonl_close(&j);
}

static glofnd_status read_position(gf_error *err, gf_trainer *t, gf_jsonl_reader *r, const char *path, gf_log_marks *marks) {
    int64_t version = 0, step = -1;
    int complete = gf_jsonl_next(r) && gf_jsonl_get_integer(r, "version", &version) && gf_jsonl_get_integer(r, "step", &step) &&
                   gf_jsonl_get_integer(r, "log_lines", &marks->log_lines) && gf_jsonl_get_integer(r, "event_bytes",
                           &marks->event_bytes);
    FAIL_IF(err, complete && version > 1, GLOFND_E_FORMAT, "%s was made by a newer version", path);
#define X(name) complete = complete && gf_jsonl_get(r, "epoch_" #name, &t->sums.name);
    SUMS(X)
#undef X
    FAIL_IF(err, !complete || marks->log_lines < 0 || marks->event_bytes < 0 || step < 0 || step > gf_trainer_steps(t),
            GLOFND_E_FORMAT, "%s is not the position of this run", path);
    t->step = step;
    return GLOFND_OK;
}

static glofnd_status load_position(gf_error *err, gf_trainer *t, const char *path, gf_log_marks *marks) {
    gf_jsonl_reader r = {0};
    TRY(gf_jsonl_read_open(&r, err, path));
    const glofnd_status status = read_position(err, t, &r, path, marks);
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

/* N of a folder "step-N"; -1 for any other name. */
static int64_t step_of(const char *name) {
    char *end;
    if (strncmp(name, "step-", 5) != 0 || name[5] < '0' || name[5] > '9') return -1;
    const long long n = strtoll(name + 5, &end, 10);
    return *end ? -1 : n;
}

static int is_complete(const char *folder, const char *name) {
    text step, done;
    return join(NULL, &step, folder, name) == GLOFND_OK && join(NULL, &done, step.at, "DONE") == GLOFND_OK && access(done.at,
            F_OK) == 0;
}

static void remove_others(const char *folder, int64_t keep) {
    DIR *d = opendir(folder);
    text path;
    for (struct dirent *e; d && (e = readdir(d));) {
        const int64_t n = step_of(e->d_name);
        const int stale = (n >= 0 && n != keep) || strncmp(e->d_name, "tmp-", 4) == 0;
        if (stale && join(NULL, &path, folder, e->d_name) == GLOFND_OK) remove_folder(path.at);
    }
    if (d) closedir(d);
}

glofnd_status gf_checkpoint_latest(gf_error *err, const char *run, char *path, size_t bytes) {
    text folder;
    int64_t best = -1;
    TRY(join(err, &folder, run, "checkpoints"));
    *path = 0;
    DIR *d = opendir(folder.at);
    if (!d) return GLOFND_OK;
    for (struct dirent *e; (e = readdir(d));) {
        const int64_t n = step_of(e->d_name);
        if (n > best && is_complete(folder.at, e->d_name)) {
            best = n;
            snprintf(path, bytes, "%s/%s", folder.at, e->d_name);
        }
    }
    closedir(d);
    return GLOFND_OK;
}

/* ----- all of it ----- */

static glofnd_status save_files(gf_error *err, const gf_trainer *t, const char *folder, gf_log_marks marks) {
    text model, optim, anchors, state;
    TRY(join(err, &model, folder, "model.safetensors"));
    TRY(join(err, &optim, folder, "optim.safetensors"));
    TRY(join(err, &anchors, folder, "anchors.glofnd"));
    TRY(join(err, &state, folder, "state.json"));
    TRY(gf_weights_save(err, t, model.at));
    TRY(save_optimizer(err, t, optim.at));
    TRY(save_anchors(err, t, anchors.at));
    return save_position(err, t, state.at, marks);
}

/* ----- DONE: one line "checksum bytes name" per file, written when all of them are there ----- */

static const char *const files[] = {"model.safetensors", "optim.safetensors", "anchors.glofnd", "state.json"};
enum { FILES = sizeof files / sizeof *files, LINE = 80 };

static glofnd_status describe_file(gf_error *err, const char *folder, const char *name, char line[LINE]) {
    unsigned char part[1 << 14];
    text path;
    gf_reader r;
    TRY(join(err, &path, folder, name));
    TRY(gf_reader_open(&r, err, path.at));
    while (r.status == GLOFND_OK && gf_reader_left(&r) > 0) {
        const uint64_t left = gf_reader_left(&r);
        gf_get(&r, part, left < sizeof part ? (size_t)left : sizeof part);
    }
    snprintf(line, LINE, "%08x %llu %s\n", (unsigned)r.crc, (unsigned long long)r.size, name);
    gf_reader_close(&r);
    return r.status;
}

static glofnd_status mark_done(gf_error *err, const char *folder) {
    char line[LINE];
    text done;
    gf_writer w;
    TRY(join(err, &done, folder, "DONE"));
    TRY(gf_writer_open(&w, err, done.at));
    for (int i = 0; i < FILES && w.status == GLOFND_OK; i++) {
        w.status = describe_file(err, folder, files[i], line);
        gf_put(&w, line, strlen(line));
    }
    const glofnd_status status = gf_writer_commit(&w);
    gf_writer_close(&w);
    return status;
}

static glofnd_status check_done(gf_error *err, const char *folder) {
    char expected[LINE], line[LINE] = "";
    glofnd_status status = GLOFND_OK;
    text done;
    TRY(join(err, &done, folder, "DONE"));
    FILE *f = fopen(done.at, "r");
    FAIL_IF(err, !f, GLOFND_E_IO, "%s cannot be read: %s", done.at, strerror(errno));
    for (int i = 0; i < FILES && status == GLOFND_OK; i++) {
        status = describe_file(err, folder, files[i], expected);
        if (status != GLOFND_OK) break;
        if (!fgets(line, sizeof line, f) || strcmp(line, expected) != 0)
            status = gf_fail(err, GLOFND_E_FORMAT, "%s/%s is damaged: its length or checksum is not the one in DONE", folder,
                    files[i]);
    }
    fclose(f);
    return status;
}

glofnd_status gf_checkpoint_save(gf_error *err, const gf_trainer *t, const char *run, gf_log_marks marks) {
    text folder, temp, final;
    char name[64];
    TRY(join(err, &folder, run, "checkpoints"));
    TRY(make_folder(err, folder.at));
    snprintf(name, sizeof name, "tmp-%lld", (long long)t->step);
    TRY(join(err, &temp, folder.at, name));
    snprintf(name, sizeof name, "step-%lld", (long long)t->step);
    TRY(join(err, &final, folder.at, name));
    if (is_complete(folder.at, name)) return GLOFND_OK; /* resumed here, nothing happened since */
    remove_folder(temp.at);
    remove_folder(final.at); /* without DONE: torn by an earlier kill */
    TRY(make_folder(err, temp.at));
    const glofnd_status status = save_files(err, t, temp.at, marks);
    if (status != GLOFND_OK) remove_folder(temp.at); /* a full disk needs the space */
    TRY(status);
    sync_folder(temp.at);
    FAIL_IF(err, rename(temp.at, final.at) != 0, GLOFND_E_IO, "%s cannot be renamed to %s: %s", temp.at, final.at,
            strerror(errno));
    sync_folder(folder.at);
    TRY(mark_done(err, final.at));
    remove_others(folder.at, t->step);
    return GLOFND_OK;
}

glofnd_status gf_checkpoint_load(gf_error *err, gf_trainer *t, const char *path, gf_log_marks *marks) {
    text model, optim, anchors, state;
    TRY(join(err, &model, path, "model.safetensors"));
    TRY(join(err, &optim, path, "optim.safetensors"));
    TRY(join(err, &anchors, path, "anchors.glofnd"));
    TRY(join(err, &state, path, "state.json"));
    TRY(check_done(err, path));
    TRY(gf_weights_load(err, t, model.at, 0));
    TRY(load_optimizer(err, t, optim.at));
    TRY(load_anchors(err, t, anchors.at));
    TRY(load_position(err, t, state.at, marks));
    return gf_loader_seek(err, t->loader, (uint32_t)(t->step / t->epoch_steps), t->step % t->epoch_steps);
}
