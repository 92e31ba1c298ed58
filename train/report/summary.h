/* summary.h - the main table of a report: a row per run, with numbers of its last epoch and its evaluation. */
#pragma once

#include "report/page.h"
#include "util/text.h"

/* Aligned text; "-": not measured, or measured by a different protocol or on different samples (comparable.h). */
void gf_summary_text(gf_text *out, const gf_report *r);
/* The table as HTML, with the colours of the page's charts. */
void gf_summary_html(gf_text *out, const gf_report *r);
