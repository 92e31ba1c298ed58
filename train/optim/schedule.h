/* schedule.h - learning rates, the weight gamma of the moving average, and the bounds of a learned temperature, as functions of
 * the position in training. Pure; epochs and steps count from 0. */
#pragma once

#include <stdint.h>

/* Base rates by global batch size. */
double gf_lr_scaled_sqrt(double rate, int64_t batch);   /* rate sqrt(batch): 0.075 is the recipe for two views of an image */
double gf_lr_scaled_linear(double rate, int64_t batch); /* rate batch / 256 */

/* Two views: linear from exactly 0 in the first `warmup` epochs, then half a cosine down to 0 at `epochs`.
 * `epoch` is fractional: epoch + iteration / iterations, in [0, epochs]. */
double gf_lr_cosine_epochs(double lr, double epoch, double warmup, double epochs);
/* Image-text: linear from lr/warmup in the first `warmup` steps, then half a cosine down to `lr_min` at `total` steps. */
double gf_lr_cosine_steps(double lr, double lr_min, int64_t step, int64_t warmup, int64_t total);
/* Temperature: lr, or lr * ratio while the current tau = exp(-log_scale) is at or below `threshold`. Not latched. */
double gf_lr_tau_threshold(double lr, double ratio, double threshold, double log_scale);

/* gamma: 1 in epoch 0, gamma_min from epoch `decay` on, half a cosine between. */
double gf_gamma_cosine(double gamma_min, int64_t epoch, double decay);

/* log(1/tau) kept in [0, ln scale_max], applied after each of its optimizer steps. */
double gf_clamp_log_scale(double log_scale, double scale_max);
