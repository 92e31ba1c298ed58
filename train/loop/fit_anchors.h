/* fit_anchors.h - the anchors of a checkpoint, for a run that remembers less than the one that wrote it.
 *
 * Embeddings of the learner ring and averages of similarity bank are left out where the run's detector does not use them
 * (run/resume.h): its checkpoints then are those of a run of its own, byte for byte. */
#pragma once

#include "method/store.h"
#include "run/config.h"

/* E_OPTION: the run remembers what the stored anchors do not have; E_FORMAT: they are of another kind. `path`: of their file, for
 * the message. */
glofnd_status gf_anchors_check_memory(gf_error *err, const gf_config *c, const gf_store_spec *stored, const gf_store_spec *own,
                                      const char *path);
/* 1: they are as the run's own. */
int gf_anchors_fit_as_they_are(const gf_config *c, const gf_store_spec *stored, const gf_store_spec *own);
/* A store in memory, of as many anchors as `stored` and else like `own`, with the state of `stored`, which is in memory, too, and
 * has been checked. */
glofnd_status gf_anchors_fit(gf_error *err, const gf_config *c, const glofnd_store *stored, const gf_store_spec *own,
                             glofnd_store **out);
