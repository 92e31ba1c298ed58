/* unit_dtype.c - embeddings and gradients in float32, bfloat16 and float16, at any stride: the same bits as a contiguous float32
 * batch of the same numbers; wrong types and strides are refused.
 */
#include "support/test.h"

#include "support/bed.h"
#include "support/losses.h"
#include "support/typed.h"
#include "util/dtype.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- conversion ---- */

static int is_nan16(uint16_t h) { return (h & 0x7C00u) == 0x7C00u && (h & 0x3FFu) != 0; }

/* The value of the format, by its definition. */
static double value16(uint16_t h) {
    const int exponent = h >> 10 & 31, sign = h >> 15;
    const double mantissa = h & 0x3FF;
    const double x = exponent == 0    ? ldexp(mantissa, -24)
                     : exponent == 31 ? (mantissa > 0 ? NAN : INFINITY)
                                      : ldexp(1024 + mantissa, exponent - 25);
    return sign ? -x : x;
}

TEST(every_float16_goes_through_float32) {
    for (uint32_t h = 0; h < 65536; h++) {
        const float x = gf_f16_to_float((uint16_t)h);
        if (is_nan16((uint16_t)h)) {
            assert_true(isnan(x) && is_nan16(gf_f16_from_float(x)));
            continue;
        }
        if ((double)x != value16((uint16_t)h)) fail_msg("%#x is %g, not %g", h, (double)x, value16((uint16_t)h));
        assert_int_equal(gf_f16_from_float(x), h);
    }
}

/* Between two neighbours: below, at and above the middle; the middle goes to the even one. */
TEST(float16_rounds_to_nearest_even) {
    for (uint32_t h = 0; h < 0x7C00u; h++) {
        const double low = value16((uint16_t)h), high = h == 0x7BFFu ? 65536.0 : value16((uint16_t)(h + 1));
        const float middle = (float)(0.5 * (low + high));
        assert_true((double)middle == 0.5 * (low + high)); /* float32 has the bits for it */
        assert_int_equal(gf_f16_from_float(middle), h + (h & 1u));
        assert_int_equal(gf_f16_from_float(nextafterf(middle, 0.0f)), h);
        assert_int_equal(gf_f16_from_float(nextafterf(middle, INFINITY)), h + 1);
        assert_int_equal(gf_f16_from_float(-nextafterf(middle, INFINITY)), 0x8000u | (h + 1));
    }
    assert_int_equal(gf_f16_from_float(INFINITY), 0x7C00u);
    assert_int_equal(gf_f16_from_float(1e30f), 0x7C00u);
    assert_int_equal(gf_f16_from_float(-1e-30f), 0x8000u);
}

/* ---- steps ---- */

static void check_scene(scene *s, glofnd_dtype dtype, glofnd_dtype grad_dtype, int layout) {
    runner typed = runner_make(s), plain = runner_make(s);
    outputs out = outputs_make(s);
    const size_t used = strlen(s->name);
    snprintf(s->name + used, sizeof s->name - used, ", dtype %d, gradients %d, layout %d", dtype, grad_dtype, layout);
    for (int step = 0; step < s->steps; step++) {
        glofnd_stats stats = {.size = sizeof stats};
        scene_batch b;
        scene_draw(s, step, &b);
        typed_batch t = typed_make(&b, dtype, grad_dtype, layout);
        memset(&out.stats, 0, sizeof out.stats), out.stats.size = sizeof out.stats;
        run_step(&plain, &t.plain, &out);
        expect_ok(typed.ctx, glofnd_step(typed.ctx, typed.store, &t.q, t.grad_a, t.grad_b, &stats));
        expect_typed_step(s, step, &t, &out, &stats);
        expect_equal_rows(s, &typed, &plain);
        run_two_calls(&plain, &t.plain, &out); /* one more visit, on both */
        typed_clear(&t);
        expect_ok(typed.ctx, glofnd_step_rows(typed.ctx, typed.store, &t.q, NULL, out.links, &stats));
        expect_ok(typed.ctx, glofnd_step_grad(typed.ctx, &t.q, NULL, out.links, t.grad_a, t.grad_b, &stats));
        expect_typed_step(s, step, &t, &out, &stats);
        typed_free(&t);
        scene_batch_free(&b);
    }
    s->name[used] = 0;
    outputs_free(&out);
    runner_free(&typed);
    runner_free(&plain);
}

/* Every loss with three detectors: a threshold that is learned, ranks by support vectors, none. */
TEST(steps_take_every_type_and_stride) {
    static const glofnd_detector DETECTOR[] = {GLOFND_DETECT_GLOFND, GLOFND_DETECT_FNC, GLOFND_DETECT_NONE};
    for (int loss = LOSS_SOGCLR; loss <= LOSS_ISOGCLR; loss++)
        for (int k = 0; k < 3; k++) {
            char name[64];
            snprintf(name, sizeof name, "loss %d, detector %d", loss, DETECTOR[k]);
            scene s = scene_make(name, loss);
            s.o.detector = DETECTOR[k];
            s.o.fnc_rule = GLOFND_FNC_TOPK;
            s.o.update_epoch = 0, s.o.mask_epoch = 1;
            s.with_support = DETECTOR[k] == GLOFND_DETECT_FNC;
            s.batch = 18, s.anchors = 24, s.dim = 13, s.steps = 3; /* no multiple of a vector or a tile */
            for (glofnd_dtype dtype = GLOFND_F32; dtype <= GLOFND_F16; dtype++)
                for (int layout = 0; layout < TYPED_LAYOUTS; layout++) {
                    check_scene(&s, dtype, GLOFND_F32, layout);
                    if (dtype != GLOFND_F32) check_scene(&s, dtype, dtype, layout);
                }
        }
}

/* Unit rows in bfloat16 are as long as their rounding lets them be: accepted without normalize. */
TEST(unit_rows_may_be_rounded) {
    for (glofnd_dtype dtype = GLOFND_BF16; dtype <= GLOFND_F16; dtype++) {
        scene s = scene_make("unit rows", LOSS_SOGCLR);
        s.o.normalize = 0;
        s.dim = 128, s.steps = 2;
        check_scene(&s, dtype, dtype, TYPED_PADDED);
    }
}

/* 4064 components of 1/sqrt(4064) all round up: the length becomes 1.0038, the worst that bfloat16 does to a unit row. */
TEST(the_worst_rounding_is_accepted) {
    enum { ROWS = 4, DIM = 4064 };
    glofnd_options o;
    glofnd_ctx *c;
    glofnd_store *s;
    glofnd_stats stats = {.size = sizeof stats};
    int64_t id[ROWS];
    uint16_t *x = malloc(sizeof *x * ROWS * DIM);
    float *grad = malloc(sizeof *grad * 2 * ROWS * DIM);
    assert_true(x && grad);
    for (int64_t i = 0; i < ROWS * DIM; i++) x[i] = i * i % 7 < 1 + i / DIM ? 0xbc81 : 0x3c81;
    for (int i = 0; i < ROWS; i++) id[i] = i;
    gf_method_options_init(&o);
    o.lambda_init = GLOFND_INIT_ONE;
    o.normalize = 0;
    assert_int_equal(glofnd_ctx_create(&o, &c, NULL, 0), GLOFND_OK);
    expect_ok(c, glofnd_store_create(c, &(glofnd_store_spec){.size = sizeof(glofnd_store_spec), .n = ROWS}, &s));
    const glofnd_batch q = {.size = sizeof q, .n = ROWS, .dim = DIM, .a = x, .b = x, .id = id, .dtype = GLOFND_BF16};
    expect_ok(c, glofnd_step(c, s, &q, grad, grad + ROWS * DIM, &stats));
    glofnd_store_free(s);
    glofnd_ctx_free(c);
    free(x);
    free(grad);
}

/* ---- exact thresholds ---- */

TEST(thresholds_take_every_type_and_stride) {
    bed t = bed_make(LOSS_SOGCLR, GLOFND_DETECT_GLOFND);
    const int64_t n = t.s.batch, dim = t.s.dim;
    float *want = malloc(sizeof *want * (size_t)n), *got = malloc(sizeof *got * (size_t)n);
    int64_t *skip = malloc(sizeof *skip * (size_t)n);
    assert_true(want && got && skip);
    for (int64_t i = 0; i < n; i++) skip[i] = i;
    for (glofnd_dtype dtype = GLOFND_F32; dtype <= GLOFND_F16; dtype++)
        for (int layout = 0; layout < TYPED_LAYOUTS; layout++) {
            typed_batch x = typed_make(&t.b, dtype, GLOFND_F32, layout);
            glofnd_query q = {.size = sizeof q, .rows = n, .cols = n, .dim = dim, .skip = skip, .alpha = 0.2};
            q.q = t.b.a, q.k = t.b.b;
            expect_ok(t.w.ctx, glofnd_exact_thresholds(t.w.ctx, &q, want));
            q.q = x.q.a, q.k = x.q.b, q.q_stride = x.q.a_stride, q.k_stride = x.q.b_stride, q.dtype = dtype;
            expect_ok(t.w.ctx, glofnd_exact_thresholds(t.w.ctx, &q, got));
            assert_memory_equal(got, want, sizeof *want * (size_t)n);
            q.k_stride = dim - 1;
            expect_refused(&t, "k_stride below dim", glofnd_exact_thresholds(t.w.ctx, &q, got), GLOFND_E_ARGUMENT);
            q.k_stride = x.q.b_stride, q.dtype = 3;
            expect_refused(&t, "unknown dtype", glofnd_exact_thresholds(t.w.ctx, &q, got), GLOFND_E_ARGUMENT);
            typed_free(&x);
        }
    free(want);
    free(got);
    free(skip);
    bed_free(&t);
}

/* ---- refusals ---- */

static void expect_bad(bed *t, const glofnd_batch *q, void *grad_a, void *grad_b, const char *names) {
    expect_refused(t, names, glofnd_step(t->w.ctx, t->w.store, q, grad_a, grad_b, NULL), GLOFND_E_ARGUMENT);
    if (!strstr(glofnd_ctx_error(t->w.ctx), names)) fail_msg("\"%s\" does not name %s", glofnd_ctx_error(t->w.ctx), names);
}

TEST(wrong_types_and_strides_are_refused) {
    bed t = bed_make(LOSS_CLIP, GLOFND_DETECT_GLOFND);
    float *a = t.out.grad_a, *b = t.out.grad_b;
    const int64_t dim = t.s.dim;
#define BAD(change, names)               \
    do {                                 \
        glofnd_batch q = t.b.q;          \
        change;                          \
        expect_bad(&t, &q, a, b, names); \
    } while (0)
    BAD(q.dtype = 3, "batch.dtype");
    BAD(q.dtype = -1, "batch.dtype");
    BAD(q.grad_dtype = 3, "batch.grad_dtype");
    BAD(q.grad_dtype = GLOFND_BF16, "batch.grad_dtype"); /* of float32 embeddings */
    BAD((q.dtype = GLOFND_F16, q.grad_dtype = GLOFND_BF16), "batch.grad_dtype");
    BAD(q.a_stride = dim - 1, "batch.a");
    BAD(q.b_stride = dim - 1, "batch.b");
    BAD(q.a_stride = -dim, "batch.a");
    BAD(q.b_stride = INT64_MAX, "batch.b");
    BAD(q.grad_a_stride = dim - 1, "grad_a");
    BAD(q.grad_b_stride = INT64_MIN, "grad_b");
    BAD(q.a = (const char *)q.a + 2, "batch.a");
    BAD((q.dtype = GLOFND_BF16, q.b = (const char *)q.b + 1), "batch.b");
    expect_bad(&t, &t.b.q, (char *)a + 2, b, "grad_a");
    bed_free(&t);
}

/* NaN and infinity are found in every type, with the row, the anchor and the place. */
TEST(non_finite_numbers_are_found) {
    static const uint16_t BAD_NUMBER[2][3] = {{0x7F80u, 0xFF80u, 0x7FC1u}, {0x7C00u, 0xFC00u, 0x7E01u}}; /* inf, -inf, NaN */
    bed t = bed_make(LOSS_SOGCLR, GLOFND_DETECT_GLOFND);
    for (glofnd_dtype dtype = GLOFND_BF16; dtype <= GLOFND_F16; dtype++)
        for (int k = 0; k < 3; k++) {
            typed_batch x = typed_make(&t.b, dtype, dtype, TYPED_PADDED);
            char names[80];
            ((uint16_t *)(uintptr_t)x.q.b)[5 * x.q.b_stride + 4] = BAD_NUMBER[dtype - 1][k];
            expect_refused(&t, "not finite", glofnd_step(t.w.ctx, t.w.store, &x.q, x.grad_a, x.grad_b, NULL), GLOFND_E_NUMERIC);
            snprintf(names, sizeof names, "batch.b: row 5 (anchor %lld)", (long long)x.q.id[5]);
            assert_non_null(strstr(glofnd_ctx_error(t.w.ctx), names));
            assert_non_null(strstr(glofnd_ctx_error(t.w.ctx), "position 4"));
            typed_free(&x);
        }
    bed_free(&t);
}
