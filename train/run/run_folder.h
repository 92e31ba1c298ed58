/* run_folder.h - a run folder: the names of all its files, each once, its checkpoints and their manifest, and the state that
 * evaluations read. gf_path_join(err, path, run, GF_LOG_FILE) makes a path; FORMATS.md describes the contents.
 */
#pragma once

#include "io/blockfile.h"
#include "run/config.h"
#include "util/status.h"
#include "util/text.h"

#define GF_CONFIG_FILE "config.cfg"             /* the configuration, resolved; checkpoints have a copy */
#define GF_MODEL_FILE "model.safetensors"       /* the weights: of a finished run, and in every checkpoint */
#define GF_MODEL_STEP "glofnd_step"             /* key in its metadata: steps of training behind it */
#define GF_MODEL_VOCABULARY "glofnd_vocabulary" /* CRC of vocab.txt, 8 digits */
#define GF_LOG_FILE "log.jsonl"                 /* run_log.h */
#define GF_EVENTS_FILE "events.out.tfevents.glofnd"
#define GF_EVAL_FILE "eval.jsonl" /* run_eval.h */
#define GF_EVAL_EVENTS "eval"     /* folder: run_eval.h */
#define GF_MEMORY_FILE "memory.json"
#define GF_VOCABULARY_FILE "vocab.txt" /* task clip */
#define GF_PLANS_FILE "plans.txt"      /* GPU: chosen algorithms, so that a resumed run takes the same */
#define GF_THRESHOLDS_TSV "thresholds.tsv"
#define GF_THRESHOLDS_NPY "thresholds.npy"
#define GF_THRESHOLDS_SVG "thresholds.svg"

/* Scratch files, removed when a run begins or resumes. So are files NAME.tmp-* that a killed process left. */
#define GF_ANCHORS_WORK "anchors.work"         /* the store that `store = file` maps */
#define GF_ANCHORS_REMAPPED "anchors.remapped" /* a re-mapped store being written */
#define GF_RANKS_PROBE "ranks" GF_TEMP_MARK    /* first part of the name */

/* RUN/checkpoints/ has folders of these names with the number of steps behind them (below). */
#define GF_CHECKPOINTS "checkpoints"
#define GF_CHECKPOINT "step-"
#define GF_CHECKPOINT_RETIRED "before-"
#define GF_CHECKPOINT_UNFINISHED "tmp-"

/* In a checkpoint, beside GF_MODEL_FILE and GF_CONFIG_FILE. */
#define GF_OPTIM_FILE "optim.safetensors"
#define GF_ANCHORS_FILE "anchors.glofnd"
#define GF_ANCHORS_PART_FORMAT "%s.%05d-of-%05d" /* GF_ANCHORS_FILE, rank, ranks */
#define GF_KEYS_FILE "keys.glofnd"
#define GF_STATE_FILE "state.json"
#define GF_GROUPS_FILE "groups.npy" /* groups = kmeans: those of the samples */
#define GF_DONE_FILE "DONE"         /* the manifest, below */

/* In the folder of a sweep, beside its runs. */
#define GF_SWEEP_FILE "sweep.jsonl"
#define GF_COMPARE_FILE "compare" /* .csv, .json, .tex */

/* ----- the manifest of a checkpoint -----
 *
 * DONE, the last file of a checkpoint: one line "checksum bytes name" for each of the others, and "end LINES".
 *
 * The checksum has 16 hexadecimal digits and depends on every byte. Earlier it was the file's CRC-32C, 8 digits; where sections
 * of a file end in their own CRC-32C, that one depends on the length alone, because the CRC of data followed by its CRC is a
 * constant. Older checkpoints have such lines, and no end line; they are still accepted. */

/* Checks every listed file. E_FORMAT names one whose length or checksum differs, or one of the `count` needed files that is not
 * listed. */
glofnd_status gf_manifest_check(gf_error *err, const char *folder, const char *const *needed, int count);
/* Checks one file, if it is listed. */
glofnd_status gf_manifest_check_one(gf_error *err, const char *folder, const char *name, int *listed);
/* *same: OTHER/name has the length and checksum that FOLDER/DONE lists. */
glofnd_status gf_manifest_same(gf_error *err, const char *folder, const char *other, const char *name, int *same);

/* ----- checkpoints -----
 *
 * RUN/checkpoints/step-N, a folder per checkpoint: the newest one, its configuration, and how a new one replaces it.
 * loop/checkpoint.h fills and reads the files.
 *
 * A checkpoint is complete if it holds DONE. It is written as tmp-N, renamed, marked DONE, and only then is the oldest one
 * removed, beginning with its DONE; keep_checkpoints says how many stay, checkpoint_epochs which others. before-N is a
 * checkpoint of other data: its anchors were re-mapped, and its steps do not compare with those of a step-N. */

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
/* Removes all checkpoints but `latest` and the complete ones before it that `keep` names, and leftovers of a kill. Failures to
 * remove are ignored. A before-N is kept alone. */
glofnd_status gf_checkpoint_clean(gf_error *err, const char *run, const char *latest, const gf_checkpoint_keep *keep);
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

/* ----- a folder that is trained in ----- */

typedef struct gf_run_hold {
    int folder; /* descriptor of the run folder, locked: one run at a time; -1: not held */
    int made;   /* folders that were made: the run's, and those above it */
} gf_run_hold;

/* Makes the folder if it is missing, locks it, and removes scratch files and temporary names that a killed process has left.
 * E_ARGUMENT: it holds a run, or files that one would overwrite, and `resume` is 0; or it has nothing to resume. After a failure,
 * too, `folder` is to be closed and `made` folders to be removed (gf_folder_unmake). */
glofnd_status gf_run_hold_take(gf_error *err, const char *run, int resume, gf_run_hold *h);
/* 1: it has a file of this name. One that cannot be inspected is taken to exist: it may be the user's. */
int gf_run_hold_has(const gf_run_hold *h, const char *name);
/* Removes the files of a new run that failed in its first step. None of them existed before, but plans.txt may have. */
void gf_run_hold_clear(const gf_run_hold *h);

/* ----- files of a run -----
 *
 * The files of a run, which the output of other commands must not overwrite. */

/* E_ARGUMENT: `path` names a file that a run folder has of its own (a config.cfg lies beside it, or it lies in a checkpoint), so
 * that `flag` ("--out") cannot write there. NULL is fine. */
glofnd_status gf_own_files_check(gf_error *err, const char *flag, const char *path);

/* ----- the state of a run -----
 *
 * The state of a run that evaluations read: weights and thresholds of one and the same step.
 *
 * The newest complete checkpoint is the state; RUN/model.safetensors is read in its place where both have the same bytes, and
 * without a checkpoint. Checksums are compared: those of DONE, and the one that a model carries itself. */

typedef struct gf_run_state {
    int64_t step;              /* -1: unknown, a model of an earlier version without a checkpoint */
    int64_t vocabulary;        /* CRC of vocab.txt that the model states, where there is no checkpoint to ask; -1: none */
    char weights[PATH_MAX];    /* file to read */
    char checkpoint[PATH_MAX]; /* folder of thresholds and vocabulary; "": none */
    char note[600];            /* what a user should know; "": nothing */
} gf_run_state;

/* E_IO: there are no weights, or that cannot be known. E_FORMAT: they are corrupt. */
glofnd_status gf_run_state_find(gf_error *err, const char *run, gf_run_state *out);
/* 1: training has replaced the state since: reading may have failed for that reason, and can be tried again. */
int gf_run_state_changed(const char *run, const gf_run_state *s);
