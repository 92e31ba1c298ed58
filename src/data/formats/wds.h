/* wds.h - WebDataset shards: what lies where in them, so that samples can be read in any order.
 *
 * A sample is a run of members that share a key (the name up to the first dot of its last part): one image, and perhaps .txt,
 * .cls, .json. Such a run without image, as key.webp or key.v1.png, is left out and counted. A .txt, .cls or .json that cannot be
 * used is counted, too: its sample is taken without that label or caption. A key may come again, in the shard or in another one:
 * that is another sample. Scanning a shard gives a list of its samples; the list is kept in a file beside the shard
 * (SHARD.gfidx) together with the shard's size and time, and is made anew when these differ. If it cannot be written there, it
 * lives in memory only.
 */
#ifndef GF_DATA_FORMATS_WDS_H
#define GF_DATA_FORMATS_WDS_H

#include "io/file.h"
#include "util/strings/string_list.h"

#define GF_WDS_TEXT_MOST (1u << 20) /* bytes of a .txt or .json */

enum { GF_WDS_TEXT_IS_JSON = 1 }; /* gf_wds_entry.flags */

typedef struct gf_wds_entry {
    uint64_t image_at, text_at;
    uint32_t image_size, text_size; /* text_size 0: none */
    int32_t label;                  /* -1: none */
    uint32_t flags;
} gf_wds_entry;

typedef struct gf_wds_shard { /* the samples of one shard */
    gf_wds_entry *entries;    /* [keys.n] */
    int64_t capacity;
    gf_string_list keys;
    gf_file_stamp stamp;
    int64_t left_out;   /* keys without image */
    char *left_first;   /* a member of the first of them; NULL: none */
    int64_t unused;     /* parts of samples that cannot be used, as a .json that is none */
    char *unused_first; /* what is wrong with the first of them; NULL: none */
    int no_mark;        /* it ends without tar's end mark */
} gf_wds_shard;

/* Reads the members of the open shard. E_FORMAT names shard and member. */
glofnd_status gf_wds_scan(gf_error *err, const char *path, int fd, gf_file_stamp stamp, gf_wds_shard *out);
void gf_wds_shard_free(gf_wds_shard *s);
/* The index file. Loading fails (E_FORMAT, E_IO) if it is missing, damaged, or of another size or time than `stamp`. */
glofnd_status gf_wds_index_save(gf_error *err, const char *path, const gf_wds_shard *s);
glofnd_status gf_wds_index_load(gf_error *err, const char *path, gf_file_stamp stamp, gf_wds_shard *out);
/* Label and caption of a .json: the top-level keys "label" (a whole number, -1: none) and "caption" (a string). Missing, or of
 * another type: -1, NULL; so an empty caption. NaN and Infinity, which Python writes though JSON has none, are nothing as well: they
 * are overwritten in `text`. *caption is malloc'ed. E_FORMAT: no JSON, or a label out of range. */
glofnd_status gf_wds_json(gf_error *err, const char *name, char *text, size_t n, int32_t *label, char **caption);

/* `glofnd data index`: scans every shard anew and writes all index files; a file that cannot be written is an error here. */
glofnd_status gf_wds_index_all(gf_error *err, const char *pattern, int64_t *shards, int64_t *samples);

#endif
