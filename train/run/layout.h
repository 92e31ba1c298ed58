/* layout.h - the names of all files in a run folder, each once; docs/formats.md describes their contents.
 * gf_path_join(err, path, run, GF_LOG_FILE) makes a path.
 */
#pragma once

#include "io/blockfile.h"

#define GF_CONFIG_FILE "config.cfg"             /* the configuration, resolved; checkpoints have a copy */
#define GF_MODEL_FILE "model.safetensors"       /* the weights: of a finished run, and in every checkpoint */
#define GF_MODEL_STEP "glofnd_step"             /* key in its metadata: steps of training behind it */
#define GF_MODEL_VOCABULARY "glofnd_vocabulary" /* CRC of vocab.txt, 8 digits */
#define GF_LOG_FILE "log.jsonl"                 /* log_schema.h */
#define GF_EVENTS_FILE "events.out.tfevents.glofnd"
#define GF_EVAL_FILE "eval.jsonl" /* eval_schema.h */
#define GF_EVAL_EVENTS "eval"     /* folder: eval_chart.h */
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

/* RUN/checkpoints/ has folders of these names with the number of steps behind them (checkpoint_folder.h). */
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
#define GF_DONE_FILE "DONE"         /* manifest.h */

/* In the folder of a sweep, beside its runs. */
#define GF_SWEEP_FILE "sweep.jsonl"
#define GF_COMPARE_FILE "compare" /* .csv, .json, .tex */
