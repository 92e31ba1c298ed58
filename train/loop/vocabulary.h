/* vocabulary.h - the vocabulary of an image-text run, RUN/vocab.txt: a copy of the merges file that was given or belongs to the
 * weights to start from, or learned from the captions when the run begins.
 */
#pragma once

#include <limits.h>

#include "data/dataset.h"
#include "run/config.h"
#include "run/run_folder.h"
#include "text/bpe.h"

/* The merges file that a new run of this configuration takes; "": none, it learns its own. Weights to start from that have
 * token embeddings need the vocabulary they were trained with: with `vocab` empty that is vocab.txt beside them, or of the run
 * whose checkpoint they are. E_OPTION: it is missing, or has a different size; or `vocab` is given, of as many tokens as the
 * weights have, but differs from theirs. A `vocab` of a different size is taken: token embeddings are then newly initialised. */
glofnd_status gf_vocabulary_find(gf_error *err, const gf_config *c, char path[PATH_MAX]);
/* Writes `path`; `line` says where it came from. */
glofnd_status gf_vocabulary_write(gf_error *err, const gf_config *c, const gf_dataset *d, const char *path, char *line,
                                  size_t bytes);
/* *crc identifies the vocabulary. */
glofnd_status gf_vocabulary_load(gf_error *err, const char *path, gf_bpe **out, uint32_t *crc);
