/* rng.c - see rng.h. Streams and orders are fixed for ever: a resumed run, or a script in another language, must
 * find the same numbers.
 *
 *   stream   key      mix(seed + purpose * GOLDEN) ^ (high half of sample) << 32        (mix: the finaliser of splitmix64)
 *            counter  {low half of sample, epoch, lane, block}, blocks 0, 1, 2 ... of four draws each
 *   order    a Feistel network over Z_a x Z_b with a = ceil(sqrt n), b = ceil(n / a): position = left + a * right. The rounds
 *            add a keyed function of one half to the other, modulo its size, so each is a bijection, and so is the network. The
 *            a b - n < a surplus positions are walked through. Counter of a round: {half, half >> 32, epoch, round}.
 */
#include "util/rng.h"

#include <assert.h>
#include <math.h>

#define GOLDEN 0x9E3779B97F4A7C15u /* 2^64 / golden ratio: purposes are far apart before mixing */
#define ORDER_ROUNDS 8             /* 4 are enough for large n; small ones have so few halves that they need more */

void gf_philox(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]) {
    uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3], k0 = key[0], k1 = key[1];
    for (int round = 0; round < 10; round++) {
        const uint64_t p0 = (uint64_t)0xD2511F53u * c0, p1 = (uint64_t)0xCD9E8D57u * c2;
        c0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
        c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c1 = (uint32_t)p1;
        c3 = (uint32_t)p0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    out[0] = c0, out[1] = c1, out[2] = c2, out[3] = c3;
}

static void philox_64(const uint32_t counter[4], uint64_t key, uint32_t out[4]) {
    const uint32_t halves[2] = {(uint32_t)key, (uint32_t)(key >> 32)};
    gf_philox(counter, halves, out);
}

/* A bijection: two seeds never give one purpose the same key. */
static uint64_t make_key(uint64_t seed, enum gf_rng_purpose purpose) {
    uint64_t x = seed + (uint64_t)purpose * GOLDEN;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    return x ^ (x >> 31);
}

/* ----- streams ----- */

gf_rng gf_rng_at(uint64_t seed, enum gf_rng_purpose purpose, uint32_t epoch, uint64_t sample, uint32_t lane) {
    const uint64_t key = make_key(seed, purpose) ^ (sample >> 32) << 32;
    return (gf_rng){.key = key, .counter = {(uint32_t)sample, epoch, lane, 0}, .used = 4};
}

uint32_t gf_rng_u32(gf_rng *r) {
    if (r->used == 4) {
        philox_64(r->counter, r->key, r->block);
        r->counter[3]++;
        r->used = 0;
    }
    return r->block[r->used++];
}

static uint64_t draw_u64(gf_rng *r) {
    const uint64_t high = gf_rng_u32(r);
    return high << 32 | gf_rng_u32(r);
}

double gf_rng_uniform(gf_rng *r) { return (double)(draw_u64(r) >> 11) * 0x1p-53; }

double gf_rng_range(gf_rng *r, double lo, double hi) { return lo + (hi - lo) * gf_rng_uniform(r); }

/* 2^64 mod n draws are refused, so that the others fall evenly on 0 .. n-1. */
int64_t gf_rng_below(gf_rng *r, int64_t n) {
    assert(n >= 1);
    const uint64_t m = (uint64_t)n, refused = (0 - m) % m;
    uint64_t x;
    do {
        x = draw_u64(r);
    } while (x < refused);
    return (int64_t)(x % m);
}

/* Box-Muller; its second value is not kept, so that a draw never depends on what was drawn before it but for the position. */
double gf_rng_normal(gf_rng *r) {
    const double radius = sqrt(-2.0 * log(1.0 - gf_rng_uniform(r))); /* 1 - u is in (0, 1] */
    return radius * cos(6.283185307179586476925 * gf_rng_uniform(r));
}

/* ----- order ----- */

static uint64_t round_value(uint64_t key, uint32_t epoch, uint32_t round, uint64_t half) {
    const uint32_t counter[4] = {(uint32_t)half, (uint32_t)(half >> 32), epoch, round};
    uint32_t out[4];
    philox_64(counter, key, out);
    return (uint64_t)out[0] << 32 | out[1];
}

int64_t gf_permute(uint64_t seed, uint32_t epoch, int64_t n, int64_t i) {
    assert(n >= 1 && i >= 0 && i < n);
    const uint64_t key = make_key(seed, GF_RNG_ORDER), count = (uint64_t)n;
    uint64_t a = (uint64_t)sqrt((double)count); /* rounded up */
    while (a * a >= count) a--; /* the double may be off by one either way; count >= 1, so this ends at 0 or above */
    while (a * a < count) a++;
    const uint64_t b = (count + a - 1) / a;
    uint64_t at = (uint64_t)i;
    do {
        uint64_t left = at % a, right = at / a;
        for (uint32_t round = 0; round < ORDER_ROUNDS; round += 2) {
            left = (left + round_value(key, epoch, round, right) % a) % a;
            right = (right + round_value(key, epoch, round + 1, left) % b) % b;
        }
        at = left + a * right;
    } while (at >= count);
    return (int64_t)at;
}
