/* label_issues.c - rows whose neighbours, or the probabilities of a classifier, contradict their label; see decide.h.
 *
 * The mutual neighbours of a row, each among the VOTERS nearest listed ones of the other, vote with their labels: V[j] votes for class
 * j, N in all. Classes are confused in a way that is usual for them: theta[c][j] is the mean share of votes for j among rows labelled
 * c, smoothed. The evidence for class c is
 *     L[c] = sum over j of V[j] log theta[c][j] / (N + 1)^0.75
 * (the power, because neighbours are like each other: their votes count less than independent ones would). The score of a row is the
 * largest L of a class that got a vote, minus L of its label. So a shirt among T-shirts, which is usual, scores less than a shirt
 * among boots.
 *
 * Probabilities. By the neighbours, class c of a row has q[c], proportional to the class's share of the rows times exp(scale L[c]). A
 * label is the true class, or with probability e (the noise) one of the C classes at random. The scale and e are those under which the
 * given labels are most probable. (For q, theta of the own class is counted without the row.) So class c is right, and the label g wrong, with probability
 *     (e / C) q[c] / ((1 - e) q[g] + e / C)
 *
 * With `probe`, q[c] is proportional to exp(scale L[c] + weight s[c]), where s is the evidence of a classifier (probe.c), and the score
 * is of L[c] + weight / scale s[c]. The weight is found with the scale.
 *
 * With probabilities of the caller (pred_probs) issues are those of confident learning: Northcutt, Jiang, Chuang, "Confident learning: estimating uncertainty in dataset labels",
 * 2021.
 */
#include <math.h>
#include <stdlib.h>

#include "discover/decide.h"
#include "util/array.h"
#include "util/rng.h"

#define VOTE_POWER 0.75
#define VOTERS 50     /* most similar others that may vote */
#define SMOOTHING 0.5 /* rows added to each class, their votes spread over all */

typedef struct class_pair { /* votes of rows labelled c for class j */
    uint64_t key;           /* c, j; UINT64_MAX: free */
    double share;           /* sum over rows */
} class_pair;

typedef struct confusion { /* rows of a class got votes for j */
    int32_t class;
    double gain; /* log theta, above that of a class which got none */
} confusion;

typedef struct class_votes {
    int32_t class;
    int32_t votes;
    double evidence; /* L, and then with that of the probe */
    double probe;    /* s; without a probe: log of the class's rows */
} class_votes;

typedef struct labelling {
    const gf_decide_spec *c;
    const gf_discover_data *d;
    const gf_pairs_found *f;
    int32_t *name; /* [classes] labels, ascending */
    int64_t classes;
    int32_t *class_of;        /* [n] by position; -1: unknown */
    double *rows;             /* [classes] rows with votes */
    class_pair *pair;         /* open addressing */
    uint64_t pairs, capacity; /* used; a power of two */
    double *unseen;           /* [classes] log theta[c][j] of classes j that got no vote in c */
    int64_t *first;           /* [classes + 1] the confusions of j are first[j] to first[j + 1] - 1 */
    confusion *with;          /* [pairs] */
    int32_t *voted;           /* [top] scratch */
    int32_t *place;           /* [classes] scratch: where a class is in vote; -1 */
    class_votes *vote;        /* [classes + top + 2] of the row at hand */
    float *probe;             /* [n][classes] evidence of a classifier; NULL: none */
    double unseen_row;        /* what the evidence of the own class changes by, if its confusions are counted without this row */
    double scale, weight, noise;
} labelling;

/* ----- votes ----- */

/* The similarity that a row must have to vote for j. */
static float voters_end(const gf_pairs_found *f, int64_t j) {
    const int64_t last = j * f->top + GF_MIN(f->top, VOTERS) - 1;
    return f->other[last] >= 0 ? f->similarity[last] : -INFINITY;
}

static int by_class(const void *a, const void *b) {
    const class_votes *x = a, *y = b;
    return (x->class > y->class) - (x->class < y->class);
}

/* Sets x->vote for position i: classes of its mutual neighbours, ascending, then its own class if it has no vote. Returns their number;
 * *all: the votes. */
static int64_t collect_votes(labelling *x, int64_t i, int64_t *all) {
    const gf_pairs_found *f = x->f;
    int64_t n = 0, classes = 0;
    for (int64_t k = i * f->top; k < i * f->top + GF_MIN(f->top, VOTERS) && f->other[k] >= 0; k++) {
        const int32_t j = f->other[k];
        if (x->class_of[j] >= 0 && f->similarity[k] >= voters_end(f, j)) x->voted[n++] = x->class_of[j];
    }
    if (n) qsort(x->voted, (size_t)n, sizeof *x->voted, gf_order_int32);
    for (int64_t a = 0, b; a < n; a = b) {
        for (b = a + 1; b < n && x->voted[b] == x->voted[a]; b++) continue;
        x->vote[classes++] = (class_votes){.class = x->voted[a], .votes = (int32_t)(b - a)};
    }
    *all = n;
    const class_votes own = {.class = x->class_of[i]};
    if (!bsearch(&own, x->vote, (size_t)classes, sizeof own, by_class)) x->vote[classes++] = own;
    return classes;
}

/* ----- usual confusions ----- */

static class_pair *find_pair(const labelling *x, int32_t c, int32_t j) {
    const uint64_t key = (uint64_t)c << 32 | (uint32_t)j;
    uint64_t at = key * 0x9e3779b97f4a7c15u >> 20 & (x->capacity - 1);
    while (x->pair[at].key != key && x->pair[at].key != UINT64_MAX) at = (at + 1) & (x->capacity - 1);
    return &x->pair[at];
}

static int grow_pairs(labelling *x) {
    class_pair *old = x->pair;
    const uint64_t n = x->capacity;
    x->capacity = n ? 2 * n : 1024;
    x->pair = malloc((size_t)x->capacity * sizeof *x->pair);
    for (uint64_t k = 0; k < x->capacity && x->pair; k++) x->pair[k].key = UINT64_MAX;
    for (uint64_t k = 0; k < n && x->pair; k++)
        if (old[k].key != UINT64_MAX) *find_pair(x, (int32_t)(old[k].key >> 32), (int32_t)(uint32_t)old[k].key) = old[k];
    free(old);
    return x->pair != NULL;
}

/* Adds the votes of all labelled rows to the pairs of classes. */
static glofnd_status learn_confusions(gf_error *err, labelling *x) {
    for (int64_t i = 0; i < x->f->n; i++) {
        int64_t all, own = x->class_of[i];
        if (own < 0) continue;
        const int64_t classes = collect_votes(x, i, &all);
        if (!all) continue;
        x->rows[own]++;
        for (int64_t k = 0; k < classes; k++) {
            FAIL_IF(err, 2 * (x->pairs + 1) > x->capacity && !grow_pairs(x), GLOFND_E_MEMORY, "no memory for votes of labels");
            class_pair *p = find_pair(x, (int32_t)own, x->vote[k].class);
            if (p->key == UINT64_MAX) *p = (class_pair){(uint64_t)own << 32 | (uint32_t)x->vote[k].class, 0.0}, x->pairs++;
            p->share += (double)x->vote[k].votes / (double)all;
        }
    }
    return GLOFND_OK;
}

/* The confusions by the class that got the votes. */
static glofnd_status sort_confusions(gf_error *err, labelling *x) {
    const size_t classes = (size_t)x->classes;
    x->unseen = malloc((classes + 1) * sizeof *x->unseen);
    x->first = calloc(classes + 2, sizeof *x->first);
    x->place = malloc((classes + 1) * sizeof *x->place);
    x->with = malloc((size_t)(x->pairs + 1) * sizeof *x->with);
    FAIL_IF(err, !x->unseen || !x->first || !x->place || !x->with, GLOFND_E_MEMORY, "no memory for %lld classes",
            (long long)x->classes);
    for (int64_t c = 0; c < x->classes; c++) {
        x->unseen[c] = log(SMOOTHING / (double)x->classes / (x->rows[c] + SMOOTHING));
        x->place[c] = -1;
    }
    for (uint64_t k = 0; k < x->capacity; k++)
        if (x->pair[k].key != UINT64_MAX) x->first[(uint32_t)x->pair[k].key + 2]++;
    for (int64_t j = 0; j < x->classes; j++) x->first[j + 2] += x->first[j + 1];
    for (uint64_t k = 0; k < x->capacity; k++) {
        const uint64_t key = x->pair[k].key;
        if (key == UINT64_MAX) continue;
        const int32_t c = (int32_t)(key >> 32);
        const double theta = (x->pair[k].share + SMOOTHING / (double)x->classes) / (x->rows[c] + SMOOTHING);
        x->with[x->first[(uint32_t)key + 1]++] = (confusion){c, log(theta) - x->unseen[c]};
    }
    return GLOFND_OK;
}

/* Adds the classes that are confused with those of x->vote (with a probe: all), and sets the evidence. Returns the place of the best of
 * those that got a vote or are known to the probe, and of the own one. */
static int64_t weigh(labelling *x, int64_t i, int64_t *classes, int64_t all, int64_t *own) {
    const int64_t voted = *classes;
    const double power = pow((double)all + 1.0, VOTE_POWER);
    int64_t best = -1;
    for (int64_t c = 0; c < voted; c++) x->place[x->vote[c].class] = (int32_t)c;
    for (int64_t c = 0; x->probe && c < x->classes; c++) {
        if (x->place[c] >= 0) continue;
        x->place[c] = (int32_t)*classes;
        x->vote[(*classes)++] = (class_votes){.class = (int32_t)c};
    }
    for (int64_t j = 0; j < voted; j++) {
        const int32_t class = x->vote[j].class;
        for (int64_t k = x->first[class]; x->vote[j].votes && k < x->first[class + 1]; k++) {
            int32_t *at = &x->place[x->with[k].class];
            if (*at < 0) {
                *at = (int32_t)*classes;
                x->vote[(*classes)++] = (class_votes){.class = x->with[k].class};
            }
            x->vote[*at].evidence += x->vote[j].votes * x->with[k].gain;
        }
    }
    *own = x->place[x->class_of[i]];
    const int32_t label = x->class_of[i];
    x->unseen_row = 0.0;
    for (int64_t j = 0; j < voted; j++) {
        if (!x->vote[j].votes) continue;
        const double seen = find_pair(x, label, x->vote[j].class)->share, share = seen - (double)x->vote[j].votes / (double)all;
        const double smooth = SMOOTHING / (double)x->classes;
        x->unseen_row += x->vote[j].votes / power *
                         (log((fmax(share, 0.0) + smooth) / (x->rows[label] - 1.0 + SMOOTHING)) -
                          log((seen + smooth) / (x->rows[label] + SMOOTHING)));
    }
    for (int64_t c = 0; c < *classes; c++) {
        class_votes *v = &x->vote[c];
        x->place[v->class] = -1;
        v->probe = x->probe ? (double)x->probe[i * x->classes + v->class] : 0.0;
        v->evidence = (v->evidence + (double)all * x->unseen[v->class]) / power + x->weight / x->scale * v->probe;
        if ((v->votes || x->probe) && (best < 0 || v->evidence > x->vote[best].evidence)) best = c;
    }
    return best;
}

/* ----- probabilities ----- */

enum { CALIBRATION_ROWS = 20000, CALIBRATION_CLASSES = 500000, CALIBRATION_STEPS = 40 }; /* rows; their classes together */

/* q of class `at` of the row at hand, by the evidence. */
static double probability(const labelling *x, const class_votes *vote, int64_t classes, int64_t at) {
    double sum = 0.0;
    for (int64_t c = 0; c < classes; c++)
        sum += (x->probe ? 1.0 : x->rows[vote[c].class] / x->rows[vote[at].class]) *
               exp(x->scale * (vote[c].evidence - vote[at].evidence));
    return 1.0 / sum;
}

typedef struct weighed_row { /* of the calibration: its votes in one array */
    int64_t first, classes, own;
} weighed_row;

/* A step of expectation and maximisation: a label is right with the probability r that the present scale, weight and noise give. The noise
 * becomes the mean of 1 - r, and scale and weight take a Newton step on the log likelihood of the labels, each of which counts r. */
static void calibrate_once(labelling *x, const weighed_row *row, int64_t rows, const class_votes *vote, double *q) {
    const double any = 1.0 / (double)x->classes;
    double wrong = 0.0, slope[2] = {0}, curve[3] = {0};
    for (int64_t r = 0; r < rows; r++) {
        const class_votes *v = vote + row[r].first, *o = v + row[r].own;
        double sum = 0.0, mean[2] = {0}, square[3] = {0}, most = -INFINITY;
        for (int64_t c = 0; c < row[r].classes; c++) {
            q[c] = x->scale * v[c].evidence + x->weight * v[c].probe + (x->probe ? 0.0 : log(x->rows[v[c].class]));
            most = fmax(most, q[c]);
        }
        for (int64_t c = 0; c < row[r].classes; c++) sum += q[c] = exp(q[c] - most);
        for (int64_t c = 0; c < row[r].classes; c++) {
            const double p = q[c] / sum, e = v[c].evidence - o->evidence, s = v[c].probe - o->probe;
            mean[0] += p * e, mean[1] += p * s;
            square[0] += p * e * e, square[1] += p * e * s, square[2] += p * s * s;
        }
        const double own = q[row[r].own] / sum, right = (1.0 - x->noise) * own / ((1.0 - x->noise) * own + x->noise * any);
        wrong += 1.0 - right;
        for (int k = 0; k < 2; k++) slope[k] -= right * mean[k];
        for (int k = 0; k < 3; k++) curve[k] += right * (square[k] - mean[k > 0] * mean[k > 1]);
    }
    x->noise = fmin(fmax(wrong / (double)rows, 1e-6), 0.5);
    const double ridge = 1e-9 * (curve[0] + curve[2]) + 1e-12, a = curve[0] + ridge, b = curve[1], d = curve[2] + ridge;
    const double both = a * d - b * b, steps[2] = {(d * slope[0] - b * slope[1]) / both, (a * slope[1] - b * slope[0]) / both};
    const double alone = slope[0] / a;
    const double step = x->probe ? steps[0] : alone;
    x->scale = fmin(fmax(x->scale + fmin(fmax(step, -0.5 * x->scale), x->scale), 1e-3), 1e3);
    if (x->probe) x->weight = fmin(fmax(x->weight + fmin(fmax(steps[1], -0.5 * x->weight), x->weight), 1e-6), 1e3);
}

/* Sets the scale, the weight and the noise under which the labels of some rows are most probable. */
static glofnd_status calibrate(gf_error *err, labelling *x) {
    const int64_t most = GF_MIN(x->f->n, CALIBRATION_ROWS);
    const size_t room = (size_t)CALIBRATION_CLASSES + (size_t)x->classes + VOTERS + 2;
    weighed_row *row = malloc((size_t)most * sizeof *row);
    class_votes *vote = malloc(room * sizeof *vote);
    double *q = malloc((size_t)(x->classes + VOTERS + 2) * sizeof *q);
    int64_t rows = 0, used = 0;
    x->scale = 1.0, x->weight = 0.0, x->noise = 0.02;
    for (int64_t n = 0; row && vote && q && n < x->f->n && rows < most && used < CALIBRATION_CLASSES; n++) {
        const int64_t i = gf_permute(0, 0, x->f->n, n);
        int64_t all, own = 0;
        if (x->class_of[i] < 0) continue;
        int64_t classes = collect_votes(x, i, &all);
        if (!all && !x->probe) continue;
        weigh(x, i, &classes, all, &own);
        for (int64_t c = 0; c < classes; c++) vote[used + c] = x->vote[c];
        vote[used + own].evidence += x->unseen_row;
        row[rows++] = (weighed_row){used, classes, own};
        used += classes;
    }
    if (x->probe) x->weight = 0.5;
    for (int k = 0; k < CALIBRATION_STEPS && rows && q; k++) calibrate_once(x, row, rows, vote, q);
    const int enough = row && vote && q;
    free(row);
    free(vote);
    free(q);
    FAIL_IF(err, !enough, GLOFND_E_MEMORY, "no memory for probabilities of labels");
    return GLOFND_OK;
}

/* ----- issues ----- */

static int by_score(const void *a, const void *b) {
    const gf_label_issue *x = a, *y = b;
    if (x->score != y->score) return x->score > y->score ? -1 : 1;
    return (x->position > y->position) - (x->position < y->position);
}

/* Numbers the classes in the order of their labels. */
static glofnd_status number_classes(gf_error *err, labelling *x) {
    const gf_discover_data *d = x->d;
    const int64_t n = x->f->n;
    int64_t known = 0;
    x->name = malloc((size_t)(n + 1) * sizeof *x->name);
    x->class_of = malloc((size_t)(n + 1) * sizeof *x->class_of);
    FAIL_IF(err, !x->name || !x->class_of, GLOFND_E_MEMORY, "no memory for labels of %lld rows", (long long)n);
    for (int64_t i = 0; i < n; i++)
        if (d->label[d->good[i]] >= 0) x->name[known++] = d->label[d->good[i]];
    if (known) qsort(x->name, (size_t)known, sizeof *x->name, gf_order_int32);
    for (int64_t k = 0; k < known; k++)
        if (k == 0 || x->name[k] != x->name[k - 1]) x->name[x->classes++] = x->name[k];
    for (int64_t i = 0; i < n; i++) {
        const int32_t *at = bsearch(&d->label[d->good[i]], x->name, (size_t)x->classes, sizeof *x->name, gf_order_int32);
        x->class_of[i] = at ? (int32_t)(at - x->name) : -1;
    }
    return GLOFND_OK;
}

/* ----- issues by neighbours ----- */

static glofnd_status find_by_evidence(gf_error *err, labelling *x, const gf_discover_spec *s, gf_decisions *out) {
    x->rows = calloc((size_t)x->classes + 1, sizeof *x->rows);
    FAIL_IF(err, !x->rows || !grow_pairs(x), GLOFND_E_MEMORY, "no memory for %lld classes", (long long)x->classes);
    if (x->c->probe) TRY(gf_probe_labels(err, x->c, s, x->d, x->class_of, x->classes, &x->probe));
    TRY(learn_confusions(err, x));
    TRY(sort_confusions(err, x));
    TRY(calibrate(err, x));
    for (int64_t i = 0; i < x->f->n; i++) {
        int64_t all, own = 0;
        if (x->class_of[i] < 0) continue;
        int64_t classes = collect_votes(x, i, &all);
        if (!all && !x->probe) continue;
        const int64_t best = weigh(x, i, &classes, all, &own);
        const class_votes *b = &x->vote[best], *o = &x->vote[own];
        const double score = b->evidence - o->evidence;
        if (!(score > 0.0)) continue;
        x->vote[own].evidence += x->unseen_row;
        const double any = x->noise / (double)x->classes, label = probability(x, x->vote, classes, own);
        const double right = any * probability(x, x->vote, classes, best) / ((1.0 - x->noise) * label + any);
        out->issue[out->issues++] = (gf_label_issue){.position = (int32_t)i,
                                                     .suggested = x->name[b->class],
                                                     .votes = (int32_t)all,
                                                     .best = b->votes,
                                                     .own = o->votes,
                                                     .score = score,
                                                     .probability = right};
    }
    return GLOFND_OK;
}

/* ----- issues by probabilities ----- */

#define PROBABILITY_SLACK 1e-6 /* rounding of probabilities and thresholds, as cleanlab has it */

static glofnd_status check_probabilities(gf_error *err, const labelling *x) {
    const int64_t classes = x->c->pred_classes;
    for (int64_t i = 0; i < x->f->n; i++) {
        const int64_t row = x->d->good[i];
        const float *p = x->c->pred_probs + row * classes;
        FAIL_IF(err, x->d->label[row] >= classes, GLOFND_E_ARGUMENT,
                "row %lld has label %d, and there are probabilities of %lld labels: 0 to %lld", (long long)row,
                (int)x->d->label[row], (long long)classes, (long long)classes - 1);
        for (int64_t k = 0; k < classes; k++)
            FAIL_IF(err, !(p[k] >= 0.0f && (double)p[k] <= 1.0 + PROBABILITY_SLACK), GLOFND_E_ARGUMENT,
                    "row %lld, label %lld: %g is no probability; expected a number from 0 to 1", (long long)row, (long long)k,
                    (double)p[k]);
    }
    return GLOFND_OK;
}

/* A row is confidently of label k if p[k] reaches the mean of p[k] over rows labelled k; if it is so of several, of the most probable
 * one. An issue is confidently of another label than its own, and its own is not the most probable one. */
static glofnd_status find_by_probabilities(gf_error *err, labelling *x, gf_decisions *out) {
    const int64_t classes = x->c->pred_classes;
    double *threshold = calloc((size_t)classes, sizeof *threshold);
    int64_t *rows = calloc((size_t)classes, sizeof *rows);
    if (!threshold || !rows) {
        free(threshold);
        free(rows);
        GF_FAIL(err, GLOFND_E_MEMORY, "no memory for thresholds of %lld labels", (long long)classes);
    }
    for (int64_t i = 0; i < x->f->n; i++) {
        const int64_t row = x->d->good[i], own = x->d->label[row];
        if (own >= 0) threshold[own] += (double)x->c->pred_probs[row * classes + own], rows[own]++;
    }
    for (int64_t k = 0; k < classes; k++)
        threshold[k] = (rows[k] ? fmax(threshold[k] / (double)rows[k], 2.0 * PROBABILITY_SLACK) : INFINITY) - PROBABILITY_SLACK;
    free(rows);
    for (int64_t i = 0; i < x->f->n; i++) {
        const int64_t row = x->d->good[i], own = x->d->label[row];
        const float *p = x->c->pred_probs + row * classes;
        int64_t best = 0, first = -1, confident = 0, all;
        if (own < 0) continue;
        for (int64_t k = 0; k < classes; k++) {
            if (p[k] > p[best]) best = k;
            if ((double)p[k] >= threshold[k] && confident++ == 0) first = k;
        }
        if (!confident || best == own || (confident == 1 && first == own)) continue;
        const int64_t voted = collect_votes(x, i, &all);
        gf_label_issue *e = &out->issue[out->issues++];
        *e = (gf_label_issue){.position = (int32_t)i,
                              .suggested = (int32_t)best,
                              .votes = (int32_t)all,
                              .score = -log(fmax((double)p[own], 1e-45)), /* below the least float */
                              .probability = (double)p[best]};
        for (int64_t k = 0; k < voted; k++) {
            if (x->name[x->vote[k].class] == best) e->best = x->vote[k].votes;
            if (x->name[x->vote[k].class] == own) e->own = x->vote[k].votes;
        }
    }
    free(threshold);
    return GLOFND_OK;
}

static glofnd_status find_issues(gf_error *err, labelling *x, const gf_discover_spec *s, gf_decisions *out) {
    TRY(number_classes(err, x));
    x->voted = malloc((size_t)(GF_MIN(x->f->top, VOTERS) + 1) * sizeof *x->voted);
    x->vote = malloc((size_t)(x->classes + VOTERS + 2) * sizeof *x->vote);
    out->issue = malloc((size_t)(x->f->n + 1) * sizeof *out->issue);
    FAIL_IF(err, !x->voted || !x->vote || !out->issue, GLOFND_E_MEMORY, "no memory for labels of %lld rows", (long long)x->f->n);
    if (x->c->pred_probs) TRY(check_probabilities(err, x));
    TRY(x->c->pred_probs ? find_by_probabilities(err, x, out) : find_by_evidence(err, x, s, out));
    out->issues_confident = x->c->pred_probs != NULL;
    if (out->issues) qsort(out->issue, (size_t)out->issues, sizeof *out->issue, by_score);
    return GLOFND_OK;
}

glofnd_status gf_label_issues(gf_error *err, const gf_decide_spec *c, const gf_discover_spec *s, const gf_discover_data *d,
                              const gf_discover_result *r, gf_decisions *out) {
    labelling x = {.c = c, .d = d, .f = &r->f, .scale = 1.0};
    const glofnd_status status = r->f.top > 0 || c->pred_probs || c->probe ? find_issues(err, &x, s, out) : GLOFND_OK;
    free(x.name);
    free(x.class_of);
    free(x.rows);
    free(x.pair);
    free(x.unseen);
    free(x.first);
    free(x.with);
    free(x.place);
    free(x.voted);
    free(x.vote);
    free(x.probe);
    return status;
}
