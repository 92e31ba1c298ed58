/* checkpoint.h - everything a run needs to go on exactly where it was: RUN/checkpoints/step-N/ with a DONE file when complete.
 *
 *   model.safetensors    weights and batch-norm statistics, torchvision's names, or open_clip's of an image-text run
 *   optim.safetensors    optimizer state per parameter
 *   anchors.glofnd       the anchor store (docs/formats.md)
 *   keys.glofnd          a key per row of it: whose state it is
 *   state.json           position, sums of the present epoch, how much of the log files belongs to it; of an image-text run also
 *                        the learned temperature, and which vocabulary it has
 *   config.cfg           the configuration it was made under, as text
 *   DONE                 checksum, length and name of each of these
 * It is written under another name, renamed, marked DONE, and only then is the previous one removed. Equal runs write equal
 * bytes.
 */
#ifndef GF_TRAIN_CHECKPOINT_CHECKPOINT_H
#define GF_TRAIN_CHECKPOINT_CHECKPOINT_H

#include "train/checkpoint/anchors.h"
#include "train/checkpoint/model.h"

typedef struct gf_log_marks {       /* how much of the log files belongs to this state */
    int64_t log_lines, event_bytes; /* lines, since time fields make the bytes of log.jsonl differ between equal runs */
} gf_log_marks;

/* On failure the checkpoint before is still there and complete. */
glofnd_status gf_checkpoint_save(gf_error *err, const gf_trainer *t, const char *run, gf_log_marks marks);
/* The newest complete one of RUN, as a path; "" if there is none. */
glofnd_status gf_checkpoint_latest(gf_error *err, const char *run, char *path, size_t bytes);
/* The configuration that a checkpoint was made under. *has: it has one; those of earlier versions have none. E_FORMAT: it is
 * damaged. */
glofnd_status gf_checkpoint_config(gf_error *err, const char *path, gf_config *config, int *has);
/* Which vocabulary the image-text run RUN was trained with, as gf_vocabulary_load tells them apart: says its newest checkpoint.
 * *has: there is one. */
glofnd_status gf_checkpoint_vocabulary(gf_error *err, const char *run, uint32_t *crc, int *has);
/* After its anchors were re-mapped: renames step-N to before-N, which counts only until there is another checkpoint. The steps of
 * other data have other numbers, so the largest would not be the newest. */
glofnd_status gf_checkpoint_retire(gf_error *err, const char *path);
/* Checks the sums of DONE first: E_FORMAT names a damaged file. On failure *t is of no more use. If the data has other samples
 * than the checkpoint, or another order: E_FORMAT says what differs; with `remap` its anchors are found by key, and the epoch
 * that the checkpoint was in begins again, since its order and length are others now. */
glofnd_status gf_checkpoint_load(gf_error *err, gf_trainer *t, const char *path, int remap, gf_remap *found, gf_log_marks *marks);

#endif
