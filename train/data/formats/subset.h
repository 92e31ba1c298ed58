/* subset.h - a part of a dataset, whatever its format: ?rows=FILE, ?labels=LIST, ?imbalance=F, ?every=K, ?fraction=F,
 * ?first=N at the end of a SPEC, applied in this order.
 *
 * rows: a position or a name per line, in that order, as keep.txt of `glofnd discover` has them; labels: samples of these
 * classes, by name or as 7 or 0-49, in the test split too; imbalance: a long tail, of class c of C floor(n / F^(c / (C - 1)))
 * of its n samples, at least one; every: samples 0, K, 2K ...; fraction: that share of each class, at least one sample;
 * first: the first N. What a class keeps is spread evenly over it.
 */
#pragma once

#include "data/dataset_format.h"

extern const char *const gf_subset_options[]; /* ended by NULL */

/* After d is open: sets d->rows, d->all and d->info.n. E_OPTION: a value out of range. */
glofnd_status gf_subset_take(gf_error *err, gf_dataset *d);
/* row [count], to be freed: the samples of d (d->all of them) that a file lists. E_FORMAT: none, or not one of d's, or one
 * twice. */
glofnd_status gf_subset_read_rows(gf_error *err, const char *path, const gf_dataset *d, int64_t **row, int64_t *count);
/* A copy of the SPEC without these options; its strings are those of *s. */
gf_spec gf_subset_without(const gf_spec *s);
