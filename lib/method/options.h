/* options.h - glofnd_options inside the library: their table, their check, what follows from them. */
#pragma once

#include "method/formulas/settings.h"
#include "util/status.h"

/* The table of glofnd_options, for programs whose configuration contains them. */
const struct gf_option_table *gf_method_options(void);

/* Every option at its default. */
void gf_method_options_init(glofnd_options *o);
/* Ranges of all fields and combinations of options. */
glofnd_status gf_method_options_check(gf_error *err, const glofnd_options *o);
/* One option from text. Old names of values are understood, and removed options where they had no effect: configuration files of
 * 0.1 and 0.2 can be read. */
glofnd_status gf_method_options_set(gf_error *err, glofnd_options *o, const char *key, const char *value);
/* 1: 0.x had an option of this name. */
int gf_method_option_removed(const char *key);
