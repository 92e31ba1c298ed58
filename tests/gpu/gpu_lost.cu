/* gpu_lost.cu - a GPU that is lost in the middle of a run. Loaded before a program (LD_PRELOAD) it waits until a file appears
 * whose name fits the pattern GPU_LOST_AT, and then lets a kernel fail in that process. CUDA takes the device away from a process
 * to which this happens, as it does after an uncorrectable memory error or when the device drops off the bus: every later call
 * fails. Other processes notice nothing.
 */
#include <glob.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static __global__ void fail() { asm volatile("trap;"); }

static int is_there(const char *pattern) {
    glob_t found;
    const int there = glob(pattern, GLOB_NOSORT, NULL, &found) == 0;
    globfree(&found);
    return there;
}

static void *wait_and_fail(void *pattern) {
    while (!is_there((const char *)pattern)) usleep(500);
    fail<<<1, 1>>>();
    fprintf(stderr, "gpu_lost: %s\n", cudaGetErrorString(cudaDeviceSynchronize()));
    return NULL;
}

static void __attribute__((constructor)) start() {
    char *const pattern = getenv("GPU_LOST_AT");
    pthread_t thread;
    if (pattern && pthread_create(&thread, NULL, wait_and_fail, pattern) == 0) pthread_detach(thread);
}
