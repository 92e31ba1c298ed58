/* unit_compare.c - run folders side by side: groups, labels, figures, tests, and the four formats of the table. */
#include "support/test.h"

#include "report/compare.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { RUNS = 6 };

static gf_error err;
static char root[] = "/tmp/unit_compare-XXXXXX", paths[RUNS][64];
static const char *const names[RUNS] = {"a1", "a2", "a3", "b1", "b2", "b3"};

static void write_text(const char *run, const char *name, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

static void write_text(const char *run, const char *name, const char *fmt, ...) {
    char path[200];
    va_list args;
    snprintf(path, sizeof path, "%s/%s", run, name);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    va_start(args, fmt);
    vfprintf(f, fmt, args);
    va_end(args);
    fclose(f);
}

/* Two configurations, seeds s = 1 to 3; the second seed of b has threads of its own. No two figures have the same numbers:
 *     figure         a          b              b - a       better
 *     linear 100 %   50 + 2 s   50 + 4 s       2 s         b
 *     linear 0.1 %   20 + s     20 - s         -2 s        a
 *     linear mean    35 + s     37, 38, 42     1, 1, 4     b
 *     kNN            50 + s     50 + 2 s       s           b
 *     threshold MAE  0.1+s/100  0.1 - s/100    -s/50       b
 */
static int make_runs(void **state) {
    (void)state;
    if (!mkdtemp(root)) return -1;
    for (int i = 0; i < RUNS; i++) {
        const int seed = i % 3 + 1, b = i / 3;
        snprintf(paths[i], sizeof paths[i], "%s/%s", root, names[i]);
        mkdir(paths[i], 0777);
        const int start = b ? 7 : 4;
        write_text(paths[i], "config.cfg",
                   "data = shapes:n=10\nseed = %d\ndetector = %s\nstart_epoch = %d\nupdate_epoch = %d\n"
                   "mask_epoch = %d\nlambda_init = %s\n%s",
                   seed, b ? "fnc" : "none", start, start, start, b ? "one" : "quantile",
                   i == 4 ? "threads = 3\nstore = file\nrank_timeout = 9\nranks = single\n" : "");
        write_text(paths[i], "log.jsonl",
                   "{\"event\": \"epoch\", \"loss\": 9, \"pooled_precision\": 0.9}\n{\"event\": \"step\", \"loss\": 1}\n"
                   "{\"event\": \"epoch\", \"loss\": 2, \"pooled_precision\": %s, \"flagged\": 0.1}\n",
                   b ? "0.25" : "1");
        const char *line = "{\"event\": \"%s\", \"protocol\": \"%s\", \"data\": \"d\", \"test\": \"t\", \"untrained\": %s%s, "
                           "\"top1\": %.4f, \"top5\": 0.9}\n";
        const double s = 0.01 * seed;
        char text[2000];
        size_t n = 0;
        n += (size_t)snprintf(text + n, sizeof text - n, line, "knn", "knn", "false", ", \"k\": 20", 0.02); /* replaced below */
        n += (size_t)snprintf(text + n, sizeof text - n, line, "knn", "knn", "false", ", \"k\": 20", 0.5 + s + b * s);
        n += (size_t)snprintf(text + n, sizeof text - n, line, "knn", "knn", "true", ", \"k\": 20", 0.01);
        n += (size_t)snprintf(text + n, sizeof text - n, line, "linear", "paper", "false", ", \"fraction\": 0.001",
                              0.2 + s - 2 * b * s);
        n += (size_t)snprintf(text + n, sizeof text - n, line, "linear", "paper", "false", ", \"fraction\": 1",
                              0.5 + 2 * s + 2 * b * s);
        n += (size_t)snprintf(text + n, sizeof text - n, line, "linear_mean", "paper", "false", "",
                              0.35 + s + b * (seed < 3 ? 0.01 : 0.04));
        n += (size_t)snprintf(text + n, sizeof text - n,
                              "{\"event\": \"threshold\", \"protocol\": \"views\", \"data\": \"d\", "
                              "\"test\": \"d\", \"mae\": %.4f}\n",
                              0.1 + s - 2 * b * s);
        write_text(paths[i], "eval.jsonl", "%s", text);
    }
    return 0;
}

static int remove_runs(void **state) {
    (void)state;
    char path[400];
    static const char *const files[] = {"config.cfg", "log.jsonl", "eval.jsonl"};
    for (int i = 0; i < RUNS; i++) {
        for (int f = 0; f < 3; f++) {
            snprintf(path, sizeof path, "%s/%s", paths[i], files[f]);
            unlink(path);
        }
        rmdir(paths[i]);
    }
    return rmdir(root);
}

static gf_comparison read_runs(int first, int count) {
    const char *list[RUNS];
    gf_comparison c;
    for (int i = 0; i < count; i++) list[i] = paths[first + i];
    assert_int_equal(gf_compare_read(&err, list, count, &c), GLOFND_OK);
    return c;
}

static int find(const gf_comparison *c, const char *name) {
    for (int m = 0; m < c->metrics; m++)
        if (strcmp(c->metric[m].name, name) == 0) return m;
    fail_msg("no metric %s", name);
    return -1;
}

static int near(double a, double b) { return fabs(a - b) < 1e-9; }

TEST(groups_are_configurations_without_seed) {
    gf_comparison c = read_runs(0, RUNS);
    assert_int_equal(c.groups, 2);
    for (int i = 0; i < RUNS; i++) assert_int_equal(c.run[i].group, i / 3);
    assert_string_equal(
        c.label[0],
        "start_epoch=4 detector=none"); /* neither what follows from start_epoch nor lambda_init, which no detector here uses */
    assert_string_equal(c.label[1], "start_epoch=7 detector=fnc");
    gf_compare_free(&c);
    c = read_runs(0, 2);
    assert_int_equal(c.groups, 1);
    assert_string_equal(c.label[0], "all runs");
    gf_compare_free(&c);
}

TEST(newest_figures_in_the_order_of_tables) {
    static const char *const order[] = {"linear paper 100 % top-1 %", "linear paper 0.1 % top-1 %", "linear paper mean top-1 %",
                                        "knn k 20 top-1 %",           "last epoch precision %",     "threshold views MAE"};
    gf_comparison c = read_runs(0, RUNS);
    assert_true(near(c.run[1].value[find(&c, "knn k 20 top-1 %")], 52.0));
    assert_true(near(c.run[4].value[find(&c, "linear paper 100 % top-1 %")], 58.0));
    assert_true(near(c.run[4].value[find(&c, "linear paper 0.1 % top-1 %")], 18.0));
    assert_true(near(c.run[4].value[find(&c, "linear paper mean top-1 %")], 38.0));
    assert_true(near(c.run[4].value[find(&c, "threshold views MAE")], 0.08));
    assert_true(near(c.run[0].value[find(&c, "last epoch loss")], 2.0));
    assert_true(isnan(c.run[0].value[find(&c, "last epoch precision %")]));
    assert_int_equal(gf_compare_select(&c, NULL, 0), 6);
    for (int m = 0; m < 6; m++) assert_string_equal(c.metric[m].name, order[m]);
    assert_int_equal(gf_compare_select(&c, "LiNear", 0), 3);
    assert_int_equal(gf_compare_select(&c, "nothing of the kind", 1), 0);
    gf_compare_free(&c);
}

TEST(cells_and_tests) {
    gf_comparison c = read_runs(0, RUNS);
    const int knn = find(&c, "knn k 20 top-1 %"), mae = find(&c, "threshold views MAE"), loss = find(&c, "last epoch loss"),
              tenth = find(&c, "linear paper 0.1 % top-1 %");
    const gf_cell a = gf_compare_cell(&c, 0, knn), b = gf_compare_cell(&c, 1, knn);
    assert_true(a.n == 3 && near(a.mean, 52.0) && near(a.std, 1.0) && a.test.pairs == 0 && isnan(a.p));
    assert_true(b.n == 3 && near(b.mean, 54.0) && near(b.std, 2.0) && b.test.pairs == 3);
    assert_true(near(b.test.difference, 2.0) && near(b.test.t, 2.0 * sqrt(3.0)));
    const double p = 0.5 * (1.0 - b.test.t / sqrt(b.test.t * b.test.t + 2.0)); /* Student's tail for 2 degrees of freedom */
    assert_true(near(b.p, p));
    assert_true(near(gf_compare_cell(&c, 1, mae).p, p)); /* lower is better: the other side */
    assert_true(near(gf_compare_cell(&c, 1, tenth).p, 1.0 - p));
    assert_true(isnan(gf_compare_cell(&c, 1, loss).p));
    assert_int_equal(gf_compare_best(&c, knn), 1);
    assert_int_equal(gf_compare_best(&c, mae), 1);
    assert_int_equal(gf_compare_best(&c, tenth), 0);
    assert_int_equal(gf_compare_best(&c, loss), -1);
    const gf_cell none = gf_compare_cell(&c, 0, find(&c, "last epoch precision %"));
    assert_true(none.n == 0 && isnan(none.mean));
    gf_compare_free(&c);
    c = read_runs(2, 2); /* seeds 3 and 1: no pair */
    assert_true(gf_compare_cell(&c, 1, find(&c, "knn k 20 top-1 %")).test.pairs == 0);
    gf_compare_free(&c);
}

static gf_text written(void (*form)(gf_text *out, const gf_comparison *c)) {
    gf_comparison c = read_runs(0, RUNS);
    gf_text t = {0};
    gf_compare_select(&c, NULL, 0);
    form(&t, &c);
    gf_compare_free(&c);
    return t;
}

TEST(text_has_a_row_per_metric) {
    gf_text t = written(gf_compare_text);
    assert_string_equal(t.at, "group 1  start_epoch=4 detector=none  3 runs  seeds 1 2 3, baseline\n"
                              "group 2  start_epoch=7 detector=fnc   3 runs  seeds 1 2 3\n\n"
                              "mean (std) over runs; difference and p: paired t-test by seed, one-sided, better than group 1\n"
                              "metric                              group 1          group 2  difference      p\n"
                              "linear paper 100 % top-1 %     54.00 (2.00)     58.00 (4.00)       +4.00  0.037\n"
                              "linear paper 0.1 % top-1 %     22.00 (1.00)     18.00 (1.00)       -4.00  0.963\n"
                              "linear paper mean top-1 %      37.00 (1.00)     39.00 (2.65)       +2.00  0.092\n"
                              "knn k 20 top-1 %               52.00 (1.00)     54.00 (2.00)       +2.00  0.037\n"
                              "last epoch precision %                    -     25.00 (0.00)           -      -\n"
                              "threshold views MAE         0.1200 (0.0100)  0.0800 (0.0100)     -0.0400  0.037\n");
    gf_text_free(&t);
}

TEST(csv_has_a_line_per_cell) {
    gf_text t = written(gf_compare_csv);
#define A ",1,start_epoch=4 detector=none,"
#define B ",2,start_epoch=7 detector=fnc,"
    assert_string_equal(t.at, "metric,better,group,label,runs,mean,std,pairs,difference,t,p\n"
                              "linear paper 100 % top-1 %,higher" A "3,54,2,0,,,\n"
                              "linear paper 100 % top-1 %,higher" B "3,58,4,3,4,3.464101615,0.03708995011\n"
                              "linear paper 0.1 % top-1 %,higher" A "3,22,1,0,,,\n"
                              "linear paper 0.1 % top-1 %,higher" B "3,18,1,3,-4,-3.464101615,0.9629100499\n"
                              "linear paper mean top-1 %,higher" A "3,37,1,0,,,\n"
                              "linear paper mean top-1 %,higher" B "3,39,2.645751311,3,2,2,0.09175170954\n"
                              "knn k 20 top-1 %,higher" A "3,52,1,0,,,\n"
                              "knn k 20 top-1 %,higher" B "3,54,2,3,2,3.464101615,0.03708995011\n"
                              "last epoch precision %,higher" A "0,,,0,,,\n"
                              "last epoch precision %,higher" B "3,25,0,0,,,\n"
                              "threshold views MAE,lower" A "3,0.12,0.01,0,,,\n"
                              "threshold views MAE,lower" B "3,0.08,0.01,3,-0.04,-3.464101615,0.03708995011\n");
    gf_text_free(&t);
}

/* The cell of a group of a metric begins so; digits that depend on rounding come last. */
static void assert_json_cell(const char *json, const char *metric, const char *better, int group, const char *begins) {
    char name[160], head[40];
    snprintf(name, sizeof name, "{\"name\": \"%s\", \"better\": \"%s\", \"cells\": [\n", metric, better);
    snprintf(head, sizeof head, "{\"group\": %d, \"values\": ", group);
    const char *at = strstr(json, name);
    assert_non_null(at);
    at = strstr(at, head);
    assert_non_null(at);
    assert_memory_equal(at + strlen(head), begins, strlen(begins));
}

TEST(json_has_values_of_runs) {
    gf_text t = written(gf_compare_json);
    char groups[1000];
    size_t n = 0;
    for (int i = 0; i < RUNS; i++)
        n +=
            (size_t)snprintf(groups + n, sizeof groups - n, "%s{\"run\": \"%s\", \"seed\": %d}",
                             i == 0 ? "{\"groups\": [\n    {\"group\": 1, \"label\": \"start_epoch=4 detector=none\", \"runs\": ["
                             : i == 3 ? "]},\n    {\"group\": 2, \"label\": \"start_epoch=7 detector=fnc\", \"runs\": ["
                                      : ", ",
                             paths[i], i % 3 + 1);
    snprintf(groups + n, sizeof groups - n, "]}],\n \"metrics\": [\n    {\"name\": \"linear paper 100 %% top-1 %%\"");
    assert_memory_equal(t.at, groups, strlen(groups));
#define NO_TEST "\"pairs\": 0, \"difference\": null, \"t\": null, \"p\": null}"
    assert_json_cell(t.at, "knn k 20 top-1 %", "higher", 1, "[51, 52, 53], \"mean\": 52, \"std\": 1, " NO_TEST);
    assert_json_cell(t.at, "knn k 20 top-1 %", "higher", 2,
                     "[52, 54, 56], \"mean\": 54, \"std\": 2, \"pairs\": 3, \"difference\": 2, \"t\": 3.46410161513");
    assert_json_cell(t.at, "last epoch precision %", "higher", 1, "[null, null, null], \"mean\": null, \"std\": null, " NO_TEST);
    assert_json_cell(t.at, "last epoch precision %", "higher", 2, "[25, 25, 25], \"mean\": 25, \"std\": 0, " NO_TEST);
    assert_json_cell(t.at, "threshold views MAE", "lower", 2,
                     "[0.09, 0.08, 0.07], \"mean\": 0.08, \"std\": 0.01, \"pairs\": 3, ");
    assert_null(strstr(t.at, "nan"));
    gf_text_free(&t);
}

TEST(latex_has_two_tables) {
    gf_text t = written(gf_compare_latex);
#define HEAD                                                                                                                    \
    "\\begin{tabular}{lrrrrrr}\n    \\toprule\n    Method & linear paper 100 \\% top-1 \\% & linear paper 0.1 \\% top-1 \\% & " \
    "linear paper mean top-1 \\% & knn k 20 top-1 \\% & last epoch precision \\% & threshold views MAE \\\\\n    \\midrule\n"
#define FOOT "    \\bottomrule\n\\end{tabular}\n"
    assert_string_equal(
        t.at, "% needs booktabs and xcolor\n% mean (std) over runs, best in bold\n" HEAD
              "    start\\_epoch=4 detector=none & 54.00 (2.00) & \\textbf{22.00} (1.00) & 37.00 (1.00) & 52.00 (1.00) & "
              "--- & 0.1200 (0.0100) \\\\\n"
              "    start\\_epoch=7 detector=fnc & \\textbf{58.00} (4.00) & 18.00 (1.00) & \\textbf{39.00} (2.65) & "
              "\\textbf{54.00} (2.00) & 25.00 (0.00) & \\textbf{0.0800} (0.0100) \\\\\n" FOOT "\n"
              "% p-values of a paired t-test by seed, one-sided, against start\\_epoch=4 detector=none\n" HEAD
              "    start\\_epoch=7 detector=fnc & 0.037 & \\textcolor{red!50}{0.963} & \\textcolor{red!50}{0.092} & 0.037 & --- "
              "& 0.037 \\\\\n" FOOT);
    gf_text_free(&t);
}

TEST(what_is_no_run_is_named) {
    gf_comparison c;
    char file[100];
    const char *list[] = {paths[0], "/nowhere/at-all"};
    assert_int_equal(gf_compare_read(&err, list, 2, &c), GLOFND_E_IO);
    assert_non_null(strstr(err.text, "/nowhere/at-all is not a run folder"));
    assert_null(c.run);
    write_text(paths[1], "eval.jsonl", "{\"event\": \"knn\", \"top1\": 0.5}\nrubbish\n{}\n");
    list[0] = paths[1]; /* damaged lines are passed over and counted */
    assert_int_equal(gf_compare_read(&err, list, 1, &c), GLOFND_OK);
    assert_int_equal(c.skipped, 1);
    snprintf(file, sizeof file, "%s/eval.jsonl", paths[1]);
    assert_string_equal(c.skipped_in, file);
    assert_true(near(c.run[0].value[find(&c, "knn top-1 %")], 50.0));
    gf_compare_free(&c);
}

/* Equal votes and other ways to vote, other data and other tests are figures of their own, with names of their own. */
TEST(only_like_is_compared_with_like) {
    gf_comparison c;
    const char *list[] = {paths[0], paths[3]};
#define KNN(protocol, rest, top1) "{\"event\": \"knn\", \"protocol\": \"" protocol "\", \"k\": 20" rest ", \"top1\": " top1 "}\n"
#define ON(data, test) ", \"data\": \"" data "\", \"test\": \"" test "\""
    write_text(paths[0], "eval.jsonl", "%s",
               KNN("knn", ON("d", "t") ", \"temperature\": 0.07", "0.5")
                   KNN("knn", ON("e", "t") ", \"temperature\": 0.07", "0.6"));
    write_text(paths[3], "eval.jsonl", "%s",
               KNN("knn", ON("d", "t") ", \"temperature\": 0.07", "0.5") KNN("knn-unweighted", ON("d", "t"), "0.8")
                   KNN("knn", ON("d", "t") ", \"temperature\": 0.0", "0.7"));
    assert_int_equal(gf_compare_read(&err, list, 2, &c), GLOFND_OK);
    const int a = find(&c, "knn k 20 top-1 % (data d)"), b = find(&c, "knn k 20 top-1 % (data e)"),
              u = find(&c, "knn-unweighted k 20 top-1 %");
    assert_true(near(c.run[0].value[a], 50.0) && near(c.run[1].value[a], 50.0));
    assert_true(near(c.run[0].value[b], 60.0) && isnan(c.run[1].value[b]));
    assert_true(isnan(c.run[0].value[u]) && near(c.run[1].value[u], 70.0));
    for (int g = 0; g < 2; g++)
        for (int m = 0; m < 3; m++) /* equals and what stands alone are no best ones */
            assert_false(gf_compare_is_best(&c, g, (const int[]){a, b, u}[m]));
    c.run[1].value[a] = 50.004; /* the same in print */
    assert_false(gf_compare_is_best(&c, 0, a) || gf_compare_is_best(&c, 1, a));
    c.run[1].value[a] = 50.02;
    assert_true(!gf_compare_is_best(&c, 0, a) && gf_compare_is_best(&c, 1, a));
    gf_compare_free(&c);
}

/* Every field that was not measured counts, also one that nobody knows; a hostile line with more of them than fit is still one of
 * its own. */
TEST(fields_that_are_new_count) {
    gf_comparison c;
    const char *list[] = {paths[0], paths[3]};
    char many[2][12000];
    for (int i = 0; i < 2; i++) {
        size_t n = 0;
        for (int k = 0; k < 400; k++)
            n += (size_t)snprintf(many[i] + n, sizeof many[i] - n, ", \"f%03d\": %d", k, k == 399 ? i : k);
    }
    write_text(paths[0], "eval.jsonl", "%s{\"event\": \"knn\", \"protocol\": \"many\", \"top1\": 0.5%s}\n",
               KNN("knn", ON("d", "t") ", \"new\": [2, 1]", "0.5")
                   KNN("knn-unweighted", ON("d", "t") ", \"a=\\n\": {\"b\": 1}", "0.5"),
               many[0]);
    write_text(paths[3], "eval.jsonl", "%s{\"event\": \"knn\", \"protocol\": \"many\", \"top1\": 0.5%s}\n",
               KNN("knn", ON("d", "t") ", \"new\": [1, 3]", "0.6")
                   KNN("knn-unweighted", ON("d", "t") ", \"a=\\n\": {\"b\": 1}", "0.6"),
               many[1]);
    assert_int_equal(gf_compare_read(&err, list, 2, &c), GLOFND_OK);
    const int a = find(&c, "knn k 20 top-1 % (new 1, 2)"), b = find(&c, "knn k 20 top-1 % (new 1, 3)"),
              u = find(&c, "knn-unweighted k 20 top-1 %");
    assert_true(near(c.run[0].value[a], 50.0) && isnan(c.run[1].value[a]));
    assert_true(isnan(c.run[0].value[b]) && near(c.run[1].value[b], 60.0));
    assert_true(near(c.run[0].value[u], 50.0) && near(c.run[1].value[u], 60.0));
    assert_int_equal(gf_compare_select(&c, "many", 1), 2);
    assert_string_not_equal(c.metric[0].name, c.metric[1].name);
    for (int i = 0; i < 2; i++) assert_true(near(c.run[i].value[i], 50.0) && isnan(c.run[i].value[1 - i]));
    gf_compare_free(&c);
}

/* Among three groups, two equal ones are both the best. */
TEST(equals_are_best_together) {
    gf_metric metric = {.name = "x %", .better = 1};
    gf_compared *run = calloc(3, sizeof *run);
    assert_non_null(run);
    for (int i = 0; i < 3; i++) run[i].group = i, run[i].value[0] = i ? 60.0 : 50.0;
    const gf_comparison c = {.runs = 3, .groups = 3, .metrics = 1, .run = run, .metric = &metric};
    assert_false(gf_compare_is_best(&c, 0, 0));
    assert_true(gf_compare_is_best(&c, 1, 0) && gf_compare_is_best(&c, 2, 0));
    free(run);
}

TEST_GROUP(make_runs, remove_runs)
