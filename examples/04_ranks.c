/* 04_ranks.c - several processes share every batch; here MPI gathers, but any collective library will do.
 *
 * Each rank holds a part of the samples, with their state. Per step it computes embeddings for its part of the batch. All embeddings
 * and ids are gathered, then 64 bytes per sample ("links") between the two halves of the step. The gradient of a rank's own rows
 * is complete: no embedding gradients are exchanged. The printed numbers do not depend on the number of ranks, up to rounding.
 *     mpicc 04_ranks.c $(pkg-config --cflags --libs glofnd) -lm && mpirun -np 4 ./a.out
 */
#define GLOFND_EXPERIMENTAL
#include <glofnd.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    SAMPLES = 1920,
    CLASSES = 16,
    DIM = 32,
    PARTS = 8,
    PART = SAMPLES / PARTS,
    DRAWN = 24,
    BATCH = PARTS * DRAWN,
    STEPS = 400
};

static float table[SAMPLES][DIM]; /* the "network": of these, a rank trains its own */
static float a[BATCH][DIM], b[BATCH][DIM], grad[2][BATCH][DIM];
static unsigned char links[BATCH][GLOFND_LINK_BYTES];
static int64_t id[BATCH];
static glofnd_ctx *ctx;

static void check(glofnd_status status) {
    if (status == GLOFND_OK) return;
    fprintf(stderr, "04_ranks: %s: %s\n", glofnd_status_text(status), ctx ? glofnd_ctx_error(ctx) : "no context");
    MPI_Abort(MPI_COMM_WORLD, 1);
}

/* A random number in [0, 1) that depends on its arguments alone, so that every number of ranks draws the same samples. */
static double draw(uint64_t step, uint64_t what) {
    uint64_t x = step * 0x9e3779b97f4a7c15u + what * 0xbf58476d1ce4e5b9u + 1;
    for (int i = 0; i < 3; i++) x = (x ^ (x >> 29)) * 0x94d049bb133111ebu;
    return (double)(x >> 11) / 9007199254740992.0;
}
static float noise(uint64_t step, uint64_t what) { return 3.46f * ((float)draw(step, what) - 0.5f); }

/* Fills the rows of all other ranks; each rank has written its own. */
static void gather(void *rows, int own_rows, size_t row_bytes) {
    MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, rows, own_rows * (int)row_bytes, MPI_BYTE, MPI_COMM_WORLD);
}

/* What all anchors share, as the common threshold of the default learner, is summed over ranks: every rank needs the same bits. */
static int sum_over_ranks(void *user, double *x, int n) {
    const int *rank = user;
    return MPI_Reduce(*rank ? x : MPI_IN_PLACE, x, n, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD) ||
           MPI_Bcast(x, n, MPI_DOUBLE, 0, MPI_COMM_WORLD);
}

int main(int argc, char **argv) {
    int rank, ranks;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (PARTS % ranks) {
        if (rank == 0) fprintf(stderr, "04_ranks: %d ranks do not divide %d parts; use 1, 2, 4 or 8\n", ranks, PARTS);
        return MPI_Finalize(), 1;
    }
    for (int i = 0; i < SAMPLES; i++)
        for (int k = 0; k < DIM; k++)
            table[i][k] = noise(1u << 30, (uint64_t)(i % CLASSES * DIM + k)) + 0.9f * noise(1u << 31, (uint64_t)(i * DIM + k));

    const glofnd_store_spec spec = {.size = sizeof spec, .n = SAMPLES}; /* rows that a rank never touches take no space */
    glofnd_options *options = NULL;
    glofnd_store *store = NULL;
    check(glofnd_options_create(&options));
    check(glofnd_options_set(options, "alpha", "0.06", NULL, 0));
    check(glofnd_options_set(options, "lambda_init", "quantile", NULL, 0));
    check(glofnd_options_set(options, "mask_epoch", "1", NULL, 0));
    check(glofnd_options_set(options, "threads", "1", NULL, 0));
    check(glofnd_ctx_create(options, &ctx, NULL, 0));
    check(glofnd_ctx_reduce(ctx, sum_over_ranks, &rank));
    check(glofnd_store_create(ctx, &spec, &store));

    const int rows = BATCH / ranks, first = rank * rows;
    const glofnd_own_rows own = {.size = sizeof own, .first = first, .rows = rows};
    for (int step = 0; step < STEPS; step++) {
        /* The batch has DRAWN samples of each part. A part belongs to one rank, which keeps the state of its samples. */
        for (int i = first; i < first + rows; i++) {
            const int part = i / DRAWN, stride = PART / DRAWN;
            const int within = i % DRAWN * stride + (int)(draw((uint64_t)step, (uint64_t)i) * stride);
            id[i] = part * PART + within;
            for (int k = 0; k < DIM; k++) {
                const uint64_t at = (uint64_t)(BATCH + 2 * (i * DIM + k));
                a[i][k] = table[id[i]][k] + 0.1f * noise((uint64_t)step, at);
                b[i][k] = table[id[i]][k] + 0.1f * noise((uint64_t)step, at + 1);
            }
        }
        gather(a, rows, sizeof a[0]), gather(b, rows, sizeof b[0]), gather(id, rows, sizeof id[0]);

        const glofnd_batch batch = {
            .size = sizeof batch, .n = BATCH, .dim = DIM, .a = a, .b = b, .id = id, .epoch = step * BATCH / SAMPLES};
        glofnd_stats stats = {.size = sizeof stats};
        check(glofnd_step_rows(ctx, store, &batch, &own, links[first], &stats)); /* thresholds and loss of the own rows */
        gather(links, rows, GLOFND_LINK_BYTES);
        check(glofnd_step_grad(ctx, &batch, &own, links, grad[0], grad[1], &stats)); /* their whole gradient */
        for (int i = 0; i < rows; i++)
            for (int k = 0; k < DIM; k++) table[id[first + i]][k] -= 10 * (grad[0][i][k] + grad[1][i][k]);

        double sums[3] = {stats.loss, (double)stats.flagged, (double)stats.pairs};
        MPI_Allreduce(MPI_IN_PLACE, sums, 3, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        if (rank == 0 && (step + 1) % 50 == 0)
            printf("step %3d  loss %8.4f  flagged %5.2f %%\n", step + 1, sums[0], 100 * sums[1] / sums[2]);
    }
    if (rank == 0) printf("%d ranks, %d samples of every batch each\n", ranks, rows);
    glofnd_store_free(store);
    glofnd_ctx_free(ctx);
    glofnd_options_free(options);
    return MPI_Finalize();
}
