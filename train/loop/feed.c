/* feed.c - see feed.h. */
#include "loop/feed.h"

#include <stdlib.h>
#include <string.h>

#include "loader/cuda/cuda_feed.h"

enum { PROBE_WIDTH = 80, PROBE_HEIGHT = 48, PROBE_QUALITY = 90 };
#define PRELOAD_MAX ((int64_t)2 << 30) /* bytes of images on the device */

/* ----- views ----- */

/* SogCLR's recipe with the configuration's strengths; task clip leaves all but the crop out. */
gf_augment gf_views_recipe(const gf_config *c) {
    gf_augment a = c->pixels == GF_PIXELS_CLIP ? gf_augment_clip(c->size) : gf_augment_pretrain(c->size);
    a.scale_min = c->crop_min;
    a.jitter_p = c->jitter_p;
    a.brightness = c->brightness, a.contrast = c->contrast, a.saturation = c->saturation, a.hue = c->hue;
    a.gray_p = c->gray_p;
    a.blur_p = c->blur_p < 0.0 ? a.blur_p : c->blur_p;
    a.flip_p = c->flip_p;
    a.view_filter = c->crop_filter == GF_CROP_BICUBIC ? GF_FILTER_CUBIC : GF_FILTER_LINEAR;
    return a;
}

void gf_views_centre_crop(const gf_config *c, const gf_dataset *data, gf_loader_spec *spec) {
    const gf_dataset_info info = gf_dataset_describe(data);
    const int native = info.width == c->size && info.height == c->size, all = c->eval_view == GF_EVAL_CLIP;
    spec->resize = native ? 0 : all ? c->size : (c->size * 8 + 3) / 7;
    spec->augment.center_filter = all ? GF_FILTER_CUBIC : GF_FILTER_LINEAR;
}

/* ----- images on the device ----- */

int64_t gf_feed_preload_bytes(const gf_dataset *d, const gf_augment *a) {
    const gf_dataset_info info = gf_dataset_describe(d);
    const int64_t bytes = gf_preload_bytes(d), side = (int64_t)GF_VIEW_SCALE * a->size;
    if (a->view_filter != GF_FILTER_LINEAR) return 0; /* the CPU resizes */
    return bytes <= PRELOAD_MAX && info.width <= side && info.height <= side ? bytes : 0;
}

/* ----- decoding ----- */

static glofnd_status probe_and_create(gf_error *err, gf_feed *f, gf_image *m, uint8_t **jpeg, int slots) {
    gf_cuda_decoder_probe probe = {.width = PROBE_WIDTH, .height = PROBE_HEIGHT};
    TRY(gf_image_resize(err, m, PROBE_WIDTH, PROBE_HEIGHT));
    /* Smooth colours: decoders differ at edges. */
    for (int y = 0; y < m->height; y++) {
        for (int x = 0; x < m->width; x++) {
            uint8_t *p = m->rgb + 3 * ((size_t)y * (size_t)m->width + (size_t)x);
            p[0] = (uint8_t)(20 + 2 * x);
            p[1] = (uint8_t)(200 - 3 * y);
            p[2] = (uint8_t)(60 + x + y);
        }
    }
    TRY(gf_image_encode_jpeg(err, m, PROBE_QUALITY, jpeg, &probe.size));
    TRY(gf_image_decode(err, "probe", *jpeg, probe.size, NULL, m));
    probe.jpeg = *jpeg;
    probe.rgb = m->rgb;
    return gf_cuda_decoder_create(err, slots, &probe, &f->decoder);
}

/* With decode = auto the loader decodes if the device cannot. */
static glofnd_status open_decoder(gf_error *err, gf_feed *f, gf_decode decode, gf_loader_spec *s) {
    gf_image m = {0};
    uint8_t *jpeg = NULL;
    if ((decode != GF_DECODE_GPU && decode != GF_DECODE_AUTO) || f->preload) return GLOFND_OK;
    const glofnd_status status = probe_and_create(err, f, &m, &jpeg, s->depth + 1);
    gf_image_free(&m);
    free(jpeg);
    if (status == GLOFND_E_UNSUPPORTED && decode == GF_DECODE_AUTO) return GLOFND_OK;
    TRY(status);
    s->decoder = gf_cuda_decoder_calls(f->decoder);
    return GLOFND_OK;
}

const char *gf_feed_decoder_name(const gf_feed *f) {
    if (f->preload) return "none: all images are on the GPU";
    return f->decoder ? gf_cuda_decoder_name(f->decoder) : "libjpeg";
}

/* ----- batches ----- */

static glofnd_status open_device(gf_error *err, gf_feed *f, gf_type type, gf_decode decode, gf_loader_spec *s) {
    float level[3][256];
    gf_cuda_feed_spec spec = {
        .size = s->augment.size, .views = s->views * s->batch, .type = type, .level = level[0], .stream = gf_net_stream(f->net)};
    gf_augment_levels(&s->augment, level);
    gf_net_input(f->net, &spec.channels);
    const glofnd_status status = gf_cuda_feed_create(err, &spec, &f->device);
    if (status == GLOFND_E_UNSUPPORTED && decode != GF_DECODE_GPU) return GLOFND_OK; /* the loader makes the views */
    TRY(status);
    if (gf_feed_preload_bytes(s->data, &s->augment) > 0) {
        /* Pixels come with the batches if the device has no memory for them. */
        TRY(gf_preload_load(err, s->data, s->workers, &f->preload));
        const uint8_t *pixels = gf_preload_pixels(f->preload);
        const glofnd_status images_status = gf_cuda_feed_keep(err, f->device, pixels, (size_t)gf_preload_bytes(s->data));
        gf_preload_drop_pixels(f->preload);
        if (images_status != GLOFND_E_MEMORY) TRY(images_status);
        else {
            gf_preload_free(f->preload);
            f->preload = NULL;
        }
    }
    s->pack = 1;
    s->preload = f->preload;
    s->alloc = gf_cuda_pinned_alloc;
    s->release = gf_cuda_pinned_free;
    return open_decoder(err, f, decode, s);
}

static glofnd_status feed_device(gf_error *err, gf_feed *f, const gf_batch *b) {
    f->ahead = 0;
    if (b->decoded) TRY(gf_cuda_feed_put_decoded(err, f->device, b->job, f->decoder, b->slot));
    else TRY(gf_cuda_feed_put(err, f->device, b->job, b->pixels, b->pixel_chunks));
    f->ahead = 1;
    f->epoch = b->epoch;
    f->step = b->step;
    return GLOFND_OK;
}

void gf_feed_ahead(gf_feed *f) {
    gf_batch next;
    if (!f->device || gf_loader_peek(NULL, f->loader, &next) != GLOFND_OK || !next.job) return;
    feed_device(NULL, f, &next);
}

glofnd_status gf_feed_open(gf_error *err, gf_feed *f, gf_net *net, gf_net *text, gf_type type, int parts, gf_decode decode,
                           const gf_loader_spec *spec) {
    const size_t side = (size_t)spec->augment.size;
    gf_loader_spec s = *spec;
    *f = (gf_feed){.net = net, .text = text, .views = s.views, .context = s.context, .pixels = side * side * 3, .parts = parts};
    if (gf_net_stream(net) && !parts) TRY(open_device(err, f, type, decode, &s));
    return gf_loader_create(err, &s, &f->loader);
}

void gf_feed_close(gf_feed *f) {
    gf_cuda_feed_wait(f->device); /* first: it may be reading the loader's memory */
    gf_loader_free(f->loader);    /* its workers use the decoder */
    gf_cuda_feed_free(f->device);
    gf_cuda_decoder_free(f->decoder);
    gf_preload_free(f->preload);
    *f = (gf_feed){0};
}

glofnd_status gf_feed_next(gf_error *err, gf_feed *f, gf_batch *out) {
    TRY(gf_loader_next(err, f->loader, out));
    if (f->parts) return GLOFND_OK;
    if (f->text) TRY(gf_net_load_tokens(err, f->text, out->token, 0, out->n));
    if (out->job) {
        int channels;
        if (!f->ahead || f->epoch != out->epoch || f->step != out->step) TRY(feed_device(err, f, out));
        f->ahead = 0;
        return gf_cuda_feed_take(err, f->device, gf_net_input(f->net, &channels));
    }
    for (int view = 0; view < f->views; view++) TRY(gf_net_load(err, f->net, out->view[view], view * out->n, out->n));
    return GLOFND_OK;
}

glofnd_status gf_feed_part(gf_error *err, const gf_feed *f, const gf_batch *b, int64_t first, int64_t count) {
    if (f->text) TRY(gf_net_load_tokens(err, f->text, b->token + first * f->context, 0, count));
    return gf_net_load(err, f->net, b->view[0] + (size_t)first * f->pixels, 0, count);
}

/* ----- support views ----- */

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

glofnd_status gf_support_embed(gf_error *err, gf_support *s, gf_net *net, uint32_t epoch, int64_t step) {
    const int there = s->step == step && s->epoch == epoch;
    for (int i = 0; i < loaders_of(s->views); i++) {
        if (!there) TRY(gf_loader_seek(err, s->loader[i], epoch, step));
        /* Two views of a loader through the net, as in training: the batch is the same size, with statistics of its own. */
        const size_t each = (size_t)(s->images * s->dim);
        const float *out = NULL;
        gf_batch b;
        TRY(gf_loader_next(err, s->loader[i], &b));
        for (int v = 0; v < 2; v++) TRY(gf_net_load(err, net, b.view[v], v * s->images, s->images));
        TRY(gf_net_forward(err, net, NULL, 2 * s->images, 2, NULL, &out));
        for (int v = 0; v < 2 && 2 * i + v < s->views; v++)
            TRY(gf_net_read(err, net, s->rows + (size_t)(2 * i + v) * each, out + (size_t)v * each, each * sizeof *s->rows));
    }
    s->epoch = epoch;
    s->step = step + 1; /* the next epoch is sought */
    return GLOFND_OK;
}
