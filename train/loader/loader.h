/* loader.h - batches of views, prepared ahead of time on worker threads; the same batches for any number of workers.
 *
 * The cursor is three integers (seed, epoch, step). Batch k of an epoch holds positions k*batch .. of the keyed permutation; the
 * last incomplete batch is dropped. An unreadable sample (E_FORMAT or E_IO from the dataset) is replaced by the one in the same
 * place of the next batch that is readable (loader.c), the same one for any number of ranks; ids in a batch stay different. It is
 * reported through `unreadable` and counted in its own batch, not where it was tried as a substitute. With views 0 or `once` it
 * is left out instead, and the batch is shorter. It is an error (E_FORMAT) only if too few readable samples are left to fill a
 * batch, or with views 0 none at all. Workers start with the first gf_loader_seek or gf_loader_next.
 *
 * One thread uses a loader; an error of gf_loader_next repeats until the next gf_loader_seek.
 *
 * loader.c has the ring of batches, its workers, and what becomes of unreadable samples; make_sample.c makes one sample;
 * preload.c reads all of them at once. */
#pragma once

#include "data/dataset.h"
#include "image/augment.h"
#include "image/view_job.h"
#include "text/bpe.h"

/* ----- the caption of a sample as tokens; samples of a batch that have the same caption or the same image ----- */

typedef struct gf_content { /* two samples with an equal number have the same image, or the same tokens */
    uint64_t image, text;
} gf_content;

/* ids [context] of a caption of `text` (one per line) drawn by (seed, epoch, sample). E_FORMAT, naming the sample: no caption,
 * one without a word, or one of more than GF_WORDS_TEXT_MAX bytes. */
glofnd_status gf_tokens_draw(gf_error *err, const gf_bpe *b, gf_bpe_scratch *s, const gf_dataset *d, int64_t sample,
                             const char *text, uint64_t seed, uint32_t epoch, int context, int32_t *ids);
uint64_t gf_tokens_hash(const int32_t *ids, int context);

/* group [n]: the same number for samples that have an image or a text in common, directly or through others; -1: with no other
 * sample. order: scratch [n]. */
void gf_content_groups(const gf_content *content, int64_t n, int64_t *order, int32_t *group);

/* ----- a dataset of small images of one size, decoded at once, for a device that keeps all of them -----
 *
 * A failure to read a sample is kept and returned when that sample is requested, as if the loader read it then.
 */

typedef struct gf_preload gf_preload;

/* Bytes of all images; 0: they differ in size. */
int64_t gf_preload_bytes(const gf_dataset *d);
/* Reads all; gf_preload_bytes is not 0. E_MEMORY and the like fail at once. */
glofnd_status gf_preload_load(gf_error *err, const gf_dataset *d, int threads, gf_preload **out);
void gf_preload_free(gf_preload *r);
/* [n][height][width][3]; unreadable ones are black. */
const uint8_t *gf_preload_pixels(const gf_preload *r);
void gf_preload_drop_pixels(gf_preload *r); /* once the device has them */
/* Outcome of reading sample i. */
glofnd_status gf_preload_status(gf_error *err, const gf_preload *r, int64_t i);
uint64_t gf_preload_hash(const gf_preload *r, int64_t i); /* gf_sample_image_hash of sample i */
void gf_preload_size(const gf_preload *r, int *width, int *height);

/* ----- batches ----- */

#define GF_CONTEXT_MAX 4096 /* tokens of a caption */

typedef struct gf_loader gf_loader;

typedef struct gf_loader_spec {
    const gf_dataset *data;
    gf_augment augment;
    int views;          /* 2: pretraining; 1: linear evaluation; 0: centre crops in order, no shuffle, last batch short */
    int first_view;     /* number of the first view: others have other random numbers */
    int resize;         /* views 0: gf_augment_center; images of the size of a view stay as they are */
    int once;           /* views 1: one epoch (that of gf_loader_seek) in order, last batch short, as with views 0 */
    const int64_t *ids; /* [id_count] only these positions of the dataset, borrowed; NULL: all of it */
    int64_t id_count;
    int64_t batch;
    int64_t global_batch,
        offset; /* several ranks: `batch` samples from `offset` on of batches of `global_batch`; 0, 0: one rank */
    uint64_t seed;
    int workers, depth; /* threads; batches prepared ahead */
    int64_t max_pixels; /* decoded at a time by all workers together; 0: GF_MAX_PIXELS */
    int fast, strict;   /* decode = fast (gf_decode_hint; the same crops as exact); an unreadable sample is an error */
    void (*unreadable)(void *user, int64_t i, const char *message); /* may be NULL; called in gf_loader_next, in the order of the
                                                                       batch: the same calls for any number of workers */
    void *user;
    const gf_bpe *bpe; /* borrowed: batches have tokens, of a caption drawn per sample and epoch; a sample without one counts as
                          unreadable. NULL: no text */
    int context;       /* tokens of a caption */
    /* For a device that makes the views itself; views are 1 or 2, and not once. Batches are of the same samples, with the same
     * random numbers, as without. */
    int pack;                     /* batches have jobs and pixels instead of views */
    const gf_preload *preload;    /* borrowed: the device has all images, nothing is read. NULL: pixels come with the batch */
    void *(*alloc)(size_t bytes); /* memory of the pixels, called on worker threads; NULL: malloc */
    void (*release)(void *memory);
} gf_loader_spec;

typedef struct gf_batch {    /* valid until the next gf_loader_next */
    int64_t n;               /* samples */
    const float *view[2];    /* [n][size][size][3] NHWC; NULL with pack */
    const gf_view_job *job;  /* pack: [views][n]; boxes no larger than GF_VIEW_SCALE allows, unless preloaded */
    const gf_pixels *pixels; /* pack: [pixel_chunks]; NULL if preloaded */
    int pixel_chunks;
    const int64_t *id;         /* [n] positions in the dataset */
    const int32_t *label;      /* [n] */
    const int32_t *token;      /* [n][context]; NULL without text */
    const gf_content *content; /* [n] likewise: marks samples with the same image or caption */
    uint32_t epoch;
    int64_t step;                         /* in the epoch */
    double read_seconds, augment_seconds; /* work behind this batch, summed over workers */
} gf_batch;

glofnd_status gf_loader_create(gf_error *err, const gf_loader_spec *spec, gf_loader **out);
void gf_loader_free(gf_loader *l);
int64_t gf_loader_steps(const gf_loader *l); /* per epoch */
/* The next batch is `step` of `epoch` (resume); step = gf_loader_steps means the end of that epoch. */
glofnd_status gf_loader_seek(gf_error *err, gf_loader *l, uint32_t epoch, int64_t step);
/* views 0 or once: *out->n is 0 after the last batch; else epochs follow each other without end. */
glofnd_status gf_loader_next(gf_error *err, gf_loader *l, gf_batch *out);
/* The batch that gf_loader_next will return, without taking it, if it is ready; else out->n is 0. Unreadable samples are not
 * reported yet. Valid until the second next gf_loader_next, or a gf_loader_seek. Not for views 0 or once. */
glofnd_status gf_loader_peek(gf_error *err, gf_loader *l, gf_batch *out);
size_t gf_loader_bytes(const gf_loader *l);       /* of its batches' views, tokens and ids; not of packed pixels */
int64_t gf_loader_unreadable(const gf_loader *l); /* number of different unreadable samples in the batches returned so far */
