/* page.h - a report on one or more runs: one self-contained HTML page. Nothing is loaded from elsewhere; plots are static SVG,
 * and a few lines of script show values under the pointer and switch between light and dark. */
#ifndef GF_REPORT_PAGE_H
#define GF_REPORT_PAGE_H

#include "report/compare/compare.h"
#include "report/snapshot.h"
#include "run/run_log.h"

#define GF_PAGE_RUNS 64                  /* most runs of a page */
#define GF_PAGE_IMAGES ((size_t)1 << 20) /* bytes of pictures in it, at most; further ones are left out and counted */

typedef struct gf_report {
    const gf_run_log *runs; /* [count], 1 .. GF_PAGE_RUNS */
    int count;
    const gf_comparison *compare; /* of the same runs in the same order; NULL: `compare_why` says why not */
    const char *compare_why;
    const gf_snapshot *snapshots; /* [count], may be not made; NULL: none */
} gf_report;

/* Running out of memory shows in out->failed. */
void gf_page(gf_text *out, const gf_report *r);

#endif
