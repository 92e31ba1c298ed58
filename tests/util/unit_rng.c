/* unit_rng.c - Philox against its published vectors, streams that do not meet, draws without bias, and the order of an epoch. */
#include "support/test.h"

#include "util/rng.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ----- Philox ---------------------------------------------------------------------------------------------------- */

/* The three vectors of philox4x32 with 10 rounds in the Random123 distribution (kat_vectors). */
TEST(philox_gives_the_published_numbers) {
    static const struct {
        uint32_t counter[4], key[2], out[4];
    } known[] = {
        {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
         {0xffffffff, 0xffffffff},
         {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
         {0xa4093822, 0x299f31d0},
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        uint32_t out[4];
        gf_philox(known[i].counter, known[i].key, out);
        assert_memory_equal(out, known[i].out, sizeof out);
    }
}

/* ----- streams --------------------------------------------------------------------------------------------------- */

/* Made with an independent implementation of the rule in rng.c, in Python. */
TEST(streams_are_pinned) {
    gf_rng r = gf_rng_at(42, GF_RNG_AUGMENT, 3, 0x1234567890u, 7);
    static const uint32_t expected[6] = {0x60ce354b, 0x61b38884, 0xea4d7d19, 0x95a35222, 0x8f12544e, 0xaa0884f3};
    for (int i = 0; i < 6; i++) assert_int_equal(gf_rng_u32(&r), expected[i]);
    static const int64_t order[8] = {670901067, 784186737, 892627083, 336666395, 297737886, 828952224, 242889288, 129881665};
    for (int i = 0; i < 8; i++) assert_int_equal(gf_permute(42, 3, 1000000007, i), order[i]);
}

TEST(draws_follow_from_their_position) {
    gf_rng a = gf_rng_at(1, GF_RNG_INIT, 0, 5, 0), b = a;
    uint32_t first[9];
    for (int i = 0; i < 9; i++) first[i] = gf_rng_u32(&a);
    for (int i = 0; i < 9; i++) assert_int_equal(gf_rng_u32(&b), first[i]);
    for (int i = 0; i < 9; i++)
        for (int j = 0; j < i; j++) assert_int_not_equal(first[i], first[j]);
}

/* Each part of the address alone makes another stream; the high half of the sample too. */
TEST(every_part_of_the_address_counts) {
    const gf_rng all[] = {
        gf_rng_at(1, GF_RNG_ORDER, 0, 0, 0),          gf_rng_at(2, GF_RNG_ORDER, 0, 0, 0),
        gf_rng_at(1ull << 63, GF_RNG_ORDER, 0, 0, 0), gf_rng_at(1, GF_RNG_AUGMENT, 0, 0, 0),
        gf_rng_at(1, GF_RNG_CAPTION, 0, 0, 0),        gf_rng_at(1, GF_RNG_ORDER, 1, 0, 0),
        gf_rng_at(1, GF_RNG_ORDER, 0, 1, 0),          gf_rng_at(1, GF_RNG_ORDER, 0, 1ull << 32, 0),
        gf_rng_at(1, GF_RNG_ORDER, 0, 1ull << 63, 0), gf_rng_at(1, GF_RNG_ORDER, 0, 0, 1),
        gf_rng_at(1, GF_RNG_ORDER, 0, 0, 2),
    };
    const int count = sizeof all / sizeof all[0];
    uint32_t words[sizeof all / sizeof all[0]][4];
    for (int i = 0; i < count; i++) {
        gf_rng r = all[i];
        for (int k = 0; k < 4; k++) words[i][k] = gf_rng_u32(&r);
        for (int j = 0; j < i; j++) assert_memory_not_equal(words[i], words[j], sizeof words[0]);
    }
}

/* ----- distributions: limits are five standard errors, for a fixed stream --------------------------------------- */

enum { DRAWS = 200000 };

static void near(double got, double expected, double limit) {
    if (!(fabs(got - expected) <= limit)) fail_msg("%.9g is further than %.3g from %.9g", got, limit, expected);
}

TEST(uniform_is_even_on_0_1) {
    gf_rng r = gf_rng_at(7, GF_RNG_INIT, 0, 0, 0);
    double sum = 0, square = 0;
    int64_t bins[16] = {0};
    for (int i = 0; i < DRAWS; i++) {
        const double u = gf_rng_uniform(&r);
        assert_true(u >= 0.0 && u < 1.0);
        assert_true(ldexp(u, 53) == floor(ldexp(u, 53)));
        sum += u;
        square += u * u;
        bins[(int)(u * 16)]++;
    }
    near(sum / DRAWS, 0.5, 5 * sqrt(1.0 / 12 / DRAWS));
    near(square / DRAWS, 1.0 / 3, 5 * sqrt(4.0 / 45 / DRAWS));
    for (int k = 0; k < 16; k++) near((double)bins[k] / DRAWS, 1.0 / 16, 5 * sqrt(15.0 / 256 / DRAWS));
}

TEST(range_stays_inside) {
    gf_rng r = gf_rng_at(7, GF_RNG_AUGMENT, 0, 0, 0);
    double sum = 0;
    for (int i = 0; i < DRAWS; i++) {
        const double x = gf_rng_range(&r, -3.0, 5.0);
        assert_true(x >= -3.0 && x <= 5.0);
        sum += x;
    }
    near(sum / DRAWS, 1.0, 5 * 8 * sqrt(1.0 / 12 / DRAWS));
    assert_true(gf_rng_range(&r, 2.0, 2.0) == 2.0);
}

TEST(below_is_even_for_small_n) {
    gf_rng r = gf_rng_at(9, GF_RNG_SPLIT, 0, 0, 0);
    int64_t bins[7] = {0};
    for (int i = 0; i < DRAWS; i++) {
        const int64_t x = gf_rng_below(&r, 7);
        assert_true(x >= 0 && x < 7);
        bins[x]++;
    }
    for (int k = 0; k < 7; k++) near((double)bins[k] / DRAWS, 1.0 / 7, 5 * sqrt(6.0 / 49 / DRAWS));
    for (int i = 0; i < 100; i++) assert_int_equal(gf_rng_below(&r, 1), 0);
}

/* n = 3 * 2^61: a plain modulus would hit the lower two thirds in 3 of 4 draws. */
TEST(below_has_no_bias_for_huge_n) {
    gf_rng r = gf_rng_at(9, GF_RNG_SPLIT, 1, 0, 0);
    const int64_t n = (int64_t)3 << 61;
    int64_t low = 0;
    for (int i = 0; i < DRAWS; i++) {
        const int64_t x = gf_rng_below(&r, n);
        assert_true(x >= 0 && x < n);
        low += x < (int64_t)1 << 62;
    }
    near((double)low / DRAWS, 2.0 / 3, 5 * sqrt(2.0 / 9 / DRAWS));
    for (int i = 0; i < 100; i++) assert_true(gf_rng_below(&r, INT64_MAX) >= 0);
}

TEST(normal_is_normal) {
    gf_rng r = gf_rng_at(11, GF_RNG_INIT, 0, 0, 3);
    double moment[5] = {0}, inside = 0;
    for (int i = 0; i < DRAWS; i++) {
        const double x = gf_rng_normal(&r);
        assert_true(isfinite(x));
        for (int k = 1; k < 5; k++) moment[k] += pow(x, k) / DRAWS;
        inside += fabs(x) < 1.0;
    }
    near(moment[1], 0.0, 5 * sqrt(1.0 / DRAWS));
    near(moment[2], 1.0, 5 * sqrt(2.0 / DRAWS));
    near(moment[3], 0.0, 5 * sqrt(15.0 / DRAWS));
    near(moment[4], 3.0, 5 * sqrt(96.0 / DRAWS));
    near(inside / DRAWS, 0.6826894921370859, 5 * sqrt(0.2166 / DRAWS));
}

/* ----- order ----------------------------------------------------------------------------------------------------- */

TEST(order_has_everyone_once) {
    enum { N_MAX = 5000 };
    unsigned char *seen = calloc(N_MAX, 1);
    assert_non_null(seen);
    for (int64_t n = 1; n <= N_MAX; n++) {
        memset(seen, 0, N_MAX);
        for (int64_t i = 0; i < n; i++) {
            const int64_t at = gf_permute(5, 2, n, i);
            assert_true(at >= 0 && at < n);
            assert_int_equal(seen[at], 0);
            seen[at] = 1;
        }
    }
    free(seen);
}

static int ascending(const void *a, const void *b) {
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

/* Large n in spots: inside, no two alike. Sizes at the edges of the square root are where it could be off by one. */
TEST(order_works_for_large_n) {
    enum { SPOTS = 2000 };
    const int64_t sizes[] = {1000000000,
                             999950884,
                             999950883,
                             999950885,
                             (int64_t)1 << 40,
                             ((int64_t)1 << 52) + 1,
                             (int64_t)94906267 * 94906267,
                             ((int64_t)1 << 62) - 1,
                             INT64_MAX};
    int64_t at[SPOTS];
    for (size_t k = 0; k < sizeof sizes / sizeof sizes[0]; k++) {
        const int64_t n = sizes[k];
        for (int64_t i = 0; i < SPOTS; i++) {
            at[i] = gf_permute(1, 0, n, i % 2 ? n - 1 - i : i);
            assert_true(at[i] >= 0 && at[i] < n);
        }
        qsort(at, SPOTS, sizeof at[0], ascending);
        for (int i = 1; i < SPOTS; i++) assert_true(at[i] != at[i - 1]);
    }
}

static int64_t same_places(int64_t n, uint64_t seed, uint32_t epoch, uint64_t seed2, uint32_t epoch2) {
    int64_t same = 0;
    for (int64_t i = 0; i < n; i++) same += gf_permute(seed, epoch, n, i) == gf_permute(seed2, epoch2, n, i);
    return same;
}

/* Two random orders agree in one place on average, Poisson distributed: ten is out of the question. */
TEST(order_changes_with_epoch_and_seed) {
    for (int64_t n = 1000; n <= 1024; n += 24) {
        assert_int_equal(same_places(n, 3, 4, 3, 4), n);
        assert_true(same_places(n, 3, 4, 3, 5) < 10);
        assert_true(same_places(n, 3, 4, 4, 4) < 10);
        assert_true(same_places(n, 3, 4, 3ull << 32, 4) < 10);
    }
}

/* Against a random order: mean displacement (n - 1/n) / 3, one fixed point, and neighbours that land as far apart as any two. */
TEST(order_is_mixed) {
    const int64_t sizes[] = {10, 100, 1000, 4096, 50000};
    for (size_t k = 0; k < sizeof sizes / sizeof sizes[0]; k++) {
        const int64_t n = sizes[k], epochs = n < 50000 ? 200000 / n : 4;
        double moved = 0, apart = 0, fixed = 0;
        for (int64_t e = 0; e < epochs; e++) {
            int64_t before = gf_permute(1, (uint32_t)e, n, n - 1);
            for (int64_t i = 0; i < n; i++) {
                const int64_t at = gf_permute(1, (uint32_t)e, n, i);
                moved += llabs(at - i);
                apart += llabs(at - before);
                fixed += at == i;
                before = at;
            }
        }
        const double N = (double)n, draws = N * (double)epochs;
        near(moved / draws, (N - 1 / N) / 3, 5 * N * sqrt(1.0 / 18 / draws));
        near(apart / draws, (N + 1) / 3, 5 * N * sqrt(1.0 / 18 / draws));
        near(fixed / (double)epochs, 1.0, 5 / sqrt((double)epochs));
    }
}

/* All 24 orders of four, and of three the six, come equally often: small n is where a Feistel network is weakest. */
TEST(small_orders_are_even) {
    enum { TRIALS = 48000 };
    const struct { int n, orders; } cases[] = {{2, 2}, {3, 6}, {4, 24}};
    for (int c = 0; c < 3; c++) {
        int64_t bins[256] = {0};
        const int n = cases[c].n;
        for (uint32_t t = 0; t < TRIALS; t++) {
            int code = 0;
            for (int i = 0; i < n; i++) code = code * 4 + (int)gf_permute(1, t, n, i);
            bins[code]++;
        }
        int met = 0;
        const double p = 1.0 / cases[c].orders;
        for (int i = 0; i < 256; i++) {
            met += bins[i] > 0;
            if (bins[i] > 0) near((double)bins[i] / TRIALS, p, 5 * sqrt(p * (1 - p) / TRIALS));
        }
        assert_int_equal(met, cases[c].orders);
    }
}
