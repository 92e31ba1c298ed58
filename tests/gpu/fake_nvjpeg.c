/* fake_nvjpeg.c - a libnvjpeg.so.13 without a GPU, for tests: it "decodes" to host memory, filling an image with the last byte of
 * its file, and refuses what the test tells it to. The test finds `fake_nvjpeg` by dlsym. */
#include "fake_nvjpeg.h"

#include <stdlib.h>
#include <string.h>

fake_nvjpeg_orders fake_nvjpeg = {.major = 13, .minor = 2, .engines = 7};

typedef struct state {
    int batch;
} state;

typedef struct planes {
    unsigned char *channel[4];
    size_t pitch[4];
} planes;

int nvjpegGetProperty(int which, int *value) {
    *value = which == 0 ? fake_nvjpeg.major : fake_nvjpeg.minor;
    return 0;
}

int nvjpegCreateEx(int backend, void *device_memory, void *pinned_memory, unsigned flags, void **handle) {
    (void)device_memory, (void)pinned_memory;
    fake_nvjpeg.flags = flags;
    if (backend == 3 && fake_nvjpeg.no_engines) return 7; /* NVJPEG_STATUS_ARCH_MISMATCH */
    *handle = malloc(1);
    fake_nvjpeg.handles++;
    return 0;
}

int nvjpegDestroy(void *handle) {
    free(handle);
    fake_nvjpeg.handles--;
    return 0;
}

int nvjpegGetHardwareDecoderInfo(void *handle, unsigned *engines, unsigned *cores) {
    (void)handle;
    *engines = fake_nvjpeg.engines;
    *cores = 1;
    return 0;
}

int nvjpegJpegStateCreate(void *handle, void **out) {
    (void)handle;
    *out = calloc(1, sizeof(state));
    fake_nvjpeg.states++;
    return 0;
}

int nvjpegJpegStateDestroy(void *s) {
    free(s);
    fake_nvjpeg.states--;
    return 0;
}

int nvjpegJpegStreamCreate(void *handle, void **out) { return nvjpegJpegStateCreate(handle, out); }

int nvjpegJpegStreamDestroy(void *s) { return nvjpegJpegStateDestroy(s); }

int nvjpegJpegStreamParseHeader(void *handle, const unsigned char *data, size_t length, void *s) {
    (void)handle;
    ((state *)s)->batch = data[length - 1];
    return 0;
}

int nvjpegDecodeBatchedSupported(void *handle, void *s, int *refused) {
    (void)handle;
    *refused = ((state *)s)->batch == fake_nvjpeg.untaken;
    return 0;
}

int nvjpegDecodeBatchedInitialize(void *handle, void *s, int batch, int threads, int format) {
    (void)handle;
    if (batch < 1 || threads < 1 || format != 5) return 2;
    ((state *)s)->batch = batch;
    fake_nvjpeg.initialized++;
    return 0;
}

int nvjpegDecodeBatched(void *handle, void *s, const unsigned char *const *data, const size_t *lengths, planes *to,
                        void *stream) {
    (void)handle;
    const int batch = ((state *)s)->batch;
    fake_nvjpeg.calls++;
    fake_nvjpeg.stream = stream;
    for (int i = 0; i < batch; i++)
        if (data[i][lengths[i] - 1] == fake_nvjpeg.refused) return 3; /* NVJPEG_STATUS_BAD_JPEG */
    for (int i = 0; i < batch; i++) memset(to[i].channel[0], data[i][lengths[i] - 1], to[i].pitch[0] * fake_nvjpeg.height);
    return 0;
}
