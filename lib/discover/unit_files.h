/* unit_files.h - finished parts of a search on disk, in a folder of their own: so that a search that was killed continues, and
 * that several ranks share one.
 *
 * A unit is the result of some anchors. Every file is checked (io/blockfile.h), has the fingerprint of its search, and appears
 * whole or not at all:
 *   plan             the fingerprint
 *   pairs-NUMBER     thresholds, counts, neighbours and duplicates of a unit
 *   mutual-NUMBER    its mutual pairs
 * and of a search by cells, whose units have anchors in the order of cells:
 *   centres-000000   the centroids
 *   cells-NUMBER     the cell of some rows
 *   rows-NUMBER      unit vectors of some rows in the order of cells, where all of them do not fit into memory (unit_rows.c)
 *   recall-NUMBER    counts of some anchors that were compared with all rows
 */
#pragma once

#include "pairs/cells.h"
#include "pairs/pairs_search.h"
#include "util/components.h"

typedef struct gf_unit_folder {
    const char *path;
    uint64_t fingerprint; /* of embeddings and options */
    int64_t n, rows;      /* anchors; of a unit, but the last */
    int64_t units;
    int64_t top, edge; /* length of the lists of an anchor */
    int64_t width;     /* others above its threshold at most, which are kept, too; 0: they are not */
    int64_t cells;     /* 0: not by cells */
    int64_t dim;       /* by cells: of a row */
    int64_t numbers;   /* by cells: gf_tree_numbers() */
    int64_t samples;   /* by cells: parts of the recall */
    int64_t chunk;     /* by cells: rows of a rows-NUMBER, but the last; 0: there are none */
} gf_unit_folder;

typedef enum gf_unit_kind {
    GF_UNIT_PAIRS,
    GF_UNIT_MUTUAL,
    GF_UNIT_CENTRES,
    GF_UNIT_CELLS,
    GF_UNIT_RECALL,
    GF_UNIT_ROWS
} gf_unit_kind;

int64_t gf_unit_count(const gf_unit_folder *u, gf_unit_kind kind); /* files of this kind */

int64_t gf_unit_rows(const gf_unit_folder *u, int64_t unit); /* anchors of it */
/* Makes the plan of an empty folder, or checks that it is of this search: E_ARGUMENT if not, unless `force` empties it. Removes
 * files that were not finished. */
glofnd_status gf_unit_folder_open(gf_error *err, const gf_unit_folder *u, int force);
/* Removes it, and all that it holds of a search. Other files stay, and then the folder. */
void gf_unit_folder_remove(const char *path);
/* 1: the unit is there. check: it was read and found sound; a corrupt one is removed. */
int gf_unit_is_done(const gf_unit_folder *u, gf_unit_kind kind, int64_t unit, int check);

/* A unit: found [rows of it]; above [rows][width], as of pairs_stream.h. root [n]: what it joins; joined: the nodes of these
 * joins, or NULL: any. With `joined` each of these nodes stands alone in root afterwards, and only these are visited. */
glofnd_status gf_unit_write_pairs(gf_error *err, const gf_unit_folder *u, int64_t unit, const gf_pairs_found *found,
                                  int32_t *root, gf_node_list *joined, const uint64_t *above);
/* found->above NULL: only thresholds are wanted. root NULL: what it joins is not. above [rows][width] or NULL. */
glofnd_status gf_unit_read_pairs(gf_error *err, const gf_unit_folder *u, int64_t unit, gf_pairs_found *found, int32_t *root,
                                 uint64_t *above);
glofnd_status gf_unit_write_mutual(gf_error *err, const gf_unit_folder *u, int64_t unit, const int64_t *mutual, int32_t *root,
                                   gf_node_list *joined);
glofnd_status gf_unit_read_mutual(gf_error *err, const gf_unit_folder *u, int64_t unit, int64_t *mutual, int32_t *root);

/* Files of a search by cells. numbers: of a tree (cell_tree.h); of [rows of the unit], by position; count [3]: sampled,
 * wanted and recalled of gf_pairs_found. What is read is valid. */
glofnd_status gf_unit_write_centres(gf_error *err, const gf_unit_folder *u, const float *numbers);
glofnd_status gf_unit_read_centres(gf_error *err, const gf_unit_folder *u, float *numbers);
glofnd_status gf_unit_write_cells(gf_error *err, const gf_unit_folder *u, int64_t unit, const gf_cell_of *of);
glofnd_status gf_unit_read_cells(gf_error *err, const gf_unit_folder *u, int64_t unit, gf_cell_of *of);
glofnd_status gf_unit_write_recall(gf_error *err, const gf_unit_folder *u, int64_t unit, const int64_t count[3]);
glofnd_status gf_unit_read_recall(gf_error *err, const gf_unit_folder *u, int64_t unit, int64_t count[3]);
/* x: panels of the rows of part `unit`, as of gf_cells_stream_order(). */
glofnd_status gf_unit_write_rows(gf_error *err, const gf_unit_folder *u, int64_t unit, const float *x);

/* unit_rows.c: all parts of ordered rows as one array, which is mapped, not read. Unmap it with gf_unit_unmap_rows(). */
glofnd_status gf_unit_map_rows(gf_error *err, const gf_unit_folder *u, gf_panels *all);
void gf_unit_unmap_rows(gf_panels *all); /* a zeroed one is fine */
void gf_unit_remove_rows(const gf_unit_folder *u);

/* Inside: the name of a file; numbers of a part of ordered rows, and where they begin in its file. */
glofnd_status gf_unit_path(gf_error *err, const gf_unit_folder *u, gf_unit_kind kind, int64_t unit, char path[]);
size_t gf_unit_row_numbers(const gf_unit_folder *u, int64_t unit);
#define GF_UNIT_ROWS_AT 65536 /* a multiple of a memory page, whatever the machine */
