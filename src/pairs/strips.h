/* strips.h - all similarities of many embeddings, strip by strip: 32 rows at a time, never rows x cols.
 *
 * Embeddings are kept once, packed for the product as its left and its right side. Every similarity is one chain of fused
 * multiply-adds, whose bits depend neither on the strip nor on which of the two is the row.
 */
#ifndef GF_PAIRS_STRIPS_H
#define GF_PAIRS_STRIPS_H

#include "ifc/pair_passes.h"
#include "util/job_progress.h"

typedef struct gf_panels {
    int64_t n, dim;
    float *x; /* [pad(n) / GF_PANEL][dim][GF_PANEL] unit vectors */
} gf_panels;

size_t gf_panels_bytes(int64_t n, int64_t dim);
/* Rows row[0..n) (NULL: all n) of x [][dim], made unit; they must be finite and not zero. */
glofnd_status gf_panels_pack(gf_error *err, const float *x, int64_t dim, const int32_t *row, int64_t n, int threads,
                             gf_panels *out);
void gf_panels_free(gf_panels *p); /* a zeroed one is fine */

typedef struct gf_strip {
    int64_t r0, c0;
    int rows, cols; /* rows <= GF_PANEL */
    int last;       /* gf_strips_rows: no more columns for these rows */
    const float *s; /* [rows][ld]; the columns up to pad(cols) can be read */
    size_t ld;
} gf_strip;

typedef void (*gf_strip_visit)(void *user, const gf_strip *s, int thread);

#define GF_STRIP_COLS 1024 /* at most */

/* Every pair row < col of p at least once, with others that must be passed over (col <= row). While a strip is visited, nobody
 * else has its rows or its columns: what belongs to either may be written. `block`: rows of a block, a multiple of GF_PANEL up to
 * GF_STRIP_COLS; 0: chosen. */
glofnd_status gf_strips_symmetric(gf_error *err, const gf_panels *p, int64_t block, int threads, const gf_job_progress *w,
                                  gf_strip_visit visit, void *user);
/* Every row of q with every column of k. The strips of `group` neighbouring rows (a multiple of GF_PANEL) come on one thread, by
 * rising columns. */
glofnd_status gf_strips_rows(gf_error *err, const gf_panels *q, const gf_panels *k, int64_t group, int threads,
                             const gf_job_progress *w, gf_strip_visit visit, void *user);

size_t gf_strips_bytes(int threads); /* scratch of both */

#endif
