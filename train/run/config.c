/* config.c - see config.h: the table of the run's options, shares of the schedule, keys and files, defaults of a new run,
 * and what a configuration means (gf_config_resolve). The keys of the method (loss, detector, alpha ...) are rows of
 * method/options.c. */
#include "run/config.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "io/blockfile.h"
#include "io/file.h"
#include "method/options.h"
#include "nn/graph.h" /* GF_MAX_DEPTH */
#include "optim/optim.h"
#include "run/resume.h"
#include "util/array.h"
#include "util/text.h"

/* ----- the run's options: one row per key -----
 *
 * A new key is one field of gf_config and one row here. The default of a row is also what a configuration of an older program
 * means that lacks the key: it never changes. A new run may begin with a different one: clip_defaults, below. */

static const char *const tasks[] = {"views", "clip", NULL};
static const char *const archs[] = {"resnet8", "resnet18", "resnet34", "resnet50", "clip-resnet50", "vit", NULL};
static const char *const locks[] = {"none", "image", "text", NULL};
static const char *const gammas[] = {"constant", "cosine", NULL};
static const char *const pixel_stats[] = {"imagenet", "clip", NULL};
static const char *const crop_filters[] = {"bilinear", "bicubic", NULL};
static const char *const eval_views[] = {"auto", "center", "clip", NULL};
static const char *const optimizers[] = {"lars", "sgd", "adamw", NULL};
static const char *const scalings[] = {"sqrt", "linear", "none", NULL};
static const char *const decoders[] = {"exact", "fast", NULL};
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
    TEXT(data, "SPEC of the images: shapes:..., cifar10:DIR, cifar100:DIR, mnist:DIR, folder:DIR, wds:GLOB, list:FILE, csv:FILE"),
    TEXT(init, "safetensors file with the initial weights"),
    NAME(task, tasks, "views", "run", "views: two views of an image; clip: an image and its caption, two encoders"),
    LONG(seed, "1", 0, 9e15, "run", "random seed; equal seeds give equal runs"),
    NAME(ranks, ranks, "auto", "run", "processes that train as one, with the result of one; auto: those of mpirun or srun"),
    REAL(rank_timeout, "120", 0, 1e6, "run", "seconds of silence from a rank after which the run ends; 0: never"),

    NAME(arch, archs, "resnet18", "network", "image encoder; clip-resnet50 and vit are for task clip"),
    INTEGER(size, "0", 0, 1024, "network",
            "pixels of a view; 0: of the images if all are squares of one size up to 224, else 224"),
    INTEGER(stem, "-1", -1, 1, "network", "first layers: 1: for small images (CIFAR), 0: ImageNet's, -1: chosen by size"),
    INTEGER(head_hidden, "2048", 1, 65536, "network", "hidden width of the projection head; the paper's text says 128"),
    INTEGER(head_out, "128", 1, 65536, "network", "dimension of the embeddings that the loss sees"),
    SWITCH(zero_init, "1", "network", "start the last batch-norm scale of every block at 0"),
    NAME(precision, precisions, "fp32", "network", "activation precision (weights and statistics stay fp32)"),
    INTEGER(deterministic, "1", 0, 2, "network",
            "GPU: 1: only algorithms that repeat their bits, the fastest, kept in the run folder; 2: without timing; 0: any"),
    SWITCH(tf32, "1", "network", "GPU: fp32 products may round their factors to 10 bits"),

    INTEGER(image_width, "0", 0, 8192, "image and text", "vit: width; 0: 768, as in ViT-B/32"),
    INTEGER(image_layers, "0", 0, GF_MAX_DEPTH, "image and text", "vit: number of layers; 0: 12"),
    INTEGER(image_heads, "0", 0, 256, "image and text", "vit: attention heads; 0: 12"),
    INTEGER(patch, "0", 0, 1024, "image and text", "vit: patch size in pixels; 0: 32"),
    INTEGER(embed_dim, "512", 1, 65536, "image and text", "clip: dimension of the embeddings that the loss sees"),
    INTEGER(text_width, "512", 8, 8192, "image and text", "text encoder: width"),
    INTEGER(text_layers, "12", 1, GF_MAX_DEPTH, "image and text", "text encoder: number of layers"),
    INTEGER(text_heads, "8", 1, 256, "image and text", "text encoder: attention heads"),
    INTEGER(context, "77", 3, 4096, "image and text", "tokens per caption, including start and end; longer captions are cut"),
    SWITCH(quick_gelu, "0", "image and text", "1: the GELU that OpenAI's weights were made with"),
    {FIELD(vocab), .type = GF_OPTION_TEXT, .max = sizeof((gf_config *)0)->vocab,
     NOTE("", "image and text", "file of merges (open_clip's form, .gz too); empty: that of init, or learned from the captions")},
    INTEGER(vocab_merges, "8192", 0, 48894, "image and text", "maximum number of merges to learn"),
    NAME(lock, locks, "none", "image and text", "freeze this encoder at its weights from init"),
    SWITCH(mask_duplicates, "1", "image and text", "do not use pairs with equal images or equal tokens as negatives"),

    GROUPS_TEXT(groups, "",
                "detector groups: file of an id per sample (.npy, or a number per line; negative: none), or kmeans; empty: equal "
                "contents, task clip"),
    GROUPS_TEXT(kmeans_groups, "100", "groups kmeans: numbers of groups; several with commas, used by turns"),
    INTEGER(kmeans_epochs, "10", 1, 1e6, "groups", "groups kmeans: epochs between clusterings, from update_epoch on"),
    INTEGER(kmeans_iterations, "20", 1, 10000, "groups", "groups kmeans: iterations, at most"),
    REAL(kmeans_accept, "-1", -1, 1, "groups",
         "groups kmeans: fraction of the samples that have a group, the most confident; -1: grows with the epochs, to 1 in the "
         "last"),
    GROUPS_TEXT(guide, "", "detector fixed, fixed-mutual: .npy file of the guide's embeddings, a row per sample, of any width"),
    GROUPS_TEXT(
        guide_thresholds, "",
        "detector fixed, fixed-mutual: .npy file of the guide's threshold per sample (NaN: flags nothing), or anchors.npy of "
        "glofnd discover"),

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
    REAL(momentum, "0.9", 0, 0.9999, "training", "momentum of lars and sgd"),
    REAL(beta1, "0.9", 0, 0.99999, "training", "adamw: decay of the first moment"),
    REAL(beta2, "0.999", 0, 0.9999999, "training", "adamw: decay of the second moment"),
    REAL(adam_eps, "1e-8", 0, 1, "training", "adamw: added to the root"),
    REAL(grad_clip, "0", 0, 1e9, "training", "a longer gradient is shortened to this norm; 0: off"),
    REAL(weight_decay, "1e-6", 0, 10, "training", "weight decay (not applied to biases and norm parameters)"),

    NAME(gamma_schedule, gammas, "constant", "temperature",
         "gamma as it is, or 1 in the first epoch and half a cosine down to gamma_min"),
    REAL(gamma_min, "0.2", 0.0001, 1, "temperature", "gamma_schedule cosine: its end"),
    INTEGER(gamma_decay, "-1", -1, 1e6, "temperature", "gamma_schedule cosine: epochs until the end; -1: floor(epochs / 2)"),
    REAL(scale_lr, "-1", -1, 1, "temperature",
         "clip, fastclip, sigmoid: learning rate of log(1/tau), and of the bias of sigmoid; 0: they stay; -1: as the weights, "
         "2e-4 "
         "(fastclip)"),
    REAL(scale_lr_ratio, "0.33333333333333331", 0, 1, "temperature", "factor applied to scale_lr when tau <= scale_lr_below"),
    REAL(scale_lr_below, "0.03", 0, 1, "temperature", "tau at which scale_lr_ratio takes effect"),
    REAL(scale_max, "100", 1, 1000, "temperature", "1/tau stays between 1 and this"),

    NAME(pixels, pixel_stats, "imagenet", "views", "mean and deviation of colours that views are normalised with"),
    REAL(crop_min, "0.08", 0.01, 1, "views", "smallest fraction of the image that a view shows"),
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

    NAME(decode, decoders, "exact", "data", "JPEG: PIL's numbers; fast: at reduced size where that suffices"),
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
     NOTE("", "output", "also keep the checkpoints of these epochs, such as 14,22")},
    INTEGER(eval_every, "0", 0, 1e6, "output", "epochs between kNN evaluations while training, by labels; 0: none"),
    LONG(eval_samples, "10000", 10, 1e9, "output", "eval_every: classify N/5 held-out images by up to N training images"),
    {FIELD(on_epoch), .type = GF_OPTION_TEXT, .max = sizeof((gf_config *)0)->on_epoch,
     NOTE("", "output", "shell command to run after every epoch, with its figures as GLOFND_LOSS, GLOFND_KNN ...")},
};

static const gf_option_table table = {rows, sizeof rows / sizeof *rows};

static const gf_option_table *run_options(void) { return &table; }

/* ----- shares of the schedule -----
 *
 * Epochs may be written as shares ("start_epoch = 35%"): a preset keeps its meaning with any number of epochs. */

static const char *const share_keys[GF_SHARES] = {
    [GF_SHARE_START] = "start_epoch",   [GF_SHARE_WARMUP] = "warmup_epochs", [GF_SHARE_WARMUP_STEPS] = "warmup_steps",
    [GF_SHARE_GAMMA] = "gamma_decay",   [GF_SHARE_UPDATE] = "update_epoch",  [GF_SHARE_MASK] = "mask_epoch",
    [GF_SHARE_SHARED] = "lambda_warmup"};

/* The place of a key in gf_config.share; -1: it takes no share. */
static int share_index(const char *key) {
    for (int i = 0; i < GF_SHARES; i++)
        if (strcmp(share_keys[i], key) == 0) return i;
    return -1;
}

/* floor(share of n): 35 % of 200 is 70 although 0.35 has no exact binary form. */
static int64_t part_of(double share, int64_t n) { return (int64_t)floor(share * (double)n / 100.0 * (1.0 + 1e-12)); }

void gf_config_share_steps(gf_config *c, int64_t steps) {
    double *share = &c->share[GF_SHARE_WARMUP_STEPS];
    if (*share > 0.0) c->warmup_steps = part_of(*share, steps);
    *share = 0.0;
}

/* ----- keys ----- */

glofnd_status gf_config_init(gf_error *err, gf_config *c) {
    memset(c, 0, sizeof *c);
    TRY(gf_options_preset(err, run_options(), c, sizeof *c));
    gf_method_options_init(&c->method);
    return GLOFND_OK;
}

const gf_option *gf_config_option(int i, int *in_method) {
    const gf_option_table *method = gf_method_options();
    const gf_option_table *run = run_options();
    *in_method = i >= run->count;
    if (i < 0 || i >= run->count + method->count) return NULL;
    return *in_method ? &method->rows[i - run->count] : &run->rows[i];
}

/* '-' and '_' are equal in a key: flags are usually written with the first. */
static void plain_key(const char *key, char *out, size_t bytes) {
    size_t n = 0;
    for (; key[n] && n + 1 < bytes; n++) out[n] = key[n] == '-' ? '_' : key[n];
    out[n] = 0;
}

/* Index of a key in the list of both tables; -1: unknown. */
static int index_of(const char *key) {
    int in_method;
    const gf_option *o;
    for (int i = 0; (o = gf_config_option(i, &in_method)); i++)
        if (strcmp(o->key, key) == 0) return i;
    return -1;
}

const gf_option *gf_config_find(const char *key, int *in_method) {
    char plain[64];
    plain_key(key, plain, sizeof plain);
    return gf_config_option(index_of(plain), in_method);
}

const char *gf_config_value(const gf_config *c, int i, char *out, size_t bytes) {
    int in_method;
    const gf_option *o = gf_config_option(i, &in_method);
    const int share = o ? share_index(o->key) : -1;
    if (share >= 0 && c->share[share] > 0.0) snprintf(out, bytes, "%.10g%%", c->share[share]);
    else if (o) gf_option_format(o, in_method ? (const void *)&c->method : c, out, bytes);
    return o ? o->key : NULL;
}

void gf_config_text(const gf_config *c, const char *key, char *out, size_t bytes) {
    char plain[64];
    plain_key(key, plain, sizeof plain);
    *out = 0;
    if (index_of(plain) >= 0) gf_config_value(c, index_of(plain), out, bytes);
}

/* The run's options; gf_method_options has the others. */
static int is_given(const gf_config *c, const char *key) {
    const int i = index_of(key);
    return i >= 0 && (c->given[i / 64] >> (i % 64) & 1);
}

int gf_config_covers(const gf_config *c, const gf_config *other) {
    for (size_t i = 0; i < sizeof c->given / sizeof *c->given; i++)
        if (other->given[i] & ~c->given[i]) return 0;
    return 1;
}

/* Names of keys in other programs, too far from ours to count as typing errors. */
/* clang-format off */
static const struct {
    const char *here, *elsewhere; /* several with spaces between them */
} other_names[] = {
    {"lr", "learning_rate base_lr"}, {"tau", "temperature temp tau_temp"}, {"batch", "batch_size batchsize bs"},
    {"epochs", "num_epochs max_epochs n_epochs"}, {"weight_decay", "wd"}, {"optimizer", "opt"}, {"warmup_epochs", "warmup"},
    {"grad_clip", "grad_clip_norm"}, {"workers", "num_workers"}, {"threads", "num_threads cpus"}, {"device", "gpu gpus cuda"},
    {"precision", "amp"}, {"size", "image_size img_size crop_size resolution"}, {"patch", "patch_size"},
    {"arch", "model backbone encoder"}, {"head_out", "feature_dim out_dim proj_dim"}, {"head_hidden", "hidden_dim"},
    {"data", "dataset data_dir data_path train_data"}, {"init", "pretrained weights"}, {"context", "context_length"},
    {"vocab_merges", "vocab_size"}, {"checkpoint_steps", "save_steps"}, {"loss", "method"}, {"on_epoch", "wandb logger"},
    {"keep_checkpoints", "save_total_limit save_top_k"}, {"eval_every", "eval_epochs val_every check_val_every_n_epoch"},
    {"log_steps", "log_every"}, {"seed", "random_seed"},
};
/* clang-format on */

glofnd_status gf_config_set(gf_error *err, gf_config *c, const char *key, const char *value) {
    char plain[64];
    plain_key(key, plain, sizeof plain);
    if (gf_method_option_removed(plain)) return gf_method_options_set(err, &c->method, plain, value);
    if (index_of(plain) < 0) {
        /* The message names the nearest key of both tables: it is found in a joined one. */
        gf_option both[192];
        char range[256];
        int n = 0, in_method;
        for (size_t j = 0; j < sizeof other_names / sizeof *other_names; j++)
            if (gf_has_word(other_names[j].elsewhere, plain)) {
                gf_option_range(gf_config_find(other_names[j].here, &in_method), range, sizeof range);
                GF_FAIL(err, GLOFND_E_OPTION, "unknown option \"%s\"; here its name is %s (%s)", plain, other_names[j].here,
                        range);
            }
        for (const gf_option *o; n < 192 && (o = gf_config_option(n, &in_method)); n++) both[n] = *o, both[n].offset = 0;
        const gf_option_table all = {both, n}; /* offsets are never written to */
        return gf_option_set(err, &all, c, sizeof *c, plain, "");
    }
    /* The option as the tables know it. A share is kept beside it until the schedule is known. */
    const int at = share_index(plain);
    const size_t n = strlen(value);
    const int is_share = at >= 0 && n > 0 && value[n - 1] == '%';
    const int in_run = gf_option_find(run_options(), sizeof *c, plain) != NULL;
    const char *text = is_share ? "0" : value;
    double share = 0.0;
    if (is_share) {
        /* Reads "35%". E_OPTION: the number is not in [0, 100]. */
        char number[GF_NUMBER_BYTES];
        const int read = n <= sizeof number && snprintf(number, sizeof number, "%.*s", (int)n - 1, value) >= 0 &&
                         !gf_number_read(number, &share);
        FAIL_IF(err, !read || !(share >= 0.0 && share <= 100.0), GLOFND_E_OPTION,
                "%s: \"%.40s\" is not a share; expected 0%% to 100%% of the schedule", plain, value);
    }
    TRY(in_run ? gf_option_set(err, run_options(), c, sizeof *c, plain, text)
               : gf_method_options_set(err, &c->method, plain, text));
    if (at >= 0) c->share[at] = share;
    const int i = index_of(plain);
    c->given[i / 64] |= (uint64_t)1 << (i % 64);
    if (strcmp(plain, "start_epoch") == 0) { /* it sets both; the last one given wins */
        c->update_set = c->mask_set = 0;
        c->share[GF_SHARE_UPDATE] = c->share[GF_SHARE_MASK] = 0.0;
    }
    c->update_set |= strcmp(plain, "update_epoch") == 0;
    c->mask_set |= strcmp(plain, "mask_epoch") == 0;
    c->pairing_set |= strcmp(plain, "pairing") == 0;
    if (strcmp(plain, "loss") == 0) { /* clip, sogclr2 and isogclr-views of 0.x are a loss and a pairing */
        char now[32];
        gf_option_format(gf_option_find(gf_method_options(), sizeof c->method, "loss"), &c->method, now, sizeof now);
        c->pairing_set = strcmp(now, text) != 0;
    }
    return GLOFND_OK;
}

void gf_config_complete(gf_config *c) {
    if (!is_given(c, "lambda_init")) c->method.lambda_init = GLOFND_INIT_ONE; /* the default until 1.0 */
    for (size_t i = 0; i < sizeof c->given / sizeof *c->given; i++) c->given[i] = ~(uint64_t)0;
}

/* ----- files ----- */

typedef struct reading {
    gf_config *config;
    const char *path;
} reading;

static glofnd_status take_line(gf_error *err, void *user, char *line, int number) {
    const reading *r = user;
    char *text = gf_text_trim(line);
    if (!*text || *text == '#' || *text == ';') return GLOFND_OK;
    char *equals = strchr(text, '=');
    FAIL_IF(err, !equals, GLOFND_E_FORMAT, "%s:%d: \"%.40s\" is not key = value", r->path, number, text);
    *equals = 0;
    gf_error inner = {{0}};
    const char *value = gf_text_trim(equals + 1);
    const glofnd_status status = gf_config_set(&inner, r->config, gf_text_trim(text), value);
    if (status != GLOFND_OK)
        gf_fail(err, status, "%s:%d: %s%s", r->path, number, inner.text,
                strpbrk(value, "#;") ? "; comments need a line of their own" : "");
    return status;
}

glofnd_status gf_config_read(gf_error *err, gf_config *c, const char *path) {
    reading r = {c, path};
    return gf_each_line(err, path, take_line, &r);
}

glofnd_status gf_config_write(gf_error *err, const gf_config *c, const char *path) {
    gf_writer w;
    const char *group = "";
    int in_method;
    TRY(gf_writer_open(err, &w, path));
    for (int i = 0;; i++) {
        const gf_option *o = gf_config_option(i, &in_method);
        char value[1100], line[1400];
        if (!gf_config_value(c, i, value, sizeof value)) break;
        if (strcmp(group, o->group) != 0) {
            const int n = snprintf(line, sizeof line, "%s# %s\n", *group ? "\n" : "", o->group);
            group = o->group;
            gf_put(&w, line, (size_t)n);
        }
        const int n = snprintf(line, sizeof line, "%s = %s\n", o->key, value);
        gf_put(&w, line, (size_t)n);
    }
    return gf_writer_finish(&w);
}

/* ----- defaults of a new run ----- */

/* Where task clip differs from the option tables: the paper's image-text experiments, open_clip's views. */
static const struct {
    const char *key, *value;
} clip_defaults[] = {
    {"epochs", "37"},
    {"tau", "0.07"},
    {"gamma_schedule", "cosine"},
    {"optimizer", "adamw"},
    {"lr", "1e-3"},
    {"lr_scaling", "none"},
    {"weight_decay", "0.1"},
    {"pixels", "clip"},
    {"crop_min", "0.9"},
    {"jitter_p", "0"},
    {"gray_p", "0"},
    {"blur_p", "0"},
    {"flip_p", "0"},
    {"crop_filter", "bicubic"},
    {"eval_view", "clip"},
};
enum { CLIP_DEFAULTS = sizeof clip_defaults / sizeof *clip_defaults };

const char *gf_config_preset(const gf_option *o, gf_train_task task) {
    for (int i = 0; i < CLIP_DEFAULTS && task == GF_TASK_CLIP; i++)
        if (strcmp(clip_defaults[i].key, o->key) == 0) return clip_defaults[i].value;
    return o->preset;
}

/* ----- what a configuration means ----- */

glofnd_status gf_config_resolve(gf_error *err, gf_config *c) {
    char why[sizeof err->text];
    /* Keys that were not given take the defaults of a new run. */
    for (int i = 0; i < CLIP_DEFAULTS && c->task == GF_TASK_CLIP; i++)
        if (!is_given(c, clip_defaults[i].key)) TRY(gf_config_set(err, c, clip_defaults[i].key, clip_defaults[i].value));
    /* Shares of the epochs become epochs. That of warmup_steps waits for the number of steps: gf_config_share_steps. */
    int32_t *const epochs[GF_SHARES] = {
        [GF_SHARE_START] = &c->start_epoch,      [GF_SHARE_WARMUP] = &c->warmup_epochs,
        [GF_SHARE_GAMMA] = &c->gamma_decay,      [GF_SHARE_UPDATE] = &c->method.update_epoch,
        [GF_SHARE_MASK] = &c->method.mask_epoch, [GF_SHARE_SHARED] = &c->method.lambda_warmup,
    };
    for (int i = 0; i < GF_SHARES; i++) {
        if (!epochs[i] || c->share[i] <= 0.0) continue;
        *epochs[i] = (int32_t)part_of(c->share[i], c->epochs);
        c->share[i] = 0.0;
    }
    FAIL_IF(err, !*c->data, GLOFND_E_OPTION, "data: it is empty; give the SPEC of the images, for example --data shapes:n=4096");
    FAIL_IF(err, c->grad_clip > 0.0 && c->optimizer == GF_OPTIMIZER_LARS, GLOFND_E_OPTION,
            "grad_clip: lars scales the step of every tensor; take adamw or sgd, or leave it 0");
    const glofnd_pairing pairing = c->task == GF_TASK_CLIP ? GLOFND_PAIRING_IMAGE_TEXT : GLOFND_PAIRING_VIEWS;
    FAIL_IF(err, c->pairing_set && c->method.pairing != pairing, GLOFND_E_OPTION,
            "task: %s, but loss or pairing ask for %s; for images with captions set task = clip, else task = views",
            c->task == GF_TASK_CLIP ? "clip" : "views", c->task == GF_TASK_CLIP ? "two views" : "image and text");
    c->method.pairing = pairing;
    if (c->task == GF_TASK_CLIP) {
        FAIL_IF(err, gf_config_supports(c), GLOFND_E_OPTION, "fnc_support: support views are for task views; leave it 0");
        FAIL_IF(err, c->micro_batch > 0 && c->batch % c->micro_batch != 0, GLOFND_E_OPTION,
                "micro_batch: %lld does not divide the batch of %lld", (long long)c->micro_batch, (long long)c->batch);
        FAIL_IF(err, c->text_width % c->text_heads != 0, GLOFND_E_OPTION, "text_heads: %d do not divide text_width %d",
                (int)c->text_heads, (int)c->text_width);
        if (c->arch == GF_ARCH_VIT) {
            if (c->image_width == 0) c->image_width = 768;
            if (c->image_layers == 0) c->image_layers = 12;
            if (c->image_heads == 0) c->image_heads = 12;
            if (c->patch == 0) c->patch = 32;
            FAIL_IF(err, c->image_width % c->image_heads != 0, GLOFND_E_OPTION, "image_heads: %d do not divide image_width %d",
                    (int)c->image_heads, (int)c->image_width);
        }
    } else {
        FAIL_IF(err, c->method.loss == GLOFND_LOSS_FASTCLIP, GLOFND_E_OPTION,
                "loss: fastclip learns a temperature, which is for images with captions: set task = clip, or another loss");
        FAIL_IF(err, c->arch > GF_ARCH_RESNET50, GLOFND_E_OPTION, "arch: clip-resnet50 and vit are for task clip");
        FAIL_IF(err, c->micro_batch > 0, GLOFND_E_OPTION, "micro_batch: it is for task clip; leave it 0");
        FAIL_IF(err, c->lock != GF_LOCK_NONE, GLOFND_E_OPTION, "lock: it is for task clip; leave it none");
    }
    FAIL_IF(err, c->size > 0 && c->size < 8, GLOFND_E_OPTION, "size: %d is too small; expected at least 8, or 0", (int)c->size);
    FAIL_IF(err, c->store == GF_STORE_FILE && c->method.device == GLOFND_DEVICE_CUDA, GLOFND_E_OPTION,
            "store: a GPU keeps the state of the anchors in its own memory; use store = memory, or device = cpu");
    /* Groups come from one source: equal contents, a file, or k-means. */
    const int guided = gf_flags_by_guide(&c->method);
    FAIL_IF(
        err, guided && (!*c->guide || !*c->guide_thresholds), GLOFND_E_OPTION,
        "detector: %s needs a guide: set guide to an .npy file of embeddings and guide_thresholds to one of thresholds, a row "
        "per sample",
        c->method.detector == GLOFND_DETECT_FIXED ? "fixed" : "fixed-mutual");
    FAIL_IF(err, !guided && (*c->guide || *c->guide_thresholds), GLOFND_E_OPTION,
            "%s: it is for detector = fixed or fixed-mutual; set one of them, or leave %s empty",
            *c->guide ? "guide" : "guide_thresholds", *c->guide ? "guide" : "guide_thresholds");
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
    if (gf_config_clusters(c)) TRY(gf_config_group_counts(err, c, counts, &levels));
    int32_t epoch[GF_KEPT_EPOCHS];
    int count;
    TRY(gf_config_kept_epochs(err, c, epoch, &count));
    if (c->eval_view == GF_EVAL_AUTO) c->eval_view = c->task == GF_TASK_CLIP && *c->init ? GF_EVAL_CLIP : GF_EVAL_CENTER;
    if (c->warmup_epochs < 0) c->warmup_epochs = c->epochs / 20;
    FAIL_IF(err, c->warmup_epochs >= c->epochs, GLOFND_E_OPTION, "warmup_epochs: %d is not below epochs, which is %d",
            (int)c->warmup_epochs, (int)c->epochs);
    /* Temperature schedules. */
    const double tau = c->method.tau;
    if (c->scale_lr < 0.0 && c->method.loss == GLOFND_LOSS_FASTCLIP) c->scale_lr = 2e-4;
    if (c->gamma_decay < 0) c->gamma_decay = c->epochs / 2;
    FAIL_IF(err, gf_config_learns_tau(c) && (tau > 1.0 || 1.0 / tau > c->scale_max * (1.0 + 1e-12)), GLOFND_E_OPTION,
            "tau: %g is outside of the range that is learned, 1 to 1/scale_max = %g; change one of them", tau,
            1.0 / c->scale_max);
    if (c->start_epoch < 0) c->start_epoch = (int32_t)((int64_t)c->epochs * 35 / 100);
    if (!c->update_set) c->method.update_epoch = c->start_epoch;
    if (!c->mask_set) c->method.mask_epoch = GF_MAX(c->start_epoch, c->method.update_epoch);
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
    const int of_pairs = loss == GLOFND_LOSS_SIMCLR || loss == GLOFND_LOSS_FASTCLIP;
    return c->scale_lr != 0.0 && (loss == GLOFND_LOSS_SIGMOID || (of_pairs && c->task == GF_TASK_CLIP));
}

int gf_config_learns_bias(const gf_config *c) { return c->method.loss == GLOFND_LOSS_SIGMOID && gf_config_learns_tau(c); }

int gf_config_individual_tau(const gf_config *c) { return c->method.loss == GLOFND_LOSS_ISOGCLR; }

int gf_config_learns_lambda(const gf_config *c) { return gf_learns_thresholds(&c->method); }

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
