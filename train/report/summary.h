/* summary.h - the main table of a report: a row per run, with numbers of its last epoch and its evaluation. */
#pragma once

#include "report/page.h"
#include "run/run_log.h"
#include "util/text.h"

/* Aligned text; "-": not measured, or measured by a different protocol or on different samples (comparable.h). */
void gf_summary_text(gf_text *out, const gf_report *r);
/* The table as HTML, with the colours of the page's charts. */
void gf_summary_html(gf_text *out, const gf_report *r);

/* ----- curves of a run for a terminal: one frame of text ----- */

typedef struct gf_watch_size {
    int columns, rows; /* characters; at least 40 x 12 */
    int colour;        /* escape sequences for colours */
    int idle;          /* no process trains the run: no remaining time */
} gf_watch_size;

/* A status line, then loss, flagged share, precision and kNN of eval_every, as many as fit and have values. Every line ends
 * with a newline and has at most `columns` characters. */
void gf_watch_frame(gf_text *out, const gf_run_log *r, const gf_watch_size *size);
/* Seconds to the end of the run at the speed of the last logged steps; NaN: unknown. */
double gf_watch_remaining(const gf_run_log *r);
