/* explorer_lists.c - lists of a page in pieces of GF_CHUNK_ITEMS items; see explorer_chunks.h. An anchor in a list is [position,
 * row, label, picture, 1 if it is removed, name]: what a tile needs. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "report/explorer_chunks.h"
#include "util/array.h"

typedef struct lists {
    gf_chunks *c;
    const gf_explorer *x;
    const int32_t *slot;
} lists;

static void add_anchor(const lists *l, int64_t i) {
    const gf_explorer *x = l->x;
    gf_text_add(&l->c->text, "[%lld,%d,%d,%d,%d", (long long)i, (int)x->row[i], x->label ? (int)x->label[i] : -1,
                l->slot ? (int)l->slot[i] : -1, x->decisions && x->decisions->kept[i] != i);
    if (x->name) {
        gf_text_add(&l->c->text, ",");
        gf_chunk_add_string(&l->c->text, x->name[i]);
    }
    gf_text_add(&l->c->text, "]");
}

/* Calls `add` for items 0 .. count-1 of the list. */
static void put_list(lists *l, const char *kind, int64_t count, void (*add)(const lists *l, int64_t k, const void *arg),
                     const void *arg) {
    const int64_t shown = GF_MIN(count, GF_CHUNK_LISTED);
    for (int64_t from = 0; from < shown && !l->c->error; from += GF_CHUNK_ITEMS) {
        gf_chunk_begin(l->c, kind, from / GF_CHUNK_ITEMS);
        for (int64_t k = from; k < GF_MIN(from + GF_CHUNK_ITEMS, shown); k++) {
            gf_text_add(&l->c->text, k > from ? ",\n" : "[");
            add(l, k, arg);
        }
        gf_text_add(&l->c->text, "]");
        gf_chunk_end(l->c);
    }
}

/* ----- groups and components ----- */

typedef struct sets {
    int64_t *first;       /* [count + 1] of a set in member */
    int32_t *member;      /* positions, ascending */
    const int32_t *order; /* [count] sets as they are shown; NULL: by number */
    const int64_t *pairs; /* [count] or NULL */
} sets;

static int list_members(sets *s, const int32_t *of, int64_t n, int64_t count) {
    int64_t total = 0;
    for (int64_t i = 0; i < n; i++) total += of[i] >= 0;
    s->first = calloc((size_t)count + 2, sizeof *s->first);
    s->member = malloc((size_t)(total + 1) * sizeof *s->member);
    if (!s->first || !s->member) return 0;
    for (int64_t i = 0; i < n; i++)
        if (of[i] >= 0) s->first[of[i] + 1]++;
    for (int64_t g = 0; g < count; g++) s->first[g + 1] += s->first[g];
    for (int64_t i = 0; i < n; i++)
        if (of[i] >= 0) s->member[s->first[of[i]]++] = (int32_t)i;
    for (int64_t g = count; g > 0; g--) s->first[g] = s->first[g - 1];
    s->first[0] = 0;
    return 1;
}

/* [number, members, mutual pairs, some have equal bytes, labels differ, [anchors], [further positions]] */
static void add_set(const lists *l, int64_t k, const void *arg) {
    const sets *s = arg;
    const gf_explorer *x = l->x;
    const int64_t g = s->order ? s->order[k] : k, from = s->first[g], count = s->first[g + 1] - from;
    gf_text *t = &l->c->text;
    int exact = 0, differ = 0;
    for (int64_t m = from; m < from + count; m++) {
        exact |= x->copy_of[s->member[m]] != s->member[m];
        differ |= x->label && x->label[s->member[m]] != x->label[s->member[from]];
    }
    gf_text_add(t, "[%lld,%lld,%lld,%d,%d,[", (long long)g, (long long)count, s->pairs ? (long long)s->pairs[g] : 0LL, exact,
                differ);
    for (int64_t m = 0; m < GF_MIN(count, GF_CHUNK_MEMBERS); m++) {
        if (m) gf_text_add(t, ",");
        add_anchor(l, s->member[from + m]);
    }
    gf_text_add(t, "],[");
    for (int64_t m = GF_CHUNK_MEMBERS; m < GF_MIN(count, GF_CHUNK_MEMBERS_MAX); m++)
        gf_text_add(t, "%s%d", m > GF_CHUNK_MEMBERS ? "," : "", (int)s->member[from + m]);
    gf_text_add(t, "]]");
}

static void put_sets(lists *l, const char *kind, const int32_t *of, int64_t count, const int32_t *order, const int64_t *pairs) {
    sets s = {.order = order, .pairs = pairs};
    if (count > 0 && list_members(&s, of, l->x->n, count)) put_list(l, kind, count, add_set, &s);
    else if (count > 0) l->c->error = ENOMEM;
    free(s.first);
    free(s.member);
}

/* ----- decisions ----- */

/* [anchor, nearest one, similarity, threshold, is an outlier] */
static void add_outlier(const lists *l, int64_t k, const void *arg) {
    const gf_explorer *x = l->x;
    const gf_decisions *e = arg;
    const int64_t i = e->outlier[k];
    const double v = (double)x->nearest_similarity[i];
    gf_text_add(&l->c->text, "[");
    add_anchor(l, i);
    gf_text_add(&l->c->text, ",");
    add_anchor(l, x->nearest[i]);
    gf_text_add(&l->c->text, ",%.4f,%.4f,%d]", v, (double)x->lambda[i], v < e->outlier_limit);
}

/* [anchor, suggested label, score, votes, for it, for its own] */
static void add_issue(const lists *l, int64_t k, const void *arg) {
    const gf_label_issue *e = &((const gf_decisions *)arg)->issue[k];
    gf_text_add(&l->c->text, "[");
    add_anchor(l, e->position);
    gf_text_add(&l->c->text, ",%d,%.3f,%d,%d,%d]", (int)e->suggested, gf_label_issue_score(e), (int)e->votes, (int)e->best,
                (int)e->own);
}

/* [anchor, anchor, similarity, equal bytes, split, split] */
static void add_leak(const lists *l, int64_t k, const void *arg) {
    const gf_explorer_leak *e = (const gf_explorer_leak *)arg + k;
    gf_text_add(&l->c->text, "[");
    add_anchor(l, e->a);
    gf_text_add(&l->c->text, ",");
    add_anchor(l, e->b);
    gf_text_add(&l->c->text, ",%.4f,%d,%d,%d]", (double)e->similarity, e->exact, e->a_split, e->b_split);
}

void gf_chunks_put_lists(gf_chunks *c, const gf_explorer *x, const int32_t *slot, const int32_t *order) {
    lists l = {.c = c, .x = x, .slot = slot};
    put_sets(&l, "g", x->group, x->groups, order, NULL);
    put_sets(&l, "p", x->component, x->components, NULL, x->component_pairs);
    if (!x->decisions) return;
    if (x->nearest) put_list(&l, "o", x->decisions->outliers, add_outlier, x->decisions);
    put_list(&l, "l", x->decisions->issues, add_issue, x->decisions);
    put_list(&l, "k", x->leaks, add_leak, x->leak);
}
