/* groups.h - groups of the samples of a dataset for detector `groups`: ids from a file, or made by k-means of the present
 * embeddings (IFND). Pairs of one group are flagged.
 *
 * k-means has one or more levels, numbers of groups; step s uses level s modulo their number, so that over the steps the loss is
 * the mean over the levels. Only the most confident samples have a group.
 */
#pragma once

#include "dist/dist.h"
#include "image/augment.h"
#include "loader/loader.h"
#include "nn/net.h"
#include "run/config.h"

typedef struct gf_sample_groups { /* all zero: none */
    int64_t n;
    int levels;
    int32_t *of; /* [levels][n]; negative: no group */
    int made;    /* k-means: they are known; before the first clustering they are not */
} gf_sample_groups;

/* For a resolved configuration and n samples: reads the file, or takes memory. No-op where it asks for neither. */
glofnd_status gf_sample_groups_open(gf_error *err, gf_sample_groups *g, const gf_config *c, int64_t n);
void gf_sample_groups_free(gf_sample_groups *g);
/* [n] groups that step `step` uses. */
const int32_t *gf_sample_groups_at(const gf_sample_groups *g, int64_t step);
uint64_t gf_sample_groups_hash(const gf_sample_groups *g);

typedef struct gf_clustering {
    const gf_config *config;
    const gf_dataset *data;
    gf_net *net;           /* of images, in eval mode; its input is overwritten */
    int64_t batch, dim;    /* images per forward; numbers of an embedding */
    gf_comm *comm;         /* NULL: one rank. Collective: ranks share the embedding, and take the groups of the first */
    gf_loader_spec loader; /* centre crops of all samples in order; data, ids and batch are set inside */
    int32_t epoch;
} gf_clustering;

/* k-means of the embeddings of all samples, on every level. Unreadable samples have no group. */
glofnd_status gf_sample_groups_cluster(gf_error *err, gf_sample_groups *g, const gf_clustering *x);

/* In a checkpoint: GF_GROUPS_FILE, an .npy of int32 [levels][n]. Other sizes than the configuration's are left alone: then
 * groups are made anew. */
glofnd_status gf_sample_groups_save(gf_error *err, const gf_sample_groups *g, const char *path);
glofnd_status gf_sample_groups_load(gf_error *err, gf_sample_groups *g, const char *path);
