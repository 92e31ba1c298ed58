/* weights_config.h - the network that a file of weights belongs to, by the names and shapes of its tensors: torchvision's
 * ResNets, open_clip's image encoders, models of this program. For encoding without a run. */
#pragma once

#include "data/dataset.h"
#include "run/config.h"

typedef struct gf_weights_request { /* 0, NULL: by the file */
    const char *arch;               /* must be what the file holds */
    int size;       /* pixels; 0: those of the positions in the file; ResNets: 224, with the CIFAR stem of the images */
    int quick_gelu; /* vit: the GELU that OpenAI's weights were made with */
} gf_weights_request;

/* A configuration for gf_run_encoder_spec. E_FORMAT: no network of this program has such tensors. */
glofnd_status gf_weights_config(gf_error *err, const char *path, const gf_weights_request *request, const gf_dataset *data,
                                gf_config *out);
