/* page.h - a report on one or more runs: one self-contained HTML page. Plots are static SVG; page.js shows values under the
 * pointer and switches between light and dark. */
#pragma once

#include "report/compare.h"
#include "report/snapshot.h"
#include "run/run_log.h"

#define GF_PAGE_RUNS 64                  /* runs of a page, at most */
#define GF_PAGE_IMAGES ((size_t)1 << 20) /* bytes of images of a section, at most; further ones are left out and counted */

typedef struct gf_report {
    const gf_run_log *runs; /* [count], 1 .. GF_PAGE_RUNS */
    int count;
    const gf_comparison *compare; /* of the same runs in the same order; NULL: see compare_why */
    const char *compare_why;
    const gf_snapshot *snapshots; /* [count], may be not made; NULL: none */
} gf_report;

/* out->failed: out of memory. */
void gf_page(gf_text *out, const gf_report *r);
