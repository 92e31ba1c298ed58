/* associations.h - WinoGAViL: for a cue, as many images as people associate with it are chosen by similarity; the score is the
 * Jaccard index of both choices. */
#pragma once

#include "data/official/winogavil.h"
#include "eval/encode.h"

typedef struct gf_associations {
    int64_t instances, images;
    double all, few, many; /* mean Jaccard index of all instances, of 5 or 6 candidates, of 10 or more: DataComp's */
    int64_t few_n, many_n; /* instances of the last two; their mean is NaN without any */
    int64_t unreadable;    /* images that cannot be read: they are never similar */
} gf_associations;

/* image [w->image.n][dim], cue [w->cue.n][dim], rows of length 1 or 0. Of equal similarities the smaller position comes first. */
void gf_associations_score(const gf_winogavil *w, const float *image, const float *cue, int64_t dim, gf_associations *out);
/* "An octopus": a cue as a prompt. */
void gf_association_prompt(const char *cue, char *out, size_t bytes);
/* Jaccard index of winogavil:DIR, by the two encoders of a run. `report`: only its callbacks of encoding images are used. */
glofnd_status gf_associations_run(gf_error *err, gf_run_encoder *image, gf_run_encoder *text, const char *spec,
                                  const gf_encode_spec *report, gf_associations *out);
