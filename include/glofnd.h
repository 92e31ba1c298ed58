/* glofnd.h - global false-negative discovery for contrastive learning.
 *
 * Contrastive losses treat every other sample of a batch as a negative, also those that mean the same thing. GloFND learns, for
 * every sample i of a dataset, a threshold lambda_i: the (1-alpha) quantile of its similarities to the whole dataset, from
 * mini-batches alone and with five numbers of state per sample. A pair above the threshold is a false negative; it can be
 * dropped from the loss, attracted, or given less weight.
 *
 * FOUR WAYS TO USE IT
 *   step      you have embeddings: glofnd_step() returns the loss, the gradient of every embedding, and updates all state
 *   detect    you have similarities: glofnd_detect_update() learns lambda from them, glofnd_detect_mask() marks the pairs to keep
 *   anchors   the state of single anchors, in and out: glofnd_anchors_get(), glofnd_anchors_put()
 *   discover  you have finished embeddings of all samples: see glofnd_discover.h
 *
 * A MINIMAL LOOP (a complete one is examples/02_step.c)
 *     glofnd_options *o;  glofnd_options_create(&o);                        // SogCLR + GloFND, alpha 0.01, tau 0.1
 *                         glofnd_options_set(o, "alpha", "0.02", why, sizeof why);
 *     glofnd_ctx     *c;  glofnd_ctx_create(o, &c, why, sizeof why);        // workspace, threads, last error
 *     glofnd_store   *s;  glofnd_store_create(c, &(glofnd_store_spec){sizeof(glofnd_store_spec), n, dim}, &s);
 *     for each batch:     glofnd_step(c, s, &batch, grad_a, grad_b, &stats);
 *
 * CONTRACT
 *   Status     Every call that can fail returns a glofnd_status; GLOFND_OK is 0. glofnd_ctx_error() gives the text of the last
 *              failure: what, where, what to do. Calls without a context write it to `why` (may be NULL). The library never
 *              prints, exits, or reads environment or network by itself (the OpenMP runtime below it does honour OMP_*).
 *   Ownership  Pointers in arguments are borrowed for the call only. *_free releases what *_create or *_load returned, and
 *              accepts NULL. Free a store before the context it was made with.
 *   Errors     A failed call leaves the store exactly as it was. Outputs (gradients, stats, links) are then undefined.
 *   Threads    No global mutable state. One thread at a time per context; a store may be read by many, written by one. A step
 *              with GLOFND_WANT_NO_UPDATE only reads it.
 *   Memory     After glofnd_ctx_reserve() a step within those sizes allocates nothing. Workspace is O((rows + cols) * dim), with
 *              a list of at most 4 KB per row where lambda is learned and at most 16 MB of tiles (64 MB from 256 dimensions on);
 *              never O(rows * cols).
 *   Same bits  Same build, CPU kind, options and inputs give the same bits, for any number of threads.
 *   Numbers    Embeddings are rows of float32, bfloat16 or float16 numbers (`dtype`), a stride apart that may exceed their
 *              length. Every type is converted to float32 without loss, so equal numbers give equal bits whatever their type.
 *              Gradients are made in float32, then rounded to `grad_dtype`, to nearest, ties to even. State is float32, scalar
 *              arithmetic float64. With the option `normalize` a row is divided by its length, or by 1e-12 if it is shorter, as
 *              by PyTorch's F.normalize: a row of zeros (all its units dead) has similarity 0 to all others, a finite loss, and
 *              a gradient 1e12 times as large as a row of length 1 would have: clip it, or leave the sample out.
 *   Ranks      The library does not communicate, and glofnd_step() is for one process. Training over several has calls of its own
 *              (glofnd_experimental.h), between which the caller gathers; up to rounding the result does not depend on their
 *              number.
 *   Device     A context is made for the CPU or for one GPU (option `device`). With CUDA every pointer in glofnd_batch, every
 *              gradient, every array of links and the arrays of glofnd_exact_thresholds() are device memory; options, the structs
 *              themselves, stats, and the calls on anchors are host memory. Calls queue their work on the stream of
 *              glofnd_ctx_stream(). A step whose `stats` is NULL waits for nothing, takes no memory after glofnd_ctx_reserve(),
 *              and can be captured into a CUDA graph; failures that only the device sees (numbers that are not finite, ids) are
 *              reported by glofnd_ctx_stats(). Calls that inspect a store or write it wait for the stream of its last step,
 *              never for the whole device: that stream must still exist, and the caller waits for graphs launched on others.
 *   Stability  This header and glofnd_discover.h are stable: from 1.0 on their symbols (version GLOFND_1.0), field offsets,
 *              constants, option keys and meanings stay as they are. glofnd_experimental.h is not: define GLOFND_EXPERIMENTAL
 *              before including this header. Its calls, and options whose help text says "experimental", may change in every
 *              minor version.
 *   Growth     Structs that begin with `size` grow at their end, and every call checks it: set it to sizeof, also in structs that
 *              the library fills. Members that an older program does not pass are 0, and 0 always means the default. A newer
 *              program may pass a longer struct as long as what this library does not know is 0, else the call is E_ARGUMENT;
 *              of a longer struct to fill, the rest becomes 0. Status values, constants and file formats are never reused; a
 *              newer library reads every older file.
 *
 * Everything here is usable from C++.
 */
#ifndef GLOFND_H
#define GLOFND_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(GLOFND_STATIC)
#define GLOFND_API
#elif defined(__GNUC__)
#define GLOFND_API __attribute__((visibility("default")))
#else
#define GLOFND_API
#endif

/* ===== 1. Version and status ==================================================================================== */

#define GLOFND_VERSION_MAJOR 1
#define GLOFND_VERSION_MINOR 0
#define GLOFND_VERSION_PATCH 0
#define GLOFND_VERSION_NUMBER (GLOFND_VERSION_MAJOR * 10000 + GLOFND_VERSION_MINOR * 100 + GLOFND_VERSION_PATCH)

/* Version number of the running library, to compare with the macro of the header. */
GLOFND_API int glofnd_version_number(void);
/* One line: version, commit, compiler, backends compiled in, the instruction set chosen on this CPU. Static, never NULL. */
GLOFND_API const char *glofnd_build_info(void);

/* Values are pinned for ever; new ones may be added. */
#define GLOFND_STATUS_LIST(X)                               \
    X(OK, 0, "success")                                     \
    X(E_ARGUMENT, 10, "invalid argument")                   \
    X(E_OPTION, 11, "unknown option or value out of range") \
    X(E_INDEX, 12, "anchor id out of range or repeated")    \
    X(E_NUMERIC, 20, "non-finite value")                    \
    X(E_MEMORY, 30, "out of memory")                        \
    X(E_DEVICE, 31, "accelerator call failed")              \
    X(E_UNSUPPORTED, 32, "combination not supported")       \
    X(E_IO, 40, "file cannot be read or written")           \
    X(E_FORMAT, 41, "corrupt or foreign file")              \
    X(E_CANCELLED, 50, "cancelled by the caller")

typedef enum glofnd_status {
#define GLOFND_X(name, value, text) GLOFND_##name = value,
    GLOFND_STATUS_LIST(GLOFND_X)
#undef GLOFND_X
        GLOFND_STATUS_MAX_ = 255 /* no status: keeps the enum wide enough for later ones */
} glofnd_status;

/* Short text of a status: "invalid argument". Static, never NULL, also for values this version does not know. */
GLOFND_API const char *glofnd_status_text(glofnd_status status);
/* Name of a status: "GLOFND_E_ARGUMENT", or "GLOFND_E_UNKNOWN". Static, never NULL. */
GLOFND_API const char *glofnd_status_name(glofnd_status status);

/* ===== 2. Options =============================================================================================== */

/* The device that runs the steps. */
typedef int32_t glofnd_device;
enum { GLOFND_DEVICE_CPU = 0, GLOFND_DEVICE_CUDA = 1 };

/* The element type of an array of the caller. */
typedef int32_t glofnd_dtype;
enum { GLOFND_F32 = 0, GLOFND_BF16 = 1, GLOFND_F16 = 2 };

typedef struct glofnd_options glofnd_options; /* every setting of the method, by key */

/* All keys with their values, ranges and defaults: glofnd_options_describe(), or `glofnd help method`. The detectors `groups`
 * and `components` are the same to a step: pairs of one batch.group are flagged. They are two so that the program's one table of
 * options can tell that it is to make WCL's groups from every batch itself. */

/* All options at their defaults. E_MEMORY, or E_ARGUMENT if out is NULL. */
GLOFND_API glofnd_status glofnd_options_create(glofnd_options **out);
GLOFND_API glofnd_status glofnd_options_copy(const glofnd_options *o, glofnd_options **out);
GLOFND_API void glofnd_options_free(glofnd_options *o);
/* Sets one option by key and text, as in a config file: ("alpha", "0.01"), ("detector", "glofnd"). On failure `why` (may be NULL)
 * names the key, the allowed range and the nearest known key, and *o is unchanged. */
GLOFND_API glofnd_status glofnd_options_set(glofnd_options *o, const char *key, const char *value, char *why, size_t why_bytes);
/* The same for an option that is a number. */
GLOFND_API glofnd_status glofnd_options_set_number(glofnd_options *o, const char *key, double value, char *why, size_t why_bytes);
/* Writes one option as the text that glofnd_options_set() reads back to the same bits. E_OPTION: unknown key. E_ARGUMENT: `value`
 * is too small. 32 bytes are enough for every option. */
GLOFND_API glofnd_status glofnd_options_get(const glofnd_options *o, const char *key, char *value, size_t value_bytes, char *why,
                                            size_t why_bytes);
/* Checks the combinations of options; `why` as above. glofnd_ctx_create() does the same. */
GLOFND_API glofnd_status glofnd_options_check(const glofnd_options *o, char *why, size_t why_bytes);
/* The table of options, for help texts: i = 0, 1, ... until it returns 0. Strings are static; `range` is written to the caller's
 * buffer. Any output may be NULL. */
GLOFND_API int glofnd_options_describe(int i, const char **key, const char **help, char *range, size_t range_bytes);

/* ===== 3. Context =============================================================================================== */

typedef struct glofnd_ctx glofnd_ctx; /* options, threads, workspace, last error */

/* Checks that this library, on this machine, can run on `device`: E_UNSUPPORTED if it was built without it, E_DEVICE if there is
 * none or it does not work. `why` (may be NULL) gets the reason. */
GLOFND_API glofnd_status glofnd_device_check(glofnd_device device, char *why, size_t why_bytes);
/* On failure *out is NULL and `why` (may be NULL) gets the reason: the option or the device that is wrong. CUDA: the device that
 * is current in the calling thread. */
GLOFND_API glofnd_status glofnd_ctx_create(const glofnd_options *o, glofnd_ctx **out, char *why, size_t why_bytes);
GLOFND_API void glofnd_ctx_free(glofnd_ctx *c);
/* New options between two steps (a schedule; a different detector), for the same device. The workspace is kept. */
GLOFND_API glofnd_status glofnd_ctx_configure(glofnd_ctx *c, const glofnd_options *o);
/* Allocates the workspace for steps of up to `rows` own samples against `cols` samples of the whole batch; in one process both
 * are its size. *bytes (may be NULL) gets the size of the workspace. Optional: a step that needs more allocates it. */
GLOFND_API glofnd_status glofnd_ctx_reserve(glofnd_ctx *c, int64_t rows, int64_t cols, int64_t dim, size_t *bytes);
/* CUDA: the cudaStream_t (borrowed, as void *) that the work is queued on; NULL: the default stream, which is also what a new
 * context has. Work queued before is not waited for. On the CPU: E_UNSUPPORTED. */
GLOFND_API glofnd_status glofnd_ctx_stream(glofnd_ctx *c, void *cuda_stream);
/* Text of the last failure on c, valid until the next call on c; "" if there was none. */
GLOFND_API const char *glofnd_ctx_error(const glofnd_ctx *c);

/* ===== 4. Anchor store ========================================================================================== */

typedef struct glofnd_store glofnd_store; /* state of n anchors, one or two modalities; the ring; the shared lambda */

/* The rest follows from the options of the context that makes the store: the modalities and individual temperatures from `loss`,
 * the ring from `learner` and `ring_rows`. A step checks that the store fits its options. */
typedef struct glofnd_store_spec {
    size_t size;      /* sizeof(glofnd_store_spec) */
    int64_t n;        /* anchors: ids are 0 .. n-1 (but see keyed) */
    int64_t dim;      /* length of an embedding. The learner RING needs it; 0 will do for all others */
    const char *path; /* NULL: in memory. Else a file to map, made if missing; it is sparse: all-zero bytes mean never seen, and
                         only pages that were touched take space. It is a working file, without the ring: to keep the state,
                         save it. CUDA: NULL; state lies in device memory or, where that is too small, in pinned host memory.
                         Files saved on one device load on every other. */
    int32_t keyed;    /* 1: ids are keys, any int64 (a hash of a text): the store grows with the keys that come. n: keys to make
                         room for at first, or 0. See glofnd_store_reserve() */
    int32_t reserved; /* 0 */
} glofnd_store_spec;

typedef struct glofnd_store_info { /* filled by glofnd_store_describe(). */
    size_t size;                   /* set by the caller: sizeof(glofnd_store_info) */
    int64_t n;
    int32_t modalities;   /* 1: two views of one image. 2: image and text */
    int32_t temperatures; /* 1: with individual temperatures (ISOGCLR) */
    int64_t ring_rows;    /* capacity of the ring; 0: none */
    int64_t ring_dim;     /* length of its embeddings; 0: none */
    int64_t ring_count;   /* embeddings that the ring holds now */
    int64_t touched_rows; /* anchors in blocks that were ever written: an upper bound of the anchors seen */
    size_t row_bytes;     /* state of one anchor, all modalities */
    size_t bytes;         /* address space of the anchor state */
    int64_t keys;  /* a store of keys: keys that have a row. On a GPU also those of steps that failed, which have no state */
    int32_t keyed; /* 1: a store of keys; n is then the keys that it has room for */
    int32_t reserved;
} glofnd_store_info;

GLOFND_API glofnd_status glofnd_store_create(glofnd_ctx *c, const glofnd_store_spec *spec, glofnd_store **out);
GLOFND_API void glofnd_store_free(glofnd_store *s);
/* Writes a new file that replaces `path` only when complete: magic, version, sizes, checksums per block. Cost: touched blocks. */
GLOFND_API glofnd_status glofnd_store_save(glofnd_ctx *c, const glofnd_store *s, const char *path);
/* The store is what the file holds, whatever the options. Everything is checked before *out is set. `map_path` as spec.path (its
 * old content is discarded), or NULL for memory. */
GLOFND_API glofnd_status glofnd_store_load(glofnd_ctx *c, const char *path, const char *map_path, glofnd_store **out);
GLOFND_API glofnd_status glofnd_store_describe(const glofnd_store *s, glofnd_store_info *info);

/* A store of keys: ids of every call are keys. A key that a step or glofnd_anchors_put() sees first gets the next row; where rows
 * run out, that call doubles their number, which allocates (disk space for a working file): E_MEMORY or E_IO change nothing. A key
 * without a row reads as never seen. Results do not depend on the order of keys, and equal states save to equal files, whatever
 * the order they came in. Costs on the CPU, in addition to the state: 8 bytes for the key, and 11 to 23 bytes in a table; a table of a working file
 * is an unnamed file next to it, made anew from the keys whenever the store is opened. Not for: own.slot, option neighbours. */

/* Makes room for `keys` keys in all: no step allocates before there are more of them; on a GPU, before fewer than a batch of places
 * are left. E_ARGUMENT for a store of positions. CUDA: waits; needed before a step is captured into a graph, since a store in a
 * graph cannot grow: E_MEMORY then. */
GLOFND_API glofnd_status glofnd_store_reserve(glofnd_ctx *c, glofnd_store *s, int64_t keys);
/* keys [capacity]: the keys of all anchors that have state, ascending; NULL: only *count = how many there are. */
GLOFND_API glofnd_status glofnd_store_keys(glofnd_ctx *c, const glofnd_store *s, int64_t *keys, int64_t capacity, int64_t *count);

/* State of one anchor on one side, as the store holds it: what get returns, put restores. An anchor never seen reads
 * {1, 0, 0, -inf, 0, tau 0 ...}; while its clock is 0 it follows the shared lambda, if one was learned. put refuses a row that no
 * step can continue from: numbers that are not finite, lambda outside [-1, 1] or other than 1 with clock 0, tau other than 0 or
 * in [0.001, 100]; so a row that compat OFFICIAL left with u NaN cannot be put. Rows come in arrays, so this struct never
 * grows. */
typedef struct glofnd_anchor {
    float lambda, m, v;      /* threshold; moments of its gradient */
    float log_u;             /* log of the moving average u; -inf: none yet */
    uint32_t clock;          /* visits by the learner; 0: lambda is still the initial one */
    float tau, tau_m, tau_v; /* individual temperature and its moments; tau 0: still the initial one. A store without
                                   temperatures does not keep them */
    uint32_t tau_clock;
} glofnd_anchor;

#define GLOFND_SHARED \
    (-1) /* as an id: the one lambda of SINGLE and lambda_warmup. In a store of keys -1 is a key, and id NULL
                              with n = 1 is that row */

/* side: 0 (the only one of one modality; image) or 1 (text). ids may repeat in get, not in put. With n = 0 there is nothing to
 * do, and id and rows may be NULL. */
GLOFND_API glofnd_status glofnd_anchors_get(glofnd_ctx *c, const glofnd_store *s, int side, const int64_t *id, int64_t n,
                                            glofnd_anchor *rows);
GLOFND_API glofnd_status glofnd_anchors_put(glofnd_ctx *c, glofnd_store *s, int side, const int64_t *id, int64_t n,
                                            const glofnd_anchor *rows);

/* ===== 5. Detect: thresholds from similarities ================================================================== */

typedef struct glofnd_sims {
    size_t size; /* sizeof(glofnd_sims). */
    int64_t rows, cols;
    const float *sim;         /* [views][rows][cols] similarities in [-1, 1], without temperature */
    const uint8_t *negative;  /* [rows][cols] 1 = a negative pair; NULL: all but column i of row i */
    const int64_t *id;        /* [rows] anchor ids, all different */
    const int32_t *row_group; /* [rows], [cols]: labels or groups, needed by ORACLE and GROUPS; else NULL */
    const int32_t *col_group;
    int32_t views;    /* 1, or 2 similarity rows per anchor that share its lambda */
    int32_t side;     /* modality of the rows: 0 or 1 */
    int32_t epoch;    /* from 0 */
    int32_t reserved; /* 0 */
} glofnd_sims;

/* One update of lambda for the anchors of q. Does nothing before update_epoch, or with a detector that learns nothing. The
 * learner RING needs embeddings: E_UNSUPPORTED. CUDA: the arrays of q lie on the device and are copied to the host, so this call
 * waits, as glofnd_detect_mask() does; steps do not. */
GLOFND_API glofnd_status glofnd_detect_update(glofnd_ctx *c, glofnd_store *s, const glofnd_sims *q);
/* keep [views][rows][cols]: 1 = a negative to keep. kept [views][rows] (may be NULL): their number. From mask_epoch on; before,
 * all negatives are kept. A row whose negatives are all flagged keeps its least similar one (compat OFFICIAL: none). */
GLOFND_API glofnd_status glofnd_detect_mask(glofnd_ctx *c, const glofnd_store *s, const glofnd_sims *q, uint8_t *keep,
                                            int32_t *kept);

typedef struct glofnd_query { /* embeddings against embeddings. */
    size_t size;              /* sizeof(glofnd_query) */
    int64_t rows, cols, dim;
    const void *q;              /* [rows][q_stride], of which the first dim count */
    const void *k;              /* [cols][k_stride] */
    const int64_t *skip;        /* [rows] the row of k that does not count, or -1; NULL: all count */
    int64_t q_stride, k_stride; /* numbers from row to row; 0: dim */
    double alpha;               /* in (0, 1) */
    glofnd_dtype dtype;         /* of q and k */
    int32_t reserved;           /* 0 */
} glofnd_query;

/* Exact thresholds: out[i] = the ceil(alpha m)-th largest similarity of row i of q to the m rows of k other than skip[i]. Rows
 * are normalised if the option `normalize` is set. Memory: copies of q and k, and lists of some alpha m values for 32 rows per
 * thread; never rows x cols. */
GLOFND_API glofnd_status glofnd_exact_thresholds(glofnd_ctx *c, const glofnd_query *x, float *out);

/* ===== 6. Step: loss, gradients and state from embeddings ======================================================= */

enum {                           /* bits of glofnd_batch.want */
       GLOFND_WANT_QUALITY = 1,  /* stats: precision, recall, same, hits; needs labels */
       GLOFND_WANT_QUANTILE = 2, /* stats: quantile_mean; one more product */
       GLOFND_WANT_NO_UPDATE = 4 /* loss, gradients and stats of the step, but the store stays as it is: evaluation, finite
                                       differences, the first of two forward passes. */
};

/* One batch: n samples, two embeddings each. Set what you use, by name; the rest is 0. */
typedef struct glofnd_batch {
    size_t size;                /* sizeof(glofnd_batch) */
    int64_t n;                  /* samples, 2 or more */
    int64_t dim;                /* length of an embedding */
    const void *a, *b;          /* [n] rows of dim numbers, a_stride and b_stride apart: the two views; or image and text */
    const int64_t *id;          /* [n] anchor ids, all different, unless option `repeats`; of a store of keys any numbers */
    const int32_t *label;       /* [n] or NULL: ORACLE, WANT_QUALITY; negative: unknown, equal to no other */
    const int32_t *group;       /* [n] or NULL: GROUPS, or pairs to flag in addition; may repeat; negative: in no group */
    int64_t a_stride, b_stride; /* numbers from row to row of a and b; 0: dim */
    int64_t grad_a_stride, grad_b_stride;   /* the same of the gradients */
    glofnd_dtype dtype;                     /* of a and b */
    glofnd_dtype grad_dtype;                /* of the gradients: GLOFND_F32, or dtype */
    int32_t epoch;                          /* from 0 */
    uint32_t want;                          /* GLOFND_WANT_* */
    double tau, gamma;                      /* of this step; 0: as in the options */
    const struct glofnd_batch_extra *extra; /* NULL. What experimental options need: see glofnd_experimental.h */
    /* Candidates beyond the batch: embeddings that are negatives only, e.g. the hard negatives of a text trainer, a queue, or a
     * cross-batch memory. They count like the other negatives: in the loss, in thresholds, quantiles and statistics. They have no
     * anchor, no state, no label and no group. A row of n samples then has (n-1) + M negatives, with two views 2 (n-1) + M.
     * Image and text: negatives_a [negatives_a_n] are further images, negatives of the rows of b; negatives_b are further texts,
     * negatives of the rows of a. Two views: negatives_a are negatives of all rows, and negatives_b is NULL.
     * Several ranks: candidates are negatives of the own rows only, and so are their gradients: ranks that pass the same
     * candidates add the gradients up. Not with compat OFFICIAL, similarity BANK, fnc_rule TOPK and THRESHOLD: E_UNSUPPORTED.
     * glofnd_ctx_reserve() does not know them: the first step with that many may allocate. */
    const void *negatives_a, *negatives_b;          /* rows of dim numbers of dtype; NULL: none */
    int64_t negatives_a_n, negatives_b_n;           /* their number, 2^24 at most */
    int64_t negatives_a_stride, negatives_b_stride; /* numbers from row to row; 0: dim */
    const int64_t *negatives_a_id, *negatives_b_id; /* NULL, or what each is an embedding of: a candidate is no negative of the
                                                          anchor with its id. Negative: unknown, no anchor's (of a store
                                                          of keys any number is an id) */
    void *grad_negatives_a, *grad_negatives_b;      /* out, NULL: not wanted. Rows of dim numbers of grad_dtype, overwritten */
    double bias;                                    /* of this step, for loss sigmoid; 0: as in the options. For a
                                                       bias of exactly 0, set the option to 0 */
    /* Several positives: samples of one number >= 0 are positives of each other. Negative: of their own other embedding alone.
     * The k positives of a row count 1/k each where its similarity to them is maximised, and none is a negative: detector,
     * thresholds and statistics know the other pairs alone. A candidate with the id of a sample is no negative of that sample's
     * positives. `group` in contrast names pairs that are flagged. Not with compat OFFICIAL, similarity BANK, fnc_rule TOPK and
     * THRESHOLD: E_UNSUPPORTED. */
    const int32_t *positives; /* [n] or NULL */
    /* Detectors FIXED and FIXED_MUTUAL: a guide that stands still says which pairs are flagged. Of every sample of the batch its
     * embedding in the guide, which need not be as long as dim, and its threshold, e.g. those of glofnd_discover(). Rows are divided
     * by their length. A threshold of NaN flags nothing. Candidates have no guide, and are never flagged. */
    const float *guide, *guide_threshold; /* [n][guide_dim], [n] */
    int64_t guide_dim;
} glofnd_batch;

typedef struct glofnd_stats {
    size_t size;           /* set by the caller: sizeof(glofnd_stats). */
    double loss;           /* compat PAPER: the objective. OFFICIAL: the value the authors' code prints */
    double grad_tau;       /* d loss / d tau, for the losses with one temperature to learn: fastclip, sigmoid; image-text: simclr,
                              and sogclr under compat official. Else 0 */
    double grad_scale;     /* the same per 1/tau, "logit scale": grad_tau = -grad_scale / tau^2 */
    double kept_share;     /* kept / negatives, as used by the loss: mean over the anchors */
    double detector_share; /* kept / negatives the detector would produce, also before mask_epoch */
    double lambda_mean;    /* after the update; mean over anchors and sides */
    double quantile_mean;  /* WANT_QUANTILE, from update_epoch on: mean (1-alpha) quantile of the rows; else NaN */
    double log_u_mean, tau_mean;
    double precision, recall; /* WANT_QUALITY, from mask_epoch on: hits / flagged, hits / same; NaN where that is 0/0; else NaN */
    int64_t pairs, flagged;   /* negatives of all anchors; those flagged (by the loss) */
    int64_t same, hits; /* WANT_QUALITY: negatives of the anchor's label; of these, flagged. Counts add up over steps and ranks,
                                 and precision and recall of a sum are the ratios above */
    int64_t rescued;    /* rows whose negatives were all flagged: their least similar one was kept. Loss sigmoid: none */
    double f1;          /* 2 precision recall / (precision + recall) = 2 hits / (flagged + same); NaN as they are */
    double precision_per_anchor, recall_per_anchor; /* as the paper counts: means over the anchors with 0/0 = 1, so that an anchor
                                                       without flagged pairs counts 1 */
    double grad_bias;                               /* d loss / d bias, for loss sigmoid; else 0 */
} glofnd_stats;

/* In this order: similarities, lambda, flags with the new lambda, loss with u, gradients, new state.
 * grad_a, grad_b: [n] rows of dim numbers of grad_dtype, overwritten; numbers between them are left alone. `stats` may be
 * NULL. Non-finite embeddings: E_NUMERIC names the first bad row. In a captured CUDA graph, options, epoch, want, tau, gamma and
 * all pointers are those of the capture: capture again when they change. Labels are read for quality only if WANT_QUALITY is set. */
GLOFND_API glofnd_status glofnd_step(glofnd_ctx *c, glofnd_store *s, const glofnd_batch *q, void *grad_a, void *grad_b,
                                     glofnd_stats *stats);
/* The stats of the last step on c that was queued with stats NULL, or replayed in a graph; waits for it. If a step since the last
 * such call failed (E_NUMERIC, E_INDEX, E_ARGUMENT), this returns its status and text; neither that step nor those queued after
 * it have then changed the store. On the CPU: the stats of the last step. E_ARGUMENT if there was no step on c yet. */
GLOFND_API glofnd_status glofnd_ctx_stats(glofnd_ctx *c, glofnd_stats *stats);

/* ===== 7. Experimental ========================================================================================== */

#ifdef GLOFND_EXPERIMENTAL
#include "glofnd_experimental.h"
#endif /* GLOFND_EXPERIMENTAL */

#ifdef __cplusplus
}
#endif

#endif /* GLOFND_H */
