/* sweep.h - the plan of a sweep: which runs a grid of values and seeds makes, and what is known of them already. */
#ifndef GF_CLI_SWEEP_SWEEP_H
#define GF_CLI_SWEEP_SWEEP_H

#include "report/compare/compare.h"

enum { SWEEP_VARY = 8, SWEEP_SET = 64, SWEEP_EVAL = 8, SWEEP_VALUES = 256 };

typedef struct sweep_axis {
    const char *key;
    const char *value[SWEEP_VALUES];
    int count;
} sweep_axis;

typedef struct sweep_plan {
    const char *out, *config, *choose; /* folder; .cfg or NULL; text in the name of the figure that chooses, or NULL */
    sweep_axis vary[SWEEP_VARY], seeds;
    const char *set[SWEEP_SET];   /* "key=value" */
    const char *eval[SWEEP_EVAL]; /* "linear --fractions 100,10": words of a call of `glofnd eval` */
    int vary_count, set_count, eval_count;
    int64_t jobs;
    char *text; /* memory behind the pointers above, where it is the plan's */
    size_t text_used, text_room;
} sweep_plan;

typedef struct sweep_run {
    char name[200], path[1024];
    const char *value[SWEEP_VARY]; /* of plan->vary */
    const char *seed;
    gf_config config;   /* as asked for, not resolved */
    uint32_t print;     /* of that configuration: runs made under another one are not mixed in */
    int finished;       /* by sweep.jsonl, and its weights are there */
    unsigned evaluated; /* bits of plan->eval */
} sweep_run;

/* One setting by name, as on the command line or in a sweep file: config, vary, seeds, set, data, eval, jobs, choose, out.
 * `folder` is what a relative config lies in, or NULL. Texts are copied. */
glofnd_status sweep_take(gf_error *err, sweep_plan *p, const char *key, const char *value, const char *folder);
/* A sweep file: lines `key = value` with these names, # comments. */
glofnd_status sweep_read(gf_error *err, sweep_plan *p, const char *path);
void sweep_free(sweep_plan *p);

/* All runs of the grid, checked: the first axis varies slowest, seeds fastest. *runs is to be freed. */
glofnd_status sweep_make(gf_error *err, const sweep_plan *p, sweep_run **runs, int *count);
/* What OUT/sweep.jsonl says about them. E_ARGUMENT: a run of this name was made under another configuration. */
glofnd_status sweep_recall(gf_error *err, const sweep_plan *p, sweep_run *runs, int count);
/* Adds a line: event "start", "finished" or "evaluated" (with the words of the evaluation). */
glofnd_status sweep_note(gf_error *err, const sweep_plan *p, const sweep_run *r, const char *event, const char *words);

#endif
