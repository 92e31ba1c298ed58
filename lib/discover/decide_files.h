/* decide_files.h - files of decisions in the folder of a result, described in docs/discover.md. */
#pragma once

#include "discover/discover_files.h"

/* keep.txt, remove.txt, remove.tsv, outliers.tsv, label_issues.tsv, leaks.tsv, split_matrix.tsv, keep_N.txt, sample.txt,
 * negatives.npy, graph.npz: those that x->decide asks for. */
glofnd_status gf_decide_write(gf_error *err, const gf_output_folder *to, const gf_discover_report *x);
/* graph.npz: neighbours and cosine distances as scipy.sparse.save_npz() writes a csr_matrix. */
glofnd_status gf_decide_write_graph(gf_error *err, const gf_output_folder *to, const gf_discover_report *x);
/* The lines of a summary about decisions: keys of summary.json; text of summary.txt. */
struct gf_jsonl;
void gf_decide_put_json(struct gf_jsonl *j, const gf_discover_report *x);
void gf_decide_summary(gf_text *t, const gf_discover_report *x);
