/* report.c - see report.h. */
#include "support/report.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "support/die.h"

row row_empty(const char *bench, const char *detector, int64_t batch, int64_t dim) {
    row x = {
        .bench = bench,
        .detector = detector,
        .batch = batch,
        .dim = dim,
        .ms = NAN,
        .spread = NAN,
        .gflops = NAN,
        .over_none = NAN,
        .naive_ms = NAN,
        .naive_spread = NAN,
        .ratio = NAN,
        .peak_bytes = NAN,
        .naive_peak_bytes = NAN,
        .resident = NAN,
        .naive_resident = NAN,
        .torch_ms = NAN,
        .torch_ratio = NAN,
        .n = NAN,
        .first_visit_ms = NAN,
        .store_bytes = NAN,
        .repeats = NAN,
    };
    for (int p = 0; p < PARTS; p++) x.part_ms[p] = NAN;
    return x;
}

/* ---- JSON ---- */

static void member(const char *key, double value, int digits) {
    if (isfinite(value)) printf(", \"%s\": %.*f", key, digits, value);
    else printf(", \"%s\": null", key);
}

static void json_row(const report *r, const row *x) {
    const machine *m = &r->m;
    printf("{\"bench\": \"%s\", \"B\": %lld, \"d\": %lld, \"detector\": \"%s\", \"threads\": %d", x->bench, (long long)x->batch,
           (long long)x->dim, x->detector, m->threads);
    member("ms", x->ms, 4), member("naive_ms", x->naive_ms, 4), member("ratio", x->ratio, 3);
    member("peak_bytes", x->peak_bytes, 0), member("naive_peak_bytes", x->naive_peak_bytes, 0), member("n", x->n, 0);
    member("spread", x->spread, 3), member("naive_spread", x->naive_spread, 3);
    member("gflops", x->gflops, 2), member("over_none", x->over_none, 4), member("repeats", x->repeats, 3);
    member("torch_ms", x->torch_ms, 3), member("torch_ratio", x->torch_ratio, 2);
    member("resident_bytes", x->resident, 0), member("naive_resident_bytes", x->naive_resident, 0);
    member("first_visit_ms", x->first_visit_ms, 4), member("store_bytes", x->store_bytes, 0);
    for (int p = 0; p < PARTS; p++) {
        char key[32];
        snprintf(key, sizeof key, "%s_ms", part_names[p]);
        member(key, x->part_ms[p], 4);
    }
    if (isfinite(x->torch_ms)) printf(", \"torch\": \"%s\", \"torch_blas\": \"%s\"", r->torch, r->blas);
    printf(", \"isa\": \"%s\"", m->isa);
    member("kernel_gflops", m->kernel_gflops, 1);
    printf("}\n");
}

/* ---- for people ---- */

static void cell(int width, double value, int digits) {
    if (isfinite(value)) printf(" %*.*f", width, digits, value);
    else printf(" %*s", width, "-");
}

static void percent(int width, double share, int sign) {
    if (isfinite(share)) printf(sign ? " %+*.1f" : " %*.1f", width, 100.0 * share);
    else printf(" %*s", width, "-");
}

static int digits_of(double ms) { return ms < 10.0 ? 3 : ms < 1000.0 ? 1 : 0; }

static void loss_row(const row *x) {
    printf("%6lld  %-8s", (long long)x->batch, x->detector);
    cell(9, x->ms, digits_of(x->ms)), percent(5, x->spread, 0), cell(8, x->gflops, 1), percent(9, x->over_none, 1);
    cell(10, x->naive_ms, digits_of(x->naive_ms)), percent(5, x->naive_spread, 0), cell(6, x->ratio, 2);
    cell(8, x->peak_bytes * 1e-6, 1), cell(9, x->naive_peak_bytes * 1e-6, 1), cell(6, x->naive_peak_bytes / x->peak_bytes, 1);
    cell(9, x->torch_ms, digits_of(x->torch_ms)), cell(6, x->torch_ratio, 1);
    printf("\n");
}

static void anchors_row(const row *x) {
    printf("%6lld  %-8s %9.0e", (long long)x->batch, x->detector, x->n);
    cell(9, x->ms, digits_of(x->ms)), percent(5, x->spread, 0), cell(12, x->first_visit_ms, digits_of(x->first_visit_ms));
    cell(11, x->store_bytes * 1e-6, 1);
    printf("\n");
}

static void extras_row(const row *x) {
    printf("%6lld  %-9s %12.0f", (long long)x->batch, x->detector, x->n);
    cell(9, x->ms, digits_of(x->ms)), percent(5, x->spread, 0), cell(9, 1e6 * x->ms / x->n, 3), percent(9, x->over_none, 1);
    printf("\n");
}

void report_machine(const report *r) {
    const machine *m = &r->m;
    char day[32];
    const time_t now = time(NULL);
    struct tm utc;
    if (r->json) return;
    strftime(day, sizeof day, "%Y-%m-%d", gmtime_r(&now, &utc));
    printf("%s\n%s, %d cores, %d threads, kernels %s, load %.2f, %s\n", glofnd_build_info(), m->cpu, m->cores, m->threads, m->isa,
           m->load, day);
    printf("product kernel in cache %.0f GFLOP/s", m->kernel_gflops);
    printf("; whole product of the naive version %.0f GFLOP/s, %.0f %% of the kernel\n", m->product_gflops,
           100.0 * m->product_gflops / m->kernel_gflops);
    if (m->load > 0.3 * m->cores) printf("The machine was not idle: times and ratios are less certain than their spread says.\n");
    fflush(stdout);
}

static const char loss_heading[] =
    "\nOne step, loss and gradients. +-: middle half of the times in %% of the median. GFLOP/s: 16 B^2 d / time, which is one\n"
    "S = ZZ' and one P Z of 2 (2B)^2 d each. MB: workspace and gradients.\n"
    "%6s  %-8s %9s %5s %8s %9s %10s %5s %6s %8s %9s %6s %9s %6s\n";

static const char anchors_heading[] =
    "\nThe same with n anchors in the store, other ids in every step. ms: anchors in the state of a run under way. First visit:\n"
    "anchors never seen before, memory touched for the first time.\n"
    "%6s  %-8s %9s %9s %5s %12s %11s\n";

static const char extras_heading[] = "\nWhat a batch may have beside its samples, detector glofnd: as many candidates as "
                                     "samples, then with their gradients, and with ids;\n"
                                     "every eighth sample a copy; a store of keys; groups of 4 positives; detectors mutual, and\n"
                                     "fixed with a guide of 384 numbers. Similarities are counted once. over: time per "
                                     "similarity over the plain step's.\n"
                                     "%6s  %-9s %12s %9s %5s %9s %9s\n";

static const char parts_heading[] =
    "\nWhere the time goes, ms. embed: unit vectors, packing. select: exact quantiles of rows. stats: pass B, a product and the\n"
    "sums. settle: entries near lambda, after it moved. grad: pass C, the product again (if S was too large to keep), weights,\n"
    "two products.\n";

void report_heading(const report *r, const char *bench) {
    if (r->json) return;
    if (strcmp(bench, "loss") == 0 && r->torch[0]) printf("PyTorch %s, products by %s\n", r->torch, r->blas);
    if (strcmp(bench, "loss") == 0)
        printf(loss_heading, "B", "detector", "ms", "+-%", "GFLOP/s", "over none", "naive ms", "+-%", "ratio", "MB", "naive MB",
               "ratio", "torch ms", "ratio");
    else if (strcmp(bench, "extras") == 0) printf(extras_heading, "B", "extra", "similarities", "ms", "+-%", "ns each", "over %");
    else printf(anchors_heading, "B", "detector", "n", "ms", "+-%", "first visit", "store MB");
    fflush(stdout);
}

void report_row(const report *r, const row *x) {
    if (r->json) json_row(r, x);
    else if (strcmp(x->bench, "loss") == 0) loss_row(x);
    else if (strcmp(x->bench, "extras") == 0) extras_row(x);
    else anchors_row(x);
    if (ferror(stdout) || fflush(stdout) != 0) die("stdout cannot be written");
}

void report_parts(const report *r, const row *rows, int count) {
    if (r->json) return;
    printf("%s%6s  %-8s", parts_heading, "B", "detector");
    for (int p = 0; p < PARTS; p++) printf(" %9s", part_names[p]);
    printf("\n");
    for (int i = 0; i < count; i++) {
        printf("%6lld  %-8s", (long long)rows[i].batch, rows[i].detector);
        for (int p = 0; p < PARTS; p++) cell(9, rows[i].part_ms[p], digits_of(rows[i].ms));
        printf("\n");
    }
}
