/* eval_settings.h - what the figures of a line of eval.jsonl depend on, as text.
 *
 * Every field of the line counts but those that were measured, follow from others or are part of its name (eval_settings.c lists
 * these, docs/formats.md tells them): a field that is new counts by itself, so that nothing is compared by mistake. The text has
 * a line "field=value" for each, by rising field. Long values are cut and closed by their checksum. */
#ifndef GF_RUN_EVAL_SETTINGS_H
#define GF_RUN_EVAL_SETTINGS_H

#include "io/json/jsonl.h"
#include "run/config.h"

#define GF_SETTINGS 3000 /* bytes of the text; what does not fit counts by a checksum */

/* Of the line the reader is at, of this event. */
void gf_settings_of_line(const gf_jsonl_reader *r, const char *event, char out[GF_SETTINGS]);
/* Of what training says about its epochs: the samples and batches it was judged by. */
void gf_settings_of_run(const gf_config *c, char out[GF_SETTINGS]);

/* A field in which a and b differ: the test samples if they do, else the data, names of datasets, or the first. NULL: they are
 * equal. It ends at a '=' or at 0, and may point into a or b. */
const char *gf_settings_difference(const char *a, const char *b);
/* Do a and b differ in this field? */
int gf_settings_differ(const char *a, const char *b, const char *field);
/* For people: "alpha 0.3", "data SPEC", of the test samples the SPEC alone; "alpha not recorded". */
void gf_settings_say(const char *settings, const char *field, char *out, size_t bytes);

#endif
