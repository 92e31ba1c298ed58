/* cuda_state.cuh - the state of anchors as a step reads and writes it: in the records of a store, or in rows of the caller
 * (glofnd_ctx_state), which hold what a store would give back. */
#pragma once

#include "cuda/cuda_step.h"

__device__ __forceinline__ glofnd_row *gf_lent_row(const gf_cuda_step &x, int side, int64_t place) {
    return x.state + side * (x.store.n + 1) + place;
}

/* State of the anchor at a place of the store; an anchor with clock 0 takes lambda of `shared`. */
__device__ __forceinline__ glofnd_row gf_read_row(const gf_cuda_step &x, int side, int64_t place, const gf_record &shared) {
    const struct gf_device_store &s = x.store;
    gf_record r = {};
    gf_temperature t = {};
    if (place >= 0 && place < s.n && x.state) {
        const glofnd_row lent = *gf_lent_row(x, side, place);
        r = gf_record_encode(&lent);
        if (s.temperatures) t = {lent.tau, lent.tau_m, lent.tau_v, lent.tau_clock};
    } else if (place >= 0 && place < s.n) {
        const unsigned char *at = s.records + static_cast<size_t>(place) * s.record_bytes;
        r = reinterpret_cast<const gf_record *>(at)[side];
        if (s.temperatures) t = reinterpret_cast<const gf_temperature *>(at + static_cast<size_t>(s.modalities) * sizeof r)[side];
    }
    glofnd_row row = gf_record_decode(&r, &shared);
    row.tau = t.tau, row.tau_m = t.m, row.tau_v = t.v, row.tau_clock = t.clock;
    return row;
}

__device__ __forceinline__ void gf_write_row(const gf_cuda_step &x, int side, int64_t place, const glofnd_row &row) {
    const struct gf_device_store &s = x.store;
    const gf_record r = gf_record_encode(&row), none = {};
    gf_temperature t = {};
    if (s.temperatures) t = {row.tau, row.tau_m, row.tau_v, row.tau_clock};
    if (x.state) {
        glofnd_row lent = gf_record_decode(&r, &none);
        lent.tau = t.tau, lent.tau_m = t.m, lent.tau_v = t.v, lent.tau_clock = t.clock;
        *gf_lent_row(x, side, place) = lent;
        return;
    }
    unsigned char *at = s.records + static_cast<size_t>(place) * s.record_bytes;
    reinterpret_cast<gf_record *>(at)[side] = r;
    if (s.temperatures) reinterpret_cast<gf_temperature *>(at + static_cast<size_t>(s.modalities) * sizeof r)[side] = t;
    s.touched[place / GF_STORE_BLOCK] = 1;
}

/* ----- the one lambda of all anchors ----- */

__device__ __forceinline__ gf_record gf_read_shared(const gf_cuda_step &x, int side) {
    return x.state ? gf_record_encode(gf_lent_row(x, side, x.store.n)) : x.store.state->shared[side];
}

__device__ __forceinline__ void gf_write_shared(const gf_cuda_step &x, int side, const glofnd_row &row) {
    const gf_record none = {};
    gf_record r = gf_record_encode(&row);
    r.log_u = 0.0f; /* none */
    if (x.state) *gf_lent_row(x, side, x.store.n) = gf_record_decode(&r, &none);
    else x.store.state->shared[side] = r;
}
