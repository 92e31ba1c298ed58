/* decode_batch.c - see decode_batch.h. */
#include "loader/decode_batch.h"

static void set_failed(gf_slot *s, glofnd_status status, const gf_error *why) {
    s->status = status;
    s->error = *why;
    s->error_item = 0;
}

/* Places of the images in the slot of the device; bytes of all. */
static size_t place_images(gf_slot *s) {
    gf_encoded *image = gf_packed_encoded(s->packed);
    size_t end = 0;
    for (int64_t i = 0; i < s->count; i++) {
        if (image[i].size == 0) continue;
        const size_t bytes = 3 * (size_t)image[i].width * (size_t)image[i].height;
        image[i].at = end;
        end += (bytes + GF_DECODER_ALIGN - 1) / GF_DECODER_ALIGN * GF_DECODER_ALIGN;
    }
    return end;
}

/* The CPU decodes what the device could not, or finds out what is wrong with it. */
static void decode_refused(const gf_maker *m, gf_worker *w, gf_slot *s) {
    const gf_encoded *image = gf_packed_encoded(s->packed);
    const int64_t first = s->step * gf_maker_global_batch(&m->spec) + m->spec.offset;
    for (int64_t i = 0; i < s->count && !atomic_load(&m->cancelled); i++) {
        if (image[i].size == 0 || !image[i].failed) continue;
        const gf_made made = gf_make_sample(m, w, s, first + i, i);
        gf_slot_note(m, s, i, &made);
    }
}

static void decode_images(const gf_maker *m, gf_worker *w, gf_slot *s, size_t bytes) {
    const gf_batch_decoder *d = m->spec.decoder;
    gf_error why = {""};
    if (bytes == 0) return;
    const glofnd_status status = d->decode(&why, d->user, s->index, gf_packed_encoded(s->packed), s->count, bytes);
    if (status == GLOFND_OK) decode_refused(m, w, s);
    else set_failed(s, status, &why);
}

/* Jobs count from the first byte of the slot: images of the device, then pixels of the CPU. */
static void place_jobs(const gf_maker *m, gf_slot *s, size_t bytes) {
    const gf_encoded *image = gf_packed_encoded(s->packed);
    gf_view_job *job = gf_packed_jobs(s->packed);
    for (int v = 0; v < m->spec.views; v++)
        for (int64_t i = 0; i < s->count; i++) job[v * m->spec.batch + i].at += (int64_t)(image[i].size ? image[i].at : bytes);
}

static void upload_pixels(const gf_maker *m, gf_slot *s, size_t bytes) {
    const gf_batch_decoder *d = m->spec.decoder;
    gf_batch view;
    gf_error why = {""};
    gf_packed_describe(s->packed, &view);
    const glofnd_status status = d->upload(&why, d->user, s->index, view.pixels, view.pixel_chunks, bytes);
    if (status == GLOFND_OK) place_jobs(m, s, bytes);
    else set_failed(s, status, &why);
}

void gf_slot_complete(const gf_maker *m, gf_worker *w, gf_slot *s) {
    const int by_device = m->spec.decoder != NULL;
    const size_t bytes = by_device ? place_images(s) : 0;
    w->on_cpu = 1;
    if (by_device && s->status == GLOFND_OK) decode_images(m, w, s, bytes);
    gf_slot_finish(m, w, s);
    if (by_device && s->status == GLOFND_OK && !atomic_load(&m->cancelled)) upload_pixels(m, s, bytes);
    w->on_cpu = 0;
}
