/* settings.h - hyper.tsv of a step case, translated into the options of the library.
 *
 *     loss      dcl -> sogclr   cl -> simclr   bimodal_clip -> clip   multiply_tau 0 -> sogclr2 (v1), 1 -> fastclip (v3)
 *     detector  none, - -> none   glofnd -> glofnd   uglofnd -> single   fnd -> fnc (quantile rule)   oracle -> oracle
 *     start_update -> update_epoch   lda_start -> mask_epoch   u_warmup -> lambda_warmup   init_quantile -> lambda_init
 * always with compat = official. */
#pragma once

#include "golden.h"
#include "method/options.h"

typedef struct settings {
    glofnd_options o;
    int modalities; /* 1: two views; 2: image and text */
    int64_t n, batch, dim, steps, world;
    int learned; /* lambda is learned: per anchor, or one for all (single) */
    int single;
    int resume;          /* start from the tables lda0, m0, v0, u0 */
    double lambda_start; /* of every anchor, without resume */
    int gamma_is_cosine; /* image-text: gamma by epoch; else always gamma_min */
    double gamma_min, gamma_decay;
} settings;

extern glofnd_device replay_device; /* where all cases run, in exact arithmetic */

int settings_read(settings *s, const golden_case *c, message *m);

/* gamma of an epoch, image-text. */
double settings_gamma(const settings *s, int64_t epoch);
