/* feed.h - batches on their way from the loader to the network's input. On the CPU views are copied. On a GPU they are made
 * there: of images that stay there where they are small and of one size, else of pixels copied in the background; the next batch
 * is prepared while the step of the present one runs. Batches are the same everywhere.
 */
#ifndef GF_TRAIN_FEED_H
#define GF_TRAIN_FEED_H

#include "data/loader.h"
#include "nn/net.h"

typedef struct gf_feed {        /* all zero: closed */
    gf_net *net;
    gf_loader *loader;
    struct gf_cuda_feed *device;        /* NULL: views come from the loader */
    gf_resident *resident;      /* the device has all images; NULL: pixels come with the batches */
    int ahead;                  /* the device makes, or has made, the batch `step` of `epoch` */
    uint32_t epoch;
    int64_t step;
} gf_feed;

/* spec: views 2, without the fields for raw samples. type: of the network's input. */
glofnd_status gf_feed_open(gf_error *err, gf_feed *f, gf_net *net, gf_type type, const gf_loader_spec *spec);
void gf_feed_close(gf_feed *f);         /* before the net is freed */
/* The next batch, as gf_loader_next gives it; its views become the network's input. */
glofnd_status gf_feed_next(gf_error *err, gf_feed *f, gf_batch *out);
/* The step is queued: the device may begin with the batch after it, if that is ready. What goes wrong comes again in next. */
void gf_feed_ahead(gf_feed *f);

#endif
