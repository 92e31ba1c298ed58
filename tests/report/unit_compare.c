/* unit_compare.c - runs made of files: groups, labels, figures, tests, and the four ways to write them down; tables. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "plot/svg.h"
#include "plot/table.h"
#include "report/compare/compare.h"

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

/* Two configurations, seeds 1 to 3. Scores of b are 1, 2 and 3 points above a's; the second seed of b has threads of its own. */
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
                   "mask_epoch = %d\n%s",
                   seed, b ? "fnc" : "none", start, start, start, i == 4 ? "threads = 3\n" : "");
        write_text(paths[i], "log.jsonl",
                   "{\"event\": \"epoch\", \"loss\": 9, \"precision\": 0.9}\n{\"event\": \"step\", \"loss\": 1}\n"
                   "{\"event\": \"epoch\", \"loss\": 2, \"precision\": %s, \"flagged\": 0.1}\n",
                   b ? "0.25" : "1");
        const double top1 = 0.5 + 0.01 * seed * (1 + b);
        const char *line = "{\"event\": \"%s\", \"protocol\": \"%s\", \"data\": \"d\", \"test\": \"t\", \"untrained\": %s%s, "
                           "\"top1\": %.4f, \"top5\": 0.9}\n";
        char text[2000];
        size_t n = 0;
        n += (size_t)snprintf(text + n, sizeof text - n, line, "knn", "knn", "false", ", \"k\": 20", 0.02); /* replaced below */
        n += (size_t)snprintf(text + n, sizeof text - n, line, "knn", "knn", "false", ", \"k\": 20", top1);
        n += (size_t)snprintf(text + n, sizeof text - n, line, "knn", "knn", "true", ", \"k\": 20", 0.01);
        n += (size_t)snprintf(text + n, sizeof text - n, line, "linear", "paper", "false", ", \"fraction\": 0.001", top1 - 0.3);
        n += (size_t)snprintf(text + n, sizeof text - n, line, "linear", "paper", "false", ", \"fraction\": 1", top1);
        n += (size_t)snprintf(text + n, sizeof text - n, line, "linear_mean", "paper", "false", "", top1 - 0.15);
        n += (size_t)snprintf(text + n, sizeof text - n,
                              "{\"event\": \"threshold\", \"protocol\": \"views\", \"data\": \"d\", "
                              "\"test\": \"d\", \"mae\": %.4f}\n",
                              0.1 - 0.01 * b * seed);
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

static void groups_are_configurations_without_seed(void **state) {
    (void)state;
    gf_comparison c = read_runs(0, RUNS);
    assert_int_equal(c.groups, 2);
    for (int i = 0; i < RUNS; i++) assert_int_equal(c.run[i].group, i / 3);
    assert_string_equal(c.label[0], "start_epoch=4 detector=none"); /* what start_epoch implies is not told again */
    assert_string_equal(c.label[1], "start_epoch=7 detector=fnc");
    gf_compare_free(&c);
    c = read_runs(0, 2);
    assert_int_equal(c.groups, 1);
    assert_string_equal(c.label[0], "all runs");
    gf_compare_free(&c);
}

static void newest_figures_in_the_order_of_tables(void **state) {
    (void)state;
    static const char *const order[] = {"linear paper 100 % top-1 %", "linear paper 0.1 % top-1 %", "linear paper mean top-1 %",
                                        "knn k 20 top-1 %",           "last epoch precision %",     "threshold views MAE"};
    gf_comparison c = read_runs(0, RUNS);
    assert_true(near(c.run[1].value[find(&c, "knn k 20 top-1 %")], 52.0));
    assert_true(near(c.run[4].value[find(&c, "linear paper 0.1 % top-1 %")], 24.0));
    assert_true(near(c.run[0].value[find(&c, "last epoch loss")], 2.0));
    assert_true(isnan(c.run[0].value[find(&c, "last epoch precision %")]));
    assert_int_equal(gf_compare_select(&c, NULL, 0), 6);
    for (int m = 0; m < 6; m++) assert_string_equal(c.metric[m].name, order[m]);
    assert_int_equal(gf_compare_select(&c, "LiNear", 0), 3);
    assert_int_equal(gf_compare_select(&c, "nothing of the kind", 1), 0);
    gf_compare_free(&c);
}

static void cells_and_tests(void **state) {
    (void)state;
    gf_comparison c = read_runs(0, RUNS);
    const int knn = find(&c, "knn k 20 top-1 %"), mae = find(&c, "threshold views MAE"), loss = find(&c, "last epoch loss");
    const gf_cell a = gf_compare_cell(&c, 0, knn), b = gf_compare_cell(&c, 1, knn);
    assert_true(a.n == 3 && near(a.mean, 52.0) && near(a.std, 1.0) && a.test.pairs == 0 && isnan(a.p));
    assert_true(b.n == 3 && near(b.mean, 54.0) && near(b.std, 2.0) && b.test.pairs == 3);
    assert_true(near(b.test.difference, 2.0) && near(b.test.t, 2.0 * sqrt(3.0)));
    const double p = 0.5 * (1.0 - b.test.t / sqrt(b.test.t * b.test.t + 2.0)); /* Student's tail for 2 degrees of freedom */
    assert_true(near(b.p, p));
    assert_true(fabs(gf_compare_cell(&c, 1, mae).p - p) < 1e-6); /* lower is better: the other side */
    assert_true(isnan(gf_compare_cell(&c, 1, loss).p));
    assert_int_equal(gf_compare_best(&c, knn), 1);
    assert_int_equal(gf_compare_best(&c, mae), 1);
    assert_int_equal(gf_compare_best(&c, loss), -1);
    const gf_cell none = gf_compare_cell(&c, 0, find(&c, "last epoch precision %"));
    assert_true(none.n == 0 && isnan(none.mean));
    gf_compare_free(&c);
    c = read_runs(2, 2); /* seeds 3 and 1: no pair */
    assert_true(gf_compare_cell(&c, 1, find(&c, "knn k 20 top-1 %")).test.pairs == 0);
    gf_compare_free(&c);
}

static void written_in_four_ways(void **state) {
    (void)state;
    gf_comparison c = read_runs(0, RUNS);
    gf_text t = {0};
    gf_compare_select(&c, NULL, 0);
    gf_compare_text(&t, &c);
    assert_non_null(strstr(t.at, "54.00 (2.00)       +2.00  0.037"));
    assert_non_null(strstr(t.at, "seeds 1 2 3, baseline"));
    gf_text_free(&t);
    gf_compare_csv(&t, &c);
    assert_non_null(strstr(t.at, "metric,better,group,label,runs,mean,std,pairs,difference,t,p\n"));
    assert_non_null(strstr(t.at, "knn k 20 top-1 %,higher,2,start_epoch=7 detector=fnc,3,54,2,3,2,3.464101615,0.0370"));
    assert_non_null(strstr(t.at, "threshold views MAE,lower,1,"));
    gf_text_free(&t);
    gf_compare_json(&t, &c);
    assert_non_null(strstr(t.at, "\"label\": \"start_epoch=7 detector=fnc\""));
    assert_non_null(strstr(t.at, "\"values\": [null, null, null], \"mean\": null"));
    assert_null(strstr(t.at, "nan"));
    gf_text_free(&t);
    gf_compare_latex(&t, &c);
    assert_non_null(strstr(t.at, "start\\_epoch=7 detector=fnc & \\textbf{54.00} (2.00)"));
    assert_non_null(strstr(t.at, "& 0.037 &"));
    assert_non_null(strstr(t.at, "knn k 20 top-1 \\%"));
    gf_text_free(&t);
    gf_compare_free(&c);
}

static void what_is_no_run_is_named(void **state) {
    (void)state;
    gf_comparison c;
    const char *list[] = {paths[0], "/nowhere/at-all"};
    assert_int_equal(gf_compare_read(&err, list, 2, &c), GLOFND_E_IO);
    assert_non_null(strstr(err.text, "/nowhere/at-all is not the folder of a run"));
    assert_null(c.run);
    write_text(paths[1], "eval.jsonl", "{\"event\": \"knn\", \"top1\": 0.5}\nrubbish\n{}\n");
    list[0] = paths[1]; /* damaged lines are passed over and counted */
    assert_int_equal(gf_compare_read(&err, list, 1, &c), GLOFND_OK);
    assert_int_equal(c.skipped, 1);
    assert_non_null(strstr(c.damaged, "eval.jsonl"));
    assert_true(near(c.run[0].value[find(&c, "knn top-1 %")], 50.0));
    gf_compare_free(&c);
}

/* Equal votes and other ways to vote, other data and other tests are figures of their own, with names of their own. */
static void only_like_is_compared_with_like(void **state) {
    (void)state;
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
static void fields_that_are_new_count(void **state) {
    (void)state;
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
    gf_compare_free(&c);
}

/* Of three groups the two that are equal are both the best. */
static void equals_are_best_together(void **state) {
    (void)state;
    gf_metric metric = {.name = "x %", .better = 1};
    gf_compared *run = calloc(3, sizeof *run);
    assert_non_null(run);
    for (int i = 0; i < 3; i++) run[i].group = i, run[i].value[0] = i ? 60.0 : 50.0;
    const gf_comparison c = {.runs = 3, .groups = 3, .metrics = 1, .run = run, .metric = &metric};
    assert_false(gf_compare_is_best(&c, 0, 0));
    assert_true(gf_compare_is_best(&c, 1, 0) && gf_compare_is_best(&c, 2, 0));
    free(run);
}

static void tables(void **state) {
    (void)state;
    gf_table t = {.columns = 3};
    gf_text text = {0}, csv = {0}, latex = {0};
    gf_table_add(&t, "name"), gf_table_add(&t, "x"), gf_table_add(&t, "number");
    gf_table_add(&t, "\xce\xbb, \"q\""), gf_table_number(&t, 1.256, 2), gf_table_number(&t, NAN, 2);
    gf_table_text(&text, &t, 1);
    assert_string_equal(text.at, "name       x  number\n\xce\xbb, \"q\"  1.26       -\n");
    gf_table_csv(&csv, &t);
    assert_string_equal(csv.at, "name,x,number\n\"\xce\xbb, \"\"q\"\"\",1.26,-\n");
    gf_text_latex(&latex, "a_b & 5 % {<$^\\");
    assert_string_equal(latex.at, "a\\_b \\& 5 \\% \\{$<$\\$\\^{}\\textbackslash{}");
    for (int i = 0; i < 1000; i++) gf_table_add(&t, "%d", i);
    assert_false(t.failed);
    assert_string_equal(t.cell[1005], "999");
    gf_text_free(&text);
    gf_text_free(&csv);
    gf_text_free(&latex);
    gf_table_free(&t);
}

/* A chart whose values do not lie at 1, 2, ...; as a file of its own, with colours that need no page. */
static void charts_have_an_axis_of_their_own(void **state) {
    (void)state;
    const double y[] = {0.0, 2.0, 1.0, NAN, 0.5};
    const gf_series series = {.name = "<s>", .y = y, .n = 5};
    gf_text t = {0};
    gf_svg_file(&t, &(gf_chart){.title = "t",
                                .x_name = "x",
                                .y_name = "y",
                                .series = &series,
                                .count = 1,
                                .level = NAN,
                                .x_first = -0.25,
                                .x_step = 0.125});
    assert_ptr_equal(strstr(t.at, "<svg xmlns="), t.at);
    assert_non_null(strstr(t.at, "M56.0 234.0L169.0 14.0L282.0 124.0M508.0 179.0h.01"));
    assert_non_null(strstr(t.at, ">-0.20</text>") ? t.at : strstr(t.at, ">-0.2</text>"));
    assert_non_null(strstr(t.at, "&lt;s&gt;"));
    assert_null(strstr(t.at, "var("));
    assert_null(strstr(t.at, "nan"));
    gf_text_free(&t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(groups_are_configurations_without_seed),
        cmocka_unit_test(newest_figures_in_the_order_of_tables),
        cmocka_unit_test(cells_and_tests),
        cmocka_unit_test(written_in_four_ways),
        cmocka_unit_test(what_is_no_run_is_named),
        cmocka_unit_test(only_like_is_compared_with_like),
        cmocka_unit_test(fields_that_are_new_count),
        cmocka_unit_test(equals_are_best_together),
        cmocka_unit_test(tables),
        cmocka_unit_test(charts_have_an_axis_of_their_own),
    };
    return cmocka_run_group_tests(tests, make_runs, remove_runs);
}
