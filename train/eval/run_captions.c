/* run_captions.c - see run_captions.h. */
#include "eval/run_captions.h"

#include <stdlib.h>
#include <string.h>

#include "data/captions.h"
#include "loader/caption_tokens.h"
#include "util/array.h"
#include "util/components.h"

enum { PART = 512 }; /* captions encoded at a time */

typedef struct reader { /* of captions */
    gf_error *err;
    const gf_trained_run *f;
    gf_run_encoder *e;
    const gf_dataset *data;
    int context;
    gf_sample sample;
    gf_bpe_scratch scratch;
    int32_t *token; /* [PART][context] */
} reader;

static glofnd_status init_reader(gf_error *err, const gf_trained_run *f, reader *x) {
    *x = (reader){.err = err, .f = f, .e = gf_trained_run_captions(f), .data = gf_trained_run_data(f)};
    FAIL_IF(err, !x->e, GLOFND_E_ARGUMENT, "a run on images alone has no captions");
    x->context = gf_trained_run_config(f)->context;
    x->token = malloc((size_t)PART * (size_t)x->context * sizeof *x->token);
    FAIL_IF(err, !x->token, GLOFND_E_MEMORY, "no memory for %d captions", (int)PART);
    return GLOFND_OK;
}

static void free_reader(reader *x) {
    gf_sample_free(&x->sample);
    gf_bpe_scratch_free(&x->scratch);
    free(x->token);
}

/* ----- one caption of each sample ----- */

/* Tokens of the caption that training would draw for sample `id`; E_FORMAT, E_IO: none. */
static glofnd_status draw_caption(gf_error *err, reader *x, int64_t id, int32_t *token) {
    const gf_config *c = gf_trained_run_config(x->f);
    TRY(gf_dataset_text(err, x->data, id, &x->sample));
    return gf_tokens_draw(err, gf_run_encoder_vocabulary(x->e), &x->scratch, x->data, id, x->sample.text, (uint64_t)c->seed,
                          (uint32_t)c->epochs, x->context, token);
}

static void move_row(gf_view_set *s, int64_t to, int64_t from) {
    if (to != from) memcpy(s->z + to * s->dim, s->z + from * s->dim, (size_t)s->dim * sizeof *s->z);
    s->id[to] = s->id[from], s->label[to] = s->label[from];
}

/* Drops images without a caption; both sets end with the rows of the others. */
static glofnd_status encode_texts(reader *x, gf_view_set *image, gf_view_set *text) {
    int64_t kept = 0, done = 0;
    for (int64_t i = 0; i < image->n; i++) {
        gf_error why = {{0}};
        const glofnd_status status = draw_caption(&why, x, image->id[i], x->token + (kept - done) * x->context);
        FAIL_IF(x->err, status != GLOFND_OK && status != GLOFND_E_FORMAT && status != GLOFND_E_IO, status, "%s", why.text);
        if (status != GLOFND_OK) gf_trained_run_report_unreadable(x->f, image->id[i], why.text);
        else move_row(image, kept++, i);
        if (kept - done < PART && i + 1 < image->n) continue;
        TRY(gf_run_encoder_tokens(x->err, x->e, x->token, kept - done, text->z + done * text->dim));
        done = kept;
    }
    FAIL_IF(x->err, kept < 2, GLOFND_E_ARGUMENT, "%lld samples have an image and a caption; pairs need two", (long long)kept);
    image->n = text->n = kept;
    memcpy(text->id, image->id, (size_t)kept * sizeof *text->id);
    memcpy(text->label, image->label, (size_t)kept * sizeof *text->label);
    image->others = text, text->others = image;
    return GLOFND_OK;
}

glofnd_status gf_trained_run_image_text(gf_error *err, gf_trained_run *f, int64_t max, gf_view_set *image, gf_view_set *text) {
    reader x = {0};
    *image = *text = (gf_view_set){0};
    glofnd_status status = init_reader(err, f, &x);
    if (status == GLOFND_OK) status = gf_trained_run_centre_crops(err, f, max, image);
    if (status == GLOFND_OK) status = gf_view_set_alloc(err, text, image->n, image->dim);
    if (status == GLOFND_OK) status = encode_texts(&x, image, text);
    if (status != GLOFND_OK) gf_view_set_free(image), gf_view_set_free(text);
    free_reader(&x);
    return status;
}

/* ----- groups ----- */

typedef struct row_caption {
    uint64_t hash;
    int64_t row;
} row_caption;

typedef struct list {
    row_caption *at;
    int64_t n;
    size_t capacity;
} list;

static int by_hash(const void *a, const void *b) {
    const row_caption *x = a, *y = b;
    return x->hash != y->hash ? (x->hash > y->hash) - (x->hash < y->hash) : (x->row > y->row) - (x->row < y->row);
}

static glofnd_status add(gf_error *err, list *l, row_caption s) {
    FAIL_IF(err, !gf_grow(&l->at, &l->capacity, (size_t)l->n + 1, sizeof *l->at), GLOFND_E_MEMORY, "no memory for %lld captions",
            (long long)l->n + 1);
    l->at[l->n++] = s;
    return GLOFND_OK;
}

static glofnd_status list_captions(reader *x, const gf_view_set *s, list *out) {
    for (int64_t i = 0; i < s->n; i++) {
        TRY(gf_dataset_text(x->err, x->data, s->id[i], &x->sample));
        for (int64_t k = gf_captions_count(x->sample.text) - 1; k >= 0; k--) {
            const gf_caption c = gf_caption_at(x->sample.text, k);
            int count = 0;
            if (c.n > GF_WORDS_TEXT_MAX) continue;
            TRY(gf_bpe_encode(x->err, gf_run_encoder_vocabulary(x->e), &x->scratch, c.text, c.n, x->context, x->token, &count));
            if (count > 2) TRY(add(x->err, out, (row_caption){gf_tokens_hash(x->token, x->context), i}));
        }
    }
    return GLOFND_OK;
}

/* Labels of s become the smallest row of their group. */
static void join_groups(const list *l, gf_view_set *s, int64_t *repeated) {
    gf_components_init(s->label, s->n);
    for (int64_t k = 1; k < l->n; k++)
        if (l->at[k].hash == l->at[k - 1].hash) gf_components_join(s->label, (int32_t)l->at[k].row, (int32_t)l->at[k - 1].row);
    gf_components_flatten(s->label, s->n);
    *repeated = 0;
    for (int64_t i = 0; i < s->n; i++) *repeated += s->label[i] != i;
}

glofnd_status gf_trained_run_caption_groups(gf_error *err, const gf_trained_run *f, gf_view_set *image, gf_view_set *text,
                                            int64_t *repeated) {
    reader x = {0};
    list l = {0};
    FAIL_IF(err, image->n > INT32_MAX, GLOFND_E_ARGUMENT, "more than %d samples cannot be grouped", INT32_MAX);
    glofnd_status status = init_reader(err, f, &x);
    if (status == GLOFND_OK) status = list_captions(&x, image, &l);
    if (status == GLOFND_OK) {
        qsort(l.at, (size_t)l.n, sizeof *l.at, by_hash);
        join_groups(&l, image, repeated);
        memcpy(text->label, image->label, (size_t)image->n * sizeof *text->label);
    }
    free_reader(&x);
    free(l.at);
    return status;
}
