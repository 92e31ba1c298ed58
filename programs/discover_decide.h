/* discover_decide.h - flags of `glofnd discover` about decisions: --keep, --split, and what else they need. */
#pragma once

#include "programs/cli.h"
#include "report/discover_page.h"

typedef struct cli_decide { /* as given */
    const char *keep;       /* NULL: first */
    const char *split[GF_SPLITS_MAX];
    int ranges;    /* 1: the splits are ranges of rows, A:B */
    double *score; /* owned */
    gf_decide_spec spec;
} cli_decide;

/* Reads --keep and --split: CLI_OK, or CLI_USAGE with a message. rows: 1: SPECs of splits are ranges of rows, 0: they are sources
 * whose rows are not known yet. */
int cli_decide_read(const cli_call *call, const char *keep, const gf_option_strings *split, int rows, cli_decide *out);
/* Splits that are sources have now these rows: source k has rows[k]. */
void cli_decide_place(cli_decide *c, const int64_t *rows);
/* Checks splits against n rows, and reads or measures the scores that --keep needs. Before that: r. */
glofnd_status cli_decide_check(gf_error *err, const cli_decide *c, int64_t n);
glofnd_status cli_decide_scores(gf_error *err, cli_decide *c, const gf_discover_data *d, const gf_discover_result *r,
                                const gf_discover_html *images);
