/* decode.cu - time of JPEG files decoded on this GPU by nvJPEG, and how its pixels differ from libjpeg's.
 *
 *     build/bench/data --write FOLDER --count 512
 *     build/bench/cuda/decode FOLDER [BATCH]
 *
 * Batches of the folder's *.jpg (128 at a time unless told) from pinned memory to RGB in the GPU's memory, by each backend: the
 * JPEG engines of the GPU and the kernels of nvJPEG. Wall clock, median of the batches of ten rounds; libjpeg on one thread
 * beside it. Differences are of the levels of all pixels.
 */
#include <cuda_runtime.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern "C" {
#include "image/image.h"
#include "io/file.h"
#include "loader/cuda/nvjpeg_lib.h"
#include "util/machine.h"
}
#include "loader/cuda/cuda_feed.h"

enum { FILES_MAX = 1024, ROUNDS = 10 };

static void die(const char *why) {
    fprintf(stderr, "decode: %s\n", why);
    exit(1);
}

static void must(cudaError_t e) {
    if (e != cudaSuccess) die(cudaGetErrorString(e));
}

static void ok(glofnd_status status, const gf_error *err) {
    if (status != GLOFND_OK) die(err->text);
}

typedef struct bench {
    gf_encoded image[FILES_MAX];
    gf_image exact[FILES_MAX]; /* by libjpeg */
    int files, batch;
    size_t bytes; /* of a batch's pixels, at most */
    double encoded, cpu_ms;
    uint8_t *device;
    cudaStream_t stream;
} bench;

static bench b;

static int is_jpeg(const struct dirent *e) {
    const char *dot = strrchr(e->d_name, '.');
    return dot && strcmp(dot, ".jpg") == 0;
}

static void read_file(const char *folder, const char *name) {
    gf_error err;
    char path[1024];
    uint8_t *bytes = NULL;
    size_t capacity = 0, size = 0;
    gf_plain_jpeg plain;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    ok(gf_file_read(&err, path, GF_FILE_BYTES_MAX, &bytes, &capacity, &size), &err);
    const double start = gf_clock();
    ok(gf_image_decode(&err, path, bytes, size, NULL, &b.exact[b.files]), &err);
    b.cpu_ms += 1e3 * (gf_clock() - start);
    if (gf_jpeg_is_plain(bytes, size, &plain)) {
        uint8_t *to = (uint8_t *)gf_cuda_pinned_alloc(plain.size);
        if (!to) die("no pinned memory");
        gf_jpeg_write_plain(&plain, bytes, to);
        gf_encoded *e = &b.image[b.files++];
        e->bytes = to, e->size = plain.size, e->width = plain.width, e->height = plain.height;
        b.encoded += (double)size;
    } else fprintf(stderr, "%s is not for a GPU\n", path);
    free(bytes);
}

static void read_folder(const char *folder) {
    struct dirent **names;
    const int n = scandir(folder, &names, is_jpeg, alphasort);
    if (n < b.batch) die("the folder has fewer files than a batch");
    for (int i = 0; i < n; i++) {
        if (b.files < FILES_MAX) read_file(folder, names[i]->d_name);
        free(names[i]);
    }
    free(names);
    b.files = b.files / b.batch * b.batch;
    for (int i = 0; i < b.files; i += b.batch) {
        size_t end = 0;
        for (int k = i; k < i + b.batch; k++) {
            b.image[k].at = end;
            end += (3 * (size_t)b.image[k].width * (size_t)b.image[k].height + 255) / 256 * 256;
        }
        if (end > b.bytes) b.bytes = end;
    }
}

static int wait_for(void *user) { return cudaStreamSynchronize(*(cudaStream_t *)user) == cudaSuccess; }

static int by_size(const void *x, const void *y) {
    const double a = *(const double *)x, c = *(const double *)y;
    return a < c ? -1 : a > c;
}

typedef struct differences {
    double sum, count, above[4]; /* levels that differ by more than 1, 3, 8, 20 */
    int max;
} differences;

static void compare(differences *d, int first) {
    static const int steps[4] = {1, 3, 8, 20};
    for (int k = first; k < first + b.batch; k++) {
        const size_t n = 3 * (size_t)b.image[k].width * (size_t)b.image[k].height;
        uint8_t *rgb = (uint8_t *)malloc(n);
        if (!rgb) die("no memory");
        must(cudaMemcpy(rgb, b.device + b.image[k].at, n, cudaMemcpyDeviceToHost));
        for (size_t i = 0; i < n; i++) {
            const int difference = abs((int)rgb[i] - (int)b.exact[k].rgb[i]);
            d->sum += difference;
            d->max = difference > d->max ? difference : d->max;
            for (int s = 0; s < 4; s++) d->above[s] += difference > steps[s];
        }
        d->count += (double)n;
        free(rgb);
    }
}

static void time_backend(gf_nvjpeg *n, gf_nvjpeg_backend backend) {
    static double times[ROUNDS * FILES_MAX];
    gf_error err;
    char name[80];
    gf_nvjpeg_state s;
    differences d;
    const gf_nvjpeg_wait w = {wait_for, &b.stream};
    int measured = 0, failed = 0;
    memset(&s, 0, sizeof s);
    memset(&d, 0, sizeof d);
    if (gf_nvjpeg_start(&err, n, backend) != GLOFND_OK) {
        printf("%s\n", err.text);
        return;
    }
    gf_nvjpeg_describe(n, name, sizeof name);
    for (int round = -1; round < ROUNDS; round++) { /* the first takes memory */
        for (int i = 0; i < b.files; i += b.batch) {
            const double start = gf_clock();
            if (!gf_nvjpeg_decode(n, &s, b.image + i, b.batch, b.device, b.stream, &w)) die("the GPU failed");
            if (round >= 0) times[measured++] = gf_clock() - start;
            for (int k = i; round < 0 && k < i + b.batch; k++) failed += b.image[k].failed;
            if (round < 0) compare(&d, i);
        }
    }
    gf_nvjpeg_state_free(n, &s);
    qsort(times, (size_t)measured, sizeof *times, by_size);
    printf("%-32s batch of %d: %7.3f ms (%.3f to %.3f), %6.0f images/s; refused %d\n", name, b.batch, 1e3 * times[measured / 2],
           1e3 * times[measured / 10], 1e3 * times[measured * 9 / 10], b.batch / times[measured / 2], failed);
    printf("    levels: mean difference %.3f, max %d; more than 1: %.3f %%, 3: %.3f %%, 8: %.4f %%, 20: %.5f %%\n",
           d.sum / d.count, d.max, 100 * d.above[0] / d.count, 100 * d.above[1] / d.count, 100 * d.above[2] / d.count,
           100 * d.above[3] / d.count);
}

int main(int argc, char **argv) {
    gf_error err;
    gf_nvjpeg n;
    if (argc < 2) die("a folder of JPEG files, please");
    b.batch = argc > 2 ? atoi(argv[2]) : 128;
    if (b.batch < 1 || b.batch > FILES_MAX) die("a batch has 1 to 1024 files");
    read_folder(argv[1]);
    ok(gf_nvjpeg_open(&err, NULL, &n), &err);
    must(cudaMalloc((void **)&b.device, b.bytes));
    must(cudaStreamCreateWithFlags(&b.stream, cudaStreamNonBlocking));
    printf("%d files, %.0f bytes each; libjpeg on one thread: %.3f ms each, %.0f images/s\n", b.files, b.encoded / b.files,
           b.cpu_ms / b.files, 1e3 * b.files / b.cpu_ms);
    time_backend(&n, GF_NVJPEG_ENGINES);
    time_backend(&n, GF_NVJPEG_KERNELS);
    gf_nvjpeg_close(&n);
    return 0;
}
