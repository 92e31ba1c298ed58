/* wds.h - WebDataset shards: the positions of samples in them, so that samples can be read in any order.
 *
 * Evaluation sets of DataComp and clip_benchmark are such shards in a folder test/, with classnames.txt and
 * zeroshot_classification_templates.txt in the folder above, and sometimes a .npy per sample, whose first number is a group.
 *
 * A sample is a run of members that share a key (the name up to the first dot of its last part): one image, and perhaps .txt,
 * .cls, .json. Such a run without image, as key.bmp or key.v1.png, is left out and counted. A .txt, .cls or .json that cannot be
 * used is counted, too: its sample is taken without that label or caption. A key that occurs again, in the same shard or a
 * different one, is a different sample. Scanning a shard gives a list of its samples, which is kept in a file beside the shard
 * (SHARD.gfidx) with the shard's size and time, and made anew when these differ. If that cannot be written, the list is kept in
 * memory only.
 */
#pragma once

#include "io/file.h"
#include "util/string_list.h"

#define GF_WDS_TEXT_MAX (1u << 20) /* bytes of a .txt or .json */
#define GF_WDS_GROUPS_MAX 65536    /* groups of samples by their .npy */

enum { GF_WDS_TEXT_IS_JSON = 1 }; /* gf_wds_entry.flags */

typedef struct gf_wds_entry {
    uint64_t image_at, text_at;
    uint32_t image_size, text_size; /* text_size 0: none */
    int32_t label;                  /* -1: none */
    int32_t group;                  /* first number of a .npy of metadata; -1: none */
    uint32_t flags;
} gf_wds_entry;

typedef struct gf_wds_shard { /* the samples of one shard */
    gf_wds_entry *entries;    /* [keys.n] */
    size_t capacity;
    gf_string_list keys;
    gf_file_stamp stamp;
    int64_t left_out;   /* keys without image */
    char *left_first;   /* a member of the first of them; NULL: none */
    int64_t unused;     /* parts of samples that cannot be used, as an invalid .json */
    char *unused_first; /* message about the first of them; NULL: none */
    int no_end_mark;    /* it ends without tar's end mark */
} gf_wds_shard;

/* Reads the members of the open shard. E_FORMAT names shard and member. */
glofnd_status gf_wds_scan(gf_error *err, const char *path, int fd, gf_file_stamp stamp, gf_wds_shard *out);
void gf_wds_shard_free(gf_wds_shard *s);
/* The index file. Loading fails (E_FORMAT, E_IO) if it is missing, corrupt, or its size or time differ from `stamp`. */
glofnd_status gf_wds_index_save(gf_error *err, const char *path, const gf_wds_shard *s);
glofnd_status gf_wds_index_load(gf_error *err, const char *path, gf_file_stamp stamp, gf_wds_shard *out);

/* `glofnd data index`: scans every shard anew and writes all index files; a file that cannot be written is an error here. */
glofnd_status gf_wds_index_all(gf_error *err, const char *pattern, int64_t *shards, int64_t *samples);
