/* eval_chart.h - figures of an evaluation as TensorBoard shows them: RUN/eval/events.out.tfevents.TIME.PID, a file for each
 * evaluation, so that several may run at a time. They are not in the file of training, which a resumed run cuts.
 *
 * Tag: "EVENT/PROTOCOL NAMES/FIGURE", as "linear/paper-centre fraction=0.1/top1"; step: that of the newest checkpoint.
 */
#pragma once

#include "run/eval_schema.h"
#include "util/path.h"
#include "util/status.h"

typedef struct gf_eval_chart { /* a record in the making */
    char run[PATH_MAX];
    char event[32], names[200];
    int untrained, count;
    struct {
        const char *key; /* of the table */
        double value;
    } figure[GF_EVAL_KEYS_MAX];
} gf_eval_chart;

void gf_eval_chart_begin(gf_eval_chart *c, const char *event);
/* A value of the record; those that are neither names nor figures of tables are ignored. */
void gf_eval_chart_number(gf_eval_chart *c, const gf_eval_key *key, double x);
void gf_eval_chart_text(gf_eval_chart *c, const gf_eval_key *key, const char *text);
/* Appends the figures, if there are some. */
glofnd_status gf_eval_chart_end(gf_error *err, gf_eval_chart *c);
