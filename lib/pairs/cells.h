/* cells.h - a search that does not compare all pairs: embeddings in cells, and anchors against the rows of the nearest ones.
 *
 * The centroids of cells lie in two levels: some hundred groups, each with the centroids of its own cells. The nearest
 * cells of an embedding are looked for in the groups it is nearest to: with F cells that takes about the root of 32 F
 * products instead of F.
 *
 *     gf_tree_make(err, &sample, count, &job, numbers);           k-means: groups of a sample, then cells of each group
 *     gf_tree_open(err, numbers, count, dim, threads, &tree);     numbers can be kept in a file in between
 *     gf_tree_search_init(err, &s, &tree, probe, block, threads);
 *     gf_tree_near(&s, &points, at, rows, thread);                the nearest cells of a block of embeddings
 *     gf_tree_search_free(&s);
 *     gf_tree_free(&tree);
 */
#pragma once

#include "pairs/best.h"
#include "pairs/pairs_search.h"
#include "pairs/pairs_sweep.h"
#include "util/components.h"

typedef struct gf_cell_tree {
    int64_t count, dim; /* cells */
    int64_t groups;
    int64_t through;         /* groups that the cell of an embedding is looked for in: all, while there are few cells */
    gf_panels centres;       /* [count] of cells, those of a group together */
    gf_panels group_centres; /* [groups] */
    int64_t *first;          /* [groups + 1] first cell of a group */
} gf_cell_tree;

/* Numbers that describe a tree of so many cells. */
int64_t gf_tree_numbers(int64_t count, int64_t dim);
/* The same numbers for any number of threads. sample: at least one vector. */
glofnd_status gf_tree_make(gf_error *err, const gf_vectors *sample, int64_t count, const gf_sweep_job *job, float *numbers);
/* E_FORMAT: they describe no tree; E_NUMERIC: not finite. */
glofnd_status gf_tree_open(gf_error *err, const float *numbers, int64_t count, int64_t dim, int threads, gf_cell_tree *out);
void gf_tree_free(gf_cell_tree *t); /* a zeroed one is fine */
/* Groups that are looked into for `probe` nearest cells. */
int64_t gf_tree_through(const gf_cell_tree *t, int64_t probe);

/* ----- nearest cells ----- */

typedef struct gf_tree_search {
    const gf_cell_tree *t;
    const struct gf_tile_ops *ops;
    int threads;
    int64_t probe, through, block; /* cells; groups; embeddings of a block at most, a multiple of GF_PANEL */
    float *strip;                  /* [threads][GF_PANEL][GF_STRIP_COLS] */
    float *gathered;               /* [threads][dim][GF_PANEL] */
    gf_best group;                 /* [threads][GF_PANEL] nearest groups */
    gf_best near;                  /* [threads][block] nearest cells */
    int32_t *chosen;               /* [threads][block][through] nearest groups, best first; -1: none */
    int32_t *asked;                /* [threads][block][through] embeddings of the block, by group */
    int64_t *from;                 /* [threads][groups + 1] first of a group in `asked` */
} gf_tree_search;

glofnd_status gf_tree_search_init(gf_error *err, gf_tree_search *s, const gf_cell_tree *t, int64_t probe, int64_t block,
                                  int threads);
void gf_tree_search_free(gf_tree_search *s); /* a zeroed one is fine */
/* Rows [at, at + rows) of p, which begin at a panel: list thread * block + i of s->near gets the nearest cells of row at +
 * i, best first. */
void gf_tree_near(gf_tree_search *s, const gf_panels *p, int64_t at, int64_t rows, int thread);
/* The same for rows [i, i + rows) of the panel that begins at row `at` of p, with list `list` for row at + i: the nearest of
 * the cells that `centres` [pad(around) / GF_PANEL][dim][GF_PANEL] are the centroids of. */
void gf_tree_near_of(gf_tree_search *s, const gf_panels *p, int64_t at, int i, int rows, const int32_t *cell,
                     const gf_panels *centres, int64_t list, int thread);
/* The nearest groups of the panel that begins at row `at` of p: lists thread * GF_PANEL + i of s->group, best first, at least
 * t->through + 1 if there are as many. If the groups fit into a strip, it has the similarities afterwards. */
void gf_tree_groups(gf_tree_search *s, const gf_panels *p, int64_t at, int rows, int thread);

/* ----- cells ----- */

/* Embeddings in cells: each belongs to the centroid it is most similar to, of those in the groups of centroids
 * that it is nearest to. Angles obey the triangle inequality, so whole cells can be left out of a search
 * without a loss. */

typedef struct gf_cells {
    int64_t n, dim, count;
    gf_cell_tree tree; /* centroids [count] */
    gf_panels points;  /* [n] by cell, in a cell by rising angle to its centroid; or none */
    int32_t *order;    /* [n] position of the embedding at that place */
    int64_t *start;    /* [count + 1] place where a cell begins */
    float *angle;      /* [n] to the own centroid, by place */
    int64_t around;    /* 0, or as of gf_cells_surround() */
    int32_t *nearby;   /* [count][around] cells nearest to a cell, best first; -1: no more */
} gf_cells;

/* count 0: chosen. The same cells for any number of threads. */
glofnd_status gf_cells_make(gf_error *err, const gf_vectors *rows, int64_t count, const gf_sweep_job *job, gf_cells *out);
void gf_cells_free(gf_cells *c); /* a zeroed one is fine */
/* Angle of a similarity. Rounding errors of a similarity change it by gf_cells_slack(dim) at most. */
double gf_cells_angle(float similarity);
double gf_cells_slack(int64_t dim);

/* Finds the cells around each cell, among which `probe` nearest ones of its rows are then looked for: none, if those would
 * be too many. Needs the tree alone. Does nothing if it has been called. */
glofnd_status gf_cells_surround(gf_error *err, gf_cells *c, int64_t probe, int threads);
/* The cell of a place. */
int64_t gf_cells_at(const gf_cells *c, int64_t place);

/* ----- the same, step by step: for rows that are not in memory ----- */

typedef struct gf_cell_of { /* where an embedding belongs */
    float similarity;       /* to the centroid */
    int32_t cell;
} gf_cell_of;

/* of [points->n] */
glofnd_status gf_cells_assign(gf_error *err, const gf_panels *points, const gf_cell_tree *tree, const gf_sweep_job *job,
                              gf_cell_of *of);
/* Sets order, start and angle. of [c->n] by position. */
glofnd_status gf_cells_sort(gf_error *err, const gf_cell_of *of, int threads, gf_cells *c);

/* ----- anchors against cells ----- */

/* Anchors, in the order of cells, against the rows of their nearest cells, and against the panels that may
 * hold their duplicates.
 *
 *     gf_cell_search_init(err, &x, &cells, &points, &task, root);
 *     gf_cell_mark(&x, &block, thread);               which cells, which panels: for a block of anchors
 *     gf_cell_compare(&x, &block, &lists, thread);    compares them
 *     gf_cell_recall(err, &x, first, count, found);   with task.probe: of a sample
 *     gf_cell_search_free(&x);
 * Blocks are independent of each other; each thread has its own number. An anchor is compared with the rows of its own nearest
 * cells, whatever block it is in. Its work is bounded: large cells are cut into pieces, by angle to the centroid, and of
 * such a cell only the piece is taken that the anchor's own angle lies in.
 */

typedef struct gf_panel_range {
    int32_t from, to; /* panels [from, to) */
} gf_panel_range;

typedef struct gf_cell_wanted { /* panels that may hold duplicates of a panel of anchors; a zeroed one is empty */
    gf_panel_range *range;      /* [count] rising; they do not touch */
    size_t count, capacity;
} gf_cell_wanted;

typedef struct gf_cell_search {
    const gf_cells *c;       /* its points are not used */
    const gf_panels *points; /* all rows, in the order of cells */
    const gf_pairs_task *t;
    const struct gf_tile_ops *ops;
    double theta, slack;
    int64_t panels;        /* of all points */
    int64_t probe;         /* nearest cells of an anchor; 0: only duplicates are searched */
    int64_t block;         /* anchors of a block, at most; a multiple of GF_PANEL */
    gf_tree_search tree;   /* nearest cells of a block; its strips serve all comparisons */
    float *around;         /* [threads][c->around][dim] centroids of the cells around the one at hand, in panels */
    int64_t pieces;        /* of all cells */
    int64_t *piece;        /* [pieces + 1] place where a piece begins */
    int64_t *piece_of;     /* [cells + 1] first piece of a cell */
    uint64_t *request;     /* probe: [threads][block][probe] piece, and the anchor of the block that is compared with it */
    uint8_t *mark;         /* [threads][panels] of the panel of anchors at hand; else zeros */
    uint64_t *touched;     /* [threads][cells / 64 + 1] cells that have marks, a bit each; else zeros */
    uint32_t *mask;        /* [threads][groups] anchors of the panel at hand that may have duplicates in the group; else zeros */
    int32_t *root;         /* [n] joins duplicates, by position; NULL: no copies are counted */
    gf_node_list *joined;  /* [threads] nodes of root that were joined; NULL: not wanted */
    _Atomic int64_t pairs; /* compared: of nearest cells, or without probe for duplicates */
    atomic_int no_memory;  /* 1: for what some anchors want */
} gf_cell_search;

typedef struct gf_cell_block { /* anchors that follow each other */
    int64_t place;             /* of the first one; at the beginning of a panel */
    int64_t rows;              /* up to x->block */
    int32_t *near;             /* [rows][probe] pieces; -1: none */
    gf_cell_wanted *wanted;    /* [panels of the block] */
} gf_cell_block;

typedef struct gf_cell_lists { /* where candidates of a block of anchors go */
    gf_best *best;
    int64_t first;   /* list of the first anchor; -1: lists by position */
    int64_t *copies; /* number of duplicates of each */
    int by_position; /* copies [n], else [rows] */
} gf_cell_lists;

/* c and points stay with the caller. */
glofnd_status gf_cell_search_init(gf_error *err, gf_cell_search *x, const gf_cells *c, const gf_panels *points,
                                  const gf_pairs_task *t, int32_t *root);
void gf_cell_search_free(gf_cell_search *x); /* a zeroed one is fine */
/* Sets near and wanted of the block. Where there is no memory they are cut, and x->no_memory is set. */
void gf_cell_mark(gf_cell_search *x, const gf_cell_block *b, int thread);

/* Compares anchors [first, first + count) of the gf_cell_sample() ones with all rows: adds to found->sampled, wanted and
 * recalled the anchors, their pairs above the threshold, and those of these that the search finds. */
glofnd_status gf_cell_recall(gf_error *err, gf_cell_search *x, int64_t first, int64_t count, gf_pairs_found *found);
int64_t gf_cell_sample(int64_t n); /* random anchors whose recall is measured */

/* ----- inside ----- */

/* Piece of the cell of a near list's entry that an anchor is compared with. */
int32_t gf_cell_piece(const gf_cell_search *x, uint64_t key);
/* The piece of a place. */
int64_t gf_cell_piece_at(const gf_cell_search *x, int64_t place);

/* ----- rows that need not fit into memory ----- */

/* The search by cells (pairs_search.h, gf_pairs_search_cells) of rows that need not fit into memory, in parts
 * that can be dealt out and kept on disk. In this order:
 *
 *     gf_cells_stream_open(err, &source, row, n, memory, threads, &s);
 *     gf_cells_stream_centres(err, &s, &job, numbers);             k-means of a sample
 *     gf_cells_stream_begin(err, &s, numbers);
 *     gf_cells_stream_assign(err, &s, first, rows, &job, of);      positions [first, first + rows), for all of them
 *     gf_cells_stream_sort(err, &s, of);                           from here on anchors come in the order of cells
 *     gf_cells_stream_order(err, &s, first, rows, x);              unit vectors of places [first, first + rows)
 *     s.all = all of them: in memory if they fit, or files of them that are mapped
 *     gf_cells_stream_pairs(err, &s, &task, first, rows, ...);     places [first, first + rows)
 *     gf_cells_stream_recall(err, &s, &task, first, count, ...);   with task.probe
 *     gf_cells_stream_close(&s);
 * Rows in the order of cells make a search local: the rows that some anchors need lie in few places. The source is read from its
 * beginning to its end: once for the cells, and once for each part of the ordered rows.
 */

typedef struct gf_cells_stream {
    const gf_row_source *source;
    const int32_t *row; /* [n] rows of the source that positions stand for, rising */
    gf_cells c;         /* without points */
    int32_t *place;     /* [n] of a position */
    int64_t chunk;      /* ordered rows of a part; n: all fit */
    int threads;
    gf_panels all; /* all rows, in the order of cells; of the caller */
} gf_cells_stream;

#define GF_CHUNK_STEP 1024 /* `chunk` is a multiple of it, and such that its rows fill memory pages */

/* memory: bytes for ordered rows. */
glofnd_status gf_cells_stream_open(gf_error *err, const gf_row_source *source, const int32_t *row, int64_t n, size_t memory,
                                   int threads, gf_cells_stream *s);
void gf_cells_stream_close(gf_cells_stream *s); /* a zeroed one is fine */
int gf_cells_stream_fits(const gf_cells_stream *s);
/* numbers [gf_tree_numbers()] */
glofnd_status gf_cells_stream_centres(gf_error *err, const gf_cells_stream *s, const gf_sweep_job *job, float *numbers);
glofnd_status gf_cells_stream_begin(gf_error *err, gf_cells_stream *s, const float *numbers);
glofnd_status gf_cells_stream_assign(gf_error *err, const gf_cells_stream *s, int64_t first, int64_t rows,
                                     const gf_sweep_job *job, gf_cell_of *of);
glofnd_status gf_cells_stream_sort(gf_error *err, gf_cells_stream *s, const gf_cell_of *of);
/* x [pad(rows) / GF_PANEL][dim][GF_PANEL], first a multiple of GF_PANEL. */
glofnd_status gf_cells_stream_order(gf_error *err, const gf_cells_stream *s, int64_t first, int64_t rows,
                                    const gf_job_progress *watch, float *x);
/* `first` is a multiple of GF_PANEL. found [rows], by place: all but mutual, mutual_root and copy_root; others are positions.
 * copy_root [n], by position: joins duplicates, whose nodes are added to joined. above [rows][rank - 1] or NULL, as in
 * gf_stream_search. */
glofnd_status gf_cells_stream_pairs(gf_error *err, const gf_cells_stream *s, const gf_pairs_task *t, int64_t first, int64_t rows,
                                    gf_pairs_found *found, int32_t *copy_root, gf_node_list *joined, uint64_t *above);
/* Anchors [first, first + count) of the gf_cell_sample() ones: adds to found->sampled, wanted and recalled. */
glofnd_status gf_cells_stream_recall(gf_error *err, const gf_cells_stream *s, const gf_pairs_task *t, int64_t first,
                                     int64_t count, gf_pairs_found *found);
