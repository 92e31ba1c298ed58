/* decide_graph.c - graph.npz: the listed neighbours of every row as a sparse matrix in compressed rows; see decide_files.h.
 *
 * Cell (i, j) is the cosine distance 1 - similarity, at least 0, of neighbour j of row i. The nearest of a row comes first, as
 * programs that take a graph of neighbours expect. Bad rows have no cells.
 */
#include <stdlib.h>
#include <string.h>

#include "discover/decide_files.h"
#include "discover/npz_file.h"

enum { CELLS = 8192 };

static int64_t listed(const gf_pairs_found *f, int64_t i) {
    int64_t k = 0;
    while (k < f->top && f->other[i * f->top + k] >= 0) k++;
    return k;
}

typedef struct piece { /* cells on their way to the file */
    gf_npz *z;
    int element;
    size_t used;
    uint8_t bytes[CELLS * 8];
} piece;

static void flush(piece *p) {
    gf_npz_put(p->z, p->bytes, p->used);
    p->used = 0;
}

static void add(piece *p, uint64_t value) {
    if (p->used + 8 > sizeof p->bytes) flush(p);
    for (int b = 0; b < p->element; b++) p->bytes[p->used++] = (uint8_t)(value >> 8 * b);
}

static void put_indices(piece *p, const gf_discover_report *x) {
    const gf_pairs_found *f = &x->r->f;
    for (int64_t i = 0; i < f->n; i++)
        for (int64_t k = 0, end = listed(f, i); k < end; k++) add(p, (uint64_t)x->d->good[f->other[i * f->top + k]]);
    flush(p);
}

static void put_starts(piece *p, const gf_discover_report *x) {
    const gf_pairs_found *f = &x->r->f;
    int64_t cells = 0, i = 0;
    add(p, 0);
    for (int64_t row = 0; row < x->d->n; row++) {
        if (i < f->n && x->d->good[i] == row) cells += listed(f, i++);
        add(p, (uint64_t)cells);
    }
    flush(p);
}

static void put_distances(piece *p, const gf_discover_report *x) {
    const gf_pairs_found *f = &x->r->f;
    for (int64_t i = 0; i < f->n; i++)
        for (int64_t k = 0, end = listed(f, i); k < end; k++) {
            const float distance = 1.0f - f->similarity[i * f->top + k], cell = distance > 0.0f ? distance : 0.0f;
            uint32_t bits;
            memcpy(&bits, &cell, sizeof bits);
            add(p, bits);
        }
    flush(p);
}

glofnd_status gf_decide_write_graph(gf_error *err, const gf_output_folder *to, const gf_discover_report *x) {
    char path[PATH_MAX];
    gf_npz z;
    int64_t cells = 0;
    for (int64_t i = 0; i < x->r->f.n; i++) cells += listed(&x->r->f, i);
    const int wide = cells > INT32_MAX ? 8 : 4;
    const char *integer = wide == 8 ? "<i8" : "<i4";
    const int64_t n = x->d->n, starts = n + 1, two = 2;
    piece *p = malloc(sizeof *p);
    FAIL_IF(err, !p, GLOFND_E_MEMORY, "no memory for the graph of neighbours");
    glofnd_status status = gf_output_folder_path(err, to, "graph.npz", path);
    if (status == GLOFND_OK) status = gf_npz_open(err, &z, path);
    if (status == GLOFND_OK) {
        p->z = &z, p->used = 0, p->element = wide;
        gf_npz_entry(&z, "indices", integer, 1, &cells, (size_t)wide);
        put_indices(p, x);
        gf_npz_entry(&z, "indptr", integer, 1, &starts, (size_t)wide);
        put_starts(p, x);
        gf_npz_entry(&z, "format", "|S3", 0, NULL, 3);
        gf_npz_put(&z, "csr", 3);
        gf_npz_entry(&z, "shape", "<i8", 1, &two, 8);
        p->element = 8;
        add(p, (uint64_t)n), add(p, (uint64_t)n);
        flush(p);
        gf_npz_entry(&z, "data", "<f4", 1, &cells, 4);
        p->element = 4;
        put_distances(p, x);
        status = gf_npz_close(err, &z);
    }
    free(p);
    return status;
}
