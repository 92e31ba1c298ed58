/* explorer.h - the result of discovery as an HTML page: what is kept and removed, leaks, outliers, labels, connected components,
 * and any anchor with its neighbours on both sides of its threshold. Script and style: explorer.js, explorer.css.
 *
 * A small page is one file. A larger one takes its data from files of the folder "page" beside it, as they are needed: it appears
 * at once, whatever the number of anchors (explorer_chunks.h).
 *
 * A position is the index of an anchor on the page; `row` is its number in the data.
 */
#pragma once

#include <limits.h>
#include <stdio.h>

#include "discover/decide.h"
#include "image/image.h"
#include "util/text.h"

#define GF_EXPLORER_MAX (((int64_t)1 << 30) - 2) /* anchors */
#define GF_EXPLORER_SHEET 1024                   /* pixels of a side of a sprite sheet */

typedef struct gf_explorer_leak { /* a pair of duplicates in two splits */
    int32_t a, b;
    float similarity;
    int exact, a_split, b_split;
} gf_explorer_leak;

typedef struct gf_explorer {
    const char *source, *summary; /* source of the embeddings; text for the end of the page */
    int64_t n, top;
    const int32_t *row;               /* [n] */
    const float *lambda;              /* [n] */
    const int64_t *above, *mutual;    /* [n] */
    const int32_t *other;             /* [n][top] positions, most similar first; -1: no more */
    const float *similarity;          /* [n][top] */
    const int32_t *component, *group; /* [n] -1: none */
    int64_t components, groups;
    const int64_t *component_pairs;                       /* [components] */
    const int32_t *copy_of;                               /* [n] smallest position with the same bytes */
    const int32_t *label;                                 /* [n] or NULL; negative: unknown */
    const char *const *name;                              /* [n] or NULL */
    const char *(*class_name)(void *user, int32_t label); /* NULL: no names. May return NULL */
    const gf_decide_spec *decide;                         /* NULL: no decisions */
    const gf_decisions *decisions;                        /* by position */
    const int32_t *nearest;                               /* [n] or NULL: no outliers */
    const float *nearest_similarity;                      /* [n] */
    const gf_explorer_leak *leak;                         /* [leaks] */
    int64_t leaks;
    const char *const *facts; /* [2 fact_count] value, description */
    int fact_count;
    /* Image of a position; 0: none. NULL: the page has no images. */
    int (*image)(void *user, int64_t position, gf_image *out);
    void *user;
    size_t image_bytes;  /* limit for thumbnails */
    double inline_bytes; /* a page of at most so many bytes of data is one file */
    int side;            /* pixels of a thumbnail: divides GF_EXPLORER_SHEET, multiple of 16 */
} gf_explorer;

/* Neighbours per anchor for a page of about `bytes` bytes, at most top. */
int64_t gf_explorer_top(int64_t n, int64_t top, size_t bytes);
/* Writes `path` and perhaps the folder "page" beside it. *shown: number of positions with an image. */
glofnd_status gf_explorer_write(gf_error *err, const char *path, const gf_explorer *x, int64_t *shown);

/* ----- chunks ----- */

/* The data of a page in pieces that it takes as it needs them: JSON values, each in an element of the page,
 * or in a file of the folder "page" beside it, which a script element loads (also from a disk, where a page may not read files).
 *
 *     gf_chunk_begin(&c, "a0");  gf_text_add(&c.text, "[1,2]");  gf_chunk_end(&c);
 */

#define GF_PAGE_FOLDER "page"

typedef struct gf_chunks {
    FILE *page;            /* index.html */
    char folder[PATH_MAX]; /* "": chunks are elements of the page */
    char id[24];
    gf_text text; /* of the chunk in the making */
    int error;    /* errno of the first failed file; ENOMEM: out of memory */
} gf_chunks;

void gf_chunk_begin(gf_chunks *c, const char *kind, int64_t number);
void gf_chunk_end(gf_chunks *c);
/* A JPEG: page/s0.jpg, or base64 in an element. */
void gf_chunk_image(gf_chunks *c, int64_t number, const uint8_t *bytes, size_t n);

/* A JSON string; <, > and & are escaped, so that no text ends an element, and bytes that are not UTF-8 become U+FFFD. */
void gf_chunk_add_string(gf_text *t, const char *raw);

enum {
    GF_CHUNK_ANCHORS = 4096, /* of one file, more where these would be more than GF_CHUNK_FILES */
    GF_CHUNK_FILES = 500,
    GF_CHUNK_ITEMS = 100,    /* of a list */
    GF_CHUNK_LISTED = 10000, /* items of a list on a page */
    GF_CHUNK_MEMBERS = 24,   /* members of a group that are shown at once */
    GF_CHUNK_MEMBERS_MAX = 2000
};
int64_t gf_chunk_anchors(const gf_explorer *x);

/* Anchors: "aK" rows, labels, pictures, decisions, names; "nK" thresholds, counts, neighbours. slot [n]: pictures, or NULL. */
void gf_chunks_put_anchors(gf_chunks *c, const gf_explorer *x, const int32_t *slot);
/* Lists: "gK" duplicates, "pK" components, "oK" outliers, "lK" labels, "kK" leaks. order [groups]: duplicates as shown. */
void gf_chunks_put_lists(gf_chunks *c, const gf_explorer *x, const int32_t *slot, const int32_t *order);

/* ----- thumbnails of a page's anchors on sprite sheets ----- */

typedef struct gf_explorer_images {
    int32_t *slot;   /* [n] tile, counted through all sheets; -1: none */
    uint8_t **sheet; /* [sheets] JPEG */
    size_t *sheet_bytes;
    int sheets;
    int64_t shown;
} gf_explorer_images;

/* Duplicates first, then their neighbours, then the others, until x->image_bytes are used. Empty if x->image is NULL. */
glofnd_status gf_explorer_draw(gf_error *err, const gf_explorer *x, gf_explorer_images *out);
void gf_explorer_images_free(gf_explorer_images *m); /* accepts a zeroed struct */
