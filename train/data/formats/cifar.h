/* cifar.h - the Python version of CIFAR-10 and CIFAR-100: pickles of a dict with pixels and lists of labels. */
#pragma once

#include "util/status.h"
#include "util/string_list.h"

typedef struct gf_cifar_pickle { /* what a file holds */
    int64_t n;
    uint64_t pixels_at; /* where [n][3][32][32] bytes begin in the file */
    uint8_t *label;     /* [n], malloc'ed */
} gf_cifar_pickle;

/* label_key: "labels", "fine_labels" or "coarse_labels". E_FORMAT: not such a file. */
glofnd_status gf_cifar_pickle_read(gf_error *err, const char *path, const char *label_key, int classes, gf_cifar_pickle *out);
/* The strings of a list in the dict of a pickle. */
glofnd_status gf_cifar_pickle_names(gf_error *err, const char *path, const char *key, gf_string_list *out);
