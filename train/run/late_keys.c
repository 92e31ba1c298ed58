/* late_keys.c - see late_keys.h. */
#include "run/late_keys.h"

#include <string.h>

/* `sooner`: it acts from the first step on where samples of equal contents are no negatives (task clip, mask_duplicates).
 * `shapes`: it acts then on what is remembered, not on the steps. A key that is not listed must be equal. start_epoch comes
 * before the two that it sets. */
static const struct {
    const char *key;
    int sooner;
    unsigned shapes;
} late[] = {
    {"start_epoch", 0, 0},
    {"update_epoch", 0, 0},
    {"mask_epoch", 0, 0},
    {"detector", 0, 0},
    {"alpha", 0, 0},
    {"action", 1, 0},
    {"omega", 1, 0},
    {"attract_alpha", 1, 0},
    {"attract_omega", 1, 0},
    {"lambda_init", 0, 0},
    {"lambda_lr", 0, 0},
    {"lambda_warmup", 0, 0},
    {"lambda_normalize", 0, 0},
    {"lambda_beta1", 0, 0},
    {"lambda_beta2", 0, 0},
    {"lambda_eps", 0, 0},
    {"lambda_clip", 0, 0},
    {"lambda_decay", 0, 0},
    {"learner", 0, 0},
    {"ring_rows", 0, GF_REMEMBERS_RING},
    {"ring_rate", 0, 0},
    {"similarity", 0, GF_REMEMBERS_RING}, /* a ring of embeddings, or of averages */
    {"bank_momentum", 0, GF_REMEMBERS_BANK},
    {"fnc_rule", 0, 0},
    {"fnc_threshold", 0, 0},
    {"fnc_support", 0, 0},
    {"fnc_aggregate", 0, 0},
    {"flag_probability", 0, 0},
    {"flag_seed", 0, 0},
    {"require_label", 0, 0},
    {"neighbours", 0, 0},
    {"neighbour_rows", 0, 0},
    {"neighbour_weight", 0, 0},
    {"neighbour_share", 0, 0},
    {"groups", 0, 0},
    {"kmeans_groups", 0, 0},
    {"kmeans_epochs", 0, 0},
    {"kmeans_iterations", 0, 0},
    {"kmeans_accept", 0, 0},
    {"checkpoint_epochs", 0, 0},
};

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
    for (size_t i = 0; i < sizeof late / sizeof *late; i++)
        if (strcmp(late[i].key, key) == 0) return !(late[i].sooner && masks_duplicates(c)) && !(late[i].shapes & memory);
    return 0;
}

static const char *find_key(const gf_config *a, const gf_config *b, unsigned memory) {
    char x[1100], y[1100];
    const char *key;
    for (int i = 0; (key = gf_config_value(a, i, x, sizeof x)); i++) {
        gf_config_value(b, i, y, sizeof y);
        if (strcmp(x, y) != 0 && !may_differ(a, key, memory)) return key;
    }
    return NULL;
}

const char *gf_early_key(const gf_config *a, const gf_config *b) { return find_key(a, b, 0); }

const char *gf_parting_key(const gf_config *trunk, const gf_config *branch) {
    const unsigned memory = gf_detector_memory(branch), lacks = memory & ~gf_detector_memory(trunk);
    const char *key = find_key(trunk, branch, memory & ~lacks);
    if (key || !lacks) return key;
    if (lacks & GF_REMEMBERS_RING && trunk->method.learner != branch->method.learner) return "learner";
    if (lacks & GF_REMEMBERS_BANK && trunk->method.similarity != branch->method.similarity) return "similarity";
    return "detector";
}

glofnd_status gf_late_keys_copy(gf_error *err, gf_config *to, const gf_config *from) {
    char value[1100];
    for (size_t i = 0; i < sizeof late / sizeof *late; i++) {
        gf_config_text(from, late[i].key, value, sizeof value);
        TRY(gf_config_set(err, to, late[i].key, value));
    }
    return GLOFND_OK;
}
