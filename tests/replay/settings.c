/* settings.c - see settings.h. */
#include "settings.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "optim/optim.h"
#include "support/losses.h"

#define WHOLE_MAX (INT64_C(1) << 53) /* hyper.tsv is read as double */

glofnd_device replay_device = GLOFND_DEVICE_CPU;

static int is_text(const char *a, const char *b) { return strcmp(a, b) == 0; }

static int read_sizes(settings *s, const golden_case *c, message *m) {
    PASS(golden_integer(c, "N", 1, WHOLE_MAX, &s->n, m));
    PASS(golden_integer(c, "B", 2, 1 << 24, &s->batch, m));
    PASS(golden_integer(c, "d", 1, 1 << 24, &s->dim, m));
    PASS(golden_integer(c, "steps", 1, WHOLE_MAX, &s->steps, m));
    s->world = 1;
    if (golden_has(c, "world")) PASS(golden_integer(c, "world", 1, s->batch, &s->world, m));
    SAY_IF(m, s->batch % s->world, REPLAY_UNREADABLE, "%s: B = %lld is not a multiple of world = %lld", c->id,
           (long long)s->batch, (long long)s->world);
    return REPLAY_OK;
}

static int read_detector(settings *s, const golden_case *c, message *m) {
    static const struct {
        const char *name;
        glofnd_detector detector;
    } known[] = {{"none", GLOFND_DETECT_NONE},      {"-", GLOFND_DETECT_NONE},  {"glofnd", GLOFND_DETECT_GLOFND},
                 {"uglofnd", GLOFND_DETECT_SINGLE}, {"fnd", GLOFND_DETECT_FNC}, {"oracle", GLOFND_DETECT_ORACLE}};
    const size_t count = sizeof known / sizeof known[0];
    const char *name = NULL;
    size_t i = 0;
    PASS(golden_text(c, "detector", &name, m));
    while (i < count && !is_text(name, known[i].name)) i++;
    SAY_IF(m, i == count, REPLAY_UNREADABLE, "%s: hyper.tsv: detector '%s'; expected none, -, glofnd, uglofnd, fnd or oracle",
           c->id, name);
    s->o.detector = known[i].detector;
    s->o.fnc_rule = GLOFND_FNC_QUANTILE;
    s->single = s->o.detector == GLOFND_DETECT_SINGLE;
    s->learned = s->single || s->o.detector == GLOFND_DETECT_GLOFND;
    return REPLAY_OK;
}

static int read_epochs(settings *s, const golden_case *c, message *m) {
    int64_t update = 0, mask = 0, warmup = 0;
    PASS(golden_integer(c, "start_update", 0, INT32_MAX, &update, m));
    PASS(golden_integer(c, "lda_start", 0, INT32_MAX, &mask, m));
    if (golden_has(c, "u_warmup")) PASS(golden_integer(c, "u_warmup", 0, INT32_MAX, &warmup, m));
    s->o.update_epoch = (int32_t)update;
    s->o.mask_epoch = (int32_t)mask;
    s->o.lambda_warmup = (int32_t)warmup;
    return REPLAY_OK;
}

static int read_learner(settings *s, const golden_case *c, message *m) {
    int64_t quantile = 0;
    PASS(golden_number(c, "alpha", &s->o.alpha, m));
    PASS(read_epochs(s, c, m));
    if (!s->learned) return REPLAY_OK;
    PASS(golden_integer(c, "init_quantile", 0, 1, &quantile, m));
    PASS(golden_number(c, "lr_lda", &s->o.lambda_lr, m));
    PASS(golden_number(c, "beta1", &s->o.lambda_beta1, m));
    PASS(golden_number(c, "beta2", &s->o.lambda_beta2, m));
    PASS(golden_number(c, "lambda_init", &s->lambda_start, m));
    s->o.lambda_init = quantile ? GLOFND_INIT_QUANTILE : GLOFND_INIT_ONE;
    return REPLAY_OK;
}

static int read_two_views(settings *s, const golden_case *c, message *m) {
    const char *loss = NULL;
    s->modalities = 1;
    s->o.normalize = 1;
    PASS(golden_text(c, "loss_type", &loss, m));
    SAY_IF(m, !is_text(loss, "dcl") && !is_text(loss, "cl"), REPLAY_UNREADABLE,
           "%s: hyper.tsv: loss_type '%s'; expected dcl or cl", c->id, loss);
    SAY_IF(m, s->world != 1, REPLAY_UNREADABLE, "%s: world = %lld: two views are defined for one rank only", c->id,
           (long long)s->world);
    losses_set(&s->o, is_text(loss, "dcl") ? LOSS_SOGCLR : LOSS_SIMCLR);
    PASS(golden_number(c, "tau", &s->o.tau, m));
    if (losses_of(&s->o) == LOSS_SOGCLR) PASS(golden_number(c, "gamma", &s->o.gamma, m));
    return read_learner(s, c, m);
}

static int read_gamma(settings *s, const golden_case *c, message *m) {
    const char *schedule = "cosine";
    if (golden_has(c, "gamma_schedule")) PASS(golden_text(c, "gamma_schedule", &schedule, m));
    s->gamma_is_cosine = is_text(schedule, "cosine");
    PASS(golden_number(c, "gamma_min", &s->gamma_min, m));
    if (s->gamma_is_cosine) PASS(golden_number(c, "gamma_decay_epochs", &s->gamma_decay, m));
    SAY_IF(m, !(s->gamma_min > 0.0 && s->gamma_min <= 1.0), REPLAY_UNREADABLE, "%s: gamma_min is %g; expected (0, 1]", c->id,
           s->gamma_min);
    return REPLAY_OK;
}

static int read_image_text(settings *s, const golden_case *c, const char *family, message *m) {
    int64_t multiply_tau = 0;
    s->modalities = 2;
    s->o.normalize = 0;
    if (is_text(family, "bimodal_clip")) {
        SAY_IF(m, s->world != 1, REPLAY_UNREADABLE, "%s: world = %lld: CLIP is defined for one rank only", c->id,
               (long long)s->world);
        losses_set(&s->o, LOSS_CLIP);
        return REPLAY_OK;
    }
    PASS(golden_integer(c, "multiply_tau", 0, 1, &multiply_tau, m));
    losses_set(&s->o, multiply_tau ? LOSS_FASTCLIP : LOSS_SOGCLR2);
    if (multiply_tau) PASS(golden_number(c, "rho", &s->o.rho, m));
    PASS(read_gamma(s, c, m));
    return s->o.detector == GLOFND_DETECT_NONE ? REPLAY_OK : read_learner(s, c, m);
}

int settings_read(settings *s, const golden_case *c, message *m) {
    const char *family = NULL;
    int64_t resume = 0;
    *s = (settings){.lambda_start = 1.0};
    gf_method_options_init(&s->o);
    s->o.lambda_init = GLOFND_INIT_ONE;
    s->o.compat = GLOFND_COMPAT_OFFICIAL;
    s->o.device = replay_device;
    s->o.math = GLOFND_MATH_EXACT;
    s->o.learner = GLOFND_LEARN_ADAM;
    s->o.action = GLOFND_ACTION_DROP;
    PASS(golden_text(c, "family", &family, m));
    PASS(read_sizes(s, c, m));
    PASS(read_detector(s, c, m));
    if (golden_has(c, "resume")) PASS(golden_integer(c, "resume", 0, 1, &resume, m));
    s->resume = (int)resume;
    const int two_views = strncmp(family, "unimodal_", 9) == 0;
    PASS(two_views ? read_two_views(s, c, m) : read_image_text(s, c, family, m));
    if (s->world > 1) s->o.threads = 1; /* the ranks are threads of this program */
    char why[256] = "";
    SAY_IF(m, glofnd_options_check(&s->o, why, sizeof why) != GLOFND_OK, REPLAY_MISMATCH, "the library refuses the settings: %s",
           why);
    return REPLAY_OK;
}

double settings_gamma(const settings *s, int64_t epoch) {
    return s->gamma_is_cosine ? gf_gamma_cosine(s->gamma_min, epoch, s->gamma_decay) : s->gamma_min;
}
