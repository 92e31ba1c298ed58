/* page.h - a report on one or more runs: one self-contained HTML page, without scripts, without anything from elsewhere. */
#ifndef GF_REPORT_PAGE_H
#define GF_REPORT_PAGE_H

#include "report/run_log.h"
#include "report/text.h"

#define GF_PAGE_RUNS 32         /* most runs of a page */

/* runs [count], 1 .. GF_PAGE_RUNS. Running out of memory shows in out->failed. */
void gf_page(gf_text *out, const gf_run_log *runs, int count);

#endif
