/* decide_keep.c - the row that is kept of every group of duplicates; see decide.h. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "discover/decide.h"

typedef struct choice {
    const gf_decide_spec *c;
    const gf_discover_data *d;
    int64_t *first;  /* [groups + 1] of a group in member */
    int32_t *member; /* positions, ascending within a group */
    double *value;   /* [largest group] larger is kept */
    float *central;  /* [n] by position; NULL: not needed */
} choice;

/* ----- members ----- */

static void list_members(choice *x, const gf_components *groups, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        if (groups->of[i] >= 0) x->first[groups->of[i] + 1]++;
    for (int64_t g = 0; g < groups->count; g++) x->first[g + 1] += x->first[g];
    for (int64_t i = 0; i < n; i++)
        if (groups->of[i] >= 0) x->member[x->first[groups->of[i]]++] = (int32_t)i;
    for (int64_t g = groups->count; g > 0; g--) x->first[g] = x->first[g - 1];
    x->first[0] = 0;
}

/* ----- rules ----- */

static void value_central(choice *x, const int32_t *member, int64_t count) {
    for (int64_t m = 0; m < count; m++) x->value[m] = (double)x->central[member[m]];
}

static void value_score(choice *x, const int32_t *member, int64_t count) {
    for (int64_t m = 0; m < count; m++) {
        const double score = x->c->score[x->d->good[member[m]]];
        x->value[m] = isnan(score) ? -INFINITY : score;
    }
}

typedef struct label_place {
    int32_t label, place;
} label_place;

static int by_label(const void *a, const void *b) {
    const label_place *x = a, *y = b;
    if (x->label != y->label) return x->label < y->label ? -1 : 1;
    return (x->place > y->place) - (x->place < y->place);
}

/* 1 for the most frequent known label; of equally frequent ones that of the lowest row. */
static glofnd_status value_label(gf_error *err, choice *x, const int32_t *member, int64_t count) {
    label_place *l = malloc((size_t)count * sizeof *l);
    int64_t best = 0, best_place = 0, known = 0;
    int32_t label = -1;
    FAIL_IF(err, !l, GLOFND_E_MEMORY, "no memory for labels of a group");
    for (int64_t m = 0; m < count; m++)
        if (x->d->label[x->d->good[member[m]]] >= 0) l[known++] = (label_place){x->d->label[x->d->good[member[m]]], (int32_t)m};
    if (known) qsort(l, (size_t)known, sizeof *l, by_label);
    for (int64_t a = 0, b; a < known; a = b) {
        for (b = a + 1; b < known && l[b].label == l[a].label; b++) continue;
        if (b - a > best || (b - a == best && l[a].place < best_place)) best = b - a, best_place = l[a].place, label = l[a].label;
    }
    for (int64_t m = 0; m < count; m++) x->value[m] = label >= 0 && x->d->label[x->d->good[member[m]]] == label;
    free(l);
    return GLOFND_OK;
}

static glofnd_status value_members(gf_error *err, choice *x, const int32_t *member, int64_t count) {
    switch (x->c->keep) {
    case GF_KEEP_CENTRAL: value_central(x, member, count); break;
    case GF_KEEP_SCORE:
    case GF_KEEP_LARGEST: value_score(x, member, count); break;
    case GF_KEEP_LABEL: return value_label(err, x, member, count);
    case GF_KEEP_FIRST: memset(x->value, 0, (size_t)count * sizeof *x->value); break;
    }
    return GLOFND_OK;
}

/* Splits come first, then the rule, then the row. */
static int32_t best_member(const choice *x, const int32_t *member, int64_t count) {
    int64_t best = 0;
    unsigned best_split = (unsigned)gf_split_of(x->c, x->d->good[member[0]]);
    for (int64_t m = 1; m < count; m++) {
        const unsigned split = (unsigned)gf_split_of(x->c, x->d->good[member[m]]); /* none: after all others */
        if (split < best_split || (split == best_split && x->value[m] > x->value[best])) best = m, best_split = split;
    }
    return member[best];
}

static glofnd_status choose(gf_error *err, choice *x, const gf_discover_result *r, gf_decisions *out) {
    for (int64_t g = 0; g < r->groups.count; g++) {
        const int32_t *member = x->member + x->first[g];
        const int64_t count = x->first[g + 1] - x->first[g];
        TRY(value_members(err, x, member, count));
        const int32_t kept = best_member(x, member, count);
        for (int64_t m = 0; m < count; m++) out->kept[member[m]] = kept;
        out->duplicates += count - 1;
    }
    return GLOFND_OK;
}

static glofnd_status check_rule(gf_error *err, const gf_decide_spec *c, const gf_discover_data *d) {
    FAIL_IF(err, c->keep == GF_KEEP_LABEL && !d->label, GLOFND_E_ARGUMENT,
            "--keep label needs labels: give --labels, or --data of a dataset that has them");
    FAIL_IF(err, (c->keep == GF_KEEP_SCORE || c->keep == GF_KEEP_LARGEST) && !c->score, GLOFND_E_ARGUMENT,
            "--keep %s needs a number of each row", gf_keep_rule_name(c->keep));
    FAIL_IF(err, c->keep == GF_KEEP_CENTRAL && !d->x && !c->rows, GLOFND_E_ARGUMENT, "--keep central needs the embeddings");
    return GLOFND_OK;
}

glofnd_status gf_decide_keep(gf_error *err, const gf_decide_spec *c, const gf_discover_spec *s, const gf_discover_data *d,
                             const gf_discover_result *r, gf_decisions *out) {
    const int64_t largest = r->groups.count ? r->groups.part[0].nodes : 0, n = r->f.n;
    choice x = {.c = c, .d = d};
    TRY(check_rule(err, c, d));
    x.first = calloc((size_t)r->groups.count + 2, sizeof *x.first);
    x.member = malloc((size_t)(r->groups.nodes + 1) * sizeof *x.member);
    x.value = malloc((size_t)(largest + 1) * sizeof *x.value);
    const int central = c->keep == GF_KEEP_CENTRAL;
    if (central) x.central = malloc((size_t)(n + 1) * sizeof *x.central);
    out->kept = malloc((size_t)(n + 1) * sizeof *out->kept);
    glofnd_status status = GLOFND_OK;
    if (!x.first || !x.member || !x.value || (central && !x.central) || !out->kept)
        status = gf_fail(err, GLOFND_E_MEMORY, "no memory for groups of %lld rows", (long long)r->groups.nodes);
    if (central && status == GLOFND_OK) status = gf_decide_central(err, c, s, d, r, x.central);
    for (int64_t i = 0; status == GLOFND_OK && i < n; i++) out->kept[i] = (int32_t)i;
    if (status == GLOFND_OK) {
        list_members(&x, &r->groups, n);
        status = choose(err, &x, r, out);
    }
    out->keep = n - out->duplicates, out->bad = d->n - d->good_n;
    free(x.first);
    free(x.member);
    free(x.value);
    free(x.central);
    return status;
}
