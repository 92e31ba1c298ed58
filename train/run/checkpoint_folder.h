/* checkpoint_folder.h - RUN/checkpoints/step-N, a folder per checkpoint: the newest one, its configuration, and how a new one
 * replaces it. train/checkpoint/checkpoint.h fills and reads the files.
 *
 * A checkpoint is complete if it holds DONE. It is written as tmp-N, renamed, marked DONE, and only then is the oldest one
 * removed, beginning with its DONE; keep_checkpoints says how many stay, checkpoint_epochs which others. before-N is a checkpoint
 * of other data: its anchors were re-mapped, and its steps do not compare with those of a step-N.
 */
#pragma once

#include "run/config.h"
#include "util/path.h"

typedef struct gf_checkpoint_keep { /* which complete checkpoints stay */
    int newest;                     /* so many of the newest; at least 1 */
    int count;
    int64_t step[GF_KEPT_EPOCHS]; /* beside them: those of these steps */
} gf_checkpoint_keep;

/* The newest complete checkpoint of RUN, or RUN itself if it is one; "" if there is none. A before-N counts only where there is
 * no step-N. E_IO: that cannot be known, because the folder cannot be read; only one that does not exist has none. */
glofnd_status gf_checkpoint_latest(gf_error *err, const char *run, char path[PATH_MAX]);
int64_t gf_checkpoint_step(const char *path); /* N of its name, slashes may follow; -1: not the name of a checkpoint */
/* The configuration that a checkpoint was made under. *has: it has one; those of earlier versions have none. E_FORMAT: it is
 * corrupt. */
glofnd_status gf_checkpoint_config(gf_error *err, const char *path, gf_config *config, int *has);
/* The vocabulary of the image-text run RUN, by its checksum in the newest checkpoint. *has: there is one. */
glofnd_status gf_checkpoint_vocabulary(gf_error *err, const char *run, uint32_t *crc, int *has);
/* RUN/checkpoints/step-N. */
glofnd_status gf_checkpoint_path(gf_error *err, const char *run, int64_t step, char path[PATH_MAX]);
/* *yes: it is there, and complete. */
glofnd_status gf_checkpoint_exists(gf_error *err, const char *run, int64_t step, int *yes);
/* Removes all checkpoints but `latest` and the complete ones before it that `keep` names, and leftovers of a kill. Failures to
 * remove are ignored. A before-N is kept alone. */
glofnd_status gf_checkpoint_clean(gf_error *err, const char *run, const char *latest, const gf_checkpoint_keep *keep);
/* Removes the checkpoint of this step unless it is one of the `newest` newest: also of a run that is training. */
void gf_checkpoint_drop(const char *run, int64_t step, int newest);
/* Removes all other checkpoints, then renames step-N to before-N. */
glofnd_status gf_checkpoint_retire(gf_error *err, const char *run, const char *path);

/* ----- a new checkpoint ----- */

typedef struct gf_checkpoint_draft {
    int64_t step;
    char folder[PATH_MAX]; /* RUN/checkpoints */
    char temp[PATH_MAX];   /* where the files are written */
    char final[PATH_MAX];
} gf_checkpoint_draft;

glofnd_status gf_checkpoint_draft_init(gf_error *err, gf_checkpoint_draft *d, const char *run, int64_t step);
/* *yes: the checkpoint of this step is complete already, as after a resume. */
glofnd_status gf_checkpoint_draft_exists(gf_error *err, const gf_checkpoint_draft *d, int *yes);
/* Makes d->temp, empty. */
glofnd_status gf_checkpoint_draft_create(gf_error *err, const gf_checkpoint_draft *d);
/* Renames it, lists the files `name` [count] in DONE, and removes all checkpoints that `keep` does not name. */
glofnd_status gf_checkpoint_draft_publish(gf_error *err, const gf_checkpoint_draft *d, const char *const *name, int count,
                                          const gf_checkpoint_keep *keep);
void gf_checkpoint_draft_discard(const gf_checkpoint_draft *d); /* after a failure: a full disk needs the space */
