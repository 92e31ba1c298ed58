/* store.c - the anchor store in memory: life, rows in and out, id checks. See store.h.
 *
 * Large tables are lazily-zero memory: pages that are never written cost nothing, so n = 1e9 anchors are made immediately and
 * cost what was touched. Only create, free and describe depend on n.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "method/store.h"

#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "method/context.h"
#include "method/formulas/loss.h"
#include "method/options.h"
#include "util/array.h"

/* ----- lazily-zero memory ----- */

#define LAZY_BYTES \
    ((uint64_t)64 << 20) /* larger tables come from the kernel directly, without counting against its commit limit */

void *gf_lazy_alloc(uint64_t bytes) {
    if (bytes > SIZE_MAX / 2) return NULL;
    if (bytes < LAZY_BYTES) return calloc(1, (size_t)bytes);
    void *p = mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) return NULL;
    madvise(p, (size_t)bytes, MADV_NOHUGEPAGE); /* rows are touched at random: 2 MB for each would fill the memory */
    return p;
}

void gf_lazy_free(void *p, uint64_t bytes) {
    if (!p) return;
    if (bytes < LAZY_BYTES) free(p);
    else munmap(p, (size_t)bytes);
}

/* A mapping moves without a copy. */
void *gf_lazy_grow(void *p, uint64_t bytes, uint64_t more) {
    if (more > SIZE_MAX / 2) return NULL;
    if (bytes >= LAZY_BYTES) {
        void *moved = mremap(p, (size_t)bytes, (size_t)more, MREMAP_MAYMOVE);
        return moved == MAP_FAILED ? NULL : moved;
    }
    void *copy = gf_lazy_alloc(more);
    if (!copy) return NULL;
    memcpy(copy, p, (size_t)bytes);
    gf_lazy_free(p, bytes);
    return copy;
}

/* ----- sizes ----- */

static uint64_t state_bytes(const glofnd_store *s) { return (uint64_t)s->spec.n * s->record_bytes; }

int64_t gf_store_blocks(const glofnd_store *s) { return (s->spec.n + GF_STORE_BLOCK - 1) / GF_STORE_BLOCK; }

int64_t gf_store_block_rows(const glofnd_store *s, int64_t block) {
    return GF_MIN(s->spec.n - block * GF_STORE_BLOCK, GF_STORE_BLOCK);
}

static uint64_t bitmap_bytes(uint64_t bits) { return (bits + 63) / 64 * 8; }
uint64_t gf_store_touched_bytes(const glofnd_store *s) { return bitmap_bytes((uint64_t)gf_store_blocks(s)); }
uint64_t gf_store_pages_bytes(const glofnd_store *s) {
    return bitmap_bytes((state_bytes(s) + GF_STORE_PAGE - 1) / GF_STORE_PAGE);
}

static uint64_t ring_row_bytes(const glofnd_store *s) {
    return (uint64_t)s->spec.ring_rows * (uint64_t)s->spec.ring_dim * sizeof(float);
}

static uint64_t ring_id_bytes(const glofnd_store *s) { return (uint64_t)s->spec.ring_rows * sizeof(int64_t); }

/* ----- life ----- */

glofnd_status gf_store_check_spec(gf_error *err, const gf_store_spec *spec) {
    const int64_t rows = spec->ring_rows, dim = spec->ring_dim, floats_max = (int64_t)1 << 44;
    FAIL_IF(err, !spec->keyed && (spec->n < 1 || spec->n > GF_STORE_MAX_N), GLOFND_E_ARGUMENT, "n is %lld; allowed: 1 .. 2^40",
            (long long)spec->n);
    FAIL_IF(err, spec->keyed && (spec->n < 0 || spec->n > GF_KEYS_MAX), GLOFND_E_ARGUMENT, "n is %lld keys; allowed: 0 .. %lld",
            (long long)spec->n, (long long)GF_KEYS_MAX);
    FAIL_IF(err, spec->modalities != 1 && spec->modalities != 2, GLOFND_E_ARGUMENT, "modalities is %d; allowed: 1 or 2",
            (int)spec->modalities);
    FAIL_IF(err, spec->temperatures != 0 && spec->temperatures != 1, GLOFND_E_ARGUMENT, "temperatures is %d; allowed: 0 or 1",
            (int)spec->temperatures);
    FAIL_IF(err, rows < 0 || dim < 0 || (rows == 0) != (dim == 0), GLOFND_E_ARGUMENT,
            "ring_rows is %lld and ring_dim %lld; both must be 0 (no ring), or both at least 1", (long long)rows, (long long)dim);
    FAIL_IF(err, rows > floats_max || (rows > 0 && dim > floats_max / rows), GLOFND_E_ARGUMENT,
            "a ring of %lld rows of %lld floats is too large; allowed: 2^44 floats", (long long)rows, (long long)dim);
    FAIL_IF(err, spec->bank_dim < 0 || spec->bank_dim > GF_BANK_MAX_DIM, GLOFND_E_ARGUMENT, "bank_dim is %lld; allowed: 0 .. %d",
            (long long)spec->bank_dim, GF_BANK_MAX_DIM);
    return GLOFND_OK;
}

static glofnd_status alloc_tables(gf_error *err, glofnd_store *s) {
    s->touched = gf_lazy_alloc(gf_store_touched_bytes(s));
    s->pages = gf_lazy_alloc(gf_store_pages_bytes(s));
    int ok = s->touched && s->pages;
    for (int side = 0; ok && s->spec.ring_rows > 0 && side < s->spec.modalities; side++) {
        s->ring[side].rows = gf_lazy_alloc(ring_row_bytes(s));
        s->ring[side].id = gf_lazy_alloc(ring_id_bytes(s));
        ok = s->ring[side].rows && s->ring[side].id;
    }
    FAIL_IF(err, !ok, GLOFND_E_MEMORY, "no memory for the tables of a store of %lld anchors with a ring of %lld x %lld",
            (long long)s->spec.n, (long long)s->spec.ring_rows, (long long)s->spec.ring_dim);
    return GLOFND_OK;
}

static glofnd_status alloc_records(gf_error *err, glofnd_store *s, const char *path) {
    if (path) return gf_store_map(err, s, path);
    s->records = gf_lazy_alloc(state_bytes(s));
    FAIL_IF(err, !s->records, GLOFND_E_MEMORY, "no memory for %lld anchors of %zu bytes; a working file needs none",
            (long long)s->spec.n, s->record_bytes);
    return GLOFND_OK;
}

glofnd_status gf_store_new(gf_error *err, const gf_store_spec *spec, const char *path, glofnd_store **out) {
    glofnd_store *s = calloc(1, sizeof *s);
    FAIL_IF(err, !s, GLOFND_E_MEMORY, "no memory for a store");
    s->spec = *spec;
    if (spec->keyed) s->spec.n = gf_store_room(spec->n);
    s->record_bytes = gf_record_bytes(spec);
    s->fd = s->table.fd = -1;
    pthread_mutex_init(&s->lock, NULL);
    glofnd_status status = alloc_tables(err, s);
    if (status == GLOFND_OK) status = alloc_records(err, s, path);
    if (status == GLOFND_OK && spec->keyed && !s->table.slot) status = gf_store_index(err, s);
    if (status != GLOFND_OK) {
        glofnd_store_free(s);
        return status;
    }
    if (path) gf_store_note_adam(s);
    *out = s;
    return GLOFND_OK;
}

glofnd_status gf_store_make(glofnd_ctx *c, const gf_store_spec *spec, const char *path, glofnd_store **out) {
    *out = NULL;
    TRY(gf_store_check_spec(&c->err, spec));
    FAIL_IF(&c->err, c->device && path, GLOFND_E_UNSUPPORTED, "spec.path: a store on %s has no working file; set it to NULL",
            c->device->name);
    TRY(gf_store_new(&c->err, spec, path, out));
    if (!c->device) return GLOFND_OK;
    const glofnd_status status = gf_store_to_device(&c->err, *out, c->device, c->on);
    if (status != GLOFND_OK) glofnd_store_free(*out), *out = NULL;
    return status;
}

glofnd_status glofnd_store_create(glofnd_ctx *c, const glofnd_store_spec *given, glofnd_store **out) {
    if (out) *out = NULL;
    if (!c) return GLOFND_E_ARGUMENT;
    FAIL_IF(&c->err, !given || !out, GLOFND_E_ARGUMENT, "%s is NULL", given ? "out" : "spec");
    glofnd_store_spec known = {0};
    const glofnd_store_spec *spec = &known;
    TRY(gf_struct_check(&c->err, "spec", "glofnd_store_spec", given, offsetof(glofnd_store_spec, keyed), sizeof known));
    memcpy(&known, given, GF_MIN(given->size, sizeof known));
    FAIL_IF(&c->err, spec->keyed < 0 || spec->keyed > 1, GLOFND_E_ARGUMENT, "spec.keyed is %d; allowed: 0 or 1",
            (int)spec->keyed);
    const int ring = c->o.learner == GLOFND_LEARN_RING, bank = c->o.similarity == GLOFND_SIMILARITY_BANK;
    FAIL_IF(&c->err, spec->dim < 0 || (ring && spec->dim == 0), GLOFND_E_ARGUMENT, "spec.dim is %lld; %s", (long long)spec->dim,
            ring ? "the learner ring needs the length of an embedding" : "it must not be negative");
    FAIL_IF(&c->err, bank && (spec->dim < 1 || spec->dim > GF_BANK_MAX_DIM), GLOFND_E_ARGUMENT,
            "spec.dim is %lld; similarity bank needs the length of an embedding, 1 to %d", (long long)spec->dim, GF_BANK_MAX_DIM);
    const gf_store_spec derived = {.n = spec->n,
                                   .modalities = gf_sides(&c->o),
                                   .temperatures = gf_loss_individual(&c->o),
                                   .ring_rows = ring ? c->o.ring_rows : 0,
                                   .ring_dim = ring ? spec->dim : 0,
                                   .bank_dim = bank ? spec->dim : 0,
                                   .keyed = spec->keyed};
    return gf_store_make(c, &derived, spec->path, out);
}

void glofnd_store_free(glofnd_store *s) {
    if (!s) return;
    if (s->device) s->device->store_close(s->on);
    for (int side = 0; side < 2; side++) {
        gf_lazy_free(s->ring[side].rows, ring_row_bytes(s));
        gf_lazy_free(s->ring[side].id, ring_id_bytes(s));
    }
    if (s->fd >= 0) gf_store_unmap(s);
    else gf_lazy_free(s->records, state_bytes(s));
    gf_store_drop_table(s);
    gf_lazy_free(s->pages, gf_store_pages_bytes(s));
    gf_lazy_free(s->touched, gf_store_touched_bytes(s));
    free(s->path);
    pthread_mutex_destroy(&s->lock);
    free(s);
}

static glofnd_status describe(const glofnd_store *s, glofnd_store_info *info) {
    gf_device_state state = {.ring_count = s->ring_count};
    int64_t keys = s->used, room = s->spec.n;
    if (s->device) {
        TRY(gf_store_pull_touched(NULL, s));
        TRY(s->device->store_state(NULL, s->on, 0, &state));
    }
    if (s->device && s->spec.keyed) {
        int64_t rows = 0;
        TRY(s->device->store_keyed(NULL, s->on, &rows, &keys));
        room = (rows - 1) / 10 * 7;
    }
    const int64_t blocks = gf_store_blocks(s), words = (blocks + 63) / 64;
    int64_t touched = 0;
    for (int64_t w = 0; w < words; w++) touched += __builtin_popcountll(s->touched[w]);
    touched *= GF_STORE_BLOCK;
    if (gf_bit(s->touched, blocks - 1)) touched -= blocks * GF_STORE_BLOCK - s->spec.n; /* the last block may be shorter */
    const glofnd_store_info all = {.n = room,
                                   .modalities = s->spec.modalities,
                                   .temperatures = s->spec.temperatures,
                                   .ring_rows = s->spec.ring_rows,
                                   .ring_dim = s->spec.ring_dim,
                                   .ring_count = state.ring_count,
                                   .touched_rows = touched,
                                   .row_bytes = s->record_bytes,
                                   .bytes = (size_t)state_bytes(s),
                                   .keys = keys,
                                   .keyed = s->spec.keyed};
    gf_struct_fill(info, &all, sizeof all);
    return GLOFND_OK;
}

glofnd_status glofnd_store_describe(const glofnd_store *s, glofnd_store_info *info) {
    if (!s || gf_struct_check(NULL, "", "", info, sizeof *info, GF_STRUCT_OUT) != GLOFND_OK) return GLOFND_E_ARGUMENT;
    gf_store_lock(s);
    const glofnd_status status = describe(s, info);
    gf_store_unlock(s);
    return status;
}

/* ----- records ----- */

int gf_bit(const uint64_t *bits, int64_t i) { return (int)(bits[i >> 6] >> (i & 63) & 1); }
void gf_bit_set(uint64_t *bits, int64_t i) { bits[i >> 6] |= (uint64_t)1 << (i & 63); }

static glofnd_anchor *lent_row(const glofnd_store *s, int side, int64_t id) { return s->lent + side * (s->spec.n + 1) + id; }

void gf_store_read_record(const glofnd_store *s, int64_t id, unsigned char *out) {
    const size_t begin = (size_t)id * s->record_bytes, end = begin + s->record_bytes;
    memset(out, 0, s->record_bytes);
    if (id < 0) return; /* a key without a row */
    if (s->lent) {
        for (int side = 0; side < s->spec.modalities; side++) gf_store_encode(s, side, lent_row(s, side, id), out);
        return;
    }
    for (size_t at = begin; at < end;) {
        const size_t page = at / GF_STORE_PAGE, next = (page + 1) * GF_STORE_PAGE, stop = next < end ? next : end;
        if (gf_bit(s->pages, (int64_t)page)) memcpy(out + (at - begin), s->records + at, stop - at);
        at = stop;
    }
}

void gf_store_mark(glofnd_store *s, int64_t first, int64_t count) {
    const size_t begin = (size_t)first * s->record_bytes, end = begin + (size_t)count * s->record_bytes;
    for (int64_t b = first / GF_STORE_BLOCK; b <= (first + count - 1) / GF_STORE_BLOCK; b++) gf_bit_set(s->touched, b);
    for (size_t p = begin / GF_STORE_PAGE; p <= (end - 1) / GF_STORE_PAGE; p++) gf_bit_set(s->pages, (int64_t)p);
}

/* Where the temperature of a side lies in a record: after the gf_record of all sides. */
static size_t temperature_offset(const glofnd_store *s, int side) {
    return (size_t)s->spec.modalities * sizeof(gf_record) + (size_t)side * sizeof(gf_temperature);
}

glofnd_anchor gf_store_decode(const glofnd_store *s, int side, const unsigned char *record, const gf_record *otherwise) {
    gf_record r;
    memcpy(&r, record + (size_t)side * sizeof r, sizeof r);
    glofnd_anchor row = gf_record_decode(&r, otherwise);
    if (s->spec.temperatures) {
        gf_temperature t;
        memcpy(&t, record + temperature_offset(s, side), sizeof t);
        row.tau = t.tau;
        row.tau_m = t.m;
        row.tau_v = t.v;
        row.tau_clock = t.clock;
    }
    return row;
}

void gf_store_encode(const glofnd_store *s, int side, const glofnd_anchor *row, unsigned char *record) {
    const gf_record r = gf_record_encode(row);
    memcpy(record + (size_t)side * sizeof r, &r, sizeof r);
    if (s->spec.temperatures) {
        const gf_temperature t = {row->tau, row->tau_m, row->tau_v, row->tau_clock};
        memcpy(record + temperature_offset(s, side), &t, sizeof t);
    }
}

void gf_store_gather(const glofnd_store *s, int side, const int64_t *id, int64_t n, int follow, glofnd_anchor *rows) {
    static const gf_record none;
    for (int64_t i = 0; i < n; i++) {
        unsigned char record[GF_STORE_MAX_RECORD];
        gf_store_read_record(s, id[i], record);
        rows[i] = gf_store_decode(s, side, record, follow ? &s->shared[side] : &none);
    }
}

void gf_store_scatter(glofnd_store *s, int side, const int64_t *id, int64_t n, const glofnd_anchor *rows) {
    for (int64_t i = 0; i < n; i++) {
        if (s->lent) {
            /* As a store would give the row back. */
            static const gf_record none;
            unsigned char record[GF_STORE_MAX_RECORD]; /* of one side */
            gf_store_encode(s, side, &rows[i], record);
            *lent_row(s, side, id[i]) = gf_store_decode(s, side, record, &none);
            continue;
        }
        gf_store_mark(s, id[i], 1);
        gf_store_encode(s, side, &rows[i], s->records + (size_t)id[i] * s->record_bytes);
    }
}

glofnd_anchor gf_store_shared_get(const glofnd_store *s, int side) {
    static const gf_record none;
    return gf_record_decode(&s->shared[side], &none);
}

void gf_store_shared_put(glofnd_store *s, int side, const glofnd_anchor *row) {
    s->shared[side] = gf_record_encode(row);
    s->shared[side].log_u = 0.0f; /* none */
    if (s->fd >= 0) gf_store_map_shared(s);
    if (s->lent) *lent_row(s, side, s->spec.n) = gf_store_shared_get(s, side);
}

/* ----- rows of the caller ----- */

glofnd_store gf_store_lend(const gf_store_spec *spec, glofnd_anchor *rows) {
    glofnd_store s = {.spec = *spec, .record_bytes = gf_record_bytes(spec), .lent = rows, .fd = -1};
    for (int side = 0; side < spec->modalities; side++) s.shared[side] = gf_record_encode(lent_row(&s, side, spec->n));
    return s;
}

/* ----- ids ----- */

__extension__ typedef unsigned __int128 wide;

/* "batch.slot" is an array of "slot"s. */
static const char *noun(const char *name) {
    const char *dot = strrchr(name, '.');
    return dot ? dot + 1 : name;
}

/* Open addressing at half load: slot = position + 1 of the id that holds it, 0 = free. */
glofnd_status gf_store_check_distinct(gf_error *err, const char *name, const int64_t *id, int64_t n, int64_t *scratch) {
    const size_t slots = 2 * (size_t)n;
    memset(scratch, 0, slots * sizeof *scratch);
    for (int64_t i = 0; i < n; i++) {
        /* Start of the search for `id[i]` in a table of `slots`: two multiplications spread ids of any stride. */
        uint64_t h = (uint64_t)id[i] * 0x9e3779b97f4a7c15u;
        h = (h ^ h >> 32) * 0xd6e8feb86659fd93u;
        size_t at = (size_t)((wide)h * slots >> 64);
        for (; scratch[at] != 0; at = at + 1 == slots ? 0 : at + 1) {
            const int64_t j = scratch[at] - 1;
            FAIL_IF(err, id[j] == id[i], GLOFND_E_INDEX, "%s[%lld] and %s[%lld] are both %lld; %ss must differ", name,
                    (long long)j, name, (long long)i, (long long)id[i], noun(name));
        }
        scratch[at] = i + 1;
    }
    return GLOFND_OK;
}

static glofnd_status check_range(gf_error *err, const glofnd_store *s, int64_t lowest, const char *name, const int64_t *id,
                                 int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        FAIL_IF(err, id[i] < lowest || id[i] >= s->spec.n, GLOFND_E_INDEX, "%s[%lld] is %lld; the store has %ss 0 .. %lld", name,
                (long long)i, (long long)id[i], noun(name), (long long)s->spec.n - 1);
    }
    return GLOFND_OK;
}

glofnd_status gf_store_check_ids(gf_error *err, const glofnd_store *s, const char *name, const int64_t *id, int64_t n,
                                 int distinct, int64_t *scratch) {
    if (n <= 0) return GLOFND_OK;
    TRY(check_range(err, s, 0, name, id, n));
    return distinct ? gf_store_check_distinct(err, name, id, n, scratch) : GLOFND_OK;
}

glofnd_status gf_store_check_names(gf_error *err, const char *name, const int64_t *id, int64_t n, int64_t *scratch) {
    for (int64_t i = 0; i < n; i++)
        FAIL_IF(err, id[i] < 0, GLOFND_E_INDEX, "%s[%lld] is %lld; %ss must not be negative", name, (long long)i,
                (long long)id[i], noun(name));
    return gf_store_check_distinct(err, name, id, n, scratch);
}

/* ----- rows tier ----- */

static glofnd_status check_rows_call(gf_error *err, const glofnd_store *s, int side, const int64_t *id, int64_t n,
                                     const glofnd_anchor *rows) {
    FAIL_IF(err, !s, GLOFND_E_ARGUMENT, "the store is NULL");
    FAIL_IF(err, n < 0, GLOFND_E_ARGUMENT, "n is %lld; it must not be negative", (long long)n);
    const int shared = s->spec.keyed && !id && n == 1; /* no number is left to mean it */
    FAIL_IF(err, n > 0 && ((!id && !shared) || !rows), GLOFND_E_ARGUMENT, "%s is NULL", id || shared ? "rows" : "id");
    FAIL_IF(err, side < 0 || side >= s->spec.modalities, GLOFND_E_ARGUMENT, "side is %d; the store has sides 0 .. %d", side,
            (int)s->spec.modalities - 1);
    return s->spec.keyed ? GLOFND_OK : check_range(err, s, GLOFND_SHARED, "id", id, n);
}

/* id [n], or of a store of keys the rows of these keys, in *found, which is to be freed; *at: one of them. `insert`: as for
 * gf_store_rows. */
static glofnd_status find_rows(gf_error *err, const glofnd_store *s, const int64_t *id, int64_t n, int insert, int64_t **found,
                               const int64_t **at) {
    *found = NULL, *at = id;
    if (!s->spec.keyed || s->device || !id) return GLOFND_OK;
    *found = (uint64_t)n <= SIZE_MAX / sizeof **found ? malloc((size_t)n * sizeof **found) : NULL;
    FAIL_IF(err, !*found, GLOFND_E_MEMORY, "no memory for the rows of %lld keys", (long long)n);
    *at = *found;
    return gf_store_rows(err, (glofnd_store *)(uintptr_t)s, id, n, insert, *found); /* changes nothing without `insert` */
}

static int is_shared(const glofnd_store *s, const int64_t *id, int64_t i) { return s->spec.keyed ? !id : id[i] == GLOFND_SHARED; }

glofnd_status glofnd_anchors_get(glofnd_ctx *c, const glofnd_store *s, int side, const int64_t *id, int64_t n,
                                 glofnd_anchor *rows) {
    if (!c) return GLOFND_E_ARGUMENT;
    TRY(check_rows_call(&c->err, s, side, id, n, rows));
    if (n == 0) return GLOFND_OK;
    if (s->device) return gf_store_device_get(&c->err, s, side, id, n, rows);
    int64_t *found;
    const int64_t *at;
    const glofnd_status status = find_rows(&c->err, s, id, n, 0, &found, &at);
    for (int64_t i = 0; i < n && status == GLOFND_OK; i++) {
        if (is_shared(s, id, i)) rows[i] = gf_store_shared_get(s, side);
        else gf_store_gather(s, side, &at[i], 1, 0, &rows[i]);
    }
    free(found);
    return status;
}

/* Why a row cannot be continued from: gf_row_fault() decides, the texts explain. */
static glofnd_status check_row(gf_error *err, const char *name, int64_t i, const glofnd_anchor *r) {
    const struct {
        const char *name;
        float value, min;
    } field[] = {{"lambda", r->lambda, -1}, {"m", r->m, -INFINITY},         {"v", r->v, -INFINITY},
                 {"tau", r->tau, 0},        {"tau_m", r->tau_m, -INFINITY}, {"tau_v", r->tau_v, 0}};
    if (gf_row_fault(r) == 0) return GLOFND_OK;
    const int bad_u = isnan(r->log_u) || (isinf(r->log_u) && r->log_u > 0);
    FAIL_IF(err, bad_u, GLOFND_E_NUMERIC, "%s[%lld].log_u is %g; finite, or -inf for none", name, (long long)i, (double)r->log_u);
    for (size_t f = 0; f < sizeof field / sizeof *field; f++) {
        FAIL_IF(err, !isfinite(field[f].value), GLOFND_E_NUMERIC, "%s[%lld].%s is not finite", name, (long long)i, field[f].name);
        FAIL_IF(err, field[f].value < field[f].min, GLOFND_E_ARGUMENT, "%s[%lld].%s is %g; it must be at least %g", name,
                (long long)i, field[f].name, (double)field[f].value, (double)field[f].min);
    }
    FAIL_IF(err, r->lambda > 1, GLOFND_E_ARGUMENT, "%s[%lld].lambda is %g; allowed: -1 .. 1", name, (long long)i,
            (double)r->lambda);
    FAIL_IF(err, r->clock == 0 && r->lambda < 1, GLOFND_E_ARGUMENT,
            "%s[%lld].lambda is %g with clock 0, which means never learned; set clock to at least 1", name, (long long)i,
            (double)r->lambda);
    GF_FAIL(err, GLOFND_E_ARGUMENT, "%s[%lld].tau is %g; allowed: 0 for none yet, 0.001 .. 100", name, (long long)i,
            (double)r->tau);
}

glofnd_status gf_store_check_lent(gf_error *err, const glofnd_store *s, const int64_t *id, int64_t n) {
    for (int side = 0; side < s->spec.modalities; side++) {
        const int64_t first = side * (s->spec.n + 1);
        for (int64_t i = 0; i < n; i++) TRY(check_row(err, "state", first + id[i], lent_row(s, side, id[i])));
        TRY(check_row(err, "state", first + s->spec.n, lent_row(s, side, s->spec.n)));
    }
    return GLOFND_OK;
}

/* ----- whose thresholds these are ----- */

static int has_pool(const glofnd_store *s) { return s->shared[0].v < 0.0f || s->shared[1].v < 0.0f; }

void gf_store_note_adam(glofnd_store *s) {
    enum { LOOKS = 1 << 20 }; /* of a store that never learned a threshold, which may be large */
    s->adam = !has_pool(s) && (s->shared[0].v > 0.0f || s->shared[1].v > 0.0f);
    if (s->adam || has_pool(s)) return;
    int64_t row = gf_store_next_seen(s, 0);
    for (int look = 0; look < LOOKS && row < s->spec.n && !s->adam; look++, row = gf_store_next_seen(s, row + 1))
        for (int side = 0; side < s->spec.modalities; side++) {
            glofnd_anchor a;
            gf_store_gather(s, side, &row, 1, 0, &a);
            s->adam |= a.v > 0.0f;
        }
}

/* After these rows were put. */
static glofnd_status note_put(gf_error *err, glofnd_store *s, const int64_t *id, int64_t n, const glofnd_anchor *rows) {
    int moments = 0, pool = 0;
    for (int64_t i = 0; i < n; i++) {
        moments |= rows[i].v > 0.0f;
        pool |= is_shared(s, id, i) && rows[i].v < 0.0f;
    }
    if (pool) s->adam = 0;
    if (!moments || pool || s->adam) return GLOFND_OK;
    gf_store_lock(s);
    const glofnd_status status = s->device ? gf_store_pull_shared(err, s) : GLOFND_OK;
    s->adam = status == GLOFND_OK && !has_pool(s);
    gf_store_unlock(s);
    return status;
}

glofnd_status glofnd_anchors_put(glofnd_ctx *c, glofnd_store *s, int side, const int64_t *id, int64_t n,
                                 const glofnd_anchor *rows) {
    if (!c) return GLOFND_E_ARGUMENT;
    TRY(check_rows_call(&c->err, s, side, id, n, rows));
    if (n == 0) return GLOFND_OK;
    for (int64_t i = 0; i < n; i++) TRY(check_row(&c->err, "rows", i, &rows[i]));
    if (id) {
        const int too_many = (uint64_t)n > SIZE_MAX / (4 * sizeof(int64_t));
        int64_t *scratch = too_many ? NULL : malloc(2 * (size_t)n * sizeof *scratch);
        FAIL_IF(&c->err, !scratch, GLOFND_E_MEMORY, "no memory to find repeats among %lld ids", (long long)n);
        const glofnd_status status = gf_store_check_distinct(&c->err, "id", id, n, scratch);
        free(scratch);
        TRY(status);
    }
    if (s->device) {
        TRY(gf_store_device_put(&c->err, s, side, id, n, rows));
        return note_put(&c->err, s, id, n, rows);
    }
    int64_t *found;
    const int64_t *at;
    glofnd_status status = find_rows(&c->err, s, id, n, 1, &found, &at);
    if (status == GLOFND_OK && at) status = gf_store_prepare(&c->err, s, at, n);
    for (int64_t i = 0; i < n && status == GLOFND_OK; i++) {
        if (is_shared(s, id, i)) gf_store_shared_put(s, side, &rows[i]);
        else gf_store_scatter(s, side, &at[i], 1, &rows[i]);
    }
    free(found);
    return status == GLOFND_OK ? note_put(&c->err, s, id, n, rows) : status;
}

/* ----- records ----- */

static glofnd_status check_records_call(gf_error *err, const glofnd_store *s, const int64_t *id, int64_t n, const void *records) {
    FAIL_IF(err, !s, GLOFND_E_ARGUMENT, "the store is NULL");
    FAIL_IF(err, n < 0, GLOFND_E_ARGUMENT, "n is %lld; it must not be negative", (long long)n);
    FAIL_IF(err, n > 0 && (!id || !records), GLOFND_E_ARGUMENT, "%s is NULL", id ? "records" : "id");
    return s->spec.keyed || s->device ? GLOFND_OK : gf_store_check_ids(err, s, "id", id, n, 0, NULL);
}

glofnd_status glofnd_records_get(glofnd_ctx *c, const glofnd_store *s, const int64_t *id, int64_t n, void *records) {
    if (!c) return GLOFND_E_ARGUMENT;
    TRY(check_records_call(&c->err, s, id, n, records));
    if (n == 0) return GLOFND_OK;
    if (s->device) return s->device->store_records(&c->err, c->on, s->on, 0, id, n, records);
    int64_t *found;
    const int64_t *at;
    const glofnd_status status = find_rows(&c->err, s, id, n, 0, &found, &at);
    const size_t state = gf_store_state_bytes(s);
    for (int64_t i = 0; i < n && status == GLOFND_OK; i++) {
        unsigned char *record = (unsigned char *)records + (size_t)i * s->record_bytes;
        gf_store_read_record(s, at[i], record);
        memset(record + state, 0, s->record_bytes - state);
    }
    free(found);
    return status;
}

/* Writes n records to rows of the store. */
static void write_records(glofnd_store *s, const int64_t *at, int64_t n, const unsigned char *records) {
    const size_t state = gf_store_state_bytes(s);
    for (int64_t i = 0; i < n; i++) {
        gf_store_mark(s, at[i], 1);
        memcpy(s->records + (size_t)at[i] * s->record_bytes, records + (size_t)i * s->record_bytes, state);
    }
}

glofnd_status glofnd_records_put(glofnd_ctx *c, glofnd_store *s, const int64_t *id, int64_t n, const void *records) {
    if (!c) return GLOFND_E_ARGUMENT;
    TRY(check_records_call(&c->err, s, id, n, records));
    if (n == 0) return GLOFND_OK;
    if (s->device) return s->device->store_records(&c->err, c->on, s->on, 1, id, n, (void *)(uintptr_t)records);
    int64_t *found;
    const int64_t *at;
    glofnd_status status = find_rows(&c->err, s, id, n, 1, &found, &at);
    if (status == GLOFND_OK) status = gf_store_prepare(&c->err, s, at, n);
    if (status == GLOFND_OK) write_records(s, at, n, records);
    free(found);
    return status;
}

/* ----- device ----- */

/* A store whose state lies on a device.
 *
 * The tables of glofnd_store stay as buffers between files and the device: lazily zero, so they cost what is copied through them.
 * Saving, loading and single rows all wait for the steps that are queued.
 */

/* ----- whole stores ----- */

/* The copy is no part of the store's state: a const store may fill it. */
static glofnd_store *copy_of(const glofnd_store *s) { return (glofnd_store *)(uintptr_t)s; }

void gf_store_lock(const glofnd_store *s) {
    if (s->device) pthread_mutex_lock(&copy_of(s)->lock);
}

void gf_store_unlock(const glofnd_store *s) {
    if (s->device) pthread_mutex_unlock(&copy_of(s)->lock);
}

/* Keys: the copy has the rows of the device's table, which grows. */
static glofnd_status fit_copy(gf_error *err, glofnd_store *s) {
    int64_t rows = 0;
    TRY(s->device->store_keyed(err, s->on, &rows, NULL));
    if (rows == s->spec.n) return GLOFND_OK;
    glofnd_store now = *s;
    now.spec.n = rows;
    now.touched = gf_lazy_alloc(gf_store_touched_bytes(&now));
    now.pages = gf_lazy_alloc(gf_store_pages_bytes(&now));
    now.records = gf_lazy_alloc(state_bytes(&now));
    if (!now.touched || !now.pages || !now.records) {
        gf_lazy_free(now.touched, gf_store_touched_bytes(&now));
        gf_lazy_free(now.pages, gf_store_pages_bytes(&now));
        gf_lazy_free(now.records, state_bytes(&now));
        GF_FAIL(err, GLOFND_E_MEMORY, "no memory for a copy of %lld anchors on the host", (long long)rows);
    }
    gf_lazy_free(s->touched, gf_store_touched_bytes(s));
    gf_lazy_free(s->pages, gf_store_pages_bytes(s));
    gf_lazy_free(s->records, state_bytes(s));
    s->spec.n = rows, s->touched = now.touched, s->pages = now.pages, s->records = now.records;
    return GLOFND_OK;
}

/* The rows of a store of keys in memory, key by key, and then a copy with the rows of the device. */
#define KEYS_AT_A_TIME 65536
static glofnd_status move_keys(gf_error *err, glofnd_store *s) {
    int64_t *key = malloc(KEYS_AT_A_TIME * sizeof *key);
    glofnd_status status = GLOFND_OK;
    FAIL_IF(err, !key, GLOFND_E_MEMORY, "no memory for %d keys", KEYS_AT_A_TIME);
    for (int64_t first = 0; first < s->used && status == GLOFND_OK; first += KEYS_AT_A_TIME) {
        const int64_t n = GF_MIN(s->used - first, KEYS_AT_A_TIME);
        for (int64_t i = 0; i < n; i++) key[i] = gf_store_key_of(s, first + i);
        status = s->device->store_rows(err, s->on, 1, key, n, s->records + (size_t)first * s->record_bytes);
    }
    free(key);
    gf_store_drop_table(s);
    s->used = 0;
    return status == GLOFND_OK ? fit_copy(err, s) : status;
}

glofnd_status gf_store_pull_touched(gf_error *err, const glofnd_store *s) {
    if (s->spec.keyed) TRY(fit_copy(err, copy_of(s)));
    const int64_t blocks = gf_store_blocks(s);
    uint8_t *touched = malloc((size_t)blocks);
    FAIL_IF(err, !touched, GLOFND_E_MEMORY, "no memory for the map of %lld blocks of anchors", (long long)blocks);
    const glofnd_status status = s->device->store_touched(err, s->on, touched);
    for (int64_t b = 0; status == GLOFND_OK && b < blocks; b++)
        if (touched[b]) gf_store_mark(copy_of(s), b * GF_STORE_BLOCK, gf_store_block_rows(s, b));
    free(touched);
    return status;
}

/* One transfer per run of touched blocks; `put` as in gf_device. */
static glofnd_status move_records(gf_error *err, const glofnd_store *s, int put) {
    const int64_t blocks = gf_store_blocks(s);
    for (int64_t b = 0; b < blocks; b++) {
        int64_t end = b;
        while (end < blocks && gf_bit(s->touched, end)) end++;
        if (end == b) continue;
        const int64_t first = b * GF_STORE_BLOCK, count = (end - b - 1) * GF_STORE_BLOCK + gf_store_block_rows(s, end - 1);
        TRY(s->device->store_range(err, s->on, put, first, count, s->records + (size_t)first * s->record_bytes));
        b = end;
    }
    return GLOFND_OK;
}

static glofnd_status move_rings(gf_error *err, const glofnd_store *s, int put) {
    for (int side = 0; side < s->spec.modalities && s->ring_count > 0; side++)
        TRY(s->device->store_ring(err, s->on, put, side, s->ring_count, s->ring[side].rows, s->ring[side].id));
    return GLOFND_OK;
}

glofnd_status gf_store_pull(gf_error *err, const glofnd_store *s) {
    TRY(gf_store_pull_touched(err, s));
    TRY(move_records(err, s, 0));
    return gf_store_pull_shared(err, s);
}

glofnd_status gf_store_pull_shared(gf_error *err, const glofnd_store *s) {
    glofnd_store *copy = copy_of(s);
    gf_device_state state;
    TRY(s->device->store_state(err, s->on, 0, &state));
    memcpy(copy->shared, state.shared, sizeof copy->shared);
    copy->ring_head = state.ring_head;
    copy->ring_count = state.ring_count;
    return move_rings(err, s, 0);
}

glofnd_status gf_store_push_shared(gf_error *err, const glofnd_store *s) {
    gf_device_state state = {.ring_head = s->ring_head, .ring_count = s->ring_count};
    memcpy(state.shared, s->shared, sizeof state.shared);
    TRY(s->device->store_state(err, s->on, 1, &state));
    return move_rings(err, s, 1);
}

glofnd_status gf_store_to_device(gf_error *err, glofnd_store *s, const gf_device *device, gf_device_ctx *d) {
    TRY(device->store_open(err, d, &s->spec, s->record_bytes, &s->on));
    s->device = device;
    TRY(s->spec.keyed ? move_keys(err, s) : move_records(err, s, 1));
    return gf_store_push_shared(err, s);
}

static glofnd_status carry(gf_error *err, const glofnd_store *from, glofnd_store *to) {
    const gf_store_spec *a = &from->spec;
    if (from->device) TRY(gf_store_pull(err, from));
    memcpy(to->shared, from->shared, sizeof to->shared);
    to->adam = from->adam;
    to->ring_head = from->ring_head;
    to->ring_count = from->ring_count;
    for (int side = 0; side < a->modalities && a->ring_rows > 0; side++) {
        memcpy(to->ring[side].rows, from->ring[side].rows, sizeof(float) * (size_t)(a->ring_rows * a->ring_dim));
        memcpy(to->ring[side].id, from->ring[side].id, sizeof(int64_t) * (size_t)a->ring_rows);
    }
    return to->device ? gf_store_push_shared(err, to) : GLOFND_OK;
}

glofnd_status gf_store_carry(gf_error *err, const glofnd_store *from, glofnd_store *to) {
    const gf_store_spec *a = &from->spec, *b = &to->spec;
    FAIL_IF(err, a->modalities != b->modalities || a->ring_rows != b->ring_rows || a->ring_dim != b->ring_dim, GLOFND_E_FORMAT,
            "the stored anchors have a different ring: %lld embeddings of %lld numbers, here %lld of %lld",
            (long long)a->ring_rows, (long long)a->ring_dim, (long long)b->ring_rows, (long long)b->ring_dim);
    gf_store_lock(from);
    const glofnd_status status = carry(err, from, to);
    gf_store_unlock(from);
    return status;
}

/* ----- rows ----- */

typedef struct row_buffers {
    unsigned char *records; /* [n][record_bytes] */
    int64_t *id;            /* [n] without GLOFND_SHARED */
    int64_t n;
    int64_t shared_at; /* last position of GLOFND_SHARED in the caller's ids; -1: none */
} row_buffers;

static glofnd_status take_buffers(gf_error *err, const glofnd_store *s, const int64_t *id, int64_t n, row_buffers *x) {
    *x = (row_buffers){.shared_at = -1};
    if ((uint64_t)n <= SIZE_MAX / GF_STORE_MAX_RECORD) {
        x->records = malloc((size_t)n * s->record_bytes + 1);
        x->id = malloc((size_t)n * sizeof *x->id + 1);
    }
    FAIL_IF(err, !x->records || !x->id, GLOFND_E_MEMORY, "no memory for %lld rows", (long long)n);
    for (int64_t i = 0; i < n; i++) {
        if (is_shared(s, id, i)) x->shared_at = i;
        else x->id[x->n++] = id[i];
    }
    return s->device->store_rows(err, s->on, 0, x->id, x->n, x->records);
}

static void free_buffers(row_buffers *x) {
    free(x->records);
    free(x->id);
}

static glofnd_status device_get(gf_error *err, const glofnd_store *s, int side, const int64_t *id, int64_t n, glofnd_anchor *rows,
                                row_buffers *x) {
    static const gf_record none;
    gf_device_state state = {0};
    TRY(take_buffers(err, s, id, n, x));
    if (x->shared_at >= 0) TRY(s->device->store_state(err, s->on, 0, &state));
    for (int64_t i = 0, k = 0; i < n; i++) {
        if (is_shared(s, id, i)) rows[i] = gf_record_decode(&state.shared[side], &none);
        else rows[i] = gf_store_decode(s, side, x->records + (size_t)k++ * s->record_bytes, &none);
    }
    return GLOFND_OK;
}

glofnd_status gf_store_device_get(gf_error *err, const glofnd_store *s, int side, const int64_t *id, int64_t n,
                                  glofnd_anchor *rows) {
    row_buffers x;
    const glofnd_status status = device_get(err, s, side, id, n, rows, &x);
    free_buffers(&x);
    return status;
}

static glofnd_status put(gf_error *err, glofnd_store *s, int side, const int64_t *id, int64_t n, const glofnd_anchor *rows,
                         row_buffers *x) {
    TRY(take_buffers(err, s, id, n, x));
    for (int64_t i = 0, k = 0; i < n; i++)
        if (!is_shared(s, id, i)) gf_store_encode(s, side, &rows[i], x->records + (size_t)k++ * s->record_bytes);
    TRY(s->device->store_rows(err, s->on, 1, x->id, x->n, x->records));
    if (x->shared_at < 0) return GLOFND_OK;
    const glofnd_anchor *row = &rows[x->shared_at];
    gf_device_state state;
    TRY(s->device->store_state(err, s->on, 0, &state));
    state.shared[side] = gf_record_encode(row);
    state.shared[side].log_u = 0.0f; /* none */
    return s->device->store_state(err, s->on, 1, &state);
}

glofnd_status gf_store_device_put(gf_error *err, glofnd_store *s, int side, const int64_t *id, int64_t n,
                                  const glofnd_anchor *rows) {
    row_buffers x;
    const glofnd_status status = put(err, s, side, id, n, rows, &x);
    free_buffers(&x);
    return status;
}

/* ----- rows for code that runs on the host ----- */

static glofnd_status borrow(gf_error *err, glofnd_store *copy, int side, const int64_t *id, int64_t n, glofnd_anchor *rows) {
    static const int64_t shared = GLOFND_SHARED;
    glofnd_anchor one;
    TRY(gf_store_device_get(err, copy, side, id, n, rows));
    TRY(gf_store_device_get(err, copy, side, &shared, 1, &one));
    gf_store_scatter(copy, side, id, n, rows);
    gf_store_shared_put(copy, side, &one);
    return GLOFND_OK;
}

static glofnd_status give_back(gf_error *err, glofnd_store *s, int side, const int64_t *id, int64_t n, glofnd_anchor *rows) {
    static const int64_t shared = GLOFND_SHARED;
    const glofnd_anchor one = gf_store_shared_get(s, side);
    gf_store_gather(s, side, id, n, 0, rows);
    TRY(gf_store_device_put(err, s, side, id, n, rows));
    return gf_store_device_put(err, s, side, &shared, 1, &one);
}

static glofnd_status with_rows(gf_error *err, glofnd_store *s, int side, const int64_t *id, int64_t n,
                               glofnd_status (*move)(gf_error *, glofnd_store *, int, const int64_t *, int64_t,
                                                     glofnd_anchor *)) {
    glofnd_anchor *rows = malloc((size_t)n * sizeof *rows);
    FAIL_IF(err, !rows, GLOFND_E_MEMORY, "no memory for %lld rows", (long long)n);
    const glofnd_status status = move(err, s, side, id, n, rows);
    free(rows);
    return status;
}

glofnd_status gf_store_device_borrow(gf_error *err, const glofnd_store *s, int side, const int64_t *id, int64_t n) {
    return with_rows(err, copy_of(s), side, id, n, borrow);
}

glofnd_status gf_store_device_return(gf_error *err, glofnd_store *s, int side, const int64_t *id, int64_t n) {
    return with_rows(err, s, side, id, n, give_back);
}

/* ----- ring ----- */

/* The ring of recent unit embeddings that the learner RING compares with: pushed by steps, read and replaced. */

void gf_store_ring_push(glofnd_store *s, const float *const rows[2], int64_t ld, const int64_t *id, int64_t n) {
    const int64_t capacity = s->spec.ring_rows, dim = s->spec.ring_dim;
    if (capacity == 0 || n <= 0) return;
    const int64_t skip = n > capacity ? n - capacity : 0; /* these would be overwritten by later ones of the same call */
    for (int64_t i = skip; i < n; i++) {
        const int64_t slot = (s->ring_head + i) % capacity;
        for (int side = 0; side < s->spec.modalities; side++) {
            const float *row = rows[side] ? rows[side] + i * ld : NULL;
            float *dst = s->ring[side].rows + slot * dim;
            if (row) memcpy(dst, row, (size_t)dim * sizeof *dst);
            else memset(dst, 0, (size_t)dim * sizeof *dst);
            s->ring[side].id[slot] = row ? id[i] : -1;
        }
    }
    s->ring_head = (s->ring_head + n) % capacity;
    s->ring_count = s->ring_count + n < capacity ? s->ring_count + n : capacity;
}

/* ----- as arrays, the oldest first ----- */

static glofnd_status check_arrays(gf_error *err, const glofnd_store *s, int64_t n, const int64_t *id, const float *a,
                                  const float *b) {
    if (n == 0) return GLOFND_OK;
    FAIL_IF(err, !id || !a || (s->spec.modalities == 2 && !b), GLOFND_E_ARGUMENT, "%s is NULL", !id ? "id" : !a ? "a" : "b");
    return GLOFND_OK;
}

static glofnd_status check_store(gf_error *err, const glofnd_store *s) {
    FAIL_IF(err, !s, GLOFND_E_ARGUMENT, "the store is NULL");
    FAIL_IF(err, s->spec.ring_rows == 0, GLOFND_E_ARGUMENT, "the store has no ring; only the learner ring has one");
    return GLOFND_OK;
}

static glofnd_status get(gf_error *err, const glofnd_store *s, int64_t *id, float *const rows[2]) {
    const size_t dim = (size_t)s->spec.ring_dim;
    if (s->device) TRY(gf_store_pull_shared(err, s));
    TRY(check_arrays(err, s, s->ring_count, id, rows[0], rows[1]));
    for (int64_t k = 0; k < s->ring_count; k++) {
        /* Slot of the k-th oldest embedding. */
        const int64_t first = s->ring_count < s->spec.ring_rows ? 0 : s->ring_head;
        const size_t slot = (size_t)((first + k) % s->spec.ring_rows);
        id[k] = s->ring[0].id[slot];
        for (int side = 0; side < s->spec.modalities; side++)
            memcpy(rows[side] + (size_t)k * dim, s->ring[side].rows + slot * dim, dim * sizeof(float));
    }
    return GLOFND_OK;
}

glofnd_status glofnd_ring_get(glofnd_ctx *c, const glofnd_store *s, int64_t *id, float *a, float *b) {
    float *const rows[2] = {a, b};
    if (!c) return GLOFND_E_ARGUMENT;
    TRY(check_store(&c->err, s));
    gf_store_lock(s);
    const glofnd_status status = get(&c->err, s, id, rows);
    gf_store_unlock(s);
    return status;
}

static glofnd_status check_rows(gf_error *err, const char *name, const float *rows, int64_t n, int64_t dim) {
    for (int64_t i = 0; i < n * dim; i++)
        FAIL_IF(err, !isfinite(rows[i]), GLOFND_E_NUMERIC, "%s: row %lld is not finite", name, (long long)(i / dim));
    return GLOFND_OK;
}

glofnd_status glofnd_ring_put(glofnd_ctx *c, glofnd_store *s, int64_t n, const int64_t *id, const float *a, const float *b) {
    if (!c) return GLOFND_E_ARGUMENT;
    gf_error *err = &c->err;
    TRY(check_store(err, s));
    FAIL_IF(err, n < 0 || n > s->spec.ring_rows, GLOFND_E_ARGUMENT, "n is %lld; the ring holds 0 .. %lld embeddings",
            (long long)n, (long long)s->spec.ring_rows);
    TRY(check_arrays(err, s, n, id, a, b));
    for (int64_t i = 0; i < n; i++)
        FAIL_IF(err, id[i] < -1 && !s->spec.keyed, GLOFND_E_INDEX, "id[%lld] is %lld; allowed: -1 for none, 0 and more",
                (long long)i, (long long)id[i]);
    TRY(check_rows(err, "a", a, n, s->spec.ring_dim));
    if (s->spec.modalities == 2) TRY(check_rows(err, "b", b, n, s->spec.ring_dim));
    const float *const rows[2] = {a, s->spec.modalities == 2 ? b : NULL};
    glofnd_status status = GLOFND_OK;
    gf_store_lock(s);
    if (s->device) status = gf_store_pull_shared(err, s); /* the shared rows stay */
    if (status == GLOFND_OK) {
        s->ring_head = s->ring_count = 0;
        gf_store_ring_push(s, rows, s->spec.ring_dim, id, n);
        if (s->device) status = gf_store_push_shared(err, s);
    }
    gf_store_unlock(s);
    return status;
}

/* ----- bank ----- */

/* Rows of the bank, the averages of similarity BANK, in and out of a store. */

/* ----- in memory ----- */

static size_t offset_of(const glofnd_store *s, int side) {
    return gf_bank_offset(s->spec.modalities, s->spec.temperatures, s->spec.bank_dim, side);
}

void gf_store_bank_gather(const glofnd_store *s, int side, const int64_t *id, int64_t n, uint16_t *rows) {
    const int64_t dim = s->spec.bank_dim;
    for (int64_t i = 0; i < n; i++) {
        unsigned char record[GF_STORE_MAX_RECORD];
        gf_store_read_record(s, id[i], record);
        memcpy(rows + i * dim, record + offset_of(s, side), sizeof *rows * (size_t)dim);
    }
}

void gf_store_bank_scatter(glofnd_store *s, int side, const int64_t *id, int64_t n, const uint16_t *rows) {
    const int64_t dim = s->spec.bank_dim;
    for (int64_t i = 0; i < n; i++) {
        gf_store_mark(s, id[i], 1);
        memcpy(s->records + (size_t)id[i] * s->record_bytes + offset_of(s, side), rows + i * dim, sizeof *rows * (size_t)dim);
    }
}

/* ----- on a device: whole records through the host ----- */

static glofnd_status move_on_device(gf_error *err, const glofnd_store *s, int put, int side, const int64_t *id, int64_t n,
                                    uint16_t *rows, unsigned char *records) {
    const size_t bytes = sizeof *rows * (size_t)s->spec.bank_dim;
    TRY(s->device->store_rows(err, s->on, 0, id, n, records));
    for (int64_t i = 0; i < n; i++) {
        unsigned char *at = records + (size_t)i * s->record_bytes + offset_of(s, side);
        if (put) memcpy(at, rows + i * s->spec.bank_dim, bytes);
        else memcpy(rows + i * s->spec.bank_dim, at, bytes);
    }
    return put ? s->device->store_rows(err, s->on, 1, id, n, records) : GLOFND_OK;
}

static glofnd_status on_device(gf_error *err, const glofnd_store *s, int put, int side, const int64_t *id, int64_t n,
                               uint16_t *rows) {
    unsigned char *records = (uint64_t)n <= SIZE_MAX / GF_STORE_MAX_RECORD ? malloc((size_t)n * s->record_bytes) : NULL;
    FAIL_IF(err, !records, GLOFND_E_MEMORY, "no memory for %lld rows of the bank", (long long)n);
    const glofnd_status status = move_on_device(err, s, put, side, id, n, rows, records);
    free(records);
    return status;
}

/* ----- calls ----- */

int64_t glofnd_bank_dim(const glofnd_store *s) { return s ? s->spec.bank_dim : 0; }

static glofnd_status check(gf_error *err, const glofnd_store *s, int side, const int64_t *id, int64_t n, const void *rows,
                           int distinct) {
    FAIL_IF(err, !s, GLOFND_E_ARGUMENT, "the store is NULL");
    FAIL_IF(err, s->spec.bank_dim == 0, GLOFND_E_ARGUMENT, "the store has no bank: create it with similarity = bank");
    FAIL_IF(err, n < 0, GLOFND_E_ARGUMENT, "n is %lld; it must not be negative", (long long)n);
    FAIL_IF(err, n > 0 && (!id || !rows), GLOFND_E_ARGUMENT, "%s is NULL", id ? "rows" : "id");
    FAIL_IF(err, side < 0 || side >= s->spec.modalities, GLOFND_E_ARGUMENT, "side is %d; the store has sides 0 .. %d", side,
            (int)s->spec.modalities - 1);
    if (!distinct) return s->spec.keyed ? GLOFND_OK : gf_store_check_ids(err, s, "id", id, n, 0, NULL);
    int64_t *scratch = (uint64_t)n <= SIZE_MAX / 32 ? malloc(2 * sizeof *scratch * (size_t)n + 1) : NULL;
    FAIL_IF(err, !scratch, GLOFND_E_MEMORY, "no memory to find repeats among %lld ids", (long long)n);
    const glofnd_status status =
        s->spec.keyed ? gf_store_check_distinct(err, "id", id, n, scratch) : gf_store_check_ids(err, s, "id", id, n, 1, scratch);
    free(scratch);
    return status;
}

glofnd_status glofnd_bank_get(glofnd_ctx *c, const glofnd_store *s, int side, const int64_t *id, int64_t n, void *rows) {
    if (!c) return GLOFND_E_ARGUMENT;
    TRY(check(&c->err, s, side, id, n, rows, 0));
    if (n == 0) return GLOFND_OK;
    if (s->device) return on_device(&c->err, s, 0, side, id, n, rows);
    int64_t *found;
    const int64_t *at;
    const glofnd_status status = find_rows(&c->err, s, id, n, 0, &found, &at);
    if (status == GLOFND_OK) gf_store_bank_gather(s, side, at, n, rows);
    free(found);
    return status;
}

glofnd_status glofnd_bank_put(glofnd_ctx *c, glofnd_store *s, int side, const int64_t *id, int64_t n, const void *rows) {
    if (!c) return GLOFND_E_ARGUMENT;
    TRY(check(&c->err, s, side, id, n, rows, 1));
    if (n == 0) return GLOFND_OK;
    /* Infinite numbers and NaN have all bits of the exponent set. */
    const uint16_t *finite_rows = rows;
    const int64_t dim = s->spec.bank_dim;
    for (int64_t i = 0; i < n * dim; i++)
        FAIL_IF(&c->err, (finite_rows[i] & 0x7c00) == 0x7c00, GLOFND_E_NUMERIC,
                "row %lld of the bank is not finite at position %lld", (long long)(i / dim), (long long)(i % dim));
    if (s->device) return on_device(&c->err, s, 1, side, id, n, (uint16_t *)(uintptr_t)rows);
    int64_t *found;
    const int64_t *at;
    glofnd_status status = find_rows(&c->err, s, id, n, 1, &found, &at);
    if (status == GLOFND_OK) status = gf_store_prepare(&c->err, s, at, n);
    if (status == GLOFND_OK) gf_store_bank_scatter(s, side, at, n, rows);
    free(found);
    return status;
}

glofnd_status gf_averages_move(glofnd_ctx *c, glofnd_store *s, int put, int side, const int64_t *id, int64_t n, void *rows) {
    if (s->device) return s->device->store_bank(&c->err, c->on, s->on, put, side, s->spec.bank_dim, id, n, rows);
    return put ? glofnd_bank_put(c, s, side, id, n, rows) : glofnd_bank_get(c, s, side, id, n, rows);
}

/* ----- remap ----- */

/* The state of a store under new row numbers: the dataset has grown, shrunk or been reordered. */

glofnd_status gf_store_remap(gf_error *err, const glofnd_store *from, int64_t n, const int64_t *to, glofnd_store **out) {
    gf_store_spec spec = from->spec;
    spec.n = n;
    TRY(gf_store_check_spec(err, &spec));
    TRY(gf_store_new(err, &spec, NULL, out));
    glofnd_store *into = *out;
    for (int64_t i = 0; i < from->spec.n; i++) {
        static const unsigned char never[GF_STORE_MAX_RECORD]; /* such records are in the new store already */
        unsigned char record[GF_STORE_MAX_RECORD];
        if (!gf_bit(from->touched, i / GF_STORE_BLOCK)) {
            i += GF_STORE_BLOCK - 1; /* a whole block never seen: this is its first row */
            continue;
        }
        if (to[i] < 0) continue;
        gf_store_read_record(from, i, record);
        if (memcmp(record, never, from->record_bytes) == 0) continue;
        gf_store_mark(into, to[i], 1);
        memcpy(into->records + (size_t)to[i] * into->record_bytes, record, into->record_bytes);
    }
    memcpy(into->shared, from->shared, sizeof from->shared);
    into->adam = from->adam;
    const size_t slots = (size_t)from->ring_count, dim = (size_t)from->spec.ring_dim;
    for (int side = 0; slots > 0 && side < from->spec.modalities; side++) {
        memcpy(into->ring[side].rows, from->ring[side].rows, sizeof(float) * slots * dim);
        for (size_t k = 0; k < slots; k++) {
            /* Embeddings whose anchor is gone, or never had a row here, stay in the ring as negatives of all anchors, with id -1. */
            const int64_t id = from->ring[side].id[k];
            into->ring[side].id[k] = id < 0 || id >= from->spec.n || to[id] < 0 ? -1 : to[id];
        }
    }
    into->ring_head = from->ring_head;
    into->ring_count = from->ring_count;
    return GLOFND_OK;
}
