/* store_remap.c - the state of a store under new row numbers: the dataset has grown, shrunk or been reordered. */
#include <string.h>

#include "method/store.h"

/* Records of one block. Records never seen are zero in the new store already. */
static void move_block(const glofnd_store *from, int64_t block, const int64_t *to, glofnd_store *out) {
    static const unsigned char never[GF_STORE_MAX_RECORD];
    const int64_t first = block * GF_STORE_BLOCK, rows = gf_store_block_rows(from, block);
    for (int64_t i = first; i < first + rows; i++) {
        unsigned char record[GF_STORE_MAX_RECORD];
        if (to[i] < 0) continue;
        gf_store_read_record(from, i, record);
        if (memcmp(record, never, from->record_bytes) == 0) continue;
        gf_store_mark(out, to[i], 1);
        memcpy(out->records + (size_t)to[i] * out->record_bytes, record, out->record_bytes);
    }
}

/* Embeddings whose anchor is gone, or never had a row here, stay in the ring as negatives of all anchors, with id -1. */
static int64_t ring_id(const glofnd_store *from, const int64_t *to, int64_t id) {
    return id < 0 || id >= from->spec.n || to[id] < 0 ? -1 : to[id];
}

static void move_ring(const glofnd_store *from, const int64_t *to, glofnd_store *out) {
    const size_t slots = (size_t)from->ring_count, dim = (size_t)from->spec.ring_dim;
    for (int side = 0; slots > 0 && side < from->spec.modalities; side++) {
        const gf_ring *a = &from->ring[side];
        gf_ring *b = &out->ring[side];
        memcpy(b->rows, a->rows, sizeof *b->rows * slots * dim);
        for (size_t k = 0; k < slots; k++) b->id[k] = ring_id(from, to, a->id[k]);
    }
    out->ring_head = from->ring_head;
    out->ring_count = from->ring_count;
}

glofnd_status gf_store_remap(gf_error *err, const glofnd_store *from, int64_t n, const int64_t *to, glofnd_store **out) {
    gf_store_spec spec = from->spec;
    spec.n = n;
    TRY(gf_store_check_spec(err, &spec));
    TRY(gf_store_new(err, &spec, NULL, out));
    for (int64_t b = 0; b < gf_store_blocks(from); b++)
        if (gf_bit(from->touched, b)) move_block(from, b, to, *out);
    memcpy((*out)->shared, from->shared, sizeof from->shared);
    move_ring(from, to, *out);
    return GLOFND_OK;
}
