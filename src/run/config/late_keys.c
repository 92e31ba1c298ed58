/* late_keys.c - see late_keys.h. */
#include "run/config/late_keys.h"

#include <string.h>

/* `sooner`: it acts from the first step on where samples of equal contents are no negatives (task clip, mask_duplicates). A key
 * that is not listed must be equal: `learner` and `similarity` among them, which keep state from the first step on. start_epoch
 * comes before the two that it sets. */
static const struct {
    const char *key;
    int sooner;
} late[] = {
    {"start_epoch", 0},
    {"update_epoch", 0},
    {"mask_epoch", 0},
    {"detector", 0},
    {"alpha", 0},
    {"action", 1},
    {"omega", 1},
    {"attract_alpha", 1},
    {"attract_omega", 1},
    {"lambda_init", 0},
    {"lambda_lr", 0},
    {"lambda_warmup", 0},
    {"lambda_normalize", 0},
    {"lambda_beta1", 0},
    {"lambda_beta2", 0},
    {"lambda_eps", 0},
    {"lambda_clip", 0},
    {"lambda_decay", 0},
    {"ring_rate", 0},
    {"fnc_rule", 0},
    {"fnc_threshold", 0},
    {"fnc_support", 0},
    {"fnc_aggregate", 0},
    {"flag_probability", 0},
    {"flag_seed", 0},
    {"require_label", 0},
    {"neighbours", 0},
    {"neighbour_rows", 0},
    {"neighbour_weight", 0},
    {"neighbour_share", 0},
    {"groups", 0},
    {"kmeans_groups", 0},
    {"kmeans_epochs", 0},
    {"kmeans_iterations", 0},
    {"kmeans_accept", 0},
    {"checkpoint_epochs", 0},
};

static int masks_duplicates(const gf_config *c) { return c->task == GF_TASK_CLIP && c->mask_duplicates; }

/* Without a detector duplicates are masked nevertheless, by the epochs of a detector. */
int32_t gf_detector_start(const gf_config *c) {
    const int none = c->method.detector == GLOFND_DETECT_NONE && !masks_duplicates(c);
    return none || c->method.update_epoch > c->epochs ? c->epochs : c->method.update_epoch;
}

static int is_late(const gf_config *c, const char *key) {
    for (size_t i = 0; i < sizeof late / sizeof *late; i++)
        if (strcmp(late[i].key, key) == 0) return !(late[i].sooner && masks_duplicates(c));
    return 0;
}

/* What a detector remembers from the first step on: 1 embeddings (ring), 2 averages (bank). */
static int remembers(const gf_config *c) {
    const glofnd_options *o = &c->method;
    const int learns = gf_config_learns_lambda(c), compares = learns || o->detector == GLOFND_DETECT_FNC;
    return (learns && o->learner == GLOFND_LEARN_RING ? 1 : 0) | (compares && o->similarity == GLOFND_SIMILARITY_BANK ? 2 : 0);
}

const char *gf_parting_key(const gf_config *a, const gf_config *b) {
    char x[1100], y[1100];
    const char *key;
    for (int i = 0; (key = gf_config_value(a, i, x, sizeof x)); i++) {
        gf_config_value(b, i, y, sizeof y);
        if (strcmp(x, y) != 0 && !is_late(a, key)) return key;
    }
    return remembers(a) != remembers(b) ? "detector" : NULL;
}

glofnd_status gf_late_keys_copy(gf_error *err, gf_config *to, const gf_config *from) {
    char value[1100];
    for (size_t i = 0; i < sizeof late / sizeof *late; i++) {
        gf_config_text(from, late[i].key, value, sizeof value);
        TRY(gf_config_set(err, to, late[i].key, value));
    }
    return GLOFND_OK;
}
