/* explorer.c - see explorer.h. Arrays are in the page as base64 of little-endian int32, int16 or float32, each in a script
 * element that browsers do not run; so are the sprite sheets of explorer_images.c. */
#include "report/explorer/explorer.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/calls.h"
#include "io/json/jsonl.h"
#include "plot/base64.h"
#include "report/explorer/explorer_images.h"
#include "util/minmax.h"

extern const char gf_explorer_css[], gf_explorer_js[];

#define ABOVE 0x40000000u /* flags of a neighbour, beside its position */
#define MUTUAL 0x80000000u
#define SIMILARITY_SCALE 10000.0f /* similarities have four decimals */

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

/* ----- numbers ----- */

static void put_bytes(page *p, const char *id, const void *bytes, size_t n) {
    gf_text t = {0};
    fprintf(p->f, "<script type=\"text/plain\" id=\"%s\">", id);
    gf_text_base64(&t, bytes, n);
    flush_text(p, &t);
    fputs("</script>\n", p->f);
}

static void put_le(uint8_t *to, uint32_t value, int bytes) {
    for (int b = 0; b < bytes; b++) to[b] = (uint8_t)(value >> 8 * b);
}

typedef uint32_t (*gf_explorer_cell)(const gf_explorer *x, int64_t i);

/* `count` numbers of `bytes` bytes. */
static void put_array(page *p, const char *id, int64_t count, int bytes, gf_explorer_cell cell) {
    uint8_t *array = malloc((size_t)(count > 0 ? count : 1) * (size_t)bytes);
    if (!array) {
        p->failed = 1;
        return;
    }
    for (int64_t i = 0; i < count; i++) put_le(array + i * bytes, cell(p->x, i), bytes);
    put_bytes(p, id, array, (size_t)count * (size_t)bytes);
    free(array);
}

static uint32_t limited(int64_t value) { return value > INT32_MAX ? INT32_MAX : (uint32_t)value; }
static uint32_t row_cell(const gf_explorer *x, int64_t i) { return (uint32_t)x->row[i]; }
static uint32_t above_cell(const gf_explorer *x, int64_t i) { return limited(x->above[i]); }
static uint32_t mutual_cell(const gf_explorer *x, int64_t i) { return limited(x->mutual[i]); }
static uint32_t part_cell(const gf_explorer *x, int64_t i) { return (uint32_t)x->component[i]; }
static uint32_t group_cell(const gf_explorer *x, int64_t i) { return (uint32_t)x->group[i]; }
static uint32_t copy_cell(const gf_explorer *x, int64_t i) { return (uint32_t)x->copy_of[i]; }
static uint32_t label_cell(const gf_explorer *x, int64_t i) { return (uint32_t)x->label[i]; }

static uint32_t lambda_cell(const gf_explorer *x, int64_t i) {
    uint32_t bits;
    memcpy(&bits, &x->lambda[i], sizeof bits);
    return bits;
}

static uint32_t other_cell(const gf_explorer *x, int64_t cell) {
    const int32_t j = x->other[cell];
    const float v = x->similarity[cell];
    if (j < 0) return UINT32_MAX;
    const int above = v > x->lambda[cell / x->top];
    return (uint32_t)j | (above ? ABOVE : 0) | (above && v > x->lambda[j] ? MUTUAL : 0);
}

static uint32_t near_cell(const gf_explorer *x, int64_t cell) {
    const float v = x->similarity[cell];
    return isnan(v) ? 0 : (uint32_t)(int32_t)lrintf(fmaxf(-3.0f, fminf(3.0f, v)) * SIMILARITY_SCALE);
}

static void put_numbers(page *p) {
    const gf_explorer *x = p->x;
    put_array(p, "d-row", x->n, 4, row_cell);
    put_array(p, "d-lambda", x->n, 4, lambda_cell);
    put_array(p, "d-above", x->n, 4, above_cell);
    put_array(p, "d-mutual", x->n, 4, mutual_cell);
    put_array(p, "d-part", x->n, 4, part_cell);
    put_array(p, "d-group", x->n, 4, group_cell);
    put_array(p, "d-copy", x->n, 4, copy_cell);
    put_array(p, "d-label", x->label ? x->n : 0, 4, label_cell);
    put_array(p, "d-other", x->n * x->top, 4, other_cell);
    put_array(p, "d-near", x->n * x->top, 2, near_cell);
}

/* ----- texts ----- */

/* JSON string in a script element: <, > and & are escaped, so that no text ends the element. */
static void add_json(gf_text *t, const char *raw) {
    gf_text_add(t, "\"");
    while (*raw) {
        char one[GF_JSONL_CHARACTER];
        const char first = *raw;
        const int n = (int)gf_jsonl_character(&raw, one);
        if (strchr("<>&", first)) gf_text_add(t, "\\u%04x", (unsigned)first);
        else gf_text_add(t, "%.*s", n, one);
    }
    gf_text_add(t, "\"");
}

/* Text between tags. Bytes that are not UTF-8, as in file names, become U+FFFD; line breaks stay. */
static void add_html(gf_text *t, const char *raw) {
    static const char replacement[] = "\\ufffd";
    while (*raw) {
        char one[GF_JSONL_CHARACTER] = {0};
        const char *at = raw;
        const size_t n = gf_jsonl_character(&raw, one);
        const int invalid = n == sizeof replacement - 1 && memcmp(one, replacement, n) == 0;
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

static void put_meta(page *p, int across) {
    const gf_explorer *x = p->x;
    const int32_t classes = labels_end(x);
    gf_text t = {0};
    gf_text_add(&t, "<script type=\"text/plain\" id=\"d-meta\">");
    gf_text_add(&t, "{\"top\":%lld,\"across\":%d,\"names\":%d,\"components\":%lld,\"groups\":%lld", (long long)x->top, across,
                x->name != NULL, (long long)x->components, (long long)x->groups);
    gf_text_add(&t, ",\"part_pairs\":[");
    for (int64_t k = 0; k < x->components; k++) gf_text_add(&t, "%s%lld", k ? "," : "", (long long)x->component_pairs[k]);
    gf_text_add(&t, "],\"classes\":[");
    for (int32_t c = 0; c < classes; c++) {
        const char *name = x->class_name(x->user, c);
        if (c) gf_text_add(&t, ",");
        add_json(&t, name ? name : "");
    }
    gf_text_add(&t, "]}</script>\n");
    flush_text(p, &t);
}

static void put_names(page *p) {
    gf_text t = {0};
    if (!p->x->name) return;
    for (int64_t i = 0; i < p->x->n; i++) gf_text_add(&t, "%s%s", i ? "\n" : "", p->x->name[i]);
    p->failed |= t.failed;
    if (t.at) put_bytes(p, "d-names", t.at, t.used);
    gf_text_free(&t);
}

/* ----- page ----- */

static void put_head(page *p) {
    const gf_explorer *x = p->x;
    gf_text t = {0};
    gf_text_add(&t, "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" "
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

static void put_slots(page *p, const gf_explorer_images *m) {
    const int64_t n = p->x->image ? p->x->n : 0;
    uint8_t *array = malloc((size_t)(n > 0 ? n : 1) * 4);
    if (!array) {
        p->failed = 1;
        return;
    }
    for (int64_t i = 0; i < n; i++) put_le(array + 4 * i, (uint32_t)m->slot[i], 4);
    put_bytes(p, "d-slot", array, (size_t)n * 4);
    free(array);
    for (int k = 0; k < m->sheets; k++) {
        char id[32];
        snprintf(id, sizeof id, "d-sheet-%d", k);
        put_bytes(p, id, m->sheet[k], m->sheet_bytes[k]);
    }
}

int64_t gf_explorer_top(int64_t n, int64_t top, size_t bytes) {
    enum { TOP_MIN = 4 };
    const double each = (double)NEIGHBOUR_BYTES * 4.0 / 3.0, fixed = (double)n * ANCHOR_BYTES * 4.0 / 3.0;
    const double fit = ((double)bytes - fixed) / ((double)n * each);
    if (fit >= (double)top) return top;
    return fit > TOP_MIN ? (int64_t)fit : GF_MIN(top, TOP_MIN);
}

static void put_page(page *p, const gf_explorer_images *m) {
    put_head(p);
    put_body(p, m->shown);
    put_meta(p, GF_EXPLORER_SHEET / p->x->side);
    put_numbers(p);
    put_names(p);
    put_slots(p, m);
    fprintf(p->f, "<script>\n%s</script>\n</body>\n</html>\n", gf_explorer_js);
}

glofnd_status gf_explorer_write(gf_error *err, const char *path, const gf_explorer *x, int64_t *shown) {
    gf_explorer_images images = {0};
    page p = {.x = x};
    FAIL_IF(err, x->n < 1 || x->n > GF_EXPLORER_MAX, GLOFND_E_ARGUMENT, "a page cannot have %lld anchors; expected 1 to %lld",
            (long long)x->n, (long long)GF_EXPLORER_MAX);
    TRY(gf_explorer_draw(err, x, &images));
    *shown = images.shown;
    p.f = gf_stream_open(path, "w");
    if (!p.f) {
        gf_explorer_images_free(&images);
        GF_FAIL(err, GLOFND_E_IO, "'%.300s' cannot be written: %s", path, strerror(errno));
    }
    put_page(&p, &images);
    gf_explorer_images_free(&images);
    const int failed = ferror(p.f) | fclose(p.f);
    FAIL_IF(err, p.failed, GLOFND_E_MEMORY, "no memory for a page of %lld anchors", (long long)x->n);
    FAIL_IF(err, failed, GLOFND_E_IO, "'%.300s' cannot be written: %s", path, strerror(errno));
    return GLOFND_OK;
}
