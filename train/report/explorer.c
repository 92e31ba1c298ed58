/* explorer.c - see explorer.h: the page without its data, which explorer_chunks.c writes. */
#include "report/explorer.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "io/file.h"
#include "io/jsonl.h"
#include "plot/svg.h"
#include "report/page.h"
#include "util/array.h"

/* ----- chunks ----- */

/* Pieces of a page, and those of its anchors. Numbers are base64 of little-endian
 * int32, int16 or float32. */

#define ABOVE 0x40000000u /* flags of a neighbour, beside its position */
#define MUTUAL 0x80000000u
#define SIMILARITY_SCALE 10000.0f /* similarities have four decimals */

/* ----- pieces ----- */

static FILE *open_file(gf_chunks *c, const char *end) {
    char path[PATH_MAX + 32];
    snprintf(path, sizeof path, "%s/%s.%s", c->folder, c->id, end);
    FILE *f = gf_stream_open(path, "w");
    if (!f && !c->error) c->error = errno;
    return f;
}

static void close_file(gf_chunks *c, FILE *f) {
    const int failed = f ? ferror(f) | fclose(f) : 0;
    if (failed && !c->error) c->error = errno ? errno : EIO;
}

void gf_chunk_begin(gf_chunks *c, const char *kind, int64_t number) {
    snprintf(c->id, sizeof c->id, "%.3s%lld", kind, (long long)number);
    gf_text_free(&c->text);
}

void gf_chunk_end(gf_chunks *c) {
    if (c->text.failed && !c->error) c->error = ENOMEM;
    FILE *f = c->folder[0] ? open_file(c, "js") : c->page;
    if (!f) return;
    fprintf(f, c->folder[0] ? "GF(\"%s\"," : "<script type=\"text/plain\" id=\"c-%s\">", c->id);
    if (c->text.at) fwrite(c->text.at, 1, c->text.used, f);
    fputs(c->folder[0] ? ");\n" : "</script>\n", f);
    if (c->folder[0]) close_file(c, f);
    gf_text_free(&c->text);
}

void gf_chunk_image(gf_chunks *c, int64_t number, const uint8_t *bytes, size_t n) {
    gf_chunk_begin(c, "s", number);
    if (!c->folder[0]) {
        gf_text_add(&c->text, "\"");
        gf_text_base64(&c->text, bytes, n);
        gf_text_add(&c->text, "\"");
        gf_chunk_end(c);
        return;
    }
    FILE *f = open_file(c, "jpg");
    if (f) fwrite(bytes, 1, n, f);
    close_file(c, f);
}

void gf_chunk_add_string(gf_text *t, const char *raw) {
    gf_text_add(t, "\"");
    while (*raw) {
        char one[GF_JSON_CHARACTER];
        const char first = *raw;
        const int n = (int)gf_json_character(&raw, one);
        if (strchr("<>&", first)) gf_text_add(t, "\\u%04x", (unsigned)first);
        else gf_text_add(t, "%.*s", n, one);
    }
    gf_text_add(t, "\"");
}

/* ----- anchors ----- */

int64_t gf_chunk_anchors(const gf_explorer *x) {
    const int64_t needed = (x->n + GF_CHUNK_FILES - 1) / GF_CHUNK_FILES;
    return GF_MAX(needed, GF_CHUNK_ANCHORS);
}

typedef struct piece_bytes { /* numbers of a piece */
    uint8_t *at;
    size_t used;
} piece_bytes;

static void put_le(piece_bytes *b, uint32_t value, int n) {
    for (int k = 0; k < n; k++) b->at[b->used++] = (uint8_t)(value >> 8 * k);
}

static uint32_t limited(int64_t value) { return value > INT32_MAX ? INT32_MAX : (uint32_t)value; }

static void add_bytes(gf_chunks *c, piece_bytes *b) {
    gf_text_add(&c->text, "\"");
    gf_text_base64(&c->text, b->at, b->used);
    gf_text_add(&c->text, "\"");
    b->used = 0;
}

static uint32_t bits_of(float v) {
    uint32_t bits;
    memcpy(&bits, &v, sizeof bits);
    return bits;
}

static uint32_t other_cell(const gf_explorer *x, int64_t cell) {
    const int32_t j = x->other[cell];
    const float v = x->similarity[cell];
    if (j < 0) return UINT32_MAX;
    const int above = v > x->lambda[cell / x->top];
    return (uint32_t)j | (above ? ABOVE : 0) | (above && v > x->lambda[j] ? MUTUAL : 0);
}

static uint32_t near_cell(float v) {
    return isnan(v) ? 0 : (uint32_t)(int32_t)lrintf(fmaxf(-3.0f, fminf(3.0f, v)) * SIMILARITY_SCALE);
}

void gf_chunks_put_anchors(gf_chunks *c, const gf_explorer *x, const int32_t *slot) {
    const int64_t each = gf_chunk_anchors(x);
    piece_bytes b = {.at = malloc((size_t)each * (size_t)GF_MAX(6 * 4, 4 * x->top + 4))};
    if (!b.at) c->error = ENOMEM;
    for (int64_t k = 0; b.at && k * each < x->n && !c->error; k++) {
        const int64_t from = k * each, to = GF_MIN(from + each, x->n);
        gf_chunk_begin(c, "a", k);
        /* [numbers: row, label, slot, kept; names]; label: -1 unknown. kept: the position that is kept instead, itself: kept. */
        for (int64_t i = from; i < to; i++) put_le(&b, (uint32_t)x->row[i], 4);
        for (int64_t i = from; i < to; i++) put_le(&b, x->label ? (uint32_t)x->label[i] : UINT32_MAX, 4);
        for (int64_t i = from; i < to; i++) put_le(&b, slot ? (uint32_t)slot[i] : UINT32_MAX, 4);
        for (int64_t i = from; i < to; i++) put_le(&b, (uint32_t)(x->decisions ? x->decisions->kept[i] : i), 4);
        gf_text_add(&c->text, "[");
        add_bytes(c, &b);
        gf_text_add(&c->text, ",\"");
        gf_text names = {0};
        for (int64_t i = from; x->name && i < to; i++) {
            if (i > from) gf_text_add(&names, "\n");
            gf_text_show(&names, x->name[i]); /* one line */
        }
        if (names.at) gf_text_base64(&c->text, names.at, names.used);
        if (names.failed) c->error = ENOMEM;
        gf_text_free(&names);
        gf_text_add(&c->text, "\"]");
        gf_chunk_end(c);
        gf_chunk_begin(c, "n", k);
        /* [numbers: threshold, above, mutual, component, group, first of the same bytes; neighbours; their similarities] */
        for (int64_t i = from; i < to; i++) put_le(&b, bits_of(x->lambda[i]), 4);
        for (int64_t i = from; i < to; i++) put_le(&b, limited(x->above[i]), 4);
        for (int64_t i = from; i < to; i++) put_le(&b, limited(x->mutual[i]), 4);
        for (int64_t i = from; i < to; i++) put_le(&b, (uint32_t)x->component[i], 4);
        for (int64_t i = from; i < to; i++) put_le(&b, (uint32_t)x->group[i], 4);
        for (int64_t i = from; i < to; i++) put_le(&b, (uint32_t)x->copy_of[i], 4);
        gf_text_add(&c->text, "[");
        add_bytes(c, &b);
        gf_text_add(&c->text, ",");
        for (int64_t j = from * x->top; j < to * x->top; j++) put_le(&b, other_cell(x, j), 4);
        add_bytes(c, &b);
        gf_text_add(&c->text, ",");
        for (int64_t j = from * x->top; j < to * x->top; j++) put_le(&b, near_cell(x->similarity[j]), 2);
        add_bytes(c, &b);
        gf_text_add(&c->text, "]");
        gf_chunk_end(c);
    }
    free(b.at);
}

/* ----- images ----- */

enum { QUALITY = 80 };

typedef struct drawing {
    const gf_explorer *x;
    gf_explorer_images *out;
    gf_thumbnails thumbnails;
    gf_sprite_sheet sheet;
    gf_image image;
    int64_t *position; /* anchors on the sheet */
    size_t used;       /* bytes of the page */
    int full;
} drawing;

static int across(const drawing *d) { return GF_EXPLORER_SHEET / d->x->side; }

static glofnd_status clear_sheet(gf_error *err, drawing *d) {
    return gf_sprite_sheet_init(err, &d->sheet, d->x->side, across(d), across(d));
}

/* Keeps the sheet if it fits the budget; else its anchors have no image. */
static glofnd_status finish_sheet(gf_error *err, drawing *d) {
    gf_explorer_images *m = d->out;
    uint8_t *jpeg = NULL;
    size_t bytes = 0;
    if (d->sheet.count == 0) return GLOFND_OK;
    TRY(gf_image_encode_jpeg(err, &d->sheet.image, QUALITY, &jpeg, &bytes));
    if (d->used + GF_BASE64_BYTES(bytes) > d->x->image_bytes) {
        d->full = 1;
        free(jpeg);
        return GLOFND_OK;
    }
    uint8_t **sheet = realloc(m->sheet, (size_t)(m->sheets + 1) * sizeof *sheet);
    if (sheet) m->sheet = sheet;
    size_t *sizes = realloc(m->sheet_bytes, (size_t)(m->sheets + 1) * sizeof *sizes);
    if (sizes) m->sheet_bytes = sizes;
    if (!sheet || !sizes) {
        free(jpeg);
        GF_FAIL(err, GLOFND_E_MEMORY, "no memory for thumbnails");
    }
    const int64_t first = (int64_t)m->sheets * across(d) * across(d);
    for (int64_t k = 0; k < d->sheet.count; k++) m->slot[d->position[k]] = (int32_t)(first + k);
    m->sheet[m->sheets] = jpeg, m->sheet_bytes[m->sheets++] = bytes;
    m->shown += d->sheet.count, d->used += GF_BASE64_BYTES(bytes);
    return clear_sheet(err, d);
}

/* slot -2: visited. */
static glofnd_status add_picture(gf_error *err, drawing *d, int64_t i) {
    const gf_image *thumbnail = NULL;
    if (d->full || d->out->slot[i] != -1) return GLOFND_OK;
    d->out->slot[i] = -2;
    if (!d->x->image(d->x->user, i, &d->image)) return GLOFND_OK;
    TRY(gf_thumbnail_scale(err, &d->thumbnails, &d->image, &thumbnail));
    d->position[d->sheet.count] = i;
    gf_sprite_sheet_add(&d->sheet, thumbnail);
    return d->sheet.count == (int64_t)across(d) * across(d) ? finish_sheet(err, d) : GLOFND_OK;
}

static glofnd_status add_all(gf_error *err, drawing *d) {
    const gf_explorer *x = d->x;
    for (int exact = 1; exact >= 0; exact--)
        for (int64_t i = 0; i < x->n; i++) {
            if (exact && x->copy_of[i] != i) TRY(add_picture(err, d, x->copy_of[i]));
            if (x->group[i] >= 0 && (!exact || x->copy_of[i] != i)) TRY(add_picture(err, d, i));
        }
    /* Images that decisions show: outliers with their nearest ones, and labels. */
    enum { SHOWN = 500 };
    const gf_explorer *explorer = d->x;
    for (int64_t k = 0; explorer->decisions && explorer->nearest && k < GF_MIN(explorer->decisions->outliers, SHOWN); k++) {
        TRY(add_picture(err, d, explorer->decisions->outlier[k]));
        TRY(add_picture(err, d, explorer->nearest[explorer->decisions->outlier[k]]));
    }
    for (int64_t k = 0; explorer->decisions && k < GF_MIN(explorer->decisions->issues, SHOWN); k++)
        TRY(add_picture(err, d, explorer->decisions->issue[k].position));
    for (int64_t i = 0; i < x->n && !d->full; i++)
        for (int64_t k = 0; k < x->top && x->group[i] >= 0 && x->other[i * x->top + k] >= 0; k++)
            TRY(add_picture(err, d, x->other[i * x->top + k]));
    for (int64_t i = 0; i < x->n && !d->full; i++) TRY(add_picture(err, d, i));
    return finish_sheet(err, d);
}

glofnd_status gf_explorer_draw(gf_error *err, const gf_explorer *x, gf_explorer_images *out) {
    drawing d = {.x = x, .out = out, .thumbnails = {.side = x->side, .square = 1}};
    *out = (gf_explorer_images){0};
    if (!x->image) return GLOFND_OK;
    const int64_t places = (int64_t)across(&d) * across(&d);
    out->slot = malloc((size_t)x->n * sizeof *out->slot);
    d.position = malloc((size_t)places * sizeof *d.position);
    glofnd_status status =
        out->slot && d.position ? clear_sheet(err, &d) : gf_fail(err, GLOFND_E_MEMORY, "no memory for thumbnails");
    for (int64_t i = 0; out->slot && i < x->n; i++) out->slot[i] = -1;
    if (status == GLOFND_OK) status = add_all(err, &d);
    for (int64_t i = 0; out->slot && i < x->n; i++)
        if (out->slot[i] < 0) out->slot[i] = -1;
    gf_thumbnails_free(&d.thumbnails);
    gf_sprite_sheet_free(&d.sheet);
    gf_image_free(&d.image);
    free(d.position);
    if (status != GLOFND_OK) gf_explorer_images_free(out);
    return status;
}

void gf_explorer_images_free(gf_explorer_images *m) {
    for (int k = 0; k < m->sheets; k++) free(m->sheet[k]);
    free(m->sheet);
    free(m->sheet_bytes);
    free(m->slot);
    *m = (gf_explorer_images){0};
}

/* ----- lists ----- */

/* Lists of a page in pieces of GF_CHUNK_ITEMS items; see explorer_chunks.h. An anchor in a list is [position,
 * row, label, picture, 1 if it is removed, name]: what a tile needs. */

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

/* ----- explorer ----- */

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

/* The anchor that the page shows first: the first of a group as they are shown, of a component, of all. */
static int64_t first_shown(const gf_explorer *x, const int32_t *order) {
    for (int64_t i = 0; i < x->n && x->groups > 0; i++)
        if (x->group[i] == order[0]) return i;
    for (int64_t i = 0; i < x->n && x->components > 0; i++)
        if (x->component[i] == 0) return i;
    return 0;
}

/* ----- page ----- */

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

static void put_page(page *p, gf_chunks *c, const gf_explorer_images *m, const int32_t *order) {
    /* pieces: some of its data are files beside it. Nothing else is loaded, and nothing from elsewhere. */
    const int pieces = c->folder[0] != 0;
    const gf_explorer *explorer = p->x;
    const char *beside = pieces ? " 'self' file:" : "";
    gf_text text = {0};
    gf_text_add(
        &text,
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta http-equiv=\"Content-Security-Policy\" "
        "content=\"default-src 'none'; img-src data: blob:%s; style-src 'unsafe-inline'; script-src 'unsafe-inline'%s\">\n",
        beside, beside);
    gf_text_add(&text,
                "<meta name=\"viewport\" "
                "content=\"width=device-width, initial-scale=1\">\n<link rel=\"icon\" href=\"data:,\">\n<title>discover: ");
    add_html(&text, explorer->source);
    gf_text_add(&text, "</title>\n<style>\n%s</style>\n</head>\n<body>\n<header>\n<h1>False negatives and duplicates</h1>\n",
                gf_explorer_css);
    gf_text_add(&text, "<p class=\"soft small\">found by <b>glofnd discover</b> in ");
    add_html(&text, explorer->source);
    gf_text_add(
        &text,
        "</p>\n<p class=\"lead\">Every sample has its own similarity threshold. Samples above it probably show the same "
        "thing, and training should not push them apart: they are false negatives. Nearly equal samples are duplicates.</p>\n"
        "<div class=\"facts\">");
    for (int k = 0; k < explorer->fact_count; k++) {
        gf_text_add(&text, "<div class=\"fact\"><b>");
        add_html(&text, explorer->facts[2 * k]);
        gf_text_add(&text, "</b><span>");
        add_html(&text, explorer->facts[2 * k + 1]);
        gf_text_add(&text, "</span></div>");
    }
    gf_text_add(&text, "</div>\n</header>\n");
    flush_text(p, &text);
    put_body(p, m->shown);
    const int across = GF_EXPLORER_SHEET / p->x->side;
    const gf_explorer *x = p->x;
    /* Number of class names in the page. */
    enum { CLASSES_MAX = 100000 };
    int32_t classes = 0;
    for (int64_t i = 0; x->label && x->class_name && i < x->n && classes < CLASSES_MAX; i++)
        if (x->label[i] >= classes) classes = x->label[i] < CLASSES_MAX ? x->label[i] + 1 : CLASSES_MAX;
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
    /* Counts of thresholds in bins of equal width. */
    enum { BINS = 60 };
    int64_t count[BINS] = {0};
    float low = x->lambda[0], high = low;
    for (int64_t i = 1; i < x->n; i++) low = fminf(low, x->lambda[i]), high = fmaxf(high, x->lambda[i]);
    const double span = high > low ? (double)high - (double)low : 1e-6;
    for (int64_t i = 0; i < x->n; i++) {
        const int64_t bin = (int64_t)(((double)x->lambda[i] - (double)low) / span * BINS);
        count[GF_MAX(0, GF_MIN(bin, BINS - 1))]++;
    }
    gf_text_add(&t, ",\"low\":%.9g,\"span\":%.9g", (double)low, span);
    const int64_t n = BINS;
    gf_text_add(&t, ",\"%s\":[", "bins");
    for (int64_t k = 0; k < n; k++) gf_text_add(&t, "%s%lld", k ? "," : "", (long long)count[k]);
    gf_text_add(&t, "]");
    const gf_decisions *e = x->decisions;
    if (e) {
        gf_text_add(&t, ",\"decided\":1,\"keep\":%lld,\"duplicates\":%lld,\"bad\":%lld,\"rule\":\"%s\"", (long long)e->keep,
                    (long long)e->duplicates, (long long)e->bad, gf_keep_rule_name(x->decide->keep));
        int64_t copies = 0;
        for (int64_t i = 0; i < x->n; i++) copies += x->copy_of[i] != i;
        gf_text_add(&t, ",\"copies\":%lld", (long long)copies);
        gf_text_add(&t, ",\"outliers\":%lld,\"found\":%lld,\"limit\":%.6g,\"issues\":%lld,\"leaks\":%lld",
                    x->nearest ? (long long)e->outliers : 0LL, (long long)e->outliers_found, e->outlier_limit,
                    (long long)e->issues, (long long)x->leaks);
        /* Names of splits are plain words (programs/discover_decide.c). */
        const gf_decide_spec *spec = x->decide;
        gf_text_add(&t, ",\"splits\":[");
        for (int a = 0; a < spec->splits; a++) {
            gf_text_add(&t, a ? ",[" : "[");
            gf_chunk_add_string(&t, spec->split[a].name);
            gf_text_add(&t, ",%lld", (long long)spec->split[a].rows);
            for (int b = 0; b < spec->splits; b++)
                gf_text_add(&t, ",%lld,%lld", (long long)x->decisions->leak[a][b], (long long)x->decisions->exact[a][b]);
            gf_text_add(&t, "]");
        }
        gf_text_add(&t, "]");
    }
    gf_text_add(&t, ",\"classes\":[");
    for (int32_t k = 0; k < classes; k++) {
        const char *name = x->class_name(x->user, k);
        if (k) gf_text_add(&t, ",");
        gf_chunk_add_string(&t, name ? name : "");
    }
    gf_text_add(&t, "]}</script>\n");
    flush_text(p, &t);
    gf_chunks_put_anchors(c, p->x, m->slot);
    gf_chunks_put_lists(c, p->x, m->slot, order);
    for (int k = 0; k < m->sheets; k++) gf_chunk_image(c, k, m->sheet[k], m->sheet_bytes[k]);
    fprintf(p->f, "<script>\n%s</script>\n</body>\n</html>\n", gf_explorer_js);
}

static glofnd_status write_files(gf_error *err, const char *path, const gf_explorer *x, const gf_explorer_images *m,
                                 const int32_t *order) {
    page p = {.x = x};
    gf_chunks c = {0};
    /* 1: the data fit into the page itself. */
    double bytes = (double)x->n * (ANCHOR_BYTES + NEIGHBOUR_BYTES * (double)x->top) * 4.0 / 3.0;
    for (int k = 0; k < m->sheets; k++) bytes += (double)GF_BASE64_BYTES(m->sheet_bytes[k]);
    if (!(bytes <= x->inline_bytes)) {
        /* The folder beside the page. */
        const char *slash = strrchr(path, '/');
        const int used = snprintf(c.folder, sizeof c.folder, "%.*s" GF_PAGE_FOLDER, slash ? (int)(slash + 1 - path) : 0, path);
        FAIL_IF(err, used < 0 || (size_t)used >= sizeof c.folder - 32, GLOFND_E_ARGUMENT, "the path of the page is too long");
        FAIL_IF(err, mkdir(c.folder, 0777) != 0 && errno != EEXIST, GLOFND_E_IO, "'%.300s' cannot be created: %s", c.folder,
                strerror(errno));
    }
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
    /* Duplicates as they are shown: those with equal bytes first. */
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
    const glofnd_status status = order ? write_files(err, path, x, &images, order)
                                       : gf_fail(err, GLOFND_E_MEMORY, "no memory for a page of %lld anchors", (long long)x->n);
    free(order);
    gf_explorer_images_free(&images);
    return status;
}
