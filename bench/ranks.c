/* ranks.c - times the communication between ranks and its share in a training step. Run by mpirun; `ranks --help`, results in
 * research/2026-11/scaling.md.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "dist/dist.h"
#include "loop/trainer.h"
#include "support/clock.h"
#include "support/die.h"
#include "support/machine.h"
#include "support/meter.h"

typedef struct arguments {
    int rounds, steps, json;
    const char *arch, *size, *batch, *threads;
} arguments;

static const char usage[] =
    "Usage: mpirun -np N ranks [--arch NAME] [--size PX] [--batch N] [--threads N] [--steps N] [--rounds N] [--quick] [--json]\n"
    "Times the collectives of a step at several sizes, and whole training steps (SogCLR with GloFND, drawn images) with the\n"
    "share of talking in them: what the same rank alone, on as many samples, does not need; and how much of that is waiting\n"
    "for the slowest rank. bench/scaling.sh repeats it for several N.\n"
    "  --arch NAME    resnet8, resnet18, ... (resnet18)\n"
    "  --size PX      pixels of an image (32)\n"
    "  --batch N      samples of all ranks together (64)\n"
    "  --threads N    of each rank (1)\n"
    "  --steps N      steps to time after two to warm up, 1 to 100 (10)\n"
    "  --rounds N     repetitions of each collective, 3 to 500 (30)\n"
    "  --quick        3 steps, 5 rounds\n"
    "  --json         one object per line on stdout, nothing else\n"
    "  --help         this text\n"
    "Exit status: 0, 1 failed, 2 usage.\n";

_Noreturn static void misused(const char *flag, const char *text) {
    fprintf(stderr, "ranks: %s: %s; --help says more\n", flag, text);
    exit(2);
}

static int number(const char *flag, const char *text, int low, int high) {
    char *end;
    errno = 0;
    const long x = strtol(text, &end, 10);
    if (end == text || *end != '\0' || errno != 0 || x < low || x > high) misused(flag, "not a number, or out of range");
    return (int)x;
}

static arguments read_arguments(int argc, char **argv) {
    arguments a = {.rounds = 30, .steps = 10, .arch = "resnet18", .size = "32", .batch = "64", .threads = "1"};
    for (int i = 1; i < argc; i++) {
        const char *flag = argv[i], *value = i + 1 < argc ? argv[i + 1] : NULL;
        if (strcmp(flag, "--help") == 0) fputs(usage, stdout), exit(0);
        else if (strcmp(flag, "--quick") == 0) a.rounds = 5, a.steps = 3;
        else if (strcmp(flag, "--json") == 0) a.json = 1;
        else if (!value) misused(flag, "unknown, or needs a value");
        else if (strcmp(flag, "--arch") == 0) a.arch = argv[++i];
        else if (strcmp(flag, "--size") == 0) a.size = argv[++i];
        else if (strcmp(flag, "--batch") == 0) a.batch = argv[++i];
        else if (strcmp(flag, "--threads") == 0) a.threads = argv[++i];
        else if (strcmp(flag, "--steps") == 0) a.steps = number(flag, argv[++i], 1, 100);
        else if (strcmp(flag, "--rounds") == 0) a.rounds = number(flag, argv[++i], 3, 500);
        else misused(flag, "unknown argument");
    }
    return a;
}

static gf_error error;

static void must(gf_comm *c, glofnd_status status, const char *what) {
    if (status == GLOFND_OK) return;
    fprintf(stderr, "ranks: %s: %s\n", what, error.text);
    gf_dist_abort(c, 1);
    exit(1);
}

static glofnd_status barrier(gf_error *err, gf_comm *c) {
    double nothing = 0.0;
    return c->ops->sum(err, c, &nothing, 1);
}

/* ---- collectives ---- */

enum { GATHER, EXCHANGE, SUM, SUM_FLOATS, CALLS };
static const char *const call_names[CALLS] = {"gather", "exchange", "sum", "sum_floats"};

typedef struct buffers {
    void *mine, *all; /* bytes of a rank; of all */
    size_t *counts;   /* [ranks] of an exchange: equal parts */
} buffers;

/* bytes: that each rank brings. */
static void call(gf_comm *c, int which, const buffers *b, size_t bytes) {
    const gf_comm_ops *k = c->ops;
    if (which == GATHER) must(c, k->gather(&error, c, b->mine, bytes, b->all), "gather");
    if (which == EXCHANGE) must(c, k->exchange(&error, c, b->mine, b->counts, b->all, b->counts), "exchange");
    if (which == SUM) must(c, k->sum(&error, c, b->mine, (int64_t)(bytes / sizeof(double))), "sum");
    if (which == SUM_FLOATS) must(c, k->sum_floats(&error, c, b->mine, (int64_t)(bytes / sizeof(float))), "sum_floats");
}

/* Bytes that a rank sends in one call, to all others together. */
static double sent(int which, double bytes, int ranks) {
    const double others = ranks - 1.0;
    if (which == GATHER) return bytes * others;
    return (which == EXCHANGE ? 1.0 : 2.0) * bytes * others / ranks;
}

static void time_call(const arguments *a, gf_comm *c, int which, const buffers *b, size_t bytes) {
    clock_times t = {.count = 0};
    for (int r = 0; r < c->ranks; r++) b->counts[r] = bytes / (size_t)c->ranks;
    call(c, which, b, bytes);
    for (int i = 0; i < a->rounds; i++) {
        must(c, barrier(&error, c), "barrier");
        const double begin = seconds();
        call(c, which, b, bytes);
        clock_add(&t, 1e3 * (seconds() - begin));
    }
    const double ms = clock_median(&t), rate = sent(which, (double)bytes, c->ranks) / (1e6 * ms);
    if (c->rank > 0) return;
    if (a->json)
        printf("{\"bench\": \"ranks\", \"call\": \"%s\", \"ranks\": %d, \"bytes\": %zu, \"us\": %.2f, \"spread\": %.3f, "
               "\"sent_gb_s\": %.4f}\n",
               call_names[which], c->ranks, bytes, 1e3 * ms, clock_spread(&t), rate);
    else printf("%-11s %12zu %12.1f %6.0f %12.3f\n", call_names[which], bytes, 1e3 * ms, 100 * clock_spread(&t), rate);
}

static void time_calls(const arguments *a, gf_comm *c) {
    static const size_t sizes[] = {64, 4096, 1 << 16, 1 << 20, 1 << 23};
    const size_t max = 1 << 23;
    buffers b = {calloc(1, max), calloc((size_t)c->ranks, max), calloc((size_t)c->ranks, sizeof *b.counts)};
    if (!b.mine || !b.all || !b.counts) die("no memory for %d times %zu MB", c->ranks + 1, max >> 20);
    if (c->rank == 0 && !a->json) printf("%-11s %12s %12s %6s %12s\n", "call", "bytes a rank", "us", "+-%", "sent, GB/s");
    for (int which = 0; which < CALLS; which++)
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) time_call(a, c, which, &b, sizes[i]);
    free(b.mine);
    free(b.all);
    free(b.counts);
}

/* ---- steps ---- */

/* comm: that it talks over; NULL: it is alone. */
static gf_trainer *make_trainer(const arguments *a, gf_comm *c, gf_comm *comm, int64_t batch) {
    gf_config config;
    gf_trainer *t = NULL;
    char samples[24], data[96];
    snprintf(samples, sizeof samples, "%lld", (long long)batch);
    snprintf(data, sizeof data, "shapes:n=%lld,classes=4,size=%s,seed=1", 4 * (long long)batch, a->size);
    const char *const settings[][2] = {{"data", data},     {"arch", a->arch},    {"size", a->size},       {"batch", samples},
                                       {"epochs", "1000"}, {"start_epoch", "0"}, {"threads", a->threads}, {"workers", "1"}};
    must(c, gf_config_init(&error, &config), "configuration");
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
        must(c, gf_config_set(&error, &config, settings[i][0], settings[i][1]), settings[i][0]);
    must(c, gf_config_resolve(&error, &config), "configuration");
    if (comm) must(c, gf_distributed_check(&error, &config, c->ranks), "batch");
    must(c, gf_trainer_open(&error, &config, &t), "data");
    t->comm = comm;
    must(c, gf_trainer_build(&error, t, NULL, NULL), "nets");
    return t;
}

typedef struct timing { /* of a step; medians, and the meter's means over ranks and steps */
    double ms, cpu_ms;  /* CPU: of all threads of this rank */
    double calls, waiting_ms, talking_ms;
    int64_t weights;
} timing;

static double cpu_seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* m: of the trainer's comm, or NULL. */
static timing time_steps(const arguments *a, gf_comm *c, gf_trainer *t, meter *m) {
    clock_times times = {.count = 0}, cpu = {.count = 0};
    for (int i = -2; i < a->steps; i++) {
        if (i == 0 && m) meter_reset(m);
        must(c, barrier(&error, c), "barrier");
        const double begin = seconds(), used = cpu_seconds();
        must(c, gf_trainer_step(&error, t), "a step");
        if (i >= 0) clock_add(&times, 1e3 * (seconds() - begin)), clock_add(&cpu, 1e3 * (cpu_seconds() - used));
    }
    timing x = {.ms = clock_median(&times), .cpu_ms = clock_median(&cpu), .weights = t->state_count};
    double sums[] = {m ? m->calls : 0.0, m ? m->waiting_ms : 0.0, m ? m->talking_ms : 0.0};
    must(c, c->ops->sum(&error, c, sums, 3), "sum");
    const double steps = (double)c->ranks * a->steps;
    x.calls = sums[0] / steps, x.waiting_ms = sums[1] / steps, x.talking_ms = sums[2] / steps;
    return x;
}

/* comm: of the trainer; NULL: it has no others. */
static timing time_trainer(const arguments *a, gf_comm *c, gf_comm *comm, meter *m, int64_t batch) {
    gf_trainer *t = make_trainer(a, c, comm, batch);
    const timing x = time_steps(a, c, t, m);
    gf_trainer_free(t);
    return x;
}

/* All ranks together; the same with waiting and communication metered; each rank alone, as many samples. */
static void time_training(const arguments *a, gf_comm *c) {
    const int64_t batch = number("--batch", a->batch, 2, 1 << 16);
    meter m;
    meter_make(&m, c);
    const timing together = time_trainer(a, c, c, NULL, batch), split = time_trainer(a, c, &m.head, &m, batch);
    const timing alone = time_trainer(a, c, NULL, NULL, batch / c->ranks);
    if (c->rank > 0) return;
    const double share = together.ms > alone.ms ? 1.0 - alone.ms / together.ms : 0.0;
    if (a->json)
        printf("{\"bench\": \"ranks\", \"arch\": \"%s\", \"size\": %s, \"batch\": %lld, \"ranks\": %d, \"threads\": %s, "
               "\"weights\": %lld, \"step_ms\": %.3f, \"own_ms\": %.3f, \"talk_share\": %.4f, \"images_per_s\": %.1f, "
               "\"metered_ms\": %.3f, \"calls\": %.0f, \"waiting_ms\": %.3f, \"talking_ms\": %.3f, \"cpu_ms\": %.1f, "
               "\"own_cpu_ms\": %.1f}\n",
               a->arch, a->size, (long long)batch, c->ranks, a->threads, (long long)together.weights, together.ms, alone.ms,
               share, 1e3 * (double)batch / together.ms, split.ms, split.calls, split.waiting_ms, split.talking_ms,
               together.cpu_ms, alone.cpu_ms);
    else
        printf("\n%s at %s px, %.1f M weights, batch %lld on %d ranks: step %.1f ms, of a rank by itself %.1f ms, "
               "difference %.0f%%, %.0f images/s\nmetered: step %.1f ms; mean of the ranks in %.0f calls: waiting for the "
               "slowest %.1f ms, talking %.2f ms; CPU time %.0f ms, by itself %.0f ms\n",
               a->arch, a->size, 1e-6 * (double)together.weights, (long long)batch, c->ranks, together.ms, alone.ms, 100 * share,
               1e3 * (double)batch / together.ms, split.ms, split.calls, split.waiting_ms, split.talking_ms, together.cpu_ms,
               alone.cpu_ms);
}

int main(int argc, char **argv) {
    const arguments a = read_arguments(argc, argv);
    gf_comm *c = NULL;
    char transport[128];
    if (gf_dist_open(&error, GF_RANKS_AUTO, gf_dist_launched(getenv), &c) != GLOFND_OK) die("%s", error.text);
    gf_dist_describe(transport, sizeof transport);
    if (c->rank == 0 && !a.json) printf("%d ranks, %s\n\n", c->ranks, transport);
    time_calls(&a, c);
    time_training(&a, c);
    const int failed = c->rank == 0 && (ferror(stdout) || fflush(stdout) != 0);
    gf_dist_close(c);
    if (failed) die("stdout cannot be written");
    return 0;
}
