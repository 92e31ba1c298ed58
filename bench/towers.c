/* towers.c - times the training step of image and text towers on the CPU: both forward, bimodal SogCLR with GloFND, both
 * backward, AdamW; by its parts, and in turns with PyTorch where there is one. `towers --help` says how to call it,
 * docs/benchmarks.md what came out.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/parallel.h"
#include "support/clock.h"
#include "support/couple.h"
#include "support/die.h"
#include "support/flags.h"
#include "support/machine.h"
#include "support/python.h"
#include "support/trainee.h"

#define CASES 4

typedef struct arguments {
    int threads, steps, batch, json, with_torch;
    const char *only[2];        /* "vitb32", "bf16"; NULL: all */
} arguments;

static const char usage[] =
    "Usage: towers [--only WORD [--only WORD]] [--batch N] [--threads N] [--steps N] [--quick] [--json] [--no-torch]\n"
    "Times training steps of CLIP's encoders at 224 pixels, ViT-B/32 or its ResNet-50 beside its text transformer (12 layers of\n"
    "512, context 77), fp32 and bf16: both forward, bimodal SogCLR with GloFND, both backward, AdamW. PyTorch takes the same\n"
    "steps in turns, so that both see the same machine; it needs a python3 in the path that has torch.\n"
    "  --only WORD   vitb32, rn50, fp32 or bf16; two of them: what is both\n"
    "  --batch N     pairs per step, 2 to 4096 (16)\n"
    "  --threads N   threads of both (as many as OpenMP would use)\n"
    "  --steps N     steps to time after one to warm up, 1 to 100 (5)\n"
    "  --quick       two steps\n"
    "  --json        one object per case on stdout, nothing else\n"
    "  --no-torch    not against PyTorch\n"
    "  --help        this text\n"
    "Exit status: 0, 1 failed, 2 usage.\n";

/* ---- arguments ---- */

static void read_only(arguments *a, const char *word) {
    static const char *const known[] = {"vitb32", "rn50", "fp32", "bf16"};
    for (int k = 0; k < 4; k++)
        if (strcmp(word, known[k]) == 0) {
            a->only[k / 2] = word;
            return;
        }
    flag_misused("towers", "--only", "is vitb32, rn50, fp32 or bf16");
}

static arguments read_arguments(int argc, char **argv) {
    static const char *const program = "towers";
    arguments a = {.threads = gf_parallel_default(), .steps = 5, .batch = 16, .with_torch = 1};
    for (int i = 1; i < argc; i++) {
        const char *flag = argv[i];
        if (strcmp(flag, "--help") == 0) fputs(usage, stdout), exit(0);
        else if (strcmp(flag, "--quick") == 0) a.steps = 2;
        else if (strcmp(flag, "--json") == 0) a.json = 1;
        else if (strcmp(flag, "--no-torch") == 0) a.with_torch = 0;
        else if (strcmp(flag, "--batch") == 0) a.batch = flag_number(program, argc, argv, &i, 2, 4096);
        else if (strcmp(flag, "--threads") == 0) a.threads = flag_number(program, argc, argv, &i, 1, 1024);
        else if (strcmp(flag, "--steps") == 0) a.steps = flag_number(program, argc, argv, &i, 1, 100);
        else if (strcmp(flag, "--only") == 0 && i + 1 < argc) read_only(&a, argv[++i]);
        else flag_misused(program, flag, "unknown argument, or without its value");
    }
    return a;
}

static int wanted(const arguments *a, const couple_case *c) {
    return (!a->only[0] || strcmp(a->only[0], c->image) == 0) && (!a->only[1] || strcmp(a->only[1], c->precision_name) == 0);
}

/* ---- one case ---- */

typedef struct side {           /* ours, or PyTorch's */
    clock_times all, part[COUPLE_PARTS];
} side;

typedef struct result {
    side ours, torch;
    char version[32];           /* of PyTorch */
    size_t bytes;
    float loss;
} result;

static void meet_torch(python_partner *p, const couple_case *c, int threads, char *line, size_t room) {
    char batch[24], count[24];
    char *const args[] = {"--device", "cpu", "--image", (char *)(uintptr_t)c->image, "--batch", batch, "--precision",
                          (char *)(uintptr_t)c->precision_name, "--threads", count, "--steps", "0", NULL};
    snprintf(batch, sizeof batch, "%d", c->batch);
    snprintf(count, sizeof count, "%d", threads);
    python_meet(p, "bench_torch_clip.py", args, "torch (pip install torch)", line, room);
}

static void ask_torch(python_partner *p, side *s, char *line, size_t room) {
    if (!python_ask(p, line, room)) return;
    clock_add(&s->all, python_number(line, "ms"));
    for (int k = 0; k < COUPLE_PARTS; k++) clock_add(&s->part[k], python_number(line, couple_part_names[k]));
}

/* The first step of each is not counted: memory is touched, and PyTorch makes its primitives then. */
static void run_case(const arguments *a, const couple_case *c, result *r) {
    char line[1024] = "";
    python_partner torch = {0};
    couple t;
    *r = (result){0};
    if (a->with_torch) meet_torch(&torch, c, a->threads, line, sizeof line);
    python_text(line, "torch", r->version, sizeof r->version);
    couple_init(&t, c, a->threads);
    r->bytes = couple_bytes(&t);
    couple_step(&t);
    for (int i = 0; i < a->steps; i++) {
        clock_add(&r->ours.all, couple_step(&t));
        for (int k = 0; k < COUPLE_PARTS; k++) clock_add(&r->ours.part[k], t.part_ms[k]);
        ask_torch(&torch, &r->torch, line, sizeof line);
    }
    r->loss = t.loss;
    couple_free(&t);
    python_leave(&torch);
}

/* ---- output ---- */

static void heading(const arguments *a, const machine *m) {
    if (a->json) return;
    trainee_heading(m, a->threads);
    printf("%-7s %-4s %-7s %5s %9s %5s", "image", "", "", "pairs", "ms", "+-%");
    for (int k = 0; k < COUPLE_PARTS; k++) printf(" %9s", couple_part_names[k]);
    printf("\n");
}

static void side_row(const couple_case *c, const char *name, side *s) {
    printf("%-7s %-4s %-7s %5d %9.1f %5.1f", c->image, c->precision_name, name, c->batch, clock_median(&s->all),
           100 * clock_spread(&s->all));
    for (int k = 0; k < COUPLE_PARTS; k++) printf(" %9.1f", clock_median(&s->part[k]));
    printf("\n");
}

static void table_rows(const couple_case *c, result *r) {
    side_row(c, "glofnd", &r->ours);
    if (!r->torch.all.count) return;
    side_row(c, "torch", &r->torch);
    printf("%-7s %-4s %-7s %5s %9.2f %5s", "", "", "ratio", "", clock_median(&r->torch.all) / clock_median(&r->ours.all), "");
    for (int k = 0; k < COUPLE_PARTS; k++) printf(" %9.2f", clock_median(&r->torch.part[k]) / clock_median(&r->ours.part[k]));
    printf("\n");
}

static void json_side(const char *prefix, side *s) {
    printf(", \"%sms\": %.3f, \"%sspread\": %.4f", prefix, clock_median(&s->all), prefix, clock_spread(&s->all));
    for (int k = 0; k < COUPLE_PARTS; k++) printf(", \"%s%s_ms\": %.3f", prefix, couple_part_names[k], clock_median(&s->part[k]));
}

static void json_row(const arguments *a, const machine *m, const couple_case *c, result *r) {
    printf("{\"bench\": \"towers\", \"image\": \"%s\", \"precision\": \"%s\", \"B\": %d, \"threads\": %d, \"cpu\": \"%s\", "
           "\"isa\": \"%s\", \"steps\": %d, \"bytes\": %zu, \"loss\": %.6g",
           c->image, c->precision_name, c->batch, a->threads, m->cpu, m->isa, r->ours.all.count, r->bytes, (double)r->loss);
    json_side("", &r->ours);
    if (r->torch.all.count) {
        printf(", \"torch\": \"%s\"", r->version);
        json_side("torch_", &r->torch);
        printf(", \"ratio\": %.4f", clock_median(&r->torch.all) / clock_median(&r->ours.all));
    }
    printf("}\n");
}

int main(int argc, char **argv) {
    static result r;
    const arguments a = read_arguments(argc, argv);
    const machine m = machine_look(a.threads);
    heading(&a, &m);
    for (int i = 0; i < CASES; i++) {
        const couple_case c = {i < 2 ? "vitb32" : "rn50", a.batch, i % 2 ? "bf16" : "fp32", i % 2 ? GF_BF16 : GF_FP32};
        if (!wanted(&a, &c)) continue;
        run_case(&a, &c, &r);
        if (a.json) json_row(&a, &m, &c, &r);
        else table_rows(&c, &r);
        if (ferror(stdout) || fflush(stdout) != 0) die("stdout cannot be written");
    }
    return 0;
}
