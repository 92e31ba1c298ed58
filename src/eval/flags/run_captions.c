/* run_captions.c - see run_captions.h. */
#include "eval/flags/run_captions.h"

#include <stdlib.h>
#include <string.h>

#include "loader/caption_tokens.h"
#include "text/captions.h"

enum { PART = 512 }; /* captions encoded at a time */

typedef struct reading { /* of captions */
    gf_error *err;
    const gf_trained_run *f;
    gf_run_encoder *e;
    const gf_dataset *data;
    int context;
    gf_sample sample;
    gf_bpe_scratch scratch;
    int32_t *token; /* [PART][context] */
} reading;

static glofnd_status begin(gf_error *err, const gf_trained_run *f, reading *x) {
    *x = (reading){.err = err, .f = f, .e = gf_trained_run_captions(f), .data = gf_trained_run_data(f)};
    FAIL_IF(err, !x->e, GLOFND_E_ARGUMENT, "a run on images alone has no captions");
    x->context = gf_trained_run_config(f)->context;
    x->token = malloc((size_t)PART * (size_t)x->context * sizeof *x->token);
    FAIL_IF(err, !x->token, GLOFND_E_MEMORY, "no memory for %d captions", (int)PART);
    return GLOFND_OK;
}

static void end(reading *x) {
    gf_sample_free(&x->sample);
    gf_bpe_scratch_free(&x->scratch);
    free(x->token);
}

/* ----- a caption each ----- */

/* Tokens of the caption of sample `id`; E_FORMAT, E_IO: it has none. */
static glofnd_status draw(gf_error *err, reading *x, int64_t id, int32_t *token) {
    const gf_config *c = gf_trained_run_config(x->f);
    TRY(gf_dataset_text(err, x->data, id, &x->sample));
    return gf_tokens_draw(err, gf_run_encoder_vocabulary(x->e), &x->scratch, x->data, id, x->sample.text, (uint64_t)c->seed,
                          (uint32_t)c->epochs, x->context, token);
}

static void move_row(gf_view_set *s, int64_t to, int64_t from) {
    if (to != from) memcpy(s->z + to * s->dim, s->z + from * s->dim, (size_t)s->dim * sizeof *s->z);
    s->id[to] = s->id[from], s->label[to] = s->label[from];
}

/* Rows of images that have no caption are closed up; text->n rows have got one. */
static glofnd_status encode_texts(reading *x, gf_view_set *image, gf_view_set *text) {
    int64_t kept = 0, done = 0;
    for (int64_t i = 0; i < image->n; i++) {
        gf_error why = {{0}};
        const glofnd_status status = draw(&why, x, image->id[i], x->token + (kept - done) * x->context);
        FAIL_IF(x->err, status != GLOFND_OK && status != GLOFND_E_FORMAT && status != GLOFND_E_IO, status, "%s", why.text);
        if (status != GLOFND_OK) gf_trained_run_report_unreadable(x->f, image->id[i], why.text);
        else move_row(image, kept++, i);
        if (kept - done < PART && i + 1 < image->n) continue;
        TRY(gf_run_encoder_tokens(x->err, x->e, x->token, kept - done, text->z + done * text->dim));
        done = kept;
    }
    FAIL_IF(x->err, kept < 2, GLOFND_E_ARGUMENT, "%lld samples have an image and a caption; pairs take two", (long long)kept);
    image->n = text->n = kept;
    memcpy(text->id, image->id, (size_t)kept * sizeof *text->id);
    memcpy(text->label, image->label, (size_t)kept * sizeof *text->label);
    image->others = text, text->others = image;
    return GLOFND_OK;
}

glofnd_status gf_trained_run_image_text(gf_error *err, gf_trained_run *f, int64_t most, gf_view_set *image, gf_view_set *text) {
    reading x = {0};
    *image = *text = (gf_view_set){0};
    glofnd_status status = begin(err, f, &x);
    if (status == GLOFND_OK) status = gf_trained_run_centre_crops(err, f, most, image);
    if (status == GLOFND_OK) status = gf_view_set_alloc(err, text, image->n, image->dim);
    if (status == GLOFND_OK) status = encode_texts(&x, image, text);
    if (status != GLOFND_OK) gf_view_set_free(image), gf_view_set_free(text);
    end(&x);
    return status;
}

/* ----- groups ----- */

typedef struct said { /* a caption of a row */
    uint64_t hash;
    int64_t row;
} said;

typedef struct list {
    said *at;
    int64_t n, room;
} list;

static int by_hash(const void *a, const void *b) {
    const said *x = a, *y = b;
    return x->hash != y->hash ? (x->hash > y->hash) - (x->hash < y->hash) : (x->row > y->row) - (x->row < y->row);
}

static glofnd_status add(gf_error *err, list *l, said s) {
    if (l->n == l->room) {
        const int64_t room = l->room ? 2 * l->room : 1024;
        said *grown = realloc(l->at, (size_t)room * sizeof *grown);
        FAIL_IF(err, !grown, GLOFND_E_MEMORY, "no memory for %lld captions", (long long)room);
        l->at = grown, l->room = room;
    }
    l->at[l->n++] = s;
    return GLOFND_OK;
}

static glofnd_status list_captions(reading *x, const gf_view_set *s, list *out) {
    for (int64_t i = 0; i < s->n; i++) {
        TRY(gf_dataset_text(x->err, x->data, s->id[i], &x->sample));
        for (int64_t k = gf_captions_count(x->sample.text) - 1; k >= 0; k--) {
            const gf_caption c = gf_caption_at(x->sample.text, k);
            int count = 0;
            if (c.n > GF_WORDS_TEXT_MOST) continue;
            TRY(gf_bpe_encode(x->err, gf_run_encoder_vocabulary(x->e), &x->scratch, c.text, c.n, x->context, x->token, &count));
            if (count > 2) TRY(add(x->err, out, (said){gf_tokens_hash(x->token, x->context), i}));
        }
    }
    return GLOFND_OK;
}

/* label [n]: a forest over the rows, whose roots are their smallest members. */
static int32_t root(int32_t *label, int32_t i) {
    while (label[i] != i) i = label[i] = label[label[i]];
    return i;
}

static void join(const list *l, gf_view_set *s, int64_t *alike) {
    int32_t *label = s->label;
    *alike = 0;
    for (int64_t i = 0; i < s->n; i++) label[i] = (int32_t)i;
    for (int64_t k = 1; k < l->n; k++) {
        if (l->at[k].hash != l->at[k - 1].hash) continue;
        const int32_t a = root(label, (int32_t)l->at[k].row), b = root(label, (int32_t)l->at[k - 1].row);
        label[a > b ? a : b] = a > b ? b : a;
    }
    for (int64_t i = 0; i < s->n; i++) label[i] = root(label, (int32_t)i);
    for (int64_t i = 0; i < s->n; i++) *alike += label[i] != i;
}

glofnd_status gf_trained_run_caption_groups(gf_error *err, const gf_trained_run *f, gf_view_set *image, gf_view_set *text,
                                            int64_t *alike) {
    reading x = {0};
    list l = {0};
    FAIL_IF(err, image->n > INT32_MAX, GLOFND_E_ARGUMENT, "groups are for at most %d samples", INT32_MAX);
    glofnd_status status = begin(err, f, &x);
    if (status == GLOFND_OK) status = list_captions(&x, image, &l);
    if (status == GLOFND_OK) {
        qsort(l.at, (size_t)l.n, sizeof *l.at, by_hash);
        join(&l, image, alike);
        memcpy(text->label, image->label, (size_t)image->n * sizeof *text->label);
    }
    end(&x);
    free(l.at);
    return status;
}
