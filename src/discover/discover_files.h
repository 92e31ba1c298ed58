/* discover_files.h - the result of discovery as a folder of files, described in docs/discover.md. */
#ifndef GF_DISCOVER_DISCOVER_FILES_H
#define GF_DISCOVER_DISCOVER_FILES_H

#include "data/dataset.h"
#include "discover/discover.h"
#include "discover/discover_folder.h"
#include "util/strings/text_buffer.h"

#define GF_DISCOVER_MARK "summary.json" /* every folder of results has it */

typedef struct gf_discover_html { /* the page index.html, see report/explorer/explorer.h */
    const gf_dataset *images;     /* sample i is row i; NULL: names may be image files */
    size_t bytes;                 /* its images take at most so much, and its numbers as much again */
} gf_discover_html;

typedef struct gf_discover_report {
    const char *source, *query; /* files the embeddings are from; query NULL: a run of its own */
    const gf_discover_spec *s;
    const gf_discover_result *r;
    const gf_discover_data *d;    /* the others of all pairs */
    const gf_discover_data *q;    /* the anchors: d itself, or the new embeddings */
    const float *lambda;          /* query: [d->n] stored thresholds */
    const gf_discover_html *html; /* NULL: no page */
} gf_discover_report;

/* All files, or none: E_ARGUMENT "stopped" when s->watch says so. Equal results give equal bytes. */
glofnd_status gf_discover_write(gf_error *err, const char *folder, int force, const gf_discover_report *x);
/* summary.txt */
void gf_discover_summary(gf_text *out, const gf_discover_report *x);
glofnd_status gf_discover_write_json(gf_error *err, const char *path, const gf_discover_report *x);
/* index.html; not of a query. */
glofnd_status gf_discover_write_html(gf_error *err, const char *path, const gf_discover_report *x);

/* Thresholds [d->n] of a stored result, which must be of the embeddings d. Sets in *s what that run had: alpha and k where both
 * are 0, dup where it is NaN. */
glofnd_status gf_discover_stored(gf_error *err, const char *folder, const gf_discover_data *d, gf_discover_spec *s,
                                 float **lambda);

#endif
