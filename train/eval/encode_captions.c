/* encode_captions.c - all captions of a dataset through the text encoder; see encode.h. */
#include <stdlib.h>
#include <string.h>

#include "data/captions.h"
#include "eval/encode.h"

enum { PART = 1024 }; /* captions at a time */

typedef struct encoding {
    gf_error *err;
    gf_run_encoder *e;
    const gf_dataset *data;
    const gf_encode_spec *report;
    gf_bpe_scratch scratch;
    int32_t *token;  /* [PART][context] */
    int64_t pending; /* tokens of so many captions, not encoded yet */
    gf_features *out;
    int64_t *sample;
    int64_t capacity; /* rows of out and sample */
} encoding;

static void leave_out(const encoding *x, int64_t i, const char *why) {
    if (x->report->unreadable) x->report->unreadable(x->report->user, i, why);
}

static glofnd_status reserve_row(encoding *x) {
    const int64_t dim = x->out->dim, need = x->out->n + 1;
    if (need <= x->capacity) return GLOFND_OK;
    const int64_t capacity = x->capacity ? 2 * x->capacity : PART;
    float *rows = realloc(x->out->x, (size_t)(capacity * dim) * sizeof *rows);
    if (rows) x->out->x = rows;
    int32_t *label = realloc(x->out->label, (size_t)capacity * sizeof *label);
    if (label) x->out->label = label;
    int64_t *sample = realloc(x->sample, (size_t)capacity * sizeof *sample);
    if (sample) x->sample = sample;
    FAIL_IF(x->err, !rows || !label || !sample, GLOFND_E_MEMORY, "no memory for %lld embeddings", (long long)capacity);
    x->capacity = capacity;
    return GLOFND_OK;
}

/* The pending captions are the last rows. */
static glofnd_status encode_pending(encoding *x) {
    const int64_t first = x->out->n - x->pending;
    TRY(gf_run_encoder_tokens(x->err, x->e, x->token, x->pending, x->out->x + first * x->out->dim));
    x->pending = 0;
    return GLOFND_OK;
}

static glofnd_status add_caption(encoding *x, int64_t i, gf_caption c, int32_t label) {
    const int context = gf_run_encoder_config(x->e)->context;
    int count;
    if (c.n > GF_WORDS_TEXT_MAX) return leave_out(x, i, "a caption is too long"), GLOFND_OK;
    TRY(gf_bpe_encode(x->err, gf_run_encoder_vocabulary(x->e), &x->scratch, c.text, c.n, context, x->token + x->pending * context,
                      &count));
    if (count <= 2 && context > 2) return leave_out(x, i, "a caption has no word"), GLOFND_OK;
    TRY(reserve_row(x));
    x->sample[x->out->n] = i;
    x->out->label[x->out->n++] = label;
    return ++x->pending == PART ? encode_pending(x) : GLOFND_OK;
}

static glofnd_status add_sample(encoding *x, int64_t i, gf_sample *s) {
    gf_error why = {{0}};
    const glofnd_status status = gf_dataset_text(&why, x->data, i, s);
    if (status == GLOFND_E_FORMAT || status == GLOFND_E_IO) return leave_out(x, i, why.text), GLOFND_OK;
    FAIL_IF(x->err, status != GLOFND_OK, status, "%s", why.text);
    const int64_t n = gf_captions_count(s->text);
    if (n == 0) leave_out(x, i, "the sample has no caption");
    for (int64_t k = 0; k < n; k++) TRY(add_caption(x, i, gf_caption_at(s->text, k), s->label));
    return GLOFND_OK;
}

static glofnd_status encode_all(encoding *x) {
    const int64_t n = gf_dataset_describe(x->data).n;
    gf_sample s = {0};
    glofnd_status status = GLOFND_OK;
    for (int64_t i = 0; i < n && status == GLOFND_OK; i++) {
        const int64_t pending = x->pending;
        status = add_sample(x, i, &s);
        if (x->report->progress && x->pending < pending) x->report->progress(x->report->user, i + 1, n);
    }
    gf_sample_free(&s);
    TRY(status);
    FAIL_IF(x->err, x->out->n == 0, GLOFND_E_FORMAT, "this data has no caption");
    if (x->pending) TRY(encode_pending(x));
    if (x->report->progress) x->report->progress(x->report->user, n, n);
    return GLOFND_OK;
}

glofnd_status gf_encode_captions(gf_error *err, gf_run_encoder *e, const gf_dataset *data, const gf_encode_spec *report,
                                 gf_features *out, int64_t **sample) {
    encoding x = {.err = err, .e = e, .data = data, .report = report, .out = out};
    *out = (gf_features){.dim = gf_run_encoder_dim(e)};
    *sample = NULL;
    FAIL_IF(err, !gf_run_encoder_vocabulary(e), GLOFND_E_ARGUMENT, "an image encoder cannot read captions");
    TRY(gf_captions_require(err, data));
    x.token = malloc((size_t)PART * (size_t)gf_run_encoder_config(e)->context * sizeof *x.token);
    const glofnd_status status = x.token ? encode_all(&x) : gf_fail(err, GLOFND_E_MEMORY, "no memory for %d captions", PART);
    gf_bpe_scratch_free(&x.scratch);
    free(x.token);
    if (status == GLOFND_OK) *sample = x.sample;
    else gf_features_free(out), free(x.sample);
    return status;
}
