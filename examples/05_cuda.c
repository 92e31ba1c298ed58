/* 05_cuda.c - steps on an NVIDIA GPU: embeddings, gradients and state stay in device memory, and a step waits for nothing.
 *
 * The "network" is a table with one trainable vector per sample. It lies on the host, so that this file needs no kernel of its own;
 * a real encoder would write embeddings to device memory and read gradients there. All work is queued on one stream.
 * Without a usable GPU the program prints the reason and exits with 77.
 *     cc 05_cuda.c $(pkg-config --cflags --libs glofnd) -I/usr/local/cuda/include -L/usr/local/cuda/lib64 -lcudart -lm && ./a.out
 */
#include <cuda_runtime_api.h>
#include <glofnd.h>
#include <stdio.h>
#include <stdlib.h>

enum { SAMPLES = 4096, CLASSES = 32, DIM = 64, BATCH = 512, EPOCHS = 30, SKIPPED = 77 };

static float table[SAMPLES][DIM], view[2][BATCH * DIM], grad[2][BATCH * DIM];
static glofnd_ctx *ctx;

static void check(glofnd_status status) {
    if (status == GLOFND_OK) return;
    fprintf(stderr, "05_cuda: %s: %s\n", glofnd_status_text(status), ctx ? glofnd_ctx_error(ctx) : "no context");
    exit(1);
}

static void cuda(cudaError_t status) {
    if (status == cudaSuccess) return;
    fprintf(stderr, "05_cuda: %s\n", cudaGetErrorString(status));
    exit(1);
}

static float noise(void) { return 3.46f * ((float)rand() / (float)RAND_MAX - 0.5f); }

static void make_samples(int64_t *order) {
    static float centre[CLASSES][DIM];
    for (int i = 0; i < SAMPLES; i++) {
        order[i] = i;
        for (int k = 0; k < DIM; k++) {
            if (i < CLASSES) centre[i][k] = noise();
            table[i][k] = centre[i % CLASSES][k] + 0.9f * noise();
        }
    }
}

int main(void) {
    static int64_t order[SAMPLES];
    char why[512];
    if (glofnd_device_check(GLOFND_DEVICE_CUDA, why, sizeof why) != GLOFND_OK) {
        fprintf(stderr, "05_cuda: no GPU to run on: %s\n", why);
        return SKIPPED;
    }
    glofnd_options *options = NULL;
    glofnd_store *store = NULL;
    check(glofnd_options_create(&options));
    check(glofnd_options_set(options, "device", "cuda", NULL, 0));
    check(glofnd_options_set_number(options, "alpha", 1.0 / CLASSES, NULL, 0));
    check(glofnd_options_set(options, "lambda_init", "quantile", NULL, 0));
    check(glofnd_options_set(options, "mask_epoch", "2", NULL, 0));
    if (glofnd_ctx_create(options, &ctx, why, sizeof why) != GLOFND_OK) return fprintf(stderr, "05_cuda: %s\n", why), 1;
    const glofnd_store_spec spec = {.size = sizeof spec, .n = SAMPLES};
    check(glofnd_store_create(ctx, &spec, &store));
    check(glofnd_ctx_reserve(ctx, BATCH, BATCH, DIM, NULL)); /* no step allocates from here on */

    cudaStream_t stream;
    cuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    check(glofnd_ctx_stream(ctx, stream));
    float *z[2], *dz[2]; /* on the device */
    int64_t *id;
    for (int v = 0; v < 2; v++) {
        cuda(cudaMalloc((void **)&z[v], sizeof view[v]));
        cuda(cudaMalloc((void **)&dz[v], sizeof grad[v]));
    }
    cuda(cudaMalloc((void **)&id, BATCH * sizeof *id));

    make_samples(order);
    for (int epoch = 0; epoch < EPOCHS; epoch++) {
        for (int i = SAMPLES - 1; i > 0; i--) {
            const int64_t j = rand() % (i + 1), t = order[i];
            order[i] = order[j], order[j] = t;
        }
        for (const int64_t *own = order; own < order + SAMPLES; own += BATCH) {
            for (int i = 0; i < BATCH * DIM; i++)
                for (int v = 0; v < 2; v++) view[v][i] = table[own[i / DIM]][i % DIM] + 0.1f * noise();
            for (int v = 0; v < 2; v++) cuda(cudaMemcpyAsync(z[v], view[v], sizeof view[v], cudaMemcpyHostToDevice, stream));
            cuda(cudaMemcpyAsync(id, own, BATCH * sizeof *id, cudaMemcpyHostToDevice, stream));

            /* Every pointer of the batch is device memory. With stats NULL the call only queues work. */
            const glofnd_batch batch = {
                .size = sizeof batch, .n = BATCH, .dim = DIM, .a = z[0], .b = z[1], .id = id, .epoch = epoch};
            check(glofnd_step(ctx, store, &batch, dz[0], dz[1], NULL));

            for (int v = 0; v < 2; v++) cuda(cudaMemcpyAsync(grad[v], dz[v], sizeof grad[v], cudaMemcpyDeviceToHost, stream));
            cuda(cudaStreamSynchronize(stream));
            for (int i = 0; i < BATCH * DIM; i++) table[own[i / DIM]][i % DIM] -= 20 * (grad[0][i] + grad[1][i]);
        }
        glofnd_stats stats = {.size = sizeof stats};
        check(glofnd_ctx_stats(ctx, &stats)); /* waits, and reports what failed on the device since the last call */
        printf("epoch %2d  loss %8.4f  flagged %4.1f %%  mean threshold %.3f\n", epoch + 1, stats.loss,
               100 * (1 - stats.kept_share), stats.lambda_mean);
    }
    for (int v = 0; v < 2; v++) cuda(cudaFree(z[v])), cuda(cudaFree(dz[v]));
    cuda(cudaFree(id));
    glofnd_store_free(store);
    glofnd_ctx_free(ctx); /* before its stream */
    cuda(cudaStreamDestroy(stream));
    glofnd_options_free(options);
    return 0;
}
