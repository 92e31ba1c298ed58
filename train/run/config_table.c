/* config_table.c - the run's options: one row per key. A new key is one field of gf_config and one row here.
 *
 * The default of a row is also what a configuration of an older program means that lacks the key: it never changes. A new run
 * may begin with a different one: config_defaults.c. */
#include "nn/graph.h" /* GF_MAX_DEPTH */
#include "run/config_parts.h"

static const char *const tasks[] = {"views", "clip", NULL};
static const char *const archs[] = {"resnet8", "resnet18", "resnet34", "resnet50", "clip-resnet50", "vit", NULL};
static const char *const locks[] = {"none", "image", "text", NULL};
static const char *const gammas[] = {"constant", "cosine", NULL};
static const char *const pixel_stats[] = {"imagenet", "clip", NULL};
static const char *const crop_filters[] = {"bilinear", "bicubic", NULL};
static const char *const eval_views[] = {"auto", "center", "clip", NULL};
static const char *const optimizers[] = {"lars", "sgd", "adamw", NULL};
static const char *const scalings[] = {"sqrt", "linear", "none", NULL};
static const char *const decoders[] = {"exact", "fast", "gpu", "auto", NULL};
static const char *const ranks[] = {"auto", "single", "mpi", NULL};
static const char *const stores[] = {"memory", "file", NULL};
static const char *const precisions[] = {"fp32", "bf16", NULL};

#define FIELD(name) .key = #name, .offset = offsetof(gf_config, name)
#define NOTE(def, grp, text) .preset = def, .group = grp, .help = text
#define TEXT(name, text) \
    { FIELD(name), .type = GF_OPTION_TEXT, .max = sizeof((gf_config *)0)->name, NOTE("", "run", text) }
#define GROUPS_TEXT(name, def, text) \
    { FIELD(name), .type = GF_OPTION_TEXT, .max = sizeof((gf_config *)0)->name, NOTE(def, "groups", text) }
#define NAME(name, list, def, grp, text) \
    { FIELD(name), .type = GF_OPTION_ENUM, .names = list, NOTE(def, grp, text) }
#define SWITCH(name, def, grp, text) \
    { FIELD(name), .type = GF_OPTION_BOOL, NOTE(def, grp, text) }
#define INTEGER(name, def, lo, hi, grp, text) \
    { FIELD(name), .type = GF_OPTION_INT, .min = lo, .max = hi, NOTE(def, grp, text) }
#define LONG(name, def, lo, hi, grp, text) \
    { FIELD(name), .type = GF_OPTION_INT64, .min = lo, .max = hi, NOTE(def, grp, text) }
#define REAL(name, def, lo, hi, grp, text) \
    { FIELD(name), .type = GF_OPTION_DOUBLE, .min = lo, .max = hi, NOTE(def, grp, text) }

static const gf_option rows[] = {
    TEXT(data, "SPEC of the images: shapes:..., cifar10:DIR, cifar100:DIR, folder:DIR, wds:GLOB, list:FILE, csv:FILE"),
    TEXT(init, "file with weights to start from: .safetensors, or .pth of torch.save"),
    NAME(task, tasks, "views", "run", "views: two views of an image; clip: an image and its caption, two encoders"),
    LONG(seed, "1", 0, 9e15, "run", "all random numbers follow from it"),
    NAME(ranks, ranks, "auto", "run", "processes that train as one, with the result of one; auto: those of mpirun or srun"),
    REAL(rank_timeout, "120", 0, 1e6, "run", "seconds of silence from a rank after which the run ends; 0: never"),

    NAME(arch, archs, "resnet18", "network", "image encoder; clip-resnet50 and vit are for task clip"),
    INTEGER(size, "0", 0, 1024, "network",
            "pixels of a view; 0: of the images if all are squares of one size up to 224, else 224"),
    INTEGER(stem, "-1", -1, 1, "network", "first layers: 1 CIFAR's, 0 ImageNet's, -1 by size"),
    INTEGER(head_hidden, "2048", 1, 65536, "network", "hidden width of the projection head; the paper's text says 128"),
    INTEGER(head_out, "128", 1, 65536, "network", "width of the embeddings the loss sees"),
    SWITCH(zero_init, "1", "network", "the last scale of every block starts at 0"),
    NAME(precision, precisions, "fp32", "network", "of activations; weights and statistics are always fp32"),
    INTEGER(deterministic, "1", 0, 2, "network",
            "GPU: 1: only algorithms that repeat their bits, the fastest, kept in the run folder; 2: without timing; 0: any"),
    SWITCH(tf32, "1", "network", "GPU: fp32 products may round their factors to 10 bits"),

    INTEGER(image_width, "0", 0, 8192, "image and text", "vit: numbers per patch; 0: 768, as ViT-B/32"),
    INTEGER(image_layers, "0", 0, GF_MAX_DEPTH, "image and text", "vit: blocks; 0: 12"),
    INTEGER(image_heads, "0", 0, 256, "image and text", "vit: heads of attention; 0: 12"),
    INTEGER(patch, "0", 0, 1024, "image and text", "vit: pixels on a side of a patch; 0: 32"),
    INTEGER(embed_dim, "512", 1, 65536, "image and text", "clip: width of the embeddings the loss sees"),
    INTEGER(text_width, "512", 8, 8192, "image and text", "text encoder: numbers per token"),
    INTEGER(text_layers, "12", 1, GF_MAX_DEPTH, "image and text", "text encoder: blocks"),
    INTEGER(text_heads, "8", 1, 256, "image and text", "text encoder: heads of attention"),
    INTEGER(context, "77", 3, 4096, "image and text", "tokens of a caption, start and end among them; longer ones are cut"),
    SWITCH(quick_gelu, "0", "image and text", "1: the GELU that OpenAI's weights were made with"),
    {FIELD(vocab), .type = GF_OPTION_TEXT, .max = sizeof((gf_config *)0)->vocab,
     NOTE("", "image and text", "file of merges (open_clip's form, .gz too); empty: that of init, or learned from the captions")},
    INTEGER(vocab_merges, "8192", 0, 48894, "image and text", "max merges, where they are learned"),
    NAME(lock, locks, "none", "image and text", "an encoder that keeps its weights from init"),
    SWITCH(mask_duplicates, "1", "image and text", "pairs with the same image, or the same tokens, are no negatives"),

    GROUPS_TEXT(groups, "",
                "detector groups: file of an id per sample (.npy, or a number per line; negative: none), or kmeans; empty: equal "
                "contents, task clip"),
    GROUPS_TEXT(kmeans_groups, "100", "groups kmeans: numbers of groups; several with commas, used by turns"),
    INTEGER(kmeans_epochs, "10", 1, 1e6, "groups", "groups kmeans: epochs between clusterings, from update_epoch on"),
    INTEGER(kmeans_iterations, "20", 1, 10000, "groups", "groups kmeans: iterations, at most"),
    REAL(
        kmeans_accept, "-1", -1, 1, "groups",
        "groups kmeans: share of the samples that have a group, the most confident; -1: grows with the epochs, to 1 in the last"),

    LONG(batch, "256", 2, 1048576, "training", "images per step; task views: at most 524288 on a rank, as each is seen twice"),
    LONG(micro_batch, "0", 0, 1048576, "training",
         "task clip: images at a time through the encoders, for a batch that does not fit in memory; 0: all at once"),
    INTEGER(epochs, "200", 1, 1e6, "training", "passes over the data"),
    INTEGER(start_epoch, "-1", -1, 1e6, "training", "first epoch with detector; -1: floor(0.35 epochs), the paper's 70 of 200"),
    NAME(optimizer, optimizers, "lars", "training", "update rule of the weights"),
    {FIELD(lr), .type = GF_OPTION_DOUBLE, .min = 0, .max = 1000, .flags = GF_OPTION_ABOVE_MIN,
     NOTE("0.075", "training", "learning rate before scaling")},
    NAME(lr_scaling, scalings, "sqrt", "training", "lr times sqrt(batch), times batch/256, or unscaled"),
    INTEGER(warmup_epochs, "-1", -1, 1e6, "training",
            "epochs of rising learning rate, then half a cosine; -1: floor(0.05 epochs), the paper's 10 of 200"),
    LONG(warmup_steps, "-1", -1, 1e12, "training", "the same in steps; -1: by warmup_epochs"),
    REAL(lr_min, "0", 0, 1000, "training", "end of that cosine, with warmup_steps"),
    REAL(momentum, "0.9", 0, 0.9999, "training", "of lars and sgd"),
    REAL(beta1, "0.9", 0, 0.99999, "training", "adamw: decay of the first moment"),
    REAL(beta2, "0.999", 0, 0.9999999, "training", "adamw: decay of the second moment"),
    REAL(adam_eps, "1e-8", 0, 1, "training", "adamw: added to the root"),
    REAL(grad_clip, "0", 0, 1e9, "training", "a longer gradient is shortened to this norm; 0: off"),
    REAL(weight_decay, "1e-6", 0, 10, "training", "of weights, not of scales and shifts"),

    NAME(gamma_schedule, gammas, "constant", "temperature",
         "gamma as it is, or 1 in the first epoch and half a cosine down to gamma_min"),
    REAL(gamma_min, "0.2", 0.0001, 1, "temperature", "gamma_schedule cosine: its end"),
    INTEGER(gamma_decay, "-1", -1, 1e6, "temperature", "gamma_schedule cosine: after so many epochs; -1: floor(epochs / 2)"),
    REAL(scale_lr, "-1", -1, 1, "temperature",
         "clip, fastclip: learning rate of log(1/tau); 0: tau stays; -1: as the weights (clip), 2e-4 (fastclip)"),
    REAL(scale_lr_ratio, "0.33333333333333331", 0, 1, "temperature", "that rate times this, if scale_lr is above 0,"),
    REAL(scale_lr_below, "0.03", 0, 1, "temperature", "while tau is at or below this"),
    REAL(scale_max, "100", 1, 1000, "temperature", "1/tau stays between 1 and this"),

    NAME(pixels, pixel_stats, "imagenet", "views", "mean and deviation of colours that views are normalised with"),
    REAL(crop_min, "0.08", 0.01, 1, "views", "min share of the image that a view shows"),
    NAME(crop_filter, crop_filters, "bilinear", "views", "how a crop is resized to a view; bicubic: as open_clip, on the CPU"),
    REAL(jitter_p, "0.8", 0, 1, "views", "chance of colour jitter"),
    REAL(brightness, "0.4", 0, 1, "views", "strength of the jitter"),
    REAL(contrast, "0.4", 0, 1, "views", "strength of the jitter"),
    REAL(saturation, "0.2", 0, 1, "views", "strength of the jitter"),
    REAL(hue, "0.1", 0, 0.5, "views", "strength of the jitter; 0.5: any hue"),
    REAL(gray_p, "0.2", 0, 1, "views", "chance of a gray view"),
    REAL(blur_p, "-1", -1, 1, "views", "chance of a blurred view; SogCLR's is 1; -1: 0.5 above 64 pixels, else 0"),
    REAL(flip_p, "0.5", 0, 1, "views", "chance of a mirrored view"),
    NAME(eval_view, eval_views, "auto", "views",
         "view for embed and eval: center: 7/8 of the shorter side, bilinear; clip: all of it, bicubic, as open_clip; auto: clip "
         "for task clip with init, else center"),

    NAME(
        decode, decoders, "exact", "data",
        "JPEG: PIL's numbers; fast: at reduced size where that suffices; gpu: by nvJPEG, levels differ a little; auto: gpu if it "
        "can, else exact"),
    LONG(max_pixels, "200000000", 65536, 268435456, "data",
         "decoded at a time by all workers; a larger image is unreadable, unless it is a JPEG that can be reduced"),
    SWITCH(strict, "0", "data", "1: an unreadable image ends the run, or a shard that may be cut; 0: it is replaced and counted"),
    INTEGER(workers, "0", 0, 256, "data", "threads that read and augment; 0: as many as `threads`"),
    INTEGER(prefetch, "2", 1, 64, "data", "batches prepared ahead"),

    NAME(store, stores, "memory", "output", "state of the anchors: in memory, or a mapped scratch file in the run folder"),
    LONG(checkpoint_steps, "0", 0, 1e12, "output", "steps between checkpoints; 0: at the end of an epoch, by checkpoint_minutes"),
    REAL(checkpoint_minutes, "1", 0, 1e6, "output", "no checkpoint at the end of an epoch sooner than that after the last one"),
    LONG(log_steps, "10", 1, 1e9, "output", "steps between lines in log.jsonl"),
    INTEGER(keep_checkpoints, "1", 1, 10000, "output", "newest checkpoints to keep; --resume takes the newest"),
    {FIELD(checkpoint_epochs), .type = GF_OPTION_TEXT, .max = sizeof((gf_config *)0)->checkpoint_epochs,
     NOTE("", "output", "beside these, checkpoints after so many epochs stay: 14,22; empty: none")},
    INTEGER(eval_every, "0", 0, 1e6, "output", "epochs between kNN evaluations while training, by labels; 0: none"),
    LONG(eval_samples, "10000", 10, 1e9, "output",
         "eval_every: at most so many images vote, and a fifth as many, held out, are classified"),
    {FIELD(on_epoch), .type = GF_OPTION_TEXT, .max = sizeof((gf_config *)0)->on_epoch,
     NOTE("", "output", "shell command to run after every epoch, with its figures as GLOFND_LOSS, GLOFND_KNN ...")},
};

static const gf_option_table table = {rows, sizeof rows / sizeof *rows};

const gf_option_table *gf_config_table(void) { return &table; }
