/* pairs_search.h - the O(n^2) part of discovery: a table of functions that a device implements.
 *
 *     const gf_pairs_search *p = &gf_pairs_search_cpu;
 *     p->open(err, &rows, threads, &state);            copies the embeddings; `rows` may be freed afterwards
 *     p->find(err, state, &task, &found);              thresholds, and the pairs above them
 *     p->query(err, state, &rows, &task, &found);      the same for other embeddings against these
 *     p->close(state);
 * "Position" is the place of an embedding among the opened ones. Results are one definite set of numbers: they depend neither on
 * tiles nor on threads, and on the device only where its float32 products differ in the last bits: on CPUs without fused
 * multiply-adds.
 */
#pragma once

#include "pairs/best.h"
#include "pairs/pairs_sweep.h"

typedef struct gf_pairs_task {
    int64_t rank;         /* the threshold of an anchor is the rank-th largest of its similarities */
    const float *lambda;  /* [n] or NULL. find: thresholds to use instead. query: those of the opened embeddings */
    const int32_t *skip;  /* query: [rows] position that is the row itself and does not count, -1: none; NULL: none at all */
    int64_t top;          /* most similar others of each anchor to keep */
    int64_t below;        /* most similar ones that are not above the threshold to keep, as in gf_pairs_found */
    float dup;            /* two embeddings at least this similar are duplicates; > 2: none are */
    const int32_t *label; /* find: [n] or NULL; negative: unknown */
    size_t memory;        /* bytes that lists may take; CUDA: lists and strips of similarities */
    int only_dup;         /* CUDA: only duplicates, as cells give them without `probe`; rank is not used */
    int64_t probe;        /* cells: compare an anchor with the rows of so many nearest cells; 0: only duplicates, exact */
    int threads;
    gf_job_progress watch;
    int64_t block;  /* CPU: rows of a tile. 0: chosen */
    int integers;   /* CPU: 1: products of integers find the candidates, -1: never. 0: chosen. The same result */
    int64_t list;   /* CUDA: entries of a row's list of candidates. 0: chosen */
    int64_t sample; /* CUDA: rows that thresholds are guessed from before they are computed. 0: chosen */
    int exact;      /* CUDA: 1: without tensor cores */
} gf_pairs_task;

#define GF_BELOW_MAX 64 /* `below` at most */

/* The result for each anchor. gf_pairs_found_alloc() makes the arrays; NULL: not wanted. */
typedef struct gf_pairs_found {
    int64_t n, top;
    float *lambda;           /* [n] */
    int64_t *above, *mutual; /* [n] others above the threshold; of these, those whose threshold is below too */
    int64_t *hits, *copies;  /* [n] above with the same label; duplicates */
    int32_t *other;          /* [n][top] most similar others, best first, also below the threshold; -1: no more */
    float *similarity;       /* [n][top] NaN: no more */
    int64_t below;           /* 0, or gf_pairs_found_below() was called */
    int32_t *below_other;    /* [n][below] most similar ones that are not above; -1: no more, or lambda was given */
    float *below_similarity; /* [n][below] */
    int32_t *mutual_root;    /* [n] smallest position of the component that mutual pairs connect; find only */
    int32_t *copy_root;      /* [n] the same by duplicates; find only */
    int64_t cells, compared; /* by cells: how many, and similarities that were computed; else 0 */
    int64_t sampled, wanted,
        recalled; /* probed cells: anchors of a sample; pairs above in a whole search; of these, those found */
} gf_pairs_found;

glofnd_status gf_pairs_found_alloc(gf_error *err, gf_pairs_found *f, int64_t n, int64_t top);
/* Also asks for the `below` most similar ones that are not above the threshold. */
glofnd_status gf_pairs_found_below(gf_error *err, gf_pairs_found *f, int64_t below);
/* Anchors [at, at + rows) of f, in its arrays: not to be freed. The trees stay those of all. */
gf_pairs_found gf_pairs_found_part(const gf_pairs_found *f, int64_t at, int64_t rows);
/* As if nothing were similar: infinite thresholds, no neighbours, nothing joined. */
void gf_pairs_found_none(gf_pairs_found *f);
size_t gf_pairs_found_bytes(int64_t n, int64_t top);
void gf_pairs_found_free(gf_pairs_found *f); /* a zeroed one is fine */

typedef struct gf_pairs_plan {
    size_t rows, lists, results, scratch; /* bytes: embeddings, lists of candidates, the result, the rest */
    size_t device;                        /* bytes on the GPU */
    int passes;                           /* over the pairs: 1, or 2 where the lists of all anchors do not fit */
} gf_pairs_plan;

typedef struct gf_pairs_search {
    const char *name;
    /* Cost of find for n embeddings. Of the task only sizes, threads, memory, top, rank and the presence of lambda count. */
    gf_pairs_plan (*plan)(int64_t n, int64_t dim, const gf_pairs_task *t);
    /* Rows that are used must be finite and not zero. */
    glofnd_status (*open)(gf_error *err, const gf_vectors *rows, int threads, void **state);
    glofnd_status (*find)(gf_error *err, void *state, const gf_pairs_task *t, gf_pairs_found *f);
    /* found: above and mutual (with lambda) against the opened ones. Pairs among `rows` are not computed. */
    glofnd_status (*query)(gf_error *err, void *state, const gf_vectors *rows, const gf_pairs_task *t, gf_pairs_found *f);
    void (*close)(void *state); /* NULL is fine */
    /* Seconds that open and find are expected to take, by a search of some thousand random rows that is timed now. NAN: not known;
     * NULL: never known. */
    double (*seconds)(int64_t n, int64_t dim, const gf_pairs_task *t);
    /* Fails, with the reason, where a library that makes the search many times faster is missing. NULL: it needs none. */
    glofnd_status (*check_speed)(gf_error *err);
    const struct gf_stream_search *stream; /* the same beyond memory (gf_stream_search); NULL: not by this search */
} gf_pairs_search;

extern const gf_pairs_search gf_pairs_search_cpu;
/* Most pairs are not compared (cells.h), on the CPU. Only duplicates, exact: thresholds are infinite, nothing is above them. With
 * `probe` the whole result: duplicates exact, thresholds those among the rows that were compared; the recall is measured. */
extern const gf_pairs_search gf_pairs_search_cells;
extern const gf_pairs_search *const gf_pairs_search_cuda; /* NULL: built without CUDA */
/* "cpu" or "cuda"; NULL, with a text, if this build has no such device. */
const gf_pairs_search *gf_pairs_search_find(gf_error *err, const char *device);
/* E_ARGUMENT unless the `others` of an anchor have a similarity of the task's rank; and, for query, n opened embeddings. */
glofnd_status gf_pairs_check_rank(gf_error *err, const gf_pairs_task *t, int64_t others);
glofnd_status gf_pairs_check_query(gf_error *err, const gf_pairs_task *t, int64_t n);

/* ----- beyond memory ----- */

/* Discovery of embeddings that need not fit into memory: some anchors against all rows, which pass by in chunks of `memory` bytes at
 * most (all rows, if they fit). Results are those of gf_pairs_search_cpu to the bit, whatever the chunks. Each pair is computed twice
 * in either step, from each of its ends: so anchors are independent of each other, and can be dealt out and kept on disk. */
typedef struct gf_stream_search {
    glofnd_status (*open)(gf_error *err, const gf_row_source *source, const int32_t *row, int64_t n, size_t memory, int threads,
                          void **state);
    int64_t (*chunks)(const void *state); /* in which the rows pass by */
    /* Anchors `first` (a multiple of GF_PANEL) and following ones; found [rows] is their result, but for mutual, mutual_root and
     * copy_root. copy_root [n]: joins them with their duplicates behind them. above [rows][rank - 1] or NULL: keys (best.h) of those
     * above the threshold of an anchor, found->above of them. */
    glofnd_status (*thresholds)(gf_error *err, void *state, const gf_pairs_task *t, int64_t first, int64_t rows,
                                gf_pairs_found *found, int32_t *copy_root, uint64_t *above);
    /* mutual [rows]: pairs that are above the thresholds of both, t->lambda; root [n] joins them. */
    glofnd_status (*mutual)(gf_error *err, void *state, const gf_pairs_task *t, int64_t first, int64_t rows, int64_t *mutual,
                            int32_t *root);
    void (*close)(void *state); /* NULL is fine */
    /* As gf_pairs_search.seconds, for all rows of the source in units of `unit` anchors, without `mutual`; *again: seconds of `mutual`. Reads some rows.
     * NULL: not known. */
    double (*seconds)(const gf_row_source *source, const gf_pairs_task *t, int64_t unit, double *again);
} gf_stream_search;

extern const gf_stream_search gf_stream_search_cpu;

/* ----- results read off lists of candidates ----- */

/* The best of a list that are not above the threshold f->lambda[i]; the list is long enough to hold them. */
void gf_lists_below(const gf_best *b, int64_t list, gf_pairs_found *f, int64_t i);
/* The f->top best of a list, which is sorted and cut to them. */
void gf_lists_top(gf_best *b, int64_t list, gf_pairs_found *f, int64_t i);
/* The lists of all f->n anchors. Thresholds (of a list with fewer entries than the rank: its last one) and those below; then what is
 * above them (mutual_root [threads][n]: joins of mutual pairs); at last the best of them. */
void gf_lists_all_thresholds(gf_best *b, const gf_pairs_task *t, gf_pairs_found *f);
void gf_lists_all_pairs(gf_best *b, const gf_pairs_task *t, gf_pairs_found *f, int32_t *mutual_root);
void gf_lists_all_top(gf_best *b, const gf_pairs_task *t, gf_pairs_found *f);
/* Mutual pairs of f, whose lists have all that is above a threshold, but not at both ends of each pair: sets mutual and joins
 * mutual_root, in which all stand alone. */
void gf_lists_mutual(gf_pairs_found *f, int threads);
/* Entries of a list that holds the threshold and those below it. */
static inline int64_t gf_lists_keep(const gf_pairs_task *t) { return t->rank + t->below - (t->below > 0); }
