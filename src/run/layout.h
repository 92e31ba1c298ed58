/* layout.h - the files of a run folder, each name once. docs/formats.md says what is in them. */
#ifndef GF_RUN_LAYOUT_H
#define GF_RUN_LAYOUT_H

#define GF_CONFIG_FILE "config.cfg"
#define GF_MODEL_FILE "model.safetensors"
#define GF_LOG_FILE "log.jsonl"
#define GF_EVENTS_FILE "events.out.tfevents.glofnd"
#define GF_EVAL_FILE "eval.jsonl"
#define GF_MEMORY_FILE "memory.json"
#define GF_VOCABULARY_FILE "vocab.txt"
#define GF_ANCHORS_WORK "anchors.work"         /* scratch: the store that `store = file` maps */
#define GF_ANCHORS_REMAPPED "anchors.remapped" /* scratch: a re-mapped store being written */
#define GF_CHECKPOINTS "checkpoints"

/* In a checkpoint, RUN/checkpoints/step-N/ */
#define GF_OPTIM_FILE "optim.safetensors"
#define GF_ANCHORS_FILE "anchors.glofnd"
#define GF_KEYS_FILE "keys.glofnd"
#define GF_STATE_FILE "state.json"
#define GF_DONE_FILE "DONE"

#endif
