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
struct gf_discover_html; /* what a page shows beside the result: report/explorer/discover_page.h */

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
    const char *mark; /* before the names of settings in the summary, as of flags; NULL: none, they are fields */
    /* Writes index.html; not of a query. */
    glofnd_status (*write_html)(gf_error *err, const char *path, const gf_discover_report *x);
};

/* Writes all files or none. E_CANCELLED: by s->task.watch. Equal results give equal bytes. */
glofnd_status gf_discover_write(gf_error *err, const char *folder, int force, const gf_discover_report *x);
/* summary.txt */
void gf_discover_summary(gf_text *out, const gf_discover_report *x);
glofnd_status gf_discover_write_json(gf_error *err, const char *path, const gf_discover_report *x);

/* ----- row cells ----- */

/* The last columns of tables about two rows: names of both, then labels of both, where the data have them. */

/* One row of a table: a row of d, called `word` in the heading ("anchor": anchor_name, anchor_label). */
typedef struct gf_row_side {
    const gf_discover_data *d;
    const char *word;
} gf_row_side;

void gf_row_columns(gf_table_columns *c, gf_row_side a, gf_row_side b);
/* Cells of rows a and b, -1: none; then the end of the line. */
void gf_row_cells(gf_lines *l, const gf_discover_data *d, int64_t a, const gf_discover_data *e, int64_t b);

/* ----- decide files ----- */

/* Files of decisions in the folder of a result, described in docs/discover.md. */

/* keep.txt, remove.txt, remove.tsv, outliers.tsv, label_issues.tsv, leaks.tsv, split_matrix.tsv, keep_N.txt, sample.txt,
 * negatives.npy, graph.npz: those that x->decide asks for. */
glofnd_status gf_decide_write(gf_error *err, const gf_output_folder *to, const gf_discover_report *x);
/* graph.npz: neighbours and cosine distances as scipy.sparse.save_npz() writes a csr_matrix. */
glofnd_status gf_decide_write_graph(gf_error *err, const gf_output_folder *to, const gf_discover_report *x);
/* The lines of a summary about decisions: keys of summary.json; text of summary.txt. */
struct gf_jsonl;
void gf_decide_put_json(struct gf_jsonl *j, const gf_discover_report *x);
void gf_decide_summary(gf_text *t, const gf_discover_report *x);

/* ----- stored rows ----- */

/* What a result keeps of its rows beside the tables, so that `discover --from` can decide again: rows.npy and
 * names.txt. */

enum { GF_STORED_COPY, GF_STORED_COPIES, GF_STORED_LABEL, GF_STORED_COLUMNS }; /* of rows.npy, int32 */
enum { GF_STORED_NOT_FINITE = -1, GF_STORED_ZERO = -2 };                       /* GF_STORED_COPY of a bad row */

/* rows.npy: the first row of the same bytes, the number of duplicates, the label (-1: unknown) of each row. names.txt: a name per
 * line, if there are names; escaped (escape.h) if one of them is not a line. */
glofnd_status gf_stored_rows_write(gf_error *err, const gf_output_folder *to, const gf_discover_report *x);
/* 1: names.txt is escaped. */
int gf_stored_names_escaped(const gf_discover_data *d);
/* The names of the classes of d, one per line, if its labels have names. */
glofnd_status gf_stored_classes_write(gf_error *err, const gf_output_folder *to, const gf_discover_report *x,
                                      const gf_discover_data *d, const char *name);
