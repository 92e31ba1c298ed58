/* data.c - times the data path: decoding a JPEG and making its two views at 224 pixels, and views of CIFAR's size, against
 * torchvision with PIL where it is installed. Usage: `data --help`; results: docs/benchmarks.md.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/data_stages.h"
#include "support/python.h"
#include "util/parallel.h"

#define SCRIPT "bench_torchvision.py"

typedef struct arguments {
    int threads, quick, json, with_torch, count;
    const char *images; /* NULL: drawn ones */
    const char *write;  /* NULL: measure */
    data_sizes sizes;
} arguments;

static const char usage[] =
    "Usage: data [--images DIR] [--count N] [--threads N] [--quick] [--json] [--no-torch]\n"
    "Times the data path on one thread: JPEGs decoded, two augmented views of 224 pixels each (SogCLR's recipe), exact and\n"
    "fast; two views of decoded images of 32 pixels; then the loader with several threads.\n"
    "  --images DIR  the *.jpg of this folder (48 drawn pictures of 500 x 375 pixels, quality 90)\n"
    "  --count N     at most so many images (48; at most 512)\n"
    "  --threads N   workers of the loader (as many as OpenMP would use)\n"
    "  --quick       seconds instead of a minute, less certain\n"
    "  --json        one object per row on stdout, nothing else\n"
    "  --no-torch    not against torchvision with PIL\n"
    "  --write DIR   no times: writes --count drawn pictures (at most 100000) to this folder, for tools/bench_feed.py\n"
    "  --sizes LIST  of those: 500x375,375x500 takes turns (500x375)\n"
    "  --help        this text\n"
    "Exit status: 0, 1 failed, 2 usage.\n";

_Noreturn static void misused(const char *flag, const char *text) {
    fprintf(stderr, "data: %s: %s; --help says more\n", flag, text);
    exit(2);
}

static const char *operand(int argc, char **argv, int *i) {
    if (*i + 1 >= argc) misused(argv[*i], "needs a value");
    return argv[++*i];
}

static int number(int argc, char **argv, int *i, int max) {
    const char *flag = argv[*i], *text = operand(argc, argv, i);
    char *end;
    errno = 0;
    const long x = strtol(text, &end, 10);
    if (*end || end == text || errno != 0 || x < 1 || x > max) misused(flag, "not a number, or out of range");
    return (int)x;
}

static data_sizes sizes_of(const char *flag, const char *text) {
    data_sizes s = {.count = 0};
    for (int used = 0; s.count < SIZES_MAX; text += used + 1) {
        if (sscanf(text, "%dx%d%n", &s.width[s.count], &s.height[s.count], &used) != 2) break;
        if (s.width[s.count] < 1 || s.height[s.count] < 1 || s.width[s.count] > 10000 || s.height[s.count] > 10000) break;
        s.count++;
        if (text[used] == '\0') return s;
        if (text[used] != ',') break;
    }
    misused(flag, "not a list of sizes");
}

static arguments read_arguments(int argc, char **argv) {
    arguments a = {.threads = gf_parallel_default(),
                   .with_torch = 1,
                   .count = 48,
                   .sizes = {.width = {500}, .height = {375}, .count = 1}};
    for (int i = 1; i < argc; i++) {
        const char *flag = argv[i];
        if (strcmp(flag, "--help") == 0) fputs(usage, stdout), exit(0);
        else if (strcmp(flag, "--quick") == 0) a.quick = 1;
        else if (strcmp(flag, "--json") == 0) a.json = 1;
        else if (strcmp(flag, "--no-torch") == 0) a.with_torch = 0;
        else if (strcmp(flag, "--images") == 0) a.images = operand(argc, argv, &i);
        else if (strcmp(flag, "--count") == 0) a.count = number(argc, argv, &i, 100000);
        else if (strcmp(flag, "--write") == 0) a.write = operand(argc, argv, &i);
        else if (strcmp(flag, "--sizes") == 0) a.sizes = sizes_of(flag, operand(argc, argv, &i));
        else if (strcmp(flag, "--threads") == 0) a.threads = number(argc, argv, &i, 1024);
        else misused(flag, "unknown argument");
    }
    if (!a.write && a.count > FILES_MAX) misused("--count", "not a number, or out of range");
    return a;
}

/* ---- torchvision ---- */

typedef struct torchvision { /* ms per image; NaN: not measured */
    double files, decode, small;
    char version[64];
} torchvision;

static void read_row(void *user, const char *line) {
    torchvision *t = user;
    char bench[16];
    python_text(line, "bench", bench, sizeof bench);
    python_text(line, "versions", t->version, sizeof t->version);
    if (strcmp(bench, "files") == 0) {
        t->files = python_number(line, "ms");
        t->decode = python_number(line, "decode_ms");
    }
    if (strcmp(bench, "small") == 0) t->small = python_number(line, "ms");
}

static torchvision run_torchvision(const arguments *a, const data_files *f) {
    torchvision t = {NAN, NAN, NAN, ""};
    char count[24];
    char *const args[] = {"--images", (char *)f->folder, "--count", count, a->quick ? "--quick" : NULL, NULL};
    snprintf(count, sizeof count, "%d", f->count);
    if (!a->with_torch) return t;
    fprintf(stderr, "torchvision ...\n");
    python_rows(SCRIPT, args, "torchvision and PIL (PyPI: torchvision)", read_row, &t);
    return t;
}

/* ---- rows ---- */

static void put_number(const char *key, double x) {
    if (isfinite(x)) printf(", \"%s\": %.4g", key, x);
    else printf(", \"%s\": null", key);
}

static void put_row(const arguments *a, const char *bench, const char *decode, const data_times *t, double torch_ms) {
    if (!a->json) {
        printf("%-6s %-6s %8.3f %8.3f %8.3f %8.3f %8.3f %10.0f", bench, decode, t->decode, t->resize, t->colour, t->blur,
               t->total, 1e3 / t->total);
        if (isfinite(torch_ms)) printf(" %10.3f %7.2f", torch_ms, torch_ms / t->total);
        printf("\n");
        return;
    }
    printf("{\"bench\": \"%s\", \"decode\": \"%s\", \"threads\": 1", bench, decode);
    put_number("ms", t->total);
    put_number("spread", t->spread);
    put_number("decode_ms", t->decode);
    put_number("resize_ms", t->resize);
    put_number("colour_ms", t->colour);
    put_number("blur_ms", t->blur);
    put_number("images_per_s", 1e3 / t->total);
    put_number("views_per_s", 2e3 / t->total);
    put_number("torch_ms", torch_ms);
    put_number("ratio", torch_ms / t->total);
    printf("}\n");
}

static void put_loader(const arguments *a, const char *decode, double rate, double single_ms) {
    const double share = rate * single_ms / 1e3 / a->threads;
    if (!a->json) {
        printf("loader %-6s %d threads: %.0f images/s, %.0f %% of %d times one thread\n", decode, a->threads, rate, 100 * share,
               a->threads);
        return;
    }
    printf("{\"bench\": \"loader\", \"decode\": \"%s\", \"threads\": %d", decode, a->threads);
    put_number("images_per_s", rate);
    put_number("of_linear", share);
    printf("}\n");
}

static void put_heading(const arguments *a, const data_files *f, const torchvision *t) {
    if (a->json) {
        printf("{\"bench\": \"images\", \"count\": %d", f->count);
        put_number("bytes", f->mean_bytes);
        put_number("width", f->mean_width);
        put_number("height", f->mean_height);
        put_number("torch_decode_ms", t->decode);
        printf(", \"torch\": \"%s\"}\n", t->version);
        return;
    }
    printf("%d %s, %.0f x %.0f pixels and %.0f bytes on average; one thread, two views per image\n", f->count,
           f->drawn ? "drawn pictures" : "files", f->mean_width, f->mean_height, f->mean_bytes);
    if (t->version[0]) printf("torchvision: %s; of its time %.3f ms decode\n", t->version, t->decode);
    printf("%-6s %-6s %8s %8s %8s %8s %8s %10s %10s %7s\n", "", "", "decode", "resize", "colour", "blur", "all ms", "images/s",
           "torch ms", "ratio");
}

int main(int argc, char **argv) {
    const arguments a = read_arguments(argc, argv);
    static data_files files;
    const gf_augment large = gf_augment_pretrain(224), small = gf_augment_pretrain(32);
    const double budget = a.quick ? 1.0 : 8.0;
    if (a.write) {
        data_files_write(a.write, &a.sizes, a.count, a.threads);
        return 0;
    }
    if (a.images) data_files_open(&files, a.images, a.count);
    else data_files_draw(&files, a.quick && a.count > 16 ? 16 : a.count);
    const torchvision torch = run_torchvision(&a, &files);
    const data_times exact = data_time_files(&files, &large, 0, budget), fast = data_time_files(&files, &large, 1, budget);
    const data_times cifar = data_time_small(&small, 256, budget / 2);
    put_heading(&a, &files, &torch);
    put_row(&a, "files", "exact", &exact, torch.files);
    put_row(&a, "files", "fast", &fast, torch.files);
    put_row(&a, "small", "none", &cifar, torch.small);
    put_loader(&a, "exact", data_time_loader(&files, &large, 0, a.threads, budget / 2), exact.total);
    put_loader(&a, "fast", data_time_loader(&files, &large, 1, a.threads, budget / 2), fast.total);
    data_files_free(&files);
    return 0;
}
