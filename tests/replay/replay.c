/* replay.c - replays golden cases (numbers recorded from the authors' code) through libglofnd and compares every output.
 *
 *     replay ROOT [CASE] [--device cpu|cuda] [--verbose]
 *
 * ROOT holds manifest.tsv, hyper.tsv and the arrays they name, in .npz or .npy files. Exit status: 0 if masks and counts are exact, NaN matches NaN
 * and all else is within 2e-5 of the array's largest value; 1 if not; 2 for wrong usage or a folder that cannot be read. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "run.h"
#include "settings.h"

static const struct {
    const char *family;
    int (*run)(const golden_case *, outputs *, message *);
} families[] = {
    {"unimodal_sogclr", run_steps},
    {"unimodal_simclr", run_steps},
    {"bimodal_fastclip", run_steps},
    {"bimodal_clip", run_steps},
    {"optimizer_lars", run_lars},
    {"optimizer_adamw", run_adamw},
    {"schedule_lr_unimodal", run_lr_unimodal},
    {"schedule_lr_cosine", run_lr_cosine},
    {"schedule_lr_tau", run_lr_tau},
    {"schedule_gamma", run_gamma},
};

typedef struct tally {
    int verbose;
    size_t cases, count[3]; /* by exit status */
    double worst;
    char where[256];
} tally;

static int run_family(const golden_case *c, outputs *o, message *m) {
    const char *family = NULL;
    PASS(golden_text(c, "family", &family, m));
    for (size_t i = 0; i < sizeof families / sizeof families[0]; i++)
        if (strcmp(family, families[i].family) == 0) return families[i].run(c, o, m);
    return say(m, REPLAY_UNREADABLE, "%s: hyper.tsv: unknown family '%s'", c->id, family);
}

/* Runs and prints a loaded case. */
static int compare_outputs(const golden_case *c, tally *all, message *m) {
    outputs o;
    double worst = 0.0;
    const char *where = "";
    outputs_init(&o, c);
    int code = run_family(c, &o, m);
    if (code != REPLAY_UNREADABLE) {
        printf("%s\n", c->id);
        if (!outputs_print(&o, all->verbose, &worst, &where)) code = REPLAY_MISMATCH;
        printf("  %-4s %s: %zu outputs, worst relative error %.1e (%s)\n", code ? "FAIL" : "ok", c->id, o.count, worst, where);
        if (worst >= all->worst) {
            all->worst = worst;
            snprintf(all->where, sizeof all->where, "%s of %s", where, c->id);
        }
    }
    outputs_free(&o);
    return code;
}

static int run_case(const golden *g, const char *id, tally *all) {
    golden_case c;
    message m = {""};
    int code = golden_load(g, id, &c, &m);
    if (code == REPLAY_OK) code = compare_outputs(&c, all, &m);
    golden_unload(&c);
    fflush(stdout);
    if (m.text[0] && code == REPLAY_MISMATCH) fprintf(stderr, "replay: %s: %s\n", id, m.text);
    else if (m.text[0]) fprintf(stderr, "replay: %s\n", m.text); /* names the case itself */
    all->cases++;
    all->count[code]++;
    return code;
}

static int unknown_case(const golden *g, const char *id) {
    fprintf(stderr, "replay: %s/manifest.tsv has no case '%s'; it has:\n", g->root, id);
    for (size_t i = 0; i < g->case_count; i++) fprintf(stderr, "  %s\n", g->cases[i]);
    return REPLAY_UNREADABLE;
}

static int run_root(const char *root, const char *only, int verbose) {
    golden g;
    message m = {""};
    tally all = {.verbose = verbose};
    int code = golden_open(&g, root, &m);
    if (code != REPLAY_OK) fprintf(stderr, "replay: %s\n", m.text);
    for (size_t i = 0; code != REPLAY_UNREADABLE && i < g.case_count; i++)
        if (!only || strcmp(only, g.cases[i]) == 0) run_case(&g, g.cases[i], &all);
    if (code == REPLAY_OK && all.cases == 0) code = unknown_case(&g, only);
    golden_close(&g);
    if (code != REPLAY_OK) return code;
    printf("%zu cases: %zu agree, %zu differ, %zu could not be read; worst relative error %.1e (%s)\n", all.cases,
           all.count[REPLAY_OK], all.count[REPLAY_MISMATCH], all.count[REPLAY_UNREADABLE], all.worst, all.where);
    return all.count[REPLAY_UNREADABLE] ? REPLAY_UNREADABLE : all.count[REPLAY_MISMATCH] ? REPLAY_MISMATCH : REPLAY_OK;
}

/* Exact arithmetic: the golden numbers are held against float32. 77, as of a skipped test, where there is no such device. */
static int choose_device(const char *name) {
    glofnd_options o;
    char why[512];
    gf_method_options_init(&o);
    o.lambda_init = GLOFND_INIT_ONE;
    if (glofnd_options_set(&o, "device", name, why, sizeof why) != GLOFND_OK)
        return fprintf(stderr, "replay: --device %s: %s\n", name, why), REPLAY_UNREADABLE;
    replay_device = o.device;
    if (glofnd_device_check(o.device, why, sizeof why) == GLOFND_OK) return REPLAY_OK;
    return printf("skipped: %s\n", why), 77;
}

int main(int argc, char **argv) {
    static const char usage[] = "usage: replay ROOT [CASE] [--device cpu|cuda] [--verbose]\n"
                                "ROOT: folder with manifest.tsv and hyper.tsv; CASE: one of its cases, default all\n";
    const char *word[2] = {NULL, NULL};
    const char *device = "cpu";
    int words = 0, verbose = 0;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--verbose") == 0) verbose = 1;
        else if (strcmp(argv[i], "--device") == 0 && i + 1 < argc) device = argv[++i];
        else if (strcmp(argv[i], "--help") == 0) return printf("%s", usage) < 0;
        else if (argv[i][0] == '-' || words == 2) return fprintf(stderr, "replay: unexpected '%s'\n%s", argv[i], usage), 2;
        else word[words++] = argv[i];
    }
    if (words == 0) return fprintf(stderr, "replay: no folder given\n%s", usage), 2;
    const int found = choose_device(device);
    if (found != REPLAY_OK) return found;
    return run_root(word[0], word[1], verbose);
}
