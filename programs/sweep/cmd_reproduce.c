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
#include "programs/preset_file.h"
#include "programs/sweep/paper_tables.h"
#include "programs/sweep/sweep_command.h"
#include "util/text.h"

typedef struct reproduce_flags {
    const char *root, *out, *seeds, *data, *jobs;
    gf_option_strings set, eval;
    int32_t share, dry;
} reproduce_flags;

static const gf_option rows[] = {
    CLI_STRING(reproduce_flags, root, "data-root", "DIR",
               "folder that holds the datasets; --help lists what a table needs of it"),
    CLI_STRING(reproduce_flags, out, "out", "DIR", "folder of the runs; default: reproduce-TABLE"),
    CLI_STRING_OR(reproduce_flags, seeds, "seeds", "1,2,3", "1,2,3", "a run of each row and seed"),
    CLI_STRING(reproduce_flags, data, "data", "SPEC", "other data to train on than the table's"),
    CLI_STRINGS(reproduce_flags, set, "set", "KEY=VALUE", "a key of all configurations, such as device=cuda; may be repeated"),
    CLI_STRINGS(reproduce_flags, eval, "eval", "\"WHAT FLAGS\"", "other evaluations than the table's; may be repeated"),
    CLI_STRING_OR(reproduce_flags, jobs, "jobs", "N", "1", "runs at a time, sharing the processors"),
    CLI_SWITCH(reproduce_flags, share, "share",
               "rows that differ only in what their detectors do share the epochs before these start, as `glofnd sweep --share`"),
    CLI_SWITCH(reproduce_flags, dry, "dry-run", "only list the runs"),
};

/* ----- texts of a table ----- */

/* `text` with ROOT, CLASSES and TASKS replaced. */
static glofnd_status fill_in(gf_error *err, const char *text, const char *root, const char *tasks, char *out, size_t bytes) {
    char classes[PATH_MAX] = "";
    size_t used = 0;
    if (strstr(text, "CLASSES")) TRY(cli_preset_file(err, "imagenet100.txt", "", classes));
    const struct { const char *word, *value; } words[] = {{"ROOT", root}, {"CLASSES", classes}, {"TASKS", tasks}};
    while (*text) {
        const char *value = NULL;
        size_t length = 1;
        for (size_t i = 0; i < sizeof words / sizeof *words && !value; i++)
            if (strncmp(text, words[i].word, strlen(words[i].word)) == 0) value = words[i].value, length = strlen(words[i].word);
        const int n = value ? snprintf(out + used, bytes - used, "%s", value) : snprintf(out + used, bytes - used, "%c", *text);
        FAIL_IF(err, n < 0 || (size_t)n >= bytes - used, GLOFND_E_ARGUMENT, "--data-root: the path is too long");
        used += (size_t)n;
        text += length;
    }
    return GLOFND_OK;
}

static int is_hidden(const struct dirent *e) { return e->d_name[0] != '.'; }

static int has_shards(const char *folder) {
    struct dirent **entry = NULL;
    const int n = scandir(folder, &entry, is_hidden, alphasort);
    int found = 0;
    for (int i = 0; i < n; i++) {
        const char *dot = strrchr(entry[i]->d_name, '.');
        found |= dot && strcmp(dot, ".tar") == 0;
        free(entry[i]);
    }
    free(entry);
    return found;
}

/* " --data NAME=SPEC" for each folder below ROOT/zeroshot, or " --retrieval ..." below ROOT/retrieval. Returns their number. */
static int add_tasks(const char *root, const char *kind, const char *flag, char *out, size_t bytes) {
    char folder[PATH_MAX], path[PATH_MAX];
    struct dirent **entry = NULL;
    int found = 0;
    if (gf_path_join(NULL, folder, root, kind) != GLOFND_OK) return 0;
    const int n = scandir(folder, &entry, is_hidden, alphasort);
    for (int i = 0; i < n; i++) {
        const size_t used = strlen(out);
        const char *name = entry[i]->d_name;
        if (gf_path_join(NULL, path, folder, name) == GLOFND_OK && !strpbrk(name, " \t=")) {
            if (has_shards(path)) snprintf(out + used, bytes - used, " --%s %s=wds:%s/*.tar", flag, name, path);
            else snprintf(out + used, bytes - used, " --%s %s=folder:%s", flag, name, path);
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
    TRY(fill_in(err, text, root, tasks, filled, sizeof filled));
    return sweep_set(err, p, key, filled, NULL);
}

static glofnd_status add_rows(gf_error *err, sweep_plan *p, const paper_table *t) {
    char presets[PAPER_ROWS * 64] = "config=";
    for (int i = 0; i < PAPER_ROWS && t->row[i].title; i++) {
        const size_t used = strlen(presets);
        snprintf(presets + used, sizeof presets - used, "%s%s", i ? "," : "", t->row[i].preset);
    }
    return sweep_set(err, p, "vary", presets, NULL);
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
    TRY(sweep_set(err, p, "share", f->share ? "1" : "0", NULL));
    TRY(add_rows(err, p, t));
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

static int figure_of(const gf_comparison *c, const paper_column *x) {
    for (int m = 0; m < c->metrics; m++)
        if (gf_metric_has(&c->metric[m], x->event) && gf_metric_has(&c->metric[m], x->part) &&
            !gf_metric_has(&c->metric[m], "validation"))
            return m;
    return -1;
}

/* Runs of rows `base` and `row` that are finished; the first group is that of the base. */
static glofnd_status read_row(gf_error *err, const sweep_plan *p, const sweep_run *run, int base, int row, row_runs *out) {
    const char *paths[GF_COMPARE_RUNS_MAX];
    const int seeds = p->seeds.count;
    int n = 0, own = 0;
    for (int s = 0; s < seeds && base != row; s++)
        if (run[base * seeds + s].finished) paths[n++] = run[base * seeds + s].path;
    for (int s = 0; s < seeds; s++)
        if (run[row * seeds + s].finished) paths[n++] = run[row * seeds + s].path, own++;
    *out = (row_runs){.group = -1};
    if (!own) return GLOFND_OK;
    TRY(gf_compare_read(err, paths, n, &out->compared));
    gf_compare_select(&out->compared, NULL, 1);
    out->group = out->compared.run[n - 1].group;
    return GLOFND_OK;
}

/* The paper's tables have 0 where nothing is printed. */
static double printed(double x) { return x > 0.0 ? x : NAN; }

static void add_number(gf_table *t, double mean, double std) {
    if (isfinite(mean) && isfinite(std)) gf_table_add(t, "%.2f (%.2f)", mean, std);
    else gf_table_number(t, mean, 2);
}

static void add_p(gf_table *t, double p) {
    if (!isfinite(p)) gf_table_add(t, "-");
    else if (p < 0.001) gf_table_add(t, "< 0.001");
    else gf_table_add(t, "%.3f", p);
}

static void add_lines(gf_table *t, const paper_table *table, int row, const row_runs *x) {
    const paper_row *r = &table->row[row];
    const int tested = table->base[row] != row && x->group > 0;
    gf_cell cell[PAPER_COLUMNS];
    int prints = 0;
    gf_table_add(t, "%s", r->title);
    for (int c = 0; c < PAPER_COLUMNS && table->column[c].title; c++) {
        const int m = x->group < 0 ? -1 : figure_of(&x->compared, &table->column[c]);
        cell[c] = m < 0 ? (gf_cell){.mean = NAN, .p = NAN} : gf_compare_cell(&x->compared, x->group, m);
        add_number(t, cell[c].n ? cell[c].mean : NAN, cell[c].n > 1 ? cell[c].std : NAN);
        prints |= r->mean[c] > 0.0;
    }
    if (tested) gf_table_add(t, "  p");
    for (int c = 0; tested && c < PAPER_COLUMNS && table->column[c].title; c++) add_p(t, cell[c].p);
    if (prints) gf_table_add(t, "  paper");
    for (int c = 0; prints && c < PAPER_COLUMNS && table->column[c].title; c++)
        add_number(t, printed(r->mean[c]), printed(r->std[c]));
    if (r->p[0] > 0.0) gf_table_add(t, "  paper's p");
    for (int c = 0; r->p[0] > 0.0 && c < PAPER_COLUMNS && table->column[c].title; c++) add_p(t, printed(r->p[c]));
}

static glofnd_status print_table(gf_error *err, const sweep_plan *p, const sweep_run *run, int count, void *user) {
    const paper_table *table = user;
    gf_table t = {.columns = 1};
    gf_text text = {0};
    glofnd_status status = GLOFND_OK;
    while (t.columns <= PAPER_COLUMNS && table->column[t.columns - 1].title) t.columns++;
    gf_table_add(&t, "%s", table->name);
    for (int c = 0; c + 1 < t.columns; c++) gf_table_add(&t, "%s", table->column[c].title);
    for (int i = 0; i * p->seeds.count < count && status == GLOFND_OK; i++) {
        row_runs x;
        status = read_row(err, p, run, table->base[i], i, &x);
        if (status == GLOFND_OK) add_lines(&t, table, i, &x);
        gf_compare_free(&x.compared);
    }
    if (status == GLOFND_OK) {
        gf_print(stdout,
                 "%s\nmean (std) over %d seed%s; p: paired t-test by seed, one-sided, better than the first row of its block\n\n",
                 table->summary, p->seeds.count, p->seeds.count == 1 ? "" : "s");
        gf_table_text(&text, &t, 1);
        if (text.at) gf_print_lines(stdout, text.at);
        if (text.at) gf_print(stdout, "\n");
    }
    gf_text_free(&text);
    gf_table_free(&t);
    return status;
}

/* ----- the verb ----- */

static glofnd_status find_table(gf_error *err, const char *name, const paper_table **out) {
    char names[400] = "";
    *out = paper_table_find(name);
    for (int i = 0; paper_table_at(i); i++) {
        const size_t used = strlen(names);
        snprintf(names + used, sizeof names - used, "%s%s", i ? ", " : "", paper_table_at(i)->name);
    }
    FAIL_IF(err, !*out, GLOFND_E_OPTION, "\"%.40s\" is no table; available: %s", name, names);
    return GLOFND_OK;
}

static int run_reproduce(const cli_call *call, const void *flags) {
    const reproduce_flags *f = flags;
    const paper_table *table = NULL;
    gf_error err = {{0}};
    sweep_plan p = {.verb = "reproduce", .jobs = 1};
    glofnd_status status = find_table(&err, call->word[0], &table);
    if (status == GLOFND_OK) status = make_plan(&err, table, f, &p);
    const int failed = status == GLOFND_OK ? CLI_OK : cli_failed("reproduce", status, &err);
    const int code = failed ? failed : sweep_run_plan(&p, f->dry, print_table, (void *)table);
    sweep_free(&p);
    return code;
}

const cli_verb cmd_reproduce = {
    .name = "reproduce",
    .summary = "pretrain and evaluate the rows of a table of the paper, beside its numbers",
    .usage =
        "glofnd reproduce TABLE --data-root DIR [--out DIR] [--seeds 1,2,3] [--set KEY=VALUE ...] [--jobs N]\n"
        "Pretrains the presets of a table's rows with every seed, evaluates them as the paper does and prints mean (std) and "
        "p-values beside the printed numbers. The same command continues after an interruption. DIR holds the datasets as they "
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
