/* substitute.c - see substitute.h. */
#include "loader/substitute.h"

#include <stdlib.h>

#include "loader/make_sample.h"

typedef struct search {
    gf_prefetch *p;
    gf_worker *w;
    gf_slot *s;
    int64_t whole; /* places of a batch, of all ranks */
} search;

static int goes_on(const search *a) { return a->s->status == GLOFND_OK && !gf_prefetch_cancelled(a->p); }

/* Is it a sample? What is no damage ends the search. */
static int is_good(const search *a, int64_t item, const gf_made *made) {
    a->s->read_seconds += made->read_seconds;
    a->s->augment_seconds += made->augment_seconds;
    if (made->status != GLOFND_OK && !made->damaged) gf_make_error(a->s, item, made->status, &made->why);
    return made->status == GLOFND_OK;
}

static int make(const search *a, int64_t position, int64_t item) {
    const gf_made made = gf_make_make(a->p, a->w, a->s, position, item);
    return is_good(a, item, &made);
}

/* Only whether it can be read; `item` is a place still to be filled. */
static int look(const search *a, int64_t position, int64_t item) {
    const gf_made made = gf_make_look(a->p, a->w, a->s, position, item);
    return is_good(a, item, &made);
}

/* ----- the row of a place ----- */

static int64_t row_length(const search *a, int64_t place) { return (a->p->n - place + a->whole - 1) / a->whole; }

/* 0: the place itself; its substitutes follow. */
static int64_t row_at(const search *a, int64_t place, int64_t k) {
    return (a->s->step + k) % row_length(a, place) * a->whole + place;
}

static int fill_from_row(const search *a, int64_t item) {
    const int64_t place = a->p->spec.first + item;
    for (int64_t k = 1; k < row_length(a, place) && goes_on(a); k++)
        if (make(a, row_at(a, place, k), item)) return 1;
    return 0;
}

/* ----- what the rows leave ----- */

typedef struct rest {
    uint8_t *taken; /* [n] bits: positions that a row gives to its place */
    int64_t *needy; /* [whole] places without, in order */
    int64_t count;
    int64_t next; /* positions after the batch that were tried */
} rest;

static int is_taken(const rest *r, int64_t at) { return r->taken[at / 8] >> (at % 8) & 1; }

/* What every place of the batch has, also those of other ranks. `item`: to be filled. */
static void look_at_all(const search *a, int64_t item, rest *r) {
    for (int64_t place = 0; place < a->whole && goes_on(a); place++) {
        int64_t k = 0;
        const int64_t length = row_length(a, place);
        while (k < length && goes_on(a) && !look(a, row_at(a, place, k), item)) k++;
        const int64_t at = row_at(a, place, k);
        if (k < length) r->taken[at / 8] |= (uint8_t)(1 << at % 8);
        else r->needy[r->count++] = place;
    }
}

static void too_few(const search *a, int64_t item, int64_t good) {
    gf_error why;
    const char *first = a->s->damage[0].why.text; /* cut so that all fits */
    if (good == 0) gf_fail(&why, GLOFND_E_FORMAT, "all %lld samples are damaged; the first: %.300s", (long long)a->p->n, first);
    else
        gf_fail(&why, GLOFND_E_FORMAT, "only %lld of %lld samples can be read, too few for a batch of %lld; the first: %.250s",
                (long long)good, (long long)a->p->n, (long long)a->whole, first);
    gf_make_error(a->s, item, GLOFND_E_FORMAT, &why);
}

/* The next that is left, for a place of this rank (mine) or of another; `item`: to be filled. 0: there is none. */
static int take_next(const search *a, rest *r, int64_t item, int mine) {
    while (r->next < a->p->n - a->whole && goes_on(a)) {
        const int64_t at = ((a->s->step + 1) * a->whole + r->next++) % a->p->n;
        if (!is_taken(r, at) && (mine ? make(a, at, item) : look(a, at, item))) return 1;
    }
    return 0;
}

/* gap [gaps]: own places, in order, whose rows have nothing. */
static void share_out(const search *a, rest *r, const int64_t *gap, int64_t gaps) {
    int64_t filled = 0;
    look_at_all(a, gap[0], r);
    for (int64_t i = 0; i < r->count && filled < gaps && goes_on(a); i++) {
        const int mine = r->needy[i] == a->p->spec.first + gap[filled];
        if (take_next(a, r, gap[filled], mine)) filled += mine;
        else if (goes_on(a)) too_few(a, gap[filled], a->whole - r->count + i);
    }
}

static void fill_from_rest(const search *a, const int64_t *gap, int64_t gaps) {
    gf_error why;
    rest r = {.taken = calloc((size_t)a->p->n / 8 + 1, 1), .needy = malloc((size_t)a->whole * sizeof *r.needy)};
    if (r.taken && r.needy) share_out(a, &r, gap, gaps);
    else gf_make_error(a->s, gap[0], gf_fail(&why, GLOFND_E_MEMORY, "no memory to replace damaged samples"), &why);
    free(r.taken);
    free(r.needy);
}

void gf_replace(gf_prefetch *p, gf_worker *w, gf_slot *s) {
    const search a = {p, w, s, gf_prefetch_whole(&p->spec)};
    gf_error why;
    int64_t *gap = malloc((size_t)s->damages * sizeof *gap), gaps = 0;
    if (!gap) gf_make_error(s, s->damage[0].item, gf_fail(&why, GLOFND_E_MEMORY, "no memory to replace damaged samples"), &why);
    for (int64_t i = 0; i < s->damages && goes_on(&a); i++)
        if (!fill_from_row(&a, s->damage[i].item)) gap[gaps++] = s->damage[i].item;
    if (gaps > 0 && goes_on(&a)) fill_from_rest(&a, gap, gaps);
    free(gap);
}
