/* summary.h - the one table of a report: a row per run, figures of its last epoch and its evaluation. */
#ifndef GF_REPORT_SUMMARY_H
#define GF_REPORT_SUMMARY_H

#include "report/page.h"
#include "util/strings/text_buffer.h"

/* Aligned text; a run without a figure has "-", also one that was evaluated, but in another way or on other samples than the
 * figure that is shown (comparable.h). */
void gf_summary_text(gf_text *out, const gf_report *r);
/* The same as an HTML table, with the colours of the page's charts. */
void gf_summary_html(gf_text *out, const gf_report *r);

#endif
