/* matrix.c - see matrix.h. */
#include "matrix.h"

#include <stdio.h>

enum { CANDIDATES = 1, REPEATS = 2, FORWARD = 4, GROUPS = 8, BANK = 16, KEYS = 32, POSITIVES = 64 };

static const char *const LOSS[LOSSES] = {"sogclr",  "simclr",        "clip",           "sogclr2", "fastclip",
                                         "isogclr", "isogclr-views", "fastclip-views", "sigmoid", "siglip"};
static const char *const ACTION[MATRIX_ACTIONS] = {"drop", "attract", "weight"};
static const char *const LEARNER[MATRIX_LEARNERS] = {"adam", "sgd", "adam-official", "ring", "shrinkage"};

static const struct {
    const char *name;
    glofnd_detector detector;
    glofnd_fnc_rule rule;
    int learns, groups, warmup;
} DETECTOR[MATRIX_DETECTORS] = {
    {"none", GLOFND_DETECT_NONE, 0, 0, 0, 0},
    {"glofnd", GLOFND_DETECT_GLOFND, 0, 1, 0, 0},
    {"glofnd warm-up", GLOFND_DETECT_GLOFND, 0, 1, 0, 2},
    {"single", GLOFND_DETECT_SINGLE, 0, 1, 0, 0},
    {"mutual", GLOFND_DETECT_MUTUAL, 0, 1, 0, 0},
    {"fnc", GLOFND_DETECT_FNC, GLOFND_FNC_QUANTILE, 0, 0, 0},
    {"fnc topk", GLOFND_DETECT_FNC, GLOFND_FNC_TOPK, 0, 0, 0},
    {"fnc threshold", GLOFND_DETECT_FNC, GLOFND_FNC_THRESHOLD, 0, 0, 0},
    {"positive", GLOFND_DETECT_POSITIVE, 0, 0, 0, 0},
    {"positive-relative", GLOFND_DETECT_POSITIVE_RELATIVE, 0, 0, 0, 0},
    {"oracle", GLOFND_DETECT_ORACLE, 0, 0, 0, 0},
    {"groups", GLOFND_DETECT_GROUPS, 0, 0, 1, 0},
    {"components", GLOFND_DETECT_COMPONENTS, 0, 0, 0, 0},
    {"glofnd, quantile start", GLOFND_DETECT_GLOFND, 0, 1, 0, 0},
    {"fixed", GLOFND_DETECT_FIXED, 0, 0, 0, 0},
    {"fixed-mutual", GLOFND_DETECT_FIXED_MUTUAL, 0, 0, 0, 0},
};

int matrix_scene(int cell, scene *out) {
    const int extras = cell % MATRIX_EXTRAS, learner = cell / MATRIX_EXTRAS % MATRIX_LEARNERS;
    const int action = cell / (MATRIX_EXTRAS * MATRIX_LEARNERS) % MATRIX_ACTIONS;
    const int d = cell / (MATRIX_EXTRAS * MATRIX_LEARNERS * MATRIX_ACTIONS) % MATRIX_DETECTORS;
    const int loss = cell / (MATRIX_EXTRAS * MATRIX_LEARNERS * MATRIX_ACTIONS * MATRIX_DETECTORS);
    const int quantile_start = d == 13;
    scene s = scene_make("", loss);
    const int plain = !DETECTOR[d].learns && d != 5 && d != 6 && d != 7 && d != 8 && d != 9;
    int together = 0;
    for (int bit = 1; bit < MATRIX_EXTRAS; bit *= 2) together += (extras & bit) != 0;
    if (together > 3 || (learner > 0 && !DETECTOR[d].learns) || (extras & BANK && plain)) return 0;
    snprintf(s.name, sizeof s.name, "%s/%s/%s/%s%s%s%s%s%s%s%s", LOSS[loss], DETECTOR[d].name, ACTION[action], LEARNER[learner],
             extras & CANDIDATES ? " candidates" : "", extras & REPEATS ? " repeats" : "", extras & FORWARD ? " forward" : "",
             extras & GROUPS ? " groups" : "", extras & BANK ? " bank" : "", extras & KEYS ? " keys" : "",
             extras & POSITIVES ? " positives" : "");
    s.batch = 7, s.anchors = 9, s.dim = 6, s.steps = 3;
    s.o.update_epoch = 0, s.o.mask_epoch = 1;
    s.o.detector = DETECTOR[d].detector, s.o.fnc_rule = DETECTOR[d].rule, s.o.action = (glofnd_action)action;
    s.o.learner = (glofnd_learner)learner, s.o.lambda_warmup = DETECTOR[d].warmup, s.o.ring_rows = 40;
    s.o.lambda_init = quantile_start                      ? GLOFND_INIT_QUANTILE
                      : learner == GLOFND_LEARN_SHRINKAGE ? GLOFND_INIT_AUTO
                                                          : GLOFND_INIT_ONE;
    s.o.directions = extras & FORWARD ? GLOFND_DIRECTIONS_FORWARD : GLOFND_DIRECTIONS_BOTH;
    s.o.similarity = extras & BANK ? GLOFND_SIMILARITY_BANK : GLOFND_SIMILARITY_EMBEDDING;
    s.o.repeats = (extras & REPEATS) != 0, s.repeats = extras & REPEATS ? 1 + cell % 2 : 0;
    s.guide_dim = gf_flags_by_guide(&s.o) ? 8 : 0;
    s.keyed = (extras & KEYS) != 0;
    s.with_positives = (extras & POSITIVES) != 0;
    s.with_groups = extras & GROUPS || DETECTOR[d].groups;
    s.with_labels = s.o.detector == GLOFND_DETECT_ORACLE || cell / MATRIX_EXTRAS % 2;
    if (extras & CANDIDATES) {
        s.candidates[0] = extras & FORWARD && !scene_two_views(&s) ? 0 : 4;
        s.candidates[1] = scene_two_views(&s) ? 0 : 5;
        s.with_candidate_ids = (loss + d + action) % 2;
    }
    *out = s;
    return 1;
}

int matrix_refusals(const scene *s, matrix_rule *rule, int most) {
    const glofnd_options *o = &s->o;
    const int views = scene_two_views(s), bank = o->similarity == GLOFND_SIMILARITY_BANK;
    const int forward = o->directions == GLOFND_DIRECTIONS_FORWARD, mutual = o->detector == GLOFND_DETECT_MUTUAL;
    const int scored = o->detector == GLOFND_DETECT_FNC && o->fnc_rule != GLOFND_FNC_QUANTILE;
    const int positive = o->detector == GLOFND_DETECT_POSITIVE || o->detector == GLOFND_DETECT_POSITIVE_RELATIVE;
    const int candidates = s->candidates[0] + s->candidates[1] > 0, ring = o->learner == GLOFND_LEARN_RING;
    const int one_lambda = o->detector == GLOFND_DETECT_SINGLE || o->lambda_warmup > 0;
    const struct {
        int holds;
        matrix_rule rule;
    } rules[] = {
        {forward && views, {"directions", "pairing"}},
        {forward && bank, {"directions", "similarity"}},
        {forward && mutual, {"directions", "detector"}},
        {o->repeats && bank, {"repeats", "similarity"}},
        {o->repeats && scored, {"repeats", "fnc_rule"}},
        {candidates && bank, {"candidates", "similarity bank"}},
        {candidates && scored, {"candidates", "fnc_rule"}},
        {s->with_positives && bank, {"positives", "similarity bank"}},
        {s->with_positives && scored, {"positives", "fnc_rule"}},
        {bank && (scored || positive), {"similarity", "detector"}},
        {ring && one_lambda, {"detector", "ring"}},
    };
    int n = 0;
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
        if (rules[i].holds && n < most) rule[n++] = rules[i].rule;
    return n;
}
