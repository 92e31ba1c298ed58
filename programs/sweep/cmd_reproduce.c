/* cmd_reproduce.c - glofnd reproduce: a table of the paper. A sweep over the presets of its rows and seeds, then the table beside
 * the printed numbers. The same command continues after an interruption. */
#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "plot/terminal.h"
#include "programs/cli.h"
#include "programs/sweep/sweep.h"
#include "util/text.h"

/* ----- the tables of the paper -----
 *
 * Presets of their rows, data, evaluations, figures, and the numbers it prints. */

enum { PAPER_ROWS = 8, PAPER_COLUMNS = 10, PAPER_EVALS = 2 };

typedef struct paper_column {
    const char *title;
    const char *event, *part; /* texts in the name of the figure */
    int average;              /* 1: the paper prints the gain over the base with it */
} paper_column;

typedef struct paper_row {
    const char *title, *preset;                                       /* preset NULL: the first run's initial weights */
    double mean[PAPER_COLUMNS], std[PAPER_COLUMNS], p[PAPER_COLUMNS]; /* 0: not printed */
} paper_row;

typedef struct paper_table {
    const char *name, *summary;
    const char *data;              /* SPEC to train on; ROOT: the folder of the data, CLASSES: the list of classes */
    const char *set[3];            /* KEY=VALUE, with ROOT */
    const char *eval[PAPER_EVALS]; /* arguments of `glofnd eval`, with ROOT */
    const char *needs;             /* below ROOT, for people */
    const char *note;              /* what to know of the printed numbers; NULL: nothing */
    paper_column column[PAPER_COLUMNS];
    paper_row row[PAPER_ROWS];
    int base[PAPER_ROWS]; /* row whose seeds are paired with this one's in the test */
} paper_table;

#define IMAGENET100 "imagenet:ROOT/imagenet?classes=CLASSES"
#define LINEAR "linear --augment epoch"
#define SHARES                                                                                               \
    {"100 %", "linear", " 100 % top-1"}, {"10 %", "linear", " 10 % top-1"}, {"1 %", "linear", " 1 % top-1"}, \
        {"0.1 %", "linear", " 0.1 % top-1"}, {                                                               \
        "average", "linear", " mean top-1", 1                                                                \
    }
#define FLAGS                                                                                                \
    {"FN precision", "last epoch", "precision per anchor"}, {"recall", "last epoch", "recall per anchor"}, { \
        "F1", "last epoch", "F1 per anchor"                                                                  \
    }
#define CC3M "vocab=ROOT/bpe_simple_vocab_16e6.txt.gz"

/* clang-format off */
static const paper_table tables[] = {
    {.name = "linear", .summary = "table 1: linear evaluation on ImageNet-100, and the flags of the last epoch",
     .data = IMAGENET100, .eval = {LINEAR}, .needs = "imagenet: ImageNet as it is unpacked, or train and val with folders of classes",
     .column = {SHARES, FLAGS},
     .row = {{"SogCLR", "imagenet100-sogclr", {76.55, 72.24, 62.92, 34.94, 61.66}, {0.09, 0.14, 0.34, 0.60}, {0}},
             {"+ FNC", "imagenet100-sogclr-fnc", {77.12, 72.89, 64.29, 36.11, 62.60, 27.57, 53.67, 36.42},
              {0.14, 0.25, 0.34, 0.70, 0, 0.03, 0.27, 0.07}, {0.011, 0.035, 0.014, 0.024}},
             {"+ GloFND", "imagenet100-sogclr-glofnd", {77.59, 73.36, 65.09, 37.38, 63.36, 48.40, 58.81, 53.10},
              {0.03, 0.15, 0.49, 0.97, 0, 0.65, 0.60, 0.31}, {0.002, 0.011, 0.0009, 0.018}}}}, /* printed: below 0.001 */
    {.name = "transfer", .summary = "table 2: logistic regression on eight datasets",
     .data = IMAGENET100,
     .eval = {"transfer cifar10=ROOT/cifar10 cifar100=ROOT/cifar100 food101=ROOT/food-101 caltech101=ROOT/caltech-101 cars=ROOT/cars "
              "dtd=ROOT/dtd pets=ROOT/pets flowers=ROOT/flowers"},
     .needs = "imagenet, and the unpacked downloads in cifar10, cifar100, food-101, caltech-101, cars, dtd, pets, flowers",
     .column = {{"CIFAR10", "transfer", " CIFAR10 "}, {"CIFAR100", "transfer", " CIFAR100 "}, {"Food101", "transfer", " Food101 "},
                {"Caltech101", "transfer", " Caltech101 "}, {"Cars", "transfer", " Cars "}, {"DTD", "transfer", " DTD "},
                {"Pets", "transfer", " Pets "}, {"Flowers", "transfer", " Flowers "}, {"average", "transfer", "paper mean", 1}},
     .row = {{"SogCLR", "imagenet100-sogclr", {82.46, 60.2, 59.66, 77.73, 25.99, 57.80, 60.63, 76.91, 62.67},
              {0.36, 0.22, 0.2, 0.17, 0.64, 0.30, 0.34, 0.33}, {0}},
             {"+ FNC", "imagenet100-sogclr-fnc", {82.77, 60.96, 59.82, 78.34, 26.28, 58.60, 61.67, 78.77, 63.40},
              {0.36, 0.31, 0.14, 0.92, 0.50, 0.29, 0.66, 0.51}, {0.158, 0.056, 0.219, 0.249, 0.235, 0.080, 0.032, 0.036}},
             {"+ GloFND", "imagenet100-sogclr-glofnd", {82.81, 61.94, 59.87, 79.18, 27.88, 58.97, 63.91, 79.89, 64.31},
              {0.23, 0.24, 0.16, 0.52, 0.44, 0.96, 0.22, 0.09}, {0.143, 0.005, 0.021, 0.024, 0.006, 0.123, 0.002, 0.005}}}},
    {.name = "bimodal", .summary = "table 3: zero-shot tasks after training on CC3M",
     .data = "wds:ROOT/cc3m/*.tar", .set = {CC3M}, .eval = {"zeroshot TASKS"},
     .needs = "cc3m/*.tar, bpe_simple_vocab_16e6.txt.gz, and datacomp/, or a folder per task in zeroshot/ and retrieval/",
     .column = {{"Datacomp", "zeroshot", " mean %"}, {"Retrieval", "zeroshot", " mean of retrieval %"},
                {"IN & Variants", "zeroshot", " mean of ImageNet"}},
     .row = {{"SogCLR", "cc3m-sogclr", {24.87, 29.28, 18.86}, {0.13, 0.30, 0.09}, {0}},
             {"+ FNC", "cc3m-sogclr-fnc", {24.55, 29.69, 18.69}, {0.20, 0.19, 0.62}, {0}},
             {"+ GloFND", "cc3m-sogclr-glofnd", {25.37, 29.92, 19.44}, {0.16, 0.35, 0.16}, {0}},
             {"FastCLIP", "cc3m-fastclip", {24.76, 30.36, 19.08}, {0.26, 0.18, 0.16}, {0}},
             {"+ FNC", "cc3m-fastclip-fnc", {24.63, 28.87, 18.51}, {0.72, 0.93, 0.19}, {0}},
             {"+ GloFND", "cc3m-fastclip-glofnd", {25.37, 30.22, 19.38}, {0.13, 0.32, 0.15}, {0}}},
     .base = {0, 0, 0, 3, 3, 3}},
    {.name = "simclr", .summary = "appendix: linear evaluation of SimCLR on ImageNet-100, batch 512",
     .data = IMAGENET100, .eval = {LINEAR}, .needs = "imagenet: ImageNet as it is unpacked, or train and val with folders of classes", .column = {SHARES},
     .row = {{"SimCLR", "imagenet100-simclr", {76.88, 73.38, 66.40, 33.56, 62.56}, {0}, {0}},
             {"+ FNC", "imagenet100-simclr-fnc", {76.90, 73.10, 64.88, 34.20, 62.27}, {0}, {0}},
             {"+ GloFND", "imagenet100-simclr-glofnd", {77.14, 73.66, 66.50, 35.58, 63.22}, {0}, {0}}}},
    {.name = "finetune", .summary = "appendix: OpenAI's ResNet-50 fine-tuned on CC3M, retrieval on its validation set",
     .data = "wds:ROOT/cc3m/*.tar", .set = {CC3M, "init=ROOT/RN50.safetensors"},
     .eval = {"retrieval --data wds:ROOT/cc3m-val/*.tar", "retrieval --untrained --data wds:ROOT/cc3m-val/*.tar"},
     .needs = "cc3m/*.tar, cc3m-val/*.tar, bpe_simple_vocab_16e6.txt.gz, RN50.safetensors",
     .column = {{"IR@1", "retrieval", "IR@1 %"}, {"IR@5", "retrieval", "IR@5 %"}, {"IR@10", "retrieval", "IR@10 %"},
                {"IR average", "retrieval", "IR average", 1}, {"TR@1", "retrieval", "TR@1 %"}, {"TR@5", "retrieval", "TR@5 %"},
                {"TR@10", "retrieval", "TR@10 %"}, {"TR average", "retrieval", "TR average", 1}},
     .row = {{"Base", NULL, {27.58, 48.17, 57.53, 44.43, 26.30, 48.14, 57.69, 44.04}, {0}, {0}},
             {"SogCLR", "clip-rn50-finetune-sogclr", {36.07, 58.94, 67.22, 54.08, 35.76, 59.19, 67.44, 54.13}, {0}, {0}},
             {"+ FNC", "clip-rn50-finetune-fnc", {33.69, 58.01, 67.51, 53.07, 33.61, 57.95, 67.53, 53.03}, {0}, {0}},
             {"+ GloFND", "clip-rn50-finetune", {36.52, 59.44, 68.02, 54.66, 35.71, 59.27, 67.97, 54.32}, {0}, {0}}},
     .base = {0, 1, 1, 1}, .note = "The paper's row \"SogCLR\" is called GloFND there, above \"+ FNC\" and a second GloFND; we read it as SogCLR."},
    {.name = "single", .summary = "figure: no detector, FNC, a single threshold, GloFND on ImageNet-100",
     .data = IMAGENET100, .eval = {LINEAR}, .needs = "imagenet: ImageNet as it is unpacked, or train and val with folders of classes", .column = {SHARES, FLAGS},
     .row = {{"SogCLR", "imagenet100-sogclr", {76.55, 72.24, 62.92, 34.94, 61.66}, {0.09, 0.14, 0.34, 0.60}, {0}},
             {"+ FNC", "imagenet100-sogclr-fnc", {77.12, 72.89, 64.29, 36.11, 62.60}, {0.14, 0.25, 0.34, 0.70}, {0}},
             {"+ single", "imagenet100-sogclr-single", {77.07, 72.85, 64.14, 36.21, 62.57}, {0}, {0}},
             {"+ GloFND", "imagenet100-sogclr-glofnd", {77.59, 73.36, 65.09, 37.38, 63.36}, {0.03, 0.15, 0.49, 0.97}, {0}}},
     .note = "The paper prints no numbers for \"+ single\"; these are the heights of the bars in its figure."},
    {.name = "cifar100", .summary = "not in the paper: its recipe on CIFAR-100 with ResNet-18",
     .data = "cifar100:ROOT/cifar100", .eval = {LINEAR, "knn"}, .needs = "cifar100: the unpacked download",
     .column = {SHARES, {"kNN", "knn", "top-1"}, FLAGS},
     .row = {{"SogCLR", "cifar100-sogclr", {0}, {0}, {0}}, {"+ FNC", "cifar100-sogclr-fnc", {0}, {0}, {0}},
             {"+ single", "cifar100-sogclr-single", {0}, {0}, {0}}, {"+ GloFND", "cifar100-sogclr-glofnd", {0}, {0}, {0}}}},
    {.name = "cifar10", .summary = "not in the paper: its recipe on CIFAR-10 with ResNet-18",
     .data = "cifar10:ROOT/cifar10", .eval = {LINEAR, "knn"}, .needs = "cifar10: the unpacked download",
     .column = {SHARES, {"kNN", "knn", "top-1"}, FLAGS},
     .row = {{"SogCLR", "cifar10-sogclr", {0}, {0}, {0}}, {"+ FNC", "cifar10-sogclr-fnc", {0}, {0}, {0}},
             {"+ single", "cifar10-sogclr-single", {0}, {0}, {0}}, {"+ GloFND", "cifar10-sogclr-glofnd", {0}, {0}, {0}}}},
};
/* clang-format on */

static const char other_classes[] =
    "The classes are CMC's list of 100 (configs/imagenet100.txt). The paper's are another choice, of SogCLR's repository:\n"
    "so its numbers are no target to the last point. configs/README.md says how to train on the paper's list.";

enum { TABLES = sizeof tables / sizeof *tables };

/* ----- the verb ----- */

typedef struct reproduce_flags {
    const char *root, *out, *seeds, *data, *jobs;
    gf_option_strings set, eval;
    int32_t dry;
} reproduce_flags;

static const gf_option rows[] = {
    CLI_STRING(reproduce_flags, root, "data-root", "DIR", "folder of the datasets; --help lists what each table needs"),
    CLI_STRING(reproduce_flags, out, "out", "DIR", "folder of the runs; default: reproduce-TABLE"),
    CLI_STRING_OR(reproduce_flags, seeds, "seeds", "1,2,3", "1,2,3", "a run of each row and seed"),
    CLI_STRING(reproduce_flags, data, "data", "SPEC", "other data to train on than the table's"),
    CLI_STRINGS(reproduce_flags, set, "set", "KEY=VALUE",
                "a key of all configurations, such as device=cuda; PRESET:KEY=VALUE: of a row's; may be repeated"),
    CLI_STRINGS(reproduce_flags, eval, "eval", "\"WHAT FLAGS\"", "other evaluations than the table's; may be repeated"),
    CLI_STRING_OR(reproduce_flags, jobs, "jobs", "N", "1", "number of runs at a time"),
    CLI_SWITCH(reproduce_flags, dry, "dry-run", "only list the runs"),
};

/* ----- texts of a table ----- */

static int is_visible(const struct dirent *e) { return e->d_name[0] != '.'; }

/* " --data NAME=SPEC" for each folder below ROOT/zeroshot, or " --retrieval ..." below ROOT/retrieval. Returns their number. */
static int add_tasks(const char *root, const char *kind, const char *flag, char *out, size_t bytes) {
    char folder[PATH_MAX], path[PATH_MAX];
    struct dirent **entry = NULL;
    int found = 0;
    if (gf_path_join(NULL, folder, root, kind) != GLOFND_OK) return 0;
    const int n = scandir(folder, &entry, is_visible, alphasort);
    for (int i = 0; i < n; i++) {
        const size_t used = strlen(out);
        const char *name = entry[i]->d_name;
        if (gf_path_join(NULL, path, folder, name) == GLOFND_OK && !strpbrk(name, " \t=")) {
            struct dirent **file = NULL;
            const int files = scandir(path, &file, is_visible, alphasort);
            int shards = 0;
            for (int k = 0; k < files; k++) {
                const char *dot = strrchr(file[k]->d_name, '.');
                shards |= dot && strcmp(dot, ".tar") == 0;
                free(file[k]);
            }
            free(file);
            snprintf(out + used, bytes - used, shards ? " --%s %s=wds:%s/*.tar" : " --%s %s=folder:%s", flag, name, path);
            found++;
        }
        free(entry[i]);
    }
    free(entry);
    return found;
}

static glofnd_status find_tasks(gf_error *err, const paper_table *t, const char *root, char *tasks, size_t bytes) {
    char benchmark[PATH_MAX];
    *tasks = 0;
    if (!t->eval[0] || !strstr(t->eval[0], "TASKS")) return GLOFND_OK;
    TRY(gf_path_join(err, benchmark, root, "datacomp"));
    if (access(benchmark, F_OK) == 0) { /* as its download puts it */
        const int n = snprintf(tasks, bytes, "--datacomp %s", benchmark);
        FAIL_IF(err, n < 0 || (size_t)n >= bytes, GLOFND_E_ARGUMENT, "--data-root: the path is too long");
        return GLOFND_OK;
    }
    const int n = add_tasks(root, "zeroshot", "data", tasks, bytes) + add_tasks(root, "retrieval", "retrieval", tasks, bytes);
    FAIL_IF(err, n == 0, GLOFND_E_OPTION, "%s: %.200s has neither datacomp nor tasks in zeroshot or retrieval", t->name, root);
    gf_print(stderr, "glofnd reproduce: %d of DataComp's 38 tasks are there; the average is of these\n", n);
    return GLOFND_OK;
}

/* ----- the plan ----- */

static glofnd_status add_text(gf_error *err, sweep_plan *p, const char *key, const char *text, const char *root,
                              const char *tasks) {
    char filled[SWEEP_COMMAND_MAX / 4];
    /* `at` with ROOT, CLASSES and TASKS replaced. */
    const char *at = text;
    char classes[PATH_MAX] = "";
    size_t used = 0;
    if (strstr(at, "CLASSES")) TRY(cli_preset_file(err, "imagenet100.txt", "", classes));
    const struct { const char *word, *value; } words[] = {{"ROOT", root}, {"CLASSES", classes}, {"TASKS", tasks}};
    while (*at) {
        const char *value = NULL;
        size_t length = 1;
        for (size_t i = 0; i < sizeof words / sizeof *words && !value; i++)
            if (strncmp(at, words[i].word, strlen(words[i].word)) == 0) value = words[i].value, length = strlen(words[i].word);
        const int n = value ? snprintf(filled + used, sizeof filled - used, "%s", value)
                            : snprintf(filled + used, sizeof filled - used, "%c", *at);
        FAIL_IF(err, n < 0 || (size_t)n >= sizeof filled - used, GLOFND_E_ARGUMENT, "--data-root: the path is too long");
        used += (size_t)n;
        at += length;
    }
    return sweep_set(err, p, key, filled, NULL);
}

static glofnd_status make_plan(gf_error *err, const paper_table *t, const reproduce_flags *f, sweep_plan *p) {
    char out[64], tasks[SWEEP_COMMAND_MAX / 8];
    const char *root = f->root ? f->root : "";
    const int own = !f->data || !f->eval.count; /* something of the table's needs the root */
    FAIL_IF(err, own && !f->root, GLOFND_E_OPTION, "--data-root is needed: the folder that holds %s", t->needs);
    FAIL_IF(err, strpbrk(root, " \t"), GLOFND_E_OPTION, "--data-root: \"%.100s\" holds a blank; use a path without", root);
    snprintf(out, sizeof out, "reproduce-%s", t->name);
    TRY(sweep_set(err, p, "out", f->out ? f->out : out, NULL));
    TRY(sweep_set(err, p, "seeds", f->seeds, NULL));
    TRY(sweep_set(err, p, "jobs", f->jobs, NULL));
    char presets[PAPER_ROWS * 64] = "config=";
    for (int i = 0, n = 0; i < PAPER_ROWS && t->row[i].title; i++) {
        const size_t used = strlen(presets);
        if (t->row[i].preset) snprintf(presets + used, sizeof presets - used, "%s%s", n++ ? "," : "", t->row[i].preset);
    }
    TRY(sweep_set(err, p, "vary", presets, NULL));
    TRY(f->data ? sweep_set(err, p, "data", f->data, NULL) : add_text(err, p, "data", t->data, root, ""));
    for (int i = 0; i < 3 && t->set[i] && !f->data; i++) TRY(add_text(err, p, "set", t->set[i], root, ""));
    for (int i = 0; i < f->set.count; i++) TRY(sweep_set(err, p, "set", f->set.at[i], NULL));
    for (int i = 0; i < f->eval.count; i++) TRY(sweep_set(err, p, "eval", f->eval.at[i], NULL));
    if (f->eval.count) return GLOFND_OK;
    TRY(find_tasks(err, t, root, tasks, sizeof tasks));
    for (int i = 0; i < PAPER_EVALS && t->eval[i]; i++) TRY(add_text(err, p, "eval", t->eval[i], root, tasks));
    return GLOFND_OK;
}

/* ----- the table ----- */

typedef struct row_runs {
    gf_comparison compared; /* the runs of the base row, then those of the row */
    int group;              /* of the row; -1: no run */
} row_runs;

static int is_column(const paper_table *t, int c) { return c < PAPER_COLUMNS && t->column[c].title; }

/* The runs of a row, one for each seed. */
static const sweep_run *runs_of(const paper_table *t, int row, const sweep_plan *p, const sweep_run *run) {
    for (int i = 0; i < row; i++) run += t->row[i].preset ? p->seeds.count : 0;
    return run;
}

/* Runs of rows `base` and `row` that are finished; the first group is that of the base. */
static glofnd_status read_row(gf_error *err, const paper_table *t, int row, const sweep_plan *p, const sweep_run *run,
                              row_runs *out) {
    const char *paths[GF_COMPARE_RUNS_MAX];
    const sweep_run *base = runs_of(t, t->base[row], p, run), *own = runs_of(t, row, p, run);
    int n = 0, finished = 0;
    for (int s = 0; s < p->seeds.count && base != own; s++)
        if (base[s].finished) paths[n++] = base[s].path;
    for (int s = 0; s < p->seeds.count; s++)
        if (own[s].finished) paths[n++] = own[s].path, finished++;
    *out = (row_runs){.group = -1};
    if (!finished) return GLOFND_OK;
    TRY(gf_compare_read(err, paths, n, &out->compared));
    gf_compare_select(&out->compared, NULL, 1);
    out->group = out->compared.run[n - 1].group;
    return GLOFND_OK;
}

/* Fills the cells of the columns with what the first finished run was before training; they stay empty if no run has it. */
static glofnd_status read_untrained(gf_error *err, const paper_table *t, const sweep_plan *p, const sweep_run *run,
                                    gf_cell *cell) {
    gf_run_eval log = {0};
    int first = 0;
    const int count = (int)(runs_of(t, PAPER_ROWS, p, run) - run);
    while (first < count && !run[first].finished) first++;
    if (first == count) return GLOFND_OK;
    TRY(gf_run_eval_read(err, run[first].path, &log));
    for (int i = 0; i < log.count; i++) {
        const gf_eval_line *e = &log.line[i];
        int keys;
        const gf_eval_key *key = gf_eval_keys(e->event, &keys);
        for (int c = 0; e->untrained && is_column(t, c) && strcmp(e->event, t->column[c].event) == 0; c++)
            for (int k = 0; k < keys; k++)
                if (key[k].title && strstr(key[k].title, t->column[c].part))
                    cell[c] = (gf_cell){.n = 1, .mean = key[k].factor * e->value[k], .p = NAN};
    }
    gf_run_eval_free(&log);
    return GLOFND_OK;
}

/* The paper's tables have 0 where nothing is printed. */
static double printed(double x) { return x > 0.0 ? x : NAN; }

/* As the paper: mean (std), or an average with its gain. */
static void add_number(gf_table *t, double mean, double std, double gain) {
    char text[2][32] = {"", ""};
    if (isfinite(std)) snprintf(text[0], sizeof text[0], " (%.2f)", std);
    if (isfinite(gain)) snprintf(text[1], sizeof text[1], " (%+.2f)", gain);
    if (isfinite(mean)) gf_table_add(t, "%.2f%s%s", mean, text[0], text[1]);
    else gf_table_number(t, mean, 2);
}

static void add_p(gf_table *t, double p) {
    if (!isfinite(p)) gf_table_add(t, "-");
    else if (p < 0.001) gf_table_add(t, "< 0.001");
    else gf_table_add(t, "%.3f", p);
}

static glofnd_status add_lines(gf_error *err, gf_table *t, const paper_table *table, int row, const sweep_plan *p,
                               const sweep_run *run) {
    const paper_row *r = &table->row[row], *base = &table->row[table->base[row]];
    gf_cell cell[PAPER_COLUMNS];
    double gain[PAPER_COLUMNS];
    row_runs x = {.group = -1};
    int prints = 0;
    for (int c = 0; c < PAPER_COLUMNS; c++) cell[c] = (gf_cell){.mean = NAN, .p = NAN}, gain[c] = NAN;
    TRY(r->preset ? read_row(err, table, row, p, run, &x) : read_untrained(err, table, p, run, cell));
    const gf_comparison *runs = &x.compared;
    const int tested = base != r && x.group > 0;
    for (int c = 0; is_column(table, c); c++) {
        const paper_column *column = &table->column[c];
        int m = 0; /* the figure of the column */
        while (x.group >= 0 && m < runs->metrics &&
               !(gf_metric_has(&runs->metric[m], column->event) && gf_metric_has(&runs->metric[m], column->part) &&
                 !gf_metric_has(&runs->metric[m], "validation")))
            m++;
        if (x.group >= 0 && m < runs->metrics) cell[c] = gf_compare_cell(runs, x.group, m);
        if (tested && m < runs->metrics && column->average) gain[c] = cell[c].mean - gf_compare_cell(runs, 0, m).mean;
        prints |= r->mean[c] > 0.0;
    }
    gf_compare_free(&x.compared);
    gf_table_add(t, "%s", r->title);
    for (int c = 0; is_column(table, c); c++)
        add_number(t, cell[c].n ? cell[c].mean : NAN, cell[c].n > 1 ? cell[c].std : NAN, cell[c].n ? gain[c] : NAN);
    if (tested) gf_table_add(t, "  p");
    for (int c = 0; tested && is_column(table, c); c++) add_p(t, cell[c].p);
    if (prints) gf_table_add(t, "  paper");
    for (int c = 0; prints && is_column(table, c); c++)
        add_number(t, printed(r->mean[c]), printed(r->std[c]),
                   base != r && table->column[c].average ? r->mean[c] - base->mean[c] : NAN);
    if (r->p[0] > 0.0) gf_table_add(t, "  paper's p");
    for (int c = 0; r->p[0] > 0.0 && is_column(table, c); c++) add_p(t, printed(r->p[c]));
    return GLOFND_OK;
}

static glofnd_status print_table(gf_error *err, const sweep_plan *p, const sweep_run *run, int count, void *user) {
    const paper_table *table = user;
    gf_table t = {.columns = 1};
    gf_text text = {0};
    glofnd_status status = GLOFND_OK;
    while (is_column(table, t.columns - 1)) t.columns++;
    gf_table_add(&t, "%s", table->name);
    for (int c = 0; is_column(table, c); c++) gf_table_add(&t, "%s", table->column[c].title);
    for (int i = 0; i < PAPER_ROWS && table->row[i].title && status == GLOFND_OK; i++)
        status = add_lines(err, &t, table, i, p, run);
    if (status == GLOFND_OK) {
        gf_print(
            stdout,
            "%s\nmean (std) over %d seed%s, averages with the gain over the first row of the block; p: paired t-test by seed, "
            "one-sided, better than that row\n\n",
            table->summary, p->seeds.count, p->seeds.count == 1 ? "" : "s");
        gf_table_text(&text, &t, 1);
        if (text.at) gf_print_lines(stdout, text.at);
        if (text.at) gf_print(stdout, "\n");
        if (count && strstr(run[0].config.data, "imagenet100.txt")) gf_print(stdout, "%s\n", other_classes);
        if (table->note) gf_print(stdout, "%s\n", table->note);
    }
    gf_text_free(&text);
    gf_table_free(&t);
    return status;
}

/* ----- the verb ----- */

static int run_reproduce(const cli_call *call, const void *flags) {
    const reproduce_flags *f = flags;
    const paper_table *table = NULL;
    gf_error err = {{0}};
    sweep_plan p = {.verb = "reproduce", .jobs = 1};
    char names[400] = "";
    for (int i = 0; i < TABLES; i++) {
        const size_t used = strlen(names);
        snprintf(names + used, sizeof names - used, "%s%s", i ? ", " : "", tables[i].name);
        if (strcmp(tables[i].name, call->word[0]) == 0) table = &tables[i];
    }
    const glofnd_status status =
        table ? make_plan(&err, table, f, &p)
              : gf_fail(&err, GLOFND_E_OPTION, "\"%.40s\" is not a table; available: %s", call->word[0], names);
    const int failed = status == GLOFND_OK ? CLI_OK : cli_failed("reproduce", status, &err);
    const int code = failed ? failed : sweep_run_plan(&p, f->dry, print_table, (void *)table);
    sweep_free(&p);
    return code;
}

const cli_verb cmd_reproduce = {
    .name = "reproduce",
    .summary = "train and evaluate a table of the paper, next to its numbers",
    .usage =
        "glofnd reproduce TABLE --data-root DIR [--out DIR] [--seeds 1,2,3] [--set KEY=VALUE ...] [--jobs N]\n"
        "Pretrains the presets of a table's rows with every seed, evaluates them as the paper does and prints mean (std) and "
        "p-values next to the printed numbers. The same command continues after an interruption. DIR holds the datasets as they "
        "are unpacked:\n"
        "  linear     table 1: linear evaluation on ImageNet-100; needs imagenet\n"
        "  transfer   table 2: eight datasets; needs imagenet cifar10 cifar100 food-101 caltech-101 cars dtd pets flowers\n"
        "  bimodal    table 3: zero-shot tasks after CC3M; needs cc3m/*.tar, CLIP's merges, datacomp/\n"
        "  simclr     appendix: SimCLR, batch 512; needs imagenet\n"
        "  finetune   appendix: OpenAI's ResNet-50 on CC3M; needs cc3m, cc3m-val, RN50.safetensors\n"
        "  single     figure: a single threshold for all anchors; needs imagenet\n"
        "  cifar100   the recipe on CIFAR-100; needs cifar100\n"
        "  cifar10    the recipe on CIFAR-10; needs cifar10\n",
    CLI_FLAGS(rows, reproduce_flags),
    .word = "TABLE",
    .word_help = "linear, transfer, bimodal, simclr, finetune, single, cifar100 or cifar10",
    .min_words = 1,
    .max_words = 1,
    .run = run_reproduce,
};
