/* scaling.c - a model of the step time on R ranks, for machines one does not have: bytes and messages of every collective, priced
 * by latency and bandwidth. Nothing is measured; `bench/ranks` measures the same terms, research/2026-11/scaling.md compares.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct setting {
    const char *flag, *help;
    double value, low, high;
} setting;

enum {
    COMPUTE,
    SAMPLES,
    DIM,
    WEIGHTS,
    NORMS,
    NODE,
    NODE_RATE,
    NODE_DELAY,
    NET_RATE,
    NET_DELAY,
    HOST_RATE,
    HOST_DELAY,
    LOSS_RATE,
    OVERLAP,
    JITTER,
    MAX_RANKS,
    SETTINGS
};

static setting settings[SETTINGS] = {
    [COMPUTE] = {"--compute-ms", "of one rank's step by itself; ResNet-50 at 224 px, 128 samples, on one H200", 31.57, 1e-3, 1e6},
    [SAMPLES] = {"--samples", "of each rank", 128, 1, 1e6},
    [DIM] = {"--dim", "of an embedding", 128, 1, 1e5},
    [WEIGHTS] = {"--weights", "millions", 25.6, 1e-3, 1e6},
    [NORMS] = {"--norms", "layers of batch norm", 55, 0, 1e4},
    [NODE] = {"--node", "ranks of a machine", 8, 1, 1024},
    [NODE_RATE] = {"--node-gb-s", "between them, each way (NVLink)", 370, 1e-3, 1e5},
    [NODE_DELAY] = {"--node-us", "until a small collective is over, per doubling of ranks", 6, 0, 1e6},
    [NET_RATE] = {"--net-gb-s", "between machines, for each rank (InfiniBand NDR: 50 at best)", 40, 1e-3, 1e5},
    [NET_DELAY] = {"--net-us", "the same between machines", 8, 0, 1e6},
    [HOST_RATE] = {"--host-gb-s", "of MPI between hosts: ids and state", 10, 1e-3, 1e5},
    [HOST_DELAY] = {"--host-us", "of a small MPI collective, per doubling", 5, 0, 1e6},
    [LOSS_RATE] = {"--loss-tflop-s", "of the loss on large batches; the bench of the loss at B = 131072", 400, 1e-3, 1e5},
    [OVERLAP] = {"--overlap", "part of the gradients' time hidden behind backward, 0 to 1", 0, 0, 1},
    [JITTER] = {"--jitter", "deviation of a rank's time between two calls, in parts of it; all wait for the slowest", 0, 0, 10},
    [MAX_RANKS] = {"--max-ranks", "ranks of the last row", 1024, 1, 1 << 20},
};

static double get(int which) { return settings[which].value; }

static void help(void) {
    printf("Usage: scaling [--json] [--FLAG NUMBER ...]\n"
           "Predicts the time of a training step on 1, 2, 4 ... ranks with as many samples on each (weak scaling). A collective\n"
           "takes latency times the doublings of ranks, plus bytes over bandwidth: the machine's while all ranks are in one,\n"
           "then the network's.\n");
    for (int i = 0; i < SETTINGS; i++) printf("  %-15s %s (%g)\n", settings[i].flag, settings[i].help, settings[i].value);
    printf("Exit status: 0, 2 usage.\n");
}

_Noreturn static void misused(const char *flag, const char *text) {
    fprintf(stderr, "scaling: %s: %s; --help says more\n", flag, text);
    exit(2);
}

static int take(const char *flag, const char *text) {
    for (int i = 0; i < SETTINGS; i++) {
        char *end;
        if (strcmp(flag, settings[i].flag) != 0) continue;
        if (!text) misused(flag, "needs a value");
        errno = 0;
        const double x = strtod(text, &end);
        const int fits = end != text && !*end && !errno && x >= settings[i].low && x <= settings[i].high;
        if (!fits) misused(flag, "not a number, or out of range");
        settings[i].value = x;
        return 1;
    }
    return 0;
}

/* ---- the model; all times in ms ---- */

typedef struct prediction {
    double loss, gather, norms, state, gradients, waiting, step;
} prediction;

/* bytes that a rank sends; messages: small collectives in a row. */
static double price(double messages, double bytes, double ranks, double us, double gb_s) {
    return ranks > 1 ? 1e-3 * us * messages * log2(ranks) + bytes / (1e6 * gb_s) : 0.0;
}

static double on_device(double messages, double bytes, double ranks) {
    const int near = ranks <= get(NODE);
    return price(messages, bytes, ranks, get(near ? NODE_DELAY : NET_DELAY), get(near ? NODE_RATE : NET_RATE));
}

static double on_host(double messages, double bytes, double ranks) {
    return price(messages, bytes, ranks, get(HOST_DELAY), get(HOST_RATE));
}

static double normal_below(double x) { return 0.5 * erfc(-x / sqrt(2.0)); }

/* About the largest of so many standard normal numbers, in the mean: the quantile of Blom's rank. */
static double largest_of(double ranks) {
    double low = 0, high = 10;
    const double share = (ranks - 0.375) / (ranks + 0.25);
    if (ranks < 2) return 0.0;
    for (int i = 0; i < 60; i++) {
        const double x = 0.5 * (low + high);
        if (normal_below(x) < share) low = x;
        else high = x;
    }
    return low;
}

static prediction predict(double ranks) {
    const double own = get(SAMPLES), all = own * ranks, others = ranks - 1.0;
    const double link = 8, id = 12, row = 36; /* bytes; per side, of id and label, of an anchor's state */
    const double flops = 3 * 2.0 * (2 * own) * (2 * (all - own)) * get(DIM); /* similarities once, gradients in both roles */
    prediction p = {.loss = flops / (1e9 * get(LOSS_RATE))};
    p.gather = on_device(3, others * own * (2 * 4 * get(DIM) + 2 * link), ranks);
    p.norms = on_device(2 * get(NORMS), 0, ranks); /* forward and backward; few bytes */
    /* ids, labels, state there and back, statistics, stop */
    p.state = on_host(6, others * own * id + 2 * row * own * others / ranks, ranks);
    p.gradients = (1 - get(OVERLAP)) * on_device(2, 2 * 4e6 * get(WEIGHTS) * others / ranks, ranks);
    p.waiting = get(COMPUTE) * get(JITTER) * largest_of(ranks);
    p.step = get(COMPUTE) + p.loss + p.gather + p.norms + p.state + p.gradients + p.waiting;
    return p;
}

static void show(int json, double ranks) {
    const prediction p = predict(ranks);
    const double share = get(COMPUTE) / p.step, rate = 1e3 * get(SAMPLES) * ranks / p.step;
    if (json)
        printf("{\"bench\": \"scaling\", \"ranks\": %.0f, \"compute_ms\": %g, \"loss_ms\": %.4f, \"gather_ms\": %.4f, "
               "\"norms_ms\": %.4f, \"state_ms\": %.4f, \"gradients_ms\": %.4f, \"waiting_ms\": %.4f, "
               "\"step_ms\": %.4f, \"efficiency\": %.4f}\n",
               ranks, get(COMPUTE), p.loss, p.gather, p.norms, p.state, p.gradients, p.waiting, p.step, share);
    else
        printf("%6.0f %9.0f %9.2f %8.2f %8.2f %8.2f %8.2f %9.2f %8.2f %9.2f %9.0f %6.2f\n", ranks, ranks * get(SAMPLES),
               get(COMPUTE), p.loss, p.gather, p.norms, p.state, p.gradients, p.waiting, p.step, rate, share);
}

int main(int argc, char **argv) {
    int json = 0;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--help") == 0) return help(), 0;
        if (strcmp(argv[i], "--json") == 0) json = 1;
        else if (take(argv[i], i + 1 < argc ? argv[i + 1] : NULL)) i++;
        else misused(argv[i], "unknown argument");
    }
    if (!json)
        printf("%6s %9s %9s %8s %8s %8s %8s %9s %8s %9s %9s %6s\n", "ranks", "batch", "compute", "loss", "gather", "norms",
               "state", "gradients", "waiting", "step ms", "images/s", "eff.");
    for (double ranks = 1; ranks <= get(MAX_RANKS); ranks *= 2) show(json, ranks);
    return ferror(stdout) || fflush(stdout) != 0;
}
