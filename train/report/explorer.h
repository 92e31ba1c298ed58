/* explorer.h - the result of discovery as an HTML page: what is kept and removed, leaks, outliers, labels, connected components,
 * and any anchor with its neighbours on both sides of its threshold. A curator accepts or rejects each proposal and exports the
 * decisions. Script and style: review.js, explorer.js, explorer.css.
 *
 * A small page is one file. A larger one takes its data from files of the folder "page" beside it, as they are needed: it appears
 * at once, whatever the number of anchors.
 *
 * A position is the index of an anchor on the page; `row` is its number in the data.
 */
#pragma once

#include "data/dataset.h"
#include "discover/decide.h"
#include "discover/discover_files.h"
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

/* ----- thumbnails of a page's anchors on sprite sheets ----- */

typedef struct gf_explorer_images {
    int32_t *slot;   /* [n] tile, counted through all sheets; -1: none */
    uint8_t **sheet; /* [sheets] JPEG */
    size_t *sheet_bytes;
    int sheets;
    int64_t shown;
} gf_explorer_images;

/* Lists take turns, duplicates, label issues, outliers and leaks; then the others follow, until x->image_bytes are used. Empty if
 * x->image is NULL. */
glofnd_status gf_explorer_draw(gf_error *err, const gf_explorer *x, gf_explorer_images *out);
void gf_explorer_images_free(gf_explorer_images *m); /* accepts a zeroed struct */

/* ----- the page of a discovery ----- */

#define GF_PAGE_BELOW 8 /* neighbours just below the threshold that it shows */

typedef struct gf_row_images { /* sample i is row first + i */
    const gf_dataset *data;
    int64_t first;
} gf_row_images;

typedef struct gf_discover_html { /* the page index.html */
    gf_row_images images[GF_SPLITS_MAX];
    int image_sets; /* 0: names may be image files */
    size_t bytes;   /* limit for its images, and again for its numbers */
} gf_discover_html;

/* index.html; not of a query. */
glofnd_status gf_discover_write_html(gf_error *err, const char *path, const gf_discover_report *x);
