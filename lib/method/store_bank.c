/* store_bank.c - rows of the bank, the averages of similarity BANK, in and out of a store. */
#include <stdlib.h>
#include <string.h>

#include "device/averages.h"
#include "method/context.h"
#include "method/store.h"

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
    if (!distinct) return gf_store_check_ids(err, s, "id", id, n, 0, NULL);
    int64_t *scratch = (uint64_t)n <= SIZE_MAX / 32 ? malloc(2 * sizeof *scratch * (size_t)n + 1) : NULL;
    FAIL_IF(err, !scratch, GLOFND_E_MEMORY, "no memory to find repeats among %lld ids", (long long)n);
    const glofnd_status status = gf_store_check_ids(err, s, "id", id, n, 1, scratch);
    free(scratch);
    return status;
}

glofnd_status glofnd_bank_get(glofnd_ctx *c, const glofnd_store *s, int side, const int64_t *id, int64_t n, void *rows) {
    if (!c) return GLOFND_E_ARGUMENT;
    TRY(check(&c->err, s, side, id, n, rows, 0));
    if (n == 0) return GLOFND_OK;
    if (s->device) return on_device(&c->err, s, 0, side, id, n, rows);
    gf_store_bank_gather(s, side, id, n, rows);
    return GLOFND_OK;
}

/* Infinite numbers and NaN have all bits of the exponent set. */
static glofnd_status check_finite(gf_error *err, const glofnd_store *s, int64_t n, const uint16_t *rows) {
    const int64_t dim = s->spec.bank_dim;
    for (int64_t i = 0; i < n * dim; i++)
        FAIL_IF(err, (rows[i] & 0x7c00) == 0x7c00, GLOFND_E_NUMERIC, "row %lld of the bank is not finite at position %lld",
                (long long)(i / dim), (long long)(i % dim));
    return GLOFND_OK;
}

glofnd_status glofnd_bank_put(glofnd_ctx *c, glofnd_store *s, int side, const int64_t *id, int64_t n, const void *rows) {
    if (!c) return GLOFND_E_ARGUMENT;
    TRY(check(&c->err, s, side, id, n, rows, 1));
    if (n == 0) return GLOFND_OK;
    TRY(check_finite(&c->err, s, n, rows));
    if (s->device) return on_device(&c->err, s, 1, side, id, n, (uint16_t *)(uintptr_t)rows);
    TRY(gf_store_prepare(&c->err, s, id, n));
    gf_store_bank_scatter(s, side, id, n, rows);
    return GLOFND_OK;
}

glofnd_status gf_averages_move(glofnd_ctx *c, glofnd_store *s, int put, int side, const int64_t *id, int64_t n, void *rows) {
    if (s->device) return s->device->store_bank(&c->err, c->on, s->on, put, side, s->spec.bank_dim, id, n, rows);
    return put ? glofnd_bank_put(c, s, side, id, n, rows) : glofnd_bank_get(c, s, side, id, n, rows);
}
