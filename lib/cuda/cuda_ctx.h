/* cuda_ctx.h - what lives on the device: the context of a caller (stream, workspace, the control block that the kernels of a step share), and
 * the state of the anchors. */
#pragma once

#include <cuda_runtime_api.h>

#include "cuda/cuda_device.h"
#include "cuda/passes/cuda_pass.h"
#include "device/accel_step.h"
#include "method/formulas/neighbours.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---------- The context ---------- */

#define GF_ROW_FIELDS 13                /* leading fields of gf_totals: sums over the rows of the first half ... */
#define GF_PLAIN_FIELDS 11              /* ... those that a plain step may have: gf_is_plain() */
#define GF_CUDA_FINE INT64_MAX          /* no failure */
#define GF_CUDA_NO_ROOM (INT64_MAX - 1) /* as bad_id: the keys of the batch do not fit into the store */
/* The same for samples that are there several times; plus the position of one. */
#define GF_CUDA_LONELY (INT64_C(1) << 40) /* it has no negative */
#define GF_CUDA_APART (INT64_C(2) << 40)  /* its copies are on several ranks */
#define GF_CUDA_MISFIT (INT64_C(3) << 40) /* its copies have different positives */
#define GF_POOL_FIELDS 4                  /* SHRINKAGE: sums per side over these rows */

/* Thresholds of a guide are as exact as float32, whatever the math of the step. */
GF_HD gf_cuda_math gf_cuda_guide_math(gf_cuda_math math) { return math == GF_CUDA_EXACT ? GF_CUDA_EXACT : GF_CUDA_SPLIT; }

/* In device memory. A step clears at its end what it set; only failures stay, until the host has read them. */
typedef struct gf_cuda_control {
    int64_t bad_embed, bad_support; /* 2 sample + (1 for b) of the first bad row; FIXED has a guide in place of support */
    int64_t bad_id;                 /* 2 position + (1: repeated, 0: out of range) of the first bad id or slot */
    int64_t bad_tau, bad_bias;      /* 0: the temperature, the bias in device memory is out of range */
    int64_t bad_row; /* rows of the caller: 4 position (cols: the shared row) + 2 side + (1: out of range, 0: not finite) */
    int64_t bad_candidate[2];        /* per side: 2 row of the first bad one */
    int32_t starts[2];               /* per side: some anchor takes the batch quantile as its lambda */
    int32_t pool_starts[2];          /* SHRINKAGE, per side: the pool starts in this step */
    int32_t lone_key;                /* key -1, whose place in the table of ids would be that of a free one, is in the batch */
    unsigned done;                   /* finished blocks of the running kernel */
    int64_t seen;                    /* official: anchors that have a u */
    double above[2][2];              /* shared lambda, per side: negatives above it; all negatives */
    double quantile[2][2];           /* shared lambda, per side: sum of the anchors' quantiles; anchors */
    glofnd_anchor shared[2];         /* the shared row before it moves */
    glofnd_anchor pool[2];           /* SHRINKAGE, ranks: the shared row that starts in this step */
    double moves[2][GF_POOL_FIELDS]; /* SHRINKAGE, per side: negatives above lambda; all; squares of gf_pool_square; how many */
    int32_t shared_open[2];          /* it takes a learner step */
    gf_totals sum;
} gf_cuda_control;

typedef struct gf_cuda_side { /* as gf_side of the CPU; device memory */
    gf_cuda_embed z;          /* all rows, unit; then the candidates of this side */
    float *extra_grad;        /* [candidates][ld] */
    gf_cuda_embed support;    /* FNC TOPK, THRESHOLD: the copies of a sample's row lie `all` rows apart */
    gf_cuda_embed bank;       /* BANK */
    float *norm;              /* [all and candidates] */
    double *positive;         /* [all] S of the positive pair */
    gf_cuda_rows own, every;
    float *pos;        /* [all] */
    float *quantile;   /* [own] */
    int32_t *unpaired; /* [own] or NULL, as is: */
    int32_t *key;      /* [all and candidates] rows of one key >= 0 are of one anchor: the position of its first sample */
    gf_others *others; /* [own] several positives */
    double *copy_log_u, *copy_grad_tau; /* [own] of the rows, for the anchors of several samples */
    int64_t *row_id;                    /* [own] */
    glofnd_anchor *fresh;               /* [rows] state of the anchors, with the new lambda */
    uint8_t *starts;                    /* [rows] the anchor takes the batch quantile as its lambda */
    uint8_t *open;                      /* [rows] */
} gf_cuda_side;

typedef struct gf_cuda_near { /* attraction by neighbours, as gf_near of the CPU */
    gf_neighbour *parts;      /* [parts][anchors][up to GF_NEIGHBOURS_MAX]; anchors: the own ones, or all of the batch */
    gf_neighbour *list;       /* [anchors][neighbours] */
    float *pull;              /* [rows][dim] */
    double *dot, *found;      /* [rows] */
} gf_cuda_near;

typedef struct gf_retired {
    struct gf_retired *next;
    char *block;
} gf_retired;

struct gf_device_ctx {
    int device; /* ordinal */
    cudaStream_t stream;
    gf_shape shape; /* the block is laid out for */
    int math;       /* gf_cuda_math it is laid out for */
    char *block;    /* arrays of a step from its beginning, seen_ids at its end */
    size_t bytes;
    int borrowed;                     /* the block is the caller's */
    int captured;                     /* a graph holds a step that uses the block, or one of the retired ones */
    struct gf_retired *retired;       /* blocks that were too small for a later step, freed at the end */
    size_t arrays_bytes, table_bytes; /* largest of both that any layout of this block has taken */
    gf_cuda_control *control;         /* [1] */
    int64_t *seen_ids;                /* [2][2 cols] tables of ids, of slots: 0 free, else id + 1; all free between steps */
    gf_cuda_control *host;            /* pinned copy */
    int32_t *noticed;                 /* [1] pinned; 1: a kernel saw that a step failed */
    gf_cuda_side side[2];
    gf_cuda_near near;
    uint64_t near_key;   /* of the batch whose neighbours are in `near`; 0: there are none */
    gf_cuda_embed guide; /* FIXED: for every row that of its sample */
    float *guide_theta;  /* [all] */
    gf_link *links;      /* [cols][2] for a step of one rank */
    int64_t *places;     /* [rows] of a store of keys: where the own samples are; -1: nowhere */
    /* Samples of one anchor; NULL unless some may be. */
    int32_t *key_table;        /* [2 cols] position + 1 of an anchor's first sample, at a place that its id gives; 0: free */
    int32_t *key_count;        /* [cols][3] by that position: samples of the batch, candidates of each side */
    int32_t *groups;           /* [2 cols] key_table of the groups of positives ... */
    int32_t *next_positive;    /* [cols] ... and the next sample of the same group; -1: none */
    int32_t *copy, *next_copy; /* [rows] repeats: the first and the next own sample of the same anchor; -1: none */
    struct {                   /* components of a batch */
        float *value[2];       /* [all] per side: the largest similarity of a row to one of another sample ... */
        int32_t *column[2];    /* ... and that row; -1: none */
    } nearest;
    void *scratch; /* of selections, or partial sums; shares memory with grad, which is used later */
    size_t scratch_bytes;
    void *weights; /* pass C of wide embeddings; NULL: none */
    size_t weights_bytes;
    double *partial;    /* sums of the blocks of a kernel */
    double *row_totals; /* [GF_ROW_FIELDS][rows of all sides] */
};

glofnd_status gf_cuda_open(gf_error *err, gf_device_ctx **out);
void gf_cuda_close(gf_device_ctx *d);
glofnd_status gf_cuda_stream(gf_error *err, gf_device_ctx *d, void *stream);
glofnd_status gf_cuda_reserve(gf_error *err, gf_device_ctx *d, const gf_shape *shape, size_t *bytes);
glofnd_status gf_cuda_workspace_bytes(gf_error *err, gf_device_ctx *d, const gf_shape *shape, size_t *bytes);
glofnd_status gf_cuda_workspace(gf_error *err, gf_device_ctx *d, void *memory, size_t bytes);
/* Lays the workspace out for a step, growing it if necessary. */
glofnd_status gf_cuda_prepare(gf_error *err, gf_device_ctx *d, const gf_shape *shape, gf_cuda_math math);
glofnd_status gf_cuda_copy(gf_error *err, gf_device_ctx *d, void *to, const void *from, size_t bytes);
glofnd_status gf_cuda_totals(gf_error *err, gf_device_ctx *d, gf_totals *sum);
glofnd_status gf_cuda_loss(gf_error *err, gf_device_ctx *d, const gf_plan *plan, int graded, float *loss, float *grad_tau,
                           float *grad_bias);
/* 1: work queued on the stream becomes part of a graph. */
int gf_cuda_is_capturing(const gf_device_ctx *d);
/* E_ARGUMENT if the current device is not the one the context was made on. */
glofnd_status gf_cuda_check_current(gf_error *err, const gf_device_ctx *d);

/* ---------- The state of the anchors ----------
 *
 * Records are those of method/formulas/record.h, one per anchor, so that a step touches one or two sectors per anchor; all-zero bytes mean
 * never seen.
 */

/* Keys that so many slots of a table take. */
GF_HD int64_t gf_cuda_store_room(int64_t slots) { return slots / 10 * 7; }

typedef struct gf_cuda_shared { /* in device memory */
    gf_record shared[2];
    int64_t ring_head, ring_count;
} gf_cuda_shared;

struct gf_device_store {
    cudaStream_t stream; /* of the context that made it, then of the last step */
    int64_t n;
    int modalities, temperatures;
    size_t record_bytes;
    unsigned char *records; /* [n][record_bytes]: device memory, or pinned and mapped host memory */
    int on_host;
    uint8_t *touched; /* [blocks] */
    /* Keys: records lie in the order of this table, open addressing in a power of two of slots and one more, for key 0. */
    int64_t *key;  /* [n = slots + 1] 0: free; the last: 1 if key 0 is there. NULL: positions */
    int64_t *used; /* [1] keys that have a row, key 0 too */
    int64_t bound; /* the host's: no more are used */
    int captured;  /* a graph holds the addresses: the store cannot grow */
    gf_cuda_shared *state;
    int32_t *pool_there; /* [2] pinned; SHRINKAGE, per side: 1: a kernel has written the shared row, so no step starts it again */
    int64_t ring_rows, ring_dim, ring_ld;
    gf_cuda_embed ring[2]; /* rows [capacity][ld] with the halves that tensor cores read */
    int64_t *ring_id[2];   /* [capacity] */
    struct gf_cuda_staging *staging;
};

glofnd_status gf_cuda_store_open(gf_error *err, gf_device_ctx *d, const gf_store_spec *spec, size_t record_bytes,
                                 gf_device_store **out);
/* The store of a step on `stream`, or one without records for rows of the caller in its place. */
struct gf_device_store gf_cuda_store_of(const gf_device_step *x, cudaStream_t stream);
size_t gf_cuda_store_held(const gf_device_store *s); /* bytes on the device */
void gf_cuda_store_close(gf_device_store *s);
glofnd_status gf_cuda_store_touched(gf_error *err, gf_device_store *s, uint8_t *blocks);
glofnd_status gf_cuda_store_range(gf_error *err, gf_device_store *s, int put, int64_t first, int64_t count, void *records);
glofnd_status gf_cuda_store_rows(gf_error *err, gf_device_store *s, int put, const int64_t *id, int64_t n, void *records);
glofnd_status gf_cuda_store_keyed(gf_error *err, gf_device_store *s, int64_t *rows, int64_t *keys);
glofnd_status gf_cuda_store_reserve(gf_error *err, gf_device_store *s, int64_t keys);
/* Before a step that may bring `keys` new keys: waits only where they might not fit. `capturing`: it becomes part of a graph. */
glofnd_status gf_cuda_store_expect(gf_error *err, gf_device_store *s, int64_t keys, int capturing);
glofnd_status gf_cuda_store_state(gf_error *err, gf_device_store *s, int put, gf_device_state *state);
glofnd_status gf_cuda_store_ring(gf_error *err, gf_device_store *s, int put, int side, int64_t count, float *rows, int64_t *id);
glofnd_status gf_cuda_store_bank(gf_error *err, gf_device_ctx *d, gf_device_store *s, int put, int side, int64_t dim,
                                 const int64_t *id, int64_t n, void *rows);
glofnd_status gf_cuda_store_records(gf_error *err, gf_device_ctx *d, gf_device_store *s, int put, const int64_t *id, int64_t n,
                                    void *records);

/* cuda_store_rows.cu: n records between the store and `packed` (device). */
cudaError_t gf_cuda_move_records(const gf_device_store *s, int put, const int64_t *id, int64_t n, unsigned char *packed);
/* The same for ids in device memory, or keys; those that the store does not have are passed over, and read as zeros. */
cudaError_t gf_cuda_exchange_records(const gf_device_store *s, int put, const int64_t *id, int64_t n, void *packed);
/* n averages of one side between the store and `rows` (device) [n][dim]; ids outside of the store are passed over. */
cudaError_t gf_cuda_move_averages(const gf_device_store *s, int put, int side, int64_t dim, const int64_t *id, int64_t n,
                                  uint16_t *rows);
/* place [n] = where the keys are, -1: nowhere; `insert`: those take free slots. control: notes keys that do not fit, inserts nothing
 * after a failure; NULL: there is room. */
cudaError_t gf_cuda_find_places(const gf_device_store *s, const int64_t *key, int64_t n, int insert, int64_t *place,
                                gf_cuda_control *control, cudaStream_t stream);
/* All rows with state to a larger store. */
cudaError_t gf_cuda_move_keys(const gf_device_store *from, const gf_device_store *to, cudaStream_t stream);
/* Computes the halves of the first `count` ring rows from their f32. */
cudaError_t gf_cuda_ring_halves(const gf_device_store *s, int side, int64_t count);

#ifdef __cplusplus
}
#endif
