/* explorer_chunks.h - the data of a page in pieces that it takes as it needs them: JSON values, each in an element of the page,
 * or in a file of the folder "page" beside it, which a script element loads (also from a disk, where a page may not read files).
 *
 *     gf_chunk_begin(&c, "a0");  gf_text_add(&c.text, "[1,2]");  gf_chunk_end(&c);
 */
#pragma once

#include <limits.h>
#include <stdio.h>

#include "report/explorer.h"

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
