/* explorer_chunks.c - see explorer_chunks.h: pieces of a page, and those of its anchors. Numbers are base64 of little-endian
 * int32, int16 or float32. */
#include "report/explorer_chunks.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "io/calls.h"
#include "io/jsonl.h"
#include "plot/base64.h"
#include "util/array.h"

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

typedef struct bytes { /* numbers of a piece */
    uint8_t *at;
    size_t used;
} bytes;

static void put_le(bytes *b, uint32_t value, int n) {
    for (int k = 0; k < n; k++) b->at[b->used++] = (uint8_t)(value >> 8 * k);
}

static uint32_t limited(int64_t value) { return value > INT32_MAX ? INT32_MAX : (uint32_t)value; }

static void add_bytes(gf_chunks *c, bytes *b) {
    gf_text_add(&c->text, "\"");
    gf_text_base64(&c->text, b->at, b->used);
    gf_text_add(&c->text, "\"");
    b->used = 0;
}

/* [numbers: row, label, slot, kept; names]; label: -1 unknown. kept: the position that is kept instead, itself: kept. */
static void put_light(gf_chunks *c, const gf_explorer *x, const int32_t *slot, int64_t from, int64_t to, bytes *b) {
    for (int64_t i = from; i < to; i++) put_le(b, (uint32_t)x->row[i], 4);
    for (int64_t i = from; i < to; i++) put_le(b, x->label ? (uint32_t)x->label[i] : UINT32_MAX, 4);
    for (int64_t i = from; i < to; i++) put_le(b, slot ? (uint32_t)slot[i] : UINT32_MAX, 4);
    for (int64_t i = from; i < to; i++) put_le(b, (uint32_t)(x->decisions ? x->decisions->kept[i] : i), 4);
    gf_text_add(&c->text, "[");
    add_bytes(c, b);
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

/* [numbers: threshold, above, mutual, component, group, first of the same bytes; neighbours; their similarities] */
static void put_heavy(gf_chunks *c, const gf_explorer *x, int64_t from, int64_t to, bytes *b) {
    for (int64_t i = from; i < to; i++) put_le(b, bits_of(x->lambda[i]), 4);
    for (int64_t i = from; i < to; i++) put_le(b, limited(x->above[i]), 4);
    for (int64_t i = from; i < to; i++) put_le(b, limited(x->mutual[i]), 4);
    for (int64_t i = from; i < to; i++) put_le(b, (uint32_t)x->component[i], 4);
    for (int64_t i = from; i < to; i++) put_le(b, (uint32_t)x->group[i], 4);
    for (int64_t i = from; i < to; i++) put_le(b, (uint32_t)x->copy_of[i], 4);
    gf_text_add(&c->text, "[");
    add_bytes(c, b);
    gf_text_add(&c->text, ",");
    for (int64_t k = from * x->top; k < to * x->top; k++) put_le(b, other_cell(x, k), 4);
    add_bytes(c, b);
    gf_text_add(&c->text, ",");
    for (int64_t k = from * x->top; k < to * x->top; k++) put_le(b, near_cell(x->similarity[k]), 2);
    add_bytes(c, b);
    gf_text_add(&c->text, "]");
}

void gf_chunks_put_anchors(gf_chunks *c, const gf_explorer *x, const int32_t *slot) {
    const int64_t each = gf_chunk_anchors(x);
    bytes b = {.at = malloc((size_t)each * (size_t)GF_MAX(6 * 4, 4 * x->top + 4))};
    if (!b.at) c->error = ENOMEM;
    for (int64_t k = 0; b.at && k * each < x->n && !c->error; k++) {
        const int64_t from = k * each, to = GF_MIN(from + each, x->n);
        gf_chunk_begin(c, "a", k);
        put_light(c, x, slot, from, to, &b);
        gf_chunk_end(c);
        gf_chunk_begin(c, "n", k);
        put_heavy(c, x, from, to, &b);
        gf_chunk_end(c);
    }
    free(b.at);
}
