/* config_shares.c - epochs that are written as shares of the schedule ("start_epoch = 35%"): a preset keeps its meaning with any
 * number of epochs. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "run/config_parts.h"
#include "util/number_text.h"

static const char *const keys[GF_SHARES] = {
    [GF_SHARE_START] = "start_epoch",   [GF_SHARE_WARMUP] = "warmup_epochs", [GF_SHARE_WARMUP_STEPS] = "warmup_steps",
    [GF_SHARE_GAMMA] = "gamma_decay",   [GF_SHARE_UPDATE] = "update_epoch",  [GF_SHARE_MASK] = "mask_epoch",
    [GF_SHARE_SHARED] = "lambda_warmup"};

int gf_config_share_of(const char *key) {
    for (int i = 0; i < GF_SHARES; i++)
        if (strcmp(keys[i], key) == 0) return i;
    return -1;
}

glofnd_status gf_config_read_share(gf_error *err, const char *key, const char *text, double *share) {
    char number[GF_NUMBER_BYTES];
    const size_t n = strlen(text) - 1; /* it ends with '%' */
    double x = -1.0;
    const int read =
        n < sizeof number && snprintf(number, sizeof number, "%.*s", (int)n, text) >= 0 && !gf_number_read(number, &x);
    FAIL_IF(err, !read || !(x >= 0.0 && x <= 100.0), GLOFND_E_OPTION,
            "%s: \"%.40s\" is not a share; expected 0%% to 100%% of the schedule", key, text);
    *share = x;
    return GLOFND_OK;
}

/* floor(share of n): 35 % of 200 is 70 although 0.35 has no exact binary form. */
static int64_t part_of(double share, int64_t n) { return (int64_t)floor(share * (double)n / 100.0 * (1.0 + 1e-12)); }

void gf_config_resolve_shares(gf_config *c) {
    int32_t *const epochs[GF_SHARES] = {
        [GF_SHARE_START] = &c->start_epoch,      [GF_SHARE_WARMUP] = &c->warmup_epochs,
        [GF_SHARE_GAMMA] = &c->gamma_decay,      [GF_SHARE_UPDATE] = &c->method.update_epoch,
        [GF_SHARE_MASK] = &c->method.mask_epoch, [GF_SHARE_SHARED] = &c->method.lambda_warmup,
    };
    for (int i = 0; i < GF_SHARES; i++) {
        if (!epochs[i] || c->share[i] <= 0.0) continue;
        *epochs[i] = (int32_t)part_of(c->share[i], c->epochs);
        c->share[i] = 0.0;
    }
}

void gf_config_share_steps(gf_config *c, int64_t steps) {
    double *share = &c->share[GF_SHARE_WARMUP_STEPS];
    if (*share > 0.0) c->warmup_steps = part_of(*share, steps);
    *share = 0.0;
}
