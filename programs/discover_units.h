/* discover_units.h - `glofnd discover` of embeddings that do not fit into memory, with parts on disk from which it continues, and
 * over several ranks; see discover/units/unit_run.h. */
#pragma once

#include <limits.h>

#include "discover/units.h"
#include "dist/comm.h"

typedef struct cli_units {
    int resume;     /* --resume */
    double silence; /* --rank-timeout: seconds */
    gf_comm *comm;  /* NULL: not opened */
    int on;         /* this search is done in units */
    char folder[PATH_MAX];
    gf_units u;
} cli_units;

struct cli_discover_job;

/* Joins the other ranks, if a launcher has started some. From then on a rank that never comes or falls silent is named, and all
 * end. */
glofnd_status cli_units_open(gf_error *err, struct cli_discover_job *j);
void cli_units_close(cli_units *x);
int cli_units_rank(const cli_units *x);
/* All ranks wait for each other; the first failure is that of all. */
glofnd_status cli_units_agree(gf_error *err, const cli_units *x, glofnd_status mine);
/* j->set is open: decides whether its rows are streamed. E_OPTION: they must be, and something else does not allow it. */
glofnd_status cli_units_choose(gf_error *err, struct cli_discover_job *j);
/* Also without embeddings of files, which units need. */
glofnd_status cli_units_refuse(gf_error *err, const struct cli_discover_job *j, const char *why);
/* --resume, and the result is already there: a call that was killed at its very end may have left parts. */
void cli_units_clean(struct cli_discover_job *j);
glofnd_status cli_units_search(gf_error *err, struct cli_discover_job *j);
