/* eval_schema.h - the keys of RUN/eval.jsonl, each once: event, key, role, and how a figure is shown.
 *
 * The table in eval_schema.c drives the writer (eval_writer.h), the reader (run_eval.h), the settings that decide which records
 * are comparable (eval_settings.h), `compare`, `report` and `sweep --choose`. A new figure is one row there, one call of the
 * writer, and one word in docs/formats.md.
 *
 * A record of a newer version may have keys that the table does not have. A key of another event has the role it has there;
 * time_* is a time; any other key is a setting, so that records which differ in it are not compared by mistake.
 */
#pragma once

#define GF_EVAL_TRAINED "trained" /* event: training continued, all records before it are stale */
#define GF_EVAL_EPOCH "epoch"     /* event of log.jsonl; its figures are compared like those of eval.jsonl */
#define GF_EVAL_KEYS_MAX 24       /* keys of one event */

typedef enum gf_eval_role {
    GF_EVAL_NAME,    /* part of the record's name, or implied by it */
    GF_EVAL_SETTING, /* the figures depend on it: records that differ in it are not compared */
    GF_EVAL_FIGURE,  /* measured, or implied by the settings */
    GF_EVAL_TIME     /* seconds; differs between equal calls */
} gf_eval_role;

typedef struct gf_eval_key {
    const char *key;
    gf_eval_role role;
    const char *title;  /* of a figure in tables; NULL: it is recorded only */
    double factor;      /* from the record to the table: 100 for shares in percent */
    int better;         /* 1: higher is better, -1: lower is, 0: neither */
    int detail;         /* `compare` shows it only with --all */
    const char *unless; /* "KEY" or "KEY=VALUE": in records that have it the setting is implied */
} gf_eval_key;

/* The rows of an event, without those that every record has; NULL and 0 for an unknown event. */
const gf_eval_key *gf_eval_keys(const char *event, int *count);
/* The row of a key in records of this event; NULL: they have no such key. */
const gf_eval_key *gf_eval_key_find(const char *event, const char *key);
/* The same, or the row of that key in records of another event. */
const gf_eval_key *gf_eval_key_any(const char *event, const char *key);
/* Position of an event in tables. */
int gf_eval_rank(const char *event);
/* 1: the name of a figure can have this word in it. Numbers, datasets and protocols with numbers are unknown here. */
int gf_eval_has_word(const char *word);
