/* unit_files.c - see unit_files.h. */
#include "discover/unit_files.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/blockfile.h"
#include "io/calls.h"
#include "pairs/best.h"
#include "util/array.h"
#include "util/components.h"
#include "util/text.h"

#define UNIT_MAGIC 0x54494e55u /* "UNIT" */
enum { UNIT_VERSION = 2 };     /* 1: cells of one level */

static const char *const names[] = {"pairs", "mutual", "centres", "cells", "recall", "rows"}; /* by gf_unit_kind */
enum { KINDS = sizeof names / sizeof *names };

int64_t gf_unit_rows(const gf_unit_folder *u, int64_t unit) { return GF_MIN(u->rows, u->n - unit * u->rows); }

int64_t gf_unit_count(const gf_unit_folder *u, gf_unit_kind kind) {
    if (kind == GF_UNIT_ROWS) return u->chunk ? (u->n + u->chunk - 1) / u->chunk : 0;
    return kind == GF_UNIT_CENTRES ? 1 : kind == GF_UNIT_RECALL ? u->samples : u->units;
}

glofnd_status gf_unit_path(gf_error *err, const gf_unit_folder *u, gf_unit_kind kind, int64_t unit, char path[]) {
    char name[40];
    snprintf(name, sizeof name, "%s-%06lld", names[kind], (long long)unit);
    return gf_path_join(err, path, u->path, name);
}

/* ----- head: the same in all files ----- */

static void put_head(gf_writer *w, const gf_unit_folder *u, int64_t kind, int64_t unit) {
    gf_put_u32(w, UNIT_MAGIC);
    gf_put_u32(w, UNIT_VERSION);
    gf_put_u64(w, u->fingerprint);
    gf_put_u64(w, (uint64_t)u->n);
    gf_put_u64(w, (uint64_t)u->rows);
    gf_put_u64(w, (uint64_t)kind);
    gf_put_u64(w, (uint64_t)unit);
    gf_put_crc(w);
}

static glofnd_status get_head(gf_reader *r, const gf_unit_folder *u, int64_t kind, int64_t unit) {
    const uint32_t magic = gf_get_u32(r), version = gf_get_u32(r);
    const uint64_t print = gf_get_u64(r), n = gf_get_u64(r), rows = gf_get_u64(r), what = gf_get_u64(r), number = gf_get_u64(r);
    TRY(gf_check_crc(r, "head", -1));
    FAIL_IF(r->err, magic != UNIT_MAGIC || version != UNIT_VERSION || what != (uint64_t)kind || number != (uint64_t)unit,
            GLOFND_E_FORMAT, "%.300s: not a part of a search, or of another version", r->path);
    FAIL_IF(r->err, print != u->fingerprint || n != (uint64_t)u->n || rows != (uint64_t)u->rows, GLOFND_E_ARGUMENT,
            "%.300s: of another search", r->path);
    return GLOFND_OK;
}

/* A file with its head; path: of the caller, until it is closed. */
static glofnd_status begin_file(gf_error *err, const gf_unit_folder *u, gf_unit_kind kind, int64_t unit, char path[PATH_MAX],
                                gf_writer *w) {
    TRY(gf_unit_path(err, u, kind, unit, path));
    TRY(gf_writer_open(err, w, path));
    put_head(w, u, kind, unit);
    return GLOFND_OK;
}

/* The same to read, with a head that is valid. Close it after success. */
static glofnd_status open_file(gf_error *err, const gf_unit_folder *u, gf_unit_kind kind, int64_t unit, char path[PATH_MAX],
                               gf_reader *r) {
    TRY(gf_unit_path(err, u, kind, unit, path));
    TRY(gf_reader_open(err, r, path));
    const glofnd_status status = get_head(r, u, kind, unit);
    if (status != GLOFND_OK) gf_reader_close(r);
    return status;
}

/* ----- joined anchors: all that do not stand alone, each with the smallest one ----- */

static void put_all_joins(gf_writer *w, int32_t *root, int64_t n) {
    uint64_t count = 0;
    gf_components_flatten(root, n);
    for (int64_t i = 0; i < n; i++) count += root[i] != i;
    gf_put_u64(w, count);
    for (int64_t i = 0; i < n; i++) {
        const int32_t pair[2] = {(int32_t)i, root[i]};
        if (root[i] != i) gf_put_words4(w, pair, 2);
    }
    gf_put_crc(w);
}

/* The same, of these nodes, which stand alone afterwards. */
static void put_joins(gf_writer *w, int32_t *root, int64_t n, gf_node_list *joined) {
    uint64_t count = 0;
    if (!joined) {
        put_all_joins(w, root, n);
        return;
    }
    gf_nodes_sort(joined);
    for (size_t i = 0; i < joined->count; i++) count += gf_components_find(root, joined->node[i]) != joined->node[i];
    gf_put_u64(w, count);
    for (size_t i = 0; i < joined->count; i++) {
        const int32_t pair[2] = {joined->node[i], gf_components_find(root, joined->node[i])};
        if (pair[0] != pair[1]) gf_put_words4(w, pair, 2);
    }
    for (size_t i = 0; i < joined->count; i++) root[joined->node[i]] = joined->node[i];
    joined->count = 0;
    gf_put_crc(w);
}

static glofnd_status get_joins(gf_reader *r, int32_t *root, int64_t n) {
    enum { SOME = 512 };
    int32_t pair[SOME][2];
    const uint64_t count = gf_get_u64(r);
    FAIL_IF(r->err, count > (uint64_t)n || count > gf_reader_left(r) / sizeof *pair, GLOFND_E_FORMAT,
            "%.300s: %llu joined anchors of %lld", r->path, (unsigned long long)count, (long long)n);
    for (uint64_t done = 0; done < count; done += SOME) {
        const uint64_t some = GF_MIN(count - done, (uint64_t)SOME);
        gf_get_words4(r, pair, 2 * some);
        for (uint64_t i = 0; i < some && r->status == GLOFND_OK; i++) {
            const int valid = pair[i][0] >= 0 && pair[i][0] < n && pair[i][1] >= 0 && pair[i][1] < n;
            FAIL_IF(r->err, !valid, GLOFND_E_FORMAT, "%.300s: an anchor that is none", r->path);
            if (root) gf_components_join(root, pair[i][0], pair[i][1]);
        }
    }
    return gf_check_crc(r, "joined anchors", -1);
}

/* ----- pairs ----- */

static void put_pairs(gf_writer *w, const gf_unit_folder *u, const gf_pairs_found *f) {
    const size_t rows = (size_t)f->n, cells = rows * (size_t)f->top, edges = rows * (size_t)f->edge;
    gf_put_u64(w, (uint64_t)f->top);
    gf_put_u64(w, (uint64_t)f->edge);
    if (u->cells) gf_put_u64(w, (uint64_t)f->compared);
    gf_put_words4(w, f->lambda, rows);
    gf_put_crc(w);
    gf_put_words8(w, f->above, rows);
    gf_put_words8(w, f->hits, rows);
    gf_put_words8(w, f->copies, rows);
    gf_put_words4(w, f->other, cells);
    gf_put_words4(w, f->similarity, cells);
    if (f->edge) gf_put_words4(w, f->edge_other, edges);
    if (f->edge) gf_put_words4(w, f->edge_similarity, edges);
    gf_put_crc(w);
}

/* Of every anchor those above its threshold. */
static void put_above(gf_writer *w, const gf_unit_folder *u, const gf_pairs_found *f, const uint64_t *above) {
    for (int64_t i = 0; i < f->n; i++) gf_put_words8(w, above + i * u->width, (size_t)f->above[i]);
    gf_put_crc(w);
}

/* f->above is known. */
static glofnd_status get_above(gf_reader *r, const gf_unit_folder *u, const gf_pairs_found *f, uint64_t *above) {
    uint64_t *row = above ? NULL : malloc((size_t)u->width * sizeof *row);
    FAIL_IF(r->err, !above && !row, GLOFND_E_MEMORY, "no memory for %lld pairs", (long long)u->width);
    int valid = 1;
    for (int64_t i = 0; i < f->n && valid; i++) {
        uint64_t *to = above ? above + i * u->width : row;
        valid = f->above[i] >= 0 && f->above[i] <= u->width;
        if (valid) gf_get_words8(r, to, (size_t)f->above[i]);
        for (int64_t k = 0; valid && k < f->above[i] && r->status == GLOFND_OK; k++) valid = gf_best_other(to[k]) < u->n;
    }
    free(row);
    FAIL_IF(r->err, !valid, GLOFND_E_FORMAT, "%.300s: a pair that is none", r->path);
    return gf_check_crc(r, "pairs above", -1);
}

glofnd_status gf_unit_write_pairs(gf_error *err, const gf_unit_folder *u, int64_t unit, const gf_pairs_found *found,
                                  int32_t *root, gf_node_list *joined, const uint64_t *above) {
    char path[PATH_MAX];
    gf_writer w;
    TRY(begin_file(err, u, GF_UNIT_PAIRS, unit, path, &w));
    put_pairs(&w, u, found);
    put_joins(&w, root, u->n, joined);
    if (u->width) put_above(&w, u, found, above);
    return gf_writer_finish(&w);
}

static int others_are_valid(const gf_unit_folder *u, const int32_t *other, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (other[i] < -1 || other[i] >= u->n) return 0;
    return 1;
}

static glofnd_status get_pairs(gf_reader *r, const gf_unit_folder *u, int64_t unit, gf_pairs_found *f, int32_t *root,
                               uint64_t *above) {
    const size_t rows = (size_t)gf_unit_rows(u, unit), cells = rows * (size_t)u->top, edges = rows * (size_t)u->edge;
    const uint64_t top = gf_get_u64(r), edge = gf_get_u64(r), compared = u->cells ? gf_get_u64(r) : 0;
    gf_get_words4(r, f->lambda, rows);
    TRY(gf_check_crc(r, "thresholds", -1));
    FAIL_IF(r->err, top != (uint64_t)u->top || edge != (uint64_t)u->edge, GLOFND_E_FORMAT, "%.300s: lists of another length",
            r->path);
    f->compared = (int64_t)compared;
    if (!f->above) return GLOFND_OK;
    gf_get_words8(r, f->above, rows);
    gf_get_words8(r, f->hits, rows);
    gf_get_words8(r, f->copies, rows);
    gf_get_words4(r, f->other, cells);
    gf_get_words4(r, f->similarity, cells);
    if (edges) gf_get_words4(r, f->edge_other, edges);
    if (edges) gf_get_words4(r, f->edge_similarity, edges);
    TRY(gf_check_crc(r, "pairs", -1));
    FAIL_IF(r->err, !others_are_valid(u, f->other, cells) || !others_are_valid(u, f->edge_other, edges), GLOFND_E_FORMAT,
            "%.300s: a neighbour that is none", r->path);
    TRY(get_joins(r, root, u->n));
    if (u->width) TRY(get_above(r, u, f, above));
    return gf_reader_end(r);
}

glofnd_status gf_unit_read_pairs(gf_error *err, const gf_unit_folder *u, int64_t unit, gf_pairs_found *found, int32_t *root,
                                 uint64_t *above) {
    char path[PATH_MAX];
    gf_reader r;
    TRY(open_file(err, u, GF_UNIT_PAIRS, unit, path, &r));
    const glofnd_status status = get_pairs(&r, u, unit, found, root, above);
    gf_reader_close(&r);
    return status;
}

/* ----- mutual pairs ----- */

glofnd_status gf_unit_write_mutual(gf_error *err, const gf_unit_folder *u, int64_t unit, const int64_t *mutual, int32_t *root,
                                   gf_node_list *joined) {
    char path[PATH_MAX];
    gf_writer w;
    TRY(begin_file(err, u, GF_UNIT_MUTUAL, unit, path, &w));
    gf_put_words8(&w, mutual, (size_t)gf_unit_rows(u, unit));
    gf_put_crc(&w);
    put_joins(&w, root, u->n, joined);
    return gf_writer_finish(&w);
}

glofnd_status gf_unit_read_mutual(gf_error *err, const gf_unit_folder *u, int64_t unit, int64_t *mutual, int32_t *root) {
    char path[PATH_MAX];
    gf_reader r;
    TRY(open_file(err, u, GF_UNIT_MUTUAL, unit, path, &r));
    gf_get_words8(&r, mutual, (size_t)gf_unit_rows(u, unit));
    glofnd_status status = gf_check_crc(&r, "mutual pairs", -1);
    if (status == GLOFND_OK) status = get_joins(&r, root, u->n);
    if (status == GLOFND_OK) status = gf_reader_end(&r);
    gf_reader_close(&r);
    return status;
}

/* ----- cells ----- */

static glofnd_status write_words(gf_error *err, const gf_unit_folder *u, gf_unit_kind kind, int64_t unit, const void *words,
                                 size_t count) {
    char path[PATH_MAX];
    gf_writer w;
    TRY(begin_file(err, u, kind, unit, path, &w));
    gf_put_words4(&w, words, count);
    gf_put_crc(&w);
    return gf_writer_finish(&w);
}

static glofnd_status read_words(gf_error *err, const gf_unit_folder *u, gf_unit_kind kind, int64_t unit, void *words,
                                size_t count) {
    char path[PATH_MAX];
    gf_reader r;
    TRY(open_file(err, u, kind, unit, path, &r));
    gf_get_words4(&r, words, count);
    glofnd_status status = gf_check_crc(&r, names[kind], -1);
    if (status == GLOFND_OK) status = gf_reader_end(&r);
    gf_reader_close(&r);
    return status;
}

glofnd_status gf_unit_write_centres(gf_error *err, const gf_unit_folder *u, const float *numbers) {
    return write_words(err, u, GF_UNIT_CENTRES, 0, numbers, (size_t)u->numbers);
}

glofnd_status gf_unit_read_centres(gf_error *err, const gf_unit_folder *u, float *numbers) {
    return read_words(err, u, GF_UNIT_CENTRES, 0, numbers, (size_t)u->numbers);
}

_Static_assert(sizeof(gf_cell_of) == 8, "two words");

glofnd_status gf_unit_write_cells(gf_error *err, const gf_unit_folder *u, int64_t unit, const gf_cell_of *of) {
    return write_words(err, u, GF_UNIT_CELLS, unit, of, 2 * (size_t)gf_unit_rows(u, unit));
}

glofnd_status gf_unit_read_cells(gf_error *err, const gf_unit_folder *u, int64_t unit, gf_cell_of *of) {
    const int64_t rows = gf_unit_rows(u, unit);
    TRY(read_words(err, u, GF_UNIT_CELLS, unit, of, 2 * (size_t)rows));
    for (int64_t i = 0; i < rows; i++)
        FAIL_IF(err, of[i].cell < 0 || of[i].cell >= u->cells || !isfinite(of[i].similarity), GLOFND_E_FORMAT,
                "%.300s: a cell that is none", u->path);
    return GLOFND_OK;
}

glofnd_status gf_unit_write_recall(gf_error *err, const gf_unit_folder *u, int64_t unit, const int64_t count[3]) {
    uint32_t half[6]; /* lower half first */
    for (int i = 0; i < 6; i++) half[i] = (uint32_t)((uint64_t)count[i / 2] >> (i % 2 ? 32 : 0));
    return write_words(err, u, GF_UNIT_RECALL, unit, half, 6);
}

glofnd_status gf_unit_read_recall(gf_error *err, const gf_unit_folder *u, int64_t unit, int64_t count[3]) {
    uint32_t half[6];
    TRY(read_words(err, u, GF_UNIT_RECALL, unit, half, 6));
    for (int i = 0; i < 3; i++) count[i] = (int64_t)((uint64_t)half[2 * i + 1] << 32 | half[2 * i]);
    return GLOFND_OK;
}

/* ----- ordered rows ----- */

size_t gf_unit_row_numbers(const gf_unit_folder *u, int64_t unit) {
    return (size_t)gf_pad(GF_MIN(u->chunk, u->n - unit * u->chunk)) * (size_t)u->dim;
}

/* Numbers as they are in memory, since they are mapped, from a memory page on. */
glofnd_status gf_unit_write_rows(gf_error *err, const gf_unit_folder *u, int64_t unit, const float *x) {
    static const unsigned char zeros[4096];
    char path[PATH_MAX];
    gf_writer w;
    TRY(begin_file(err, u, GF_UNIT_ROWS, unit, path, &w));
    while (w.status == GLOFND_OK && w.bytes < GF_UNIT_ROWS_AT) gf_put(&w, zeros, GF_MIN(sizeof zeros, GF_UNIT_ROWS_AT - w.bytes));
    gf_put(&w, x, gf_unit_row_numbers(u, unit) * sizeof *x);
    gf_put_crc(&w);
    return gf_writer_finish(&w);
}

static glofnd_status check_rows(const gf_unit_folder *u, int64_t unit) {
    unsigned char some[4096];
    char path[PATH_MAX];
    gf_reader r;
    TRY(open_file(NULL, u, GF_UNIT_ROWS, unit, path, &r));
    for (uint64_t left = GF_UNIT_ROWS_AT - r.offset + gf_unit_row_numbers(u, unit) * sizeof(float);
         left && r.status == GLOFND_OK;) {
        const size_t n = (size_t)GF_MIN(left, sizeof some);
        gf_get(&r, some, n);
        left -= n;
    }
    glofnd_status status = gf_check_crc(&r, "rows", -1);
    if (status == GLOFND_OK) status = gf_reader_end(&r);
    gf_reader_close(&r);
    return status;
}

/* ----- the folder ----- */

static int result_is_sound(const gf_unit_folder *u, gf_unit_kind kind, int64_t unit) {
    gf_pairs_found f = {0};
    const int64_t rows = gf_unit_rows(u, unit);
    glofnd_status status = gf_pairs_found_alloc(NULL, &f, rows, u->top);
    if (status == GLOFND_OK && u->edge) status = gf_pairs_found_edge(NULL, &f, u->edge);
    if (status == GLOFND_OK)
        status = kind == GF_UNIT_PAIRS ? gf_unit_read_pairs(NULL, u, unit, &f, NULL, NULL)
                                       : gf_unit_read_mutual(NULL, u, unit, f.mutual, NULL);
    gf_pairs_found_free(&f);
    return status == GLOFND_OK;
}

static int is_sound(const gf_unit_folder *u, gf_unit_kind kind, int64_t unit) {
    int64_t count[3];
    if (kind == GF_UNIT_PAIRS || kind == GF_UNIT_MUTUAL) return result_is_sound(u, kind, unit);
    if (kind == GF_UNIT_RECALL) return gf_unit_read_recall(NULL, u, unit, count) == GLOFND_OK;
    if (kind == GF_UNIT_ROWS) return check_rows(u, unit) == GLOFND_OK;
    const size_t words = kind == GF_UNIT_CELLS ? 2 * (size_t)gf_unit_rows(u, unit) : (size_t)u->numbers;
    void *all = malloc(words * sizeof(float));
    const int sound =
        all && (kind == GF_UNIT_CELLS ? gf_unit_read_cells(NULL, u, unit, all) : gf_unit_read_centres(NULL, u, all)) == GLOFND_OK;
    free(all);
    return sound;
}

int gf_unit_is_done(const gf_unit_folder *u, gf_unit_kind kind, int64_t unit, int check) {
    char path[PATH_MAX];
    if (gf_unit_path(NULL, u, kind, unit, path) != GLOFND_OK || access(path, F_OK) != 0) return 0;
    if (!check || is_sound(u, kind, unit)) return 1;
    unlink(path);
    return 0;
}

static int is_ours(const char *name) {
    for (int k = 0; k < KINDS; k++) {
        const size_t n = strlen(names[k]);
        if (strncmp(name, names[k], n) == 0 && name[n] == '-') return 1;
    }
    return strncmp(name, "plan", 4) == 0;
}

/* Files of a search: all of them, or only those that were not finished. */
static void remove_files(const char *folder, int unfinished_only) {
    char path[PATH_MAX];
    int error = 0;
    DIR *d = gf_open_folder(folder);
    if (!d) return;
    for (struct dirent *e; (e = gf_next_entry(d, &error));)
        if (is_ours(e->d_name) && (!unfinished_only || strstr(e->d_name, GF_TEMP_MARK)) &&
            gf_path_join(NULL, path, folder, e->d_name) == GLOFND_OK)
            unlink(path);
    closedir(d);
}

void gf_unit_folder_remove(const char *path) {
    remove_files(path, 0);
    rmdir(path);
}

static glofnd_status write_plan(gf_error *err, const gf_unit_folder *u, const char *path) {
    gf_writer w;
    TRY(gf_writer_open(err, &w, path));
    put_head(&w, u, -1, -1);
    return gf_writer_finish(&w);
}

glofnd_status gf_unit_folder_open(gf_error *err, const gf_unit_folder *u, int force) {
    char path[PATH_MAX];
    gf_reader r;
    TRY(gf_path_join(err, path, u->path, "plan"));
    remove_files(u->path, 1);
    if (access(path, F_OK) != 0) return write_plan(err, u, path);
    TRY(gf_reader_open(err, &r, path));
    const glofnd_status status = get_head(&r, u, -1, -1);
    gf_reader_close(&r);
    if (status == GLOFND_OK) return GLOFND_OK;
    FAIL_IF(
        err, !force, GLOFND_E_ARGUMENT,
        "'%.300s' holds parts of another search: other embeddings, options or version; continue that one, remove the folder, or "
        "--force",
        u->path);
    remove_files(u->path, 0);
    return write_plan(err, u, path);
}
