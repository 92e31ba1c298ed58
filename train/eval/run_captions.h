/* run_captions.h - a trained image-text run: embeddings of images and of one caption each, and groups of samples that share a
 * caption. */
#pragma once

#include "eval/run_embeddings.h"

/* Samples as gf_trained_run_centre_crops() chooses and orders them: the centre crop of the image, and the caption that the next
 * epoch would draw. Row i of both sets is one sample, and each set is the other's `others`. Samples without a caption are left
 * out. */
glofnd_status gf_trained_run_image_text(gf_error *err, gf_trained_run *f, int64_t max, gf_view_set *image, gf_view_set *text);
/* Labels of both sets become groups: samples that share a caption, token by token, directly or through others. *repeated: number
 * of samples whose group has an earlier member. */
glofnd_status gf_trained_run_caption_groups(gf_error *err, const gf_trained_run *f, gf_view_set *image, gf_view_set *text,
                                            int64_t *repeated);
