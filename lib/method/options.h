/* options.h - glofnd_options inside the library: their table, their check, what follows from them. */
#pragma once

#include "method/formulas/settings.h"
#include "util/status.h"

/* Sides with a threshold and a moving average of their own: 1 for two views of one image, 2 for image and text. Also the number
 * of modalities the store must have. */
int gf_loss_sides(glofnd_loss loss);

/* 1: thresholds are compared with similarities of averages, so flags are bits that are made before the passes. */
int gf_options_mark(const glofnd_options *o);

/* The table of glofnd_options, for programs whose configuration contains them. */
const struct gf_option_table *gf_method_options(void);

/* Every option at its default. */
void gf_method_options_init(glofnd_options *o);
/* Ranges of all fields and combinations of options. */
glofnd_status gf_method_options_check(gf_error *err, const glofnd_options *o);
