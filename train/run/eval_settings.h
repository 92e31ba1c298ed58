/* eval_settings.h - the settings that the figures of an eval.jsonl record depend on, as text: records with equal settings are
 * comparable.
 *
 * eval_schema.h says which keys are settings. The text has a line "key=value" for each, by rising key. Long values are truncated
 * and closed by their checksum. */
#pragma once

#include "io/jsonl.h"
#include "run/config.h"

#define GF_SETTINGS_MAX 3000 /* bytes of the text; a checksum replaces the settings that do not fit */

#define GF_SETTINGS_KEY_MAX 48 /* bytes of a key in the text */

/* Settings of the record at the reader, which is of this event. unknown: its first key that is not in the table; unchanged if all
 * are. */
void gf_settings_of_line(const gf_jsonl_reader *r, const char *event, char out[GF_SETTINGS_MAX],
                         char unknown[GF_SETTINGS_KEY_MAX]);
/* Settings of the epochs in the log of a run: the samples and batches that precision and recall were measured on. */
void gf_settings_of_run(const gf_config *config, char out[GF_SETTINGS_MAX]);

/* A key in which a and b differ: the test samples if they do, else the data, names of datasets, or the first key. NULL: they are
 * equal. It ends at '=' or at 0, and may point into a or b. */
const char *gf_settings_difference(const char *a, const char *b);
/* 1: a and b differ in this key. */
int gf_settings_differ(const char *a, const char *b, const char *key);
/* For people: "alpha 0.3", "data SPEC", of the test samples the SPEC alone; "alpha not recorded". */
void gf_settings_describe(const char *settings, const char *key, char *out, size_t bytes);
