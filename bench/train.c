/* train.c - times the whole training step of an encoder on the CPU: forward of both views, loss with GloFND, backward, optimizer;
 * by its parts, and in turns with PyTorch where there is one. `train --help` says how to call it, docs/benchmarks.md what came
 * out.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/parallel.h"
#include "support/clock.h"
#include "support/die.h"
#include "support/flags.h"
#include "support/machine.h"
#include "support/python.h"
#include "support/trainee.h"

#define CASES 4

static const trainee_case cases[CASES] = {
    {"resnet18", GF_ARCH_RESNET18, 32, 128, "fp32", GF_FP32},
    {"resnet18", GF_ARCH_RESNET18, 32, 128, "bf16", GF_BF16},
    {"resnet50", GF_ARCH_RESNET50, 224, 16, "fp32", GF_FP32},
    {"resnet50", GF_ARCH_RESNET50, 224, 16, "bf16", GF_BF16},
};

typedef struct arguments {
    int threads, steps, json, with_torch;
    const char *only;           /* "resnet18", "bf16", ...; NULL: all */
} arguments;

static const char usage[] =
    "Usage: train [--only WORD] [--threads N] [--steps N] [--quick] [--json] [--no-torch]\n"
    "Times training steps: ResNet-18 on 128 samples of 32 pixels, ResNet-50 on 16 samples of 224 pixels (two views each), fp32\n"
    "and bf16, SogCLR with GloFND, SGD. PyTorch takes the same steps in turns, so that both see the same machine; it needs a\n"
    "python3 in the path that has torch and torchvision.\n"
    "  --only WORD   resnet18, resnet50, fp32 or bf16\n"
    "  --threads N   threads of both (as many as OpenMP would use)\n"
    "  --steps N     steps to time after one to warm up, 1 to 100 (7)\n"
    "  --quick       two steps\n"
    "  --json        one object per case on stdout, nothing else\n"
    "  --no-torch    not against PyTorch\n"
    "  --help        this text\n"
    "Exit status: 0, 1 failed, 2 usage.\n";

/* ---- arguments ---- */

static arguments read_arguments(int argc, char **argv) {
    arguments a = {.threads = gf_parallel_default(), .steps = 7, .with_torch = 1};
    for (int i = 1; i < argc; i++) {
        const char *flag = argv[i];
        if (strcmp(flag, "--help") == 0) fputs(usage, stdout), exit(0);
        else if (strcmp(flag, "--quick") == 0) a.steps = 2;
        else if (strcmp(flag, "--json") == 0) a.json = 1;
        else if (strcmp(flag, "--no-torch") == 0) a.with_torch = 0;
        else if (strcmp(flag, "--threads") == 0) a.threads = flag_number("train", argc, argv, &i, 1, 1024);
        else if (strcmp(flag, "--steps") == 0) a.steps = flag_number("train", argc, argv, &i, 1, 100);
        else if (strcmp(flag, "--only") == 0 && i + 1 < argc) a.only = argv[++i];
        else flag_misused("train", flag, "unknown argument");
    }
    return a;
}

static int wanted(const arguments *a, const trainee_case *c) {
    return !a->only || strcmp(a->only, c->arch_name) == 0 || strcmp(a->only, c->precision_name) == 0;
}

/* ---- one case ---- */

typedef struct result {
    clock_times ours, torch, part[TRAINEE_PARTS];
    char version[32];           /* of PyTorch */
    size_t bytes;
    float loss;
} result;

static int meet_torch(python_partner *p, const trainee_case *c, int threads, char *line, size_t room) {
    char size[24], batch[24], count[24];
    char *const args[] = {"--arch", (char *)(uintptr_t)c->arch_name, "--size", size, "--batch", batch, "--precision",
                          (char *)(uintptr_t)c->precision_name, "--threads", count, NULL};
    snprintf(size, sizeof size, "%d", c->size);
    snprintf(batch, sizeof batch, "%d", c->batch);
    snprintf(count, sizeof count, "%d", threads);
    return python_meet(p, "bench_torch_train.py", args, "torch and torchvision (pip install torch torchvision)", line, room);
}

/* The first step of each is not counted: memory is touched, and PyTorch makes its primitives then. */
static void run_case(const arguments *a, const trainee_case *c, result *r) {
    char line[1024] = "";
    python_partner torch = {0};
    trainee t;
    *r = (result){0};
    if (a->with_torch) meet_torch(&torch, c, a->threads, line, sizeof line);
    python_text(line, "torch", r->version, sizeof r->version);
    trainee_init(&t, c, a->threads);
    r->bytes = trainee_bytes(&t);
    trainee_step(&t);
    for (int i = 0; i < a->steps; i++) {
        clock_add(&r->ours, trainee_step(&t));
        for (int p = 0; p < TRAINEE_PARTS; p++) clock_add(&r->part[p], t.part_ms[p]);
        if (python_ask(&torch, line, sizeof line)) clock_add(&r->torch, python_number(line, "ms"));
    }
    r->loss = t.loss;
    trainee_free(&t);
    python_leave(&torch);
}

/* ---- output ---- */

static void heading(const arguments *a, const machine *m) {
    if (a->json) return;
    trainee_heading(m, a->threads);
    printf("%-9s %-4s %5s %4s %9s %5s %9s %5s %6s", "net", "", "views", "px", "ms", "+-%", "torch ms", "+-%", "ratio");
    for (int p = 0; p < TRAINEE_PARTS; p++) printf(" %9s", trainee_part_names[p]);
    printf("\n");
}

static void table_row(const trainee_case *c, result *r) {
    const double ms = clock_median(&r->ours), torch = clock_median(&r->torch);
    printf("%-9s %-4s %5d %4d %9.1f %5.1f", c->arch_name, c->precision_name, 2 * c->batch, c->size, ms,
           100 * clock_spread(&r->ours));
    if (r->torch.count) printf(" %9.1f %5.1f %6.2f", torch, 100 * clock_spread(&r->torch), torch / ms);
    else printf(" %9s %5s %6s", "-", "-", "-");
    for (int p = 0; p < TRAINEE_PARTS; p++) printf(" %9.1f", clock_median(&r->part[p]));
    printf("\n");
}

static void json_row(const arguments *a, const machine *m, const trainee_case *c, result *r) {
    const double ms = clock_median(&r->ours), torch = clock_median(&r->torch);
    printf("{\"bench\": \"train\", \"net\": \"%s\", \"precision\": \"%s\", \"B\": %d, \"size\": %d, \"threads\": %d, "
           "\"cpu\": \"%s\", \"isa\": \"%s\", \"steps\": %d, \"ms\": %.3f, \"spread\": %.4f, \"bytes\": %zu, \"loss\": %.6g",
           c->arch_name, c->precision_name, c->batch, c->size, a->threads, m->cpu, m->isa, r->ours.count, ms,
           clock_spread(&r->ours), r->bytes, (double)r->loss);
    for (int p = 0; p < TRAINEE_PARTS; p++) printf(", \"%s_ms\": %.3f", trainee_part_names[p], clock_median(&r->part[p]));
    if (r->torch.count)
        printf(", \"torch\": \"%s\", \"torch_ms\": %.3f, \"torch_spread\": %.4f, \"ratio\": %.4f", r->version, torch,
               clock_spread(&r->torch), torch / ms);
    printf("}\n");
}

int main(int argc, char **argv) {
    static result r;
    const arguments a = read_arguments(argc, argv);
    const machine m = machine_look(a.threads);
    heading(&a, &m);
    for (int i = 0; i < CASES; i++) {
        if (!wanted(&a, &cases[i])) continue;
        run_case(&a, &cases[i], &r);
        if (a.json) json_row(&a, &m, &cases[i], &r);
        else table_row(&cases[i], &r);
        if (ferror(stdout) || fflush(stdout) != 0) die("stdout cannot be written");
    }
    return 0;
}
