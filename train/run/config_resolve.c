/* config_resolve.c - see run/config.h: the meaning of a configuration. */
#include <stdio.h>
#include <string.h>

#include "method/options.h"
#include "optim/schedule.h"
#include "run/config_parts.h"
#include "run/late_keys.h"
#include "util/number_text.h"

static int32_t larger(int32_t a, int32_t b) { return a > b ? a : b; }

static glofnd_status check_views(gf_error *err, const gf_config *c) {
    FAIL_IF(err, gf_loss_sides(c->method.loss) != 1, GLOFND_E_OPTION,
            "loss: two views of an image take sogclr, simclr or isogclr-views; for images with captions set task = clip");
    FAIL_IF(err, c->arch > GF_ARCH_RESNET50, GLOFND_E_OPTION, "arch: clip-resnet50 and vit are for task clip");
    FAIL_IF(err, c->micro_batch > 0, GLOFND_E_OPTION, "micro_batch: it is for task clip; leave it 0");
    FAIL_IF(err, c->lock != GF_LOCK_NONE, GLOFND_E_OPTION, "lock: it is for task clip; leave it none");
    return GLOFND_OK;
}

static glofnd_status check_clip(gf_error *err, gf_config *c) {
    FAIL_IF(err, gf_config_supports(c), GLOFND_E_OPTION, "fnc_support: support views are for task views; leave it 0");
    FAIL_IF(err, gf_loss_sides(c->method.loss) != 2, GLOFND_E_OPTION, "loss: task clip takes clip, sogclr2, fastclip or isogclr");
    FAIL_IF(err, c->micro_batch > 0 && c->batch % c->micro_batch != 0, GLOFND_E_OPTION,
            "micro_batch: %lld does not divide the batch of %lld", (long long)c->micro_batch, (long long)c->batch);
    FAIL_IF(err, c->text_width % c->text_heads != 0, GLOFND_E_OPTION, "text_heads: %d do not divide text_width %d",
            (int)c->text_heads, (int)c->text_width);
    if (c->arch != GF_ARCH_VIT) return GLOFND_OK;
    if (c->image_width == 0) c->image_width = 768;
    if (c->image_layers == 0) c->image_layers = 12;
    if (c->image_heads == 0) c->image_heads = 12;
    if (c->patch == 0) c->patch = 32;
    FAIL_IF(err, c->image_width % c->image_heads != 0, GLOFND_E_OPTION, "image_heads: %d do not divide image_width %d",
            (int)c->image_heads, (int)c->image_width);
    return GLOFND_OK;
}

/* Fills the defaults of the temperature schedules. */
static glofnd_status resolve_tau(gf_error *err, gf_config *c) {
    const double tau = c->method.tau;
    if (c->scale_lr < 0.0 && c->method.loss == GLOFND_LOSS_FASTCLIP) c->scale_lr = 2e-4;
    if (c->gamma_decay < 0) c->gamma_decay = c->epochs / 2;
    FAIL_IF(err, gf_config_learns_tau(c) && (tau > 1.0 || 1.0 / tau > c->scale_max * (1.0 + 1e-12)), GLOFND_E_OPTION,
            "tau: %g is outside of the range that is learned, 1 to 1/scale_max = %g; change one of them", tau,
            1.0 / c->scale_max);
    return GLOFND_OK;
}

static glofnd_status check_groups(gf_error *err, const gf_config *c) {
    const int contents = c->task == GF_TASK_CLIP && c->mask_duplicates, detects = c->method.detector == GLOFND_DETECT_GROUPS;
    int32_t counts[GF_GROUP_LEVELS];
    int levels;
    FAIL_IF(err, detects && !contents && !*c->groups, GLOFND_E_OPTION,
            "detector: groups needs a group per sample: set groups to a file of ids or to kmeans; or task = clip with "
            "mask_duplicates = 1");
    FAIL_IF(err, *c->groups && !detects, GLOFND_E_OPTION, "groups: it is for detector = groups; set that, or leave groups empty");
    FAIL_IF(err, *c->groups && contents, GLOFND_E_OPTION,
            "groups: a sample has one group, and mask_duplicates = 1 makes them of equal contents; set mask_duplicates = 0");
    FAIL_IF(err, c->kmeans_accept < 0.0 && c->kmeans_accept != -1.0, GLOFND_E_OPTION,
            "kmeans_accept: %g; expected -1 or a share in [0, 1]", c->kmeans_accept);
    return gf_config_clusters(c) ? gf_config_group_counts(err, c, counts, &levels) : GLOFND_OK;
}

static glofnd_status check_kept_epochs(gf_error *err, const gf_config *c) {
    int32_t epoch[GF_KEPT_EPOCHS];
    int count;
    return gf_config_kept_epochs(err, c, epoch, &count);
}

/* A GPU decodes what it makes views of. */
static glofnd_status resolve_decode(gf_error *err, gf_config *c) {
    const int on_gpu = c->method.device == GLOFND_DEVICE_CUDA;
    const int resized_there = c->crop_filter == GF_CROP_BILINEAR && c->micro_batch == 0;
    FAIL_IF(err, c->decode == GF_DECODE_GPU && !on_gpu, GLOFND_E_OPTION, "decode: gpu needs device = cuda; take exact or fast");
    FAIL_IF(
        err, c->decode == GF_DECODE_GPU && !resized_there, GLOFND_E_OPTION,
        "decode: gpu needs views that are made there; crop_filter = bicubic and micro_batch leave them to the CPU: take exact "
        "or fast");
    if (c->decode == GF_DECODE_AUTO && (!on_gpu || !resized_there)) c->decode = GF_DECODE_EXACT;
    return GLOFND_OK;
}

glofnd_status gf_config_resolve(gf_error *err, gf_config *c) {
    char why[sizeof err->text];
    TRY(gf_config_take_defaults(err, c));
    gf_config_resolve_shares(c);
    FAIL_IF(err, !*c->data, GLOFND_E_OPTION, "data: it is empty; give the SPEC of the images, for example --data shapes:n=4096");
    FAIL_IF(err, c->grad_clip > 0.0 && c->optimizer == GF_OPTIMIZER_LARS, GLOFND_E_OPTION,
            "grad_clip: lars scales the step of every tensor; take adamw or sgd, or leave it 0");
    TRY(c->task == GF_TASK_CLIP ? check_clip(err, c) : check_views(err, c));
    FAIL_IF(err, c->size > 0 && c->size < 8, GLOFND_E_OPTION, "size: %d is too small; expected at least 8, or 0", (int)c->size);
    FAIL_IF(err, c->store == GF_STORE_FILE && c->method.device == GLOFND_DEVICE_CUDA, GLOFND_E_OPTION,
            "store: a GPU keeps the state of the anchors in its own memory; use store = memory, or device = cpu");
    TRY(check_groups(err, c));
    TRY(check_kept_epochs(err, c));
    TRY(resolve_decode(err, c));
    if (c->eval_view == GF_EVAL_AUTO) c->eval_view = c->task == GF_TASK_CLIP && *c->init ? GF_EVAL_CLIP : GF_EVAL_CENTER;
    if (c->warmup_epochs < 0) c->warmup_epochs = c->epochs / 20;
    FAIL_IF(err, c->warmup_epochs >= c->epochs, GLOFND_E_OPTION, "warmup_epochs: %d is not below epochs, which is %d",
            (int)c->warmup_epochs, (int)c->epochs);
    TRY(resolve_tau(err, c));
    if (c->start_epoch < 0) c->start_epoch = (int32_t)((int64_t)c->epochs * 35 / 100);
    if (!c->update_set) c->method.update_epoch = c->start_epoch;
    if (!c->mask_set) c->method.mask_epoch = larger(c->start_epoch, c->method.update_epoch);
    const glofnd_status status = glofnd_options_check(&c->method, why, sizeof why);
    FAIL_IF(err, status != GLOFND_OK, status, "%s", why);
    return GLOFND_OK;
}

glofnd_status gf_config_same_run(gf_error *err, const gf_config *before, const gf_config *now) {
    static const char *const fixed[] = {
        "seed",       "task",        "arch",        "size",         "stem",        "head_hidden", "head_out",
        "batch",      "optimizer",   "image_width", "image_layers", "image_heads", "patch",       "embed_dim",
        "text_width", "text_layers", "text_heads",  "context",      "quick_gelu",  "vocab",       "vocab_merges",
        "lock",       "loss",        "init",        "zero_init",
    };
    char old[1024], new[1024];
    const int gpu_decodes = before->decode == GF_DECODE_GPU;
    FAIL_IF(err, gpu_decodes != (now->decode == GF_DECODE_GPU), GLOFND_E_OPTION,
            "decode: in the run to resume the %s decodes, and nvJPEG's pixels differ from libjpeg's; give --decode %s",
            gpu_decodes ? "GPU" : "CPU",
            gpu_decodes                        ? "gpu"
            : before->decode == GF_DECODE_FAST ? "fast"
                                               : "exact");
    for (size_t i = 0; i < sizeof fixed / sizeof *fixed; i++) {
        gf_config_text(before, fixed[i], old, sizeof old);
        gf_config_text(now, fixed[i], new, sizeof new);
        FAIL_IF(err, strcmp(old, new) != 0, GLOFND_E_OPTION, "%s: it is '%.200s' in the run to resume, and '%.200s' is given",
                fixed[i], old, new);
    }
    const int ring = (gf_detector_memory(before) & gf_detector_memory(now) & GF_REMEMBERS_RING) != 0;
    FAIL_IF(err, ring && before->method.similarity != now->method.similarity, GLOFND_E_OPTION,
            "similarity: the ring of the run to resume holds %s; give --similarity %s",
            before->method.similarity == GLOFND_SIMILARITY_BANK ? "averages" : "embeddings",
            before->method.similarity == GLOFND_SIMILARITY_BANK ? "bank" : "embedding");
    return GLOFND_OK;
}

double gf_config_lr(const gf_config *c) {
    switch (c->lr_scaling) {
    case GF_LR_SQRT: return gf_lr_scaled_sqrt(c->lr, c->batch);
    case GF_LR_LINEAR: return gf_lr_scaled_linear(c->lr, c->batch);
    case GF_LR_NONE: break;
    }
    return c->lr;
}

int gf_config_dim(const gf_config *c) { return c->task == GF_TASK_CLIP ? c->embed_dim : c->head_out; }

int gf_config_learns_tau(const gf_config *c) {
    const glofnd_loss loss = c->method.loss;
    return c->task == GF_TASK_CLIP && c->scale_lr != 0.0 && (loss == GLOFND_LOSS_CLIP || loss == GLOFND_LOSS_FASTCLIP);
}

int gf_config_individual_tau(const gf_config *c) {
    return c->method.loss == GLOFND_LOSS_ISOGCLR || c->method.loss == GLOFND_LOSS_ISOGCLR_VIEWS;
}

int gf_config_learns_lambda(const gf_config *c) {
    return c->method.detector == GLOFND_DETECT_GLOFND || c->method.detector == GLOFND_DETECT_SINGLE;
}

int gf_config_clusters(const gf_config *c) {
    return c->method.detector == GLOFND_DETECT_GROUPS && strcmp(c->groups, "kmeans") == 0;
}

/* "14,22" to at most `max` numbers in [1, largest]. */
static glofnd_status read_list(gf_error *err, const char *key, const char *list, int64_t largest, int32_t *out, int max,
                               int *count) {
    char text[1024], *rest = text;
    snprintf(text, sizeof text, "%s", list);
    *count = 0;
    for (char *part; (part = strsep(&rest, ","));) {
        int64_t n = 0;
        const int wrong = gf_integer_read(part, &n) != NULL || n < 1 || n > largest;
        FAIL_IF(err, wrong, GLOFND_E_OPTION,
                "%s: \"%.40s\" in \"%.200s\"; expected integers in [1, %lld] with commas, such as 100,1000", key, part, list,
                (long long)largest);
        FAIL_IF(err, *count == max, GLOFND_E_OPTION, "%s: \"%.200s\"; at most %d numbers", key, list, max);
        out[(*count)++] = (int32_t)n;
    }
    return GLOFND_OK;
}

glofnd_status gf_config_group_counts(gf_error *err, const gf_config *c, int32_t counts[GF_GROUP_LEVELS], int *levels) {
    return read_list(err, "kmeans_groups", c->kmeans_groups, 100000000, counts, GF_GROUP_LEVELS, levels);
}

glofnd_status gf_config_kept_epochs(gf_error *err, const gf_config *c, int32_t epoch[GF_KEPT_EPOCHS], int *count) {
    *count = 0;
    return *c->checkpoint_epochs
               ? read_list(err, "checkpoint_epochs", c->checkpoint_epochs, 1000000, epoch, GF_KEPT_EPOCHS, count)
               : GLOFND_OK;
}

int gf_config_flags(const gf_config *c) {
    return c->method.detector != GLOFND_DETECT_NONE || (c->task == GF_TASK_CLIP && c->mask_duplicates);
}

int gf_config_supports(const gf_config *c) { return c->method.detector == GLOFND_DETECT_FNC && c->method.fnc_support > 0; }
