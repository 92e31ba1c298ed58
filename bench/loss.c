/* loss.c - times the step of the library: against an implementation that materialises the similarities, against PyTorch where
 * there is one, with and without detectors, and with ever more anchors. `loss --help` says how to call it, docs/benchmarks.md
 * what came out.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/die.h"
#include "support/loss_compare.h"
#include "support/loss_extras.h"
#include "support/torch.h"
#include "util/parallel.h"

#define DIM 128
#define SIZES_MAX 16
#define ANCHOR_BATCH 1024

typedef struct arguments {
    int threads, quick, json, with_naive, with_torch;
    int64_t sizes[SIZES_MAX];
    int count;
} arguments;

static const char usage[] =
    "Usage: loss [--sizes 128,512,...] [--threads N] [--quick] [--json] [--no-naive] [--no-torch]\n"
    "            [--math NAME] [--cpu-time]\n"
    "Times one SogCLR step (loss and gradients of both views, dimension 128) for every detector.\n"
    "  --sizes LIST  batch sizes, multiples of 32 from 32 to 65536 (128,512,1024,4096,8192; with --quick 128,1024)\n"
    "  --threads N   threads of all implementations (as many as OpenMP would use)\n"
    "  --quick       seconds instead of minutes, less certain\n"
    "  --json        one object per row on stdout, nothing else\n"
    "  --no-naive    not against the implementation that materialises the similarities\n"
    "  --no-torch    not against PyTorch\n"
    "  --math NAME   products of the library, as the option math: exact, bf16; then there is no naive version to agree with\n"
    "  --cpu-time    the library's steps by the seconds of the processors, the least of them: for a busy machine\n"
    "  --help        this text\n"
    "Before anything is timed, both implementations must agree on loss, gradients and state.\n"
    "Exit status: 0, 1 failed, 2 usage.\n";

_Noreturn static void misused(const char *flag, const char *text) {
    fprintf(stderr, "loss: %s: %s; --help says more\n", flag, text);
    exit(2);
}

/* ---- arguments ---- */

static int64_t number(const char *text, char **end, int64_t low, int64_t high, const char *flag) {
    errno = 0;
    const long long x = strtoll(text, end, 10);
    if (*end == text || errno != 0 || x < low || x > high) misused(flag, "not a number, or out of range");
    return x;
}

static void read_sizes(arguments *a, const char *text) {
    char *end;
    for (a->count = 0;; text = end + 1) {
        if (a->count == SIZES_MAX) misused("--sizes", "too many");
        const int64_t size = number(text, &end, 32, 65536, "--sizes");
        if (size % 32 != 0) misused("--sizes", "not a multiple of 32");
        a->sizes[a->count++] = size;
        if (*end == '\0') return;
        if (*end != ',') misused("--sizes", "not a list of numbers separated by commas");
    }
}

static const char *operand(int argc, char **argv, int *i) {
    if (*i + 1 >= argc) misused(argv[*i], "needs a value");
    return argv[++*i];
}

static void default_sizes(arguments *a) {
    static const int64_t full[] = {128, 512, 1024, 4096, 8192}, quick[] = {128, 1024};
    a->count = a->quick ? 2 : 5;
    memcpy(a->sizes, a->quick ? quick : full, sizeof(int64_t) * (size_t)a->count);
}

static arguments read_arguments(int argc, char **argv) {
    arguments a = {.threads = gf_parallel_default(), .with_naive = 1, .with_torch = 1};
    for (int i = 1; i < argc; i++) {
        const char *flag = argv[i];
        char *end;
        if (strcmp(flag, "--help") == 0) fputs(usage, stdout), exit(0);
        else if (strcmp(flag, "--quick") == 0) a.quick = 1;
        else if (strcmp(flag, "--json") == 0) a.json = 1;
        else if (strcmp(flag, "--no-naive") == 0) a.with_naive = 0;
        else if (strcmp(flag, "--no-torch") == 0) a.with_torch = 0;
        else if (strcmp(flag, "--cpu-time") == 0) runner_setting.cpu_time = 1;
        else if (strcmp(flag, "--math") == 0) runner_setting.math = operand(argc, argv, &i), a.with_naive = 0;
        else if (strcmp(flag, "--sizes") == 0) read_sizes(&a, operand(argc, argv, &i));
        else if (strcmp(flag, "--threads") == 0) {
            a.threads = (int)number(operand(argc, argv, &i), &end, 1, 1024, "--threads");
            if (*end != '\0') misused("--threads", "not a number");
        } else misused(flag, "unknown argument");
    }
    if (a.count == 0) default_sizes(&a);
    return a;
}

/* ---- the run ---- */

/* Large sizes get few repetitions: one of them is long enough to be steady. */
static plan plan_for(const arguments *a, int64_t batch) {
    const int large = batch >= 4096;
    return (plan){
        .threads = a->threads,
        .with_naive = a->with_naive,
        .epochs = 40,
        .library_s = a->quick ? 0.5
                     : large  ? 8.0
                              : 5.0,
        .naive_s = a->quick ? 0.3
                   : large  ? 4.0
                            : 1.5,
        .min_rounds = a->quick ? 2 : 3,
    };
}

static int run_sizes(const arguments *a, const report *r, const torch_times *torch, row *rows) {
    int count = 0;
    report_heading(r, "loss");
    for (int i = 0; i < a->count; i++) {
        const plan p = plan_for(a, a->sizes[i]);
        row *here = rows + count;
        loss_compare_detectors(&p, a->sizes[i], DIM, here);
        for (int d = 0; d < DETECTORS; d++, count++) {
            here[d].torch_ms = torch_ms(torch, here[d].batch, here[d].detector);
            here[d].torch_ratio = here[d].torch_ms / here[d].ms;
            report_row(r, &here[d]);
        }
    }
    return count;
}

static void run_extras(const arguments *a, const report *r) {
    report_heading(r, "extras");
    for (int i = 0; i < a->count; i++) {
        const plan p = plan_for(a, a->sizes[i]);
        row rows[EXTRAS];
        loss_compare_extras(&p, a->sizes[i], DIM, rows);
        for (int e = 0; e < EXTRAS; e++) report_row(r, &rows[e]);
    }
}

static void run_anchors(const arguments *a, const report *r) {
    static const int64_t n[] = {10000, 1000000, 100000000};
    const plan p = plan_for(a, ANCHOR_BATCH);
    row rows[3];
    loss_compare_anchors(&p, ANCHOR_BATCH, DIM, n, 3, rows);
    report_heading(r, "anchors");
    for (int i = 0; i < 3; i++) report_row(r, &rows[i]);
}

int main(int argc, char **argv) {
    const arguments a = read_arguments(argc, argv);
    static torch_times torch;
    static row rows[SIZES_MAX * DETECTORS];
    const report r = {a.json, machine_probe(a.threads), torch.version, torch.blas};
    report_machine(&r);
    if (a.with_torch) torch_run(&torch, a.sizes, a.count, DIM, a.threads, a.quick);
    const int count = run_sizes(&a, &r, &torch, rows);
    report_parts(&r, rows, count);
    run_extras(&a, &r);
    run_anchors(&a, &r);
    return 0;
}
