/* options.c - the one table of the method's options, and the public calls over it. A new option is one
 * field in formulas/settings.h and one line here. */
#include "method/options.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "method/formulas/neighbours.h"
#include "util/option_table.h"
#include "util/text.h"

static const char *const pairings[] = {"views", "image-text", NULL};
static const char *const directions[] = {"both", "forward", NULL};
static const char *const losses[] = {"sogclr", "simclr", "fastclip", "isogclr", "sigmoid", NULL};
static const char *const detectors[] = {"none",       "glofnd",   "single",
                                        "fnc",        "oracle",   "groups",
                                        "components", "positive", "positive-relative",
                                        "mutual",     "fixed",    "fixed-mutual",
                                        NULL};
static const char *const actions[] = {"drop", "attract", "weight", NULL};
static const char *const learners[] = {"adam", "sgd", "adam-official", "ring", "shrinkage", "auto", NULL};
static const char *const lambda_inits[] = {"one", "quantile", "auto", NULL};
static const char *const fnc_rules[] = {"quantile", "topk", "threshold", NULL};
static const char *const devices[] = {"cpu", "cuda", NULL};
static const char *const maths[] = {"auto", "exact", "bf16", "split", NULL};
static const char *const similarities[] = {"embedding", "bank", NULL};
static const char *const compats[] = {"paper", "official", NULL};

enum { CLOSED = 0, NOT_MIN = GF_OPTION_ABOVE_MIN, NOT_MAX = GF_OPTION_BELOW_MAX };

#define LAST_EPOCH 1e9 /* the sum of two epochs still is an int32_t */
#define FIELD(name) .key = #name, .offset = offsetof(glofnd_options, name)
#define NAME(name, list, def, grp, text) \
    { FIELD(name), .type = GF_OPTION_ENUM, .names = list, .preset = def, .group = grp, .help = text }
#define SWITCH(name, def, grp, text) \
    { FIELD(name), .type = GF_OPTION_BOOL, .preset = def, .group = grp, .help = text }
#define INTEGER(kind, name, def, lo, hi, grp, text) \
    { FIELD(name), .type = kind, .preset = def, .min = lo, .max = hi, .group = grp, .help = text }
#define EPOCH(name, grp, text) INTEGER(GF_OPTION_INT, name, "0", 0, LAST_EPOCH, grp, text)
#define REAL(name, def, lo, hi, ends, grp, text) \
    { FIELD(name), .type = GF_OPTION_DOUBLE, .preset = def, .min = lo, .max = hi, .flags = ends, .group = grp, .help = text }

static const gf_option rows[] = {
    NAME(pairing, pairings, "views", "method", "the two embeddings of a sample: two views of an image, or image and text"),
    NAME(directions, directions, "both", "method",
         "image and text: the loss of both sides, or of the first against the second alone (query to document)"),
    NAME(loss, losses, "sogclr", "method",
         "sogclr (FastCLIP v1), simclr (NT-Xent; CLIP for image and text), fastclip (v3, tau learned), isogclr (v2, a tau per "
         "anchor), sigmoid (SigLIP; tau and bias learned)"),
    NAME(detector, detectors, "glofnd", "method", "rule that flags false negatives"),
    NAME(action, actions, "drop", "method", "what happens to a false negative"),
    REAL(alpha, "0.01", 0, 1, NOT_MAX, "method", "fraction of negatives to flag; 0: glofnd, single and fnc flag nothing"),
    REAL(omega, "0.5", 0, 1, CLOSED, "method", "weight of a flagged pair under action weight"),
    NAME(fnc_rule, fnc_rules, "quantile", "method",
         "detector fnc: interpolated quantile of the row, exactly the top k, or all above fnc_threshold"),
    NAME(compat, compats, "paper", "method", "the paper's equations, or what the authors' code computes"),
    SWITCH(repeats, "0", "method",
           "1: a sample may occur several times in a batch; its copies are no negatives of each other, and its threshold moves "
           "once"),
    SWITCH(normalize, "1", "method", "1: embeddings come raw; 0: they are unit vectors already"),

    NAME(learner, learners, "auto", "threshold",
         "update rule of lambda; auto: adam with compat official or if an option of adam is set, else shrinkage"),
    NAME(lambda_init, lambda_inits, "auto", "threshold",
         "lambda starts at the quantile of its first batch, or at 1; auto: one with compat official, else quantile"),
    EPOCH(update_epoch, "threshold", "first epoch that moves lambda"),
    EPOCH(mask_epoch, "threshold", "first epoch whose loss uses the flags; not before update_epoch"),
    EPOCH(lambda_warmup, "threshold", "epochs from update_epoch on in which all anchors share one lambda"),
    REAL(lambda_lr, "0.05", 0, 1000, NOT_MIN, "threshold", "step size of lambda"),
    REAL(lambda_beta1, "0.9", 0, 1, NOT_MAX, "threshold", "decay of the first moment of lambda's gradient"),
    REAL(lambda_beta2, "0.98", 0, 1, NOT_MAX, "threshold", "decay of the second moment of lambda's gradient"),
    REAL(lambda_decay, "0", 0, 1e6, CLOSED, "threshold",
         "after this many visits of an anchor its steps shrink as 1/visits; 0: constant steps"),

    REAL(tau, "0.1", 0.001, 100, CLOSED, "loss", "temperature"),
    REAL(gamma, "0.9", 0, 1, NOT_MIN, "loss", "weight of the newest batch in the moving average u"),
    REAL(rho, "6.5", 0, 1000, CLOSED, "loss", "fastclip, isogclr: penalty of the temperature"),
    REAL(tau_lr, "0.01", 0, 1, CLOSED, "loss", "isogclr: step size of the individual temperatures"),
    REAL(tau_min, "0.01", 0.001, GF_TAU_MAX, CLOSED, "loss", "isogclr: smallest individual temperature; the largest is 1"),
    REAL(bias, "-10", -1000, 1000, CLOSED, "loss", "sigmoid: what is added to similarity / tau; its start where it is learned"),

    INTEGER(GF_OPTION_INT64, ring_rows, "16384", 1, 16777216, "ring", "learner ring: embeddings remembered"),

    INTEGER(GF_OPTION_INT, threads, "0", 0, 1024, "machine", "threads; 0: as many as OpenMP would use"),
    NAME(device, devices, "cpu", "machine", "device that runs the steps"),
    NAME(math, maths, "auto", "machine",
         "how embeddings are multiplied; auto: exact on the CPU, on cuda bf16 for tau >= 0.05, else split"),

    NAME(similarity, similarities, "embedding", "experimental",
         "what thresholds are compared with: similarities of embeddings, or of averages over views and visits"),
    REAL(attract_omega, "0", 0, 1, CLOSED, "experimental",
         "action attract: weight that attracted pairs keep in the denominator; 0: they leave it; 1: SupCon"),
    INTEGER(GF_OPTION_INT64, neighbours, "0", 0, GF_NEIGHBOURS_MAX, "experimental",
            "similarity bank: nearest samples of the whole data that attract an anchor, too; 0: off"),
    INTEGER(GF_OPTION_INT64, neighbour_rows, "65536", 0, 16777216, "experimental",
            "neighbours: samples searched in a step, so that its cost does not depend on the data; 0: all"),
    REAL(neighbour_weight, "0.5", 0, 100, CLOSED, "experimental",
         "neighbours: weight of this attraction; that of the other view is 1"),
    REAL(neighbour_share, "1", 0, 1, NOT_MIN, "experimental",
         "neighbours: fraction of anchors to attract, those with the most similar neighbours"),
    REAL(bank_momentum, "0.5", 0, 1, NOT_MAX, "experimental", "similarity bank: weight of a sample's old average"),
    REAL(fnc_threshold, "0.7", -1, 1, CLOSED, "method", "fnc_rule threshold: pairs of a larger score are flagged"),
    INTEGER(GF_OPTION_INT, fnc_support, "0", 0, 16, "method",
            "fnc_rule topk, threshold: extra views per image, whose mean similarity scores its pairs"),
    REAL(margin, "0.1", -2, 2, CLOSED, "method",
         "detector positive: flag pairs more similar than the own positive plus this; positive-relative: plus this times it"),
};

static const gf_option_table table = {rows, sizeof rows / sizeof rows[0]};

/* Ranges first, then the combinations that do not work. */
glofnd_status gf_method_options_check(gf_error *err, const glofnd_options *o) {
    FAIL_IF(err, !o, GLOFND_E_ARGUMENT, "options are NULL");
    TRY(gf_options_check(err, &table, o, sizeof *o));
    const int official = o->compat == GLOFND_COMPAT_OFFICIAL, bank = o->similarity == GLOFND_SIMILARITY_BANK;
    const int views = o->pairing == GLOFND_PAIRING_VIEWS, ring = o->learner == GLOFND_LEARN_RING;
    const int fnc = o->detector == GLOFND_DETECT_FNC, scored = fnc && o->fnc_rule != GLOFND_FNC_QUANTILE;
    const int compares = fnc || gf_learns_thresholds(o);
    const int shares = o->detector == GLOFND_DETECT_SINGLE || o->lambda_warmup > 0;
    const int sigmoid = o->loss == GLOFND_LOSS_SIGMOID;
    const struct {
        int holds;
        const char *reason; /* begins with a key */
    } forbidden[] = {
        {o->mask_epoch < o->update_epoch,
         "mask_epoch: it is before update_epoch, when there are no thresholds to flag with; set it to update_epoch or later"},
        {ring && o->alpha > 0.0 && o->alpha * (double)o->ring_rows < 1.0,
         "ring_rows: too few to find the top alpha of them; expected 1/alpha or more"},
        {shares && (ring || o->lambda_decay > 0.0), "detector: single and lambda_warmup share one lambda, but learner ring and "
                                                    "lambda_decay go by the visits of each anchor; "
                                                    "change one of them"},
        {o->learner == GLOFND_LEARN_SHRINKAGE && (official || o->lambda_init == GLOFND_INIT_ONE),
         "learner: shrinkage starts at the quantile of its first batch, which neither compat official nor lambda_init one does; "
         "set learner to adam or auto"},
        {official && (sigmoid || scored || (views && (o->loss == GLOFND_LOSS_ISOGCLR || o->loss == GLOFND_LOSS_FASTCLIP)) ||
                      (gf_starts_at_quantile(o) && o->lambda_warmup > 0)),
         "compat: the authors' code has no loss sigmoid, no fastclip or isogclr for two views, no fnc_rule topk or threshold, "
         "and "
         "no lambda_warmup with lambda_init quantile; set compat to paper"},
        {bank && (scored || gf_flags_by_positive(o) || gf_flags_by_guide(o)),
         "similarity: bank works with detector glofnd, mutual, single, and fnc with "
         "fnc_rule quantile; set similarity to embedding, or "
         "another detector"},
        {fnc && !scored && o->fnc_support > 0, "fnc_support: fnc_rule quantile takes the embeddings themselves; set fnc_rule to "
                                               "topk or threshold, or fnc_support to 0"},
        {o->directions == GLOFND_DIRECTIONS_FORWARD && (views || official || bank || o->detector == GLOFND_DETECT_MUTUAL),
         "directions: forward is for pairing image-text, compat paper, similarity embedding, and a detector other than mutual; "
         "set "
         "directions to both, or change these"},
        {o->repeats && (official || bank || scored), "repeats: samples that occur several times in a batch are for compat paper, "
                                                     "similarity embedding, and no fnc_rule topk or "
                                                     "threshold; set repeats to 0, or change these"},
        {o->neighbours > 0 && !(bank && compares && views),
         "neighbours: they are found by averages of two views; set similarity to bank, pairing to views, and detector to glofnd, "
         "single or fnc; or neighbours to 0"},
    };
    for (size_t i = 0; i < sizeof forbidden / sizeof *forbidden; i++)
        FAIL_IF(err, forbidden[i].holds, GLOFND_E_OPTION, "%s", forbidden[i].reason);
    return GLOFND_OK;
}

const gf_option_table *gf_method_options(void) { return &table; }

/* ----- what 0.x had ----- */

/* Values that now are two options, or have another name. */
static const struct {
    const char *key, *value, *now, *pairing;
} old_values[] = {
    {"loss", "clip", "simclr", "image-text"},
    {"loss", "sogclr2", "sogclr", "image-text"},
    {"loss", "isogclr-views", "isogclr", "views"},
    {"math", "tf32", "split", NULL},
};

/* Options that are gone, and the value that had no effect; NULL: every value. */
static const struct {
    const char *key, *idle;
} removed[] = {
    {"attract_alpha", "0"}, {"flag_probability", "1"}, {"flag_seed", NULL},       {"fnc_aggregate", "mean"}, {"hard_beta", "0"},
    {"lambda_clip", "0"},   {"lambda_eps", "0"},       {"lambda_normalize", "0"}, {"require_label", "0"},    {"ring_rate", "0.3"},
    {"tau_beta1", "0.9"},   {"tau_beta2", "0.999"},    {"tau_max", "1"},          {"tau_plus", "0"},         {"tile", NULL},
};

int gf_method_option_removed(const char *key) {
    for (size_t i = 0; i < sizeof removed / sizeof *removed; i++)
        if (strcmp(removed[i].key, key) == 0) return 1;
    return 0;
}

glofnd_status gf_method_options_set(gf_error *err, glofnd_options *o, const char *key, const char *value) {
    if (gf_method_option_removed(key)) {
        for (size_t i = 0; i < sizeof removed / sizeof *removed; i++) {
            double given = NAN, idle = NAN;
            if (strcmp(removed[i].key, key) != 0 || !removed[i].idle) continue;
            const int same = strcmp(value, removed[i].idle) == 0 ||
                             (!gf_number_read(value, &given) && !gf_number_read(removed[i].idle, &idle) && given == idle);
            FAIL_IF(err, !same, GLOFND_E_OPTION, "%s: this option was removed in 1.0; only its default %s is still read", key,
                    removed[i].idle);
        }
        return GLOFND_OK;
    }
    for (size_t i = 0; i < sizeof old_values / sizeof *old_values; i++) {
        if (strcmp(old_values[i].key, key) != 0 || strcmp(old_values[i].value, value) != 0) continue;
        if (old_values[i].pairing) TRY(gf_option_set(err, &table, o, sizeof *o, "pairing", old_values[i].pairing));
        value = old_values[i].now;
    }
    return gf_option_set(err, &table, o, sizeof *o, key, value);
}

/* ----- life, by key ----- */

void gf_method_options_init(glofnd_options *o) {
    memset(o, 0, sizeof *o);
    (void)gf_options_preset(NULL, &table, o, sizeof *o); /* fails only if the table is wrong, which a test would see */
}

glofnd_status glofnd_options_create(glofnd_options **out) {
    if (!out) return GLOFND_E_ARGUMENT;
    *out = malloc(sizeof **out);
    if (!*out) return GLOFND_E_MEMORY;
    gf_method_options_init(*out);
    return GLOFND_OK;
}

glofnd_status glofnd_options_copy(const glofnd_options *o, glofnd_options **out) {
    if (out) *out = NULL;
    if (!o) return GLOFND_E_ARGUMENT;
    TRY(glofnd_options_create(out));
    **out = *o;
    return GLOFND_OK;
}

void glofnd_options_free(glofnd_options *o) { free(o); }

static glofnd_status set_checked(gf_error *err, glofnd_options *o, const char *key, const char *value) {
    FAIL_IF(err, !o, GLOFND_E_ARGUMENT, "options are NULL");
    FAIL_IF(err, !key, GLOFND_E_ARGUMENT, "the option's key is NULL");
    FAIL_IF(err, !value, GLOFND_E_ARGUMENT, "the option's value is NULL");
    return gf_method_options_set(err, o, key, value);
}

glofnd_status glofnd_options_set(glofnd_options *o, const char *key, const char *value, char *why, size_t why_bytes) {
    gf_error err;
    return gf_explain(set_checked(&err, o, key, value), &err, why, why_bytes);
}

glofnd_status glofnd_options_set_number(glofnd_options *o, const char *key, double value, char *why, size_t why_bytes) {
    char text[GF_NUMBER_BYTES];
    if (value > -1e15 && value < 1e15 && value == (double)(int64_t)value) snprintf(text, sizeof text, "%lld", (long long)value);
    else gf_shortest_text(text, value);
    return glofnd_options_set(o, key, text, why, why_bytes);
}

static glofnd_status get_checked(gf_error *err, const glofnd_options *o, const char *key, char *value, size_t value_bytes) {
    FAIL_IF(err, !o, GLOFND_E_ARGUMENT, "options are NULL");
    FAIL_IF(err, !key || !value, GLOFND_E_ARGUMENT, "the option's %s is NULL", key ? "value" : "key");
    const gf_option *option = gf_option_find(&table, sizeof *o, key);
    FAIL_IF(err, !option, GLOFND_E_OPTION, "unknown option '%.60s'; did you mean '%s'?", key,
            gf_option_nearest(&table, sizeof *o, key)->key);
    const int length = gf_option_format(option, o, value, value_bytes);
    FAIL_IF(err, length < 0 || (size_t)length >= value_bytes, GLOFND_E_ARGUMENT, "%s: its text needs %d bytes, value has %zu",
            option->key, length + 1, value_bytes);
    return GLOFND_OK;
}

glofnd_status glofnd_options_get(const glofnd_options *o, const char *key, char *value, size_t value_bytes, char *why,
                                 size_t why_bytes) {
    gf_error err;
    return gf_explain(get_checked(&err, o, key, value, value_bytes), &err, why, why_bytes);
}

glofnd_status glofnd_options_check(const glofnd_options *o, char *why, size_t why_bytes) {
    gf_error err;
    return gf_explain(gf_method_options_check(&err, o), &err, why, why_bytes);
}

int glofnd_options_describe(int i, const char **key, const char **help, char *range, size_t range_bytes) {
    if (i < 0 || i >= table.count) return 0;
    if (key) *key = rows[i].key;
    if (help) *help = rows[i].help;
    if (range && range_bytes) {
        char takes[256];
        gf_option_range(&rows[i], takes, sizeof takes);
        snprintf(range, range_bytes, "%s; default %s", takes, rows[i].preset);
    }
    return 1;
}
