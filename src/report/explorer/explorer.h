/* explorer.h - what discovery found as one self-contained HTML page: galleries of duplicates and connected parts, and any anchor
 * with its neighbours on both sides of its threshold. Its script and style are explorer.js and explorer.css.
 *
 * "Position" numbers the anchors of the page from 0; `row` is what they are called.
 */
#ifndef GF_REPORT_EXPLORER_EXPLORER_H
#define GF_REPORT_EXPLORER_EXPLORER_H

#include "image/image.h"
#include "util/strings/text_buffer.h"

#define GF_EXPLORER_MOST ((int64_t)1 << 30) /* anchors at most, two less */
#define GF_EXPLORER_SHEET 1024              /* pixels on a side of the JPEGs that hold the thumbnails */

typedef struct gf_explorer {
    const char *source, *summary; /* where the embeddings are from; a text for the end of the page */
    int64_t n, top;
    const int32_t *row;               /* [n] */
    const float *lambda;              /* [n] */
    const int64_t *above, *mutual;    /* [n] */
    const int32_t *other;             /* [n][top] positions, the most similar first; -1: no more */
    const float *similarity;          /* [n][top] */
    const int32_t *component, *group; /* [n] -1: none */
    int64_t components, groups;
    const int64_t *component_pairs;                       /* [components] */
    const int32_t *copy_of;                               /* [n] smallest position with the same bytes */
    const int32_t *label;                                 /* [n] or NULL; negative: unknown */
    const char *const *name;                              /* [n] or NULL */
    const char *(*class_name)(void *user, int32_t label); /* NULL: labels have no names. May return NULL */
    const char *const *facts;                             /* [2 fact_count] value, what it is */
    int fact_count;
    /* The image of a position; 0: there is none. NULL: there are no images at all. */
    int (*image)(void *user, int64_t position, gf_image *out);
    void *user;
    size_t image_bytes; /* thumbnails take at most so much of the page, those of duplicates first */
    int side;           /* pixels of a thumbnail, a divisor of GF_EXPLORER_SHEET and multiple of 16 */
} gf_explorer;

/* Neighbours per anchor that a page of about `bytes` bytes can hold, at most top. */
int64_t gf_explorer_top(int64_t n, int64_t top, size_t bytes);
/* *shown: positions that have an image. */
glofnd_status gf_explorer_write(gf_error *err, const char *path, const gf_explorer *x, int64_t *shown);

#endif
