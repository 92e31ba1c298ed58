/* explorer.c - see explorer.h: the page without its data, which explorer_chunks.c writes. */
#include "report/explorer.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "io/calls.h"
#include "io/jsonl.h"
#include "plot/base64.h"
#include "report/explorer_chunks.h"
#include "report/explorer_images.h"
#include "util/array.h"

extern const char gf_explorer_css[], gf_explorer_js[];

enum { NEIGHBOUR_BYTES = 6, ANCHOR_BYTES = 36 };

typedef struct page {
    FILE *f;
    const gf_explorer *x;
    int failed; /* out of memory */
} page;

/* Writes the text and frees it. */
static void flush_text(page *p, gf_text *t) {
    p->failed |= t->failed;
    if (t->at) fwrite(t->at, 1, t->used, p->f);
    gf_text_free(t);
}

/* ----- texts ----- */

/* Text between tags. Bytes that are not UTF-8, as in file names, and C1 controls become U+FFFD; line breaks stay. */
static void add_html(gf_text *t, const char *raw) {
    static const char replacement[] = "\\ufffd";
    while (*raw) {
        char one[GF_JSON_CHARACTER] = {0};
        const char *at = raw;
        const size_t n = gf_json_character(&raw, one);
        const int c1 = (unsigned char)at[0] == 0xc2 && (unsigned char)at[1] < 0xa0; /* control characters beyond ASCII */
        const int invalid = c1 || (n == sizeof replacement - 1 && memcmp(one, replacement, n) == 0);
        snprintf(one, sizeof one, "%.*s", (int)(raw - at), at);
        if (*at == '\n' || invalid) gf_text_add(t, invalid ? "\xef\xbf\xbd" : "\n");
        else gf_text_escape(t, one);
    }
}

/* Number of class names in the page. */
static int32_t labels_end(const gf_explorer *x) {
    enum { CLASSES_MAX = 100000 };
    int32_t end = 0;
    for (int64_t i = 0; x->label && x->class_name && i < x->n && end < CLASSES_MAX; i++)
        if (x->label[i] >= end) end = x->label[i] < CLASSES_MAX ? x->label[i] + 1 : CLASSES_MAX;
    return end;
}

static void add_numbers(gf_text *t, const char *key, const int64_t *at, int64_t n) {
    gf_text_add(t, ",\"%s\":[", key);
    for (int64_t k = 0; k < n; k++) gf_text_add(t, "%s%lld", k ? "," : "", (long long)at[k]);
    gf_text_add(t, "]");
}

/* Counts of thresholds in bins of equal width. */
static void add_histogram(gf_text *t, const gf_explorer *x) {
    enum { BINS = 60 };
    int64_t count[BINS] = {0};
    float low = x->lambda[0], high = low;
    for (int64_t i = 1; i < x->n; i++) low = fminf(low, x->lambda[i]), high = fmaxf(high, x->lambda[i]);
    const double span = high > low ? (double)high - (double)low : 1e-6;
    for (int64_t i = 0; i < x->n; i++) {
        const int64_t bin = (int64_t)(((double)x->lambda[i] - (double)low) / span * BINS);
        count[GF_MAX(0, GF_MIN(bin, BINS - 1))]++;
    }
    gf_text_add(t, ",\"low\":%.9g,\"span\":%.9g", (double)low, span);
    add_numbers(t, "bins", count, BINS);
}

/* Names of splits are plain words (programs/discover_decide.c). */
static void add_splits(gf_text *t, const gf_explorer *x) {
    const gf_decide_spec *c = x->decide;
    gf_text_add(t, ",\"splits\":[");
    for (int a = 0; a < c->splits; a++) {
        gf_text_add(t, a ? ",[" : "[");
        gf_chunk_add_string(t, c->split[a].name);
        gf_text_add(t, ",%lld", (long long)c->split[a].rows);
        for (int b = 0; b < c->splits; b++)
            gf_text_add(t, ",%lld,%lld", (long long)x->decisions->leak[a][b], (long long)x->decisions->exact[a][b]);
        gf_text_add(t, "]");
    }
    gf_text_add(t, "]");
}

static void add_decisions(gf_text *t, const gf_explorer *x) {
    const gf_decisions *e = x->decisions;
    if (!e) return;
    gf_text_add(t, ",\"decided\":1,\"keep\":%lld,\"duplicates\":%lld,\"bad\":%lld,\"rule\":\"%s\"", (long long)e->keep,
                (long long)e->duplicates, (long long)e->bad, gf_keep_rule_name(x->decide->keep));
    int64_t copies = 0;
    for (int64_t i = 0; i < x->n; i++) copies += x->copy_of[i] != i;
    gf_text_add(t, ",\"copies\":%lld", (long long)copies);
    gf_text_add(t, ",\"outliers\":%lld,\"found\":%lld,\"limit\":%.6g,\"issues\":%lld,\"leaks\":%lld",
                x->nearest ? (long long)e->outliers : 0LL, (long long)e->outliers_found, e->outlier_limit, (long long)e->issues,
                (long long)x->leaks);
    add_splits(t, x);
}

/* The anchor that the page shows first: the first of a group as they are shown, of a component, of all. */
static int64_t first_shown(const gf_explorer *x, const int32_t *order) {
    for (int64_t i = 0; i < x->n && x->groups > 0; i++)
        if (x->group[i] == order[0]) return i;
    for (int64_t i = 0; i < x->n && x->components > 0; i++)
        if (x->component[i] == 0) return i;
    return 0;
}

static void put_meta(page *p, const gf_chunks *c, int across, const int32_t *order) {
    const gf_explorer *x = p->x;
    const int32_t classes = labels_end(x);
    const int64_t each = gf_chunk_anchors(x);
    gf_text t = {0};
    gf_text_add(&t, "<script type=\"text/plain\" id=\"d-meta\">");
    gf_text_add(&t, "{\"n\":%lld,\"top\":%lld,\"across\":%d,\"names\":%d,\"labels\":%d,\"components\":%lld,\"groups\":%lld",
                (long long)x->n, (long long)x->top, across, x->name != NULL, x->label != NULL, (long long)x->components,
                (long long)x->groups);
    gf_text_add(&t, ",\"each\":%lld,\"items\":%d,\"listed\":%d,\"folder\":\"%s\",\"start\":%lld", (long long)each, GF_CHUNK_ITEMS,
                GF_CHUNK_LISTED, c->folder[0] ? GF_PAGE_FOLDER : "", (long long)first_shown(x, order));
    gf_text_add(&t, ",\"first\":[");
    for (int64_t i = 0; i < x->n; i += each) gf_text_add(&t, "%s%d", i ? "," : "", (int)x->row[i]);
    gf_text_add(&t, "],\"order\":[");
    for (int64_t k = 0; k < GF_MIN(x->groups, GF_CHUNK_LISTED); k++) gf_text_add(&t, "%s%d", k ? "," : "", (int)order[k]);
    gf_text_add(&t, "]");
    add_histogram(&t, x);
    add_decisions(&t, x);
    gf_text_add(&t, ",\"classes\":[");
    for (int32_t k = 0; k < classes; k++) {
        const char *name = x->class_name(x->user, k);
        if (k) gf_text_add(&t, ",");
        gf_chunk_add_string(&t, name ? name : "");
    }
    gf_text_add(&t, "]}</script>\n");
    flush_text(p, &t);
}

/* Duplicates as they are shown: those with equal bytes first. */
static int32_t *order_groups(const gf_explorer *x) {
    int32_t *order = malloc((size_t)(x->groups + 1) * sizeof *order);
    uint8_t *exact = calloc((size_t)x->groups + 1, 1);
    int64_t used = 0;
    for (int64_t i = 0; exact && i < x->n; i++)
        if (x->group[i] >= 0 && x->copy_of[i] != i) exact[x->group[i]] = 1;
    for (int want = 1; order && exact && want >= 0; want--)
        for (int64_t g = 0; g < x->groups; g++)
            if (exact[g] == want) order[used++] = (int32_t)g;
    if (!exact) {
        free(order);
        order = NULL;
    }
    free(exact);
    return order;
}

/* ----- page ----- */

/* pieces: some of its data are files beside it. Nothing else is loaded, and nothing from elsewhere. */
static void put_head(page *p, int pieces) {
    const gf_explorer *x = p->x;
    const char *beside = pieces ? " 'self' file:" : "";
    gf_text t = {0};
    gf_text_add(
        &t,
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta http-equiv=\"Content-Security-Policy\" "
        "content=\"default-src 'none'; img-src data: blob:%s; style-src 'unsafe-inline'; script-src 'unsafe-inline'%s\">\n",
        beside, beside);
    gf_text_add(&t, "<meta name=\"viewport\" "
                    "content=\"width=device-width, initial-scale=1\">\n<link rel=\"icon\" href=\"data:,\">\n<title>discover: ");
    add_html(&t, x->source);
    gf_text_add(&t, "</title>\n<style>\n%s</style>\n</head>\n<body>\n<header>\n<h1>False negatives and duplicates</h1>\n",
                gf_explorer_css);
    gf_text_add(&t, "<p class=\"soft small\">found by <b>glofnd discover</b> in ");
    add_html(&t, x->source);
    gf_text_add(
        &t, "</p>\n<p class=\"lead\">Every sample has its own similarity threshold. Samples above it probably show the same "
            "thing, and training should not push them apart: they are false negatives. Nearly equal samples are duplicates.</p>\n"
            "<div class=\"facts\">");
    for (int k = 0; k < x->fact_count; k++) {
        gf_text_add(&t, "<div class=\"fact\"><b>");
        add_html(&t, x->facts[2 * k]);
        gf_text_add(&t, "</b><span>");
        add_html(&t, x->facts[2 * k + 1]);
        gf_text_add(&t, "</span></div>");
    }
    gf_text_add(&t, "</div>\n</header>\n");
    flush_text(p, &t);
}

static void put_body(page *p, int64_t shown) {
    const gf_explorer *x = p->x;
    gf_text t = {0};
    gf_text_add(&t,
                "<div class=\"bar\"><div><div class=\"find\"><input type=\"search\" id=\"find\" autocomplete=\"off\" "
                "aria-label=\"search an anchor\" placeholder=\"search: row number%s\">"
                "<ul class=\"hits\" id=\"hits\"></ul></div><button id=\"previous\">previous</button>"
                "<button id=\"next\">next</button><button id=\"random\">random</button>"
                "<span class=\"tabs\" id=\"tabs\" role=\"tablist\"></span></div></div>\n",
                x->name    ? " or part of a name"
                : x->label ? " or label"
                           : "");
    gf_text_add(&t, "<main><noscript><p>This page needs JavaScript. The script is part of the page; nothing is loaded.</p>"
                    "</noscript>\n"
                    "<div class=\"cols\"><section class=\"panel\" id=\"gallery\"></section>"
                    "<section class=\"panel anchor\" id=\"anchor\" aria-live=\"polite\"></section></div></main>\n");
    gf_text_add(&t, "<footer><details><summary>Summary</summary><pre>");
    add_html(&t, x->summary);
    gf_text_add(&t, "</pre></details>\n<p class=\"soft small\">");
    if (x->top > 0) gf_text_add(&t, "At most %lld neighbours of each anchor. ", (long long)x->top);
    if (x->image && shown < x->n)
        gf_text_add(
            &t, "Thumbnails of %lld of %lld anchors, duplicates first: images are limited to %.3g MB of this page (--html-mb).",
            (long long)shown, (long long)x->n, (double)x->image_bytes / 1e6);
    else if (x->image) gf_text_add(&t, "Thumbnails of all anchors.");
    gf_text_add(&t, "</p></footer>\n");
    flush_text(p, &t);
}

int64_t gf_explorer_top(int64_t n, int64_t top, size_t bytes) {
    enum { TOP_MIN = 4 };
    const double each = (double)NEIGHBOUR_BYTES * 4.0 / 3.0, fixed = (double)n * ANCHOR_BYTES * 4.0 / 3.0;
    const double fit = ((double)bytes - fixed) / ((double)n * each);
    if (fit >= (double)top) return top;
    return fit > TOP_MIN ? (int64_t)fit : GF_MIN(top, TOP_MIN);
}

/* 1: the data fit into the page itself. */
static int is_small(const gf_explorer *x, const gf_explorer_images *m) {
    double bytes = (double)x->n * (ANCHOR_BYTES + NEIGHBOUR_BYTES * (double)x->top) * 4.0 / 3.0;
    for (int k = 0; k < m->sheets; k++) bytes += (double)GF_BASE64_BYTES(m->sheet_bytes[k]);
    return bytes <= x->inline_bytes;
}

/* The folder beside the page. */
static glofnd_status make_folder(gf_error *err, const char *path, gf_chunks *c) {
    const char *slash = strrchr(path, '/');
    const int used = snprintf(c->folder, sizeof c->folder, "%.*s" GF_PAGE_FOLDER, slash ? (int)(slash + 1 - path) : 0, path);
    FAIL_IF(err, used < 0 || (size_t)used >= sizeof c->folder - 32, GLOFND_E_ARGUMENT, "the path of the page is too long");
    FAIL_IF(err, mkdir(c->folder, 0777) != 0 && errno != EEXIST, GLOFND_E_IO, "'%.300s' cannot be created: %s", c->folder,
            strerror(errno));
    return GLOFND_OK;
}

static void put_page(page *p, gf_chunks *c, const gf_explorer_images *m, const int32_t *order) {
    put_head(p, c->folder[0] != 0);
    put_body(p, m->shown);
    put_meta(p, c, GF_EXPLORER_SHEET / p->x->side, order);
    gf_chunks_put_anchors(c, p->x, m->slot);
    gf_chunks_put_lists(c, p->x, m->slot, order);
    for (int k = 0; k < m->sheets; k++) gf_chunk_image(c, k, m->sheet[k], m->sheet_bytes[k]);
    fprintf(p->f, "<script>\n%s</script>\n</body>\n</html>\n", gf_explorer_js);
}

static glofnd_status write_files(gf_error *err, const char *path, const gf_explorer *x, const gf_explorer_images *m,
                                 const int32_t *order) {
    page p = {.x = x};
    gf_chunks c = {0};
    if (!is_small(x, m)) TRY(make_folder(err, path, &c));
    p.f = c.page = gf_stream_open(path, "w");
    FAIL_IF(err, !p.f, GLOFND_E_IO, "'%.300s' cannot be written: %s", path, strerror(errno));
    put_page(&p, &c, m, order);
    gf_text_free(&c.text);
    const int failed = ferror(p.f) | fclose(p.f);
    FAIL_IF(err, p.failed || c.error == ENOMEM, GLOFND_E_MEMORY, "no memory for a page of %lld anchors", (long long)x->n);
    FAIL_IF(err, failed || c.error, GLOFND_E_IO, "'%.300s' cannot be written: %s", path, strerror(c.error ? c.error : errno));
    return GLOFND_OK;
}

glofnd_status gf_explorer_write(gf_error *err, const char *path, const gf_explorer *x, int64_t *shown) {
    gf_explorer_images images = {0};
    FAIL_IF(err, x->n < 1 || x->n > GF_EXPLORER_MAX, GLOFND_E_ARGUMENT, "a page cannot have %lld anchors; expected 1 to %lld",
            (long long)x->n, (long long)GF_EXPLORER_MAX);
    TRY(gf_explorer_draw(err, x, &images));
    *shown = images.shown;
    int32_t *order = order_groups(x);
    const glofnd_status status = order ? write_files(err, path, x, &images, order)
                                       : gf_fail(err, GLOFND_E_MEMORY, "no memory for a page of %lld anchors", (long long)x->n);
    free(order);
    gf_explorer_images_free(&images);
    return status;
}
