/* texts.c - the texts of a batch, each as long as it needs to be.
 *
 * The encoder is causal, and the embedding of a text is that of one position: where its largest token is, the end of the text
 * (of several the first). Positions after it change neither the embedding nor a gradient: they are not computed. The rows that
 * are lie one text behind the other (gf_nn_texts). Their number is a multiple of the batch, the mean length rounded up by
 * gf_nn_text_length: for each such length the backend has plans, and a GPU a record of the step. The rows too many belong to
 * texts that are computed further than they need, one position after the other, as evenly as possible. So every row is that of a
 * text as it was loaded, nothing is special about any of them, and a batch of texts that fill the context is the largest case.
 *
 * On the host, `packed` holds what goes to the net: token [batch][context], of which `rows` are used, and the table: first
 * [batch + 1], picked [batch], position [batch][context], of which again `rows` are used.
 */
#include <stdlib.h>
#include <string.h>

#include "nn/graph.h"

typedef struct text_table {
    int32_t *first, *picked, *position;
} text_table;

static int64_t text_table_numbers(int64_t n, int64_t context) { return 2 * n + 1 + n * context; }

size_t gf_texts_table_bytes(int64_t n, int64_t context) { return sizeof(int32_t) * (size_t)text_table_numbers(n, context); }

static text_table text_table_at(int32_t *at, int64_t n) { return (text_table){at, at + n + 1, at + 2 * n + 1}; }

/* Positions up to the end of a text. */
static int32_t length_of(const int32_t *token, int64_t context) {
    int32_t best = 0;
    for (int32_t i = 1; i < context; i++)
        if (token[i] > token[best]) best = i;
    return best + 1;
}

/* Packs all texts, and copies them to the net. shared: the other ranks do the same. */
static glofnd_status pack_texts(gf_error *err, gf_net *n, int shared) {
    const int64_t batch = n->spec.batch, context = n->spec.context;
    int32_t *token = n->packed, *length = n->packed; /* lengths give way to the tokens */
    const text_table t = text_table_at(n->packed + batch * context, batch);
    int64_t sum = 0, mean = 0;
    for (int64_t i = 0; i < batch; i++) {
        length[i] = t.picked[i] = length_of(n->tokens + i * context, context);
        sum += length[i];
    }
    /* The mean length that is computed. `sum`: of the lengths that are needed. */
    const gf_sync_norm *r = n->spec.ranks;
    mean = n->spec.whole_texts ? context : gf_nn_text_length((sum + batch - 1) / batch, context);
    if (shared && r && r->largest) TRY(r->largest(err, r->user, &mean));
    /* Lengths grow until their sum is the number of rows. */
    int64_t missing = mean * batch - sum;
    while (missing > 0)
        for (int64_t i = 0; i < batch && missing > 0; i++)
            if (length[i] < context) length[i]++, missing--;
    t.first[0] = 0;
    for (int64_t i = 0; i < batch; i++) {
        t.first[i + 1] = t.first[i] + length[i];
        t.picked[i] += t.first[i] - 1;
    }
    for (int64_t i = 0; i < batch; i++) {
        const int32_t at = t.first[i], count = t.first[i + 1] - at;
        memcpy(token + at, n->tokens + i * context, sizeof *token * (size_t)count);
        for (int32_t k = 0; k < count; k++) t.position[at + k] = k;
    }
    n->graph.texts.rows = mean * batch;
    const gf_graph *g = &n->graph;
    TRY(gf_net_write(err, n, n->arena + g->block[g->value[0].data].offset, token, sizeof *token * (size_t)g->texts.rows));
    return gf_net_write(err, n, n->arena + g->block[g->text_table].offset, t.first,
                        sizeof *token * (size_t)(2 * batch + 1 + g->texts.rows));
}

glofnd_status gf_net_texts_init(gf_error *err, gf_net *n) {
    const int64_t batch = n->spec.batch, context = n->spec.context;
    const text_table there = text_table_at((int32_t *)(void *)(n->arena + n->graph.block[n->graph.text_table].offset), batch);
    n->tokens = calloc((size_t)(batch * context), sizeof *n->tokens);
    n->packed = calloc((size_t)(batch * context + text_table_numbers(batch, context)), sizeof *n->packed);
    FAIL_IF(err, !n->tokens || !n->packed, GLOFND_E_MEMORY, "out of memory for %lld texts", (long long)batch);
    n->graph.texts = (gf_nn_texts){.first = there.first, .position = there.position, .picked = there.picked};
    return pack_texts(err, n, 0);
}

glofnd_status gf_net_texts_blank(gf_error *err, gf_net *n, int64_t count) {
    const int64_t context = n->spec.context;
    memset(n->tokens + count * context, 0, sizeof *n->tokens * (size_t)((n->spec.batch - count) * context));
    return pack_texts(err, n, 0);
}

/* In the net a token is an index into a table: its range is checked here. */
glofnd_status gf_net_load_tokens(gf_error *err, gf_net *n, const int32_t *tokens, int64_t first, int64_t count) {
    const int64_t context = n->spec.context;
    FAIL_IF(err, n->graph.value[0].type != GF_TYPE_I32, GLOFND_E_ARGUMENT, "a net for images takes no tokens");
    TRY(gf_net_check_range(err, n, first, count, "texts"));
    for (int64_t i = 0; i < count * context; i++)
        FAIL_IF(err, tokens[i] < 0 || tokens[i] >= n->spec.vocab, GLOFND_E_ARGUMENT,
                "token %d of text %lld is %d: the net knows 0 to %d; was it made for a different tokenizer?", (int)(i % context),
                (long long)(first + i / context), (int)tokens[i], n->spec.vocab - 1);
    memcpy(n->tokens + first * context, tokens, sizeof *tokens * (size_t)(count * context));
    return pack_texts(err, n, 1);
}

int64_t gf_net_text_length(const gf_net *n) { return n->graph.value[0].packed ? n->graph.texts.rows / n->spec.batch : 0; }
