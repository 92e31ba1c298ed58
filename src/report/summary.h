/* summary.h - the one table of a report: a row per run, figures of its last epoch and its evaluation. */
#ifndef GF_REPORT_SUMMARY_H
#define GF_REPORT_SUMMARY_H

#include "report/run_log.h"
#include "report/text.h"

/* Aligned text; a run without a figure has "-". */
void gf_summary_text(gf_text *out, const gf_run_log *runs, int count);
/* The same as an HTML table. */
void gf_summary_html(gf_text *out, const gf_run_log *runs, int count);

#endif
