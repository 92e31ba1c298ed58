/* feed.c - see feed.h. */
#include "loop/feed.h"

#include <stdlib.h>

#include "loader/cuda/cuda_feed.h"

enum { PROBE_WIDTH = 80, PROBE_HEIGHT = 48, PROBE_QUALITY = 90 };
#define PRELOAD_MAX ((int64_t)2 << 30) /* bytes of images on the device */

int64_t gf_feed_preload_bytes(const gf_dataset *d, const gf_augment *a) {
    const gf_dataset_info info = gf_dataset_describe(d);
    const int64_t bytes = gf_preload_bytes(d), side = (int64_t)GF_VIEW_SCALE * a->size;
    if (a->view_filter != GF_FILTER_LINEAR) return 0; /* the CPU resizes */
    return bytes <= PRELOAD_MAX && info.width <= side && info.height <= side ? bytes : 0;
}

/* Pixels come with the batches if the device has no memory for them. */
static glofnd_status preload_images(gf_error *err, gf_feed *f, const gf_loader_spec *s) {
    TRY(gf_preload_load(err, s->data, s->workers, &f->preload));
    const uint8_t *pixels = gf_preload_pixels(f->preload);
    const glofnd_status status = gf_cuda_feed_keep(err, f->device, pixels, (size_t)gf_preload_bytes(s->data));
    gf_preload_drop_pixels(f->preload);
    if (status != GLOFND_E_MEMORY) return status;
    gf_preload_free(f->preload);
    f->preload = NULL;
    return GLOFND_OK;
}

/* ----- decoding ----- */

/* Smooth colours: decoders differ at edges. */
static void draw_probe(gf_image *m) {
    for (int y = 0; y < m->height; y++) {
        for (int x = 0; x < m->width; x++) {
            uint8_t *p = m->rgb + 3 * ((size_t)y * (size_t)m->width + (size_t)x);
            p[0] = (uint8_t)(20 + 2 * x);
            p[1] = (uint8_t)(200 - 3 * y);
            p[2] = (uint8_t)(60 + x + y);
        }
    }
}

static glofnd_status probe_and_create(gf_error *err, gf_feed *f, gf_image *m, uint8_t **jpeg, int slots) {
    gf_cuda_decoder_probe probe = {.width = PROBE_WIDTH, .height = PROBE_HEIGHT};
    TRY(gf_image_resize(err, m, PROBE_WIDTH, PROBE_HEIGHT));
    draw_probe(m);
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

/* ----- the device ----- */

static glofnd_status open_device(gf_error *err, gf_feed *f, gf_type type, gf_decode decode, gf_loader_spec *s) {
    float level[3][256];
    gf_cuda_feed_spec spec = {
        .size = s->augment.size, .views = s->views * s->batch, .type = type, .level = level[0], .stream = gf_net_stream(f->net)};
    gf_augment_levels(&s->augment, level);
    gf_net_input(f->net, &spec.channels);
    const glofnd_status status = gf_cuda_feed_create(err, &spec, &f->device);
    if (status == GLOFND_E_UNSUPPORTED && decode != GF_DECODE_GPU) return GLOFND_OK; /* the loader makes the views */
    TRY(status);
    if (gf_feed_preload_bytes(s->data, &s->augment) > 0) TRY(preload_images(err, f, s));
    s->pack = 1;
    s->preload = f->preload;
    s->alloc = gf_cuda_pinned_alloc;
    s->release = gf_cuda_pinned_free;
    return open_decoder(err, f, decode, s);
}

static glofnd_status put(gf_error *err, gf_feed *f, const gf_batch *b) {
    f->ahead = 0;
    if (b->decoded) TRY(gf_cuda_feed_put_decoded(err, f->device, b->job, f->decoder, b->slot));
    else TRY(gf_cuda_feed_put(err, f->device, b->job, b->pixels, b->pixel_chunks));
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
    if (out->job) return take(err, f, out);
    for (int view = 0; view < f->views; view++) TRY(gf_net_load(err, f->net, out->view[view], view * out->n, out->n));
    return GLOFND_OK;
}

glofnd_status gf_feed_part(gf_error *err, const gf_feed *f, const gf_batch *b, int64_t first, int64_t count) {
    if (f->text) TRY(gf_net_load_tokens(err, f->text, b->token + first * f->context, 0, count));
    return gf_net_load(err, f->net, b->view[0] + (size_t)first * f->pixels, 0, count);
}
