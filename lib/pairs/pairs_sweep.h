/* pairs_sweep.h - all cosine similarities between two sets of embeddings, or within one, on all cores; never rows x cols of them.
 *
 * Embeddings are packed once, in panels that serve as the left and as the right side of the product. The similarities come in
 * strips: up to GF_PANEL rows by some columns, which a visitor reads and which are then overwritten. Every similarity is one
 * chain of fused multiply-adds, whose bits depend neither on the strip nor on which of the two embeddings is the row.
 *
 * glofnd_exact_thresholds() and the selections of the training step do not use this sweep: their rows come from the step's workspace,
 * row-major and padded, and the step must not allocate. They read the same product (cpu/cpu_passes.c), hence the same
 * bits.
 */
#pragma once

#include "device/pair_passes.h"
#include "util/parallel.h"

typedef struct gf_vectors { /* embeddings as they are given */
    const float *x;         /* [][dim] of any length; they are scaled to length 1, zeros stay zeros */
    const int32_t *row;     /* [n] rows of x to take; NULL: the first n */
    int64_t n, dim;
    const char *name; /* for messages; NULL: "embedding" */
} gf_vectors;

typedef struct gf_panels {
    int64_t n, dim;
    float *x; /* [pad(n) / GF_PANEL][dim][GF_PANEL] unit vectors; padding is zero. NULL: only integers */
    /* gf_panels_pack_int16 */
    uint32_t *word; /* [pad(n) / GF_PANEL][words][GF_PANEL] the same rounded, two dimensions in a word (cpu/kernels/tile.h) */
    int64_t words;
    float *step;   /* [pad(n)] */
    double *scale; /* [n] from the given vector to the unit vector */
    float *lost;   /* [n] length of what rounding took from the unit vector */
    float lost_max;
} gf_panels;

size_t gf_panels_bytes(int64_t n, int64_t dim);
/* E_NUMERIC names the first vector that is not finite. */
glofnd_status gf_panels_pack(gf_error *err, const gf_vectors *v, int threads, gf_panels *out);
void gf_panels_free(gf_panels *p); /* a zeroed one is fine */
/* Vectors as 16-bit integers, whose products are twice as fast where the CPU has them (int16_is_fast), and wrong by up to
 * gf_panels_error(). Fails as gf_panels_pack does. dim <= GF_INT16_DEPTH. */
glofnd_status gf_panels_pack_int16(gf_error *err, const gf_vectors *v, int threads, gf_panels *out);
/* The similarity of row r of q and any column of k by integers, less that by floats, is within +- this. */
float gf_panels_error(const gf_panels *q, int64_t r, const gf_panels *k);
/* From a vector to a unit vector; *finite gets 0 if x is not finite. Then: writes it to every GF_PANEL-th float of `to`. */
double gf_vector_unit_scale(const float *x, int64_t dim, int *finite);
void gf_vector_write_unit(float *to, const float *x, int64_t dim, double scale);
static inline const float *gf_vector_at(const gf_vectors *v, int64_t i) { return v->x + (v->row ? v->row[i] : i) * v->dim; }

#define GF_STRIP_COLS 1024 /* columns of a strip, at most */
#define GF_SWEEP_GROUP 64  /* rows of a group in gf_sweep_vectors */

typedef struct gf_strip {
    int64_t r0, c0;
    int rows, cols; /* rows <= GF_PANEL */
    int slot;       /* gf_sweep_rows: position of row r0 in its group */
    int last;       /* gf_sweep_rows: these rows have no more columns */
    int rounded;    /* 1: similarities are products of integers, wrong by up to gf_panels_error() */
    const float *s; /* [rows][ld]; the columns up to pad(cols) can be read */
    size_t ld;
} gf_strip;

typedef void (*gf_strip_visit)(void *user, const gf_strip *s, int thread);

typedef struct gf_sweep_job {
    int threads; /* at least 1; users that say so take 0 for all */
    gf_job_progress watch;
    const atomic_int
        *enough; /* not 0: gf_sweep_rows ends without visiting the rest, and without an error; NULL: all is visited */
} gf_sweep_job;

/* The same job under the name of a stage. */
gf_sweep_job gf_sweep_stage(const gf_sweep_job *job, const char *stage);

/* Visits every pair row < col of p at least once, along with others that the visitor must skip (col <= row). During a visit no
 * other thread has the strip's rows or columns, so results of both may be written. `block`: rows of a block, a multiple of
 * GF_PANEL up to GF_STRIP_COLS; 0: chosen. Every sweep fails with E_CANCELLED when the job is cancelled. */
glofnd_status gf_sweep_symmetric(gf_error *err, const gf_panels *p, int64_t block, const gf_sweep_job *job, gf_strip_visit visit,
                                 void *user);
/* The same, with the rows of p as integers where both are in different blocks. Blocks with themselves come first, by floats. */
glofnd_status gf_sweep_symmetric_rounded(gf_error *err, const gf_panels *p, const gf_panels *integers, int64_t block,
                                         const gf_sweep_job *job, gf_strip_visit visit, void *user);
/* Visits every row of q with every column of k. The strips of a group of `group` rows (a multiple of GF_PANEL) come on one
 * thread, by rising columns; groups come in any order and at the same time. A visitor may write what belongs to the rows or to
 * `thread`. */
glofnd_status gf_sweep_rows(gf_error *err, const gf_panels *q, const gf_panels *k, int64_t group, const gf_sweep_job *job,
                            gf_strip_visit visit, void *user);
/* Packs rows and cols, once if they are the same, and visits them in groups of GF_SWEEP_GROUP. */
glofnd_status gf_sweep_vectors(gf_error *err, const gf_vectors *rows, const gf_vectors *cols, const gf_sweep_job *job,
                               gf_strip_visit visit, void *user);

size_t gf_sweep_bytes(int threads); /* scratch of a sweep */
struct gf_tile_ops;
/* The product of a strip: s [GF_PANEL][GF_STRIP_COLS], the rows of q from r0, the columns [c0, c0 + cols) of k. Both begin at a
 * panel. */
void gf_panels_product(const struct gf_tile_ops *ops, const gf_panels *q, int64_t r0, const gf_panels *k, int64_t c0, int cols,
                       float *s);

/* ----- rows that are read when they are needed ----- */

/* Embeddings that are read when they are needed, as many as fit into memory. */

typedef struct gf_row_source {
    /* x [rows][dim], rows `first` and following ones. By one thread at a time; mostly with rising `first`. */
    glofnd_status (*read)(gf_error *err, void *user, int64_t first, int64_t rows, float *x);
    void *user;
    int64_t n, dim;
} gf_row_source;

#define GF_ROW_PIECE 4096 /* rows that are read at once */

/* x [count][dim]: the rows row[0 .. count) of the source, in any order; they are read by rising number, neighbours together. */
glofnd_status gf_row_source_gather(gf_error *err, const gf_row_source *s, const int32_t *row, int64_t count, float *x);
/* Their unit vectors. piece: rows that are read at once, a multiple of GF_PANEL. */
glofnd_status gf_row_source_pack(gf_error *err, const gf_row_source *s, const int32_t *row, int64_t count, int64_t piece,
                                 int threads, gf_panels *out);
