/* unit_run.c - see unit_run.h.
 *
 * Two stages. In the first every unit gets its thresholds, neighbours and duplicates; in the second, with all thresholds known,
 * its mutual pairs: from the pairs above that its file has, or, where those of all files would take more bytes than the memory,
 * from a second sweep. The units that are missing are dealt out over ranks: every rank computes its share and writes it; then all
 * wait, and the result is read from the files, in their order. So it does not matter which rank, or which start of the program,
 * made a unit.
 */
#include "discover/unit_run.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "discover/unit_job.h"
#include "io/calls.h"
#include "io/crc32c.h"
#include "io/folders.h"
#include "pairs/best.h"
#include "pairs/pairs_lists.h"
#include "pairs/pairs_stream.h"
#include "util/array.h"

enum { UNIT_MIN = 1024, UNIT_MAX = 65536 }; /* rows of a unit */
enum { UNITS = 64, UNITS_MAX = 256 };       /* how many there are to be, at least; by cells, at most */

glofnd_status gf_unit_agree(gf_error *err, const gf_units *u, glofnd_status mine) {
    return u->agree ? u->agree(err, u->user, mine) : mine;
}

/* ----- how it is cut ----- */

static glofnd_status choose_rows(gf_error *err, gf_unit_job *j) {
    const int64_t keep = GF_MAX(GF_MAX(gf_lists_keep(&j->t), j->t.top), 1);
    const size_t each = gf_best_bytes(GF_PANEL, keep) / GF_PANEL + gf_panels_bytes(GF_PANEL, j->u->source.dim) / GF_PANEL +
                        (size_t)j->folder.width * sizeof(uint64_t);
    const int64_t fit = (int64_t)(j->s->memory / 4 / each);
    const int64_t most = j->stream ? UNIT_MAX : GF_MAX(UNIT_MAX, j->folder.n / UNITS_MAX);
    int64_t rows = j->u->rows ? j->u->rows : GF_MIN(GF_MAX(j->folder.n / UNITS, UNIT_MIN), most);
    FAIL_IF(err, fit < GF_PANEL, GLOFND_E_MEMORY,
            "the lists of the %lld most similar of %d anchors do not fit into a quarter of --memory: raise it, or lower --k, "
            "--alpha or --top",
            (long long)keep, GF_PANEL);
    rows = GF_MIN(rows, fit) / GF_PANEL * GF_PANEL;
    j->folder.rows = GF_MAX(rows, GF_PANEL);
    j->folder.units = (j->folder.n + j->folder.rows - 1) / j->folder.rows;
    return GLOFND_OK;
}

/* Whatever decides the result, in 64 bits. */
static uint64_t fingerprint_of(const gf_unit_job *j, const gf_discover_data *d) {
    const struct {
        int64_t n, good, dim, rank, top, edge, rows, width;
        float dup;
        uint32_t crc, labels, version;
    } facts = {.n = d->n,
               .good = d->good_n,
               .dim = d->dim,
               .rank = j->t.rank,
               .top = j->t.top,
               .edge = j->t.edge,
               .rows = j->folder.rows,
               .width = j->folder.width,
               .dup = j->t.dup,
               .crc = d->crc,
               .labels = j->t.label ? gf_crc32c(0, j->t.label, (size_t)d->good_n * sizeof *j->t.label) : 0,
               .version = (uint32_t)(GLOFND_VERSION_MAJOR << 16 | GLOFND_VERSION_MINOR)};
    const int64_t cells[2] = {j->t.only_dup, j->t.probe};
    const uint64_t all = (uint64_t)gf_crc32c(1, &facts, sizeof facts) << 32 | gf_crc32c(2, &facts, sizeof facts);
    return cells[0] || cells[1] ? all ^ gf_crc32c(3, cells, sizeof cells) : all;
}

/* ----- the work ----- */

glofnd_status gf_unit_result_alloc(gf_error *err, const gf_unit_job *j, int64_t rows, gf_pairs_found *f, uint64_t **above) {
    TRY(gf_pairs_found_alloc(err, f, rows, j->t.top));
    if (j->t.edge) TRY(gf_pairs_found_edge(err, f, j->t.edge));
    if (!above) return GLOFND_OK;
    *above = j->folder.width ? malloc((size_t)rows * (size_t)j->folder.width * sizeof **above) : NULL;
    FAIL_IF(err, j->folder.width && !*above, GLOFND_E_MEMORY, "no memory for the pairs of %lld anchors", (long long)rows);
    return GLOFND_OK;
}

glofnd_status gf_unit_result_begin(gf_error *err, const gf_unit_job *j, gf_pairs_found *f) {
    TRY(gf_unit_result_alloc(err, j, j->folder.n, f, NULL));
    gf_components_init(f->mutual_root, f->n);
    gf_components_init(f->copy_root, f->n);
    return GLOFND_OK;
}

void gf_unit_result_end(gf_pairs_found *f) {
    gf_components_flatten(f->mutual_root, f->n);
    gf_components_flatten(f->copy_root, f->n);
}

glofnd_status gf_unit_make_pairs(gf_error *err, gf_unit_job *j, int64_t unit, gf_unit_find *find) {
    gf_pairs_found f = {0};
    uint64_t *above = NULL;
    glofnd_status status = gf_unit_result_alloc(err, j, gf_unit_rows(&j->folder, unit), &f, &above);
    if (status == GLOFND_OK) status = find(err, j, unit, &f, above);
    gf_node_list *joined = j->stream ? NULL : &j->joined;
    if (status == GLOFND_OK) status = gf_unit_write_pairs(err, &j->folder, unit, &f, j->root, joined, above);
    gf_pairs_found_free(&f);
    free(above);
    return status;
}

glofnd_status gf_unit_read_mutual_pairs(gf_error *err, gf_unit_job *j, int64_t unit, gf_unit_take *take, void *user) {
    gf_pairs_found f = {0};
    uint64_t *above = NULL;
    const int64_t rows = gf_unit_rows(&j->folder, unit), width = j->folder.width;
    glofnd_status status = gf_unit_result_alloc(err, j, rows, &f, &above);
    if (status == GLOFND_OK) status = gf_unit_read_pairs(err, &j->folder, unit, &f, NULL, above);
    for (int64_t i = 0; i < rows && status == GLOFND_OK; i++)
        for (int64_t k = 0; k < f.above[i] && status == GLOFND_OK; k++) {
            const int64_t other = gf_best_other(above[i * width + k]);
            if (gf_best_value(above[i * width + k]) > j->lambda[other])
                status = take(err, j, unit * j->folder.rows + i, other, user);
        }
    gf_pairs_found_free(&f);
    free(above);
    return status;
}

/* A search over all pairs of which only duplicates are wanted: nothing has a threshold, nothing else is listed. */
static void leave_duplicates(const gf_unit_job *j, gf_pairs_found *f) {
    for (int64_t i = 0; i < f->n; i++) f->lambda[i] = INFINITY, f->above[i] = f->hits[i] = 0;
    for (int64_t i = 0; i < f->n * f->top; i++)
        if (!(f->similarity[i] >= j->t.dup)) f->other[i] = -1, f->similarity[i] = NAN;
}

static glofnd_status find_pairs(gf_error *err, gf_unit_job *j, int64_t unit, gf_pairs_found *f, uint64_t *above) {
    TRY(j->s->pass->stream->thresholds(err, j->stream, &j->t, unit * j->folder.rows, f->n, f, j->root, above));
    if (j->t.only_dup) leave_duplicates(j, f);
    return GLOFND_OK;
}

static glofnd_status make_pairs(gf_error *err, gf_unit_job *j, int64_t unit) {
    gf_components_init(j->root, j->folder.n);
    return gf_unit_make_pairs(err, j, unit, find_pairs);
}

/* mutual [rows of the unit] */
static glofnd_status count_mutual(gf_error *err, gf_unit_job *j, int64_t place, int64_t other, void *mutual) {
    (void)err;
    ((int64_t *)mutual)[place % j->folder.rows]++;
    gf_components_join(j->root, (int32_t)place, (int32_t)other);
    return GLOFND_OK;
}

static glofnd_status make_mutual(gf_error *err, gf_unit_job *j, int64_t unit) {
    const int64_t rows = gf_unit_rows(&j->folder, unit);
    int64_t *mutual = calloc((size_t)rows, sizeof *mutual);
    FAIL_IF(err, !mutual, GLOFND_E_MEMORY, "no memory for %lld anchors", (long long)rows);
    gf_components_init(j->root, j->folder.n);
    glofnd_status status = j->t.only_dup ? GLOFND_OK
                           : j->folder.width
                               ? gf_unit_read_mutual_pairs(err, j, unit, count_mutual, mutual)
                               : j->s->pass->stream->mutual(err, j->stream, &j->t, unit * j->folder.rows, rows, mutual, j->root);
    if (status == GLOFND_OK) status = gf_unit_write_mutual(err, &j->folder, unit, mutual, j->root, NULL);
    free(mutual);
    return status;
}

/* Computes this rank's share of the missing units. */
static glofnd_status make_units(gf_error *err, gf_unit_job *j, const gf_unit_stage *stage, int64_t units, const uint8_t *done) {
    const gf_job_progress whole = gf_job_part(&j->s->watch, stage->from, stage->to);
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

/* Units that are there. Rank 0 checks them and removes corrupt ones; the others wait for that. */
static glofnd_status find_done(gf_error *err, const gf_unit_job *j, gf_unit_kind kind, int64_t units, uint8_t *done) {
    for (int64_t i = 0; j->u->rank == 0 && i < units; i++) gf_unit_is_done(&j->folder, kind, i, 1);
    TRY(gf_unit_agree(err, j->u, GLOFND_OK));
    for (int64_t i = 0; i < units; i++) done[i] = (uint8_t)gf_unit_is_done(&j->folder, kind, i, 0);
    return gf_unit_agree(err, j->u, GLOFND_OK); /* none is written before all have looked */
}

glofnd_status gf_unit_stage_is_done(gf_error *err, const gf_unit_job *j, gf_unit_kind kind, int *all) {
    const int64_t units = gf_unit_count(&j->folder, kind);
    uint8_t *done = calloc((size_t)units + 1, 1);
    glofnd_status status = gf_unit_agree(err, j->u, done ? GLOFND_OK : gf_fail(err, GLOFND_E_MEMORY, "no memory for units"));
    if (status == GLOFND_OK) status = find_done(err, j, kind, units, done);
    *all = status == GLOFND_OK;
    for (int64_t i = 0; *all && i < units; i++) *all = done[i];
    free(done);
    return status;
}

/* In how many chunks the rows pass by each unit; 0: they are in the folder. */
static int64_t chunks_of(const gf_unit_job *j) {
    return j->stream ? j->s->pass->stream->chunks(j->stream) : gf_cells_stream_fits(&j->cells);
}

glofnd_status gf_unit_run_stage(gf_error *err, gf_unit_job *j, const gf_unit_stage *stage) {
    const int64_t units = gf_unit_count(&j->folder, stage->kind);
    int64_t count = 0;
    uint8_t *done = calloc((size_t)units + 1, 1);
    glofnd_status status = gf_unit_agree(err, j->u, done ? GLOFND_OK : gf_fail(err, GLOFND_E_MEMORY, "no memory for units"));
    if (status == GLOFND_OK) status = find_done(err, j, stage->kind, units, done);
    for (int64_t i = 0; status == GLOFND_OK && i < units; i++) count += done[i];
    if (status == GLOFND_OK && stage->kind == GF_UNIT_PAIRS && j->u->report && j->u->rank == 0)
        j->u->report(j->u->user, units, count, chunks_of(j));
    if (status == GLOFND_OK) status = gf_unit_agree(err, j->u, make_units(err, j, stage, units, done));
    free(done);
    return status;
}

/* ----- the result ----- */

static glofnd_status read_thresholds(gf_error *err, gf_unit_job *j) {
    for (int64_t i = 0; i < j->folder.units; i++) {
        gf_pairs_found only = {.n = gf_unit_rows(&j->folder, i), .lambda = j->lambda + i * j->folder.rows};
        TRY(gf_unit_read_pairs(err, &j->folder, i, &only, NULL, NULL));
    }
    return GLOFND_OK;
}

static glofnd_status read_result(gf_error *err, gf_unit_job *j, gf_pairs_found *f) {
    TRY(gf_unit_result_begin(err, j, f));
    for (int64_t i = 0; i < j->folder.units; i++) {
        gf_pairs_found part = gf_pairs_found_part(f, i * j->folder.rows, gf_unit_rows(&j->folder, i));
        TRY(gf_unit_read_pairs(err, &j->folder, i, &part, f->copy_root, NULL));
        TRY(gf_unit_read_mutual(err, &j->folder, i, part.mutual, f->mutual_root));
    }
    gf_unit_result_end(f);
    if (j->t.only_dup) f->compared = f->n * (f->n - 1);
    return GLOFND_OK;
}

static glofnd_status open_rows(gf_error *err, gf_unit_job *j, const gf_discover_data *d) {
    const gf_stream_search *stream = j->s->pass->stream;
    if (!stream) return gf_unit_cells_open(err, j, d);
    return stream->open(err, &j->u->source, d->good, d->good_n, j->s->memory / 2, j->s->threads, &j->stream);
}

static glofnd_status prepare(gf_error *err, gf_unit_job *j, const gf_discover_data *d) {
    const size_t n = (size_t)d->good_n;
    TRY(open_rows(err, j, d));
    const double above = 8.0 * (double)d->good_n * (double)(j->t.rank - 1);
    const int listed = j->t.probe && j->t.rank - 1 <= j->t.top; /* the lists have all of them */
    const int keeps = !listed && (j->t.probe || (!j->t.only_dup && above <= (double)j->s->memory));
    j->folder.width = keeps ? j->t.rank - 1 : 0;
    TRY(choose_rows(err, j));
    j->folder.top = j->t.top, j->folder.edge = j->t.edge;
    j->folder.fingerprint = fingerprint_of(j, d);
    j->lambda = malloc(n * sizeof *j->lambda);
    j->root = malloc(n * sizeof *j->root);
    FAIL_IF(err, !j->lambda || !j->root, GLOFND_E_MEMORY, "no memory for %lld anchors", (long long)d->good_n);
    gf_components_init(j->root, d->good_n);
    if (j->u->rank != 0) return GLOFND_OK;
    TRY(gf_folder_make(err, j->folder.path, NULL));
    TRY(gf_folder_lock(err, j->folder.path, &j->lock));
    return gf_unit_folder_open(err, &j->folder, j->u->force);
}

static glofnd_status run_all_pairs(gf_error *err, gf_unit_job *j) {
    const double split = j->folder.width || j->t.only_dup ? 0.98 : 0.5; /* share of the first stage */
    const gf_unit_stage pairs = {GF_UNIT_PAIRS, make_pairs, 0.0, split}, mutual = {GF_UNIT_MUTUAL, make_mutual, split, 1.0};
    TRY(gf_unit_run_stage(err, j, &pairs));
    TRY(gf_unit_agree(err, j->u, read_thresholds(err, j)));
    j->t.lambda = j->lambda;
    return gf_unit_run_stage(err, j, &mutual);
}

static glofnd_status run_stages(gf_error *err, gf_unit_job *j, const gf_discover_data *d, gf_discover_result *r) {
    TRY(gf_unit_agree(err, j->u, prepare(err, j, d)));
    TRY(j->stream ? run_all_pairs(err, j) : gf_unit_cells_run(err, j));
    glofnd_status status = GLOFND_OK;
    if (j->u->rank == 0) status = j->stream ? read_result(err, j, &r->f) : gf_unit_cells_read(err, j, &r->f);
    if (j->u->rank == 0 && status == GLOFND_OK) status = gf_discover_statistics(err, j->s, d, j->t.label, r);
    return gf_unit_agree(err, j->u, status);
}

static glofnd_status search(gf_error *err, const gf_discover_spec *s, const gf_units *u, gf_discover_data *d, int32_t *label,
                            gf_discover_result *r) {
    gf_unit_job j = {.s = s, .u = u, .folder = {.path = u->folder, .n = d->good_n}, .lock = -1};
    j.t = gf_discover_task(s, r->rank, d->good_n, d->dim);
    j.t.label = label;
    if (s->only_dup) j.t.rank = 1;
    const glofnd_status status = run_stages(err, &j, d, r);
    if (j.lock >= 0) gf_close(j.lock);
    if (s->pass->stream) s->pass->stream->close(j.stream);
    gf_unit_cells_close(&j);
    free(j.lambda);
    free(j.root);
    gf_nodes_free(&j.joined);
    return status;
}

glofnd_status gf_discover_run_units(gf_error *err, const gf_discover_spec *s, const gf_units *u, gf_discover_data *d,
                                    gf_discover_result *r) {
    int32_t *label = NULL;
    *r = (gf_discover_result){0};
    glofnd_status status = gf_discover_rank(err, s, d->good_n, &r->rank);
    if (status == GLOFND_OK) status = gf_discover_labels(err, d, &label);
    status = gf_unit_agree(err, u, status);
    if (status == GLOFND_OK)
        status = s->only_dup && s->dup == GF_DUP_EXACT ? gf_unit_agree(err, u, gf_discover_copies(err, s, d, r))
                                                       : search(err, s, u, d, label, r);
    free(label);
    if (status != GLOFND_OK) gf_discover_result_free(r);
    return status;
}
