/* vocabulary.h - the tokens of an image-text run: RUN/vocab.txt, which is a copy of the merges file that was given, or learned
 * from the captions when the run begins.
 */
#ifndef GF_TRAIN_VOCABULARY_H
#define GF_TRAIN_VOCABULARY_H

#include "data/bpe.h"
#include "data/dataset.h"
#include "train/config.h"

#define GF_VOCABULARY_FILE "vocab.txt"

/* Writes `path`; `line` says in words where it came from. */
glofnd_status gf_vocabulary_write(gf_error *err, const gf_config *c, const gf_dataset *d, const char *path, char *line,
                                  size_t bytes);
/* *crc tells one vocabulary from another. */
glofnd_status gf_vocabulary_load(gf_error *err, const char *path, gf_bpe **out, uint32_t *crc);

#endif
