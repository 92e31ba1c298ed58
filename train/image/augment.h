/* augment.h - the two random views of an image, with torchvision's parameters and PIL's numbers (those of Pillow up to 12; Pillow
 * 13 resizes columns before rows for some shapes, which changes single levels).
 *
 * Drawing and applying are apart: gf_augment_draw makes the parameters of a view from the keyed random stream, gf_augment_apply
 * computes the view from them. So the stream does not depend on workers, and a test can feed the parameters PIL was given.
 */
#pragma once

#include "image/image.h"
#include "image/resample.h"
#include "image/view_job.h"
#include "util/rng.h"

typedef struct gf_augment {                                 /* the recipe */
    int size;                                               /* output is size x size */
    double scale_min, scale_max;                            /* of RandomResizedCrop; 0.08, 1 in the authors' code */
    double ratio_min, ratio_max;                            /* 3/4, 4/3 */
    double jitter_p, brightness, contrast, saturation, hue; /* 0.8; 0.4 0.4 0.2 0.1 */
    double gray_p, blur_p, blur_min, blur_max;              /* 0.2; 0.5, sigma 0.1 .. 2 */
    double flip_p;                                          /* 0.5 */
    float mean[3], std[3];
    gf_filter view_filter;   /* of views */
    gf_filter center_filter; /* of gf_augment_center */
} gf_augment;

typedef struct gf_view {          /* one drawn view */
    int top, left, height, width; /* crop box, in pixels of the full image */
    int jitter;                   /* 0: none */
    int order[4];                 /* which of brightness 0, contrast 1, saturation 2, hue 3 comes when; -1: none */
    double factor[4];
    int gray, flip;
    double sigma; /* 0: no blur */
} gf_view;

typedef struct gf_augment_scratch gf_augment_scratch; /* buffers of one worker */

gf_augment gf_augment_pretrain(int size); /* SogCLR's recipe (ImageNet statistics); CIFAR sizes (up to 64): no blur */
gf_augment gf_augment_clip(int size);     /* open_clip's: a crop of 0.9 to all of the image, CLIP's statistics; no more */
gf_augment gf_augment_linear(int size);   /* crop + flip */
/* E_OPTION: a recipe out of range. Its buffers grow with the largest image and are kept; use it with this recipe only. */
glofnd_status gf_augment_scratch_create(gf_error *err, const gf_augment *a, gf_augment_scratch **out);
void gf_augment_scratch_free(gf_augment_scratch *x);

/* As torchvision draws; an operation of strength 0 is left out. */
gf_view gf_augment_draw(const gf_augment *a, gf_rng *r, int width, int height);
/* Pixels that suffice on an image's shorter side (decode = fast): a typical box is then as large as its view. */
int gf_augment_enough(const gf_augment *a);
/* For gf_decode_hint.choose: the views' boxes together; *by is raised to a reduction that leaves each box as large as its
 * view. */
gf_region gf_augment_region(const gf_augment *a, const gf_view *views, int n, int *by);
/* `in` may be a part of the full image, if the box lies in it.
 * out [size][size][3] float, normalised, NHWC; bytes (may be NULL) the 8-bit view before normalisation. */
glofnd_status gf_augment_apply(gf_error *err, const gf_augment *a, const gf_view *v, const gf_image *in, gf_augment_scratch *x,
                               float *out, uint8_t *bytes);
/* The work of gf_augment_apply as a job for a device, which resizes linearly; `at` counts from in->rgb. The box may be larger
 * than GF_VIEW_SCALE allows. For a different filter, or a larger box: gf_augment_shrink first. */
glofnd_status gf_augment_job(gf_error *err, const gf_view *v, const gf_image *in, gf_view_job *out);
/* The job's box resized, and not mirrored: rgb [size][size][3]. Resizing that once more changes nothing. */
glofnd_status gf_augment_shrink(gf_error *err, const gf_augment *a, const gf_view_job *job, const gf_image *in,
                                gf_augment_scratch *x, uint8_t *rgb);
void gf_augment_levels(const gf_augment *a, float level[3][256]); /* normalised value of a byte, per channel */
/* Test-time: shorter side to `resize`, centre crop to `size`; resize 0: only the crop (native size for CIFAR). Where the image is
 * smaller than the crop it is surrounded by black, as torchvision does. */
glofnd_status gf_augment_center(gf_error *err, const gf_augment *a, int resize, const gf_image *in, gf_augment_scratch *x,
                                float *out);
