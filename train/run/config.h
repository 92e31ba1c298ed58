/* config.h - the configuration of a pretraining run: one struct driven by two tables, the method's options and the run's.
 *
 * A configuration is text: `key = value` lines, # comments. It is read from files, the later ones over the earlier, then from
 * flags, resolved (open values are chosen) and written to RUN/config.cfg, which starts the same run again.
 */
#pragma once

#include "method/options.h"
#include "nn/net.h"
#include "util/option_table.h"

typedef enum gf_optimizer { GF_OPTIMIZER_LARS, GF_OPTIMIZER_SGD, GF_OPTIMIZER_ADAMW } gf_optimizer;
typedef enum gf_lr_scaling { GF_LR_SQRT, GF_LR_LINEAR, GF_LR_NONE } gf_lr_scaling;

typedef enum gf_train_task { GF_TASK_VIEWS, GF_TASK_CLIP } gf_train_task;
typedef enum gf_pixel_stats { GF_PIXELS_IMAGENET, GF_PIXELS_CLIP } gf_pixel_stats;
typedef enum gf_crop_filter { GF_CROP_BILINEAR, GF_CROP_BICUBIC } gf_crop_filter;
typedef enum gf_eval_view { GF_EVAL_AUTO, GF_EVAL_CENTER, GF_EVAL_CLIP } gf_eval_view;
typedef enum gf_gamma_kind { GF_GAMMA_CONSTANT, GF_GAMMA_COSINE } gf_gamma_kind;
typedef enum gf_lock { GF_LOCK_NONE, GF_LOCK_IMAGE, GF_LOCK_TEXT } gf_lock;
typedef enum gf_decode { GF_DECODE_EXACT, GF_DECODE_FAST } gf_decode;
typedef enum gf_store_kind { GF_STORE_MEMORY, GF_STORE_FILE } gf_store_kind;

/* Keys that may be written as shares of the schedule, "35%". */
typedef enum gf_share_key {
    GF_SHARE_START,
    GF_SHARE_WARMUP,
    GF_SHARE_WARMUP_STEPS,
    GF_SHARE_GAMMA,
    GF_SHARE_UPDATE,
    GF_SHARE_MASK,
    GF_SHARE_SHARED,
    GF_SHARES
} gf_share_key;

typedef struct gf_config {
    char data[1024];  /* SPEC */
    char init[1024];  /* weights to start from */
    char vocab[1024]; /* clip: merges file; "": learned from the captions */
    gf_train_task task;
    gf_arch arch;
    int32_t size; /* pixels; 0: gf_sizes_default_view of the data */
    int32_t stem; /* -1 auto: CIFAR stem up to 64 pixels; 0 ImageNet's, 1 CIFAR's */
    int32_t head_hidden, head_out, zero_init;
    int32_t embed_dim;                                     /* clip: width of the embeddings of both encoders */
    int32_t image_width, image_layers, image_heads, patch; /* vit; 0: those of ViT-B/32 */
    int32_t text_width, text_layers, text_heads, context;
    int32_t quick_gelu, vocab_merges;
    gf_lock lock;
    int64_t batch, micro_batch;                 /* micro_batch 0: all at once */
    int32_t epochs, start_epoch, warmup_epochs; /* start, warm-up -1: by the paper's shares */
    gf_optimizer optimizer;
    double lr, momentum, weight_decay;
    int64_t warmup_steps; /* -1: warmup_epochs rules */
    double lr_min, beta1, beta2, adam_eps, grad_clip;
    gf_gamma_kind gamma_schedule;
    double gamma_min;
    int32_t gamma_decay;                                        /* epochs; -1: half of all */
    double scale_lr, scale_lr_ratio, scale_lr_below, scale_max; /* the learned log(1/tau); scale_lr -1: by the loss */
    int32_t mask_duplicates;
    gf_lr_scaling lr_scaling;
    int64_t seed;
    int32_t ranks;       /* gf_ranks of dist/dist.h */
    double rank_timeout; /* seconds of silence */
    gf_precision precision;
    int32_t deterministic, tf32; /* GPU only */
    int64_t max_pixels;
    gf_decode decode;
    int32_t strict, workers, prefetch;
    gf_pixel_stats pixels;  /* mean and deviation of colours */
    gf_eval_view eval_view; /* crop of an image that is evaluated */
    double crop_min;        /* min share of the image in a view */
    gf_crop_filter crop_filter;
    double jitter_p, brightness, contrast, saturation, hue, gray_p, blur_p, flip_p;
    int64_t checkpoint_steps, log_steps;
    double checkpoint_minutes;
    int32_t keep_checkpoints;
    char checkpoint_epochs[1024]; /* beside these: after so many epochs, with commas; "": none */
    int32_t eval_every;           /* epochs; 0: never */
    int64_t eval_samples;         /* that vote, at most */
    char on_epoch[1024];          /* shell command; "": none */
    gf_store_kind store;          /* of the anchors while training */
    char groups[1024];            /* detector groups: a file of ids, "kmeans", or "": equal contents */
    char kmeans_groups[64];
    int32_t kmeans_epochs, kmeans_iterations;
    double kmeans_accept;                     /* -1: grows with the epochs */
    char guide[1024], guide_thresholds[1024]; /* detector fixed: .npy files, a row per sample */
    glofnd_options method;
    int32_t update_set, mask_set; /* update_epoch, mask_epoch were given after start_epoch; else they follow from it */
    int32_t pairing_set;          /* pairing was given, or a loss of 0.x that means it; else it follows from task */
    double share[GF_SHARES];      /* percent; 0: the key holds a number. Resolving turns them to epochs */
    uint64_t given[3];            /* bit i: option i of gf_config_option was given; else resolving may take the task's default */
} gf_config;

glofnd_status gf_config_init(gf_error *err, gf_config *c);
/* One key, of either table, without a leading "--"; '-' and '_' are equal. */
glofnd_status gf_config_set(gf_error *err, gf_config *c, const char *key, const char *value);
/* A .cfg file; messages name file and line. */
glofnd_status gf_config_read(gf_error *err, gf_config *c, const char *path);
/* All keys count as given: the configuration of an existing run. Keys that it lacks keep the meaning they had when it began. */
void gf_config_complete(gf_config *c);
/* The share of warmup_steps, if it is one, of all steps of the run. */
void gf_config_share_steps(gf_config *c, int64_t steps);
/* 1: every key that was given to `other` was given to `c`. */
int gf_config_covers(const gf_config *c, const gf_config *other);
/* Fills open values (keys that were not given and have a different default in this task; start and warm-up epochs; size and stem
 * follow from the data) and checks combinations. */
glofnd_status gf_config_resolve(gf_error *err, gf_config *c);
/* Both resolved. E_OPTION names the first key in which they differ and must not, if `now` is to continue where `before` stopped:
 * seed, batch, network, optimizer, the initial weights. */
glofnd_status gf_config_same_run(gf_error *err, const gf_config *before, const gf_config *now);
/* The resolved configuration as text, replacing `path` when complete. */
glofnd_status gf_config_write(gf_error *err, const gf_config *c, const char *path);
/* Both tables in order, for --help: i = 0, 1, ...; NULL at the end. *in_method: it belongs to c->method. */
const gf_option *gf_config_option(int i, int *in_method);
/* The value of option i as text; its key, or NULL at the end. */
const char *gf_config_value(const gf_config *c, int i, char *out, size_t bytes);
/* The row of a key ('-' and '_' are equal), NULL if unknown; its value as text, "" if unknown. */
const gf_option *gf_config_find(const char *key, int *in_method);
void gf_config_text(const gf_config *c, const char *key, char *out, size_t bytes);
/* The default of a key in a new run of a task, as text. */
const char *gf_config_preset(const gf_option *o, gf_train_task task);
/* The peak learning rate, scaled by the batch. */
double gf_config_lr(const gf_config *c);
int gf_config_dim(const gf_config *c);            /* numbers of an embedding the loss sees */
int gf_config_learns_tau(const gf_config *c);     /* one temperature for all, learned with the weights */
int gf_config_learns_bias(const gf_config *c);    /* loss sigmoid: its bias, too */
int gf_config_individual_tau(const gf_config *c); /* a temperature per anchor, in the store */
int gf_config_learns_lambda(const gf_config *c);  /* thresholds: detector glofnd or single */
#define GF_GROUP_LEVELS 8
int gf_config_clusters(const gf_config *c); /* detector groups by k-means */
/* kmeans_groups as numbers. */
glofnd_status gf_config_group_counts(gf_error *err, const gf_config *c, int32_t counts[GF_GROUP_LEVELS], int *levels);
#define GF_KEPT_EPOCHS 128
/* checkpoint_epochs as numbers. */
glofnd_status gf_config_kept_epochs(gf_error *err, const gf_config *c, int32_t epoch[GF_KEPT_EPOCHS], int *count);
int gf_config_supports(const gf_config *c); /* FNC with support views */
int gf_config_flags(const gf_config *c);    /* some pairs may be flagged: there is a detector, or equal contents are masked */
