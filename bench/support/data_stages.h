/* data_stages.h - times of the data path on one thread, and where they go. */
#pragma once

#include "image/augment.h"
#include "support/data_files.h"

typedef struct data_times {                     /* ms per image: decoded once, two views. Medians over passes */
    double decode, resize, colour, blur, total; /* resize: with cutting, mirroring and normalising */
    double spread;                              /* of the total: quartiles */
    int passes;
} data_times;

/* Encoded files, exact or fast. */
data_times data_time_files(const data_files *f, const gf_augment *a, int fast, double budget_s);
/* Decoded square images of a->size pixels, as CIFAR's are: no decoding. */
data_times data_time_small(const gf_augment *a, int images, double budget_s);
/* Images per second of the whole loader over the folder. */
double data_time_loader(const data_files *f, const gf_augment *a, int fast, int workers, double budget_s);
