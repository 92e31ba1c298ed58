/* forecast.c - see forecast.h. */
#include "run/forecast.h"

#include <stdio.h>

#include "util/array.h"

static double expected_lambda(const gf_config *c) {
    return c->task == GF_TASK_CLIP ? GF_EXPECTED_LAMBDA_CLIP : GF_EXPECTED_LAMBDA_VIEWS;
}

static int learns(const glofnd_options *o) { return gf_learns_thresholds(o); }

/* A shared lambda moves in every step, that of an anchor once in an epoch. */
static double fall_in(const glofnd_options *o, int32_t epoch, int64_t steps) {
    const int shared = o->detector == GLOFND_DETECT_SINGLE || epoch < o->update_epoch + o->lambda_warmup;
    /* A visit with nothing above lambda: Adam's step is lambda_lr whatever the gradient, SGD's lambda_lr times alpha. */
    return (o->learner == GLOFND_LEARN_SGD ? o->lambda_lr * o->alpha : o->lambda_lr) * (shared ? (double)steps : 1.0);
}

gf_flag_forecast gf_flag_forecast_of(const gf_config *c, int64_t steps) {
    const glofnd_options *o = &c->method;
    gf_flag_forecast x = {.reached = 1.0, .from = o->mask_epoch};
    if (learns(o) && o->learner != GLOFND_LEARN_RING && !gf_starts_at_quantile(o)) {
        const double aim = expected_lambda(c);
        int32_t ready = c->epochs;
        x.fall = fall_in(o, c->epochs, steps);
        for (int32_t e = o->update_epoch; e < c->epochs && x.reached > -1.0; e++) {
            /* The share of a full step that is left, by lambda_decay. */
            const double visits = (double)(e - o->update_epoch) + 1.0;
            const double left = o->lambda_decay > 0.0 ? GF_MIN(1.0, o->lambda_decay / visits) : 1.0;
            x.reached = GF_MAX(-1.0, x.reached - fall_in(o, e, steps) * left);
            if (ready == c->epochs && x.reached <= aim + 1e-9) ready = e;
        }
        x.from = GF_MAX(x.from, ready);
    }
    x.never = x.from >= c->epochs;
    return x;
}

void gf_flag_forecast_text(const gf_config *c, int64_t steps, char *line, size_t bytes, char *warning, size_t warning_bytes) {
    const glofnd_options *o = &c->method;
    const gf_flag_forecast x = gf_flag_forecast_of(c, steps);
    /* Negatives of a row that differ: both views of a sample have one average. */
    const double views = c->task == GF_TASK_CLIP ? 1.0 : 2.0, of_one = o->similarity == GLOFND_SIMILARITY_BANK ? 1.0 : views;
    const double rows = views * (double)c->batch, negatives = of_one * (double)(c->batch - 1);
    const double pairs = rows * negatives * (double)steps * (double)(c->epochs - GF_MIN(o->update_epoch, c->epochs));
    *line = *warning = 0;
    if (o->detector == GLOFND_DETECT_NONE || (o->alpha <= 0.0 && (learns(o) || o->detector == GLOFND_DETECT_FNC))) return;
    if (o->mask_epoch >= c->epochs)
        snprintf(warning, warning_bytes,
                 "warning: the detector never starts: start_epoch (mask_epoch) is %d, and there %s %d epoch%s; use a share, "
                 "start_epoch = 35%%",
                 (int)o->mask_epoch, c->epochs == 1 ? "is" : "are", (int)c->epochs, c->epochs == 1 ? "" : "s");
    else if (learns(o) && o->alpha * pairs < 1.0)
        snprintf(warning, warning_bytes,
                 "warning: alpha is %g, and this run sees %.0f pairs, fewer than 1/alpha: no threshold can flag that fraction; "
                 "use a larger alpha, larger batches or more epochs",
                 o->alpha, pairs);
    else if (x.never) {
        const int32_t start = o->update_epoch, has = c->epochs - start;
        snprintf(
            warning, warning_bytes,
            "warning: this run will flag next to nothing: lambda starts at 1 in epoch %d and falls by at most %.3g an epoch, so "
            "after the %d epoch%s it has it is %.2f at best, where about %.1f is expected; use lambda_init = quantile, an "
            "earlier start_epoch, or a larger lambda_lr",
            (int)start + 1, x.fall, (int)has, has == 1 ? "" : "s", x.reached, expected_lambda(c));
    } else snprintf(line, bytes, "flags: expected from epoch %d of %d on", (int)x.from + 1, (int)c->epochs);
}

/* ----- options without effect -----
 *
 * A value other than the default counts as set. */

const char *gf_idle_option(const gf_config *c, int k) {
    const glofnd_options *o = &c->method;
    const int bank = o->similarity == GLOFND_SIMILARITY_BANK, flags = o->detector != GLOFND_DETECT_NONE;
    const int thresholds = learns(o) || o->detector == GLOFND_DETECT_FNC;
    const struct {
        int idle;
        const char *text;
    } options[] = {
        {bank && !thresholds, "similarity = bank has no effect: the detector has no thresholds"},
        {!bank && o->bank_momentum != 0.5, "bank_momentum has no effect without similarity = bank"},
        {o->attract_omega > 0.0 && o->action != GLOFND_ACTION_ATTRACT, "attract_omega has no effect without action = attract"},
        {!flags && o->action != GLOFND_ACTION_DROP, "action has no effect: there is no detector"},
        {o->neighbours == 0 && (o->neighbour_weight != 0.5 || o->neighbour_share != 1.0 || o->neighbour_rows != 65536),
         "neighbour_weight, neighbour_share and neighbour_rows have no effect without neighbours"},
        {o->lambda_decay > 0.0 && o->learner == GLOFND_LEARN_RING, "lambda_decay has no effect with learner = ring"},
        {o->margin != 0.1 && !gf_flags_by_positive(o), "margin has no effect without detector = positive or positive-relative"},
        {o->tau > 1.0,
         "tau is above 1: temperatures of contrastive losses lie between 0.01 and 1; that of a logit scale is 1/scale"},
        {o->fnc_support > 0 && o->detector != GLOFND_DETECT_FNC, "fnc_support has no effect without detector = fnc"},
    };
    for (size_t i = 0; i < sizeof options / sizeof *options; i++)
        if (options[i].idle && k-- == 0) return options[i].text;
    return NULL;
}
