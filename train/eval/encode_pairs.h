/* encode_pairs.h - images and all captions of a dataset through the two encoders of an image-text run. */
#pragma once

#include "eval/encode.h"

typedef struct gf_text_pairs {
    gf_features image; /* a row per image, in the order of the dataset */
    gf_features text;  /* a row per caption */
    int64_t *owner;    /* [text.n] row of image */
    int64_t repeated;  /* samples with the image of an earlier one (a CSV line per caption): not encoded again */
    int64_t lost;      /* captions of unreadable images */
} gf_text_pairs;

/* Samples with equal names are one image. report: callbacks for images and for captions. Unreadable images are left out with
 * their captions; images without caption stay. E_ARGUMENT: the data has no captions. */
glofnd_status gf_encode_pairs(gf_error *err, gf_run_encoder *image, gf_run_encoder *text, const gf_dataset *data,
                              const gf_encode_spec report[2], gf_text_pairs *out);
void gf_text_pairs_free(gf_text_pairs *p); /* accepts a zeroed struct */
