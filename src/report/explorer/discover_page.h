/* discover_page.h - the result of discovery as a page; see report/explorer/explorer.h. */
#pragma once

#include "data/dataset.h"
#include "discover/discover_files.h"

typedef struct gf_discover_html { /* the page index.html */
    const gf_dataset *images;     /* sample i is row i; NULL: names may be image files */
    size_t bytes;                 /* limit for its images, and again for its numbers */
} gf_discover_html;

/* index.html; not of a query. */
glofnd_status gf_discover_write_html(gf_error *err, const char *path, const gf_discover_report *x);
