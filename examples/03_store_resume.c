/* 03_store_resume.c - save the thresholds with a checkpoint, and continue after a kill with the same bits.
 *
 * The "network" is a table with one trainable vector per sample. The program trains it for 12 epochs and writes a checkpoint after
 * epoch 6: the table, and the anchor store with thresholds, their moments and averages. Then it starts from the files of the
 * checkpoint, as a new process would, and trains the last 6 epochs again. Both ways end with the same bits.
 *
 * What a resumed run needs: the weights, the store, and batches that depend on the seed and the epoch alone.
 *     cc 03_store_resume.c $(pkg-config --cflags --libs glofnd) -lm && ./a.out
 */
#include <glofnd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SAMPLES = 1200, CLASSES = 12, DIM = 24, BATCH = 200, EPOCHS = 12, SAVED = 6 };

static const char *const store_file = "checkpoint.glofnd", *const table_file = "checkpoint.table";
static float table[SAMPLES][DIM];
static glofnd_ctx *ctx;
static glofnd_store *store;

static void check(glofnd_status status) {
    if (status == GLOFND_OK) return;
    fprintf(stderr, "03_store_resume: %s: %s\n", glofnd_status_text(status), ctx ? glofnd_ctx_error(ctx) : "no context");
    exit(1);
}

static float noise(void) { return 3.46f * ((float)rand() / (float)RAND_MAX - 0.5f); }

static void make_samples(void) { /* the centre of the class, and an individual part */
    static float centre[CLASSES][DIM];
    for (int i = 0; i < SAMPLES; i++)
        for (int k = 0; k < DIM; k++) {
            if (i < CLASSES) centre[i][k] = noise();
            table[i][k] = centre[i % CLASSES][k] + 0.9f * noise();
        }
}

/* Epochs first .. last-1. The seed of an epoch is its number, so an epoch has the same batches and views whenever it runs. */
static void train(int first, int last) {
    static float view[2][BATCH * DIM], grad[2][BATCH * DIM];
    static int64_t order[SAMPLES];
    glofnd_stats stats = {.size = sizeof stats};
    for (int epoch = first; epoch < last; epoch++) {
        srand((unsigned)epoch + 1);
        for (int i = 0; i < SAMPLES; i++) order[i] = i;
        for (int i = SAMPLES - 1; i > 0; i--) {
            const int64_t j = rand() % (i + 1), t = order[i];
            order[i] = order[j], order[j] = t;
        }
        for (const int64_t *id = order; id < order + SAMPLES; id += BATCH) {
            const glofnd_batch batch = {
                .size = sizeof batch, .n = BATCH, .dim = DIM, .a = view[0], .b = view[1], .id = id, .epoch = epoch};
            for (int i = 0; i < BATCH * DIM; i++)
                for (int v = 0; v < 2; v++) view[v][i] = table[id[i / DIM]][i % DIM] + 0.1f * noise();
            check(glofnd_step(ctx, store, &batch, grad[0], grad[1], &stats));
            for (int i = 0; i < BATCH * DIM; i++) table[id[i / DIM]][i % DIM] -= 20 * (grad[0][i] + grad[1][i]);
        }
        printf("epoch %2d  loss %.6f  flagged %4.1f %%  mean threshold %.4f\n", epoch + 1, stats.loss,
               100 * (1 - stats.kept_share), stats.lambda_mean);
    }
}

static void read_anchors(glofnd_anchor *rows) {
    static int64_t id[SAMPLES];
    for (int i = 0; i < SAMPLES; i++) id[i] = i;
    check(glofnd_anchors_get(ctx, store, 0, id, SAMPLES, rows));
}

int main(void) {
    static glofnd_anchor rows[2][SAMPLES];
    static float whole[SAMPLES][DIM];
    const glofnd_store_spec spec = {.size = sizeof spec, .n = SAMPLES};
    glofnd_options *options = NULL;
    check(glofnd_options_create(&options));
    check(glofnd_options_set(options, "alpha", "0.08", NULL, 0));
    check(glofnd_options_set(options, "lambda_init", "quantile", NULL, 0));
    check(glofnd_options_set(options, "mask_epoch", "2", NULL, 0));
    check(glofnd_ctx_create(options, &ctx, NULL, 0));
    check(glofnd_store_create(ctx, &spec, &store));
    make_samples();
    train(0, SAVED);

    /* The checkpoint. glofnd_store_save() replaces an old file only when the new one is complete. */
    check(glofnd_store_save(ctx, store, store_file));
    FILE *file = fopen(table_file, "wb");
    if (!file || fwrite(table, sizeof table, 1, file) != 1 || fclose(file)) return perror(table_file), 1;
    train(SAVED, EPOCHS);
    memcpy(whole, table, sizeof table);
    read_anchors(rows[0]);
    glofnd_store_free(store);

    /* The run was killed. A new one reads both files; options are given again, they are not part of the store. */
    printf("again from %s and %s:\n", store_file, table_file);
    check(glofnd_store_load(ctx, store_file, NULL, &store));
    file = fopen(table_file, "rb");
    if (!file || fread(table, sizeof table, 1, file) != 1 || fclose(file)) return perror(table_file), 1;
    train(SAVED, EPOCHS);
    read_anchors(rows[1]);

    const int same = !memcmp(whole, table, sizeof table) && !memcmp(rows[0], rows[1], sizeof rows[0]);
    printf("%d embeddings and %d thresholds: %s\n", SAMPLES, SAMPLES, same ? "the same bits" : "DIFFERENT");
    glofnd_store_free(store);
    glofnd_ctx_free(ctx);
    glofnd_options_free(options);
    return !same;
}
