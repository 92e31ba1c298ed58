/* checkpoint.h - everything a run needs to continue exactly where it was, saved to and loaded from RUN/checkpoints/step-N:
 *
 *   model.safetensors    weights and batch-norm statistics (model.h)
 *   optim.safetensors    optimizer state per parameter
 *   anchors.glofnd       the anchor store (anchors.h)
 *   keys.glofnd          a key per row of it: whose state it is (anchors.h)
 *   state.json           position, sums of the present epoch, how much of the log files belongs to it; of an image-text run also
 *                        the learned temperature, and its vocabulary
 *   config.cfg           the configuration it was made under
 *   DONE                 checksum, length and name of each of these (run/run_folder.h)
 * Equal runs write equal bytes. run/run_folder.h makes, finds and replaces the folders.
 */
#pragma once

#include "loop/anchors.h"
#include "loop/trainer.h"
#include "run/run_folder.h"

typedef struct gf_log_marks {       /* how much of the log files belongs to this state */
    int64_t log_lines, event_bytes; /* lines, since time fields make the bytes of log.jsonl differ between equal runs */
} gf_log_marks;

/* The optimizer's state `which` (1 or 2) as one array [state_count] on the host: all parameters in order, in torch's layout. */
glofnd_status gf_trainer_get_state(gf_error *err, const gf_trainer *t, int which, float *flat);
/* The checkpoints that stay, by keep_checkpoints and checkpoint_epochs. */
gf_checkpoint_keep gf_checkpoint_keeps(const gf_trainer *t);
/* On failure the previous checkpoint is still there and complete. */
glofnd_status gf_checkpoint_save(gf_error *err, const gf_trainer *t, const char *run, gf_log_marks marks);
/* Checks the sums of DONE first: E_FORMAT names a corrupt file. After a failure *t can only be freed. If the data has other
 * samples than the checkpoint, or a different order: E_FORMAT says what differs; with `remap` its anchors are found by key, and
 * the epoch that the checkpoint was in begins again, since its order and length are different now. */
glofnd_status gf_checkpoint_load(gf_error *err, gf_trainer *t, const char *path, int remap, gf_remap *found, gf_log_marks *marks);
