/* cmd_info.c - glofnd info: which build this is and what it can use here. */
#include <stdio.h>
#include <unistd.h>

#include "cpu/kernels/cpu_kernels.h"
#include "dist/comm.h"
#include "dist/dist.h"
#include "image/image.h"
#include "loader/cuda/cuda_feed.h"
#include "nn/net.h"
#include "programs/cli.h"
#include "util/parallel.h"

static const char *yes(int have) { return have ? "yes" : "no"; }

static int run_info(const cli_call *call, const void *flags) {
    (void)call, (void)flags;
    gf_print(stdout, "build      %s\n", glofnd_build_info());
    gf_print(stdout, "cpu        %ld online, %d threads, kernels for %s\n", sysconf(_SC_NPROCESSORS_ONLN), gf_parallel_default(),
             gf_cpu_kernels_get()->isa);
    int jpeg = 0, png = 0;
#ifdef GF_HAVE_JPEG
    jpeg = 1;
#endif
#ifdef GF_HAVE_PNG
    png = 1;
#endif
    gf_print(stdout, "formats    jpeg %s, png %s, webp %s, safetensors and JSON lines yes\n", yes(jpeg), yes(png),
             yes(gf_image_reads_webp()));
    char nets[512];
    gf_net_describe(nets, sizeof nets);
    gf_print(stdout, "networks   oneDNN %s\n", yes(gf_net_available()));
    gf_print(stdout, "on the CPU %s\n", nets);
    gf_net_describe_device(GLOFND_DEVICE_CUDA, nets, sizeof nets);
    gf_print(stdout, "on the GPU %s\n", nets);
    gf_dist_describe(nets, sizeof nets);
    gf_print(stdout, "ranks      %s\n", nets);
    gf_device_comm_describe(nets, sizeof nets);
    gf_print(stdout, "GPU ranks  %s\n", nets);
    return CLI_OK;
}

const cli_verb cmd_info = {.name = "info",
                           .summary = "print version, backends and what this machine can do",
                           .usage = "glofnd info",
                           .run = run_info};
