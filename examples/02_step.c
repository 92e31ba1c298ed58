/* 02_step.c - a whole training loop on the public header: SogCLR + GloFND on made-up embeddings.
 *
 * 2000 samples of 20 hidden classes. The "network" is a table with one trainable vector per sample, a view is that vector plus
 * noise. Every twentieth pair of samples is a false negative (alpha = 0.05), which the library does not know.
 * Watch: the learned thresholds close in on the exact quantiles over all samples, the share of flagged pairs on alpha, and what
 * is flagged is what shares a class (labels are given for these two numbers only).
 *     cc 02_step.c $(pkg-config --cflags --libs glofnd) -lm && ./a.out
 */
#include <glofnd.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { SAMPLES = 2000, CLASSES = 20, DIM = 32, BATCH = 250, EPOCHS = 60, STEPS = EPOCHS * SAMPLES / BATCH };

static float table[SAMPLES][DIM], view[2][BATCH * DIM], grad[2][BATCH * DIM];
static int64_t order[SAMPLES], self[SAMPLES];
static int32_t label[BATCH];
static glofnd_options *options;
static glofnd_ctx *ctx;
static glofnd_store *store;

static void check(glofnd_status status) {
    if (status == GLOFND_OK) return;
    fprintf(stderr, "02_step: %s: %s\n", glofnd_status_text(status), ctx ? glofnd_ctx_error(ctx) : "no context");
    exit(1);
}

static void set(const char *key, double value) { check(glofnd_options_set_number(options, key, value, NULL, 0)); }

static float noise(void) { /* variance 1 */
    return 3.46f * ((float)rand() / (float)RAND_MAX - 0.5f);
}

static void make_samples(void) { /* the centre of the class, and an individual part */
    static float centre[CLASSES][DIM];
    for (int i = 0; i < SAMPLES; i++) {
        order[i] = self[i] = i;
        for (int k = 0; k < DIM; k++) {
            if (i < CLASSES) centre[i][k] = noise();
            table[i][k] = centre[i % CLASSES][k] + 0.9f * noise();
        }
    }
}

static void shuffle(void) {
    for (int i = SAMPLES - 1; i > 0; i--) {
        const int64_t j = rand() % (i + 1), t = order[i];
        order[i] = order[j], order[j] = t;
    }
}

/* One training step: two views of each sample, loss and gradients, descent. */
static void train(const int64_t *id, int epoch, glofnd_stats *stats) {
    const glofnd_batch batch = {.size = sizeof batch,
                                .n = BATCH,
                                .dim = DIM,
                                .a = view[0],
                                .b = view[1],
                                .id = id,
                                .label = label,
                                .epoch = epoch,
                                .want = GLOFND_WANT_QUALITY};
    for (int i = 0; i < BATCH * DIM; i++)
        for (int v = 0; v < 2; v++) view[v][i] = table[id[i / DIM]][i % DIM] + 0.1f * noise();
    for (int i = 0; i < BATCH; i++) label[i] = (int32_t)(id[i] % CLASSES);
    check(glofnd_step(ctx, store, &batch, grad[0], grad[1], stats));
    for (int i = 0; i < BATCH * DIM; i++) table[id[i / DIM]][i % DIM] -= 20 * (grad[0][i] + grad[1][i]);
}

/* Mean distance of the learned thresholds from the exact ones, over all samples. */
static double threshold_error(double alpha) {
    static float exact[SAMPLES];
    static glofnd_anchor rows[SAMPLES];
    double sum = 0;
    const glofnd_query all = {.size = sizeof all,
                              .rows = SAMPLES,
                              .cols = SAMPLES,
                              .dim = DIM,
                              .q = table[0],
                              .k = table[0],
                              .skip = self,
                              .alpha = alpha};
    check(glofnd_exact_thresholds(ctx, &all, exact));
    check(glofnd_anchors_get(ctx, store, 0, self, SAMPLES, rows));
    for (int i = 0; i < SAMPLES; i++) sum += fabsf(rows[i].lambda - exact[i]);
    return sum / SAMPLES;
}

int main(void) {
    const glofnd_store_spec spec = {.size = sizeof spec, .n = SAMPLES};
    const double alpha = 1.0 / CLASSES;
    glofnd_stats st = {.size = sizeof st};
    check(glofnd_options_create(&options)); /* SogCLR with GloFND; views are normalised inside */
    set("alpha", alpha);
    set("update_epoch", 1); /* wait, then learn thresholds, */
    set("mask_epoch", 4);   /* then drop flagged pairs */
    set("threads", 1);      /* plenty for this size */
    check(glofnd_ctx_create(options, &ctx, NULL, 0));
    check(glofnd_store_create(ctx, &spec, &store));
    make_samples();
    printf(" step   epoch    loss    |lambda - exact|   flagged   precision   recall\n");
    for (int step = 1; step <= STEPS; step++) {
        const int epoch = (step - 1) * BATCH / SAMPLES, at = (step - 1) * BATCH % SAMPLES;
        if (at == 0) shuffle();
        set("lambda_lr", 0.05 * (1 - (double)step / (STEPS + 1))); /* a schedule: new options between two steps */
        check(glofnd_ctx_configure(ctx, options));
        train(order + at, epoch, &st);
        if (step % 40 == 0)
            printf("%5d   %5d   %6.3f   %16.4f   %6.2f%%   %9.3f   %6.3f\n", step, epoch, st.loss, threshold_error(alpha),
                   100 * (1 - st.kept_share), st.precision, st.recall);
    }
    printf("\nthresholds off by %.3f on average; %.1f%% of the negatives flagged (alpha %.1f%%), %.0f%% of these rightly\n",
           threshold_error(alpha), 100 * (1 - st.kept_share), 100 * alpha, 100 * st.precision);
    glofnd_store_free(store);
    glofnd_ctx_free(ctx);
    glofnd_options_free(options);
    return 0;
}
