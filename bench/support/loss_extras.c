/* loss_extras.c - see loss_extras.h. */
#include "support/loss_extras.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "support/clock.h"
#include "support/die.h"

enum { PLAIN, CANDIDATES, GRADIENTS, IDS, REPEATS, KEYS, POSITIVES, MUTUAL, FIXED };
static const char *const names[EXTRAS] = {"plain", "negatives", "+ grad", "+ ids", "repeats",
                                          "keys",  "positives", "mutual", "fixed"};

#define GUIDE_DIM 384
#define GUIDE_THRESHOLD 0.13f /* about one pair in fifty */

typedef struct extras {
    runner lib[EXTRAS];
    glofnd_batch q[EXTRAS];
    clock_times times[EXTRAS];
} extras;

/* A store of keys for a runner. */
static void take_keys(runner *r, int64_t n) {
    const glofnd_store_spec spec = {.size = sizeof spec, .n = n, .keyed = 1};
    glofnd_store_free(r->store);
    expect_ok(r->ctx, glofnd_store_create(r->ctx, &spec, &r->store), "store of keys");
}

static double similarities(const glofnd_batch *q) {
    const double b = (double)q->n;
    return 2.0 * b * (b - 1.0) + 2.0 * b * (double)q->negatives_a_n;
}

#define TURN_MS 20.0

/* In turns, so that a disturbance does not fall on one of them alone. */
static void time_all(extras *x, const plan *p) {
    int turn[EXTRAS];
    for (int i = 0; i < EXTRAS; i++) {
        const double ms = runner_step(&x->lib[i], &x->q[i]);
        turn[i] = ms < TURN_MS ? (int)(TURN_MS / ms) : 1;
    }
    const double start = seconds();
    for (int round = 0; round < p->min_rounds || seconds() - start < p->library_s; round++) {
        if (x->times[0].count >= CLOCK_MAX) break;
        for (int i = 0; i < EXTRAS; i++)
            for (int k = 0; k < turn[i]; k++) clock_add(&x->times[i], runner_step(&x->lib[i], &x->q[i]));
    }
}

static double time_of(clock_times *t) { return runner_setting.cpu_time ? clock_least(t) : clock_median(t); }

void loss_compare_extras(const plan *p, int64_t batch, int64_t dim, row *rows) {
    static extras x;
    sample s, more, guide;
    memset(&x, 0, sizeof x);
    sample_init(&s, batch, dim);
    sample_init(&more, batch, dim);
    sample_init(&guide, batch, GUIDE_DIM);
    int64_t *copies = malloc(sizeof *copies * (size_t)batch), *ids = malloc(sizeof *ids * (size_t)batch);
    int32_t *fours = malloc(sizeof *fours * (size_t)batch);
    float *grad = calloc((size_t)(batch * dim), sizeof *grad), *threshold = malloc(sizeof *threshold * (size_t)batch);
    if (!copies || !ids || !fours || !grad || !threshold) die("no memory");
    for (int64_t i = 0; i < batch; i++) {
        copies[i] = i % 8 == 7 ? i - 1 : i, ids[i] = i % 8 ? -1 : i;
        fours[i] = (int32_t)(i / 4), threshold[i] = GUIDE_THRESHOLD;
    }
    for (int i = 0; i < EXTRAS; i++) {
        glofnd_batch *q = &x.q[i];
        *q = s.q;
        if (i == CANDIDATES || i == GRADIENTS || i == IDS) q->negatives_a = more.a, q->negatives_a_n = batch;
        if (i == GRADIENTS || i == IDS) q->grad_negatives_a = grad;
        if (i == IDS) q->negatives_a_id = ids;
        if (i == REPEATS) q->id = copies;
        if (i == POSITIVES) q->positives = fours;
        if (i == FIXED) q->guide = guide.a, q->guide_dim = GUIDE_DIM, q->guide_threshold = threshold;
        runner_init(&x.lib[i], i == MUTUAL ? "mutual" : "glofnd", p->threads, &s.q, batch);
        x.lib[i].o.repeats = i == REPEATS;
        expect_ok(x.lib[i].ctx, glofnd_ctx_configure(x.lib[i].ctx, &x.lib[i].o), "options");
        if (i == KEYS) take_keys(&x.lib[i], batch);
        runner_train(&x.lib[i], &s, p->epochs);
        if (i != FIXED) continue; /* averages are as after training, thresholds are the guide's */
        x.lib[i].o.detector = GLOFND_DETECT_FIXED;
        expect_ok(x.lib[i].ctx, glofnd_ctx_configure(x.lib[i].ctx, &x.lib[i].o), "detector fixed");
    }
    time_all(&x, p);
    for (int i = 0; i < EXTRAS; i++) {
        const double n = similarities(&x.q[i]), ms = time_of(&x.times[i]);
        if (x.lib[i].stats.flagged == 0) die("%s: nothing is flagged", names[i]);
        rows[i] = row_empty("extras", names[i], batch, dim);
        rows[i].n = n, rows[i].ms = ms, rows[i].spread = clock_spread(&x.times[i]);
        rows[i].over_none = ms / n / (rows[PLAIN].ms / rows[PLAIN].n) - 1.0;
        runner_free(&x.lib[i]);
    }
    free(copies), free(ids), free(fours), free(grad), free(threshold);
    sample_free(&s), sample_free(&more), sample_free(&guide);
}
