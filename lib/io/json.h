/* json.h - JSON as a tree: the one parser of the project, strict (RFC 8259) and made for hostile input.
 *
 *     gf_json_read(err, "x.safetensors", text, n, 3, 0, &j);      nodes are numbers; 0 is the root
 *     for (int64_t k = j.node[0].first; k >= 0; k = j.node[k].next) ... gf_json_text(&j, j.node[k].key)
 *     gf_json_free(&j);
 * The keys of an object differ. Texts are UTF-8 without zero bytes. Integers fit 64 bits, other numbers a double.
 */
#pragma once

#include "util/text.h"

#define GF_JSON_DEPTH 256 /* for files of other programs */

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
    union {
        int64_t integer; /* INTEGER */
        double real;     /* REAL */
        int64_t count;   /* children of ARRAY and OBJECT, bytes of TEXT */
    };
    int64_t first, next; /* child; sibling; -1: none */
    size_t key, text;    /* where they begin in the tree's texts: key of a child of OBJECT; TEXT */
} gf_json_node;

typedef struct gf_json {
    gf_json_node *node; /* [count] */
    size_t count, capacity;
    char *text; /* all keys and texts, each closed by 0 */
} gf_json;

/* What other programs write though it is not quite JSON: NaN and Infinity are read as reals, a text may hold zero bytes (its
 * count says where it ends), and the last of several equal keys counts. */
enum { GF_JSON_LENIENT = 1 };

/* text [n + 1], closed by 0. depth: arrays and objects inside of each other, at most. E_FORMAT: `where` and what is wrong. */
glofnd_status gf_json_read(gf_error *err, const char *where, const char *text, size_t n, int depth, int flags, gf_json *out);
void gf_json_free(gf_json *j); /* a zeroed one is fine */
static inline const char *gf_json_text(const gf_json *j, size_t at) { return j->text + at; }
static inline int gf_json_is(const gf_json *j, int64_t node, gf_json_kind kind) {
    return node >= 0 && j->node[node].kind == kind;
}
/* The child of that key; -1: none, or `node` is no object. */
int64_t gf_json_find(const gf_json *j, int64_t node, const char *key);
/* The text under that key; NULL: there is none. */
const char *gf_json_find_text(const gf_json *j, int64_t node, const char *key);

enum { GF_JSON_CHARACTER = 8 };
/* Writing: the character at *text as it stands between quotes, in out [GF_JSON_CHARACTER], and *text behind it. Bytes that are
 * not UTF-8 become U+FFFD. Returns the bytes put. */
size_t gf_json_character(const char **text, char *out);
/* The text in quotes, with \n, \t and the like in their short form. */
void gf_json_quote(gf_text *out, const char *text);
