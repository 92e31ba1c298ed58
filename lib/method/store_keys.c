/* store_keys.c - a store of keys: any int64 finds its row, and the number of rows grows with the keys.
 *
 * Rows are taken one after the other, in the order in which keys come; a record ends with the key of its row. The table finds it:
 * open addressing in a power of two of slots, of which at most 7 in 10 are taken. A slot holds row + 1 and 24 bits of the key's
 * hash, so that almost no other key's record is read on the way. Nothing is ever removed but the newest rows, those of a step that
 * failed: the table is then what it was before them.
 *
 * Growth doubles the table and makes it anew from the records. Everything new is there before anything old is given up.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "method/context.h"
#include "method/store.h"
#include "util/array.h"

#define FEWEST_SLOTS 1024
#define ROW_BITS 40
#define ROW_MASK (((uint64_t)1 << ROW_BITS) - 1)

/* The last steps of MurmurHash3: every bit of a key moves every bit of its hash. */
static uint64_t hash_of(int64_t key) {
    uint64_t h = (uint64_t)key;
    h = (h ^ h >> 33) * 0xff51afd7ed558ccdu;
    h = (h ^ h >> 33) * 0xc4ceb9fe1a85ec53u;
    return h ^ h >> 33;
}

static int64_t rows_of(int64_t slots) { return slots / 10 * 7; }

static int64_t slots_of(int64_t rows) {
    int64_t slots = FEWEST_SLOTS;
    while (rows_of(slots) < rows) slots *= 2;
    return slots;
}

int64_t gf_store_room(int64_t keys) { return rows_of(slots_of(keys)); }

/* ----- records ----- */

size_t gf_store_state_bytes(const glofnd_store *s) { return s->record_bytes - (s->spec.keyed ? sizeof(int64_t) : 0); }

static unsigned char *key_at(const glofnd_store *s, int64_t row) {
    return s->records + (size_t)row * s->record_bytes + gf_store_state_bytes(s);
}

int64_t gf_store_key_of(const glofnd_store *s, int64_t row) {
    int64_t key;
    memcpy(&key, key_at(s, row), sizeof key);
    return key;
}

/* ----- table ----- */

/* The slot of a key in a table of the store's records, or the free one where it belongs. */
static uint64_t *slot_of(const glofnd_store *s, const struct gf_key_table *t, int64_t key, uint64_t hash) {
    const uint64_t mask = (uint64_t)t->slots - 1;
    for (uint64_t at = hash & mask;; at = (at + 1) & mask) {
        const uint64_t slot = t->slot[at];
        if (slot == 0) return &t->slot[at];
        if ((slot ^ hash) >> ROW_BITS == 0 && gf_store_key_of(s, (int64_t)(slot & ROW_MASK) - 1) == key) return &t->slot[at];
    }
}

static uint64_t entry_of(int64_t row, uint64_t hash) { return (hash & ~ROW_MASK) | (uint64_t)(row + 1); }

static void free_table(struct gf_key_table *t) {
    const uint64_t bytes = (uint64_t)t->slots * sizeof *t->slot;
    if (t->fd >= 0) {
        munmap(t->slot, (size_t)bytes);
        close(t->fd);
    } else {
        gf_lazy_free(t->slot, bytes);
    }
    *t = (struct gf_key_table){.fd = -1};
}

void gf_store_drop_table(glofnd_store *s) {
    if (s->table.slot) free_table(&s->table);
}

/* A table with the rows 0 .. used-1 in it. */
static glofnd_status make_table(gf_error *err, const glofnd_store *s, int64_t slots, struct gf_key_table *out) {
    struct gf_key_table t = {.slots = slots, .fd = -1};
    if (s->fd >= 0) TRY(gf_store_map_table(err, s, slots, &t));
    else t.slot = gf_lazy_alloc((uint64_t)slots * sizeof *t.slot);
    FAIL_IF(err, !t.slot, GLOFND_E_MEMORY, "no memory for a table of %lld keys; a working file needs none",
            (long long)rows_of(slots));
    for (int64_t row = 0; row < s->used; row++) {
        const int64_t key = gf_store_key_of(s, row);
        const uint64_t hash = hash_of(key);
        uint64_t *slot = slot_of(s, &t, key, hash);
        if (*slot != 0) {
            const int64_t first = (int64_t)(*slot & ROW_MASK) - 1;
            free_table(&t);
            GF_FAIL(err, GLOFND_E_FORMAT, "key %lld is there twice, in rows %lld and %lld", (long long)key, (long long)first,
                    (long long)row);
        }
        *slot = entry_of(row, hash);
    }
    *out = t;
    return GLOFND_OK;
}

glofnd_status gf_store_index(gf_error *err, glofnd_store *s) {
    struct gf_key_table t;
    TRY(make_table(err, s, slots_of(s->spec.n), &t));
    gf_store_drop_table(s);
    s->table = t;
    return GLOFND_OK;
}

/* ----- growth ----- */

static void *longer_copy(const void *from, uint64_t bytes, uint64_t more) {
    void *p = gf_lazy_alloc(more);
    if (p) memcpy(p, from, (size_t)bytes);
    return p;
}

static glofnd_status grow_records(gf_error *err, glofnd_store *s, int64_t n) {
    if (s->fd >= 0) return gf_store_map_grow(err, s, n);
    const uint64_t row = s->record_bytes;
    void *p = gf_lazy_grow(s->records, (uint64_t)s->spec.n * row, (uint64_t)n * row);
    FAIL_IF(err, !p, GLOFND_E_MEMORY, "no memory for the anchors of %lld keys, %zu bytes each; a working file needs none",
            (long long)n, s->record_bytes);
    s->records = p;
    return GLOFND_OK;
}

static glofnd_status grow(gf_error *err, glofnd_store *s, int64_t keys) {
    glofnd_store old = *s, larger = *s;
    struct gf_key_table table;
    FAIL_IF(err, keys > GF_KEYS_MAX, GLOFND_E_MEMORY, "%lld keys are too many; a store holds up to %lld", (long long)keys,
            (long long)GF_KEYS_MAX);
    larger.spec.n = gf_store_room(keys);
    TRY(make_table(err, s, slots_of(larger.spec.n), &table));
    uint64_t *touched = longer_copy(s->touched, gf_store_touched_bytes(s), gf_store_touched_bytes(&larger));
    uint64_t *pages = longer_copy(s->pages, gf_store_pages_bytes(s), gf_store_pages_bytes(&larger));
    glofnd_status status = GLOFND_OK;
    if (!touched || !pages)
        status = gf_fail(err, GLOFND_E_MEMORY, "no memory for the tables of a store of %lld keys", (long long)larger.spec.n);
    if (status == GLOFND_OK) status = grow_records(err, s, larger.spec.n);
    if (status != GLOFND_OK) {
        gf_lazy_free(touched, gf_store_touched_bytes(&larger));
        gf_lazy_free(pages, gf_store_pages_bytes(&larger));
        free_table(&table);
        return status;
    }
    gf_lazy_free(old.touched, gf_store_touched_bytes(&old));
    gf_lazy_free(old.pages, gf_store_pages_bytes(&old));
    gf_store_drop_table(s);
    s->spec.n = larger.spec.n, s->touched = touched, s->pages = pages, s->table = table;
    return GLOFND_OK;
}

glofnd_status gf_store_make_room(gf_error *err, glofnd_store *s, int64_t keys) {
    return keys <= s->spec.n ? GLOFND_OK : grow(err, s, keys);
}

/* ----- keys to rows ----- */

/* The next row gets a key, which the store does not have. */
static glofnd_status add_key(gf_error *err, glofnd_store *s, int64_t key, uint64_t hash) {
    const int64_t row = s->used;
    TRY(gf_store_make_room(err, s, row + 1));
    TRY(gf_store_prepare_range(err, s, row, 1));
    gf_store_mark(s, row, 1);
    memcpy(key_at(s, row), &key, sizeof key);
    *slot_of(s, &s->table, key, hash) = entry_of(row, hash);
    s->used++;
    return GLOFND_OK;
}

void gf_store_forget_keys(glofnd_store *s, int64_t used) {
    if (s->used == used) return;
    while (s->used > used) {
        const int64_t key = gf_store_key_of(s, s->used - 1);
        *slot_of(s, &s->table, key, hash_of(key)) = 0;
        memset(key_at(s, s->used - 1), 0, sizeof key);
        s->used--;
    }
    if (s->fd >= 0) gf_store_map_shared(s);
}

#define AHEAD 16 /* keys whose slots are on their way from memory */

glofnd_status gf_store_rows(gf_error *err, glofnd_store *s, const int64_t *id, int64_t n, int insert, int64_t *row) {
    const int64_t used = s->used;
    glofnd_status status = GLOFND_OK;
    for (int64_t i = 0; i < n && status == GLOFND_OK; i++) {
        const uint64_t hash = hash_of(id[i]);
        if (i + AHEAD < n) __builtin_prefetch(&s->table.slot[hash_of(id[i + AHEAD]) & (uint64_t)(s->table.slots - 1)]);
        const uint64_t slot = *slot_of(s, &s->table, id[i], hash);
        row[i] = (int64_t)(slot & ROW_MASK) - 1;
        if (slot != 0 || !insert) continue;
        row[i] = s->used;
        status = add_key(err, s, id[i], hash);
    }
    if (status != GLOFND_OK) gf_store_forget_keys(s, used);
    else if (s->used != used && s->fd >= 0) gf_store_map_shared(s);
    return status;
}

/* ----- calls ----- */

glofnd_status glofnd_store_reserve(glofnd_ctx *c, glofnd_store *s, int64_t keys) {
    if (!c) return GLOFND_E_ARGUMENT;
    FAIL_IF(&c->err, !s, GLOFND_E_ARGUMENT, "the store is NULL");
    FAIL_IF(&c->err, !s->spec.keyed, GLOFND_E_ARGUMENT,
            "the store has %lld anchors by position and does not grow: create it with spec.keyed = 1", (long long)s->spec.n);
    FAIL_IF(&c->err, keys < 0 || keys > GF_KEYS_MAX, GLOFND_E_ARGUMENT, "keys is %lld; allowed: 0 .. %lld", (long long)keys,
            (long long)GF_KEYS_MAX);
    return s->device ? s->device->store_reserve(&c->err, s->on, keys) : gf_store_make_room(&c->err, s, keys);
}

/* Ascending by key: eight rounds by one byte each, the last of which has the sign. */
static void sort_by_key(gf_keyed_row *rows, gf_keyed_row *spare, int64_t n) {
    for (int byte = 0; byte < 8; byte++) {
        const uint64_t sign = byte == 7 ? 128 : 0;
        int64_t first[257] = {0};
#define DIGIT(key) (((uint64_t)(key) >> 8 * byte & 255) ^ sign)
        for (int64_t i = 0; i < n; i++) first[DIGIT(rows[i].key) + 1]++;
        for (int d = 0; d < 256; d++) first[d + 1] += first[d];
        for (int64_t i = 0; i < n; i++) spare[first[DIGIT(rows[i].key)]++] = rows[i];
#undef DIGIT
        gf_keyed_row *swap = rows;
        rows = spare, spare = swap;
    }
}

glofnd_status gf_store_order(gf_error *err, const glofnd_store *s, gf_keyed_row **out, int64_t *count) {
    int64_t n = 0;
    for (int64_t r = gf_store_next_seen(s, 0); r < s->spec.n; r = gf_store_next_seen(s, r + 1)) n++;
    gf_keyed_row *rows = (uint64_t)n <= SIZE_MAX / (2 * sizeof *rows) ? malloc(2 * (size_t)n * sizeof *rows + 1) : NULL;
    FAIL_IF(err, !rows, GLOFND_E_MEMORY, "no memory to put %lld keys in order", (long long)n);
    n = 0;
    for (int64_t r = gf_store_next_seen(s, 0); r < s->spec.n; r = gf_store_next_seen(s, r + 1))
        rows[n++] = (gf_keyed_row){gf_store_key_of(s, r), r};
    sort_by_key(rows, rows + n, n); /* an even number of rounds ends where it began */
    *out = rows;
    *count = n;
    return GLOFND_OK;
}

static glofnd_status list_keys(gf_error *err, const glofnd_store *s, int64_t *keys, int64_t capacity, int64_t *count) {
    gf_keyed_row *rows = NULL;
    int64_t n = 0;
    if (s->device) TRY(gf_store_pull(err, s));
    if (!keys) {
        for (int64_t r = gf_store_next_seen(s, 0); r < s->spec.n; r = gf_store_next_seen(s, r + 1)) n++;
        *count = n;
        return GLOFND_OK;
    }
    TRY(gf_store_order(err, s, &rows, &n));
    glofnd_status status = GLOFND_OK;
    if (n > capacity)
        status = gf_fail(err, GLOFND_E_ARGUMENT, "there are %lld keys, and room for %lld", (long long)n, (long long)capacity);
    for (int64_t i = 0; i < n && status == GLOFND_OK; i++) keys[i] = rows[i].key;
    free(rows);
    if (status == GLOFND_OK) *count = n;
    return status;
}

glofnd_status glofnd_store_keys(glofnd_ctx *c, const glofnd_store *s, int64_t *keys, int64_t capacity, int64_t *count) {
    if (!c) return GLOFND_E_ARGUMENT;
    FAIL_IF(&c->err, !s || !count, GLOFND_E_ARGUMENT, "%s is NULL", s ? "count" : "the store");
    FAIL_IF(&c->err, !s->spec.keyed, GLOFND_E_ARGUMENT, "the store has no keys: its anchors are 0 .. %lld",
            (long long)s->spec.n - 1);
    gf_store_lock(s);
    const glofnd_status status = list_keys(&c->err, s, keys, capacity, count);
    gf_store_unlock(s);
    return status;
}
