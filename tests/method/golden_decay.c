/* golden_decay.c - thresholds whose steps shrink with the visits (lambda_decay), against numbers of a program of its own
 * (tools/generate/make_decay_golden.py). */
#include "support/test.h"

#include "fixtures/decay_golden.h"
#include "method/formulas/lambda.h"
#include "method/options.h"
#include <math.h>

static gf_learner learner_of(const struct decay_case *c) {
    glofnd_options o;
    gf_method_options_init(&o);
    o.lambda_init = GLOFND_INIT_ONE;
    o.learner = c->sgd ? GLOFND_LEARN_SGD : GLOFND_LEARN_ADAM;
    o.lambda_init = c->start != 0.0 ? GLOFND_INIT_QUANTILE : GLOFND_INIT_ONE;
    o.alpha = DECAY_ALPHA, o.lambda_lr = c->lr, o.lambda_decay = c->decay;
    if (c->sgd && c->normalize) o.lambda_lr /= DECAY_ALPHA; /* a step by the gradient divided by alpha */
    return gf_learner_of(&o, 0, 0);
}

TEST(steps_shrink_as_written) {
    for (size_t k = 0; k < sizeof decay_cases / sizeof *decay_cases; k++) {
        const struct decay_case *c = &decay_cases[k];
        const gf_learner l = learner_of(c);
        glofnd_anchor row = {.lambda = 1.0f};
        if (c->start != 0.0) gf_lambda_start(&row, c->start);
        for (int t = 0; t < DECAY_VISITS; t++) {
            float least, most;
            gf_lambda_range(&l, &row, &least, &most);
            gf_lambda_update(&l, NULL, &row, decay_share[t], 1.0);
            if (fabs((double)row.lambda - (double)c->lambda[t]) > 2e-7)
                fail_msg("case %zu, visit %d: lambda %.9g, expected %.9g", k, t + 1, (double)row.lambda, (double)c->lambda[t]);
            assert_true(row.lambda >= least && row.lambda <= most);
        }
    }
}
