/* comparing.h - comparing runs, for `glofnd compare` and `report`, and at the end of `glofnd sweep`. */
#pragma once

#include "programs/cli.h"
#include "report/compare.h"

/* Keeps every run once, however often and by whatever path it is named, and no file: FOLDER/ * names logs and tables, too. The
 * others are named on stderr. Returns how many are left. */
int compare_choose_runs(const char *verb, char **run, int n);
#define COMPARE_NO_RUN "none of these is the folder of a run"
/* Writes the comparison as "text", "csv", "json" or "latex" to a file, or to stdout if path is NULL. */
glofnd_status compare_write(gf_error *err, const gf_comparison *c, const char *format, const char *path);
/* The names of all its figures, "a, b, c", cut with "..." where they are too many. */
void compare_names(const gf_comparison *c, char *out, size_t bytes);
/* Warns on stderr of missing figures, lonely seeds and unreadable lines; `verb` begins the line. */
void compare_warn(const char *verb, const gf_comparison *c);
