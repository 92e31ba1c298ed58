/* unit_positions.c - positions of images and texts resized, against PyTorch's numbers; what is no such tensor. */
#include "support/test.h"

#include "loop/model.h"
#include <math.h>
#include <stdlib.h>

typedef struct positions_case {
    gf_positions_kind kind;
    int64_t from, to, width;
    const float *want; /* [to][width] */
} positions_case;

#include "fixtures/clip/positions.h"

#define LIMIT 2e-6f /* PyTorch sums in float */

static float *made(int64_t n) {
    float *x = malloc((size_t)n * sizeof *x);
    assert_non_null(x);
    for (int64_t i = 0; i < n; i++) x[i] = (float)((i * 7919 + 13) % 1009) / 1024.0f - 0.5f;
    return x;
}

TEST(positions_are_resized_as_pytorch_does) {
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        const positions_case *c = &cases[k];
        float *old = made(c->from * c->width), *new = malloc((size_t)(c->to * c->width) * sizeof *new);
        assert_non_null(new);
        assert_int_equal(gf_positions_resize(NULL, c->kind, old, c->from, new, c->to, c->width), GLOFND_OK);
        for (int64_t i = 0; i < c->to * c->width; i++) {
            if (!(fabsf(new[i] - c->want[i]) <= LIMIT))
                fail_msg("case %zu, number %lld: %.9g, not %.9g", k, (long long)i, (double)new[i], (double)c->want[i]);
        }
        free(old);
        free(new);
    }
}

TEST(other_tensors_are_left_alone) {
    assert_int_equal(gf_positions_of("visual.positional_embedding", 50, 197), GF_POSITIONS_GRID);
    assert_int_equal(gf_positions_of("visual.attnpool.positional_embedding", 50, 82), GF_POSITIONS_GRID);
    assert_int_equal(gf_positions_of("positional_embedding", 77, 32), GF_POSITIONS_LINE);
    assert_int_equal(gf_positions_of("visual.positional_embedding", 49, 197), GF_POSITIONS_NONE); /* 48 patches */
    assert_int_equal(gf_positions_of("visual.positional_embedding", 1, 197), GF_POSITIONS_NONE);
    assert_int_equal(gf_positions_of("positional_embedding", 0, 32), GF_POSITIONS_NONE);
    assert_int_equal(gf_positions_of("visual.proj", 50, 197), GF_POSITIONS_NONE);
    assert_int_equal(gf_positions_of("visual.positional_embedding", 50, INT64_MAX), GF_POSITIONS_NONE);
}
