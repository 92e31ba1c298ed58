/* units.c - see units.h: a search in units, whose finished parts are files.
 *
 * The units that are missing are dealt out over ranks: every rank computes its share and writes it; then all wait, and the result is
 * read from the files, in their order. So it does not matter which rank, or which start of the program, made a unit.
 *
 * All pairs: in a first stage every unit gets its thresholds, neighbours and duplicates; in a second one, with all thresholds known,
 * its mutual pairs: from the pairs above that its file has, or, where those of all files would take more bytes than the memory, from
 * a second sweep.
 *
 * By cells: centroids; the cell of every row; then anchors lie in the order of cells, and each unit of them gets its thresholds,
 * neighbours and duplicates; with probed cells the recall; at last mutual pairs. A pair that only one of its ends has found is
 * mutual, too, if it is above both thresholds: so mutual pairs of a unit are looked for in the pairs above of all units. Where the
 * lists of neighbours have all of these, that is done with the whole result; else in a stage of its own, in which a rank goes through
 * all files once for as many units as fit into memory.
 */
#include "discover/units.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "discover/claims.h"
#include "io/blockfile.h"
#include "io/file.h"
#include "pairs/best.h"
#include "pairs/cells.h"
#include "pairs/pairs_search.h"
#include "util/array.h"
#include "util/components.h"
#include "util/parallel.h"
#include "util/text.h"

/* ---------- files of finished parts ---------- */

/* A unit is the result of some anchors. Every file is checked (io/blockfile.h), has the fingerprint of its search, and appears
 * whole or not at all:
 *   plan             the fingerprint
 *   claim-...        what a worker makes now (claims.h)
 *   pairs-NUMBER     thresholds, counts, neighbours and duplicates of a unit
 *   mutual-NUMBER    its mutual pairs
 * and of a search by cells, whose units have anchors in the order of cells:
 *   centres-000000   the centroids
 *   cells-NUMBER     the cell of some rows
 *   rows-NUMBER      unit vectors of some rows in the order of cells, where all of them do not fit into memory 
 *   recall-NUMBER    counts of some anchors that were compared with all rows
 */

typedef struct unit_folder {
    const char *path;
    uint64_t fingerprint; /* of embeddings and options */
    int64_t n, rows;      /* anchors; of a unit, but the last */
    int64_t units;
    int64_t top, below; /* length of the lists of an anchor */
    int64_t width;      /* others above its threshold at most, which are kept, too; 0: they are not */
    int64_t cells;      /* 0: not by cells */
    int64_t dim;        /* by cells: of a row */
    int64_t numbers;    /* by cells: gf_tree_numbers() */
    int64_t samples;    /* by cells: parts of the recall */
    int64_t chunk;      /* by cells: rows of a rows-NUMBER, but the last; 0: there are none */
} unit_folder;

typedef enum unit_kind { UNIT_PAIRS, UNIT_MUTUAL, UNIT_CENTRES, UNIT_CELLS, UNIT_RECALL, UNIT_ROWS } unit_kind;

#define UNIT_ROWS_AT 65536 /* where numbers of a rows-NUMBER begin: a multiple of a memory page, whatever the machine */

#define UNIT_MAGIC 0x54494e55u /* "UNIT" */
enum { UNIT_VERSION = 2 };     /* 1: cells of one level */

static const char *const unit_names[] = {"pairs", "mutual", "centres", "cells", "recall", "rows"}; /* by unit_kind */
enum { UNIT_KINDS = sizeof unit_names / sizeof *unit_names };

/* Anchors of a unit. */
static int64_t unit_rows(const unit_folder *u, int64_t unit) { return GF_MIN(u->rows, u->n - unit * u->rows); }

/* Files of this kind. */
static int64_t unit_count(const unit_folder *u, unit_kind kind) {
    if (kind == UNIT_ROWS) return u->chunk ? (u->n + u->chunk - 1) / u->chunk : 0;
    return kind == UNIT_CENTRES ? 1 : kind == UNIT_RECALL ? u->samples : u->units;
}

static glofnd_status unit_path(gf_error *err, const unit_folder *u, unit_kind kind, int64_t unit, char path[]) {
    char name[40];
    snprintf(name, sizeof name, "%s-%06lld", unit_names[kind], (long long)unit);
    return gf_path_join(err, path, u->path, name);
}

/* ----- head: the same in all files ----- */

static void put_head(gf_writer *w, const unit_folder *u, int64_t kind, int64_t unit) {
    gf_put_u32(w, UNIT_MAGIC);
    gf_put_u32(w, UNIT_VERSION);
    gf_put_u64(w, u->fingerprint);
    gf_put_u64(w, (uint64_t)u->n);
    gf_put_u64(w, (uint64_t)u->rows);
    gf_put_u64(w, (uint64_t)kind);
    gf_put_u64(w, (uint64_t)unit);
    gf_put_crc(w);
}

static glofnd_status get_head(gf_reader *r, const unit_folder *u, int64_t kind, int64_t unit) {
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
static glofnd_status begin_unit_file(gf_error *err, const unit_folder *u, unit_kind kind, int64_t unit, char path[PATH_MAX],
                                     gf_writer *w) {
    TRY(unit_path(err, u, kind, unit, path));
    TRY(gf_writer_open(err, w, path));
    put_head(w, u, kind, unit);
    return GLOFND_OK;
}

/* The same to read, with a head that is valid. Close it after success. */
static glofnd_status open_unit_file(gf_error *err, const unit_folder *u, unit_kind kind, int64_t unit, char path[PATH_MAX],
                                    gf_reader *r) {
    TRY(unit_path(err, u, kind, unit, path));
    TRY(gf_reader_open(err, r, path));
    const glofnd_status status = get_head(r, u, kind, unit);
    if (status != GLOFND_OK) gf_reader_close(r);
    return status;
}

/* ----- joined anchors: all that do not stand alone, each with the smallest one ----- */

/* joined NULL: of all nodes; else of these, which stand alone afterwards. */
static void put_joins(gf_writer *w, int32_t *root, int64_t n, gf_node_list *joined) {
    if (joined) gf_nodes_sort(joined); /* each once */
    const int64_t nodes = joined ? (int64_t)joined->count : n;
    uint64_t count = 0;
    for (int64_t i = 0; i < nodes; i++) {
        const int32_t node = joined ? joined->node[i] : (int32_t)i;
        count += gf_components_find(root, node) != node;
    }
    gf_put_u64(w, count);
    for (int64_t i = 0; i < nodes; i++) {
        const int32_t node = joined ? joined->node[i] : (int32_t)i, pair[2] = {node, gf_components_find(root, node)};
        if (pair[0] != pair[1]) gf_put_words4(w, pair, 2);
    }
    for (int64_t i = 0; joined && i < nodes; i++) root[joined->node[i]] = joined->node[i];
    if (joined) joined->count = 0;
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
            FAIL_IF(r->err, !valid, GLOFND_E_FORMAT, "%.300s: invalid anchor index", r->path);
            if (root) gf_components_join(root, pair[i][0], pair[i][1]);
        }
    }
    return gf_check_crc(r, "joined anchors", -1);
}

/* ----- pairs ----- */

/* A unit: found [rows of it]; above [rows][width], as of gf_stream_search. root [n]: what it joins; joined: the nodes of these joins, or
 * NULL: any. With `joined` each of these nodes stands alone in root afterwards, and only these are visited. */
static glofnd_status unit_write_pairs(gf_error *err, const unit_folder *u, int64_t unit, const gf_pairs_found *found,
                                      int32_t *root, gf_node_list *joined, const uint64_t *above) {
    char path[PATH_MAX];
    gf_writer w;
    TRY(begin_unit_file(err, u, UNIT_PAIRS, unit, path, &w));
    const size_t rows = (size_t)found->n, cells = rows * (size_t)found->top, edges = rows * (size_t)found->below;
    gf_put_u64(&w, (uint64_t)found->top);
    gf_put_u64(&w, (uint64_t)found->below);
    if (u->cells) gf_put_u64(&w, (uint64_t)found->compared);
    gf_put_words4(&w, found->lambda, rows);
    gf_put_crc(&w);
    gf_put_words8(&w, found->above, rows);
    gf_put_words8(&w, found->hits, rows);
    gf_put_words8(&w, found->copies, rows);
    gf_put_words4(&w, found->other, cells);
    gf_put_words4(&w, found->similarity, cells);
    if (found->below) gf_put_words4(&w, found->below_other, edges);
    if (found->below) gf_put_words4(&w, found->below_similarity, edges);
    gf_put_crc(&w);
    put_joins(&w, root, u->n, joined);
    if (u->width) {
        /* Of every anchor those above its threshold. */
        for (int64_t i = 0; i < found->n; i++) gf_put_words8(&w, above + i * u->width, (size_t)found->above[i]);
        gf_put_crc(&w);
    }
    return gf_writer_finish(&w);
}

static int others_are_valid(const unit_folder *u, const int32_t *other, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (other[i] < -1 || other[i] >= u->n) return 0;
    return 1;
}

static glofnd_status get_pairs(gf_reader *r, const unit_folder *u, int64_t unit, gf_pairs_found *f, int32_t *root,
                               uint64_t *above) {
    const size_t rows = (size_t)unit_rows(u, unit), cells = rows * (size_t)u->top, edges = rows * (size_t)u->below;
    const uint64_t top = gf_get_u64(r), below = gf_get_u64(r), compared = u->cells ? gf_get_u64(r) : 0;
    gf_get_words4(r, f->lambda, rows);
    TRY(gf_check_crc(r, "thresholds", -1));
    FAIL_IF(r->err, top != (uint64_t)u->top || below != (uint64_t)u->below, GLOFND_E_FORMAT, "%.300s: lists of another length",
            r->path);
    f->compared = (int64_t)compared;
    if (!f->above) return GLOFND_OK;
    gf_get_words8(r, f->above, rows);
    gf_get_words8(r, f->hits, rows);
    gf_get_words8(r, f->copies, rows);
    gf_get_words4(r, f->other, cells);
    gf_get_words4(r, f->similarity, cells);
    if (edges) gf_get_words4(r, f->below_other, edges);
    if (edges) gf_get_words4(r, f->below_similarity, edges);
    TRY(gf_check_crc(r, "pairs", -1));
    FAIL_IF(r->err, !others_are_valid(u, f->other, cells) || !others_are_valid(u, f->below_other, edges), GLOFND_E_FORMAT,
            "%.300s: invalid neighbour index", r->path);
    TRY(get_joins(r, root, u->n));
    if (u->width) {
        /* f->above is known. */
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
        FAIL_IF(r->err, !valid, GLOFND_E_FORMAT, "%.300s: invalid pair", r->path);
        TRY(gf_check_crc(r, "pairs above", -1));
    }
    return gf_reader_end(r);
}

/* found->above NULL: only thresholds are wanted. root NULL: what it joins is not. above [rows][width] or NULL. */
static glofnd_status unit_read_pairs(gf_error *err, const unit_folder *u, int64_t unit, gf_pairs_found *found, int32_t *root,
                                     uint64_t *above) {
    char path[PATH_MAX];
    gf_reader r;
    TRY(open_unit_file(err, u, UNIT_PAIRS, unit, path, &r));
    const glofnd_status status = get_pairs(&r, u, unit, found, root, above);
    gf_reader_close(&r);
    return status;
}

/* ----- mutual pairs ----- */

static glofnd_status unit_write_mutual(gf_error *err, const unit_folder *u, int64_t unit, const int64_t *mutual, int32_t *root,
                                       gf_node_list *joined) {
    char path[PATH_MAX];
    gf_writer w;
    TRY(begin_unit_file(err, u, UNIT_MUTUAL, unit, path, &w));
    gf_put_words8(&w, mutual, (size_t)unit_rows(u, unit));
    gf_put_crc(&w);
    put_joins(&w, root, u->n, joined);
    return gf_writer_finish(&w);
}

static glofnd_status unit_read_mutual(gf_error *err, const unit_folder *u, int64_t unit, int64_t *mutual, int32_t *root) {
    char path[PATH_MAX];
    gf_reader r;
    TRY(open_unit_file(err, u, UNIT_MUTUAL, unit, path, &r));
    gf_get_words8(&r, mutual, (size_t)unit_rows(u, unit));
    glofnd_status status = gf_check_crc(&r, "mutual pairs", -1);
    if (status == GLOFND_OK) status = get_joins(&r, root, u->n);
    if (status == GLOFND_OK) status = gf_reader_end(&r);
    gf_reader_close(&r);
    return status;
}

/* ----- cells ----- */

static glofnd_status write_words(gf_error *err, const unit_folder *u, unit_kind kind, int64_t unit, const void *words,
                                 size_t count) {
    char path[PATH_MAX];
    gf_writer w;
    TRY(begin_unit_file(err, u, kind, unit, path, &w));
    gf_put_words4(&w, words, count);
    gf_put_crc(&w);
    return gf_writer_finish(&w);
}

static glofnd_status read_words(gf_error *err, const unit_folder *u, unit_kind kind, int64_t unit, void *words, size_t count) {
    char path[PATH_MAX];
    gf_reader r;
    TRY(open_unit_file(err, u, kind, unit, path, &r));
    gf_get_words4(&r, words, count);
    glofnd_status status = gf_check_crc(&r, unit_names[kind], -1);
    if (status == GLOFND_OK) status = gf_reader_end(&r);
    gf_reader_close(&r);
    return status;
}

static glofnd_status unit_read_centres(gf_error *err, const unit_folder *u, float *numbers) {
    return read_words(err, u, UNIT_CENTRES, 0, numbers, (size_t)u->numbers);
}

_Static_assert(sizeof(gf_cell_of) == 8, "two words");

static glofnd_status unit_read_cells(gf_error *err, const unit_folder *u, int64_t unit, gf_cell_of *of) {
    const int64_t rows = unit_rows(u, unit);
    TRY(read_words(err, u, UNIT_CELLS, unit, of, 2 * (size_t)rows));
    for (int64_t i = 0; i < rows; i++)
        FAIL_IF(err, of[i].cell < 0 || of[i].cell >= u->cells || !isfinite(of[i].similarity), GLOFND_E_FORMAT,
                "%.300s: invalid cell index", u->path);
    return GLOFND_OK;
}

static glofnd_status unit_read_recall(gf_error *err, const unit_folder *u, int64_t unit, int64_t count[3]) {
    uint32_t half[6];
    TRY(read_words(err, u, UNIT_RECALL, unit, half, 6));
    for (int i = 0; i < 3; i++) count[i] = (int64_t)((uint64_t)half[2 * i + 1] << 32 | half[2 * i]);
    return GLOFND_OK;
}

/* ----- ordered rows ----- */

static size_t unit_row_numbers(const unit_folder *u, int64_t unit) {
    return (size_t)gf_pad(GF_MIN(u->chunk, u->n - unit * u->chunk)) * (size_t)u->dim;
}

/* Numbers as they are in memory, since they are mapped, from a memory page on. */
static glofnd_status unit_write_rows(gf_error *err, const unit_folder *u, int64_t unit, const float *x) {
    static const unsigned char zeros[4096];
    char path[PATH_MAX];
    gf_writer w;
    TRY(begin_unit_file(err, u, UNIT_ROWS, unit, path, &w));
    while (w.status == GLOFND_OK && w.bytes < UNIT_ROWS_AT) gf_put(&w, zeros, GF_MIN(sizeof zeros, UNIT_ROWS_AT - w.bytes));
    gf_put(&w, x, unit_row_numbers(u, unit) * sizeof *x);
    gf_put_crc(&w);
    return gf_writer_finish(&w);
}

static glofnd_status check_rows_file(const unit_folder *u, int64_t unit) {
    unsigned char some[4096];
    char path[PATH_MAX];
    gf_reader r;
    TRY(open_unit_file(NULL, u, UNIT_ROWS, unit, path, &r));
    for (uint64_t left = UNIT_ROWS_AT - r.offset + unit_row_numbers(u, unit) * sizeof(float); left && r.status == GLOFND_OK;) {
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

static int unit_is_sound(const unit_folder *u, unit_kind kind, int64_t unit) {
    int64_t count[3];
    if (kind == UNIT_PAIRS || kind == UNIT_MUTUAL) {
        gf_pairs_found f = {0};
        const int64_t rows = unit_rows(u, unit);
        glofnd_status status = gf_pairs_found_alloc(NULL, &f, rows, u->top);
        if (status == GLOFND_OK && u->below) status = gf_pairs_found_below(NULL, &f, u->below);
        if (status == GLOFND_OK)
            status = kind == UNIT_PAIRS ? unit_read_pairs(NULL, u, unit, &f, NULL, NULL)
                                        : unit_read_mutual(NULL, u, unit, f.mutual, NULL);
        gf_pairs_found_free(&f);
        return status == GLOFND_OK;
    }
    if (kind == UNIT_RECALL) return unit_read_recall(NULL, u, unit, count) == GLOFND_OK;
    if (kind == UNIT_ROWS) return check_rows_file(u, unit) == GLOFND_OK;
    const size_t words = kind == UNIT_CELLS ? 2 * (size_t)unit_rows(u, unit) : (size_t)u->numbers;
    void *all = malloc(words * sizeof(float));
    const int sound =
        all && (kind == UNIT_CELLS ? unit_read_cells(NULL, u, unit, all) : unit_read_centres(NULL, u, all)) == GLOFND_OK;
    free(all);
    return sound;
}

/* 1: the unit is there. check: it was read and found sound; a corrupt one is removed. */
static int unit_is_done(const unit_folder *u, unit_kind kind, int64_t unit, int check) {
    char path[PATH_MAX];
    if (unit_path(NULL, u, kind, unit, path) != GLOFND_OK || access(path, F_OK) != 0) return 0;
    if (!check || unit_is_sound(u, kind, unit)) return 1;
    unlink(path);
    return 0;
}

/* Files of a search: all of them, or only those that were not finished. */
static void remove_unit_files(const char *folder, int unfinished_only) {
    char path[PATH_MAX];
    int error = 0;
    DIR *d = gf_open_folder(folder);
    if (!d) return;
    for (struct dirent *e; (e = gf_next_entry(d, &error));) {
        int own = strncmp(e->d_name, "plan", 4) == 0 || strncmp(e->d_name, "claim-", 6) == 0;
        for (int k = 0; k < UNIT_KINDS; k++) {
            const size_t n = strlen(unit_names[k]);
            own |= strncmp(e->d_name, unit_names[k], n) == 0 && e->d_name[n] == '-';
        }
        if (own && (!unfinished_only || strstr(e->d_name, GF_TEMP_MARK)) &&
            gf_path_join(NULL, path, folder, e->d_name) == GLOFND_OK)
            unlink(path);
    }
    closedir(d);
}

void gf_unit_folder_remove(const char *path) {
    remove_unit_files(path, 0);
    rmdir(path);
}

static glofnd_status write_plan(gf_error *err, const unit_folder *u, const char *path) {
    gf_writer w;
    TRY(gf_writer_open(err, &w, path));
    put_head(&w, u, -1, -1);
    return gf_writer_finish(&w);
}

/* ----- ordered rows that are too many for memory ----- */

static glofnd_status map_part(gf_error *err, const unit_folder *u, int64_t part, float *to) {
    const size_t bytes = unit_row_numbers(u, part) * sizeof *to;
    char path[PATH_MAX];
    struct stat st;
    TRY(unit_path(err, u, UNIT_ROWS, part, path));
    const int fd = gf_open(path, O_RDONLY | O_CLOEXEC, 0);
    FAIL_IF(err, fd < 0, GLOFND_E_IO, "'%.300s' cannot be opened", path);
    const int whole = fstat(fd, &st) == 0 && (uint64_t)st.st_size == UNIT_ROWS_AT + bytes + sizeof(uint32_t);
    const void *at = whole ? mmap(to, bytes, PROT_READ, MAP_SHARED | MAP_FIXED, fd, UNIT_ROWS_AT) : MAP_FAILED;
    gf_close(fd);
    FAIL_IF(err, !whole, GLOFND_E_FORMAT, "'%.300s' has another size than it should: all ranks need the same memory", path);
    FAIL_IF(err, at == MAP_FAILED, GLOFND_E_IO, "'%.300s' cannot be mapped", path);
    return GLOFND_OK;
}

static void unit_unmap_rows(gf_panels *all) {
    if (all->x) munmap(all->x, gf_panels_bytes(all->n, all->dim));
    *all = (gf_panels){0};
}

/* ---------- stages, whatever a unit is ---------- */

typedef struct unit_batch { /* mutual pairs of some units */
    int64_t first, end;     /* units */
    uint64_t *pair;         /* place behind that of the first unit << 32 | position of the other one; sorted, each once */
    size_t count, capacity;
} unit_batch;

typedef struct unit_job {
    const gf_discover_spec *s;
    const gf_units *u;
    gf_pairs_task t;
    void *stream;          /* of s->search->stream */
    gf_cells_stream cells; /* where the search has none */
    unit_batch batch;      /* by cells */
    unit_folder folder;
    float *lambda;       /* [n] by position */
    int32_t *root;       /* [n] of one unit */
    gf_node_list joined; /* by cells: nodes of root that do not stand alone */
    int lock;            /* of the folder; -1: none */
} unit_job;

typedef struct unit_stage {
    unit_kind kind;
    glofnd_status (*make)(gf_error *err, unit_job *j, int64_t unit); /* computes a unit and writes it */
    double from, to;                                                 /* its part of the whole, for the progress */
} unit_stage;

enum { UNIT_MIN = 1024, UNIT_MAX = 65536 }; /* rows of a unit */
enum { UNITS = 64, UNITS_MAX = 256 };       /* how many there are to be, at least; by cells, at most */

static glofnd_status unit_agree(gf_error *err, const gf_units *u, glofnd_status mine) {
    return u->agree ? u->agree(err, u->user, mine) : mine;
}

/* A result of `rows` anchors, and above [rows][width], if they are kept. */
static glofnd_status unit_result_alloc(gf_error *err, const unit_job *j, int64_t rows, gf_pairs_found *f, uint64_t **above) {
    TRY(gf_pairs_found_alloc(err, f, rows, j->t.top));
    if (j->t.below) TRY(gf_pairs_found_below(err, f, j->t.below));
    if (!above) return GLOFND_OK;
    *above = j->folder.width ? malloc((size_t)rows * (size_t)j->folder.width * sizeof **above) : NULL;
    FAIL_IF(err, j->folder.width && !*above, GLOFND_E_MEMORY, "no memory for the pairs of %lld anchors", (long long)rows);
    return GLOFND_OK;
}

/* Computes thresholds, neighbours and duplicates of a unit, and writes them. */
static glofnd_status make_pairs(gf_error *err, unit_job *j, int64_t unit) {
    const int64_t first = unit * j->folder.rows;
    gf_pairs_found f = {0};
    uint64_t *above = NULL;
    glofnd_status status = unit_result_alloc(err, j, unit_rows(&j->folder, unit), &f, &above);
    if (status == GLOFND_OK && j->stream) {
        gf_components_init(j->root, j->folder.n);
        status = j->s->search->stream->thresholds(err, j->stream, &j->t, first, f.n, &f, j->root, above);
    } else if (status == GLOFND_OK) {
        status = gf_cells_stream_pairs(err, &j->cells, &j->t, first, f.n, &f, j->root, &j->joined, above);
    }
    if (status == GLOFND_OK && j->stream && j->t.only_dup) {
        /* A search over all pairs of which only duplicates are wanted: nothing has a threshold, nothing else is listed. */
        for (int64_t i = 0; i < f.n; i++) f.lambda[i] = INFINITY, f.above[i] = f.hits[i] = 0;
        for (int64_t i = 0; i < f.n * f.top; i++)
            if (!(f.similarity[i] >= j->t.dup)) f.other[i] = -1, f.similarity[i] = NAN;
    }
    if (status == GLOFND_OK) status = unit_write_pairs(err, &j->folder, unit, &f, j->root, j->stream ? NULL : &j->joined, above);
    gf_pairs_found_free(&f);
    free(above);
    return status;
}

/* Thresholds of all anchors, from the files of their units. */
static glofnd_status read_thresholds(gf_error *err, unit_job *j) {
    float *lambda = malloc((size_t)j->folder.rows * sizeof *lambda);
    glofnd_status status = lambda ? GLOFND_OK : gf_fail(err, GLOFND_E_MEMORY, "no memory for thresholds");
    for (int64_t i = 0; i < j->folder.units && status == GLOFND_OK; i++) {
        gf_pairs_found only = {.n = unit_rows(&j->folder, i), .lambda = lambda};
        status = unit_read_pairs(err, &j->folder, i, &only, NULL, NULL);
        for (int64_t r = 0; r < only.n && status == GLOFND_OK; r++) {
            const int64_t place = i * j->folder.rows + r;
            j->lambda[j->stream ? place : j->cells.c.order[place]] = lambda[r];
        }
    }
    free(lambda);
    return status;
}

/* By cells: the pair of the anchors at positions a and b belongs to the batch if a does. */
static glofnd_status add_mutual(gf_error *err, unit_job *j, int64_t a, int64_t b) {
    unit_batch *t = &j->batch;
    const int64_t from = t->first * j->folder.rows, place = j->cells.place[a];
    if (place < from || place >= t->end * j->folder.rows) return GLOFND_OK;
    FAIL_IF(err, !gf_grow(&t->pair, &t->capacity, t->count + 1, sizeof *t->pair), GLOFND_E_MEMORY,
            "no memory for the mutual pairs of %lld anchors", (long long)((t->end - t->first) * j->folder.rows));
    t->pair[t->count++] = (uint64_t)(place - from) << 32 | (uint64_t)b;
    return GLOFND_OK;
}

/* The pairs of a unit's file that are above both thresholds: counted in mutual [rows of the unit] and joined; NULL: added to the
 * batch of cells, from either end. */
static glofnd_status read_mutual_pairs(gf_error *err, unit_job *j, int64_t unit, int64_t *mutual) {
    gf_pairs_found f = {0};
    uint64_t *above = NULL;
    const int64_t rows = unit_rows(&j->folder, unit), width = j->folder.width;
    glofnd_status status = unit_result_alloc(err, j, rows, &f, &above);
    if (status == GLOFND_OK) status = unit_read_pairs(err, &j->folder, unit, &f, NULL, above);
    for (int64_t i = 0; i < rows && status == GLOFND_OK; i++)
        for (int64_t k = 0; k < f.above[i] && status == GLOFND_OK; k++) {
            const int64_t place = unit * j->folder.rows + i, other = gf_best_other(above[i * width + k]);
            if (!(gf_best_value(above[i * width + k]) > j->lambda[other])) continue;
            if (mutual) {
                mutual[i]++;
                gf_components_join(j->root, (int32_t)place, (int32_t)other);
            } else {
                const int64_t self = j->cells.c.order[place];
                status = add_mutual(err, j, self, other);
                if (status == GLOFND_OK) status = add_mutual(err, j, other, self);
            }
        }
    gf_pairs_found_free(&f);
    free(above);
    return status;
}

/* ----- workers ----- */

enum { POLL_MS = 200 }; /* between two looks at the units of other workers */

typedef struct renewal { /* progress of a unit, which also renews the claim on it */
    const gf_job_progress *watch;
    gf_claims *claims;
} renewal;

static void renew_claim(void *user, const char *stage, double share) {
    const renewal *x = user;
    gf_claim_renew(x->claims);
    if (x->watch->progress) x->watch->progress(x->watch->user, stage, share);
}

/* A worker makes units that no other one works on, until all are there. Parts of dead workers are made again once their claims are
 * old; a worker that waits for others has nothing else to do, as the next stage needs all units of this one. */
static glofnd_status make_free_units(gf_error *err, unit_job *j, const unit_stage *stage, int64_t units, uint8_t *done,
                                     gf_claims *c) {
    const gf_job_progress whole = gf_job_part(&j->s->task.watch, stage->from, stage->to);
    renewal r = {&j->s->task.watch, c};
    for (;;) {
        int64_t there = 0, made = 0;
        for (int64_t i = 0; i < units; i++) there += done[i];
        for (int64_t i = 0; i < units; i++) {
            FAIL_IF(err, gf_job_stopped(&whole), GLOFND_E_CANCELLED, "cancelled");
            if (done[i]) continue;
            const int mine = unit_is_done(&j->folder, stage->kind, i, 0) ? 0 : gf_claim(err, c, unit_names[stage->kind], i);
            if (mine < 0) return GLOFND_E_IO;
            done[i] = (uint8_t)unit_is_done(&j->folder, stage->kind, i, 0); /* also by one that dropped its claim just before */
            if (mine && !done[i]) {
                j->t.watch = gf_job_part(&whole, (double)there / (double)units, (double)(there + 1) / (double)units);
                j->t.watch.progress = renew_claim, j->t.watch.user = &r;
                TRY(stage->make(err, j, i));
                done[i] = 1, made++;
            }
            if (mine) gf_claim_drop(c);
            there += done[i];
            gf_job_report(&whole, (double)there / (double)units);
        }
        if (there == units) return GLOFND_OK;
        if (!made) nanosleep(&(struct timespec){.tv_nsec = POLL_MS * 1000000}, NULL);
    }
}

static glofnd_status work_on_stage(gf_error *err, unit_job *j, const unit_stage *stage, int64_t units, uint8_t *done) {
    gf_claims c;
    TRY(gf_claims_open(err, &c, j->folder.path, units, j->u->patience));
    const glofnd_status status = make_free_units(err, j, stage, units, done, &c);
    gf_claims_close(&c);
    j->t.watch = j->s->task.watch;
    return status;
}

/* ----- stages ----- */

/* Computes this rank's share of the missing units. */
static glofnd_status make_units(gf_error *err, unit_job *j, const unit_stage *stage, int64_t units, const uint8_t *done) {
    const gf_job_progress whole = gf_job_part(&j->s->task.watch, stage->from, stage->to);
    int64_t missing = 0, mine = 0, made = 0;
    for (int64_t i = 0; i < units; i++)
        if (!done[i]) mine += missing++ % j->u->ranks == j->u->rank;
    missing = 0;
    for (int64_t i = 0; i < units; i++) {
        if (done[i] || missing++ % j->u->ranks != j->u->rank) continue;
        j->t.watch = gf_job_part(&whole, (double)made / (double)mine, (double)(made + 1) / (double)mine);
        TRY(stage->make(err, j, i));
        made++;
    }
    return GLOFND_OK;
}

/* Units that are there. Rank 0 checks them and removes corrupt ones; the others wait for that. Workers do not: others may use them. */
static glofnd_status find_done_units(gf_error *err, const unit_job *j, unit_kind kind, int64_t units, uint8_t *done) {
    for (int64_t i = 0; j->u->rank == 0 && !j->u->worker && i < units; i++) unit_is_done(&j->folder, kind, i, 1);
    TRY(unit_agree(err, j->u, GLOFND_OK));
    for (int64_t i = 0; i < units; i++) done[i] = (uint8_t)unit_is_done(&j->folder, kind, i, 0);
    return unit_agree(err, j->u, GLOFND_OK); /* none is written before all have looked */
}

/* *all: 1: all units of a kind are there. */
static glofnd_status unit_stage_is_done(gf_error *err, const unit_job *j, unit_kind kind, int *all) {
    const int64_t units = unit_count(&j->folder, kind);
    uint8_t *done = calloc((size_t)units + 1, 1);
    glofnd_status status = unit_agree(err, j->u, done ? GLOFND_OK : gf_fail(err, GLOFND_E_MEMORY, "no memory for units"));
    if (status == GLOFND_OK) status = find_done_units(err, j, kind, units, done);
    *all = status == GLOFND_OK;
    for (int64_t i = 0; *all && i < units; i++) *all = done[i];
    free(done);
    return status;
}

/* All ranks make the units that are missing, and wait for each other. */
static glofnd_status unit_run_stage(gf_error *err, unit_job *j, const unit_stage *stage) {
    const int64_t units = unit_count(&j->folder, stage->kind);
    int64_t count = 0;
    uint8_t *done = calloc((size_t)units + 1, 1);
    glofnd_status status = unit_agree(err, j->u, done ? GLOFND_OK : gf_fail(err, GLOFND_E_MEMORY, "no memory for units"));
    if (status == GLOFND_OK) status = find_done_units(err, j, stage->kind, units, done);
    for (int64_t i = 0; status == GLOFND_OK && i < units; i++) count += done[i];
    /* In how many chunks the rows pass by each unit; 0: they are in the folder. */
    if (status == GLOFND_OK && stage->kind == UNIT_PAIRS && j->u->report && j->u->rank == 0)
        j->u->report(j->u->user, units, count,
                     j->stream ? j->s->search->stream->chunks(j->stream) : gf_cells_stream_fits(&j->cells));
    if (status == GLOFND_OK && j->u->worker) status = work_on_stage(err, j, stage, units, done);
    else if (status == GLOFND_OK) status = unit_agree(err, j->u, make_units(err, j, stage, units, done));
    free(done);
    return status;
}

/* ---------- all pairs ---------- */

static glofnd_status make_stream_mutual(gf_error *err, unit_job *j, int64_t unit) {
    const int64_t rows = unit_rows(&j->folder, unit);
    int64_t *mutual = calloc((size_t)rows, sizeof *mutual);
    FAIL_IF(err, !mutual, GLOFND_E_MEMORY, "no memory for %lld anchors", (long long)rows);
    gf_components_init(j->root, j->folder.n);
    glofnd_status status =
        j->t.only_dup     ? GLOFND_OK
        : j->folder.width ? read_mutual_pairs(err, j, unit, mutual)
                          : j->s->search->stream->mutual(err, j->stream, &j->t, unit * j->folder.rows, rows, mutual, j->root);
    if (status == GLOFND_OK) status = unit_write_mutual(err, &j->folder, unit, mutual, j->root, NULL);
    free(mutual);
    return status;
}

/* ---------- by cells ---------- */

enum { SAMPLE_UNIT = 256 }; /* anchors of the sample for the recall in a unit */

static void close_ordered_rows(unit_job *j) {
    if (j->folder.chunk) unit_unmap_rows(&j->cells.all);
    else gf_panels_free(&j->cells.all);
}

/* ----- cells ----- */

static glofnd_status make_centres(gf_error *err, unit_job *j, int64_t unit) {
    const gf_sweep_job job = {.threads = j->s->task.threads, .watch = j->t.watch};
    float *numbers = malloc((size_t)j->folder.numbers * sizeof *numbers);
    (void)unit;
    FAIL_IF(err, !numbers, GLOFND_E_MEMORY, "no memory for centroids");
    glofnd_status status = gf_cells_stream_centres(err, &j->cells, &job, numbers);
    if (status == GLOFND_OK) status = write_words(err, &j->folder, UNIT_CENTRES, 0, numbers, (size_t)j->folder.numbers);
    free(numbers);
    return status;
}

static glofnd_status read_centres(gf_error *err, unit_job *j) {
    float *numbers = malloc((size_t)j->folder.numbers * sizeof *numbers);
    FAIL_IF(err, !numbers, GLOFND_E_MEMORY, "no memory for centroids");
    glofnd_status status = unit_read_centres(err, &j->folder, numbers);
    if (status == GLOFND_OK) status = gf_cells_stream_begin(err, &j->cells, numbers);
    if (status == GLOFND_OK) status = gf_cells_surround(err, &j->cells.c, GF_MAX(j->t.probe, 1), j->s->task.threads);
    free(numbers);
    return status;
}

static glofnd_status make_cells(gf_error *err, unit_job *j, int64_t unit) {
    const gf_sweep_job job = {.threads = j->s->task.threads, .watch = j->t.watch};
    const int64_t rows = unit_rows(&j->folder, unit);
    gf_cell_of *of = malloc((size_t)rows * sizeof *of);
    FAIL_IF(err, !of, GLOFND_E_MEMORY, "no memory for %lld rows", (long long)rows);
    glofnd_status status = gf_cells_stream_assign(err, &j->cells, unit * j->folder.rows, rows, &job, of);
    if (status == GLOFND_OK) status = write_words(err, &j->folder, UNIT_CELLS, unit, of, 2 * (size_t)unit_rows(&j->folder, unit));
    free(of);
    return status;
}

static glofnd_status read_cells(gf_error *err, unit_job *j) {
    gf_cell_of *of = malloc((size_t)j->folder.n * sizeof *of);
    glofnd_status status = of ? GLOFND_OK : gf_fail(err, GLOFND_E_MEMORY, "no memory for %lld rows", (long long)j->folder.n);
    for (int64_t i = 0; i < j->folder.units && status == GLOFND_OK; i++)
        status = unit_read_cells(err, &j->folder, i, of + i * j->folder.rows);
    if (status == GLOFND_OK) status = gf_cells_stream_sort(err, &j->cells, of);
    free(of);
    return status;
}

/* ----- rows in the order of cells ----- */

/* Places [first, first + rows); *x is malloc'ed. */
static glofnd_status order_rows(gf_error *err, unit_job *j, int64_t first, int64_t rows, float **x) {
    *x = aligned_alloc(64, gf_panels_bytes(rows, j->folder.dim));
    FAIL_IF(err, !*x, GLOFND_E_MEMORY, "no memory for %lld x %lld embeddings", (long long)rows, (long long)j->folder.dim);
    return gf_cells_stream_order(err, &j->cells, first, rows, &j->t.watch, *x);
}

static glofnd_status make_ordered_rows(gf_error *err, unit_job *j, int64_t unit) {
    const int64_t first = unit * j->folder.chunk;
    float *x = NULL;
    glofnd_status status = order_rows(err, j, first, GF_MIN(j->folder.chunk, j->folder.n - first), &x);
    if (status == GLOFND_OK) status = unit_write_rows(err, &j->folder, unit, x);
    free(x);
    return status;
}

/* In memory, or mapped. */
static glofnd_status open_ordered_rows(gf_error *err, unit_job *j) {
    if (j->folder.chunk) {
        /* Files of ordered rows are mapped one behind the other, so that they are one array; the system keeps in memory what is
         * used, and as much as it can. */
        const unit_folder *u = &j->folder;
        gf_panels *all = &j->cells.all;
        const int64_t parts = unit_count(u, UNIT_ROWS);
        const size_t bytes = ((size_t)(parts - 1) * (size_t)(u->chunk * u->dim) + unit_row_numbers(u, parts - 1)) * sizeof(float);
        void *x = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0); /* addresses without memory */
        FAIL_IF(err, x == MAP_FAILED, GLOFND_E_MEMORY, "no addresses for %lld x %lld embeddings", (long long)u->n,
                (long long)u->dim);
        *all = (gf_panels){.n = u->n, .dim = u->dim, .x = x};
        for (int64_t part = 0; part < parts; part++) {
            const glofnd_status status = map_part(err, u, part, all->x + part * u->chunk * u->dim);
            if (status == GLOFND_OK) continue;
            unit_unmap_rows(all);
            return status;
        }
        return GLOFND_OK;
    }
    j->t.watch = gf_job_part(&j->s->task.watch, 0.25, 0.28);
    j->cells.all = (gf_panels){.n = j->folder.n, .dim = j->folder.dim};
    return order_rows(err, j, 0, j->folder.n, &j->cells.all.x);
}

/* ----- recall ----- */

static glofnd_status make_recall(gf_error *err, unit_job *j, int64_t unit) {
    gf_pairs_found f = {0};
    const int64_t first = unit * SAMPLE_UNIT, all = gf_cell_sample(j->folder.n);
    TRY(gf_cells_stream_recall(err, &j->cells, &j->t, first, GF_MIN(SAMPLE_UNIT, all - first), &f));
    const int64_t count[3] = {f.sampled, f.wanted, f.recalled};
    uint32_t half[6]; /* lower half first */
    for (int i = 0; i < 6; i++) half[i] = (uint32_t)((uint64_t)count[i / 2] >> (i % 2 ? 32 : 0));
    return write_words(err, &j->folder, UNIT_RECALL, unit, half, 6);
}

/* ----- mutual pairs ----- */

static int by_pair(const void *x, const void *y) {
    const uint64_t a = *(const uint64_t *)x, b = *(const uint64_t *)y;
    return (a > b) - (a < b);
}

/* First pair of the batch at a place that is not below `place`. */
static size_t first_pair_of(const unit_batch *t, int64_t place) {
    size_t low = 0, high = t->count;
    while (low < high) {
        const size_t mid = low + (high - low) / 2;
        if ((int64_t)(t->pair[mid] >> 32) < place) low = mid + 1;
        else high = mid;
    }
    return low;
}

static glofnd_status make_cell_mutual(gf_error *err, unit_job *j, int64_t unit) {
    unit_batch *t = &j->batch;
    const int64_t rows = unit_rows(&j->folder, unit);
    if (unit < t->first || unit >= t->end) {
        /* Mutual pairs of the units from `unit` on, as many as fit: a pair may come from both of its ends. */
        const size_t each = 4 * (size_t)j->folder.rows * (size_t)j->folder.width * sizeof *t->pair; /* twice to grow */
        size_t kept = 0;
        t->first = unit, t->count = 0;
        t->end = GF_MIN(unit + GF_MAX((int64_t)(j->s->task.memory / 2 / each), 1), j->folder.units);
        for (int64_t i = 0; i < j->folder.units; i++) TRY(read_mutual_pairs(err, j, i, NULL));
        if (t->count) qsort(t->pair, t->count, sizeof *t->pair, by_pair);
        for (size_t i = 0; i < t->count; i++)
            if (i == 0 || t->pair[i] != t->pair[kept - 1]) t->pair[kept++] = t->pair[i];
        t->count = kept;
    }
    int64_t *mutual = calloc((size_t)rows, sizeof *mutual);
    FAIL_IF(err, !mutual, GLOFND_E_MEMORY, "no memory for %lld anchors", (long long)rows);
    const int64_t from = (unit - t->first) * j->folder.rows, unit_place = unit * j->folder.rows;
    for (size_t i = first_pair_of(t, from); i < t->count && (int64_t)(t->pair[i] >> 32) < from + rows; i++) {
        const int64_t row = (int64_t)(t->pair[i] >> 32) - from;
        const int32_t self = j->cells.c.order[unit_place + row], other = (int32_t)(uint32_t)t->pair[i];
        mutual[row]++;
        if (!gf_components_join_shared(j->root, self, other) || gf_nodes_add(&j->joined, self, other)) continue;
        free(mutual);
        GF_FAIL(err, GLOFND_E_MEMORY, "no memory for mutual pairs");
    }
    const glofnd_status status = unit_write_mutual(err, &j->folder, unit, mutual, j->root, &j->joined);
    free(mutual);
    return status;
}

/* ---------- the result ---------- */

typedef struct placing {  /* the result of a unit, by place, goes to that of all, by position */
    const int32_t *order; /* of all places; NULL: as they are */
    int64_t first;        /* place */
    const gf_pairs_found *part;
    gf_pairs_found *f;
} placing;

enum { PLACED = 1024 }; /* anchors of a task */

/* Zeros are there: memory that is not written is not taken. */
static void place_anchors(void *arg, int64_t task, int thread) {
    const placing *p = arg;
    const gf_pairs_found *part = p->part;
    gf_pairs_found *f = p->f;
    (void)thread;
    for (int64_t i = task * PLACED; i < GF_MIN((task + 1) * PLACED, part->n); i++) {
        const int64_t at = p->order ? p->order[p->first + i] : p->first + i;
        f->lambda[at] = part->lambda[i];
        if (part->above[i]) f->above[at] = part->above[i];
        if (part->mutual[i]) f->mutual[at] = part->mutual[i];
        if (part->hits[i]) f->hits[at] = part->hits[i];
        if (part->copies[i]) f->copies[at] = part->copies[i];
        memcpy(f->other + at * f->top, part->other + i * f->top, (size_t)f->top * sizeof *f->other);
        memcpy(f->similarity + at * f->top, part->similarity + i * f->top, (size_t)f->top * sizeof *f->similarity);
        if (f->below) {
            memcpy(f->below_other + at * f->below, part->below_other + i * f->below, (size_t)f->below * sizeof *f->below_other);
            memcpy(f->below_similarity + at * f->below, part->below_similarity + i * f->below,
                   (size_t)f->below * sizeof *f->below_similarity);
        }
    }
}

static glofnd_status read_result(gf_error *err, unit_job *j, gf_pairs_found *f) {
    gf_pairs_found part = {0}; /* of one unit */
    TRY(unit_result_alloc(err, j, j->folder.n, f, NULL));
    gf_components_init(f->mutual_root, f->n);
    gf_components_init(f->copy_root, f->n);
    glofnd_status status = unit_result_alloc(err, j, j->folder.rows, &part, NULL);
    for (int64_t i = 0; i < j->folder.units && status == GLOFND_OK; i++) {
        part.n = unit_rows(&j->folder, i);
        status = unit_read_pairs(err, &j->folder, i, &part, f->copy_root, NULL);
        if (status == GLOFND_OK && (j->stream || j->folder.width))
            status = unit_read_mutual(err, &j->folder, i, part.mutual, f->mutual_root);
        if (status != GLOFND_OK) break;
        placing p = {j->stream ? NULL : j->cells.c.order, i * j->folder.rows, &part, f};
        gf_parallel(j->s->task.threads, (part.n + PLACED - 1) / PLACED, place_anchors, &p);
        f->compared += part.compared;
    }
    gf_pairs_found_free(&part);
    for (int64_t i = 0; i < j->folder.samples && status == GLOFND_OK; i++) {
        int64_t count[3];
        status = unit_read_recall(err, &j->folder, i, count);
        if (status == GLOFND_OK) f->sampled += count[0], f->wanted += count[1], f->recalled += count[2];
    }
    f->cells = j->folder.cells;
    if (j->stream && j->t.only_dup) f->compared = f->n * (f->n - 1);
    if (status == GLOFND_OK && j->t.probe && !j->folder.width) gf_lists_mutual(f, j->s->task.threads);
    gf_components_flatten(f->mutual_root, f->n);
    gf_components_flatten(f->copy_root, f->n);
    return status;
}

/* ---------- the whole ---------- */

typedef struct unit_shape {
    int64_t rows;  /* of a unit; 0: not even a panel fits */
    int64_t width; /* pairs above of an anchor that its file keeps; 0: they are found again */
} unit_shape;

/* *keep: entries of a list. */
static unit_shape shape_units(const gf_pairs_task *t, const gf_units *u, int64_t n, size_t memory, int stream, int64_t *keep) {
    const double above = 8.0 * (double)n * (double)(t->rank - 1);
    const int listed = t->probe && t->rank - 1 <= t->top; /* the lists have all of them */
    const int keeps = !listed && (t->probe || (!t->only_dup && above <= (double)memory));
    unit_shape shape = {.width = keeps ? t->rank - 1 : 0};
    *keep = GF_MAX(GF_MAX(gf_lists_keep(t), t->top), 1);
    const size_t each = gf_best_bytes(GF_PANEL, *keep) / GF_PANEL + gf_panels_bytes(GF_PANEL, u->source.dim) / GF_PANEL +
                        (size_t)shape.width * sizeof(uint64_t);
    const int64_t fit = (int64_t)(memory / 4 / each);
    const int64_t most = stream ? UNIT_MAX : GF_MAX(UNIT_MAX, n / UNITS_MAX);
    const int64_t rows = u->rows ? u->rows : GF_MIN(GF_MAX(n / UNITS, UNIT_MIN), most);
    if (fit >= GF_PANEL) shape.rows = GF_MAX(GF_MIN(rows, fit) / GF_PANEL * GF_PANEL, GF_PANEL);
    return shape;
}

double gf_discover_units_seconds(const gf_discover_spec *s, const gf_units *u) {
    const gf_stream_search *stream = s->search->stream;
    int64_t rank, keep;
    double again = 0.0;
    if (!stream || !stream->seconds || gf_discover_rank(NULL, s, u->source.n, &rank) != GLOFND_OK) return NAN;
    gf_pairs_task t = gf_discover_task(s, rank, u->source.n, u->source.dim);
    const unit_shape shape = shape_units(&t, u, u->source.n, s->task.memory, 1, &keep);
    t.memory = s->task.memory / 2; /* of the rows */
    const double first = shape.rows ? stream->seconds(&u->source, &t, shape.rows, &again) : NAN;
    return shape.width || t.only_dup ? first : first + again;
}

static glofnd_status prepare_units(gf_error *err, unit_job *j, const gf_discover_data *d) {
    const size_t n = (size_t)d->good_n;
    const gf_stream_search *stream = j->s->search->stream;
    if (!stream) {
        TRY(gf_cells_stream_open(err, &j->u->source, d->good, d->good_n, j->s->task.memory / 2, j->s->task.threads, &j->cells));
        j->folder.cells = j->cells.c.count, j->folder.dim = d->dim;
        j->folder.numbers = gf_tree_numbers(j->folder.cells, d->dim);
        if (!gf_cells_stream_fits(&j->cells)) j->folder.chunk = j->cells.chunk;
        if (j->t.probe) j->folder.samples = (gf_cell_sample(d->good_n) + SAMPLE_UNIT - 1) / SAMPLE_UNIT;
    } else TRY(stream->open(err, &j->u->source, d->good, d->good_n, j->s->task.memory / 2, j->s->task.threads, &j->stream));
    int64_t keep;
    const unit_shape shape = shape_units(&j->t, j->u, d->good_n, j->s->task.memory, j->stream != NULL, &keep);
    FAIL_IF(err, !shape.rows, GLOFND_E_MEMORY,
            "the lists of the %lld most similar of %d anchors do not fit into a quarter of the memory: raise memory, or lower k, "
            "alpha or top",
            (long long)keep, GF_PANEL);
    j->folder.rows = shape.rows, j->folder.width = shape.width;
    j->folder.units = (j->folder.n + j->folder.rows - 1) / j->folder.rows;
    j->folder.top = j->t.top, j->folder.below = j->t.below;
    /* Whatever decides the result, in 64 bits. */
    const struct {
        int64_t n, good, dim, rank, top, below, rows, width;
        float dup;
        uint32_t crc, labels, version;
    } facts = {.n = d->n,
               .good = d->good_n,
               .dim = d->dim,
               .rank = j->t.rank,
               .top = j->t.top,
               .below = j->t.below,
               .rows = j->folder.rows,
               .width = j->folder.width,
               .dup = j->t.dup,
               .crc = d->crc,
               .labels = j->t.label ? gf_crc32c(0, j->t.label, (size_t)d->good_n * sizeof *j->t.label) : 0,
               .version = (uint32_t)(GLOFND_VERSION_MAJOR << 16 | GLOFND_VERSION_MINOR)};
    const int64_t cells[2] = {j->t.only_dup, j->t.probe};
    const uint64_t all = (uint64_t)gf_crc32c(1, &facts, sizeof facts) << 32 | gf_crc32c(2, &facts, sizeof facts);
    j->folder.fingerprint = cells[0] || cells[1] ? all ^ gf_crc32c(3, cells, sizeof cells) : all;
    j->lambda = malloc(n * sizeof *j->lambda);
    j->root = malloc(n * sizeof *j->root);
    FAIL_IF(err, !j->lambda || !j->root, GLOFND_E_MEMORY, "no memory for %lld anchors", (long long)d->good_n);
    gf_components_init(j->root, d->good_n);
    if (j->u->rank != 0) return GLOFND_OK;
    TRY(gf_folder_make(err, j->folder.path, NULL));
    TRY(j->u->worker ? gf_folder_share(err, j->folder.path, &j->lock) : gf_folder_lock(err, j->folder.path, &j->lock));
    /* Makes the plan of an empty folder, or checks that it is of this search: E_ARGUMENT if not, unless `force` empties it.
     * Removes files that were not finished, but not those of other workers. */
    const unit_folder *u = &j->folder;
    const int force = j->u->force && !j->u->worker;
    char path[PATH_MAX];
    gf_reader r;
    TRY(gf_path_join(err, path, u->path, "plan"));
    if (!j->u->worker) remove_unit_files(u->path, 1);
    if (access(path, F_OK) != 0) TRY(write_plan(err, u, path)); /* two workers write the same one */
    TRY(gf_reader_open(err, &r, path));
    const glofnd_status status = get_head(&r, u, -1, -1);
    gf_reader_close(&r);
    if (status == GLOFND_OK) return GLOFND_OK;
    FAIL_IF(
        err, !force, GLOFND_E_ARGUMENT,
        "'%.300s' holds parts of another search: other embeddings, options or version; continue that one, remove the folder, or "
        "use force=1",
        u->path);
    remove_unit_files(u->path, 0);
    return write_plan(err, u, path);
}

static glofnd_status run_stages(gf_error *err, unit_job *j, const gf_discover_data *d, gf_discover_result *r) {
    TRY(unit_agree(err, j->u, prepare_units(err, j, d)));
    if (j->stream) {
        const double split = j->folder.width || j->t.only_dup ? 0.98 : 0.5; /* share of the first stage */
        const unit_stage pairs = {UNIT_PAIRS, make_pairs, 0.0, split}, mutual = {UNIT_MUTUAL, make_stream_mutual, split, 1.0};
        TRY(unit_run_stage(err, j, &pairs));
        TRY(unit_agree(err, j->u, read_thresholds(err, j)));
        j->t.lambda = j->lambda;
        TRY(unit_run_stage(err, j, &mutual));
    } else {
        static const unit_stage centres = {UNIT_CENTRES, make_centres, 0.0, 0.05}, cells = {UNIT_CELLS, make_cells, 0.05, 0.25},
                                rows = {UNIT_ROWS, make_ordered_rows, 0.25, 0.28}, pairs = {UNIT_PAIRS, make_pairs, 0.28, 0.85},
                                recall = {UNIT_RECALL, make_recall, 0.85, 0.9},
                                mutual = {UNIT_MUTUAL, make_cell_mutual, 0.9, 1.0};
        TRY(unit_run_stage(err, j, &centres));
        TRY(unit_agree(err, j->u, read_centres(err, j)));
        TRY(unit_run_stage(err, j, &cells));
        TRY(unit_agree(err, j->u, read_cells(err, j)));
        int compared = 0, measured = 0;
        TRY(unit_stage_is_done(err, j, UNIT_PAIRS, &compared));
        TRY(unit_stage_is_done(err, j, UNIT_RECALL, &measured));
        if (!compared || !measured) {
            TRY(unit_run_stage(err, j, &rows));
            TRY(unit_agree(err, j->u, open_ordered_rows(err, j)));
        }
        TRY(unit_run_stage(err, j, &pairs));
        if (j->t.probe) TRY(unit_run_stage(err, j, &recall));
        close_ordered_rows(j);
        if (j->u->rank == 0 && !j->u->worker) {
            char path[PATH_MAX];
            for (int64_t part = 0; part < unit_count(&j->folder, UNIT_ROWS); part++) /* makes room for the result */
                if (unit_path(NULL, &j->folder, UNIT_ROWS, part, path) == GLOFND_OK) unlink(path);
        }
        if (j->folder.width) { /* only duplicates; or the lists have all pairs above */
            TRY(unit_agree(err, j->u, read_thresholds(err, j)));
            TRY(unit_run_stage(err, j, &mutual));
        }
        free(j->batch.pair);
        j->batch = (unit_batch){0};
    }
    const int reads = j->u->rank == 0 && !j->u->worker;
    glofnd_status status = reads ? read_result(err, j, &r->f) : GLOFND_OK;
    if (reads && status == GLOFND_OK) status = gf_discover_statistics(err, j->s, d, j->t.label, r);
    return unit_agree(err, j->u, status);
}

glofnd_status gf_discover_run_units(gf_error *err, const gf_discover_spec *s, const gf_units *u, gf_discover_data *d,
                                    gf_discover_result *r) {
    int32_t *label = NULL;
    *r = (gf_discover_result){0};
    glofnd_status status = gf_discover_rank(err, s, d->good_n, &r->rank);
    if (status == GLOFND_OK) status = gf_discover_labels(err, d, &label);
    status = unit_agree(err, u, status);
    if (status == GLOFND_OK && s->task.only_dup && s->dup_exact) {
        status = unit_agree(err, u, gf_discover_copies(err, s, d, r));
    } else if (status == GLOFND_OK) {
        unit_job j = {.s = s, .u = u, .folder = {.path = u->folder, .n = d->good_n}, .lock = -1};
        j.t = gf_discover_task(s, r->rank, d->good_n, d->dim);
        j.t.label = label;
        if (s->task.only_dup) j.t.rank = 1;
        status = run_stages(err, &j, d, r);
        if (j.lock >= 0) gf_close(j.lock);
        if (s->search->stream) s->search->stream->close(j.stream);
        close_ordered_rows(&j);
        gf_cells_stream_close(&j.cells);
        free(j.batch.pair);
        free(j.lambda);
        free(j.root);
        gf_nodes_free(&j.joined);
    }
    free(label);
    if (status != GLOFND_OK) gf_discover_result_free(r);
    return status;
}
