/* train.c - times the whole training step of an encoder on the CPU: forward of both views, loss with GloFND, backward, optimizer;
 * by its parts, and in turns with PyTorch where there is one. `train --help` says how to call it, docs/benchmarks.md what came
 * out.
 */
#include <stdio.h>

#include "support/turns.h"

static const char about[] =
    "Times training steps: ResNet-18 on 128 samples of 32 pixels, ResNet-50 on 16 samples of 224 pixels (two views each), fp32\n"
    "and bf16, SogCLR with GloFND, SGD. PyTorch takes the same steps in turns, so that both see the same machine; it needs a\n"
    "python3 in the path that has torch and torchvision.\n";

static void heading(void) {
    printf("%-9s %-4s %5s %4s %9s %5s %9s %5s %6s", "net", "", "views", "px", "ms", "+-%", "torch ms", "+-%", "ratio");
    for (int k = 0; k < training_of_views.parts; k++) printf(" %9s", training_of_views.names[k]);
    printf("\n");
}

static void row(const training_case *c, turns_result *r) {
    clock_times *ours = &r->ours.all, *torch = &r->torch.all;
    printf("%-9s %-4s %5d %4d %9.1f %5.1f", c->net, training_precision(c), 2 * c->batch, c->size, turns_time(ours),
           100 * clock_spread(ours));
    if (torch->count) printf(" %9.1f %5.1f %6.2f", turns_time(torch), 100 * clock_spread(torch), turns_ratio(r));
    else printf(" %9s %5s %6s", "-", "-", "-");
    for (int k = 0; k < training_of_views.parts; k++) printf(" %9.1f", turns_time(&r->ours.part[k]));
    printf("\n");
}

static void json(const training_case *c, turns_result *r, const machine *m, int threads) {
    clock_times *ours = &r->ours.all, *torch = &r->torch.all;
    printf("{\"bench\": \"train\", \"net\": \"%s\", \"precision\": \"%s\", \"B\": %d, \"size\": %d, \"threads\": %d, "
           "\"cpu\": \"%s\", \"isa\": \"%s\", \"steps\": %d, \"ms\": %.3f, \"spread\": %.4f, \"bytes\": %zu, \"loss\": %.6g",
           c->net, training_precision(c), c->batch, c->size, threads, m->cpu, m->isa, ours->count, turns_time(ours),
           clock_spread(ours), r->bytes, (double)r->loss);
    for (int k = 0; k < training_of_views.parts; k++)
        printf(", \"%s_ms\": %.3f", training_of_views.names[k], turns_time(&r->ours.part[k]));
    if (torch->count)
        printf(", \"torch\": \"%s\", \"torch_ms\": %.3f, \"torch_spread\": %.4f, \"ratio\": %.4f", r->version, turns_time(torch),
               clock_spread(torch), turns_ratio(r));
    printf("}\n");
}

int main(int argc, char **argv) {
    const turns_program train = {.name = "train",
                                 .about = about,
                                 .kind = &training_of_views,
                                 .steps = 7,
                                 .cases = {{"resnet18", 32, 128, GF_FP32},
                                           {"resnet18", 32, 128, GF_BF16},
                                           {"resnet50", 224, 16, GF_FP32},
                                           {"resnet50", 224, 16, GF_BF16}},
                                 .script = "bench_torch_train.py",
                                 .needs = "torch and torchvision (pip install torch torchvision)",
                                 .net_flag = "--arch",
                                 .heading = heading,
                                 .rows = row,
                                 .json = json};
    return turns_main(&train, argc, argv);
}
