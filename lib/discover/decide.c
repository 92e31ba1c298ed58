/* decide.c - see decide.h. In this order: rows of embeddings, from memory or read again; the row that is kept of a group, and how
 * central it is; outliers; leaks between splits; a diverse subset; all of them. */
#include "discover/decide.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "util/array.h"
#include "util/parallel.h"

/* ---------- rows ---------- */

/* The embeddings, for decisions that need them: from memory, or read again in pieces. Both give the same bits, because rows come in
 * the same order. */
typedef void row_visit(void *user, const row_piece *piece);

enum { READ_ROWS = 8192, LANES = 8 }; /* rows that are read at once; partial sums of a product */

static glofnd_status visit_source(gf_error *err, const gf_decide_spec *c, const gf_discover_spec *s, row_piece *p, float *x,
                                  row_visit *visit, void *user) {
    const gf_discover_data *d = p->d;
    for (p->base = 0; p->base < d->n; p->base += READ_ROWS) {
        const int64_t rows = GF_MIN(READ_ROWS, d->n - p->base);
        TRY(c->rows->read(err, c->rows->user, p->base, rows, x));
        for (p->count = 0; p->first + p->count < d->good_n && d->good[p->first + p->count] < p->base + rows;) p->count++;
        visit(user, p);
        p->first += p->count;
        FAIL_IF(err, gf_job_stopped(&s->task.watch), GLOFND_E_CANCELLED, "cancelled");
    }
    return GLOFND_OK;
}

glofnd_status gf_decide_visit_rows(gf_error *err, const gf_decide_spec *c, const gf_discover_spec *s, const gf_discover_data *d,
                                   row_visit *visit, void *user) {
    row_piece p = {.d = d, .x = d->x, .count = d->good_n};
    if (d->x) {
        visit(user, &p);
        return GLOFND_OK;
    }
    float *x = malloc((size_t)(GF_MIN(READ_ROWS, d->n) * d->dim) * sizeof *x);
    FAIL_IF(err, !x, GLOFND_E_MEMORY, "no memory to read embeddings again");
    p.x = x;
    const glofnd_status status = visit_source(err, c, s, &p, x, visit, user);
    free(x);
    return status;
}

/* ---------- how central a row is in its group ---------- */

/* How central rows are in their group of duplicates; see decide.h.
 *
 * The mean similarity of a row to the others of its group is a product with the sum of all their unit vectors. So two passes over
 * the rows are enough, one for the sums and one for the products; where the sums of all groups take too much memory, two for each
 * range of groups.
 */

typedef struct centres {
    const gf_components *groups;
    int64_t dim, from, to; /* groups whose sums are in memory */
    double *sum;           /* [to - from][dim] */
    double *unit;          /* [dim] */
    float *value;          /* [good_n] */
} centres;

/* The row as a vector of length 1. */
static void make_unit(const float *row, int64_t dim, double *unit) {
    double norm = 0.0;
    for (int64_t k = 0; k < dim; k++) norm += (double)row[k] * (double)row[k];
    norm = sqrt(norm);
    for (int64_t k = 0; k < dim; k++) unit[k] = (double)row[k] / norm;
}

/* The sum of the group; NULL: none of these, or of two rows, which are equally central. */
static double *sum_of(const centres *x, int64_t position) {
    const int64_t g = x->groups->of[position];
    return g >= x->from && g < x->to && x->groups->part[g].nodes > 2 ? x->sum + (g - x->from) * x->dim : NULL;
}

static void add_rows(void *user, const row_piece *p) {
    const centres *x = user;
    for (int64_t i = p->first; i < p->first + p->count; i++) {
        double *sum = sum_of(x, i);
        if (!sum) continue;
        make_unit(gf_piece_row(p, i), x->dim, x->unit);
        for (int64_t k = 0; k < x->dim; k++) sum[k] += x->unit[k];
    }
}

static void value_rows(void *user, const row_piece *p) {
    const centres *x = user;
    for (int64_t i = p->first; i < p->first + p->count; i++) {
        const double *sum = sum_of(x, i);
        double dot = 0.0;
        if (!sum) continue;
        make_unit(gf_piece_row(p, i), x->dim, x->unit);
        for (int64_t k = 0; k < x->dim; k++) dot += x->unit[k] * (sum[k] - x->unit[k]);
        x->value[i] = (float)(dot / (double)(x->groups->part[x->groups->of[i]].nodes - 1)); /* rounding of sums does not decide */
    }
}

static glofnd_status decide_central(gf_error *err, const gf_decide_spec *c, const gf_discover_spec *s, const gf_discover_data *d,
                                    const gf_discover_result *r, float *value) {
    /* Groups are in order of size: those of more than two rows come first. */
    int64_t n = 0;
    while (n < r->groups.count && r->groups.part[n].nodes > 2) n++;
    const int64_t large = n, bytes = d->dim * (int64_t)sizeof(double);
    const int64_t some = GF_MAX(GF_MIN(large, (int64_t)(s->task.memory / 4) / bytes), 1);
    centres x = {.groups = &r->groups, .dim = d->dim, .value = value};
    memset(value, 0, (size_t)d->good_n * sizeof *value);
    x.sum = malloc((size_t)(some * bytes));
    x.unit = malloc((size_t)bytes);
    glofnd_status status = x.sum && x.unit ? GLOFND_OK : gf_fail(err, GLOFND_E_MEMORY, "no memory for the centres of groups");
    for (; x.from < large && status == GLOFND_OK; x.from = x.to) {
        x.to = GF_MIN(x.from + some, large);
        memset(x.sum, 0, (size_t)((x.to - x.from) * bytes));
        status = gf_decide_visit_rows(err, c, s, d, add_rows, &x);
        if (status == GLOFND_OK) status = gf_decide_visit_rows(err, c, s, d, value_rows, &x);
    }
    free(x.sum);
    free(x.unit);
    return status;
}

/* ---------- rows that are kept ---------- */

/* Greedy within each chain of duplicates, best rows first: a row is removed if it is a duplicate of a row that is kept, else it is
 * kept. So every removed row has a kept one that is as similar as duplicates must be, which a chain alone does not promise.
 *
 * Lists hold the most similar others of a row. Where they are too short for its duplicates, the row is compared with the kept
 * rows of its chain. Rows of equal bytes share their fate.
 */

typedef struct ranked_row { /* a row of a chain; earlier splits first, then larger values, then lower positions */
    unsigned split;         /* none: after all others */
    int32_t position;
    double value;
} ranked_row;

static int by_rank(const void *a, const void *b) {
    const ranked_row *x = a, *y = b;
    if (x->split != y->split) return x->split < y->split ? -1 : 1;
    if (x->value != y->value) return x->value > y->value ? -1 : 1;
    return (x->position > y->position) - (x->position < y->position);
}

typedef struct keep_choice {
    gf_error *err;
    const gf_decide_spec *c;
    const gf_discover_spec *s;
    const gf_discover_data *d;
    const gf_discover_result *r;
    gf_decisions *out;
    float limit;       /* least similarity of duplicates */
    float *central;    /* [n] by position; NULL: not needed */
    ranked_row *row;   /* [largest chain] */
    int32_t *kept;     /* [largest chain] positions kept so far */
    uint8_t *decided;  /* [n] */
    int32_t *first_of; /* [n] by the first of equal bytes: the one of them that was decided first; -1: none yet */
    float *x;          /* rows of the chain, where they had to be read again; */
    int32_t *place;    /* [n] place of a position in x, else NULL */
} keep_choice;

typedef struct label_place {
    int32_t label, place;
} label_place;

static int by_label(const void *a, const void *b) {
    const label_place *x = a, *y = b;
    if (x->label != y->label) return x->label < y->label ? -1 : 1;
    return (x->place > y->place) - (x->place < y->place);
}

/* 1 for rows of the most frequent known label; of equally frequent ones that of the lowest row. */
static glofnd_status value_by_label(gf_error *err, const gf_discover_data *d, ranked_row *row, int64_t count) {
    label_place *l = malloc((size_t)count * sizeof *l);
    int64_t best = 0, best_place = 0, known = 0;
    int32_t label = -1;
    FAIL_IF(err, !l, GLOFND_E_MEMORY, "no memory for labels of a group");
    for (int64_t m = 0; m < count; m++)
        if (d->label[d->good[row[m].position]] >= 0) l[known++] = (label_place){d->label[d->good[row[m].position]], (int32_t)m};
    if (known) qsort(l, (size_t)known, sizeof *l, by_label);
    for (int64_t a = 0, b; a < known; a = b) {
        for (b = a + 1; b < known && l[b].label == l[a].label; b++) continue;
        if (b - a > best || (b - a == best && l[a].place < best_place)) best = b - a, best_place = l[a].place, label = l[a].label;
    }
    for (int64_t m = 0; m < count; m++) row[m].value = label >= 0 && d->label[d->good[row[m].position]] == label;
    free(l);
    return GLOFND_OK;
}

/* The rows of a chain, best first. */
static glofnd_status rank_rows(keep_choice *x, const int32_t *member, int64_t count) {
    for (int64_t m = 0; m < count; m++) {
        const int64_t row = x->d->good[member[m]];
        double value = 0.0;
        if (x->c->keep == GF_KEEP_CENTRAL) value = (double)x->central[member[m]];
        if (x->c->keep == GF_KEEP_SCORE || x->c->keep == GF_KEEP_LARGEST)
            value = isnan(x->c->score[row]) ? -INFINITY : x->c->score[row];
        x->row[m] = (ranked_row){(unsigned)gf_split_of(x->c, row), member[m], value};
    }
    if (x->c->keep == GF_KEEP_LABEL) TRY(value_by_label(x->err, x->d, x->row, count));
    qsort(x->row, (size_t)count, sizeof *x->row, by_rank);
    return GLOFND_OK;
}

/* Entries of the list of position i that are its duplicates. */
static int64_t listed_duplicates(const keep_choice *x, int64_t i) {
    const gf_pairs_found *f = &x->r->f;
    int64_t k = 0;
    while (k < f->top && f->other[i * f->top + k] >= 0 && f->similarity[i * f->top + k] >= x->limit) k++;
    return k;
}

static int list_is_cut(const keep_choice *x, int64_t i) {
    return !x->s->dup_exact && x->r->f.copies[i] > listed_duplicates(x, i);
}

/* The rows of a chain, if a list of it is cut and they are not in memory. Where they do not fit, cut lists are taken as whole: then
 * more rows are kept than need be. */
static glofnd_status read_chain(keep_choice *x, const int32_t *member, int64_t count) {
    const gf_discover_data *d = x->d;
    int64_t cut = 0;
    for (int64_t m = 0; m < count; m++) cut += list_is_cut(x, member[m]);
    if (!cut || d->x) return GLOFND_OK;
    const double bytes = 4.0 * (double)count * (double)d->dim;
    if (!x->c->rows || bytes > (double)x->s->task.memory) return GLOFND_OK;
    x->x = malloc((size_t)bytes);
    FAIL_IF(x->err, !x->x, GLOFND_E_MEMORY, "no memory for a group of %lld duplicates", (long long)count);
    for (int64_t a = 0, b; a < count; a = b) { /* runs of neighbouring rows at once */
        for (b = a + 1; b < count && d->good[member[b]] == d->good[member[b - 1]] + 1; b++) continue;
        TRY(x->c->rows->read(x->err, x->c->rows->user, d->good[member[a]], b - a, x->x + a * d->dim));
        for (int64_t m = a; m < b; m++) x->place[member[m]] = (int32_t)m;
    }
    return GLOFND_OK;
}

static const float *chain_row(const keep_choice *x, int64_t i) {
    return x->x ? x->x + (int64_t)x->place[i] * x->d->dim : x->d->x + (int64_t)x->d->good[i] * x->d->dim;
}

/* Similarity of two rows, in a fixed order of sums, in lanes that the compiler can keep in vectors. */
static double row_similarity(const float *a, const float *b, int64_t dim) {
    double ab[LANES] = {0}, aa[LANES] = {0}, bb[LANES] = {0};
    for (int64_t k = 0; k < dim; k++) {
        const int l = (int)(k % LANES);
        ab[l] += (double)a[k] * (double)b[k], aa[l] += (double)a[k] * (double)a[k], bb[l] += (double)b[k] * (double)b[k];
    }
    for (int l = 1; l < LANES; l++) ab[0] += ab[l], aa[0] += aa[l], bb[0] += bb[l];
    return ab[0] / sqrt(aa[0] * bb[0]);
}

typedef struct kept_block { /* the most similar of some kept rows */
    int32_t position;
    float similarity;
} kept_block;

typedef struct kept_search {
    const keep_choice *x;
    int64_t position, kept;
    kept_block best[64];
} kept_search;

static void search_kept_block(void *arg, int64_t task, int thread) {
    kept_search *y = arg;
    const int64_t blocks = (int64_t)(sizeof y->best / sizeof *y->best), each = (y->kept + blocks - 1) / blocks;
    const float *row = chain_row(y->x, y->position);
    kept_block best = {-1, y->x->limit};
    (void)thread;
    for (int64_t m = task * each; m < GF_MIN((task + 1) * each, y->kept); m++) {
        const float v = (float)row_similarity(row, chain_row(y->x, y->x->kept[m]), y->x->d->dim);
        if (v > best.similarity || (v == best.similarity && best.position < 0)) best = (kept_block){y->x->kept[m], v};
    }
    y->best[task] = best;
}

/* Position i is a duplicate of `other`, which is kept, unless a more similar one is known. */
static void note_duplicate(gf_decisions *out, int64_t i, int32_t other, float similarity) {
    if (out->kept[i] >= 0 && !(similarity > out->similarity[i])) return;
    out->kept[i] = other;
    out->similarity[i] = similarity;
}

static void note_listed(keep_choice *x, int64_t i) {
    const gf_pairs_found *f = &x->r->f;
    for (int64_t k = 0; k < listed_duplicates(x, i); k++) {
        const int32_t j = f->other[i * f->top + k];
        if (x->out->kept[j] == j) note_duplicate(x->out, i, j, f->similarity[i * f->top + k]);
    }
}

/* Keeps rows of one chain, the rest are removed: out->kept is -1 for those of which nothing is known yet. */
static glofnd_status decide_chain(keep_choice *x, const int32_t *member, int64_t count) {
    const gf_pairs_found *f = &x->r->f;
    const gf_discover_data *d = x->d;
    gf_decisions *out = x->out;
    int64_t kept = 0;
    TRY(rank_rows(x, member, count));
    TRY(read_chain(x, member, count));
    for (int64_t m = 0; m < count; m++) out->kept[member[m]] = -1;
    for (int64_t m = 0; m < count; m++) {
        const int32_t i = x->row[m].position, same = x->first_of[d->copy_of[i]];
        x->decided[i] = 1;
        if (same >= 0) { /* equal bytes: a duplicate of the same row */
            out->kept[i] = out->kept[same], out->similarity[i] = out->kept[same] == same ? 1.0f : out->similarity[same];
            continue;
        }
        x->first_of[d->copy_of[i]] = i;
        note_listed(x, i);
        if (out->kept[i] < 0 && kept > 0 && list_is_cut(x, i)) {
            kept_search y = {.x = x, .position = i, .kept = kept};
            const int64_t blocks = (int64_t)(sizeof y.best / sizeof *y.best);
            if (x->x || d->x) gf_parallel(kept * d->dim > 1 << 18 ? x->s->task.threads : 1, blocks, search_kept_block, &y);
            else out->unchecked++;
            for (int64_t b = 0; b < blocks && (x->x || d->x); b++)
                if (y.best[b].position >= 0) note_duplicate(out, i, y.best[b].position, y.best[b].similarity);
            FAIL_IF(x->err, gf_job_stopped(&x->s->task.watch), GLOFND_E_CANCELLED, "cancelled");
        }
        if (out->kept[i] >= 0) continue;
        out->kept[i] = i;
        x->kept[kept++] = i;
        for (int64_t k = 0; k < listed_duplicates(x, i); k++) {
            const int32_t j = f->other[i * f->top + k];
            if (!x->decided[j]) note_duplicate(out, j, i, f->similarity[i * f->top + k]);
        }
    }
    for (int64_t m = 0; m < count; m++) {
        const int32_t i = member[m];
        if (out->kept[i] == i) continue;
        out->similarity[i] = fminf(out->similarity[i], 1.0f);
        out->duplicates++;
        if (d->label) {
            const int32_t own = d->label[d->good[i]], other = d->label[d->good[out->kept[i]]];
            out->other_label += own >= 0 && other >= 0 && own != other;
        }
    }
    free(x->x);
    x->x = NULL;
    return GLOFND_OK;
}

/* All chains. */
static glofnd_status decide_kept(gf_error *err, const gf_decide_spec *c, const gf_discover_spec *s, const gf_discover_data *d,
                                 const gf_discover_result *r, gf_decisions *out) {
    const gf_components *groups = &r->groups;
    const int64_t largest = groups->count ? groups->part[0].nodes : 0, n = r->f.n;
    FAIL_IF(err, c->keep == GF_KEEP_LABEL && !d->label, GLOFND_E_ARGUMENT,
            "keep=label needs labels: give labels, or data of a dataset that has them");
    FAIL_IF(err, (c->keep == GF_KEEP_SCORE || c->keep == GF_KEEP_LARGEST) && !c->score, GLOFND_E_ARGUMENT,
            "keep=%s needs a number of each row", gf_keep_rule_name(c->keep));
    FAIL_IF(err, c->keep == GF_KEEP_CENTRAL && !d->x && !c->rows, GLOFND_E_ARGUMENT, "keep=central needs the embeddings");
    keep_choice x = {.err = err, .c = c, .s = s, .d = d, .r = r, .out = out, .limit = gf_discover_dup(s, d->dim)};
    const int central = c->keep == GF_KEEP_CENTRAL;
    int64_t *first = calloc((size_t)groups->count + 2, sizeof *first);      /* of a chain in member */
    int32_t *member = malloc((size_t)(groups->nodes + 1) * sizeof *member); /* positions, ascending within a chain */
    x.row = malloc((size_t)(largest + 1) * sizeof *x.row);
    x.kept = malloc((size_t)(largest + 1) * sizeof *x.kept);
    x.first_of = malloc((size_t)(n + 1) * sizeof *x.first_of);
    x.place = malloc((size_t)(n + 1) * sizeof *x.place);
    x.decided = calloc((size_t)(n + 1), sizeof *x.decided);
    if (central) x.central = malloc((size_t)(n + 1) * sizeof *x.central);
    out->kept = malloc((size_t)(n + 1) * sizeof *out->kept);
    out->similarity = malloc((size_t)(n + 1) * sizeof *out->similarity);
    glofnd_status status = GLOFND_OK;
    if (!first || !member || !x.row || !x.kept || !x.first_of || !x.place || !x.decided || (central && !x.central) ||
        !out->kept || !out->similarity)
        status = gf_fail(err, GLOFND_E_MEMORY, "no memory for groups of %lld rows", (long long)groups->nodes);
    if (central && status == GLOFND_OK) status = decide_central(err, c, s, d, r, x.central);
    if (status == GLOFND_OK) {
        for (int64_t i = 0; i < n; i++) out->kept[i] = (int32_t)i, out->similarity[i] = NAN, x.first_of[i] = -1;
        for (int64_t i = 0; i < n; i++)
            if (groups->of[i] >= 0) first[groups->of[i] + 2]++;
        for (int64_t g = 0; g < groups->count; g++) first[g + 2] += first[g + 1];
        for (int64_t i = 0; i < n; i++)
            if (groups->of[i] >= 0) member[first[groups->of[i] + 1]++] = (int32_t)i;
    }
    for (int64_t g = 0; g < groups->count && status == GLOFND_OK; g++)
        status = decide_chain(&x, member + first[g], first[g + 1] - first[g]);
    out->keep = n - out->duplicates, out->bad = d->n - d->good_n;
    free(first);
    free(member);
    free(x.row);
    free(x.kept);
    free(x.first_of);
    free(x.place);
    free(x.decided);
    free(x.central);
    free(x.x);
    return status;
}

/* ----- down to a number of rows ----- */

/* Keeps c->most rows: `s` gets the largest similarity of duplicates at which no more are kept, found by bisection; then the removed
 * rows that are least similar to their kept one are kept, too, until there are so many. Without embeddings: lists are compared. */
static glofnd_status keep_at(gf_error *err, const gf_decide_spec *c, const gf_discover_spec *s, const gf_discover_data *d,
                             gf_discover_result *r, gf_decisions *out) {
    free(out->kept);
    free(out->similarity);
    *out = (gf_decisions){0};
    FAIL_IF(err, gf_job_stopped(&s->task.watch), GLOFND_E_CANCELLED, "cancelled");
    TRY(gf_discover_set_dup(err, s, d, r));
    return decide_kept(err, c, s, d, r, out);
}

static int by_similarity(const void *a, const void *b) {
    const kept_block *x = a, *y = b;
    if (x->similarity != y->similarity) return x->similarity < y->similarity ? -1 : 1;
    return (x->position > y->position) - (x->position < y->position);
}

static glofnd_status keep_more(gf_error *err, const gf_decide_spec *c, const gf_discover_data *d, gf_decisions *out) {
    kept_block *gone = malloc((size_t)(out->duplicates + 1) * sizeof *gone);
    int64_t n = 0;
    FAIL_IF(err, !gone, GLOFND_E_MEMORY, "no memory for %lld removed rows", (long long)out->duplicates);
    for (int32_t i = 0; i < (int32_t)d->good_n; i++)
        if (out->kept[i] != i) gone[n++] = (kept_block){i, out->similarity[i]};
    if (n) qsort(gone, (size_t)n, sizeof *gone, by_similarity);
    for (int64_t k = 0; k < n && out->keep < c->most; k++) {
        const int32_t i = gone[k].position;
        if (d->label) {
            const int32_t own = d->label[d->good[i]], other = d->label[d->good[out->kept[i]]];
            out->other_label -= own >= 0 && other >= 0 && own != other;
        }
        out->kept[i] = i, out->similarity[i] = NAN;
        out->keep++, out->duplicates--;
    }
    free(gone);
    return GLOFND_OK;
}

static glofnd_status decide_most(gf_error *err, const gf_decide_spec *c, gf_discover_spec *s, const gf_discover_data *d,
                                 gf_discover_result *r, gf_decisions *out) {
    double low = -1.0, high = 1.0;
    s->dup_exact = 0, s->dup = high;
    TRY(keep_at(err, c, s, d, r, out));
    if (out->keep <= c->most) return GLOFND_OK;
    s->dup = low;
    TRY(keep_at(err, c, s, d, r, out));
    FAIL_IF(err, out->keep > c->most, GLOFND_E_ARGUMENT,
            "rows=%lld: by the %lld most similar of each row, %lld rows stay at least; raise top", (long long)c->most,
            (long long)r->f.top, (long long)out->keep);
    for (int k = 0; k < 24; k++) {
        s->dup = (double)(float)(0.5 * (low + high));
        TRY(keep_at(err, c, s, d, r, out));
        if (out->keep <= c->most) low = s->dup;
        else high = s->dup;
    }
    s->dup = low;
    TRY(keep_at(err, c, s, d, r, out));
    return keep_more(err, c, d, out);
}

/* As decide_kept(), but with the groups of another limit. */
static glofnd_status decide_kept_most(gf_error *err, const gf_decide_spec *c, const gf_discover_spec *s,
                                      const gf_discover_data *d, const gf_discover_result *r, gf_decisions *out) {
    const size_t n = (size_t)r->f.n;
    gf_discover_spec spec = *s;
    gf_discover_result at = *r;
    at.groups = (gf_components){0};
    at.f.copies = malloc((n + 1) * sizeof *at.f.copies);
    at.f.copy_root = malloc((n + 1) * sizeof *at.f.copy_root);
    glofnd_status status = at.f.copies && at.f.copy_root ? decide_most(err, c, &spec, d, &at, out)
                                                         : gf_fail(err, GLOFND_E_MEMORY, "no memory for groups");
    free(at.f.copies);
    free(at.f.copy_root);
    gf_components_free(&at.groups);
    out->limit = (double)gf_discover_dup(&spec, d->dim);
    return status;
}

/* ---------- outliers ---------- */

/* The score of a row is its mean similarity to its nearest rows. Duplicates of a row are no neighbours: an outlier that exists twice is
 * one. Scores beyond the lower fence of a box plot, 1.5 ranges of the quartiles below the first, are those of outliers. */

static int by_score(const void *a, const void *b) {
    const gf_outlier *x = a, *y = b;
    if (x->score != y->score) return x->score < y->score ? -1 : 1;
    return (x->position > y->position) - (x->position < y->position);
}

/* The `limit` first of many, in order: the list has room for twice as many, and is cut when it is full. */
typedef struct outlier_list {
    gf_outlier *at;
    int64_t limit, count;
    int full; /* `limit` are known: what comes after the last of them is of no use */
} outlier_list;

static void cut_outliers(outlier_list *l) {
    if (l->count) qsort(l->at, (size_t)l->count, sizeof *l->at, by_score);
    l->full = l->count >= l->limit;
    l->count = GF_MIN(l->count, l->limit);
}

static gf_outlier score_of_row(const gf_discover_data *d, const gf_pairs_found *f, float limit, int64_t i) {
    const int32_t *other = f->other + i * f->top;
    const float *similarity = f->similarity + i * f->top;
    gf_outlier x = {.position = (int32_t)i, .nearest = -1};
    double sum = 0.0;
    int64_t neighbours = 0;
    for (int64_t k = 0; k < f->top && other[k] >= 0 && neighbours < GF_OUTLIER_NEIGHBOURS; k++) {
        if (similarity[k] >= limit || d->copy_of[i] == d->copy_of[other[k]]) continue;
        if (neighbours++ == 0) x.nearest = other[k], x.similarity = similarity[k];
        sum += (double)similarity[k];
    }
    x.score = neighbours ? (float)(sum / (double)neighbours) : f->lambda[i]; /* only duplicates are listed */
    return x;
}

static glofnd_status decide_outliers(gf_error *err, const gf_decide_spec *c, const gf_discover_spec *s, const gf_discover_data *d,
                                     const gf_discover_result *r, gf_decisions *out) {
    const gf_pairs_found *f = &r->f;
    const float limit = gf_discover_dup(s, d->dim);
    out->outlier_limit = -INFINITY;
    if (f->top == 0) return GLOFND_OK;
    outlier_list list = {.limit = GF_MIN(c->outliers, f->n)};
    float *score = malloc((size_t)(f->n + 1) * sizeof *score);
    out->outlier = list.at = malloc((size_t)(2 * list.limit + 1) * sizeof *list.at);
    int64_t n = 0;
    if (!list.at || !score) {
        free(score);
        GF_FAIL(err, GLOFND_E_MEMORY, "no memory for outliers among %lld rows", (long long)f->n);
    }
    for (int64_t i = 0; i < f->n; i++) {
        if (f->other[i * f->top] < 0) continue; /* compared with no other row: only_dup, probe */
        const gf_outlier x = score_of_row(d, f, limit, i);
        score[n++] = x.score;
        if (list.limit == 0 || (list.full && by_score(&x, &list.at[list.limit - 1]) > 0)) continue;
        list.at[list.count++] = x;
        if (list.count == 2 * list.limit) cut_outliers(&list);
    }
    cut_outliers(&list);
    out->outliers = list.count;
    if (n) {
        const double upper = (double)gf_kth_largest(score, n, (n + 3) / 4), lower = (double)gf_kth_largest(score, n, n - n / 4);
        out->outlier_limit = lower - 1.5 * (upper - lower);
    }
    for (int64_t k = 0; k < n; k++) out->outliers_found += (double)score[k] < out->outlier_limit;
    free(score);
    return GLOFND_OK;
}

/* ---------- leaks ---------- */

/* Leaks between splits: how many rows of a split have a duplicate in another one, and which; see decide.h. */

typedef struct split_bits { /* bit k: split k has one row of the set; two or more */
    uint32_t one, two;
} split_bits;

/* set [n]: the set of a position, -1: none. Counts rows of split a whose set has a row of split b. */
static void count_leaks(const gf_decide_spec *c, const gf_discover_data *d, const int32_t *set, split_bits *s,
                        int64_t leak[GF_SPLITS_MAX][GF_SPLITS_MAX]) {
    for (int64_t i = 0; i < d->good_n; i++) {
        const int split = gf_split_of(c, d->good[i]);
        if (set[i] < 0 || split < 0) continue;
        s[set[i]].two |= s[set[i]].one & 1u << split;
        s[set[i]].one |= 1u << split;
    }
    for (int64_t i = 0; i < d->good_n; i++) {
        const int split = gf_split_of(c, d->good[i]);
        if (set[i] < 0 || split < 0) continue;
        for (int b = 0; b < c->splits; b++) leak[split][b] += (b == split ? s[set[i]].two : s[set[i]].one) >> b & 1;
    }
}

/* ----- rows that no listed pair shows ----- */

typedef struct leak_rows {
    const gf_decide_spec *c;
    const gf_discover_data *d;
    const gf_discover_result *r;
    const int32_t *set; /* [good_n] -1: none */
    uint32_t *shown;    /* [good_n] bit k: a listed pair connects the position with split k */
    int32_t *first;     /* [sets][splits] lowest position of a split in the set, -1: none */
    gf_decisions *out;
    size_t capacity;
} leak_rows;

static void show_pair(leak_rows *x, int64_t i, int64_t j) {
    const int a = gf_split_of(x->c, x->d->good[i]), b = gf_split_of(x->c, x->d->good[j]);
    if (a < 0 || b < 0) return;
    x->shown[i] |= 1u << b;
    x->shown[j] |= 1u << a;
}

static glofnd_status add_unlisted(gf_error *err, leak_rows *x) {
    gf_decisions *out = x->out;
    for (int64_t i = 0; i < x->d->good_n; i++) {
        const int split = gf_split_of(x->c, x->d->good[i]);
        for (int b = 0; b < x->c->splits && split >= 0 && x->set[i] >= 0; b++) {
            const int32_t j = x->first[(int64_t)x->set[i] * x->c->splits + b];
            if (b == split || j < 0 || x->shown[i] >> b & 1) continue;
            FAIL_IF(err, !gf_grow(&out->unlisted, &x->capacity, (size_t)out->unlisted_count + 1, sizeof *out->unlisted),
                    GLOFND_E_MEMORY, "no memory for leaks");
            out->unlisted[out->unlisted_count++] = (gf_leak_pair){(int32_t)i, j};
            show_pair(x, i, j);
        }
    }
    return GLOFND_OK;
}

static glofnd_status decide_leaks(gf_error *err, const gf_decide_spec *c, const gf_discover_spec *spec, const gf_discover_data *d,
                                  const gf_discover_result *r, gf_decisions *out) {
    if (!c->splits) return GLOFND_OK;
    split_bits *s = calloc((size_t)(d->good_n + 1), sizeof *s);
    FAIL_IF(err, !s, GLOFND_E_MEMORY, "no memory for splits of %lld rows", (long long)d->good_n);
    count_leaks(c, d, r->groups.of, s, out->leak);
    memset(s, 0, (size_t)(d->good_n + 1) * sizeof *s);
    count_leaks(c, d, d->copy_of, s, out->exact);
    free(s);
    leak_rows x = {.c = c, .d = d, .r = r, .out = out};
    const int exact = spec->dup_exact;
    const int64_t sets = exact ? x.d->good_n : x.r->groups.count;
    const size_t firsts = (size_t)(sets * x.c->splits);
    x.set = exact ? x.d->copy_of : x.r->groups.of;
    x.shown = calloc((size_t)x.d->good_n + 1, sizeof *x.shown);
    x.first = malloc((firsts + 1) * sizeof *x.first);
    glofnd_status status = GLOFND_OK;
    if (!x.shown || !x.first) status = gf_fail(err, GLOFND_E_MEMORY, "no memory for leaks of %lld rows", (long long)x.d->good_n);
    for (size_t i = 0; i < firsts && x.first; i++) x.first[i] = -1;
    if (status == GLOFND_OK) {
        /* The pairs that the list has, as discover_files.c writes it. */
        const float limit = gf_discover_dup(spec, x.d->dim);
        const gf_pairs_found *f = &x.r->f;
        for (int64_t i = 0; i < f->n && exact; i++)
            if (x.d->copy_of[i] != i) show_pair(&x, i, x.d->copy_of[i]);
        for (int64_t i = 0; i < f->n && !exact; i++)
            for (int64_t k = 0; k < f->top && f->similarity[i * f->top + k] >= limit; k++)
                show_pair(&x, i, f->other[i * f->top + k]);
        for (int64_t i = x.d->good_n - 1; i >= 0; i--) {
            const int split = gf_split_of(x.c, x.d->good[i]);
            if (split >= 0 && x.set[i] >= 0) x.first[(int64_t)x.set[i] * x.c->splits + split] = (int32_t)i;
        }
        status = add_unlisted(err, &x);
    }
    free(x.shown);
    free(x.first);
    return status;
}

/* ---------- a subset ---------- */

/* A diverse subset by greedy k-centre; see decide.h.
 *
 * The first centre is the kept row most similar to the mean direction of all kept rows. Each further one is the row whose most
 * similar centre is least similar; of equal ones the lowest row. So the first N of a larger subset are the subset of N rows.
 */

enum { COVER_BLOCK = 1024 };

typedef struct cover {
    const gf_decide_spec *c;
    const gf_discover_spec *s;
    const gf_discover_data *d;
    const int32_t *kept; /* [good_n] its own position: kept */
    double *scale;       /* [good_n] 1 / length of the row */
    double *near;        /* [good_n] similarity to the most similar centre; INFINITY: not kept, or chosen */
    double *centre;      /* [dim] of length 1 */
    float *row;          /* [dim] */
    int first;           /* the mean is no centre: near is overwritten */
    const row_piece *piece;
} cover;

static int is_kept(const cover *x, int64_t i) { return x->kept[i] == i; }

/* Sums in a fixed order, in lanes that the compiler can keep in vectors. */
static double dot_with_centre(const float *row, const double *centre, int64_t dim) {
    double sum[LANES] = {0}, rest = 0.0;
    int64_t k = 0;
    for (; k + LANES <= dim; k += LANES)
        for (int l = 0; l < LANES; l++) sum[l] += (double)row[k + l] * centre[k + l];
    for (; k < dim; k++) rest += (double)row[k] * centre[k];
    for (int l = 0; l < LANES; l++) rest += sum[l];
    return rest;
}

static void compare_with_centre(void *arg, int64_t task, int thread) {
    cover *x = arg;
    const row_piece *p = x->piece;
    (void)thread;
    for (int64_t i = p->first + task * COVER_BLOCK; i < p->first + GF_MIN((task + 1) * COVER_BLOCK, p->count); i++) {
        if (!is_kept(x, i)) continue;
        const double v = dot_with_centre(gf_piece_row(p, i), x->centre, x->d->dim) * x->scale[i];
        x->near[i] = x->first ? v : fmax(x->near[i], v);
    }
}

static void set_scale(void *arg, int64_t task, int thread) {
    cover *x = arg;
    const row_piece *p = x->piece;
    (void)thread;
    for (int64_t i = p->first + task * COVER_BLOCK; i < p->first + GF_MIN((task + 1) * COVER_BLOCK, p->count); i++) {
        const float *row = gf_piece_row(p, i);
        double sum = 0.0;
        for (int64_t k = 0; k < x->d->dim; k++) sum += (double)row[k] * (double)row[k];
        x->scale[i] = 1.0 / sqrt(sum);
    }
}

static int64_t blocks_of(const row_piece *p) { return (p->count + COVER_BLOCK - 1) / COVER_BLOCK; }

static void compare_piece(void *user, const row_piece *p) {
    cover *x = user;
    x->piece = p;
    gf_parallel(x->s->task.threads, blocks_of(p), compare_with_centre, x);
}

/* Scales, and the sum of the kept rows in x->centre. */
static void add_piece(void *user, const row_piece *p) {
    cover *x = user;
    x->piece = p;
    gf_parallel(x->s->task.threads, blocks_of(p), set_scale, x);
    for (int64_t i = p->first; i < p->first + p->count; i++)
        for (int64_t k = 0; is_kept(x, i) && k < x->d->dim; k++) x->centre[k] += (double)gf_piece_row(p, i)[k] * x->scale[i];
}

/* The kept row whose similarity is largest (sign 1) or smallest (-1). */
static int64_t extreme_row(const cover *x, double sign) {
    int64_t best = -1;
    for (int64_t i = 0; i < x->d->good_n; i++)
        if (is_kept(x, i) && (best < 0 || sign * x->near[i] > sign * x->near[best])) best = i;
    return best;
}

static glofnd_status visit_all(gf_error *err, cover *x, row_visit *visit) {
    return gf_decide_visit_rows(err, x->c, x->s, x->d, visit, x);
}

static glofnd_status pick_centres(gf_error *err, cover *x, gf_decisions *out) {
    for (int64_t k = 0; k < x->d->dim; k++) x->centre[k] = 0.0;
    TRY(visit_all(err, x, add_piece));
    x->first = 1;
    TRY(visit_all(err, x, compare_piece));
    int64_t next = extreme_row(x, 1.0);
    for (int64_t k = 0; k < out->samples; k++) {
        out->sample[k] = (int32_t)next;
        /* One row, to out [dim]. */
        const gf_discover_data *d = x->d;
        float *row_out = x->row;
        const int64_t row = d->good[next];
        if (!d->x) TRY(x->c->rows->read(err, x->c->rows->user, row, 1, row_out));
        else memcpy(row_out, d->x + row * d->dim, (size_t)d->dim * sizeof *row_out);
        for (int64_t m = 0; m < x->d->dim; m++) x->centre[m] = (double)x->row[m] * x->scale[next];
        x->first = k == 0;
        TRY(visit_all(err, x, compare_piece));
        x->near[next] = INFINITY; /* not chosen again, whatever rounding says */
        next = extreme_row(x, -1.0);
        FAIL_IF(err, gf_job_stopped(&x->s->task.watch), GLOFND_E_CANCELLED, "cancelled");
    }
    out->sample_reach = fmin(x->near[next], 1.0);
    return GLOFND_OK;
}

/* d with its rows in memory, if they fit: N passes over them are not N passes over files. */
static glofnd_status load_rows_if_they_fit(gf_error *err, cover *x, gf_discover_data *loaded) {
    const double bytes = 4.0 * (double)x->d->n * (double)x->d->dim;
    *loaded = *x->d;
    if (x->d->x || bytes > (double)x->s->task.memory) return GLOFND_OK;
    loaded->x = malloc((size_t)bytes);
    if (!loaded->x) return GLOFND_OK; /* it works without */
    const glofnd_status status = x->c->rows->read(err, x->c->rows->user, 0, x->d->n, loaded->x);
    x->d = loaded;
    return status;
}

/* ---------- all decisions ---------- */

const char *gf_keep_rule_name(gf_keep_rule rule) {
    static const char *const names[] = {"first", "central", "score", "largest", "label"};
    return (size_t)rule < sizeof names / sizeof *names ? names[rule] : NULL;
}

int gf_split_of(const gf_decide_spec *c, int64_t row) {
    for (int k = 0; k < c->splits; k++)
        if (row >= c->split[k].first && row - c->split[k].first < c->split[k].rows) return k;
    return -1;
}

static glofnd_status decide(gf_error *err, const gf_decide_spec *c, const gf_discover_spec *s, const gf_discover_data *d,
                            const gf_discover_result *r, gf_decisions *out) {
    TRY(c->most ? decide_kept_most(err, c, s, d, r, out) : decide_kept(err, c, s, d, r, out));
    if (!c->most) out->limit = (double)gf_discover_dup(s, d->dim);
    out->choices = gf_discover_dup_choices(s, r, out->choice);
    TRY(decide_outliers(err, c, s, d, r, out));
    FAIL_IF(err, c->pred_probs && !d->label, GLOFND_E_ARGUMENT, "probabilities of labels need the labels themselves");
    if (d->label) TRY(gf_label_issues(err, c, s, d, r, out));
    TRY(decide_leaks(err, c, s, d, r, out));
    /* value [good_n]: mean similarity to the others of a group of three or more rows; else 0. */
    gf_discover_data loaded = {0};
    if (!c->sample) return GLOFND_OK;
    FAIL_IF(err, !d->x && !c->rows, GLOFND_E_ARGUMENT, "sample needs the embeddings");
    cover sample_x = {.c = c, .s = s, .d = d, .kept = out->kept};
    sample_x.scale = malloc((size_t)d->good_n * sizeof *sample_x.scale);
    sample_x.near = malloc((size_t)d->good_n * sizeof *sample_x.near);
    sample_x.centre = malloc((size_t)d->dim * sizeof *sample_x.centre);
    sample_x.row = malloc((size_t)d->dim * sizeof *sample_x.row);
    out->samples = GF_MIN(c->sample, out->keep);
    out->sample = malloc((size_t)out->samples * sizeof *out->sample);
    glofnd_status sample_status = GLOFND_OK;
    if (!sample_x.scale || !sample_x.near || !sample_x.centre || !sample_x.row || !out->sample)
        sample_status = gf_fail(err, GLOFND_E_MEMORY, "no memory for a subset of %lld rows", (long long)out->keep);
    if (sample_status == GLOFND_OK) sample_status = load_rows_if_they_fit(err, &sample_x, &loaded);
    if (sample_status == GLOFND_OK) sample_status = pick_centres(err, &sample_x, out);
    if (loaded.x != d->x) free(loaded.x);
    free(sample_x.scale);
    free(sample_x.near);
    free(sample_x.centre);
    free(sample_x.row);
    return sample_status;
}

glofnd_status gf_decide(gf_error *err, const gf_decide_spec *c, const gf_discover_spec *s, const gf_discover_data *d,
                        const gf_discover_result *r, gf_decisions *out) {
    *out = (gf_decisions){0};
    const glofnd_status status = decide(err, c, s, d, r, out);
    if (status != GLOFND_OK) gf_decisions_free(out);
    return status;
}

void gf_decisions_free(gf_decisions *x) {
    free(x->kept);
    free(x->similarity);
    free(x->outlier);
    free(x->issue);
    free(x->sample);
    free(x->unlisted);
    *x = (gf_decisions){0};
}
