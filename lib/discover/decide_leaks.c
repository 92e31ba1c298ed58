/* decide_leaks.c - leaks between splits: how many rows of a split have a duplicate in another one, and which; see decide.h. */
#include <stdlib.h>
#include <string.h>

#include "discover/decide.h"
#include "util/array.h"

typedef struct seen { /* bit k: split k has one row of the set; two or more */
    uint32_t one, two;
} seen;

/* set [n]: the set of a position, -1: none. Counts rows of split a whose set has a row of split b. */
static void count_leaks(const gf_decide_spec *c, const gf_discover_data *d, const int32_t *set, seen *s,
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

static void show(leak_rows *x, int64_t i, int64_t j) {
    const int a = gf_split_of(x->c, x->d->good[i]), b = gf_split_of(x->c, x->d->good[j]);
    if (a < 0 || b < 0) return;
    x->shown[i] |= 1u << b;
    x->shown[j] |= 1u << a;
}

/* The pairs that the list has, as decide_files.c writes it. */
static void show_listed(leak_rows *x, float limit, int exact) {
    const gf_pairs_found *f = &x->r->f;
    for (int64_t i = 0; i < f->n && exact; i++)
        if (x->d->copy_of[i] != i) show(x, i, x->d->copy_of[i]);
    for (int64_t i = 0; i < f->n && !exact; i++)
        for (int64_t k = 0; k < f->top && f->similarity[i * f->top + k] >= limit; k++) show(x, i, f->other[i * f->top + k]);
}

static void find_first(leak_rows *x) {
    for (int64_t i = x->d->good_n - 1; i >= 0; i--) {
        const int split = gf_split_of(x->c, x->d->good[i]);
        if (split >= 0 && x->set[i] >= 0) x->first[(int64_t)x->set[i] * x->c->splits + split] = (int32_t)i;
    }
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
            show(x, i, j);
        }
    }
    return GLOFND_OK;
}

static glofnd_status find_unlisted(gf_error *err, const gf_discover_spec *s, leak_rows *x) {
    const int exact = s->dup == GF_DUP_EXACT;
    const int64_t sets = exact ? x->d->good_n : x->r->groups.count;
    const size_t firsts = (size_t)(sets * x->c->splits);
    x->set = exact ? x->d->copy_of : x->r->groups.of;
    x->shown = calloc((size_t)x->d->good_n + 1, sizeof *x->shown);
    x->first = malloc((firsts + 1) * sizeof *x->first);
    glofnd_status status = GLOFND_OK;
    if (!x->shown || !x->first)
        status = gf_fail(err, GLOFND_E_MEMORY, "no memory for leaks of %lld rows", (long long)x->d->good_n);
    for (size_t i = 0; i < firsts && x->first; i++) x->first[i] = -1;
    if (status == GLOFND_OK) {
        show_listed(x, gf_discover_dup(s, x->d->dim), exact);
        find_first(x);
        status = add_unlisted(err, x);
    }
    free(x->shown);
    free(x->first);
    return status;
}

glofnd_status gf_decide_leaks(gf_error *err, const gf_decide_spec *c, const gf_discover_spec *spec, const gf_discover_data *d,
                              const gf_discover_result *r, gf_decisions *out) {
    if (!c->splits) return GLOFND_OK;
    seen *s = calloc((size_t)(d->good_n + 1), sizeof *s);
    FAIL_IF(err, !s, GLOFND_E_MEMORY, "no memory for splits of %lld rows", (long long)d->good_n);
    count_leaks(c, d, r->groups.of, s, out->leak);
    memset(s, 0, (size_t)(d->good_n + 1) * sizeof *s);
    count_leaks(c, d, d->copy_of, s, out->exact);
    free(s);
    leak_rows x = {.c = c, .d = d, .r = r, .out = out};
    return find_unlisted(err, spec, &x);
}
