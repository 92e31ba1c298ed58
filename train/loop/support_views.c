/* support_views.c - see support_views.h. */
#include "loop/support_views.h"

#include <stdlib.h>
#include <string.h>

static int loaders_of(int views) { return (views + 1) / 2; }

glofnd_status gf_support_open(gf_error *err, gf_support *s, const gf_loader_spec *main, int views, int64_t dim) {
    *s = (gf_support){.views = views, .images = main->batch, .dim = dim, .step = -1};
    s->rows = calloc((size_t)views * (size_t)(main->batch * dim), sizeof *s->rows);
    FAIL_IF(err, !s->rows, GLOFND_E_MEMORY, "no memory for %d support views of %lld images", views, (long long)main->batch);
    for (int i = 0; i < loaders_of(views); i++) {
        gf_loader_spec spec = *main;
        spec.first_view = 2 + 2 * i; /* after the views that are trained on */
        spec.unreadable = NULL;      /* the main loader reports them */
        spec.depth = 1;
        TRY(gf_loader_create(err, &spec, &s->loader[i]));
    }
    return GLOFND_OK;
}

void gf_support_close(gf_support *s) {
    for (int i = 0; i < GF_SUPPORT_LOADERS; i++) gf_loader_free(s->loader[i]);
    free(s->rows);
    *s = (gf_support){0};
}

/* Two views of a loader through the net, as in training: the batch is the same size, with statistics of its own. */
static glofnd_status embed_two(gf_error *err, gf_support *s, gf_net *net, int i) {
    const size_t each = (size_t)(s->images * s->dim);
    const float *out = NULL;
    gf_batch b;
    TRY(gf_loader_next(err, s->loader[i], &b));
    for (int v = 0; v < 2; v++) TRY(gf_net_load(err, net, b.view[v], v * s->images, s->images));
    TRY(gf_net_forward(err, net, NULL, 2 * s->images, 2, NULL, &out));
    for (int v = 0; v < 2 && 2 * i + v < s->views; v++)
        TRY(gf_net_read(err, net, s->rows + (size_t)(2 * i + v) * each, out + (size_t)v * each, each * sizeof *s->rows));
    return GLOFND_OK;
}

glofnd_status gf_support_embed(gf_error *err, gf_support *s, gf_net *net, uint32_t epoch, int64_t step) {
    const int there = s->step == step && s->epoch == epoch;
    for (int i = 0; i < loaders_of(s->views); i++) {
        if (!there) TRY(gf_loader_seek(err, s->loader[i], epoch, step));
        TRY(embed_two(err, s, net, i));
    }
    s->epoch = epoch;
    s->step = step + 1; /* the next epoch is sought */
    return GLOFND_OK;
}
