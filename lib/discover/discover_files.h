/* discover_files.h - the result of discovery as a folder of files, described in docs/discover.md. */
#pragma once

#include "discover/discover.h"
#include "discover/output_files.h"
#include "util/text.h"

#define GF_DISCOVER_MARK "summary.json" /* identifies a folder of results, by what is in it */
extern const gf_output_kind gf_discover_kind;

typedef struct gf_discover_report gf_discover_report;
struct gf_decide_spec; /* discover/decide/decide.h */
struct gf_decisions;
struct gf_discover_html; /* what a page shows beside the result: report/explorer.h */

struct gf_discover_report {
    const char *source, *query; /* files of the embeddings; query NULL: not a query */
    const gf_discover_spec *s;
    const gf_discover_result *r;
    const gf_discover_data *d; /* others of the pairs */
    const gf_discover_data *q; /* anchors: d itself, or the new embeddings */
    const float *lambda;       /* query: [d->n] stored thresholds */
    gf_table_format format;    /* of tables: .tsv (and pairs.jsonl) or .parquet */
    const struct gf_decide_spec *decide;
    const struct gf_decisions *decisions; /* NULL: none, as of a query */
    const struct gf_discover_html *html;  /* NULL: no page */
    /* Writes index.html; not of a query. */
    glofnd_status (*write_html)(gf_error *err, const char *path, const gf_discover_report *x);
};

/* Writes all files or none. E_CANCELLED: by s->task.watch. Equal results give equal bytes. */
glofnd_status gf_discover_write(gf_error *err, const char *folder, int force, const gf_discover_report *x);
/* summary.txt: settings as keep=first, the same words by the program and by the library. */
void gf_discover_summary(gf_text *out, const gf_discover_report *x);
glofnd_status gf_discover_write_json(gf_error *err, const char *path, const gf_discover_report *x);

/* ----- what a result keeps of its rows beside the tables, so that it can be decided again: rows.npy and names.txt ----- */

enum { GF_STORED_COPY, GF_STORED_COPIES, GF_STORED_LABEL, GF_STORED_COLUMNS }; /* of rows.npy, int32 */
enum { GF_STORED_NOT_FINITE = -1, GF_STORED_ZERO = -2 };                       /* GF_STORED_COPY of a bad row */

/* 1: names.txt is escaped. */
int gf_stored_names_escaped(const gf_discover_data *d);
