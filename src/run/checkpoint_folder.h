/* checkpoint_folder.h - RUN/checkpoints/step-N, a folder per checkpoint: the newest one, its configuration, and how a new one
 * replaces it. train/checkpoint/checkpoint.h fills and reads the files.
 *
 * A checkpoint is complete if it holds DONE. It is written as tmp-N, renamed, marked DONE, and only then is the oldest one
 * removed, beginning with its DONE; keep_checkpoints says how many stay. before-N is a checkpoint of other data: its anchors
 * were re-mapped, and its steps do not compare with those of a step-N.
 */
#pragma once

#include "run/config.h"
#include "util/path.h"

/* The newest complete checkpoint of RUN; "" if there is none. A before-N counts only where there is no step-N. E_IO: that cannot
 * be known, because the folder cannot be read; only one that does not exist has none. */
glofnd_status gf_checkpoint_latest(gf_error *err, const char *run, char path[PATH_MAX]);
int64_t gf_checkpoint_step(const char *path); /* N of its name; -1: not the name of a checkpoint */
/* The configuration that a checkpoint was made under. *has: it has one; those of earlier versions have none. E_FORMAT: it is
 * corrupt. */
glofnd_status gf_checkpoint_config(gf_error *err, const char *path, gf_config *config, int *has);
/* The vocabulary of the image-text run RUN, by its checksum in the newest checkpoint. *has: there is one. */
glofnd_status gf_checkpoint_vocabulary(gf_error *err, const char *run, uint32_t *crc, int *has);
/* Removes all checkpoints but `latest` and the keep - 1 complete ones before it, and leftovers of a kill. Failures to remove are
 * ignored. A before-N is kept alone. */
glofnd_status gf_checkpoint_clean(gf_error *err, const char *run, const char *latest, int keep);
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
/* Renames it, lists the files `name` [count] in DONE, and removes all checkpoints but the newest `keep`. */
glofnd_status gf_checkpoint_draft_publish(gf_error *err, const gf_checkpoint_draft *d, const char *const *name, int count,
                                          int keep);
void gf_checkpoint_draft_discard(const gf_checkpoint_draft *d); /* after a failure: a full disk needs the space */
