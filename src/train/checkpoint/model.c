/* model.c - see model.h. */
#include "train/checkpoint/model.h"

#include <stdio.h>

#include "io/json/safetensors.h"
#include "optim/schedule.h"

typedef struct whole { /* a gf_model and what it points to */
    gf_net *nets[2];
    float scale;
    gf_model model;
} whole;

/* The temperature in force is written, also where it is not learned. */
static void collect(whole *x, const gf_trainer *t) {
    for (int k = 0; k < t->encoders.count; k++) x->nets[k] = t->encoders.at[k].net;
    x->scale = t->scale.log_scale;
    x->model = (gf_model){x->nets, t->encoders.count, &x->scale};
}

glofnd_status gf_model_save(gf_error *err, const gf_trainer *t, const char *path) {
    whole x;
    if (t->encoders.count == 1) return gf_weights_save(err, t->encoders.at[0].net, path);
    collect(&x, t);
    return gf_weights_save_model(err, &x.model, path);
}

/* The temperature of a checkpoint is in its state.json, with its moments. */
glofnd_status gf_model_load(gf_error *err, gf_trainer *t, const char *path) {
    whole x;
    if (t->encoders.count == 1) return gf_weights_load(err, t->encoders.at[0].net, path, 0);
    collect(&x, t);
    return gf_weights_load_model(err, &x.model, path, GF_WEIGHTS_STRICT, NULL);
}

glofnd_status gf_model_check(gf_error *err, const gf_config *c) {
    gf_st_file f = {0};
    char path[PATH_MAX];
    FAIL_IF(err, c->lock != GF_LOCK_NONE && !*c->init, GLOFND_E_OPTION,
            "lock: the encoder would stay as random numbers made it; give its weights by init, or leave lock none");
    if (!*c->init) return GLOFND_OK;
    TRY(gf_st_open(err, c->init, &f));
    gf_st_close(&f);
    return c->task == GF_TASK_CLIP ? gf_vocabulary_find(err, c, path) : GLOFND_OK;
}

static glofnd_status check_lock(gf_error *err, const gf_config *c, const gf_weights_report *r) {
    static const char *const names[] = {"none", "image", "text"};
    FAIL_IF(err, c->lock != GF_LOCK_NONE && r->of_net[c->lock == GF_LOCK_TEXT] == 0, GLOFND_E_OPTION,
            "lock: %s; %.200s has no weights for that encoder, which would stay as random numbers made it", names[c->lock],
            c->init);
    return GLOFND_OK;
}

static glofnd_status start_towers(gf_error *err, gf_trainer *t, const char *path, char *line, size_t bytes) {
    gf_weights_report report;
    whole x;
    collect(&x, t);
    TRY(gf_weights_load_model(err, &x.model, path, GF_WEIGHTS_PARTIAL, &report));
    TRY(check_lock(err, &t->config, &report));
    if (gf_config_learns_tau(&t->config)) t->scale.log_scale = (float)gf_clamp_log_scale((double)x.scale, t->config.scale_max);
    const char *rest = *report.text ? report.text : "all that there are";
    snprintf(line, bytes, "weights of %s: %d tensors, %s", path, report.loaded, rest);
    return GLOFND_OK;
}

glofnd_status gf_model_start(gf_error *err, gf_trainer *t, const char *path, char *line, size_t bytes) {
    if (t->encoders.count == 2) return start_towers(err, t, path, line, bytes);
    snprintf(line, bytes, "weights of %s", path);
    return gf_weights_load(err, t->encoders.at[0].net, path, 1);
}
