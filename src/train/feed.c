/* feed.c - see feed.h. */
#include "train/feed.h"

#include "cuda/augment/cuda_feed.h"

#define PRELOAD_MAX ((int64_t)2 << 30) /* bytes of images on the device */

int64_t gf_feed_preload_bytes(const gf_dataset *d, const gf_augment *a) {
    const gf_dataset_info info = gf_dataset_describe(d);
    const int64_t bytes = gf_preload_bytes(d), side = (int64_t)GF_VIEW_SCALE * a->size;
    if (a->view_filter != GF_FILTER_LINEAR) return 0; /* the CPU resizes */
    return bytes <= PRELOAD_MAX && info.width <= side && info.height <= side ? bytes : 0;
}

/* Pixels come with the batches if the device has no memory for them. */
static glofnd_status preload_images(gf_error *err, gf_feed *f, const gf_loader_spec *s) {
    TRY(gf_preload_load(err, s->data, s->workers, &f->resident));
    const uint8_t *pixels = gf_preload_pixels(f->resident);
    const glofnd_status status = gf_cuda_feed_keep(err, f->device, pixels, (size_t)gf_preload_bytes(s->data));
    gf_preload_drop_pixels(f->resident);
    if (status != GLOFND_E_MEMORY) return status;
    gf_preload_free(f->resident);
    f->resident = NULL;
    return GLOFND_OK;
}

static glofnd_status open_device(gf_error *err, gf_feed *f, gf_type type, gf_loader_spec *s) {
    float level[3][256];
    gf_cuda_feed_spec spec = {
        .size = s->augment.size, .views = s->views * s->batch, .type = type, .level = level[0], .stream = gf_net_stream(f->net)};
    gf_augment_levels(&s->augment, level);
    gf_net_input(f->net, &spec.channels);
    const glofnd_status status = gf_cuda_feed_create(err, &spec, &f->device);
    if (status == GLOFND_E_UNSUPPORTED) return GLOFND_OK; /* the loader makes the views */
    TRY(status);
    if (gf_feed_preload_bytes(s->data, &s->augment) > 0) TRY(preload_images(err, f, s));
    s->pack = 1;
    s->preload = f->resident;
    s->alloc = gf_cuda_pinned_alloc;
    s->release = gf_cuda_pinned_free;
    return GLOFND_OK;
}

static glofnd_status put(gf_error *err, gf_feed *f, const gf_batch *b) {
    f->ahead = 0;
    TRY(gf_cuda_feed_put(err, f->device, b->job, b->pixels, b->pixel_chunks));
    f->ahead = 1;
    f->epoch = b->epoch;
    f->step = b->step;
    return GLOFND_OK;
}

static glofnd_status take(gf_error *err, gf_feed *f, const gf_batch *b) {
    int channels;
    if (!f->ahead || f->epoch != b->epoch || f->step != b->step) TRY(put(err, f, b));
    f->ahead = 0;
    return gf_cuda_feed_take(err, f->device, gf_net_input(f->net, &channels));
}

void gf_feed_ahead(gf_feed *f) {
    gf_batch next;
    if (!f->device || gf_loader_peek(NULL, f->loader, &next) != GLOFND_OK || !next.job) return;
    put(NULL, f, &next);
}

glofnd_status gf_feed_open(gf_error *err, gf_feed *f, gf_net *net, gf_net *text, gf_type type, int parts,
                           const gf_loader_spec *spec) {
    const size_t side = (size_t)spec->augment.size;
    gf_loader_spec s = *spec;
    *f = (gf_feed){.net = net, .text = text, .views = s.views, .context = s.context, .pixels = side * side * 3, .parts = parts};
    if (gf_net_stream(net) && !parts) TRY(open_device(err, f, type, &s));
    return gf_loader_create(err, &s, &f->loader);
}

void gf_feed_close(gf_feed *f) {
    gf_cuda_feed_free(f->device); /* first: it may be reading the loader's memory */
    gf_loader_free(f->loader);
    gf_preload_free(f->resident);
    *f = (gf_feed){0};
}

glofnd_status gf_feed_next(gf_error *err, gf_feed *f, gf_batch *out) {
    TRY(gf_loader_next(err, f->loader, out));
    if (f->parts) return GLOFND_OK;
    if (f->text) TRY(gf_net_load_tokens(err, f->text, out->token, 0, out->n));
    if (out->job) return take(err, f, out);
    for (int view = 0; view < f->views; view++) TRY(gf_net_load(err, f->net, out->view[view], view * out->n, out->n));
    return GLOFND_OK;
}

glofnd_status gf_feed_part(gf_error *err, const gf_feed *f, const gf_batch *b, int64_t first, int64_t count) {
    if (f->text) TRY(gf_net_load_tokens(err, f->text, b->token + first * f->context, 0, count));
    return gf_net_load(err, f->net, b->view[0] + (size_t)first * f->pixels, 0, count);
}
