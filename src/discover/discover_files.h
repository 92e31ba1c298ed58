/* discover_files.h - the result of discovery as a folder of files, described in docs/discover.md. */
#pragma once

#include "data/dataset.h"
#include "discover/discover.h"
#include "discover/output_folder.h"
#include "util/strings/text_buffer.h"

#define GF_DISCOVER_MARK "summary.json" /* identifies a folder of results */

typedef struct gf_discover_html { /* the page index.html, see report/explorer/explorer.h */
    const gf_dataset *images;     /* sample i is row i; NULL: names may be image files */
    size_t bytes;                 /* limit for its images, and again for its numbers */
} gf_discover_html;

typedef struct gf_discover_report {
    const char *source, *query; /* files of the embeddings; query NULL: not a query */
    const gf_discover_spec *s;
    const gf_discover_result *r;
    const gf_discover_data *d;    /* others of the pairs */
    const gf_discover_data *q;    /* anchors: d itself, or the new embeddings */
    const float *lambda;          /* query: [d->n] stored thresholds */
    const gf_discover_html *html; /* NULL: no page */
} gf_discover_report;

/* Writes all files or none. E_ARGUMENT "stopped": cancelled by s->watch. Equal results give equal bytes. */
glofnd_status gf_discover_write(gf_error *err, const char *folder, int force, const gf_discover_report *x);
/* summary.txt */
void gf_discover_summary(gf_text *out, const gf_discover_report *x);
glofnd_status gf_discover_write_json(gf_error *err, const char *path, const gf_discover_report *x);
/* index.html; not of a query. */
glofnd_status gf_discover_write_html(gf_error *err, const char *path, const gf_discover_report *x);

/* Thresholds [d->n] of a stored result of the embeddings d. Takes over its alpha and k where both are 0 in *s, and its dup
 * where it is NaN. */
glofnd_status gf_discover_read_stored(gf_error *err, const char *folder, const gf_discover_data *d, gf_discover_spec *s,
                                      float **lambda);
