/* unit_job.h - a search in units while it runs: what unit_run.c and unit_cells.c share. */
#pragma once

#include "discover/unit_run.h"
#include "pairs/cells_stream.h"

typedef struct gf_unit_batch { /* mutual pairs of some units */
    int64_t first, end;        /* units */
    uint64_t *pair;            /* place behind that of the first unit << 32 | position of the other one; sorted, each once */
    size_t count, capacity;
} gf_unit_batch;

typedef struct gf_unit_job {
    const gf_discover_spec *s;
    const gf_units *u;
    gf_pairs_task t;
    void *stream;          /* of s->pass->stream */
    gf_cells_stream cells; /* where the search has none */
    gf_unit_batch batch;   /* by cells */
    gf_unit_folder folder;
    float *lambda;       /* [n] by position */
    int32_t *root;       /* [n] of one unit */
    gf_node_list joined; /* by cells: nodes of root that do not stand alone */
    int lock;            /* of the folder; -1: none */
} gf_unit_job;

typedef struct gf_unit_stage {
    gf_unit_kind kind;
    glofnd_status (*make)(gf_error *err, gf_unit_job *j, int64_t unit); /* computes a unit and writes it */
    double from, to;                                                    /* its part of the whole, for the progress */
} gf_unit_stage;

glofnd_status gf_unit_agree(gf_error *err, const gf_units *u, glofnd_status mine);
/* All ranks make the units that are missing, and wait for each other. */
glofnd_status gf_unit_run_stage(gf_error *err, gf_unit_job *j, const gf_unit_stage *stage);
/* *done: 1: all units of a kind are there. */
glofnd_status gf_unit_stage_is_done(gf_error *err, const gf_unit_job *j, gf_unit_kind kind, int *done);
/* A result of `rows` anchors, and above [rows][width], if they are kept. */
glofnd_status gf_unit_result_alloc(gf_error *err, const gf_unit_job *j, int64_t rows, gf_pairs_found *f, uint64_t **above);

/* The result of all anchors, which stand alone yet; then their trees, flat. */
glofnd_status gf_unit_result_begin(gf_error *err, const gf_unit_job *j, gf_pairs_found *f);
void gf_unit_result_end(gf_pairs_found *f);
/* Computes thresholds, neighbours and duplicates of a unit by `find`, and writes them. */
typedef glofnd_status gf_unit_find(gf_error *err, gf_unit_job *j, int64_t unit, gf_pairs_found *f, uint64_t *above);
glofnd_status gf_unit_make_pairs(gf_error *err, gf_unit_job *j, int64_t unit, gf_unit_find *find);
/* Calls `take` with each pair of a unit's file that is above both thresholds: place of the anchor, position of the other. */
typedef glofnd_status gf_unit_take(gf_error *err, gf_unit_job *j, int64_t place, int64_t other, void *user);
glofnd_status gf_unit_read_mutual_pairs(gf_error *err, gf_unit_job *j, int64_t unit, gf_unit_take *take, void *user);

/* By cells (unit_cells.c): opens j->cells; all stages; the result, on rank 0. */
glofnd_status gf_unit_cells_open(gf_error *err, gf_unit_job *j, const gf_discover_data *d);
glofnd_status gf_unit_cells_run(gf_error *err, gf_unit_job *j);
glofnd_status gf_unit_cells_read(gf_error *err, gf_unit_job *j, gf_pairs_found *f);
void gf_unit_cells_close(gf_unit_job *j);
