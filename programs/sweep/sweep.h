/* sweep.h - the plan of a sweep: a grid of values and seeds. `glofnd sweep` reads it from flags and files, `glofnd reproduce` makes
 * that of a table of the paper. */
#pragma once

#include <limits.h>

#include "report/compare.h"
#include "run/config.h"

enum { SWEEP_CONFIG_MAX = 8, SWEEP_VARY_MAX = 8, SWEEP_SET_MAX = 64, SWEEP_EVAL_MAX = 8, SWEEP_VALUES_MAX = 256 };
#define SWEEP_COMMAND_MAX (1 << 15) /* bytes of the arguments of a run or evaluation */

typedef struct sweep_axis {
    const char *key;
    const char *value[SWEEP_VALUES_MAX];
    int count;
    int source; /* of the plan, when it was given */
} sweep_axis;

typedef struct sweep_plan {
    const char *verb;         /* whose messages these are: sweep, reproduce */
    const char *out, *choose; /* folder; text in the name of the figure that chooses, or NULL */
    const char *config[SWEEP_CONFIG_MAX];
    sweep_axis vary[SWEEP_VARY_MAX], seeds;
    const char *set[SWEEP_SET_MAX];   /* "key=value", or "preset:key=value" for the runs of one configuration */
    const char *eval[SWEEP_EVAL_MAX]; /* "linear --fractions 100,10": arguments of `glofnd eval` */
    int config_count, vary_count, set_count, eval_count;
    int source;        /* counts the files that settings come from, then the command line: a later one wins */
    int config_source; /* of config[] */
    int64_t jobs;
    char *text; /* memory of the texts above */
    size_t text_used;
} sweep_plan;

typedef struct sweep_run {
    char name[200], path[1024];
    const char *value[SWEEP_VARY_MAX]; /* of plan->vary */
    const char *seed;
    gf_config config, resolved; /* as given; with open values filled */
    uint32_t config_crc;        /* runs made under a different configuration are refused */
    int finished;               /* by sweep.jsonl, and its weights exist */
    unsigned evaluated;         /* bits of plan->eval */
    int waited;                 /* 1: the message that its folder is in use was printed */
} sweep_run;

/* One setting by name, as on the command line or in a sweep file: config, vary, seeds, set, data, eval, jobs, choose, out.
 * `folder`: of a relative config, or NULL. Texts are copied. */
glofnd_status sweep_set(gf_error *err, sweep_plan *p, const char *key, const char *value, const char *folder);
void sweep_free(sweep_plan *p);

/* Ends a sweep of which all that can be is finished. */
typedef glofnd_status (*sweep_end)(gf_error *err, const sweep_plan *p, const sweep_run *runs, int count, void *user);
/* Pretrains and evaluates what is missing, then `end`, or compares if that is NULL; dry: only lists the runs. Returns an exit
 * code. */
int sweep_run_plan(const sweep_plan *p, int dry, sweep_end end, void *user);
