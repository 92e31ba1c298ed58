/* explorer.c - see explorer.h: pieces of data, anchors, thumbnails, lists, the page, and what a discovery gives to it. */
#include "report/explorer.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "io/blockfile.h"
#include "io/file.h"
#include "io/jsonl.h"
#include "plot/svg.h"
#include "report/page.h"
#include "util/array.h"

/* ----- chunks: the data of a page in pieces that it takes as it needs them -----
 * JSON values, each in an element of the page, or in a file of the folder "page" beside it, which a script element loads (also
 * from a disk, where a page may not read files). Numbers are base64 of little-endian int32, int16 or float32. */

#define PAGE_FOLDER "page"
#define ABOVE 0x40000000u /* flags of a neighbour, beside its position */
#define MUTUAL 0x80000000u
#define SIMILARITY_SCALE 10000.0f /* similarities have four decimals */

enum {
    CHUNK_ANCHORS = 4096, /* of one file, more where these would be more than CHUNK_FILES */
    CHUNK_FILES = 500,
    CHUNK_ITEMS = 100,    /* of a list */
    CHUNK_LISTED = 10000, /* items of a list on a page */
    CHUNK_MEMBERS = 24,   /* members of a group that are shown at once */
    CHUNK_MEMBERS_MAX = 2000
};

typedef struct chunks {
    FILE *page;            /* index.html */
    char folder[PATH_MAX]; /* "": chunks are elements of the page */
    char id[24];
    gf_text text; /* of the chunk in the making */
    int error;    /* errno of the first failed file; ENOMEM: out of memory */
} chunks;

static FILE *open_file(chunks *c, const char *end) {
    char path[PATH_MAX + 32];
    snprintf(path, sizeof path, "%s/%s.%s", c->folder, c->id, end);
    FILE *f = gf_stream_open(path, "w");
    if (!f && !c->error) c->error = errno;
    return f;
}

static void close_file(chunks *c, FILE *f) {
    const int failed = f ? ferror(f) | fclose(f) : 0;
    if (failed && !c->error) c->error = errno ? errno : EIO;
}

static void chunk_begin(chunks *c, const char *kind, int64_t number) {
    snprintf(c->id, sizeof c->id, "%.3s%lld", kind, (long long)number);
    gf_text_free(&c->text);
}

static void chunk_end(chunks *c) {
    if (c->text.failed && !c->error) c->error = ENOMEM;
    FILE *f = c->folder[0] ? open_file(c, "js") : c->page;
    if (!f) return;
    fprintf(f, c->folder[0] ? "GF(\"%s\"," : "<script type=\"text/plain\" id=\"c-%s\">", c->id);
    if (c->text.at) fwrite(c->text.at, 1, c->text.used, f);
    fputs(c->folder[0] ? ");\n" : "</script>\n", f);
    if (c->folder[0]) close_file(c, f);
    gf_text_free(&c->text);
}

/* A JPEG: page/s0.jpg, or base64 in an element. */
static void chunk_image(chunks *c, int64_t number, const uint8_t *bytes, size_t n) {
    chunk_begin(c, "s", number);
    if (!c->folder[0]) {
        gf_text_add(&c->text, "\"");
        gf_text_base64(&c->text, bytes, n);
        gf_text_add(&c->text, "\"");
        chunk_end(c);
        return;
    }
    FILE *f = open_file(c, "jpg");
    if (f) fwrite(bytes, 1, n, f);
    close_file(c, f);
}

/* A JSON string; <, > and & are escaped, so that no text ends an element; bytes that are not UTF-8 and marks that turn
 * a text around (U+202A to U+202E, U+2066 to U+2069) become U+FFFD. */
static void add_json_string(gf_text *t, const char *raw) {
    gf_text_add(t, "\"");
    while (*raw) {
        char one[GF_JSON_CHARACTER];
        const char first = *raw;
        const int n = (int)gf_json_character(&raw, one);
        const int turns = first == '\xe2' && n == 3 &&
                          ((one[1] == '\x80' && one[2] >= '\xaa' && one[2] <= '\xae') ||
                           (one[1] == '\x81' && one[2] >= '\xa6' && one[2] <= '\xa9'));
        if (turns) gf_text_add(t, "\\ufffd");
        else if (strchr("<>&", first)) gf_text_add(t, "\\u%04x", (unsigned)first);
        else gf_text_add(t, "%.*s", n, one);
    }
    gf_text_add(t, "\"");
}

/* ----- anchors ----- */

static int64_t anchors_per_chunk(const gf_explorer *x) { return GF_MAX((x->n + CHUNK_FILES - 1) / CHUNK_FILES, CHUNK_ANCHORS); }

typedef struct piece_bytes { /* numbers of a piece */
    uint8_t *at;
    size_t used;
} piece_bytes;

static void put_le(piece_bytes *b, uint32_t value, int n) {
    for (int k = 0; k < n; k++) b->at[b->used++] = (uint8_t)(value >> 8 * k);
}

static uint32_t limited(int64_t value) { return value > INT32_MAX ? INT32_MAX : (uint32_t)value; }

static void add_bytes(chunks *c, piece_bytes *b) {
    gf_text_add(&c->text, "\"");
    gf_text_base64(&c->text, b->at, b->used);
    gf_text_add(&c->text, "\"");
    b->used = 0;
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

/* Anchors: "aK" rows, labels, pictures, decisions, names; "nK" thresholds, counts, neighbours. slot [n]: pictures, or NULL. */
static void put_anchors(chunks *c, const gf_explorer *x, const int32_t *slot) {
    const int64_t each = anchors_per_chunk(x);
    piece_bytes b = {.at = malloc((size_t)each * (size_t)GF_MAX(6 * 4, 4 * x->top + 4))};
    if (!b.at) c->error = ENOMEM;
    for (int64_t k = 0; b.at && k * each < x->n && !c->error; k++) {
        const int64_t from = k * each, to = GF_MIN(from + each, x->n);
        chunk_begin(c, "a", k);
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
        chunk_end(c);
        chunk_begin(c, "n", k);
        /* [numbers: threshold, above, mutual, component, group, first of the same bytes; neighbours; their similarities] */
        for (int64_t i = from; i < to; i++) {
            uint32_t bits;
            memcpy(&bits, &x->lambda[i], sizeof bits);
            put_le(&b, bits, 4);
        }
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
        chunk_end(c);
    }
    free(b.at);
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

/* Do both rows have a label, and another one? */
static int labels_differ(const gf_explorer *x, int64_t i, int64_t j) {
    return x->label && x->label[i] >= 0 && x->label[j] >= 0 && x->label[i] != x->label[j];
}

/* Groups of duplicates as they are shown: those whose labels differ first, and those with equal bytes before others. NULL: no
 * memory. */
static int32_t *order_groups(const gf_explorer *x) {
    enum { EQUAL = 1, DIFFER = 2 };
    int32_t *order = malloc((size_t)(x->groups + 1) * sizeof *order), *first = malloc((size_t)(x->groups + 1) * sizeof *first);
    uint8_t *kind = calloc((size_t)x->groups + 1, 1);
    int64_t used = 0;
    for (int64_t g = 0; first && g < x->groups; g++) first[g] = -1;
    for (int64_t i = 0; first && kind && i < x->n; i++) {
        const int32_t g = x->group[i];
        if (g < 0) continue;
        if (x->copy_of[i] != i) kind[g] |= EQUAL;
        if (first[g] < 0 && (!x->label || x->label[i] >= 0)) first[g] = (int32_t)i;
        else if (first[g] >= 0 && labels_differ(x, i, first[g])) kind[g] |= DIFFER;
    }
    static const uint8_t wanted[] = {EQUAL | DIFFER, DIFFER, EQUAL, 0};
    for (int w = 0; order && first && kind && w < 4; w++)
        for (int64_t g = 0; g < x->groups; g++)
            if (kind[g] == wanted[w]) order[used++] = (int32_t)g;
    const int complete = order && first && kind;
    free(first);
    free(kind);
    if (!complete) free(order), order = NULL;
    return order;
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
    int64_t visited;   /* anchors that were asked for */
    int full;
} drawing;

static int across(const drawing *d) { return GF_EXPLORER_SHEET / d->x->side; }

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
    return gf_sprite_sheet_init(err, &d->sheet, d->x->side, across(d), across(d));
}

/* slot -2: visited. */
static glofnd_status add_picture(gf_error *err, drawing *d, int64_t i) {
    const gf_image *thumbnail = NULL;
    if (d->full || d->out->slot[i] != -1) return GLOFND_OK;
    d->out->slot[i] = -2;
    d->visited++;
    if (!d->x->image(d->x->user, i, &d->image)) return GLOFND_OK;
    TRY(gf_thumbnail_scale(err, &d->thumbnails, &d->image, &thumbnail));
    d->position[d->sheet.count] = i;
    gf_sprite_sheet_add(&d->sheet, thumbnail);
    return d->sheet.count == (int64_t)across(d) * across(d) ? finish_sheet(err, d) : GLOFND_OK;
}

/* ----- which thumbnails: the lists take turns ----- */

enum { LIST_GROUPS, LIST_ISSUES, LIST_OUTLIERS, LIST_LEAKS, LISTS };

static int64_t list_length(const gf_explorer *x, int list) {
    const gf_decisions *e = x->decisions;
    const int64_t length = list == LIST_GROUPS     ? x->groups
                           : !e                    ? 0
                           : list == LIST_ISSUES   ? e->issues
                           : list == LIST_OUTLIERS ? e->outliers
                                                   : x->leaks;
    return GF_MIN(length, CHUNK_LISTED);
}

/* The pictures of item k of a list. */
static glofnd_status add_item(gf_error *err, drawing *d, const sets *groups, int list, int64_t k) {
    const gf_decisions *e = d->x->decisions;
    if (list == LIST_GROUPS) {
        const int64_t g = groups->order[k], end = GF_MIN(groups->first[g + 1], groups->first[g] + CHUNK_MEMBERS);
        for (int64_t m = groups->first[g]; m < end; m++) TRY(add_picture(err, d, groups->member[m]));
    } else if (list == LIST_ISSUES) {
        TRY(add_picture(err, d, e->issue[k].position));
    } else if (list == LIST_OUTLIERS) {
        TRY(add_picture(err, d, e->outlier[k].position));
        if (e->outlier[k].nearest >= 0) TRY(add_picture(err, d, e->outlier[k].nearest));
    } else {
        TRY(add_picture(err, d, d->x->leak[k].a));
        TRY(add_picture(err, d, d->x->leak[k].b));
    }
    return GLOFND_OK;
}

/* The list that has the fewest pictures so far is next, so that all lists begin with pictures, whatever their lengths. Then the
 * other duplicates, the neighbours of what is listed, and all others. */
static glofnd_status add_pictures(gf_error *err, drawing *d, const sets *groups) {
    const gf_explorer *x = d->x;
    int64_t next[LISTS] = {0}, pictures[LISTS] = {0};
    while (!d->full) {
        int list = -1;
        for (int k = 0; k < LISTS; k++)
            if (next[k] < list_length(x, k) && (list < 0 || pictures[k] < pictures[list])) list = k;
        if (list < 0) break;
        const int64_t before = d->visited;
        TRY(add_item(err, d, groups, list, next[list]++));
        pictures[list] += d->visited - before;
    }
    for (int64_t i = 0; i < x->n && !d->full; i++)
        if (x->group[i] >= 0) TRY(add_picture(err, d, i));
    const gf_decisions *e = x->decisions;
    for (int64_t k = 0; e && k < GF_MIN(e->issues, CHUNK_LISTED) && !d->full; k++)
        for (int64_t m = (int64_t)e->issue[k].position * x->top, end = m + x->top; m < end && x->other[m] >= 0; m++)
            TRY(add_picture(err, d, x->other[m]));
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
    sets groups = {0};
    int32_t *order = order_groups(x);
    const int64_t places = (int64_t)across(&d) * across(&d);
    out->slot = malloc((size_t)x->n * sizeof *out->slot);
    d.position = malloc((size_t)places * sizeof *d.position);
    const int listed = order && list_members(&groups, x->group, x->n, x->groups);
    groups.order = order;
    glofnd_status status = listed && out->slot && d.position
                               ? gf_sprite_sheet_init(err, &d.sheet, x->side, across(&d), across(&d))
                               : gf_fail(err, GLOFND_E_MEMORY, "no memory for thumbnails");
    for (int64_t i = 0; out->slot && i < x->n; i++) out->slot[i] = -1;
    if (status == GLOFND_OK) status = add_pictures(err, &d, &groups);
    for (int64_t i = 0; out->slot && i < x->n; i++)
        if (out->slot[i] < 0) out->slot[i] = -1;
    gf_thumbnails_free(&d.thumbnails);
    gf_sprite_sheet_free(&d.sheet);
    gf_image_free(&d.image);
    free(d.position);
    free(groups.first);
    free(groups.member);
    free(order);
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

/* ----- lists in pieces of CHUNK_ITEMS items: duplicates, components, outliers, labels, leaks ----- */

typedef struct lists {
    chunks *c;
    const gf_explorer *x;
    const int32_t *slot;
} lists;

/* [position, row, label, picture, similarity to the row that is kept instead (null: it is kept itself), name]: what a tile needs. */
static void add_anchor(const lists *l, int64_t i) {
    const gf_explorer *x = l->x;
    const gf_decisions *e = x->decisions;
    gf_text *t = &l->c->text;
    gf_text_add(t, "[%lld,%d,%d,%d,", (long long)i, (int)x->row[i], x->label ? (int)x->label[i] : -1,
                l->slot ? (int)l->slot[i] : -1);
    if (e && e->kept[i] != i) gf_text_add(t, "%.4f", isnan(e->similarity[i]) ? 0.0 : (double)e->similarity[i]);
    else gf_text_add(t, "null");
    if (x->name) {
        gf_text_add(t, ",");
        add_json_string(t, x->name[i]);
    }
    gf_text_add(t, "]");
}

/* Calls `add` for items 0 .. count-1 of the list. */
static void put_list(lists *l, const char *kind, int64_t count, void (*add)(const lists *l, int64_t k, const void *arg),
                     const void *arg) {
    const int64_t shown = GF_MIN(count, CHUNK_LISTED);
    for (int64_t from = 0; from < shown && !l->c->error; from += CHUNK_ITEMS) {
        chunk_begin(l->c, kind, from / CHUNK_ITEMS);
        for (int64_t k = from; k < GF_MIN(from + CHUNK_ITEMS, shown); k++) {
            gf_text_add(&l->c->text, k > from ? ",\n" : "[");
            add(l, k, arg);
        }
        gf_text_add(&l->c->text, "]");
        chunk_end(l->c);
    }
}

/* [number, members, mutual pairs, some have equal bytes, labels differ, [anchors], [further positions]] */
static void add_set(const lists *l, int64_t k, const void *arg) {
    const sets *s = arg;
    const gf_explorer *x = l->x;
    const int64_t g = s->order ? s->order[k] : k, from = s->first[g], count = s->first[g + 1] - from;
    gf_text *t = &l->c->text;
    int64_t labelled = -1;
    int exact = 0, differ = 0;
    for (int64_t m = from; m < from + count; m++) {
        const int64_t i = s->member[m];
        exact |= x->copy_of[i] != i;
        if (labelled < 0 && x->label && x->label[i] >= 0) labelled = i;
        differ |= labelled >= 0 && labels_differ(x, i, labelled);
    }
    gf_text_add(t, "[%lld,%lld,%lld,%d,%d,[", (long long)g, (long long)count, s->pairs ? (long long)s->pairs[g] : 0LL, exact,
                differ);
    for (int64_t m = 0; m < GF_MIN(count, CHUNK_MEMBERS); m++) {
        if (m) gf_text_add(t, ",");
        add_anchor(l, s->member[from + m]);
    }
    gf_text_add(t, "],[");
    for (int64_t m = CHUNK_MEMBERS; m < GF_MIN(count, CHUNK_MEMBERS_MAX); m++)
        gf_text_add(t, "%s%d", m > CHUNK_MEMBERS ? "," : "", (int)s->member[from + m]);
    gf_text_add(t, "]]");
}

static void put_sets(lists *l, const char *kind, const int32_t *of, int64_t count, const int32_t *order, const int64_t *pairs) {
    sets s = {.order = order, .pairs = pairs};
    if (count > 0 && list_members(&s, of, l->x->n, count)) put_list(l, kind, count, add_set, &s);
    else if (count > 0) l->c->error = ENOMEM;
    free(s.first);
    free(s.member);
}

/* [anchor, nearest one that is no duplicate (none: the anchor), mean similarity of the nearest ones, threshold, is an outlier] */
static void add_outlier(const lists *l, int64_t k, const void *arg) {
    const gf_decisions *e = arg;
    const gf_outlier *o = &e->outlier[k];
    gf_text_add(&l->c->text, "[");
    add_anchor(l, o->position);
    gf_text_add(&l->c->text, ",");
    add_anchor(l, o->nearest < 0 ? o->position : o->nearest);
    gf_text_add(&l->c->text, ",%.4f,%.4f,%d]", (double)o->score, (double)l->x->lambda[o->position],
                (double)o->score < e->outlier_limit);
}

/* [anchor, suggested label, its probability, votes, for it, for its own] */
static void add_issue(const lists *l, int64_t k, const void *arg) {
    const gf_label_issue *e = &((const gf_decisions *)arg)->issue[k];
    gf_text_add(&l->c->text, "[");
    add_anchor(l, e->position);
    gf_text_add(&l->c->text, ",%d,%.4f,%d,%d,%d]", (int)e->suggested, e->probability, (int)e->votes, (int)e->best, (int)e->own);
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

/* Lists: "gK" duplicates, "pK" components, "oK" outliers, "lK" labels, "kK" leaks. order [groups]: duplicates as shown. */
static void put_lists(chunks *c, const gf_explorer *x, const int32_t *slot, const int32_t *order) {
    lists l = {.c = c, .x = x, .slot = slot};
    put_sets(&l, "g", x->group, x->groups, order, NULL);
    put_sets(&l, "p", x->component, x->components, NULL, x->component_pairs);
    if (!x->decisions) return;
    put_list(&l, "o", x->decisions->outliers, add_outlier, x->decisions);
    put_list(&l, "l", x->decisions->issues, add_issue, x->decisions);
    put_list(&l, "k", x->leaks, add_leak, x->leak);
}

/* ----- the page ----- */

extern const char gf_explorer_css[], gf_explorer_js[], gf_review_js[];

enum { NEIGHBOUR_BYTES = 6, ANCHOR_BYTES = 36 };

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

int64_t gf_explorer_top(int64_t n, int64_t top, size_t bytes) {
    enum { TOP_MIN = 4 };
    const double each = (double)NEIGHBOUR_BYTES * 4.0 / 3.0, fixed = (double)n * ANCHOR_BYTES * 4.0 / 3.0;
    const double fit = ((double)bytes - fixed) / ((double)n * each);
    if (fit >= (double)top) return top;
    return fit > TOP_MIN ? (int64_t)fit : GF_MIN(top, TOP_MIN);
}

/* ----- the lists without a script: plain tables of their first items ----- */

enum { PLAIN_LISTED = 100, PLAIN_MEMBERS = 8 };

static void add_label(gf_text *t, const gf_explorer *x, int32_t label) {
    const char *name = label >= 0 && x->class_name ? x->class_name(x->user, label) : NULL;
    if (name && *name) add_html(t, name);
    else if (label >= 0) gf_text_add(t, "%d", (int)label);
}

/* Row, name and label of a position, as one cell. */
static void add_plain_row(gf_text *t, const gf_explorer *x, int64_t i) {
    gf_text_add(t, "<td>row %d", (int)x->row[i]);
    if (x->name && *x->name[i]) gf_text_add(t, ", "), add_html(t, x->name[i]);
    if (x->label && x->label[i] >= 0) gf_text_add(t, " <i>"), add_label(t, x, x->label[i]), gf_text_add(t, "</i>");
    if (x->decisions && x->decisions->kept[i] != i) gf_text_add(t, " (remove, %.4f)", (double)x->decisions->similarity[i]);
    gf_text_add(t, "</td>");
}

static void begin_plain(gf_text *t, const char *title, int64_t count, const char *file) {
    gf_text_add(t, "<h2>%s (%lld)</h2><p class=\"soft small\">%s%s%s</p><table class=\"plain\">\n", title, (long long)count,
                count > PLAIN_LISTED ? "The first 100; all are in " : "See ", file, ".");
}

static void add_plain_groups(gf_text *t, const gf_explorer *x, const int32_t *order) {
    const int64_t shown = GF_MIN(x->groups, PLAIN_LISTED);
    int32_t place[PLAIN_LISTED][PLAIN_MEMBERS], used[PLAIN_LISTED] = {0};
    int32_t *where = malloc((size_t)(x->groups + 1) * sizeof *where);
    t->failed |= !where;
    for (int64_t g = 0; where && g < x->groups; g++) where[g] = -1;
    for (int64_t k = 0; where && k < shown; k++) where[order[k]] = (int32_t)k;
    for (int64_t i = 0; where && i < x->n; i++) {
        const int32_t k = x->group[i] >= 0 ? where[x->group[i]] : -1;
        if (k >= 0 && used[k] < PLAIN_MEMBERS) place[k][used[k]++] = (int32_t)i;
    }
    begin_plain(t, "Duplicates", x->groups, "duplicate_groups.tsv");
    for (int64_t k = 0; where && k < shown; k++) {
        gf_text_add(t, "<tr>");
        for (int m = 0; m < used[k]; m++) add_plain_row(t, x, place[k][m]);
        gf_text_add(t, "</tr>\n");
    }
    gf_text_add(t, "</table>");
    free(where);
}

static void add_plain_lists(gf_text *t, const gf_explorer *x, const int32_t *order) {
    const gf_decisions *e = x->decisions;
    gf_text_add(t,
                "<noscript><section class=\"panel\"><p>Without JavaScript this page shows the lists as tables. With it, you see "
                "images, decide and export. The script is part of the page; nothing is loaded.</p>\n");
    if (x->groups) add_plain_groups(t, x, order);
    if (e && x->leaks) {
        begin_plain(t, "Leaks", x->leaks, "leaks.tsv");
        for (int64_t k = 0; k < GF_MIN(x->leaks, PLAIN_LISTED); k++) {
            gf_text_add(t, "<tr>");
            add_plain_row(t, x, x->leak[k].a);
            add_plain_row(t, x, x->leak[k].b);
            gf_text_add(t, "<td>similarity %.4f</td></tr>\n", (double)x->leak[k].similarity);
        }
        gf_text_add(t, "</table>");
    }
    if (e && e->issues) {
        begin_plain(t, "Label issues", e->issues, "label_issues.tsv");
        for (int64_t k = 0; k < GF_MIN(e->issues, PLAIN_LISTED); k++) {
            gf_text_add(t, "<tr>");
            add_plain_row(t, x, e->issue[k].position);
            gf_text_add(t, "<td>suggested: <i>"), add_label(t, x, e->issue[k].suggested);
            gf_text_add(t, "</i></td><td>probability %.4f</td></tr>\n", e->issue[k].probability);
        }
        gf_text_add(t, "</table>");
    }
    if (e && e->outliers) {
        begin_plain(t, "Outliers", e->outliers, "outliers.tsv");
        for (int64_t k = 0; k < GF_MIN(e->outliers, PLAIN_LISTED); k++) {
            gf_text_add(t, "<tr>");
            add_plain_row(t, x, e->outlier[k].position);
            gf_text_add(t, "<td>score %.4f</td></tr>\n", (double)e->outlier[k].score);
        }
        gf_text_add(t, "</table>");
    }
    gf_text_add(t, "</section></noscript>\n");
}

/* Head, facts and body, up to the data. */
static void add_body(gf_text *t, const gf_explorer *x, int64_t shown, int pieces, const int32_t *order) {
    const char *beside = pieces ? " 'self' file:" : ""; /* data in files beside it; nothing else is loaded */
    gf_text_add(
        t,
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta http-equiv=\"Content-Security-Policy\" "
        "content=\"default-src 'none'; img-src data: blob:%s; style-src 'unsafe-inline'; script-src 'unsafe-inline'%s\">\n"
        "<meta name=\"viewport\" "
        "content=\"width=device-width, initial-scale=1\">\n<link rel=\"icon\" href=\"data:,\">\n<title>discover: ",
        beside, beside);
    add_html(t, x->source);
    gf_text_add(t, "</title>\n<style>\n%s</style>\n</head>\n<body>\n<header>\n<h1>%s</h1>\n<p class=\"soft small\">%lld rows of ",
                gf_explorer_css, x->decisions ? "What to do first" : "False negatives and duplicates", (long long)x->n);
    add_html(t, x->source);
    gf_text_add(t,
                ", read by <b>glofnd discover</b></p>\n<div class=\"todo\" id=\"todo\"></div>\n</header>\n"
                "<div class=\"bar\"><div><span class=\"tabs\" id=\"tabs\" role=\"tablist\"></span>"
                "<div class=\"find\"><input type=\"search\" id=\"find\" autocomplete=\"off\" "
                "aria-label=\"search a row\" placeholder=\"search: row number%s\">"
                "<ul class=\"hits\" id=\"hits\"></ul></div><p class=\"keys small\" id=\"keys\"></p></div></div>\n<main>",
                x->name    ? " or part of a name"
                : x->label ? " or label"
                           : "");
    add_plain_lists(t, x, order);
    gf_text_add(
        t, "<div class=\"cols\"><section class=\"panel\" id=\"gallery\"></section>"
           "<section class=\"panel anchor\" id=\"side\"><div class=\"nav\"><button id=\"previous\">previous row</button>"
           "<button id=\"next\">next row</button><button id=\"random\">random row</button></div>"
           "<div id=\"anchor\" aria-live=\"polite\"></div></section></div></main>\n"
           "<footer><details id=\"statistics\"><summary>Statistics: thresholds, pairs and the summary of the search</summary>"
           "<p class=\"lead\">Every row has its own similarity threshold. Rows above it probably show the same thing, and "
           "training should not push them apart: they are false negatives. Nearly equal rows are duplicates.</p>"
           "<div class=\"facts\">");
    for (int k = 0; k < x->fact_count; k++) {
        gf_text_add(t, "<div class=\"fact\"><b>");
        add_html(t, x->facts[2 * k]);
        gf_text_add(t, "</b><span>");
        add_html(t, x->facts[2 * k + 1]);
        gf_text_add(t, "</span></div>");
    }
    gf_text_add(t, "</div><h2>Thresholds of all rows</h2><div id=\"histogram\"></div><pre>");
    add_html(t, x->summary);
    gf_text_add(t, "</pre></details>\n<p class=\"soft small\">");
    if (x->top > 0) gf_text_add(t, "At most %lld neighbours of each row. ", (long long)x->top);
    if (x->image && shown < x->n)
        gf_text_add(t, "Thumbnails of %lld of %lld rows: the lists share %.3g MB of images (--html-mb).", (long long)shown,
                    (long long)x->n, (double)x->image_bytes / 1e6);
    else if (x->image) gf_text_add(t, "Thumbnails of all rows.");
    gf_text_add(t, "</p></footer>\n");
}

/* Identifies what the page proposes, so that decisions that a browser kept belong to this result. */
static uint32_t result_key(const gf_explorer *x) {
    const gf_decisions *e = x->decisions;
    uint32_t key = gf_crc32c(0, x->row, (size_t)x->n * sizeof *x->row);
    key = gf_crc32c(key, e->kept, (size_t)x->n * sizeof *e->kept);
    if (x->label) key = gf_crc32c(key, x->label, (size_t)x->n * sizeof *x->label);
    for (int64_t k = 0; k < e->issues; k++) key = gf_crc32c(key, &e->issue[k].suggested, sizeof e->issue[k].suggested);
    for (int64_t k = 0; x->name && k < x->n; k++) key = gf_crc32c(key, x->name[k], strlen(x->name[k]));
    return key;
}

/* Counts, the order of lists, the histogram of thresholds, decisions and class names, as JSON that explorer.js reads. */
static void add_meta(gf_text *t, const gf_explorer *x, int pieces, const int32_t *order) {
    enum { CLASSES_MAX = 100000, BINS = 60 };
    const int64_t each = anchors_per_chunk(x);
    gf_text_add(t,
                "<script type=\"text/plain\" id=\"d-meta\">"
                "{\"n\":%lld,\"top\":%lld,\"across\":%d,\"names\":%d,\"labels\":%d,\"components\":%lld,\"groups\":%lld",
                (long long)x->n, (long long)x->top, GF_EXPLORER_SHEET / x->side, x->name != NULL, x->label != NULL,
                (long long)x->components, (long long)x->groups);
    gf_text_add(t, ",\"each\":%lld,\"items\":%d,\"listed\":%d,\"folder\":\"%s\",\"start\":%lld,\"first\":[", (long long)each,
                CHUNK_ITEMS, CHUNK_LISTED, pieces ? PAGE_FOLDER : "", (long long)first_shown(x, order));
    for (int64_t i = 0; i < x->n; i += each) gf_text_add(t, "%s%d", i ? "," : "", (int)x->row[i]);
    gf_text_add(t, "],\"order\":[");
    for (int64_t k = 0; k < GF_MIN(x->groups, CHUNK_LISTED); k++) gf_text_add(t, "%s%d", k ? "," : "", (int)order[k]);
    /* Counts of thresholds in bins of equal width. */
    int64_t count[BINS] = {0};
    float low = x->lambda[0], high = low;
    for (int64_t i = 1; i < x->n; i++) low = fminf(low, x->lambda[i]), high = fmaxf(high, x->lambda[i]);
    const double span = high > low ? (double)high - (double)low : 1e-6;
    for (int64_t i = 0; i < x->n; i++) {
        const int64_t bin = (int64_t)(((double)x->lambda[i] - (double)low) / span * BINS);
        count[GF_MAX(0, GF_MIN(bin, BINS - 1))]++;
    }
    gf_text_add(t, "],\"low\":%.9g,\"span\":%.9g,\"bins\":[", (double)low, span);
    for (int64_t k = 0; k < BINS; k++) gf_text_add(t, "%s%lld", k ? "," : "", (long long)count[k]);
    gf_text_add(t, "]");
    const gf_decisions *e = x->decisions;
    if (e) {
        int64_t copies = 0;
        for (int64_t i = 0; i < x->n; i++) copies += x->copy_of[i] != i;
        gf_text_add(t, ",\"decided\":1,\"keep\":%lld,\"duplicates\":%lld,\"bad\":%lld,\"rule\":\"%s\",\"copies\":%lld",
                    (long long)e->keep, (long long)e->duplicates, (long long)e->bad, gf_keep_rule_name(x->decide->keep),
                    (long long)copies);
        gf_text_add(t, ",\"outliers\":%lld,\"found\":%lld,\"limit\":%.6g,\"issues\":%lld,\"leaks\":%lld", (long long)e->outliers,
                    (long long)e->outliers_found, e->outlier_limit, (long long)e->issues, (long long)x->leaks);
        gf_text_add(t, ",\"otherlabel\":%lld,\"key\":\"%08x\",\"splits\":[", (long long)e->other_label, (unsigned)result_key(x));
        const gf_decide_spec *spec = x->decide; /* names of splits are plain words */
        for (int a = 0; a < spec->splits; a++) {
            gf_text_add(t, a ? ",[" : "[");
            add_json_string(t, spec->split[a].name);
            gf_text_add(t, ",%lld,%lld", (long long)spec->split[a].first, (long long)spec->split[a].rows);
            for (int b = 0; b < spec->splits; b++)
                gf_text_add(t, ",%lld,%lld", (long long)e->leak[a][b], (long long)e->exact[a][b]);
            gf_text_add(t, "]");
        }
        gf_text_add(t, "]");
    }
    gf_text_add(t, ",\"classes\":[");
    int32_t classes = 0; /* names in the page */
    for (int64_t i = 0; x->label && x->class_name && i < x->n && classes < CLASSES_MAX; i++)
        if (x->label[i] >= classes) classes = x->label[i] < CLASSES_MAX ? x->label[i] + 1 : CLASSES_MAX;
    for (int32_t k = 0; k < classes; k++) {
        const char *name = x->class_name(x->user, k);
        if (k) gf_text_add(t, ",");
        add_json_string(t, name ? name : "");
    }
    gf_text_add(t, "]}</script>\n");
}

static glofnd_status write_files(gf_error *err, const char *path, const gf_explorer *x, const gf_explorer_images *m,
                                 const int32_t *order) {
    chunks c = {0};
    gf_text text = {0};
    double bytes = (double)x->n * (ANCHOR_BYTES + NEIGHBOUR_BYTES * (double)x->top) * 4.0 / 3.0;
    for (int k = 0; k < m->sheets; k++) bytes += (double)GF_BASE64_BYTES(m->sheet_bytes[k]);
    if (!(bytes <= x->inline_bytes)) { /* too many for the page itself: a folder beside it */
        const char *slash = strrchr(path, '/');
        const int used = snprintf(c.folder, sizeof c.folder, "%.*s" PAGE_FOLDER, slash ? (int)(slash + 1 - path) : 0, path);
        FAIL_IF(err, used < 0 || (size_t)used >= sizeof c.folder - 32, GLOFND_E_ARGUMENT, "the path of the page is too long");
        FAIL_IF(err, mkdir(c.folder, 0777) != 0 && errno != EEXIST, GLOFND_E_IO, "'%.300s' cannot be created: %s", c.folder,
                strerror(errno));
    }
    c.page = gf_stream_open(path, "w");
    FAIL_IF(err, !c.page, GLOFND_E_IO, "'%.300s' cannot be written: %s", path, strerror(errno));
    add_body(&text, x, m->shown, c.folder[0] != 0, order);
    add_meta(&text, x, c.folder[0] != 0, order);
    const int memory = !text.failed;
    if (text.at) fwrite(text.at, 1, text.used, c.page);
    gf_text_free(&text);
    put_anchors(&c, x, m->slot);
    put_lists(&c, x, m->slot, order);
    for (int k = 0; k < m->sheets; k++) chunk_image(&c, k, m->sheet[k], m->sheet_bytes[k]);
    fprintf(c.page, "<script>\n%s%s</script>\n</body>\n</html>\n", gf_review_js, gf_explorer_js);
    gf_text_free(&c.text);
    const int failed = ferror(c.page) | fclose(c.page);
    FAIL_IF(err, !memory || c.error == ENOMEM, GLOFND_E_MEMORY, "no memory for a page of %lld anchors", (long long)x->n);
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

/* ----- the page of a discovery ----- */

enum { SMALL = 32, SIDE = 64, FACTS = 13, FACT_TEXT = 48, TOP_MAX = 40 }; /* pixels; facts; neighbours of an anchor */
#define INLINE_BYTES 6e6                                                  /* of data: a smaller page is one file */

typedef struct discovery {
    const gf_discover_report *x;
    gf_sample sample;
    int64_t *part_pairs;
    int32_t *label; /* by position, like the following */
    const char **name;
    int32_t *other; /* [n][top + edge] */
    float *similarity;
    gf_explorer_leak *leak;
    int64_t leaks;
    char text[FACTS][FACT_TEXT];
    const char *facts[2 * FACTS];
    int fact_count;
} discovery;

static int is_image_name(const char *name) {
    static const char *const ends[] = {".jpg", ".jpeg", ".png"};
    const size_t n = strlen(name);
    for (size_t k = 0; k < sizeof ends / sizeof *ends; k++)
        if (n > strlen(ends[k]) && strcasecmp(name + n - strlen(ends[k]), ends[k]) == 0) return 1;
    return 0;
}

/* Unreadable images are left out of the page. */
static int from_dataset(void *user, int64_t i, gf_image *out) {
    discovery *p = user;
    const gf_decode_hint hint = {.fast = 1, .shrink_to = SIDE};
    gf_error ignored;
    p->sample.image = *out;
    const gf_discover_html *h = p->x->html;
    const int64_t row = p->x->d->good[i];
    int k = h->image_sets - 1; /* datasets are in the order of rows */
    while (k > 0 && row < h->images[k].first) k--;
    const int found = gf_dataset_read(&ignored, h->images[k].data, row - h->images[k].first, &hint, &p->sample) == GLOFND_OK;
    *out = p->sample.image;
    p->sample.image = (gf_image){0};
    return found;
}

static int from_file(void *user, int64_t i, gf_image *out) {
    const discovery *p = user;
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

static const char *class_of(void *user, int32_t label) {
    const discovery *p = user;
    const gf_string_list *classes = &p->x->d->classes;
    if (classes->n) return label < classes->n ? gf_string_list_get(classes, label) : NULL;
    return gf_dataset_class(p->x->html->images[0].data, label);
}

static char *add_fact(discovery *p, const char *what) {
    p->facts[2 * p->fact_count] = p->text[p->fact_count], p->facts[2 * p->fact_count + 1] = what;
    return p->text[p->fact_count++];
}

/* A count with commas between thousands. */
static void add_count(discovery *p, const char *what, int64_t count) {
    char digits[FACT_TEXT / 2], *text = add_fact(p, what);
    size_t used = 0;
    const size_t n = (size_t)snprintf(digits, sizeof digits, "%lld", (long long)count);
    for (size_t i = 0; i < n; i++) {
        if (i > 0 && (n - i) % 3 == 0) text[used++] = ',';
        text[used++] = digits[i];
    }
    text[used] = 0;
}

/* Neighbours: the `top` most similar, and those just below the threshold that are not among them. */
static int copy_neighbours(discovery *p, int64_t top) {
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

static int copy_rows(discovery *p) {
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

static void keep_leak(discovery *p, int64_t i, int64_t j, float similarity) {
    const gf_decide_spec *c = p->x->decide;
    const int a = gf_split_of(c, p->x->d->good[i]), b = gf_split_of(c, p->x->d->good[j]);
    if (a < 0 || b < 0 || a == b || p->leaks == CHUNK_LISTED) return;
    p->leak[p->leaks++] = (gf_explorer_leak){(int32_t)i, (int32_t)j, similarity, gf_discover_exact(p->x->d, p->x->r, i, j), a, b};
}

/* As leaks.tsv, from its beginning. */
static int find_leaks(discovery *p) {
    const gf_discover_report *x = p->x;
    const gf_pairs_found *f = &x->r->f;
    const float limit = gf_discover_dup(x->s, x->d->dim);
    if (!x->decisions || !x->decide->splits) return 1;
    p->leak = malloc(CHUNK_LISTED * sizeof *p->leak);
    if (!p->leak) return 0;
    for (int64_t i = 0; i < f->n; i++) {
        if (x->s->dup_exact && x->d->copy_of[i] != i) keep_leak(p, x->d->copy_of[i], i, 1.0f);
        for (int64_t k = 0; k < f->top && f->similarity[i * f->top + k] >= limit; k++)
            if (gf_discover_canonical(f, i, k)) keep_leak(p, i, f->other[i * f->top + k], f->similarity[i * f->top + k]);
    }
    return 1;
}

static glofnd_status write_page(gf_error *err, const char *path, discovery *p, const char *summary) {
    const gf_discover_report *x = p->x;
    const gf_discover_result *r = x->r;
    const gf_discover_data *d = x->d;
    const gf_decisions *decisions = x->decisions;
    const gf_pairs_found *f = &r->f;
    int64_t shown = 0;
    const int64_t edge = GF_MIN(f->below, GF_PAGE_BELOW), wanted = edge + GF_MIN(f->top, TOP_MAX);
    const int64_t fits = gf_explorer_top(f->n, wanted, x->html->bytes), top = fits > edge ? fits - edge : 0;
    FAIL_IF(err, !copy_rows(p) || !copy_neighbours(p, top) || !find_leaks(p), GLOFND_E_MEMORY,
            "no memory for a page of %lld anchors", (long long)f->n);
    add_count(p, "embeddings compared", d->good_n);
    add_count(p, "exact copies", d->good_n - d->distinct);
    add_count(p, "groups of duplicates", r->groups.count);
    if (decisions) add_count(p, "rows to keep", decisions->keep);
    if (decisions) add_count(p, "rows to remove", decisions->duplicates + decisions->bad);
    if (decisions) add_count(p, "outliers", decisions->outliers_found);
    if (decisions && d->label) add_count(p, "label issues", decisions->issues);
    add_count(p, "pairs above a threshold", r->above);
    add_count(p, "mutual pairs", r->mutual_pairs);
    add_count(p, "connected components", r->parts.count);
    snprintf(add_fact(p, "mean threshold"), FACT_TEXT, "%.4f", r->lambda.mean);
    if (r->quality.anchors) {
        snprintf(add_fact(p, "precision by labels"), FACT_TEXT, "%.2f %%", 100.0 * r->quality.precision);
        snprintf(add_fact(p, "recall by labels"), FACT_TEXT, "%.2f %%", 100.0 * r->quality.recall);
    }
    gf_explorer page = {
        .source = x->source,
        .summary = summary,
        .n = f->n,
        .top = top + edge,
        .row = d->good,
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
        .copy_of = d->copy_of,
        .label = p->label,
        .name = p->name,
        .decide = x->decide,
        .decisions = x->decisions,
        .leak = p->leak,
        .leaks = p->leaks,
        .facts = p->facts,
        .fact_count = p->fact_count,
        .user = p,
        .image_bytes = x->html->bytes,
        .inline_bytes = INLINE_BYTES,
        .side = SIDE,
    };
    if (d->classes.n || x->html->image_sets) page.class_name = class_of;
    if (!x->html->image_sets) {
        for (int64_t i = 0; d->name && i < GF_MIN(d->good_n, 1000) && !page.image; i++)
            if (is_image_name(d->name[d->good[i]])) page.image = from_file;
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
    discovery p = {.x = x};
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
    free(p.leak);
    return status;
}
