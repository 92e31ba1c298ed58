/* schedule.c - see schedule.h. */
#include "optim/schedule.h"

#include <math.h>

static const double pi = 3.14159265358979323846;

/* From 1 at done = 0 to 0 at done = span. An empty span is over at once. */
static double half_cosine(double done, double span) { return span > 0.0 ? 0.5 * (1.0 + cos(pi * done / span)) : 0.0; }

double gf_lr_scaled_sqrt(double rate, int64_t batch) { return rate * sqrt((double)batch); }

double gf_lr_scaled_linear(double rate, int64_t batch) { return rate * (double)batch / 256.0; }

double gf_lr_cosine_epochs(double lr, double epoch, double warmup, double epochs) {
    if (epoch < warmup) return lr * epoch / warmup;
    return lr * half_cosine(epoch - warmup, epochs - warmup);
}

double gf_lr_cosine_steps(double lr, double lr_min, int64_t step, int64_t warmup, int64_t total) {
    if (step < warmup) return lr * (double)(step + 1) / (double)warmup;
    return lr_min + (lr - lr_min) * half_cosine((double)(step - warmup), (double)(total - warmup));
}

double gf_lr_tau_threshold(double lr, double ratio, double threshold, double log_scale) {
    return exp(-log_scale) <= threshold ? lr * ratio : lr;
}

double gf_gamma_cosine(double gamma_min, int64_t epoch, double decay) {
    if (epoch <= 0) return 1.0;
    if ((double)epoch >= decay) return gamma_min;
    return gamma_min + (1.0 - gamma_min) * half_cosine((double)epoch, decay);
}

/* Comparisons, not fmin/fmax: those would turn a NaN, that is a diverged run, into a bound. */
double gf_clamp_log_scale(double log_scale, double scale_max) {
    const double top = log(scale_max);
    return log_scale < 0.0 ? 0.0 : log_scale > top ? top : log_scale;
}
