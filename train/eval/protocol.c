/* protocol.c - see protocol.h. `paper` follows the text of the paper, `official` the authors' scripts; where the text gives no
 * value (decay of the learning rate, scaling of the features) `paper` follows the scripts, too. */
#include "eval/protocol.h"

#include <math.h>
#include <string.h>

#define COUNT(table) ((int)(sizeof(table) / sizeof *(table)))

static const gf_probe_protocol probes[] = {
    {.name = "paper", .text = "AdamW, lr 0.1, cosine", .adamw = 1, .lr = 0.1, .momentum = 0.9, .batch = 1024, .patience = 100},
    {.name = "official",
     .text = "SGD, momentum 0.9, lr 0.1 batch / 256, cosine",
     .lr = 0.1,
     .lr_by_batch = 1,
     .momentum = 0.9,
     .batch = 1024,
     .patience = 100},
};

static const gf_transfer_protocol transfers[] = {
    {.name = "paper",
     .text = "l2 in 1e-6 .. 1e5, features of length 1, standardised",
     .unit = 1,
     .standard = 1,
     .lowest = 1e-6,
     .highest = 1e5,
     .iterations = 500},
    {.name = "official",
     .text = "C = 1 / l2 in 1e-6 .. 1e5, features of length 1, standardised",
     .unit = 1,
     .standard = 1,
     .inverse = 1,
     .lowest = 1e-6,
     .highest = 1e5,
     .iterations = 500},
    {.name = "raw", .text = "l2 in 1e-6 .. 1e5, features as they are", .lowest = 1e-6, .highest = 1e5, .iterations = 500},
};

const gf_probe_protocol *gf_probe_protocol_at(int i) { return i >= 0 && i < COUNT(probes) ? &probes[i] : NULL; }
const gf_transfer_protocol *gf_transfer_protocol_at(int i) { return i >= 0 && i < COUNT(transfers) ? &transfers[i] : NULL; }

const gf_probe_protocol *gf_probe_protocol_find(const char *name) {
    for (int i = 0; i < COUNT(probes); i++)
        if (strcmp(probes[i].name, name) == 0) return &probes[i];
    return NULL;
}

const gf_transfer_protocol *gf_transfer_protocol_find(const char *name) {
    for (int i = 0; i < COUNT(transfers); i++)
        if (strcmp(transfers[i].name, name) == 0) return &transfers[i];
    return NULL;
}

int64_t gf_probe_epochs(double share) {
    const double epochs = 90.0 / sqrt(share);
    return epochs > 900.0 ? 900 : (int64_t)(epochs + 0.5);
}

void gf_transfer_strengths(const gf_transfer_protocol *p, double *l2) {
    const int last = GF_TRANSFER_STRENGTHS - 1;
    for (int i = 0; i <= last; i++) {
        const double x = p->lowest * pow(p->highest / p->lowest, (double)i / last);
        l2[p->inverse ? i : last - i] = p->inverse ? 1.0 / x : x;
    }
}
