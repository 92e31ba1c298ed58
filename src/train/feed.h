/* feed.h - batches on their way from the loader to the networks' inputs. On the CPU views are copied. On a GPU they are made
 * there: of images that stay there where they are small and of one size, else of pixels copied in the background; the next batch
 * is prepared while the step of the present one runs. Batches are the same everywhere.
 */
#ifndef GF_TRAIN_FEED_H
#define GF_TRAIN_FEED_H

#include "loader/loader.h"
#include "nn/net.h"

typedef struct gf_feed { /* all zero: closed */
    gf_net *net, *text;  /* of images; of captions, or NULL */
    int views, context;  /* of an image; tokens of a caption */
    size_t pixels;       /* numbers of a view */
    int parts;           /* gf_feed_part loads the inputs, not gf_feed_next */
    gf_loader *loader;
    struct gf_cuda_feed *device; /* NULL: views come from the loader */
    gf_preload *resident;        /* the device has all images; NULL: pixels come with the batches */
    int ahead;                   /* the device makes, or has made, the batch `step` of `epoch` */
    uint32_t epoch;
    int64_t step;
} gf_feed;

/* spec: views 2, or 1 and a vocabulary where there is a net of captions; without the fields for packed samples. type: of the
 * image network's input. */
glofnd_status gf_feed_open(gf_error *err, gf_feed *f, gf_net *net, gf_net *text, gf_type type, int parts,
                           const gf_loader_spec *spec);
int64_t gf_feed_stays(const gf_dataset *d, int size); /* bytes of images that stay on a GPU, for views of this size; 0: none */
void gf_feed_close(gf_feed *f);                       /* before the net is freed */
/* The next batch, as gf_loader_next gives it; its views and tokens become the networks' inputs, unless that is done in parts. */
glofnd_status gf_feed_next(gf_error *err, gf_feed *f, gf_batch *out);
/* Samples first .. first + count - 1 of the present batch become the inputs. Images have one view then. */
glofnd_status gf_feed_part(gf_error *err, const gf_feed *f, const gf_batch *b, int64_t first, int64_t count);
/* The step is queued: the device may begin with the batch after it, if that is ready. What goes wrong comes again in next. */
void gf_feed_ahead(gf_feed *f);

#endif
