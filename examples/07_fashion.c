/* 07_fashion.c - a complete trainer on real images: a small encoder, its gradient, thresholds, checkpoints, and what was flagged.
 *
 * The encoder has one hidden layer: 784 pixels, 128 units, 32 numbers. Two random views of each image go through it, glofnd_step()
 * returns the loss and the gradient of every embedding, and the rest is the chain rule. After each epoch the program writes a
 * checkpoint; when it starts again with the same folder, it continues from there with the same bits.
 *     cc -O3 07_fashion.c $(pkg-config --cflags --libs glofnd) -lm && ./a.out IMAGES LABELS CHECKPOINT_FOLDER [EPOCHS]
 * docs/tutorials/c-program.md is about this file. IMAGES and LABELS are unpacked IDX files, of Fashion-MNIST or MNIST.
 */
#include <glofnd.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SIDE = 28, PIXELS = SIDE * SIDE, HIDDEN = 128, DIM = 32, SAMPLES = 10000, BATCH = 250, ROWS = 2 * BATCH };

typedef struct model { /* everything that a checkpoint holds besides the thresholds */
    float w1[PIXELS][HIDDEN], b1[HIDDEN], w2[HIDDEN][DIM];
    int32_t epoch; /* finished */
} model;

static model net, momentum;
static unsigned char image[SAMPLES][PIXELS], label[SAMPLES];
static float view[ROWS][PIXELS], hidden[ROWS][HIDDEN], z[ROWS][DIM], dz[ROWS][DIM];
static glofnd_ctx *ctx;
static glofnd_store *store;

static void fail(const char *what, const char *why) {
    fprintf(stderr, "07_fashion: %s: %s\n", what, why);
    exit(1);
}
static void check(glofnd_status status) {
    if (status != GLOFND_OK) fail(glofnd_status_text(status), ctx ? glofnd_ctx_error(ctx) : "no context");
}

/* ----- data ----- */

/* An IDX file: two zero bytes, the type 8 (bytes), the number of axes, the axes as big-endian integers, then the values. */
static void read_idx(const char *path, int axes, size_t row, unsigned char *to) {
    unsigned char head[16];
    FILE *file = fopen(path, "rb");
    if (!file) fail(path, "cannot be opened");
    if (fread(head, 1, 4 + 4 * (size_t)axes, file) != 4 + 4 * (size_t)axes || head[0] || head[1] || head[2] != 8 ||
        head[3] != axes)
        fail(path, "not an IDX file of bytes with as many axes as expected; is it still compressed?");
    if (axes == 3 && (head[11] != SIDE || head[15] != SIDE)) fail(path, "images must have 28 x 28 pixels");
    if (fread(to, row, SAMPLES, file) != SAMPLES) fail(path, "fewer than 10000 samples");
    fclose(file);
}

static float uniform(void) { return (float)rand() / (float)RAND_MAX; }

/* A view: shifted by up to 2 pixels, perhaps mirrored, brighter or darker. */
static void make_view(const unsigned char *x, float *out) {
    const int dx = rand() % 5 - 2, dy = rand() % 5 - 2, mirror = rand() % 2;
    const float light = (0.6f + 0.8f * uniform()) / 255;
    for (int r = 0; r < SIDE; r++)
        for (int c = 0; c < SIDE; c++) {
            const int sr = r + dy, sc = (mirror ? SIDE - 1 - c : c) + dx;
            const int seen = sr >= 0 && sr < SIDE && sc >= 0 && sc < SIDE;
            out[r * SIDE + c] = seen ? light * x[sr * SIDE + sc] : 0;
        }
}

/* ----- the encoder ----- */

static void forward(int rows) {
    for (int i = 0; i < rows; i++) {
        memcpy(hidden[i], net.b1, sizeof net.b1);
        for (int p = 0; p < PIXELS; p++)
            if (view[i][p] != 0)
                for (int h = 0; h < HIDDEN; h++) hidden[i][h] += view[i][p] * net.w1[p][h];
        memset(z[i], 0, sizeof z[i]);
        for (int h = 0; h < HIDDEN; h++) {
            hidden[i][h] = fmaxf(hidden[i][h], 0);
            for (int k = 0; k < DIM; k++) z[i][k] += hidden[i][h] * net.w2[h][k];
        }
    }
}

/* Gradients of all weights from dz, then one step of gradient descent with momentum. */
static void backward(float rate) {
    static model g;
    memset(&g, 0, sizeof g);
    for (int i = 0; i < ROWS; i++) {
        float dh[HIDDEN];
        for (int h = 0; h < HIDDEN; h++) {
            float sum = 0;
            for (int k = 0; k < DIM; k++) g.w2[h][k] += hidden[i][h] * dz[i][k], sum += dz[i][k] * net.w2[h][k];
            dh[h] = hidden[i][h] > 0 ? sum : 0;
            g.b1[h] += dh[h];
        }
        for (int p = 0; p < PIXELS; p++)
            if (view[i][p] != 0)
                for (int h = 0; h < HIDDEN; h++) g.w1[p][h] += view[i][p] * dh[h];
    }
    const size_t weights = offsetof(model, epoch) / sizeof(float);
    float *w = &net.w1[0][0], *m = &momentum.w1[0][0], *d = &g.w1[0][0];
    for (size_t i = 0; i < weights; i++) m[i] = 0.9f * m[i] + d[i], w[i] -= rate * m[i];
}

/* ----- one epoch ----- */

static void train_epoch(int epoch) {
    static int64_t order[SAMPLES];
    int32_t truth[BATCH];
    glofnd_stats s = {.size = sizeof s};
    double loss = 0;
    int64_t pairs = 0, flagged = 0, same = 0, hits = 0;
    srand((unsigned)epoch + 1); /* an epoch has the same batches and views whenever it runs */
    for (int i = 0; i < SAMPLES; i++) order[i] = i;
    for (int i = SAMPLES - 1; i > 0; i--) {
        const int64_t j = rand() % (i + 1), t = order[i];
        order[i] = order[j], order[j] = t;
    }
    for (const int64_t *id = order; id < order + SAMPLES; id += BATCH) {
        for (int i = 0; i < BATCH; i++) {
            make_view(image[id[i]], view[i]);
            make_view(image[id[i]], view[BATCH + i]);
            truth[i] = label[id[i]];
        }
        forward(ROWS);
        const glofnd_batch batch = {.size = sizeof batch,
                                    .n = BATCH,
                                    .dim = DIM,
                                    .a = z[0],
                                    .b = z[BATCH],
                                    .id = id,
                                    .label = truth, /* only to measure: GLOFND_WANT_QUALITY */
                                    .epoch = epoch,
                                    .want = GLOFND_WANT_QUALITY};
        check(glofnd_step(ctx, store, &batch, dz[0], dz[BATCH], &s));
        backward(0.06f);
        loss += s.loss * BATCH / SAMPLES;
        pairs += s.pairs, flagged += s.flagged, same += s.same, hits += s.hits;
    }
    printf("epoch %2d  loss %7.4f  mean threshold %.3f", epoch + 1, loss, s.lambda_mean);
    if (flagged)
        printf("  flagged %4.1f %%, of these %4.1f %% share a label (chance %4.1f %%)", 100.0 * (double)flagged / (double)pairs,
               100.0 * (double)hits / (double)flagged, 100.0 * (double)same / (double)pairs);
    printf("\n");
}

/* ----- checkpoints ----- */

/* The thresholds of an epoch lie next to those of the epoch before. weights.bin names the epoch, so replacing it is the moment at
 * which the new checkpoint counts: a kill at any time leaves one that fits together. */
static void save(const char *folder) {
    char path[4096], next[4096];
    snprintf(path, sizeof path, "%s/thresholds-%d.glofnd", folder, net.epoch % 2);
    check(glofnd_store_save(ctx, store, path));
    snprintf(path, sizeof path, "%s/weights.bin", folder);
    snprintf(next, sizeof next, "%s/weights.next", folder);
    FILE *file = fopen(next, "wb");
    if (!file || fwrite(&net, sizeof net, 1, file) != 1 || fwrite(&momentum, sizeof momentum, 1, file) != 1 || fclose(file) ||
        rename(next, path))
        fail(next, "cannot be written");
}

/* 1 if there was a checkpoint. */
static int load(const char *folder) {
    char path[4096];
    snprintf(path, sizeof path, "%s/weights.bin", folder);
    FILE *file = fopen(path, "rb");
    if (!file) return 0;
    if (fread(&net, sizeof net, 1, file) != 1 || fread(&momentum, sizeof momentum, 1, file) != 1) fail(path, "is too short");
    fclose(file);
    snprintf(path, sizeof path, "%s/thresholds-%d.glofnd", folder, net.epoch % 2);
    check(glofnd_store_load(ctx, path, NULL, &store));
    return 1;
}

/* ----- what was learned ----- */

static void embed(int first, int rows) { /* without random views */
    for (int i = 0; i < rows; i++)
        for (int p = 0; p < PIXELS; p++) view[i][p] = (float)image[first + i][p] / 255;
    forward(rows);
    for (int i = 0; i < rows; i++) {
        float sum = 0;
        for (int k = 0; k < DIM; k++) sum += z[i][k] * z[i][k];
        for (int k = 0; k < DIM; k++) z[i][k] /= sqrtf(sum) + 1e-12f;
    }
}

/* Some images, and how many others of each label are above their threshold. */
static void show_flags(void) {
    static float all[SAMPLES][DIM];
    for (int first = 0; first < SAMPLES; first += ROWS) embed(first, ROWS), memcpy(all[first], z, sizeof z);
    int right = 0;
    printf("\nimage  label  threshold   others above it, by label 0 .. 9\n");
    for (int64_t i = 0; i < 1000; i++) {
        glofnd_anchor anchor;
        int above[10] = {0}, most = 0;
        check(glofnd_anchors_get(ctx, store, 0, &i, 1, &anchor));
        for (int j = 0; j < SAMPLES; j++) {
            float sim = 0;
            for (int k = 0; k < DIM; k++) sim += all[i][k] * all[j][k];
            above[label[j]] += j != i && sim > anchor.lambda;
        }
        for (int c = 0; c < 10; c++) most = above[c] > above[most] ? c : most;
        right += most == label[i];
        if (i >= 8) continue;
        printf("%5d  %5d  %9.3f  ", (int)i, label[i], anchor.lambda);
        for (int c = 0; c < 10; c++) printf(" %4d", above[c]);
        printf("\n");
    }
    printf("\nfor %.1f %% of 1000 images, most of what is above the threshold has their own label\n", right / 10.0);
}

int main(int argc, char **argv) {
    if (argc < 4) fail("usage", "07_fashion IMAGES LABELS CHECKPOINT_FOLDER [EPOCHS]");
    const int epochs = argc > 4 ? atoi(argv[4]) : 20;
    read_idx(argv[1], 3, PIXELS, image[0]);
    read_idx(argv[2], 1, 1, label);
    glofnd_options *options = NULL;
    check(glofnd_options_create(&options));
    check(glofnd_options_set(options, "loss", "simclr", NULL, 0));
    check(glofnd_options_set(options, "tau", "0.2", NULL, 0));
    check(glofnd_options_set(options, "alpha", "0.05", NULL, 0)); /* flag 5 % of the negatives; ten labels: 10 % match */
    check(glofnd_options_set(options, "lambda_init", "quantile", NULL, 0)); /* not at 1: flags from the first visit on */
    check(glofnd_options_set(options, "mask_epoch", "2", NULL, 0));         /* the loss uses flags from the third epoch on */
    check(glofnd_options_set(options, "threads", "1", NULL, 0));            /* plenty for steps of this size */
    check(glofnd_ctx_create(options, &ctx, NULL, 0));
    check(glofnd_ctx_reserve(ctx, BATCH, BATCH, DIM, NULL));
    if (!load(argv[3])) {
        const glofnd_store_spec spec = {.size = sizeof spec, .n = SAMPLES};
        check(glofnd_store_create(ctx, &spec, &store));
        srand(0);
        for (int p = 0; p < PIXELS; p++)
            for (int h = 0; h < HIDDEN; h++) net.w1[p][h] = 0.1f * (uniform() - 0.5f);
        for (int h = 0; h < HIDDEN; h++)
            for (int k = 0; k < DIM; k++) net.w2[h][k] = 0.3f * (uniform() - 0.5f);
    }
    if (net.epoch) printf("continuing after epoch %d\n", net.epoch);
    while (net.epoch < epochs) {
        train_epoch(net.epoch);
        net.epoch++;
        save(argv[3]);
    }
    show_flags();
    glofnd_store_free(store);
    glofnd_ctx_free(ctx);
    glofnd_options_free(options);
    return 0;
}
