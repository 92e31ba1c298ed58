/* checkpoint.c - see checkpoint.h. */
#include "loop/checkpoint.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "io/jsonl.h"
#include "io/safetensors.h"
#include "loop/anchors.h"
#include "loop/model.h"
#include "run/run_folder.h"

/* ----- optimizer ----- */

/* The optimizer's states: 2 for AdamW, else 1. */
static int optimizer_states(const gf_trainer *t) { return t->config.optimizer == GF_OPTIMIZER_ADAMW ? 2 : 1; }

/* Copies every parameter's part of state `which` to `to`, or from `from`. */
static glofnd_status copy_optimizer_state(gf_error *err, const gf_trainer *t, int which, float *to, const float *from) {
    int64_t at = 0;
    for (int k = 0; k < t->encoders.count; k++) {
        const gf_encoder *w = &t->encoders.at[k];
        for (int i = 0; i < w->param_count; at += w->tensors[i++].count) {
            float *place = gf_net_place(w->net, which == 1 ? w->state1 : w->state2, &w->tensors[i]);
            TRY(to ? gf_net_get(err, w->net, &w->tensors[i], place, to + at)
                   : gf_net_put(err, w->net, &w->tensors[i], place, from + at));
        }
    }
    return GLOFND_OK;
}

glofnd_status gf_trainer_get_state(gf_error *err, const gf_trainer *t, int which, float *flat) {
    return copy_optimizer_state(err, t, which, flat, NULL);
}

static gf_st_tensor moments(const char *name, const float *data, int64_t count) {
    return (gf_st_tensor){.name = name, .type = GF_ST_F32, .rank = 1, .shape = {count}, .data = data};
}

static glofnd_status load_moments(gf_error *err, const gf_st_file *f, gf_trainer *t, int which) {
    const char *name = which == 1 ? "state1" : "state2";
    const gf_st_tensor *x = gf_st_find(f, name);
    FAIL_IF(err, !x, GLOFND_E_FORMAT, "%s: %s is missing; the file belongs to a different optimizer", f->path, name);
    float *flat = malloc((size_t)t->state_count * sizeof *flat);
    FAIL_IF(err, !flat, GLOFND_E_MEMORY, "no memory for a copy of the optimizer's state");
    glofnd_status status = gf_st_read_f32(err, f, x, flat, t->state_count);
    if (status == GLOFND_OK) status = copy_optimizer_state(err, t, which, NULL, flat);
    free(flat);
    return status;
}

/* ----- state.json ----- */

#define SUMS(X) \
    X(loss) X(lambda) X(kept) X(steps) X(pairs) X(flagged) X(same) X(hits) X(precision) X(recall) X(quality_steps) X(damaged)

static glofnd_status read_state(gf_error *err, gf_trainer *t, gf_jsonl_reader *r, const gf_remap *found, gf_log_marks *marks) {
    int64_t version = 0;
    int complete = gf_jsonl_next(r) && gf_jsonl_get_integer(r, "version", &version) &&
                   gf_jsonl_get_integer(r, "step", &t->step) && gf_jsonl_get_integer(r, "log_lines", &marks->log_lines) &&
                   gf_jsonl_get_integer(r, "event_bytes", &marks->event_bytes);
    FAIL_IF(err, complete && version > 1, GLOFND_E_FORMAT, GF_STATE_FILE " was made by a newer version");
#define X(name) complete = complete && gf_jsonl_get(r, "epoch_" #name, &t->sums.name);
    SUMS(X)
#undef X
    complete = complete && marks->log_lines >= 0 && marks->event_bytes >= 0 && t->step >= 0;
    FAIL_IF(err, !complete, GLOFND_E_FORMAT, GF_STATE_FILE " is not the state of a run");
    double scale = 0, m = 0, v = 0, bias = 0;
    int64_t crc = 0;
    const int pairs = t->config.task == GF_TASK_CLIP;
    /* Checkpoints of loss sigmoid from before it learned: both begin now. */
    if (t->learns_bias && gf_jsonl_get(r, "bias", &bias)) {
        const int whole =
            gf_jsonl_get(r, "bias_m", &m) && gf_jsonl_get(r, "bias_v", &v) && fabs(bias) <= 1000.0 && isfinite(m) && isfinite(v);
        FAIL_IF(err, !whole, GLOFND_E_FORMAT, GF_STATE_FILE " holds an impossible bias");
        t->bias = (gf_learned_bias){(float)bias, (float)m, (float)v};
    }
    if (pairs || (t->learns_bias && gf_jsonl_get(r, "log_scale", &scale))) {
        const int has_temperature = (!pairs || gf_jsonl_get_integer(r, "vocab_crc", &crc)) &&
                                    gf_jsonl_get(r, "log_scale", &scale) && gf_jsonl_get(r, "log_scale_m", &m) &&
                                    gf_jsonl_get(r, "log_scale_v", &v);
        FAIL_IF(err, !has_temperature, GLOFND_E_FORMAT, GF_STATE_FILE " is not that of an image-text run");
        FAIL_IF(err, pairs && crc != (int64_t)t->vocab_crc, GLOFND_E_FORMAT,
                "the vocabulary differs from the one the checkpoint was trained with; put back its " GF_VOCABULARY_FILE);
        FAIL_IF(err, !(scale >= 0.0 && scale < 10.0) || !isfinite(m) || !isfinite(v), GLOFND_E_FORMAT,
                GF_STATE_FILE " holds an impossible temperature");
        t->scale = (gf_learned_tau){(float)scale, (float)m, (float)v};
    }
    if (found->changed) {
        /* Other data has a different number of steps per epoch: the epoch and its sums begin again. */
        const int64_t steps_then = found->rows / t->config.batch;
        const int64_t epoch = steps_then > 0 ? t->step / steps_then : 0;
        t->step = (epoch < t->config.epochs ? epoch : t->config.epochs) * t->epoch_steps;
        t->sums = (gf_epoch_sums){0};
    }
    FAIL_IF(err, t->step > gf_trainer_steps(t), GLOFND_E_OPTION,
            "epochs: %d make %lld steps in all, and the run to resume has done %lld", (int)t->config.epochs,
            (long long)gf_trainer_steps(t), (long long)t->step);
    return GLOFND_OK;
}

/* ----- saving ----- */

/* Those before KEYS are in every checkpoint; earlier versions wrote no keys, or no configuration, and did not list them. */
enum { MODEL, OPTIM, ANCHORS, STATE, KEYS, CONFIG, FILES, GROUPS = FILES, PATHS };
static const char *const names[PATHS] = {GF_MODEL_FILE, GF_OPTIM_FILE,  GF_ANCHORS_FILE, GF_STATE_FILE,
                                         GF_KEYS_FILE,  GF_CONFIG_FILE, GF_GROUPS_FILE};

/* Groups are in checkpoints of runs that have made some by k-means. */
static int has_groups(const gf_trainer *t) { return t->clusters && t->groups.made; }

static glofnd_status paths_of(gf_error *err, const char *folder, char path[PATHS][PATH_MAX]) {
    for (int i = 0; i < PATHS; i++) TRY(gf_path_join(err, path[i], folder, names[i]));
    return GLOFND_OK;
}

/* All files but the anchors of several ranks. */
static glofnd_status save_files(gf_error *err, const gf_trainer *t, const char *folder, gf_log_marks marks) {
    char path[PATHS][PATH_MAX];
    TRY(paths_of(err, folder, path));
    TRY(gf_model_save(err, t, path[MODEL]));
    const int64_t n = t->state_count;
    float *flat = malloc(2 * (size_t)n * sizeof *flat);
    FAIL_IF(err, !flat, GLOFND_E_MEMORY, "no memory for a copy of the optimizer's state");
    const gf_st_tensor list[2] = {moments("state1", flat, n), moments("state2", flat + n, n)};
    const int states = optimizer_states(t);
    glofnd_status status = gf_trainer_get_state(err, t, 1, flat);
    if (status == GLOFND_OK && states == 2) status = gf_trainer_get_state(err, t, 2, flat + n);
    if (status == GLOFND_OK) status = gf_st_write(err, path[OPTIM], list, states, NULL, 0);
    free(flat);
    TRY(status);
    TRY(gf_anchors_save(err, t, path[ANCHORS], path[KEYS]));
    if (has_groups(t)) TRY(gf_sample_groups_save(err, &t->groups, path[GROUPS]));
    TRY(gf_config_write(err, &t->config, path[CONFIG]));
    gf_jsonl j = {0};
    TRY(gf_jsonl_open(err, &j, path[STATE], 0));
    gf_jsonl_begin(&j);
    gf_jsonl_integer(&j, "version", 1);
    gf_jsonl_integer(&j, "step", t->step);
    gf_jsonl_integer(&j, "log_lines", marks.log_lines);
    gf_jsonl_integer(&j, "event_bytes", marks.event_bytes);
#define X(name) gf_jsonl_number(&j, "epoch_" #name, t->sums.name);
    SUMS(X)
#undef X
    if (t->learns_bias) {
        gf_jsonl_number(&j, "bias", (double)t->bias.value);
        gf_jsonl_number(&j, "bias_m", (double)t->bias.m);
        gf_jsonl_number(&j, "bias_v", (double)t->bias.v);
    }
    if (t->config.task == GF_TASK_CLIP) gf_jsonl_integer(&j, "vocab_crc", (int64_t)t->vocab_crc);
    if (t->config.task == GF_TASK_CLIP || t->learns_bias) {
        gf_jsonl_number(&j, "log_scale", (double)t->scale.log_scale);
        gf_jsonl_number(&j, "log_scale_m", (double)t->scale.m);
        gf_jsonl_number(&j, "log_scale_v", (double)t->scale.v);
    }
    gf_jsonl_end(&j);
    gf_jsonl_sync(&j);
    return gf_jsonl_close(&j);
}

gf_checkpoint_keep gf_checkpoint_keeps(const gf_trainer *t) {
    gf_checkpoint_keep keep = {.newest = t->config.keep_checkpoints};
    int32_t epoch[GF_KEPT_EPOCHS];
    if (gf_config_kept_epochs(NULL, &t->config, epoch, &keep.count) != GLOFND_OK) keep.count = 0; /* cannot be: it was checked */
    for (int i = 0; i < keep.count; i++) keep.step[i] = epoch[i] * t->epoch_steps;
    return keep;
}

/* ranks: 0 if one rank has written all anchors. */
static glofnd_status publish(gf_error *err, const gf_trainer *t, const gf_checkpoint_draft *d, int ranks) {
    enum { NAME = 80 };
    const int files = has_groups(t) ? PATHS : FILES;
    const char **list = malloc((size_t)(files + ranks) * (sizeof *list + NAME));
    FAIL_IF(err, !list, GLOFND_E_MEMORY, "no memory for the names of %d files", files + ranks);
    char(*part)[NAME] = (char(*)[NAME])(list + files + ranks);
    for (int i = 0; i < files; i++) list[i] = names[i];
    for (int r = 0; r < ranks; r++) {
        gf_anchors_part_name(names[ANCHORS], r, ranks, part[r], NAME);
        list[files + r] = part[r];
    }
    const gf_checkpoint_keep keep = gf_checkpoint_keeps(t);
    const glofnd_status status = gf_checkpoint_draft_publish(err, d, list, files + ranks, &keep);
    free(list);
    return status;
}

glofnd_status gf_checkpoint_save(gf_error *err, const gf_trainer *t, const char *run, gf_log_marks marks) {
    gf_checkpoint_draft d;
    TRY(gf_checkpoint_draft_init(err, &d, run, t->step));
    /* The first rank's answer counts. */
    int here = 0;
    glofnd_status status = !t->comm || t->comm->rank == 0 ? gf_checkpoint_draft_exists(err, &d, &here) : GLOFND_OK;
    if (t->comm) status = gf_comm_agree(err, t->comm, status);
    TRY(status);
    double saved = here;
    if (t->comm) TRY(t->comm->ops->sum(err, t->comm, &saved, 1));
    if (saved > 0.0) return GLOFND_OK; /* resumed here, and no step since */
    if (t->comm) {
        /* Every rank writes the anchors it owns, the first one all other files. They continue together, or fail together. */
        gf_comm *c = t->comm;
        const int first = c->rank == 0;
        char anchors[PATH_MAX];
        TRY(gf_path_join(err, anchors, d.temp, names[ANCHORS]));
        TRY(gf_comm_agree(err, c, first ? gf_checkpoint_draft_create(err, &d) : GLOFND_OK));
        status = gf_anchors_save_shard(err, t, anchors);
        if (status == GLOFND_OK && first) status = save_files(err, t, d.temp, marks);
        status = gf_comm_agree(err, c, status);
        if (status != GLOFND_OK && first) gf_checkpoint_draft_discard(&d);
        TRY(status);
        return gf_comm_agree(err, c, first ? publish(err, t, &d, c->ranks) : GLOFND_OK);
    }
    TRY(gf_checkpoint_draft_create(err, &d));
    status = save_files(err, t, d.temp, marks);
    if (status != GLOFND_OK) gf_checkpoint_draft_discard(&d);
    TRY(status);
    return publish(err, t, &d, 0);
}

/* ----- loading ----- */

glofnd_status gf_checkpoint_load(gf_error *err, gf_trainer *t, const char *path, int remap, gf_remap *found,
                                 gf_log_marks *marks) {
    char at[PATHS][PATH_MAX], scratch[PATH_MAX];
    TRY(paths_of(err, path, at));
    TRY(gf_path_join(err, scratch, path, "../../" GF_ANCHORS_REMAPPED));
    TRY(gf_manifest_check(err, path, names, KEYS));
    TRY(gf_model_load(err, t, at[MODEL]));
    gf_st_file f = {0};
    TRY(gf_st_open(err, at[OPTIM], &f));
    glofnd_status status = GLOFND_OK;
    for (int which = 1; which <= optimizer_states(t) && status == GLOFND_OK; which++) status = load_moments(err, &f, t, which);
    gf_st_close(&f);
    TRY(status);
    TRY(gf_anchors_load(err, t, at[ANCHORS], at[KEYS], scratch, remap, found));
    /* Keys that are numbers may be equal where pictures are not. */
    gf_config then;
    int has = 0;
    if (found->kept != 0) {
        TRY(gf_checkpoint_config(err, path, &then, &has));
        if (has) TRY(gf_keys_check_pictures(err, t->data, t->config.data, then.data));
    }
    /* Groups are made anew for other data, and after a checkpoint without them. */
    int listed = 0;
    if (t->clusters && !found->changed) {
        TRY(gf_manifest_check_one(err, path, GF_GROUPS_FILE, &listed));
        if (listed) TRY(gf_sample_groups_load(err, &t->groups, at[GROUPS]));
    }
    gf_jsonl_reader r = {0};
    TRY(gf_jsonl_read_open(err, &r, at[STATE]));
    status = read_state(err, t, &r, found, marks);
    gf_jsonl_read_close(&r);
    TRY(status);
    return gf_loader_seek(err, t->loader, (uint32_t)(t->step / t->epoch_steps), t->step % t->epoch_steps);
}
