/* net_cpu.c - what nets find on the CPU: the kernels of the best instruction set it has (nn/cpu/kernels/net_kernels.h), and the
 * backend, in builds without oneDNN a stub whose every call fails with a message that names the library. */
#include <stdio.h>
#include <string.h>

#include "nn/cpu/kernels/net_kernels.h"
#include "util/machine.h"

extern const gf_net_kernels gf_net_kernels_base;
#ifdef GF_HAVE_X86_TILES
extern const gf_net_kernels gf_net_kernels_avx2, gf_net_kernels_avx512;
#endif
#ifdef GF_HAVE_NEON_TILES
extern const gf_net_kernels gf_net_kernels_neon;
#endif

static const gf_net_kernels *const compiled[] = {
#ifdef GF_HAVE_X86_TILES
    &gf_net_kernels_avx512, &gf_net_kernels_avx2,
#endif
#ifdef GF_HAVE_NEON_TILES
    &gf_net_kernels_neon,
#endif
    &gf_net_kernels_base};

const gf_net_kernels *gf_net_kernels_find(const char *isa) {
    if (!gf_cpu_kernels_find(isa)) return NULL; /* asks the CPU */
    for (size_t i = 0; i < sizeof compiled / sizeof *compiled; i++)
        if (strcmp(compiled[i]->isa, isa) == 0) return compiled[i];
    return NULL;
}

const gf_net_kernels *gf_net_kernels_get(void) { return gf_net_kernels_find(gf_cpu_kernels_get()->isa); }

#ifndef GF_HAVE_DNNL

static void describe_nothing(char *text, size_t bytes) {
    snprintf(text, bytes, "no nets: " GF_LEFT_OUT("oneDNN", "libdnnl-dev"));
}

static glofnd_status open_nothing(gf_error *err, int threads, gf_nn_engine **out) {
    (void)threads;
    (void)out;
    GF_FAIL(err, GLOFND_E_UNSUPPORTED, "networks on the CPU need oneDNN: " GF_LEFT_OUT("oneDNN", "libdnnl-dev"));
}

const gf_nn_backend gf_nn_backend_cpu = {.name = "none", .describe = describe_nothing, .open = open_nothing};

#endif
