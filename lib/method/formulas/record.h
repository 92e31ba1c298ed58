/* record.h - the state of one anchor on one side as it lies in a store, in memory, on a device and in files. */
#pragma once

#include <math.h>

#include "glofnd.h"
#include "util/host_device.h"

typedef struct gf_record { /* 20 bytes; zero = never seen */
    float lambda, m, v;    /* valid when clock > 0. m, v: moments of Adam, v >= 0. Learner SHRINKAGE, v < 0: see gf_lambda_open */
    float log_u;           /* +0.0 = none yet; a log u of exactly zero is stored as -0.0 */
    uint32_t clock;
} gf_record;

typedef struct gf_temperature { /* 16 bytes; zero = never seen */
    float tau, m, v;
    uint32_t clock;
} gf_temperature;

typedef struct gf_store_spec { /* the contents of a store: from its options and dimension, or from a file */
    int64_t n;
    int32_t modalities, temperatures;
    int64_t ring_rows, ring_dim; /* 0: no ring */
    int64_t bank_dim;            /* 0: no bank */
    int32_t keyed;               /* 1: ids are keys, any int64; n is the rows that there is memory for, see store_keys.c */
} gf_store_spec;

#define GF_BANK_MAX_DIM 4096

/* A record: gf_record of every modality; with temperatures, gf_temperature of every modality; with a bank, a row of float16
 * numbers of every modality, each filled up to a multiple of 4 bytes. In a store of keys, the key of its anchor comes last. */
GF_HD size_t gf_bank_row_bytes(int64_t dim) { return 2 * (size_t)((dim + 1) / 2 * 2); }

GF_HD size_t gf_bank_offset(int modalities, int temperatures, int64_t dim, int side) {
    return (size_t)modalities * (sizeof(gf_record) + (temperatures ? sizeof(gf_temperature) : 0)) +
           (size_t)side * gf_bank_row_bytes(dim);
}

/* Bytes of a whole record. */
GF_HD size_t gf_record_bytes(const gf_store_spec *spec) {
    return gf_bank_offset(spec->modalities, spec->temperatures, spec->bank_dim, spec->modalities) +
           (spec->keyed ? sizeof(int64_t) : 0);
}

#define GF_STORE_BLOCK 4096 /* records per block: unit of the touched map and of checksums in a file */

/* log u in a record: +0.0, the bits of a hole, means none; zero itself takes the other zero.
 * `shared`: what an anchor with clock 0 takes lambda, m, v and clock from, if that has been learned. */
GF_HD glofnd_anchor gf_record_decode(const gf_record *r, const gf_record *shared) {
    glofnd_anchor row = GF_ZERO;
    const gf_record *from = r->clock > 0 ? r : shared;
    row.lambda = 1.0f;
    row.log_u = r->log_u != 0.0f ? r->log_u : signbit(r->log_u) ? 0.0f : -INFINITY;
    if (from->clock > 0) {
        row.lambda = from->lambda;
        row.m = from->m;
        row.v = from->v;
        row.clock = from->clock;
    }
    return row;
}

/* 0: a step can continue from this row. 1: it holds numbers that are not finite (log u may be -inf: none). 2: out of range. */
GF_HD int gf_row_fault(const glofnd_anchor *r) {
    const float numbers[] = {r->lambda, r->m, r->v, r->tau, r->tau_m, r->tau_v};
    if (isnan(r->log_u) || (isinf(r->log_u) && r->log_u > 0)) return 1;
    for (int i = 0; i < 6; i++)
        if (!isfinite(numbers[i])) return 1;
    if (r->lambda < -1.0f || r->lambda > 1.0f || r->tau_v < 0.0f) return 2;
    if (r->clock == 0 && r->lambda < 1.0f) return 2; /* never learned */
    return r->tau != 0.0f && !(r->tau >= 0.000999f && r->tau <= 100.0f) ? 2 : 0;
}

GF_HD gf_record gf_record_encode(const glofnd_anchor *row) {
    gf_record r = GF_ZERO;
    if (!(isinf(row->log_u) && row->log_u < 0)) r.log_u = row->log_u == 0.0f ? -0.0f : row->log_u;
    r.clock = row->clock;
    if (row->clock > 0) {
        r.lambda = row->lambda;
        r.m = row->m;
        r.v = row->v;
    }
    return r;
}
