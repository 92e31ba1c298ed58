/* json_tree.h - JSON as a tree: a strict reader (RFC 8259) for hostile input, without a library, for what libglofnd reads.
 *
 *     gf_json_read(err, "x.safetensors", text, n, 3, &j);      nodes are numbers; 0 is the root
 *     for (int64_t k = j.node[0].first; k >= 0; k = j.node[k].next) ... gf_json_text(&j, j.node[k].key)
 *     gf_json_free(&j);
 * Keys of an object differ; texts are UTF-8 without zero bytes. Numbers with a fraction or exponent are checked, not kept.
 */
#pragma once

#include "util/status.h"

typedef enum gf_json_kind {
    GF_JSON_NULL,
    GF_JSON_FALSE,
    GF_JSON_TRUE,
    GF_JSON_INTEGER,
    GF_JSON_REAL,
    GF_JSON_TEXT,
    GF_JSON_ARRAY,
    GF_JSON_OBJECT
} gf_json_kind;

typedef struct gf_json_node {
    gf_json_kind kind;
    int64_t integer;     /* INTEGER */
    int64_t first, next; /* child; sibling; -1: none */
    int64_t count;       /* children of ARRAY, OBJECT */
    size_t key, text;    /* where they begin in the tree's texts: key of a child of OBJECT; TEXT */
} gf_json_node;

typedef struct gf_json {
    gf_json_node *node; /* [count] */
    size_t count, capacity;
    char *text; /* all keys and texts, each closed by 0 */
} gf_json;

/* text [n + 1], closed by 0. depth: arrays and objects inside of each other, at most. E_FORMAT: `where` and what is wrong. */
glofnd_status gf_json_read(gf_error *err, const char *where, const char *text, size_t n, int depth, gf_json *out);
void gf_json_free(gf_json *j); /* a zeroed one is fine */
static inline const char *gf_json_text(const gf_json *j, size_t at) { return j->text + at; }
/* The child of that key; -1: none, or `node` is no object. */
int64_t gf_json_find(const gf_json *j, int64_t node, const char *key);
