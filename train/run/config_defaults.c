/* config_defaults.c - defaults of a new run that differ from those of the option tables, which older configurations mean. */
#include <string.h>

#include "run/config_parts.h"

static const struct {
    const char *key, *views, *clip; /* NULL: as in the option table */
} new_run[] = {
    {"lambda_init", "quantile",
     "quantile"}, /* thresholds that work from the first masked epoch on, however few epochs there are */
    /* The paper's image-text experiments, open_clip's views. */
    {"epochs", NULL, "37"},
    {"loss", NULL, "sogclr2"},
    {"tau", NULL, "0.07"},
    {"gamma_schedule", NULL, "cosine"},
    {"optimizer", NULL, "adamw"},
    {"lr", NULL, "1e-3"},
    {"lr_scaling", NULL, "none"},
    {"weight_decay", NULL, "0.1"},
    {"pixels", NULL, "clip"},
    {"crop_min", NULL, "0.9"},
    {"jitter_p", NULL, "0"},
    {"gray_p", NULL, "0"},
    {"blur_p", NULL, "0"},
    {"flip_p", NULL, "0"},
    {"crop_filter", NULL, "bicubic"},
    {"eval_view", NULL, "clip"},
};

static const char *default_of(size_t i, gf_train_task task) { return task == GF_TASK_CLIP ? new_run[i].clip : new_run[i].views; }

const char *gf_config_preset(const gf_option *o, gf_train_task task) {
    for (size_t i = 0; i < sizeof new_run / sizeof *new_run; i++)
        if (strcmp(new_run[i].key, o->key) == 0 && default_of(i, task)) return default_of(i, task);
    return o->preset;
}

/* The authors' code starts at 1; from quantiles it starts only where it is told to. */
static int applies(const gf_config *c, const char *key) {
    return !gf_config_is_given(c, key) && !(strcmp(key, "lambda_init") == 0 && c->method.compat == GLOFND_COMPAT_OFFICIAL);
}

glofnd_status gf_config_take_defaults(gf_error *err, gf_config *c) {
    for (size_t i = 0; i < sizeof new_run / sizeof *new_run; i++) {
        const char *value = default_of(i, c->task);
        if (value && applies(c, new_run[i].key)) TRY(gf_config_set(err, c, new_run[i].key, value));
    }
    return GLOFND_OK;
}
