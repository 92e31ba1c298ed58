/* fuzz_json.c - libFuzzer target of the JSON parser; bit 0 of the first byte chooses lenient reading. What is accepted must be a
 * whole tree, and each of its texts must come back when it is written in quotes. */
#include <stdlib.h>
#include <string.h>

#include "io/json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_text(const char *text) {
    gf_error err = {""};
    gf_json again = {0};
    gf_text quoted = {0};
    gf_json_quote(&quoted, text);
    if (gf_json_read(&err, "quoted", quoted.at, quoted.used, 0, 0, &again) != GLOFND_OK) abort();
    if (again.count != 1 || strcmp(gf_json_text(&again, again.node[0].text), text) != 0) abort();
    gf_json_free(&again);
    gf_text_free(&quoted);
}

/* Returns the nodes of the subtree. */
static size_t check_tree(const gf_json *j, int64_t node, int depth, int lenient) {
    const gf_json_node *n = &j->node[node];
    size_t all = 1;
    int64_t children = 0;
    if (depth < 0) abort();
    if (n->kind == GF_JSON_TEXT) check_text(gf_json_text(j, n->text));
    if (n->kind == GF_JSON_TEXT && (int64_t)strlen(gf_json_text(j, n->text)) != n->count && !lenient) abort();
    if (n->kind != GF_JSON_ARRAY && n->kind != GF_JSON_OBJECT) return n->first < 0 ? all : (abort(), all);
    for (int64_t k = n->first; k >= 0; k = j->node[k].next, children++) {
        if (k <= node || (size_t)k >= j->count) abort();
        if (n->kind == GF_JSON_OBJECT) {
            const char *key = gf_json_text(j, j->node[k].key);
            const int64_t found = gf_json_find(j, node, key);
            if (lenient ? found < k : found != k) abort();
            check_text(key);
        }
        all += check_tree(j, k, depth - 1, lenient);
    }
    if (children != n->count) abort();
    return all;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    enum { DEPTH = 20 };
    gf_error err = {""};
    gf_json j = {0};
    if (size == 0 || size > 4096) return 0;
    const int lenient = data[0] & 1;
    char *text = malloc(size); /* exactly as long as it is: sanitizers see every byte read behind it */
    memcpy(text, data + 1, size - 1);
    text[size - 1] = 0;
    const glofnd_status status = gf_json_read(&err, "fuzz", text, size - 1, DEPTH, lenient ? GF_JSON_LENIENT : 0, &j);
    if (status != GLOFND_OK && (j.node || !strstr(err.text, "'fuzz' is not JSON: "))) abort();
    if (status == GLOFND_OK && check_tree(&j, 0, DEPTH, lenient) != j.count) abort();
    gf_json_free(&j);
    free(text);
    return 0;
}
