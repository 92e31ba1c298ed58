/* label_issues.c - rows whose neighbours, or the probabilities of a classifier, contradict their label; see decide.h.
 *
 * The mutual neighbours of a row, each among the VOTERS nearest listed ones of the other, vote with their labels: V[j] votes for class j, N in all. Classes are confused in a way that is usual for
 * them: theta[c][j] is the mean share of votes for j among rows labelled c, smoothed. The evidence for class c is
 *     L[c] = sum over j of V[j] log theta[c][j] / (N + 1)^0.75
 * (the power, because neighbours are like each other: their votes count less than independent ones would). The score of a row is the
 * largest L of a class that got a vote, minus L of its label. So a shirt among T-shirts, which is usual, scores less than a shirt
 * among boots. The probability of a class is proportional to its share of the rows times exp(scale L), with the scale under which
 * the given labels are most probable.
 *
 * With pred_mixed, L[c] also has 0.6 log p[c], where p are the probabilities of a classifier. With probabilities alone (pred_probs) issues are those of confident learning: Northcutt, Jiang, Chuang, "Confident learning: estimating
 * uncertainty in dataset labels", 2021.
 */
#include <math.h>
#include <stdlib.h>

#include "discover/decide.h"
#include "util/array.h"

#define VOTE_POWER 0.75
#define VOTERS 50             /* most similar others that may vote */
#define PREDICTION_WEIGHT 0.6 /* of the logarithm of a probability, with pred_mixed */
#define SMOOTHING 0.5         /* rows added to each class, their votes spread over all */

typedef struct class_pair { /* votes of rows labelled c for class j */
    uint64_t key;           /* c, j; UINT64_MAX: free */
    double share;           /* sum over rows */
} class_pair;

typedef struct class_votes {
    int32_t class;
    int32_t votes;
    double evidence; /* L */
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
    int32_t *voted;           /* [top] scratch */
    class_votes *vote;        /* [top + 2] of the row at hand */
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
    if (x->c->pred_mixed) { /* then the most probable class */
        const float *p = x->c->pred_probs + (int64_t)x->d->good[i] * x->c->pred_classes;
        int32_t best = 0;
        int64_t k = 0;
        for (int32_t c = 1; c < (int32_t)x->classes; c++)
            if (p[x->name[c]] > p[x->name[best]]) best = c;
        while (k < classes && x->vote[k].class != best) k++;
        if (k == classes) x->vote[classes++] = (class_votes){.class = best};
    }
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

/* Sets the evidence for the classes of x->vote; returns the place of the best of those that got a vote, and of the own one. */
static int64_t weigh(labelling *x, int64_t i, int64_t classes, int64_t all, int64_t *own) {
    int64_t best = -1;
    for (int64_t c = 0; c < classes; c++) {
        const int32_t class = x->vote[c].class;
        double sum = 0.0;
        for (int64_t j = 0; j < classes; j++) {
            if (!x->vote[j].votes) continue;
            const class_pair *p = find_pair(x, class, x->vote[j].class);
            const double share = p->key == UINT64_MAX ? 0.0 : p->share;
            sum += x->vote[j].votes * log((share + SMOOTHING / (double)x->classes) / (x->rows[class] + SMOOTHING));
        }
        x->vote[c].evidence = sum / pow((double)all + 1.0, VOTE_POWER);
        if (x->c->pred_mixed) {
            const float *p = x->c->pred_probs + (int64_t)x->d->good[i] * x->c->pred_classes;
            x->vote[c].evidence += PREDICTION_WEIGHT * log(fmax((double)p[x->name[class]], 1e-30));
        }
        if (class == x->class_of[i]) *own = c;
        if ((x->vote[c].votes || (x->c->pred_mixed && x->rows[class] > 0.0)) &&
            (best < 0 || x->vote[c].evidence > x->vote[best].evidence))
            best = c;
    }
    return best;
}

/* ----- probabilities ----- */

enum { CALIBRATION_ROWS = 20000 };

/* Probability of class `at` of the row at hand. */
static double probability(const labelling *x, const class_votes *vote, int64_t classes, int64_t at, double scale) {
    double sum = 0.0;
    for (int64_t c = 0; c < classes; c++)
        sum += x->rows[vote[c].class] / x->rows[vote[at].class] * exp(scale * (vote[c].evidence - vote[at].evidence));
    return 1.0 / sum;
}

typedef struct weighed_row { /* of the calibration: its votes in one array */
    int64_t first, classes, own;
} weighed_row;

static double log_likelihood(const labelling *x, const weighed_row *row, int64_t rows, const class_votes *vote, double scale) {
    double sum = 0.0;
    for (int64_t r = 0; r < rows; r++)
        sum += log(fmax(probability(x, vote + row[r].first, row[r].classes, row[r].own, scale), 1e-300));
    return sum;
}

/* The scale under which the labels of some rows are most probable: the likelihood is concave, so a golden section finds it. */
static glofnd_status calibrate(gf_error *err, labelling *x, double *scale) {
    const int64_t step = GF_MAX(x->f->n / CALIBRATION_ROWS, 1);
    weighed_row *row = malloc((size_t)(x->f->n / step + 1) * sizeof *row);
    class_votes *vote = malloc((size_t)(x->f->n / step + 1) * (size_t)(GF_MIN(x->f->top, VOTERS) + 2) * sizeof *vote);
    int64_t rows = 0, used = 0;
    if (!row || !vote) {
        free(row);
        free(vote);
        GF_FAIL(err, GLOFND_E_MEMORY, "no memory for probabilities of labels");
    }
    for (int64_t i = 0; i < x->f->n; i += step) {
        int64_t all, own = 0;
        if (x->class_of[i] < 0) continue;
        const int64_t classes = collect_votes(x, i, &all);
        if (!all) continue;
        weigh(x, i, classes, all, &own);
        for (int64_t c = 0; c < classes; c++) vote[used + c] = x->vote[c];
        row[rows++] = (weighed_row){used, classes, own};
        used += classes;
    }
    double low = -5.0, high = 5.0; /* logarithms */
    const double golden = 0.6180339887498949;
    for (int k = 0; k < 40; k++) {
        const double a = high - golden * (high - low), b = low + golden * (high - low);
        if (log_likelihood(x, row, rows, vote, exp(a)) > log_likelihood(x, row, rows, vote, exp(b))) high = b;
        else low = a;
    }
    *scale = exp(0.5 * (low + high));
    free(row);
    free(vote);
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

static glofnd_status find_by_neighbours(gf_error *err, labelling *x, gf_decisions *out) {
    double scale = 1.0;
    x->rows = calloc((size_t)x->classes + 1, sizeof *x->rows);
    FAIL_IF(err, !x->rows || !grow_pairs(x), GLOFND_E_MEMORY, "no memory for %lld classes", (long long)x->classes);
    TRY(learn_confusions(err, x));
    TRY(calibrate(err, x, &scale));
    for (int64_t i = 0; i < x->f->n; i++) {
        int64_t all, own = 0;
        if (x->class_of[i] < 0) continue;
        const int64_t classes = collect_votes(x, i, &all);
        if (!all) continue;
        const int64_t best = weigh(x, i, classes, all, &own);
        const class_votes *b = &x->vote[best], *o = &x->vote[own];
        if (!(b->evidence > o->evidence)) continue;
        out->issue[out->issues++] = (gf_label_issue){.position = (int32_t)i,
                                                     .suggested = x->name[b->class],
                                                     .votes = (int32_t)all,
                                                     .best = b->votes,
                                                     .own = o->votes,
                                                     .score = b->evidence - o->evidence,
                                                     .probability = probability(x, x->vote, classes, best, scale)};
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

static glofnd_status find_issues(gf_error *err, labelling *x, gf_decisions *out) {
    TRY(number_classes(err, x));
    x->voted = malloc((size_t)(GF_MIN(x->f->top, VOTERS) + 1) * sizeof *x->voted);
    x->vote = malloc((size_t)(GF_MIN(x->f->top, VOTERS) + 2) * sizeof *x->vote);
    out->issue = malloc((size_t)(x->f->n + 1) * sizeof *out->issue);
    FAIL_IF(err, !x->voted || !x->vote || !out->issue, GLOFND_E_MEMORY, "no memory for labels of %lld rows", (long long)x->f->n);
    const int confident = x->c->pred_probs && !(x->c->pred_mixed && x->f->top > 0);
    if (x->c->pred_probs) TRY(check_probabilities(err, x));
    TRY(confident ? find_by_probabilities(err, x, out) : find_by_neighbours(err, x, out));
    out->issues_confident = confident;
    if (out->issues) qsort(out->issue, (size_t)out->issues, sizeof *out->issue, by_score);
    return GLOFND_OK;
}

glofnd_status gf_label_issues(gf_error *err, const gf_decide_spec *c, const gf_discover_data *d, const gf_discover_result *r,
                              gf_decisions *out) {
    labelling x = {.c = c, .d = d, .f = &r->f};
    const glofnd_status status = r->f.top > 0 || c->pred_probs ? find_issues(err, &x, out) : GLOFND_OK;
    free(x.name);
    free(x.class_of);
    free(x.rows);
    free(x.pair);
    free(x.voted);
    free(x.vote);
    return status;
}
