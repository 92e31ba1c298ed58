/* discover_page.c - see discover_page.h. */
#include "report/discover_page.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "io/file.h"
#include "report/explorer.h"
#include "util/array.h"

enum { SMALL = 32, SIDE = 64, FACTS = 13, FACT_TEXT = 48 };
#define TOP_MAX 40       /* neighbours of an anchor */
#define INLINE_BYTES 6e6 /* of data: a smaller page is one file */

typedef struct pages {
    const gf_discover_report *x;
    gf_sample sample;
    int64_t *part_pairs;
    int32_t *label; /* by position, like the following */
    const char **name;
    int32_t *other; /* [n][top + edge] */
    float *similarity;
    int32_t *nearest;
    float *nearest_similarity;
    gf_explorer_leak *leak;
    int64_t leaks;
    char text[FACTS][FACT_TEXT];
    const char *facts[2 * FACTS];
    int fact_count;
} pages;

/* ----- images ----- */

static int is_image_name(const char *name) {
    static const char *const ends[] = {".jpg", ".jpeg", ".png"};
    const size_t n = strlen(name);
    for (size_t k = 0; k < sizeof ends / sizeof *ends; k++)
        if (n > strlen(ends[k]) && strcasecmp(name + n - strlen(ends[k]), ends[k]) == 0) return 1;
    return 0;
}

/* Unreadable images are left out of the page. */
static int from_dataset(void *user, int64_t i, gf_image *out) {
    pages *p = user;
    const gf_decode_hint hint = {.fast = 1, .shrink_to = SIDE};
    gf_error ignored;
    p->sample.image = *out;
    /* The dataset of a row: they are in the order of rows. */
    const gf_discover_html *h = p->x->html;
    const int64_t row = p->x->d->good[i];
    int k = h->image_sets - 1;
    while (k > 0 && row < h->images[k].first) k--;
    const gf_row_images *set = &h->images[k];
    const int found = gf_dataset_read(&ignored, set->data, p->x->d->good[i] - set->first, &hint, &p->sample) == GLOFND_OK;
    *out = p->sample.image;
    p->sample.image = (gf_image){0};
    return found;
}

static int from_file(void *user, int64_t i, gf_image *out) {
    const pages *p = user;
    const char *name = p->x->d->name[p->x->d->good[i]];
    const gf_decode_hint hint = {.fast = 1, .shrink_to = SIDE};
    gf_error ignored;
    uint8_t *bytes = NULL;
    size_t capacity = 0, size = 0;
    const int found = is_image_name(name) &&
                      gf_file_read(&ignored, name, GF_FILE_BYTES_MAX, &bytes, &capacity, &size) == GLOFND_OK &&
                      gf_image_decode(&ignored, name, bytes, size, &hint, out) == GLOFND_OK;
    free(bytes);
    return found;
}

static int some_image_names(const gf_discover_data *d) {
    enum { CHECKED = 1000 };
    for (int64_t i = 0; d->name && i < d->good_n && i < CHECKED; i++)
        if (is_image_name(d->name[d->good[i]])) return 1;
    return 0;
}

static const char *class_of(void *user, int32_t label) {
    const pages *p = user;
    const gf_string_list *classes = &p->x->d->classes;
    if (classes->n) return label < classes->n ? gf_string_list_get(classes, label) : NULL;
    return gf_dataset_class(p->x->html->images[0].data, label);
}

/* ----- facts ----- */

static char *add_fact(pages *p, const char *what) {
    p->facts[2 * p->fact_count] = p->text[p->fact_count], p->facts[2 * p->fact_count + 1] = what;
    return p->text[p->fact_count++];
}

/* A count with commas between thousands. */
static void add_count(pages *p, const char *what, int64_t count) {
    char digits[FACT_TEXT / 2], *text = add_fact(p, what);
    size_t used = 0;
    const size_t n = (size_t)snprintf(digits, sizeof digits, "%lld", (long long)count);
    for (size_t i = 0; i < n; i++) {
        if (i > 0 && (n - i) % 3 == 0) text[used++] = ',';
        text[used++] = digits[i];
    }
    text[used] = 0;
}

/* ----- by position ----- */

/* Neighbours: the `top` most similar, and those just below the threshold that are not among them. */
static int copy_neighbours(pages *p, int64_t top) {
    const gf_pairs_found *f = &p->x->r->f;
    const int64_t edge = GF_MIN(f->below, GF_PAGE_BELOW), wide = top + edge;
    p->other = malloc((size_t)(f->n * wide + 1) * sizeof *p->other);
    p->similarity = malloc((size_t)(f->n * wide + 1) * sizeof *p->similarity);
    if (!p->other || !p->similarity) return 0;
    for (int64_t i = 0; i < f->n; i++) {
        int32_t *other = p->other + i * wide;
        float *similarity = p->similarity + i * wide;
        int64_t used = 0, below = 0;
        for (int64_t k = 0; k < top && f->other[i * f->top + k] >= 0; k++, used++) {
            other[used] = f->other[i * f->top + k], similarity[used] = f->similarity[i * f->top + k];
            below += !(similarity[used] > f->lambda[i]);
        }
        for (int64_t e = below; e < edge && f->below_other[i * f->below + e] >= 0; e++, used++)
            other[used] = f->below_other[i * f->below + e], similarity[used] = f->below_similarity[i * f->below + e];
        for (; used < wide; used++) other[used] = -1, similarity[used] = NAN;
    }
    return 1;
}

static int copy_rows(pages *p) {
    const gf_discover_data *d = p->x->d;
    const gf_components *parts = &p->x->r->parts;
    p->part_pairs = malloc((size_t)(parts->count + 1) * sizeof *p->part_pairs);
    if (d->label) p->label = malloc((size_t)d->good_n * sizeof *p->label);
    if (d->name) p->name = malloc((size_t)d->good_n * sizeof *p->name);
    if (!p->part_pairs || (d->label && !p->label) || (d->name && !p->name)) return 0;
    for (int64_t k = 0; k < parts->count; k++) p->part_pairs[k] = parts->part[k].edges;
    for (int64_t i = 0; d->label && i < d->good_n; i++) p->label[i] = d->label[d->good[i]];
    for (int64_t i = 0; d->name && i < d->good_n; i++) p->name[i] = d->name[d->good[i]];
    return 1;
}

static int copy_nearest(pages *p) {
    const gf_pairs_found *f = &p->x->r->f;
    if (f->top == 0) return 1;
    p->nearest = malloc((size_t)f->n * sizeof *p->nearest);
    p->nearest_similarity = malloc((size_t)f->n * sizeof *p->nearest_similarity);
    if (!p->nearest || !p->nearest_similarity) return 0;
    for (int64_t i = 0; i < f->n; i++) p->nearest[i] = f->other[i * f->top], p->nearest_similarity[i] = f->similarity[i * f->top];
    return 1;
}

static void add_leak(pages *p, int64_t i, int64_t j, float similarity) {
    const gf_decide_spec *c = p->x->decide;
    const int a = gf_split_of(c, p->x->d->good[i]), b = gf_split_of(c, p->x->d->good[j]);
    if (a < 0 || b < 0 || a == b || p->leaks == GF_CHUNK_LISTED) return;
    p->leak[p->leaks++] = (gf_explorer_leak){(int32_t)i, (int32_t)j, similarity, gf_discover_exact(p->x->d, p->x->r, i, j), a, b};
}

/* As leaks.tsv, from its beginning. */
static int find_leaks(pages *p) {
    const gf_discover_report *x = p->x;
    const gf_pairs_found *f = &x->r->f;
    const float limit = gf_discover_dup(x->s, x->d->dim);
    if (!x->decisions || !x->decide->splits) return 1;
    p->leak = malloc(GF_CHUNK_LISTED * sizeof *p->leak);
    if (!p->leak) return 0;
    for (int64_t i = 0; i < f->n; i++) {
        if (x->s->dup_exact && x->d->copy_of[i] != i) add_leak(p, x->d->copy_of[i], i, 1.0f);
        for (int64_t k = 0; k < f->top && f->similarity[i * f->top + k] >= limit; k++)
            if (gf_discover_canonical(f, i, k)) add_leak(p, i, f->other[i * f->top + k], f->similarity[i * f->top + k]);
    }
    return 1;
}

static glofnd_status write_page(gf_error *err, const char *path, pages *p, const char *summary) {
    const gf_discover_report *x = p->x;
    const gf_discover_result *r = x->r;
    const gf_pairs_found *f = &r->f;
    int64_t shown = 0;
    const int64_t edge = GF_MIN(f->below, GF_PAGE_BELOW), wanted = edge + GF_MIN(f->top, TOP_MAX);
    const int64_t fits = gf_explorer_top(f->n, wanted, x->html->bytes), top = fits > edge ? fits - edge : 0;
    FAIL_IF(err, !copy_rows(p) || !copy_neighbours(p, top) || !copy_nearest(p) || !find_leaks(p), GLOFND_E_MEMORY,
            "no memory for a page of %lld anchors", (long long)f->n);
    const gf_discover_result *result = p->x->r;
    const gf_discover_data *d = p->x->d;
    add_count(p, "embeddings compared", d->good_n);
    add_count(p, "exact copies", d->good_n - d->distinct);
    add_count(p, "groups of duplicates", result->groups.count);
    if (p->x->decisions) add_count(p, "rows to keep", p->x->decisions->keep);
    if (p->x->decisions) add_count(p, "rows to remove", p->x->decisions->duplicates + p->x->decisions->bad);
    if (p->x->decisions) add_count(p, "outliers", p->x->decisions->outliers_found);
    if (p->x->decisions && d->label) add_count(p, "label issues", p->x->decisions->issues);
    add_count(p, "pairs above a threshold", result->above);
    add_count(p, "mutual pairs", result->mutual_pairs);
    add_count(p, "connected components", result->parts.count);
    snprintf(add_fact(p, "mean threshold"), FACT_TEXT, "%.4f", result->lambda.mean);
    if (result->quality.anchors) {
        snprintf(add_fact(p, "precision by labels"), FACT_TEXT, "%.2f %%", 100.0 * result->quality.precision);
        snprintf(add_fact(p, "recall by labels"), FACT_TEXT, "%.2f %%", 100.0 * result->quality.recall);
    }
    gf_explorer page = {
        .source = x->source,
        .summary = summary,
        .n = f->n,
        .top = top + edge,
        .row = x->d->good,
        .lambda = f->lambda,
        .above = f->above,
        .mutual = f->mutual,
        .other = p->other,
        .similarity = p->similarity,
        .component = r->parts.of,
        .group = r->groups.of,
        .components = r->parts.count,
        .groups = r->groups.count,
        .component_pairs = p->part_pairs,
        .copy_of = x->d->copy_of,
        .label = p->label,
        .name = p->name,
        .decide = x->decide,
        .decisions = x->decisions,
        .nearest = p->nearest,
        .nearest_similarity = p->nearest_similarity,
        .leak = p->leak,
        .leaks = p->leaks,
        .facts = p->facts,
        .fact_count = p->fact_count,
        .user = p,
        .image_bytes = x->html->bytes,
        .inline_bytes = INLINE_BYTES,
    };
    page.side = SIDE;
    if (x->d->classes.n || x->html->image_sets) page.class_name = class_of;
    if (!x->html->image_sets) {
        if (some_image_names(x->d)) page.image = from_file;
    } else {
        int small = 1;
        for (int k = 0; k < x->html->image_sets; k++) {
            const gf_dataset_info info = gf_dataset_describe(x->html->images[k].data);
            small &= info.width > 0 && info.width <= SMALL && info.height <= SMALL;
        }
        if (small) page.side = SMALL;
        page.image = from_dataset;
    }
    return gf_explorer_write(err, path, &page, &shown);
}

glofnd_status gf_discover_write_html(gf_error *err, const char *path, const gf_discover_report *x) {
    pages p = {.x = x};
    gf_text summary = {0};
    gf_discover_summary(&summary, x);
    const glofnd_status status = write_page(err, path, &p, summary.at ? summary.at : "");
    gf_text_free(&summary);
    gf_sample_free(&p.sample);
    free(p.part_pairs);
    free(p.label);
    free(p.name);
    free(p.other);
    free(p.similarity);
    free(p.nearest);
    free(p.nearest_similarity);
    free(p.leak);
    return status;
}
