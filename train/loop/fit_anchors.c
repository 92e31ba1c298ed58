/* fit_anchors.c - see fit_anchors.h. */
#include "loop/fit_anchors.h"

#include <stdlib.h>
#include <string.h>

#include "run/resume.h"

static int same_ring(const gf_store_spec *a, const gf_store_spec *b) {
    return a->ring_rows == b->ring_rows && a->ring_dim == b->ring_dim;
}

glofnd_status gf_anchors_check_memory(gf_error *err, const gf_config *c, const gf_store_spec *stored, const gf_store_spec *own,
                                      const char *path) {
    const unsigned memory = gf_detector_memory(c);
    FAIL_IF(err, stored->modalities != own->modalities || stored->temperatures != own->temperatures, GLOFND_E_FORMAT,
            "%s holds anchors of a different loss", path);
    TRY(gf_detector_check_memory(
        err, c, (stored->bank_dim > 0 ? GF_REMEMBERS_BANK : 0u) | (stored->ring_rows > 0 ? GF_REMEMBERS_RING : 0u), path));
    FAIL_IF(err, memory & GF_REMEMBERS_BANK && stored->bank_dim != own->bank_dim, GLOFND_E_FORMAT,
            "similarity: bank needs averages of %lld numbers, and those of %s have %lld", (long long)own->bank_dim, path,
            (long long)stored->bank_dim);
    FAIL_IF(err, memory & GF_REMEMBERS_RING && !same_ring(stored, own), GLOFND_E_OPTION,
            "ring_rows: %s has a ring of %lld embeddings, and %lld are given; resume with --ring-rows %lld, or begin a run in a "
            "different --out",
            path, (long long)stored->ring_rows, (long long)own->ring_rows, (long long)stored->ring_rows);
    return GLOFND_OK;
}

int gf_anchors_fit_as_they_are(const gf_config *c, const gf_store_spec *stored, const gf_store_spec *own) {
    const unsigned memory = gf_detector_memory(c);
    if (stored->bank_dim != own->bank_dim || !same_ring(stored, own)) return 0;
    return (stored->bank_dim == 0 || memory & GF_REMEMBERS_BANK) && (stored->ring_rows == 0 || memory & GF_REMEMBERS_RING);
}

/* Rows of one block; those never seen stay so. averages: [GF_STORE_BLOCK][bank_dim], or NULL. */
static void copy_block(const glofnd_store *from, int64_t block, glofnd_anchor *rows, uint16_t *averages, glofnd_store *to) {
    const int64_t first = block * GF_STORE_BLOCK, n = gf_store_block_rows(from, block);
    int64_t id[GF_STORE_BLOCK];
    for (int64_t i = 0; i < n; i++) id[i] = first + i;
    for (int side = 0; side < from->spec.modalities; side++) {
        gf_store_gather_own(from, side, id, n, rows);
        gf_store_scatter(to, side, id, n, rows);
        if (averages) gf_store_bank_gather(from, side, id, n, averages);
        if (averages) gf_store_bank_scatter(to, side, id, n, averages);
    }
}

static glofnd_status copy_rows(gf_error *err, const glofnd_store *from, int bank, glofnd_store *to) {
    glofnd_anchor *rows = malloc(GF_STORE_BLOCK * sizeof *rows);
    uint16_t *averages = bank ? malloc(GF_STORE_BLOCK * (size_t)from->spec.bank_dim * sizeof *averages) : NULL;
    const int ok = rows && (averages || !bank);
    for (int64_t b = 0; ok && b < gf_store_blocks(from); b++)
        if (gf_bit(from->touched, b)) copy_block(from, b, rows, averages, to);
    free(rows);
    free(averages);
    FAIL_IF(err, !ok, GLOFND_E_MEMORY, "no memory to copy anchors");
    return GLOFND_OK;
}

/* What belongs to no anchor: the shared rows, and the ring. */
static glofnd_status copy_shared(gf_error *err, const glofnd_store *from, int ring, glofnd_store *to) {
    if (ring) return gf_store_carry(err, from, to);
    memcpy(to->shared, from->shared, sizeof to->shared);
    return GLOFND_OK;
}

glofnd_status gf_anchors_fit(gf_error *err, const gf_config *c, const glofnd_store *stored, const gf_store_spec *own,
                             glofnd_store **out) {
    const unsigned memory = gf_detector_memory(c);
    gf_store_spec spec = *own;
    spec.n = stored->spec.n;
    *out = NULL;
    TRY(gf_store_new(err, &spec, NULL, out));
    glofnd_status status = copy_rows(err, stored, memory & GF_REMEMBERS_BANK, *out);
    if (status == GLOFND_OK) status = copy_shared(err, stored, memory & GF_REMEMBERS_RING, *out);
    if (status == GLOFND_OK) return GLOFND_OK;
    glofnd_store_free(*out);
    *out = NULL;
    return status;
}
