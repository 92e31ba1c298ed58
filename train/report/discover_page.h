/* discover_page.h - the result of discovery as a page; see report/explorer/explorer.h. */
#pragma once

#include "data/dataset.h"
#include "discover/decide.h"
#include "discover/discover_files.h"

#define GF_PAGE_BELOW 8 /* neighbours just below the threshold that it shows */

typedef struct gf_row_images { /* sample i is row first + i */
    const gf_dataset *data;
    int64_t first;
} gf_row_images;

typedef struct gf_discover_html { /* the page index.html */
    gf_row_images images[GF_SPLITS_MAX];
    int image_sets; /* 0: names may be image files */
    size_t bytes;   /* limit for its images, and again for its numbers */
} gf_discover_html;

/* index.html; not of a query. */
glofnd_status gf_discover_write_html(gf_error *err, const char *path, const gf_discover_report *x);
