/* optim.h - SGD, LARS and AdamW over the parameters of a network: a list of flat tensors (gf_param, nn/optim_rule.h).
 *
 * gf_optim is an optimizer where the parameters are: on the host by gf_optim_update, on a device by its backend.
 *
 *     TRY(gf_optim_create(err, backend, engine, &rule, params, count, &o));
 *     each step:  TRY(gf_optim_set(err, o, lr, step));  TRY(gf_optim_step(err, o));  TRY(gf_optim_norm(err, o, &norm));
 */
#pragma once

#include "nn/nn_ops.h"

/* The rule for `decay`: at least two axes, and a name (may be NULL) without bn, ln or bias in it. */
int gf_param_decays(int axes, const char *name);
/* The rule for `adapt`: at least two axes. Vectors (biases, scales and shifts of normalisations) take plain steps. */
int gf_param_adapts(int axes);

/* sqrt(sum (x + c*y)^2) in float64, summed in a fixed order; y may be NULL if c is 0. */
double gf_param_norm(const float *x, const float *y, double c, size_t n);
/* One step of `rule` on the host: the formulas of nn/optim_rule.h for every number, without clipping. Pure and single-threaded;
 * the state starts as zeros and belongs to the caller. */
void gf_optim_update(const gf_optim_rule *rule, const gf_optim_scalars *now, const gf_param *tensors, size_t count);

typedef struct gf_optim gf_optim;

/* params are copied; the engine must outlive the optimizer. */
glofnd_status gf_optim_create(gf_error *err, const gf_nn_backend *backend, gf_nn_engine *engine, const gf_optim_rule *rule,
                              const gf_param *params, int count, gf_optim **out);
void gf_optim_free(gf_optim *o);
/* Learning rate and number (1, 2, ...) of the next step. */
glofnd_status gf_optim_set(gf_error *err, gf_optim *o, double lr, int64_t step);
/* Moves the weights, unless the gradient is not finite. */
glofnd_status gf_optim_step(gf_error *err, gf_optim *o);
/* Norm of the whole gradient at the last step, before clipping: not finite where the weights were left unchanged. */
glofnd_status gf_optim_norm(gf_error *err, gf_optim *o, double *norm);

/* ----- rates over a training -----
 *
 * Learning rates, the weight gamma of the moving average, and the bounds of a learned temperature, as functions of the position
 * in training. Pure; epochs and steps count from 0. */

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
