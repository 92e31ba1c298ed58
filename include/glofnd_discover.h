/* glofnd_discover.h - false negatives and duplicates among finished embeddings: `glofnd discover` as a library.
 *
 *     glofnd_discover_spec spec = {.size = sizeof spec, .n = n, .dim = dim, .x = embeddings, .alpha = 0.01};
 *     glofnd_discovery *found;
 *     if (glofnd_discover(&spec, &found, why, sizeof why) != GLOFND_OK) ...
 *     glofnd_discovery_arrays arrays = {.size = sizeof arrays};
 *     glofnd_discovery_view(found, &arrays);            // thresholds, neighbours, pairs, duplicates, components
 *     glofnd_discovery_free(found);
 *
 * The contract of glofnd.h holds here, too: status, ownership, growth of structs.
 */
#ifndef GLOFND_DISCOVER_H
#define GLOFND_DISCOVER_H

#include "glofnd.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ----- Embeddings in files ----- */

/* Embedding files as one matrix, the rows of all files in order, as `glofnd discover` reads them. */
typedef struct glofnd_embedding_files {
    size_t size; /* sizeof(glofnd_embedding_files) */
    const char *const
        *path; /* [paths] .npy, .safetensors, Parquet, .csv and .tsv files; folders of them; patterns: {000..099}, * ? [ */
    int64_t paths;
    const char *tensor; /* of .safetensors files; NULL: the only one with two axes */
    const char *column; /* of embeddings, in Parquet files and tables; NULL: the only one that fits */
    const char *id;     /* column of names there; NULL: none, of a table its only column of text, or of an id */
    const char *label;  /* column of labels there; NULL: none */
} glofnd_embedding_files;

typedef struct glofnd_embeddings glofnd_embeddings; /* open files */

typedef struct glofnd_embeddings_info {
    size_t size; /* set by the caller: sizeof(glofnd_embeddings_info) */
    int64_t n, dim, files;
    const char *columns;      /* which were chosen, in words; NULL: no file has columns */
    const char *const *name;  /* [n] of the rows; NULL: none. Texts belong to the open files and live as long */
    const char *const *label; /* [n] labels as texts, "": none; NULL: not asked for */
} glofnd_embeddings_info;

/* Opens the files: shapes are known, names and labels are read. *out is NULL on failure, and `why` (may be NULL) gets the reason. */
GLOFND_API glofnd_status glofnd_embeddings_open(const glofnd_embedding_files *files, glofnd_embeddings **out, char *why,
                                                size_t why_bytes);
GLOFND_API void glofnd_embeddings_close(glofnd_embeddings *e); /* NULL is fine */
GLOFND_API glofnd_status glofnd_embeddings_describe(const glofnd_embeddings *e, glofnd_embeddings_info *out);
/* x [rows][dim]: rows [first, first + rows). By one thread at a time. */
GLOFND_API glofnd_status glofnd_embeddings_read(glofnd_embeddings *e, int64_t first, int64_t rows, float *x, char *why,
                                                size_t why_bytes);

/* ----- Discovery: false negatives and duplicates among finished embeddings ----- */

/* Which rows are duplicates of one another.
 *   DEFAULT  rows with a similarity of at least 0.98, or more if the embeddings are so dense that natural neighbours have it
 *   ABOVE    rows with a similarity of at least `dup`
 *   EXACT    rows of equal bytes only */
typedef int32_t glofnd_duplicates;
enum { GLOFND_DUPLICATES_DEFAULT = 0, GLOFND_DUPLICATES_ABOVE = 1, GLOFND_DUPLICATES_EXACT = 2 };

/* What to search. With m = usable rows - 1 others, the threshold of an anchor is the rank-th largest of its similarities: rank is
 * ceil(alpha m), or k + 1. Pairs with a larger similarity are above it. Rows that are not finite, or all zero, are left out. */
typedef struct glofnd_discover_spec {
    size_t size; /* sizeof(glofnd_discover_spec) */
    int64_t n, dim;
    const void *x;        /* [n] rows of dim numbers, `stride` apart; host memory. Their length does not matter */
    const int32_t *label; /* [n] or NULL; negative: unknown. Precision and recall of the pairs above */
    int64_t stride;       /* numbers from row to row; 0: dim */
    glofnd_dtype dtype;
    glofnd_device device;
    double alpha;      /* in (0, 1); 0: by k */
    int64_t k;         /* > 0: the k most similar others are above the threshold */
    int64_t top;       /* most similar others to list per anchor; 0: 20; negative: none */
    int64_t max_pairs; /* pairs to list in all, the most similar ones; 0: 10^7 */
    double dup;        /* DUPLICATES_ABOVE: the smallest similarity of duplicates, in [-1, 1]; else 0 */
    size_t memory;     /* bytes of lists of candidates; 0: half of the machine's memory. Less takes a second pass */
    int32_t threads;   /* 0: all */
    glofnd_duplicates duplicates;
    /* NULL, or called in this thread with the finished fraction of the work. Return 0 to continue, anything else to stop: the
     * call then returns GLOFND_E_CANCELLED. */
    int (*progress)(void *user, double share);
    void *user;
    glofnd_embeddings *files; /* NULL, or: the rows are these. n, dim, x, stride and dtype are 0 then */
    int64_t negatives;        /* hard negatives to list per row: the most similar others not above its threshold; at most 64 */
    int64_t approx;           /* cells of rows that a row is compared with; 0: all rows. On the CPU */
    int32_t only_duplicates;  /* 1: nothing but duplicates, without comparing all pairs; alpha and k do not count. On the CPU */
    /* 1, with parts: only compute blocks, next to other processes that do the same. They may start and die at any time. The call
     * returns when all blocks are there, and *out is NULL; the same call without worker then reads them. */
    int32_t worker;
    /* NULL: the rows are read into memory. Else a folder for finished blocks of the search, and `files`: rows are streamed, at most
     * `memory` bytes at a time, and after a crash the same call continues. The result is the same. It reads rows again to decide, so
     * the files stay open as long. glofnd_discovery_save() removes the folder. */
    const char *parts;
    double patience; /* worker: seconds after which a silent process counts as dead; 0: 120 */
    /* NULL, or the folder of a stored result of these rows. Then `query` are new rows, compared with these: each gets its own
     * threshold over all of them, by the alpha or k and the duplicates of the stored result unless given. Rows of the arrays are new
     * rows, their neighbours are these; a pair is mutual if it is above the stored threshold, too. There are no components, groups
     * and decisions. Rows may be in files; the new ones are in memory. */
    const char *stored;
    const void *query; /* [query_n] rows of dim numbers, query_stride apart */
    int64_t query_n, query_stride;
    glofnd_dtype query_dtype;
    int32_t center; /* 1: the mean of all rows is subtracted first; rows in memory, not with parts */
} glofnd_discover_spec;

typedef struct glofnd_discovery glofnd_discovery; /* a result */

/* All pairs of the rows: thresholds, pairs above them, duplicates, components. The same result on every device and with any
 * number of threads, that of `glofnd discover`. *out is NULL on failure, and `why` (may be NULL) gets the reason. */
GLOFND_API glofnd_status glofnd_discover(const glofnd_discover_spec *spec, glofnd_discovery **out, char *why, size_t why_bytes);
GLOFND_API void glofnd_discovery_free(glofnd_discovery *r); /* NULL is fine */

/* The result as arrays. They belong to it and live as long. Similarities are within [-1, 1]. Rows that were left out have NaN, -1 and 0. */
typedef struct glofnd_discovery_arrays {
    size_t size;                      /* set by the caller: sizeof(glofnd_discovery_arrays) */
    int64_t n, top;                   /* rows; columns of neighbour and similarity */
    int64_t usable, rank;             /* rows that were not left out */
    const uint8_t *kind;              /* [n] 0: usable; 1: not finite; 2: all zero */
    const float *threshold;           /* [n] */
    const int64_t *above;             /* [n] others above the threshold; all of them, not only the listed ones */
    const int64_t *mutual;            /* [n] of these, those whose own threshold is below the pair, too */
    const int64_t *hits;              /* [n] of `above`, those with the same label */
    const int64_t *copies;            /* [n] duplicates of the row */
    const int32_t *neighbour;         /* [n][top] most similar rows, best first, also below the threshold; -1: no more */
    const float *similarity;          /* [n][top] NaN: no more */
    const int32_t *component, *group; /* [n] number of its component (mutual pairs), of its group of duplicates; -1: none */
    /* Listed pairs above the threshold, by anchor: those of row i are first[i] .. first[i+1]-1. */
    int64_t pairs;
    const int64_t *first;         /* [n + 1] */
    const int32_t *other;         /* [pairs] */
    const float *pair_similarity; /* [pairs] */
    const uint8_t *pair_mutual;   /* [pairs] 1: above both thresholds */
    /* Listed pairs of duplicates. */
    int64_t duplicates;
    const int32_t *dup_a, *dup_b; /* [duplicates] */
    const float *dup_similarity;  /* [duplicates] */
    const uint8_t *dup_exact;     /* [duplicates] 1: equal bytes */
    /* Components and groups of duplicates, largest first: rows, pairs, smallest row of each. */
    int64_t components, groups;
    const int64_t *component_rows, *component_pairs, *component_first; /* [components] */
    const int64_t *group_rows, *group_pairs, *group_first;             /* [groups] */
    int64_t pairs_above, mutual_pairs, duplicate_pairs; /* in all, listed or not; the first by anchor, the others undirected */
    double precision, recall, f1;                       /* with labels: means over anchors; else NaN */
    int64_t negatives;                                  /* columns of the following */
    const int32_t *negative;          /* [n][negatives] most similar rows that are not above the threshold; -1: no more */
    const float *negative_similarity; /* [n][negatives] NaN: no more */
    double dup;                       /* the smallest similarity of duplicates; NaN: only rows of equal bytes */
} glofnd_discovery_arrays;

GLOFND_API glofnd_status glofnd_discovery_view(const glofnd_discovery *r, glofnd_discovery_arrays *out);

/* ----- Decisions: rows to keep and to remove, outliers, doubtful labels, leaks between splits, a subset ----- */

/* Which of two duplicates is kept; equal by the rule: the lower row.
 *   FIRST    the lower row
 *   CENTRAL  the one that is more similar to the others of its chain of duplicates
 *   SCORE    the one with the larger score
 *   LABEL    the one with the most frequent label of its chain */
typedef int32_t glofnd_keep_rule;
enum { GLOFND_KEEP_FIRST = 0, GLOFND_KEEP_CENTRAL = 1, GLOFND_KEEP_SCORE = 2, GLOFND_KEEP_LABEL = 3 };

typedef struct glofnd_row_split { /* rows first .. first + rows - 1 */
    const char *name;             /* at most 32 bytes */
    int64_t first, rows;
} glofnd_row_split;

typedef struct glofnd_decide_spec {
    size_t size; /* sizeof(glofnd_decide_spec) */
    glofnd_keep_rule keep;
    int32_t probe;       /* 1: label issues also by a linear classifier that has not seen the row; not with pred_probs */
    const double *score; /* [n] KEEP_SCORE; NaN: lowest */
    const glofnd_row_split *split; /* [splits] rows of an earlier one are kept rather than those of a later one */
    int64_t splits;                /* at most 16 */
    int64_t outliers;              /* to list; 0: 1000; negative: none */
    int64_t sample;                /* rows of a diverse subset; 0: none */
    const float *pred_probs; /* [n][pred_classes] a classifier's out-of-sample probabilities of labels 0, 1, ...: label issues by
                                    * confident learning. NULL: neighbours decide */
    int64_t pred_classes;    /* above every label */
    int64_t rows;            /* > 0: keep this number of rows, by the similarity that it takes; 0: those that are no duplicates */
} glofnd_decide_spec;

/* They belong to the result, until the next call of glofnd_discovery_decide(). */
typedef struct glofnd_decisions {
    size_t size; /* set by the caller: sizeof(glofnd_decisions) */
    int64_t n, keep, duplicates, bad;
    const int32_t *kept; /* [n] the row itself: kept; another row, kept, that it is a duplicate of: removed; -1: bad, removed */
    const float *kept_similarity; /* [n] to that other row; else NaN */
    int64_t other_label;          /* removed rows with another label than the row that is kept */
    int64_t
        unchecked; /* kept rows with more duplicates than are listed, which could not be compared: 0 after glofnd_discover() */
    /* Rows with the lowest mean similarity to their nearest rows, duplicates apart; those below outlier_limit are outliers. */
    int64_t outliers, outliers_found;
    double outlier_limit;
    const int32_t *outlier, *outlier_nearest; /* [outliers] nearest row that is no duplicate; -1: none is listed */
    const float *outlier_score;               /* [outliers] */
    /* Rows whose neighbours, or pred_probs, speak for another label, the clearest first. */
    int64_t issues;
    const int32_t *issue, *issue_label; /* [issues] row, suggested label */
    const double *issue_score;          /* [issues] */
    const double
        *issue_probability; /* [issues] that the label is wrong and the suggestion right; pred_probs: of the suggestion */
    const int32_t *votes, *votes_for, *votes_own; /* [issues] of neighbours: all, for the suggested label, for that of the row */
    /* Splits: rows of a with a duplicate in b, by chains, at [a * splits + b]; and pairs of duplicates in two splits. */
    int64_t splits;
    const int64_t *leak, *leak_exact; /* [splits * splits] */
    int64_t leaks;
    const int32_t *leak_a, *leak_b; /* [leaks] rows, a in the earlier place */
    const float *leak_similarity;   /* [leaks] NaN: connected by other rows */
    int64_t samples;
    const int32_t *sample; /* [samples] rows in the order of choice */
    double sample_reach;   /* smallest similarity of a kept row to its most similar sample */
    double limit;          /* a removed row has this similarity or more to its kept one; > 1: equal bytes */
} glofnd_decisions;

/* Decides. spec NULL: as a zeroed struct. glofnd_discovery_save() writes the latest decisions, or those of NULL. */
GLOFND_API glofnd_status glofnd_discovery_decide(glofnd_discovery *r, const glofnd_decide_spec *spec, glofnd_decisions *out,
                                                 char *why, size_t why_bytes);

/* How glofnd_discovery_save() writes. A zeroed struct with its size: tables of text without names, of the source "memory". */
typedef struct glofnd_discovery_files {
    size_t size;              /* sizeof(glofnd_discovery_files) */
    const char *source;       /* named in the summary; NULL: "memory" */
    const char *const *names; /* [n] of rows, or NULL */
    const char *const
        *classes;        /* [class_count] names of labels 0, 1, 2 ...: classes.txt, and columns of label issues. NULL: none */
    int64_t class_count; /* above every label */
    int32_t replace;     /* 1: an earlier result at this place may go */
    int32_t parquet;     /* 1: tables are Parquet files; 0: of text */
    int32_t graph;       /* 1: also the listed neighbours as a sparse matrix for SciPy */
    int32_t reserved;
    const char *const *other_names; /* of a query: names of the rows that the new ones were compared with; NULL: none */
    const char *query_source;       /* of a query: named in the summary as the new rows; NULL: "memory" */
} glofnd_discovery_files;

/* Writes the folder of tables that `glofnd discover` writes, whole or not at all. files NULL: as a zeroed struct. */
GLOFND_API glofnd_status glofnd_discovery_save(glofnd_discovery *r, const char *folder, const glofnd_discovery_files *files,
                                               char *why, size_t why_bytes);

#ifdef __cplusplus
}
#endif

#endif /* GLOFND_DISCOVER_H */
