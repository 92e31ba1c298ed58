/* unit_decide.c - decisions against their definitions, by brute force over all pairs; and .npz files, also those with Zip64. */
#include "support/test.h"

#include "discover/decide.h"
#include "discover/output_files.h"
#include "support/random.h"
#include "support/scratch.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N = 220, DIM = 9, K = 5, SAMPLE = 12 };

static gf_error err;
static double sim[N][N];
static int32_t root[N];
static gf_discover_data d;
static gf_discover_result r;
static gf_discover_spec s;

/* Clusters of eleven rows; every row of some clusters nearly equals the first, and one cluster is a chain, an arc of which only neighbours are alike. Rows 40 and 41 copy row 3, row 100 is zero. */
static void make_rows(void) {
    rng g = {7};
    float centre[DIM];
    d = (gf_discover_data){.n = N, .dim = DIM, .x = malloc(N * DIM * sizeof *d.x), .label = malloc(N * sizeof *d.label)};
    for (int i = 0; i < N; i++) {
        d.label[i] = i % 17 == 4 ? -1 : i % 9 == 2 ? (i + 3) % 4 : i / 11;
        for (int k = 0; k < DIM; k++) {
            if (i % 11 == 0) centre[k] = (float)rng_normal(&g);
            d.x[i * DIM + k] = centre[k] + (i / 11 % 3 ? 0.3f : 0.05f) * (float)rng_normal(&g);
        }
    }
    for (int i = 66; i < 77; i++) {
        memset(d.x + i * DIM, 0, DIM * sizeof *d.x);
        d.x[i * DIM] = cosf(0.1f * (float)(i * 4 % 11)), d.x[i * DIM + 1] = sinf(0.1f * (float)(i * 4 % 11));
    }
    for (int k = 0; k < DIM; k++) d.x[40 * DIM + k] = d.x[41 * DIM + k] = d.x[3 * DIM + k], d.x[100 * DIM + k] = 0.0f;
}

static double length(int64_t row) {
    double sum = 0.0;
    for (int k = 0; k < DIM; k++) sum += (double)d.x[row * DIM + k] * (double)d.x[row * DIM + k];
    return sqrt(sum);
}

static int setup(void **state) {
    if (make_box(state) != 0) return -1;
    make_rows();
    s = (gf_discover_spec){.k = K,
                           .task.top = N,
                           .task.below = 4,
                           .max_pairs = 1000000,
                           .dup = 0.99,
                           .task.memory = (size_t)1 << 30,
                           .task.threads = 2,
                           .keep_rows = 1,
                           .search = &gf_pairs_search_cpu};
    if (gf_discover_classify(&err, &d) != GLOFND_OK || gf_discover_run(&err, &s, &d, &r) != GLOFND_OK) return -1;
    for (int i = 0; i < r.f.n; i++) {
        root[i] = (int32_t)i;
        for (int j = 0; j < r.f.n; j++) {
            double dot = 0.0;
            for (int k = 0; k < DIM; k++) dot += (double)d.x[d.good[i] * DIM + k] * (double)d.x[d.good[j] * DIM + k];
            sim[i][j] = dot / length(d.good[i]) / length(d.good[j]);
        }
    }
    for (int round = 0; round < N; round++) /* the smallest member reaches all of a group */
        for (int i = 0; i < r.f.n; i++)
            for (int j = 0; j < r.f.n; j++)
                if (sim[i][j] >= 0.99 && root[j] < root[i]) root[i] = root[j];
    return 0;
}

static int teardown(void **state) {
    gf_discover_result_free(&r);
    gf_discover_data_free(&d);
    return remove_box(state);
}

static gf_decisions decide(const gf_decide_spec *c) {
    gf_decisions x;
    assert_int_equal(gf_decide(&err, c, &s, &d, &r, &x), GLOFND_OK);
    return x;
}

static int members_of(int32_t group, int32_t *out) {
    int n = 0;
    for (int i = 0; i < r.f.n; i++)
        if (root[i] == group) out[n++] = i;
    return n;
}

/* Greedy by definition: of each chain the rows of largest value first; a row is removed if a kept one is its duplicate. */
static void check_kept(const gf_decisions *x, double (*value)(int32_t i, const int32_t *m, int n)) {
    int64_t kept = 0;
    int groups = 0, several = 0;
    for (int32_t g = 0; g < r.f.n; g++) {
        int32_t m[N], keep[N];
        int done[N] = {0}, keeps = 0;
        const int n = members_of(g, m);
        for (int turn = 0; turn < n; turn++) {
            int best = -1, covered = 0;
            for (int k = 0; k < n; k++)
                if (!done[k] && (best < 0 || value(m[k], m, n) > value(m[best], m, n))) best = k;
            done[best] = 1;
            for (int k = 0; k < keeps; k++) covered |= sim[m[best]][keep[k]] >= 0.99;
            assert_int_equal(x->kept[m[best]] == m[best], !covered);
            for (int k = 0; k < keeps && covered; k++) /* for the most similar of them */
                assert_true(sim[m[best]][keep[k]] <= (double)x->similarity[m[best]] + 1e-6);
            if (!covered) keep[keeps++] = m[best];
        }
        kept += keeps, groups += n > 1, several += keeps > 1;
    }
    for (int i = 0; i < r.f.n; i++) {
        if (x->kept[i] == i) assert_true(isnan(x->similarity[i]));
        else assert_true(fabs((double)x->similarity[i] - sim[i][x->kept[i]]) < 1e-6);
    }
    assert_true(groups > 5 && several > 0);
    assert_int_equal(x->keep, kept);
    assert_int_equal(x->keep + x->duplicates + x->bad, N);
    assert_int_equal(x->bad, 1);
}

static double first_value(int32_t i, const int32_t *m, int n) {
    (void)i, (void)m, (void)n;
    return 0.0;
}

static double central_value(int32_t i, const int32_t *m, int n) {
    double sum = 0.0;
    for (int k = 0; k < n; k++)
        if (m[k] != i) sum += sim[i][m[k]];
    return n < 3 ? 0.0 : round(1e7 * sum / (n - 1));
}

static double score[N];

static double score_value(int32_t i, const int32_t *m, int n) {
    (void)m, (void)n;
    return isnan(score[d.good[i]]) ? -1e9 : score[d.good[i]];
}

static double label_value(int32_t i, const int32_t *m, int n) {
    int most = 0, winner = -1;
    for (int a = 0; a < n; a++) {
        int count = 0;
        for (int b = 0; b < n; b++) count += d.label[d.good[m[b]]] == d.label[d.good[m[a]]];
        if (d.label[d.good[m[a]]] >= 0 && count > most) most = count, winner = d.label[d.good[m[a]]];
    }
    return winner >= 0 && d.label[d.good[i]] == winner;
}

TEST(rows_are_removed_for_kept_ones_alone) {
    double (*const value[])(int32_t, const int32_t *, int) = {first_value, central_value, score_value, score_value, label_value};
    for (int i = 0; i < N; i++) score[i] = i % 13 == 5 ? (double)NAN : (double)(i * 7919 % 11);
    for (int rule = GF_KEEP_FIRST; rule <= GF_KEEP_LABEL; rule++) {
        const gf_decide_spec c = {.keep = (gf_keep_rule)rule, .score = score};
        gf_decisions x = decide(&c);
        check_kept(&x, value[rule]);
        gf_decisions_free(&x);
    }
}

/* Lists of two: most duplicates are not listed. With the embeddings the same rows are kept, without them more; and a removed row has a kept
 * one within the limit in any case. */
TEST(short_lists_remove_no_row_wrongly) {
    const gf_decide_spec c = {0};
    gf_discover_spec few = s;
    gf_discover_data bare = d;
    gf_discover_result of_few;
    gf_decisions whole = decide(&c), x, y;
    few.task.top = 2, bare.x = NULL;
    assert_int_equal(gf_discover_run(&err, &few, &d, &of_few), GLOFND_OK);
    assert_int_equal(gf_decide(&err, &c, &few, &d, &of_few, &x), GLOFND_OK);
    assert_int_equal(gf_decide(&err, &c, &few, &bare, &of_few, &y), GLOFND_OK);
    assert_int_equal(x.unchecked, 0);
    assert_int_equal(x.keep, whole.keep);
    assert_true(y.unchecked > 0 && y.keep >= x.keep);
    for (int i = 0; i < r.f.n; i++) {
        assert_int_equal(x.kept[i] == i, whole.kept[i] == i);
        assert_int_equal(x.kept[x.kept[i]], x.kept[i]);
        assert_int_equal(y.kept[y.kept[i]], y.kept[i]);
        if (x.kept[i] != i) assert_true(sim[i][x.kept[i]] >= 0.99 - 1e-6);
        if (y.kept[i] != i) assert_true(sim[i][y.kept[i]] >= 0.99 - 1e-6);
    }
    gf_discover_result_free(&of_few);
    gf_decisions_free(&whole);
    gf_decisions_free(&x);
    gf_decisions_free(&y);
}

TEST(rules_say_what_they_need) {
    gf_decisions x;
    gf_discover_data bare = d;
    gf_decide_spec c = {.keep = GF_KEEP_LABEL};
    bare.label = NULL, bare.x = NULL;
    assert_int_equal(gf_decide(&err, &c, &s, &bare, &r, &x), GLOFND_E_ARGUMENT);
    assert_non_null(strstr(err.text, "needs labels"));
    c.keep = GF_KEEP_CENTRAL;
    assert_int_equal(gf_decide(&err, &c, &s, &bare, &r, &x), GLOFND_E_ARGUMENT);
    c.keep = GF_KEEP_SCORE;
    assert_int_equal(gf_decide(&err, &c, &s, &bare, &r, &x), GLOFND_E_ARGUMENT);
    c = (gf_decide_spec){.sample = 3};
    assert_int_equal(gf_decide(&err, &c, &s, &bare, &r, &x), GLOFND_E_ARGUMENT);
    assert_non_null(strstr(err.text, "sample needs the embeddings"));
}

/* Mean similarity of the ten nearest ones that are no duplicates. */
static double loneliness(int i) {
    int used[N] = {0}, count = 0;
    double sum = 0.0;
    while (count < 10) {
        int best = -1;
        for (int j = 0; j < r.f.n; j++)
            if (j != i && !used[j] && sim[i][j] < 0.99 && (best < 0 || sim[i][j] > sim[i][best])) best = j;
        used[best] = 1, sum += sim[i][best], count++;
    }
    return sum / count;
}

TEST(outliers_have_the_least_similar_neighbours_that_are_no_duplicates) {
    const gf_decide_spec c = {.outliers = 50};
    gf_decisions x = decide(&c);
    int64_t found = 0;
    double lower = 0.0, upper = 0.0;
    for (int i = 0; i < r.f.n; i++) { /* the quartiles: a quarter of the scores are not above it, not below it */
        int less = 0;
        for (int j = 0; j < r.f.n; j++) less += loneliness(j) < loneliness(i);
        if (less == r.f.n / 4) lower = loneliness(i);
        if (less == r.f.n - (r.f.n + 3) / 4) upper = loneliness(i);
    }
    assert_true(fabs(x.outlier_limit - (lower - 1.5 * (upper - lower))) < 1e-6);
    for (int i = 0; i < r.f.n; i++) found += loneliness(i) < x.outlier_limit;
    assert_int_equal(x.outliers_found, found);
    assert_int_equal(x.outliers, 50);
    for (int k = 0; k < 50; k++) {
        int fewer = 0;
        for (int i = 0; i < r.f.n; i++) fewer += loneliness(i) < loneliness(x.outlier[k].position) - 1e-6;
        assert_true(fewer <= k);
    }
    gf_decisions_free(&x);
}

/* As of a search that does not compare all pairs. */
TEST(rows_without_neighbours_are_no_outliers) {
    const gf_decide_spec c = {.outliers = N};
    const int64_t at = 17 * r.f.top;
    const int32_t other = r.f.other[at];
    const float similarity = r.f.similarity[at];
    r.f.other[at] = -1, r.f.similarity[at] = NAN;
    gf_decisions x = decide(&c);
    r.f.other[at] = other, r.f.similarity[at] = similarity;
    assert_int_equal(x.outliers, r.f.n - 1);
    for (int64_t k = 0; k < x.outliers; k++) assert_int_not_equal(x.outlier[k].position, 17);
    gf_decisions_free(&x);
}

enum { VOTERS = 8, CLASSES = 20 }; /* labels are below 20 */

/* 1: j is among the VOTERS most similar ones of i. */
static int lists(int i, int j) {
    int better = 0;
    for (int k = 0; k < r.f.n; k++) better += k != i && k != j && sim[i][k] > sim[i][j] + 1e-9;
    return i != j && better < VOTERS;
}

/* Votes of mutual neighbours, the usual shares of a class, and the evidence, as label_issues.c defines them. */
TEST(issues_are_labels_that_neighbours_contradict) {
    static double votes[N][CLASSES], share[CLASSES][CLASSES], evidence[N][CLASSES];
    const gf_decide_spec c = {0};
    gf_discover_spec few = s;
    gf_discover_result of_few;
    gf_decisions x;
    double rows[CLASSES] = {0}, last = INFINITY;
    int listed[N] = {0}, classes = 0;
    few.task.top = VOTERS;
    assert_int_equal(gf_discover_run(&err, &few, &d, &of_few), GLOFND_OK);
    assert_int_equal(gf_decide(&err, &c, &few, &d, &of_few, &x), GLOFND_OK);
    memset(votes, 0, sizeof votes), memset(share, 0, sizeof share);
    for (int k = 0; k < CLASSES; k++)
        for (int i = 0; i < r.f.n; i++)
            if (d.label[d.good[i]] == k) i = N, classes++;
    for (int i = 0; i < r.f.n; i++) {
        const int32_t own = d.label[d.good[i]];
        double all = 0.0;
        for (int j = 0; j < r.f.n; j++)
            if (d.label[d.good[j]] >= 0 && lists(i, j) && lists(j, i)) votes[i][d.label[d.good[j]]]++, all++;
        if (own >= 0 && all > 0.0) rows[own]++;
        for (int k = 0; k < CLASSES && own >= 0 && all > 0.0; k++) share[own][k] += votes[i][k] / all;
    }
    for (int i = 0; i < r.f.n; i++)
        for (int a = 0; a < CLASSES; a++) {
            double all = 0.0;
            evidence[i][a] = 0.0;
            for (int k = 0; k < CLASSES; k++) {
                evidence[i][a] += votes[i][k] * log((share[a][k] + 0.5 / classes) / (rows[a] + 0.5));
                all += votes[i][k];
            }
            evidence[i][a] /= pow(all + 1.0, 0.75);
        }
    assert_true(x.issues > 5);
    for (int64_t k = 0; k < x.issues; k++) {
        const gf_label_issue *e = &x.issue[k];
        const int32_t own = d.label[d.good[e->position]];
        double all = 0.0;
        for (int a = 0; a < CLASSES; a++) all += votes[e->position][a];
        listed[e->position] = 1;
        assert_int_equal(e->votes, (int)all);
        assert_int_equal(e->best, (int)votes[e->position][e->suggested]);
        assert_int_equal(e->own, (int)votes[e->position][own]);
        assert_true(e->best > 0 && e->score > 0.0 && e->score <= last && e->probability > 0.0 && e->probability < 1.0);
        assert_true(fabs(e->score - (evidence[e->position][e->suggested] - evidence[e->position][own])) < 1e-9);
        last = e->score;
    }
    for (int i = 0; i < r.f.n; i++) {
        const int32_t own = d.label[d.good[i]];
        double best = -INFINITY;
        for (int a = 0; a < CLASSES; a++)
            if (votes[i][a] > 0.0) best = fmax(best, evidence[i][a]);
        assert_int_equal(listed[i], own >= 0 && best > evidence[i][own]);
    }
    gf_discover_result_free(&of_few);
    gf_decisions_free(&x);
}

/* Neighbours are mostly of the same quarter, of some rows more than of others. Three quarters have a class each, and 4 % of their labels are changed to another of these classes. In
 * the last quarter 70 % have label 3, and 30 % label 4, which is usual there. So a changed label is probably wrong, and a usual one is not. */
TEST(probabilities_of_issues_are_near_their_shares) {
    enum { ROWS = 6000, TOP = 10 };
    static int32_t label[ROWS], good[ROWS], copy[ROWS], other[ROWS * TOP], truth[ROWS];
    static float similarity[ROWS * TOP], lambda[ROWS];
    rng g = {3};
    gf_discover_data y = {.n = ROWS, .dim = 1, .label = label, .good = good, .copy_of = copy, .good_n = ROWS};
    gf_discover_result found = {.f = {.n = ROWS, .top = TOP, .lambda = lambda, .other = other, .similarity = similarity}};
    const gf_decide_spec none = {0};
    gf_decisions x = {0};
    int changed = 0, listed[2] = {0};
    for (int i = 0; i < ROWS; i++) {
        truth[i] = i % 4 < 3 ? i % 4 : 3 + (rng_uniform(&g) < 0.3), good[i] = copy[i] = i;
        label[i] = truth[i] < 3 && rng_uniform(&g) < 0.04 ? (truth[i] + 1 + (rng_uniform(&g) < 0.5)) % 3 : truth[i];
        changed += label[i] != truth[i];
        const double strays = 0.7 * rng_uniform(&g);
        for (int k = 0; k < TOP; k++) {
            const int any = (int)(rng_uniform(&g) * ROWS), same = any - any % 4 + i % 4;
            other[i * TOP + k] = rng_uniform(&g) < strays ? any : same, similarity[i * TOP + k] = 0.5f;
        }
    }
    assert_int_equal(gf_label_issues(&err, &none, &s, &y, &found, &x), GLOFND_OK);
    double said[2] = {0}, right = 0.0;
    for (int64_t k = 0; k < x.issues; k++) {
        const int32_t at = x.issue[k].position, is = label[at] == truth[at];
        listed[is]++, said[is] += x.issue[k].probability;
        right += !is && x.issue[k].suggested == truth[at];
    }
    assert_true(changed > 100 && listed[0] > 0.95 * changed && right > 0.95 * listed[0]);
    assert_true(fabs(said[0] + said[1] - right) < 0.25 * right && said[1] < 0.05 * listed[1] && listed[1] > 200);
    gf_decisions_free(&x);
}

/* Expected: cleanlab 2.9.0, find_label_issues(label, p, filter_by="confident_learning", return_indices_ranked_by="self_confidence").
 * No row has label 4. */
TEST(issues_by_probabilities_are_those_of_cleanlab) {
    enum { ROWS = 60, LABELS = 5 };
    static const int32_t row[] = {0, 39, 54, 26, 28, 50, 57, 34, 31, 9, 5, 36, 20, 15, 30, 27, 16, 49, 8, 35, 53, 45};
    static const int32_t suggested[] = {3, 2, 3, 1, 2, 1, 2, 0, 3, 0, 1, 1, 1, 0, 1, 3, 3, 0, 2, 2, 2, 2};
    static float p[ROWS][LABELS];
    int32_t label[ROWS], good[ROWS];
    gf_discover_data y = {.n = ROWS, .dim = 1, .label = label, .good = good, .good_n = ROWS};
    const gf_discover_result found = {.f = {.n = ROWS}};
    gf_decide_spec c = {.pred_probs = &p[0][0], .pred_classes = LABELS};
    gf_decisions x = {0};
    for (int i = 0; i < ROWS; i++) {
        double sum = 0.0, weight[LABELS];
        label[i] = i * 7 % 4, good[i] = i;
        for (int k = 0; k < LABELS; k++)
            sum += weight[k] = (i * i * 37 + k * 61 + i * k * 13) % 97 + 1 + (k == label[i] ? 25 : 0);
        for (int k = 0; k < LABELS; k++) p[i][k] = (float)(weight[k] / sum);
    }
    assert_int_equal(gf_label_issues(&err, &c, &s, &y, &found, &x), GLOFND_OK);
    assert_int_equal(x.issues, sizeof row / sizeof *row);
    for (int64_t k = 0; k < x.issues; k++) {
        assert_int_equal(x.issue[k].position, row[k]);
        assert_int_equal(x.issue[k].suggested, suggested[k]);
        assert_true(x.issue[k].probability == (double)p[row[k]][suggested[k]] && x.issue[k].votes == 0);
    }
    gf_decisions_free(&x);
    label[0] = -1, x = (gf_decisions){0}; /* unknown: no issue */
    assert_int_equal(gf_label_issues(&err, &c, &s, &y, &found, &x), GLOFND_OK);
    assert_true(x.issues > 0 && x.issue[0].position == 39);
    gf_decisions_free(&x);
    x = (gf_decisions){0}, label[3] = LABELS;
    assert_int_equal(gf_label_issues(&err, &c, &s, &y, &found, &x), GLOFND_E_ARGUMENT);
    assert_non_null(strstr(err.text, "row 3 has label 5"));
    gf_decisions_free(&x);
    x = (gf_decisions){0}, label[3] = 0, p[7][2] = NAN;
    assert_int_equal(gf_label_issues(&err, &c, &s, &y, &found, &x), GLOFND_E_ARGUMENT);
    assert_non_null(strstr(err.text, "row 7, label 2"));
    gf_decisions_free(&x);
}

static int bytes_equal(int i, int j) { return memcmp(d.x + d.good[i] * DIM, d.x + d.good[j] * DIM, DIM * sizeof *d.x) == 0; }

TEST(leaks_are_counted_by_groups) {
    const gf_decide_spec c = {.split = {{"b", 100, 120}, {"a", 0, 41}}, .splits = 2};
    gf_decisions x = decide(&c);
    for (int a = 0; a < 2; a++)
        for (int b = 0; b < 2; b++) {
            int64_t leak = 0, exact = 0;
            for (int i = 0; i < r.f.n; i++) {
                int found = 0, same = 0;
                for (int j = 0; j < r.f.n; j++) {
                    if (j == i || gf_split_of(&c, d.good[i]) != a || gf_split_of(&c, d.good[j]) != b) continue;
                    found |= root[i] == root[j], same |= bytes_equal(i, j);
                }
                leak += found, exact += same;
            }
            assert_int_equal(x.leak[a][b], leak);
            assert_int_equal(x.exact[a][b], exact);
        }
    assert_int_equal(x.exact[1][1], 2); /* rows 3 and 40; row 41 is in no split */
    for (int i = 0; i < r.f.n; i++)     /* a row is removed for one of its split or an earlier one, no split comes last */
        assert_true((unsigned)gf_split_of(&c, d.good[x.kept[i]]) <= (unsigned)gf_split_of(&c, d.good[i]));
    gf_decisions_free(&x);
}

TEST(the_subset_covers_greedily) {
    const gf_decide_spec c = {.sample = SAMPLE};
    gf_decisions x = decide(&c);
    assert_int_equal(x.samples, SAMPLE);
    for (int k = 1; k < SAMPLE; k++) {
        double worst = 2.0, mine = -2.0;
        for (int i = 0; i < r.f.n; i++) {
            double near = -2.0;
            for (int m = 0; m < k; m++) near = fmax(near, sim[i][x.sample[m]]);
            if (x.kept[i] == i) worst = fmin(worst, near);
            if (i == x.sample[k]) mine = near;
        }
        assert_true(fabs(mine - worst) < 1e-12);
    }
    for (int t = 1; t <= 5; t += 2) {
        gf_discover_spec other = s;
        gf_decisions y;
        other.task.threads = t;
        assert_int_equal(gf_decide(&err, &c, &other, &d, &r, &y), GLOFND_OK);
        assert_memory_equal(x.sample, y.sample, SAMPLE * sizeof *x.sample);
        gf_decisions_free(&y);
    }
    const gf_decide_spec all = {.sample = 1000};
    gf_decisions y = decide(&all);
    assert_int_equal(y.samples, y.keep);
    assert_memory_equal(x.sample, y.sample, SAMPLE * sizeof *x.sample);
    assert_true(y.sample_reach == 1.0);
    gf_decisions_free(&y);
    gf_decisions_free(&x);
}

/* ----- .npz ----- */

static uint64_t le(const uint8_t *p, int bytes) {
    uint64_t x = 0;
    for (int b = bytes - 1; b >= 0; b--) x = x << 8 | p[b];
    return x;
}

static uint8_t file[8192];

static size_t write_npz(uint64_t limit) {
    gf_npz z;
    const int64_t shape[2] = {2, 3}, three = 3;
    const float data[6] = {1.0f, 2.0f, 3.0f, 4.0f, 5.0f, 6.0f};
    assert_int_equal(gf_npz_open(&err, &z, scratch_path(&box, "a.npz")), GLOFND_OK);
    z.limit = limit;
    gf_npz_entry(&z, "data", "<f4", 2, shape, sizeof *data);
    gf_npz_put(&z, data, 8);
    gf_npz_put(&z, (const char *)data + 8, 16);
    gf_npz_entry(&z, "text", "|S1", 1, &three, 1);
    gf_npz_put(&z, "csr", 3);
    assert_int_equal(gf_npz_close(&err, &z), GLOFND_OK);
    FILE *f = fopen(scratch_path(&box, "a.npz"), "rb");
    assert_non_null(f);
    const size_t size = fread(file, 1, sizeof file, f);
    fclose(f);
    return size;
}

TEST(archives_hold_what_was_put) {
    const size_t size = write_npz(UINT32_MAX);
    const uint8_t *end = file + size - 22, *central = file + le(end + 16, 4);
    assert_int_equal(le(end, 4), 0x06054b50);
    assert_int_equal(le(end + 10, 2), 2);
    assert_int_equal(le(central, 4), 0x02014b50);
    assert_int_equal(le(central + 24, 4), 128 + 24);
    assert_int_equal(le(central + 16, 4), 0xa2de9c7c); /* as zlib gives */
    assert_memory_equal(central + 46, "data.npy", 8);
    assert_int_equal(le(file + 14, 4), le(central + 16, 4));
    assert_memory_equal(file + 30 + 8, "\x93NUMPY\x01\x00\x76\x00{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }",
                        67);
    assert_int_equal(file[30 + 8 + 127], '\n');
}

TEST(large_archives_take_zip64) {
    const size_t size = write_npz(1); /* everything is large */
    const uint8_t *end = file + size - 22, *locator = end - 20;
    assert_int_equal(le(locator, 4), 0x07064b50);
    const uint8_t *wide = file + le(locator + 8, 8), *central = file + le(wide + 48, 8);
    assert_int_equal(le(wide, 4), 0x06064b50);
    assert_int_equal(le(end + 16, 4), UINT32_MAX);
    assert_int_equal(le(central, 4), 0x02014b50);
    assert_int_equal(le(central + 24, 4), UINT32_MAX);
    assert_int_equal(le(central + 46 + 8, 2), 1);
    assert_int_equal(le(central + 46 + 8 + 4, 8), 128 + 24);
    assert_int_equal(le(file + 30 + 8 + 4, 8), 128 + 24);
}

TEST(archives_that_cannot_be_written_say_so) {
    gf_npz z;
    const int64_t one = 1;
    assert_int_equal(gf_npz_open(&err, &z, "nowhere/a.npz"), GLOFND_E_IO);
    assert_int_equal(gf_npz_open(&err, &z, "/dev/full"), GLOFND_OK);
    gf_npz_entry(&z, "data", "<i4", 1, &one, 4);
    gf_npz_put(&z, "1234", 4);
    assert_int_equal(gf_npz_close(&err, &z), GLOFND_E_IO);
}

TEST_GROUP(setup, teardown)
