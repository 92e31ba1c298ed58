/* losses.h - the losses that are tested, each with its pairing, as one number. */
#pragma once

#include "method/options.h"

enum {
    LOSS_SOGCLR,
    LOSS_SIMCLR,
    LOSS_CLIP,
    LOSS_SOGCLR2,
    LOSS_FASTCLIP,
    LOSS_ISOGCLR,
    LOSS_ISOGCLR_VIEWS,
    LOSS_FASTCLIP_VIEWS,
    LOSS_SIGMOID,
    LOSS_SIGLIP,
    LOSSES
};

static const struct {
    glofnd_loss loss;
    glofnd_pairing pairing;
} losses_list[LOSSES] = {
    [LOSS_SOGCLR] = {GLOFND_LOSS_SOGCLR, GLOFND_PAIRING_VIEWS},
    [LOSS_SIMCLR] = {GLOFND_LOSS_SIMCLR, GLOFND_PAIRING_VIEWS},
    [LOSS_CLIP] = {GLOFND_LOSS_SIMCLR, GLOFND_PAIRING_IMAGE_TEXT},
    [LOSS_SOGCLR2] = {GLOFND_LOSS_SOGCLR, GLOFND_PAIRING_IMAGE_TEXT},
    [LOSS_FASTCLIP] = {GLOFND_LOSS_FASTCLIP, GLOFND_PAIRING_IMAGE_TEXT},
    [LOSS_ISOGCLR] = {GLOFND_LOSS_ISOGCLR, GLOFND_PAIRING_IMAGE_TEXT},
    [LOSS_ISOGCLR_VIEWS] = {GLOFND_LOSS_ISOGCLR, GLOFND_PAIRING_VIEWS},
    [LOSS_FASTCLIP_VIEWS] = {GLOFND_LOSS_FASTCLIP, GLOFND_PAIRING_VIEWS},
    [LOSS_SIGMOID] = {GLOFND_LOSS_SIGMOID, GLOFND_PAIRING_VIEWS},
    [LOSS_SIGLIP] = {GLOFND_LOSS_SIGMOID, GLOFND_PAIRING_IMAGE_TEXT},
};

static inline void losses_set(glofnd_options *o, int loss) {
    o->loss = losses_list[loss].loss, o->pairing = losses_list[loss].pairing;
}

static inline int losses_of(const glofnd_options *o) {
    int i = 0;
    while (losses_list[i].loss != o->loss || losses_list[i].pairing != o->pairing) i++;
    return i;
}
