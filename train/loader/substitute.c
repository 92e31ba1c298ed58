/* substitute.c - see substitute.h. */
#include "loader/substitute.h"

#include <stdlib.h>
#include <string.h>

#include "util/array.h"

/* ----- outcomes ----- */

/* The error of the first sample in a batch counts. */
static void set_error(gf_slot *s, int64_t item, glofnd_status status, const gf_error *why) {
    if (s->status != GLOFND_OK && s->error_item <= item) return;
    s->status = status;
    s->error = *why;
    s->error_item = item;
}

static void set_no_memory(gf_slot *s, int64_t item) {
    gf_error why;
    set_error(s, item, gf_fail(&why, GLOFND_E_MEMORY, "no memory to replace unreadable samples"), &why);
}

static void note_unreadable(gf_slot *s, int64_t item, const gf_made *made) {
    if (gf_grow(&s->unreadable, &s->unreadable_capacity, (size_t)s->unreadables + 1, sizeof *s->unreadable))
        s->unreadable[s->unreadables++] = (gf_unreadable_item){item, made->id, made->why};
    else set_no_memory(s, item);
}

void gf_slot_note(const gf_maker *m, gf_slot *s, int64_t item, const gf_made *made) {
    s->read_seconds += made->read_seconds;
    s->augment_seconds += made->augment_seconds;
    if (made->unreadable && !m->spec.strict) note_unreadable(s, item, made);
    else if (made->status != GLOFND_OK) set_error(s, item, made->status, &made->why);
}

/* ----- leaving out ----- */

static void move_item(const gf_loader_spec *spec, gf_slot *s, int64_t to, int64_t from) {
    const size_t side = (size_t)spec->augment.size, floats = side * side * 3, context = (size_t)spec->context;
    memcpy(s->view[0] + (size_t)to * floats, s->view[0] + (size_t)from * floats, floats * sizeof(float));
    s->id[to] = s->id[from];
    s->label[to] = s->label[from];
    if (!s->token) return;
    memcpy(s->token + (size_t)to * context, s->token + (size_t)from * context, context * sizeof *s->token);
    s->content[to] = s->content[from];
}

/* Closes the gaps that the unreadable samples left. */
static void leave_out(const gf_loader_spec *spec, gf_slot *s) {
    int64_t kept = 0, next = 0;
    for (int64_t item = 0; item < s->count; item++) {
        if (next < s->unreadables && s->unreadable[next].item == item) {
            next++;
            continue;
        }
        if (kept < item) move_item(spec, s, kept, item);
        kept++;
    }
    s->count = kept;
}

/* ----- substitutes ----- */

typedef struct search {
    const gf_maker *m;
    gf_worker *w;
    gf_slot *s;
    int64_t places; /* of a batch, of all ranks */
} search;

static int continues(const search *a) { return a->s->status == GLOFND_OK && !atomic_load(&a->m->cancelled); }

/* 1: a readable sample. Any error but an unreadable sample ends the search. */
static int is_readable(const search *a, int64_t item, const gf_made *made) {
    a->s->read_seconds += made->read_seconds;
    a->s->augment_seconds += made->augment_seconds;
    if (made->status != GLOFND_OK && !made->unreadable) set_error(a->s, item, made->status, &made->why);
    return made->status == GLOFND_OK;
}

static int make(const search *a, int64_t position, int64_t item) {
    const gf_made made = gf_make_sample(a->m, a->w, a->s, position, item);
    return is_readable(a, item, &made);
}

/* As make, without its views; `item` is a place still to be filled. */
static int probe(const search *a, int64_t position, int64_t item) {
    const gf_made made = gf_probe_sample(a->m, a->w, a->s, position, item);
    return is_readable(a, item, &made);
}

/* ----- the row of a place ----- */

static int64_t row_length(const search *a, int64_t place) { return (a->m->n - place + a->places - 1) / a->places; }

/* k = 0: the place itself; its substitutes follow. */
static int64_t row_at(const search *a, int64_t place, int64_t k) {
    return (a->s->step + k) % row_length(a, place) * a->places + place;
}

static int fill_from_row(const search *a, int64_t item) {
    const int64_t place = a->m->spec.offset + item;
    for (int64_t k = 1; k < row_length(a, place) && continues(a); k++)
        if (make(a, row_at(a, place, k), item)) return 1;
    return 0;
}

/* ----- the samples that rows leave over ----- */

typedef struct leftovers {
    uint8_t *taken; /* [n] bits: positions that a row gives to its place */
    int64_t *empty; /* [places] places whose row has no readable sample, in order */
    int64_t count;
    int64_t next; /* positions after the batch that were tried */
} leftovers;

/* Reads the rows of all places of the batch, also those of other ranks. `item`: to be filled. */
static void probe_rows(const search *a, int64_t item, leftovers *r) {
    for (int64_t place = 0; place < a->places && continues(a); place++) {
        int64_t k = 0;
        const int64_t length = row_length(a, place);
        while (k < length && continues(a) && !probe(a, row_at(a, place, k), item)) k++;
        const int64_t at = row_at(a, place, k);
        if (k < length) r->taken[at / 8] |= (uint8_t)(1 << at % 8);
        else r->empty[r->count++] = place;
    }
}

static void set_too_few(const search *a, int64_t item, int64_t readable) {
    gf_error why;
    const char *first = a->s->unreadable[0].why.text; /* cut so that all fits */
    if (readable == 0)
        gf_fail(&why, GLOFND_E_FORMAT, "all %lld samples are unreadable; the first: %.300s", (long long)a->m->n, first);
    else
        gf_fail(&why, GLOFND_E_FORMAT, "only %lld of %lld samples are readable, too few for a batch of %lld; the first: %.250s",
                (long long)readable, (long long)a->m->n, (long long)a->places, first);
    set_error(a->s, item, GLOFND_E_FORMAT, &why);
}

/* Takes the next leftover, for a place of this rank (mine) or of a different one; `item`: to be filled. 0: none is left. */
static int take_next(const search *a, leftovers *r, int64_t item, int mine) {
    while (r->next < a->m->n - a->places && continues(a)) {
        const int64_t at = ((a->s->step + 1) * a->places + r->next++) % a->m->n;
        const int taken = r->taken[at / 8] >> (at % 8) & 1;
        if (!taken && (mine ? make(a, at, item) : probe(a, at, item))) return 1;
    }
    return 0;
}

/* gap [gaps]: own places, in order, whose rows have no readable sample. */
static void share_leftovers(const search *a, leftovers *r, const int64_t *gap, int64_t gaps) {
    int64_t filled = 0;
    probe_rows(a, gap[0], r);
    for (int64_t i = 0; i < r->count && filled < gaps && continues(a); i++) {
        const int mine = r->empty[i] == a->m->spec.offset + gap[filled];
        if (take_next(a, r, gap[filled], mine)) filled += mine;
        else if (continues(a)) set_too_few(a, gap[filled], a->places - r->count + i);
    }
}

static void fill_from_leftovers(const search *a, const int64_t *gap, int64_t gaps) {
    leftovers r = {.taken = calloc((size_t)a->m->n / 8 + 1, 1), .empty = malloc((size_t)a->places * sizeof *r.empty)};
    if (r.taken && r.empty) share_leftovers(a, &r, gap, gaps);
    else set_no_memory(a->s, gap[0]);
    free(r.taken);
    free(r.empty);
}

static void replace(const gf_maker *m, gf_worker *w, gf_slot *s) {
    const search a = {m, w, s, gf_maker_global_batch(&m->spec)};
    int64_t *gap = malloc((size_t)s->unreadables * sizeof *gap), gaps = 0;
    if (!gap) set_no_memory(s, s->unreadable[0].item);
    for (int64_t i = 0; i < s->unreadables && continues(&a); i++)
        if (!fill_from_row(&a, s->unreadable[i].item)) gap[gaps++] = s->unreadable[i].item;
    if (gaps > 0 && continues(&a)) fill_from_leftovers(&a, gap, gaps);
    free(gap);
}

static int by_item(const void *a, const void *b) {
    const int64_t x = ((const gf_unreadable_item *)a)->item, y = ((const gf_unreadable_item *)b)->item;
    return x < y ? -1 : x > y;
}

void gf_slot_finish(const gf_maker *m, gf_worker *w, gf_slot *s) {
    if (s->status != GLOFND_OK || s->unreadables == 0) return;
    qsort(s->unreadable, (size_t)s->unreadables, sizeof *s->unreadable, by_item);
    if (gf_maker_in_order(&m->spec)) leave_out(&m->spec, s);
    else replace(m, w, s);
}
