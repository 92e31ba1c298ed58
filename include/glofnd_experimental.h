/* glofnd_experimental.h - section 7 of glofnd.h, which includes this file where GLOFND_EXPERIMENTAL is defined. Its calls have
 * the symbol version GLOFND_EXPERIMENTAL and may change in every minor version of the library.
 */
#ifndef GLOFND_EXPERIMENTAL_H
#define GLOFND_EXPERIMENTAL_H

#ifndef GLOFND_H
#error "define GLOFND_EXPERIMENTAL and include glofnd.h"
#endif

/* ----- Several ranks ----- */

/* `sum` must add the n doubles over all ranks in place, return 0, and give every rank the same bits. The steps call it for what
 * all anchors share (SINGLE, lambda_warmup, u's first batch under compat OFFICIAL), which without it is E_ARGUMENT when
 * rows < cols; on the CPU also for neighbour_share < 1, then it is cols numbers. NULL: one rank. Since 0.1. */
GLOFND_API glofnd_status glofnd_ctx_reduce(glofnd_ctx *c, int (*sum)(void *user, double *x, int n), void *user);

/* Bytes of links per sample: what the other rows need to know of its two rows. They are to be gathered over ranks of the same
 * version, nothing else; their alignment is that of a float. Since 0.2. */
#define GLOFND_LINK_BYTES 64

/* First call: thresholds, weights, new state of the own rows; writes links [rows][GLOFND_LINK_BYTES]. Since 0.2. */
GLOFND_API glofnd_status glofnd_step_rows(glofnd_ctx *c, glofnd_store *s, const glofnd_batch *q, void *links,
                                          glofnd_stats *stats);
/* Second call, with the links of all ranks [cols][GLOFND_LINK_BYTES] in the order of the batch: gradient of the own rows in both
 * roles, as anchor and as negative of the others. `stats` (may be NULL) is what the first call filled; WANT_QUALITY is added to
 * it.
 * Option `neighbours`: every rank searches for its own anchors, so its store must hold the averages of all samples, each at its
 * id: rows < cols with batch.slot is E_ARGUMENT. A rank writes those of its own samples; glofnd_bank_get() and glofnd_bank_put()
 * take them to the others before the next step. The context keeps what the first call found: the second one must follow it, for
 * the same batch, with glofnd_step_mask() at most between them, else it is E_ARGUMENT; on a GPU, where ids are not looked at, a
 * different batch of equal size and epoch is not noticed. Since 0.2. */
GLOFND_API glofnd_status glofnd_step_grad(glofnd_ctx *c, const glofnd_batch *q, const void *links, void *grad_a, void *grad_b,
                                          glofnd_stats *stats);
/* The pairs that a step keeps. keep [rows][2][2][cols] for two views: [own view][other's view]; [rows][2][cols] for image and
 * text: [side]. 1 = kept. `links` as for glofnd_step_grad. Since 0.2. */
GLOFND_API glofnd_status glofnd_step_mask(glofnd_ctx *c, const glofnd_batch *q, const void *links, uint8_t *keep);

/* ----- Steps that never wait for the host ----- */

/* Writes the loss and d loss / d tau of the last step on c, as glofnd_stats has them, to memory of the device of c, one float32
 * each (either may be NULL). CUDA: queues the work, waits for nothing, and can be captured with the step; NaN if the step failed.
 * If the device has noticed by now that a step failed, this returns its status and text, once: a failure is reported by one of
 * the next such calls (with both NULL: only that), or by glofnd_ctx_stats(). Since 0.2. */
GLOFND_API glofnd_status glofnd_ctx_loss(glofnd_ctx *c, float *loss, float *grad_tau);
/* Steps from now on read their temperature at `tau`, in memory of the device of c, when they run; NULL: from batch and options.
 * It must be in [0.001, 100]. ISOGCLR: E_UNSUPPORTED. CUDA: math AUTO is then SPLIT, since the host does not know tau.
 * Since 0.2. */
GLOFND_API glofnd_status glofnd_ctx_tau(glofnd_ctx *c, const float *tau);
/* Steps from now on read and write the state of n anchors at `rows`, in memory of the device of c, when they run; their store is
 * NULL. rows [sides][n + 1]: row i is that of anchor i, row n that of GLOFND_SHARED, as glofnd_rows_get() gives them. rows NULL:
 * the state is that of a store. A row of the batch that glofnd_rows_put() would refuse fails the step; CUDA reports it as it does
 * a bad id. A step that fails changes no row. Learner RING and similarity BANK: E_UNSUPPORTED. Since 0.2. */
GLOFND_API glofnd_status glofnd_ctx_state(glofnd_ctx *c, glofnd_row *rows, int64_t n);
/* *phase = a number that is equal for steps that queue the same work: a captured graph of one of them serves the others, if
 * sizes, types, pointers and options are equal, too. Of q it depends on epoch, want, tau, gamma and on there being groups.
 * Since 0.2. */
GLOFND_API glofnd_status glofnd_ctx_phase(glofnd_ctx *c, const glofnd_batch *q, uint64_t *phase);

/* ----- All state as arrays ----- */

/* The rows calls reach the state of all anchors and the shared lambda; these two reach the ring. The oldest embedding comes
 * first; n = ring_count of glofnd_store_describe(), dim = its ring_dim. id [n]; a, b [n][dim] unit rows of either modality; b is
 * unused with one modality. Host memory on every device. put replaces the whole ring: n <= ring_rows, ids >= -1, finite rows.
 * Since 0.2. */
GLOFND_API glofnd_status glofnd_ring_get(glofnd_ctx *c, const glofnd_store *s, int64_t *id, float *a, float *b);
GLOFND_API glofnd_status glofnd_ring_put(glofnd_ctx *c, glofnd_store *s, int64_t n, const int64_t *id, const float *a,
                                         const float *b);

/* The averages of similarity BANK: rows [n][dim] of float16, in host memory on every device; zeros: never seen. side and id as in
 * the rows calls, but no GLOFND_SHARED; dim is that of the store. put takes what get gives. Since 0.2. */
GLOFND_API glofnd_status glofnd_bank_get(glofnd_ctx *c, const glofnd_store *s, int side, const int64_t *id, int64_t n,
                                         void *rows);
GLOFND_API glofnd_status glofnd_bank_put(glofnd_ctx *c, glofnd_store *s, int side, const int64_t *id, int64_t n,
                                         const void *rows);

/* ----- Workspace in memory of the caller ----- */

/* *bytes = the size of the workspace that glofnd_ctx_reserve() would allocate for these sizes. Allocates nothing. Since 0.2. */
GLOFND_API glofnd_status glofnd_ctx_workspace_bytes(glofnd_ctx *c, int64_t rows, int64_t cols, int64_t dim, size_t *bytes);
/* From now on the workspace lies in `memory` (on the device of c, aligned to 64 bytes), which must stay until the next such call
 * or glofnd_ctx_free(). A step that needs more than `bytes` is E_MEMORY. NULL: the context allocates again. CUDA waits for the
 * stream first. Since 0.2. */
GLOFND_API glofnd_status glofnd_ctx_workspace(glofnd_ctx *c, void *memory, size_t bytes);

/* ----- Embeddings in files ----- */

/* Files of embeddings as one matrix, the rows of all files in order, as `glofnd discover` reads them. */
typedef struct glofnd_embedding_files {
    size_t size; /* sizeof(glofnd_embedding_files) */
    const char *const
        *path; /* [paths] .npy, .safetensors, Parquet, .csv and .tsv files; folders of them; patterns: {000..099}, * ? [ */
    int64_t paths;
    const char *tensor; /* of .safetensors files; NULL: the only one with two axes */
    const char *column; /* of embeddings, in Parquet files and tables; NULL: the only one that fits */
    const char *id;     /* column of names there; NULL: none, of a table its only column of text, or of an id */
    const char *label;  /* column of labels there; NULL: none */
} glofnd_embedding_files;

typedef struct glofnd_embeddings glofnd_embeddings; /* open files */

typedef struct glofnd_embeddings_info {
    size_t size; /* set by the caller: sizeof(glofnd_embeddings_info) */
    int64_t n, dim, files;
    const char *columns;      /* which were chosen, in words; NULL: no file has columns */
    const char *const *name;  /* [n] of the rows; NULL: none. Texts belong to the open files and live as long */
    const char *const *label; /* [n] labels as texts, "": none; NULL: not asked for */
} glofnd_embeddings_info;

/* Opens the files: shapes are known, names and labels are read. *out is NULL on failure, and `why` (may be NULL) gets the reason.
 * Since 0.2. */
GLOFND_API glofnd_status glofnd_embeddings_open(const glofnd_embedding_files *files, glofnd_embeddings **out, char *why,
                                                size_t why_bytes);
GLOFND_API void glofnd_embeddings_close(glofnd_embeddings *e); /* NULL is fine. Since 0.2 */
GLOFND_API glofnd_status glofnd_embeddings_describe(const glofnd_embeddings *e, glofnd_embeddings_info *out); /* Since 0.2 */
/* x [rows][dim]: rows [first, first + rows). By one thread at a time. Since 0.2. */
GLOFND_API glofnd_status glofnd_embeddings_read(glofnd_embeddings *e, int64_t first, int64_t rows, float *x, char *why,
                                                size_t why_bytes);

/* ----- Discovery: false negatives and duplicates among finished embeddings ----- */

#define GLOFND_DUP_EXACT 3.0 /* as dup: only rows of equal bytes are duplicates */

/* What to search. With m = usable rows - 1 others, the threshold of an anchor is the rank-th largest of its similarities: rank is
 * ceil(alpha m), or k + 1. Pairs with a larger similarity are above it. Rows that are not finite, or all zero, are left out. */
typedef struct glofnd_discover_spec {
    size_t size; /* sizeof(glofnd_discover_spec) */
    int64_t n, dim;
    const void *x;        /* [n] rows of dim numbers, `stride` apart; host memory. Their length does not matter */
    const int32_t *label; /* [n] or NULL; negative: unknown. Precision and recall of the pairs above */
    int64_t stride;       /* numbers from row to row; 0: dim */
    glofnd_dtype dtype;
    glofnd_device device;
    double alpha;      /* in (0, 1); 0: by k */
    int64_t k;         /* > 0: the k most similar others are above the threshold */
    int64_t top;       /* most similar others to list per anchor; 0: 20; negative: none */
    int64_t max_pairs; /* pairs to list in all, the most similar ones; 0: 10^7 */
    double dup;        /* similarity of duplicates, in [-1, 1]; 0: 0.98; or GLOFND_DUP_EXACT */
    size_t memory;     /* bytes of lists of candidates; 0: half of the machine's memory. Less takes a second pass */
    int32_t threads;   /* 0: all */
    int32_t reserved;  /* 0 */
    /* NULL, or called in this thread with the finished share of the work; a value other than 0 stops it: E_ARGUMENT "stopped". */
    int (*progress)(void *user, double share);
    void *user;
    glofnd_embeddings *files; /* NULL, or: the rows are these. n, dim, x, stride and dtype are 0 then */
} glofnd_discover_spec;

typedef struct glofnd_discovery glofnd_discovery; /* a result */

/* All pairs of the rows: thresholds, pairs above them, duplicates, components. The same result on every device and with any
 * number of threads, that of `glofnd discover`. *out is NULL on failure, and `why` (may be NULL) gets the reason. Since 0.2. */
GLOFND_API glofnd_status glofnd_discover(const glofnd_discover_spec *spec, glofnd_discovery **out, char *why, size_t why_bytes);
GLOFND_API void glofnd_discovery_free(glofnd_discovery *r); /* NULL is fine. Since 0.2 */

/* The result as arrays. They belong to it and live as long. Rows that were left out have NaN, -1 and 0. */
typedef struct glofnd_discovery_arrays {
    size_t size;                      /* set by the caller: sizeof(glofnd_discovery_arrays) */
    int64_t n, top;                   /* rows; columns of neighbour and similarity */
    int64_t usable, rank;             /* rows that were not left out */
    const uint8_t *kind;              /* [n] 0: usable; 1: not finite; 2: all zero */
    const float *threshold;           /* [n] */
    const int64_t *above;             /* [n] others above the threshold; all of them, not only the listed ones */
    const int64_t *mutual;            /* [n] of these, those whose own threshold is below the pair, too */
    const int64_t *hits;              /* [n] of `above`, those with the same label */
    const int64_t *copies;            /* [n] duplicates of the row */
    const int32_t *neighbour;         /* [n][top] most similar rows, best first, also below the threshold; -1: no more */
    const float *similarity;          /* [n][top] NaN: no more */
    const int32_t *component, *group; /* [n] number of its component (mutual pairs), of its group of duplicates; -1: none */
    /* Listed pairs above the threshold, by anchor: those of row i are first[i] .. first[i+1]-1. */
    int64_t pairs;
    const int64_t *first;         /* [n + 1] */
    const int32_t *other;         /* [pairs] */
    const float *pair_similarity; /* [pairs] */
    const uint8_t *pair_mutual;   /* [pairs] 1: above both thresholds */
    /* Listed pairs of duplicates. */
    int64_t duplicates;
    const int32_t *dup_a, *dup_b; /* [duplicates] */
    const float *dup_similarity;  /* [duplicates] */
    const uint8_t *dup_exact;     /* [duplicates] 1: equal bytes */
    /* Components and groups of duplicates, largest first: rows, pairs, smallest row of each. */
    int64_t components, groups;
    const int64_t *component_rows, *component_pairs, *component_first; /* [components] */
    const int64_t *group_rows, *group_pairs, *group_first;             /* [groups] */
    int64_t pairs_above, mutual_pairs, duplicate_pairs; /* in all, listed or not; the first by anchor, the others undirected */
    double precision, recall, f1;                       /* with labels: means over anchors; else NaN */
} glofnd_discovery_arrays;

/* Since 0.2. */
GLOFND_API glofnd_status glofnd_discovery_view(const glofnd_discovery *r, glofnd_discovery_arrays *out);
/* Writes the folder of tables that `glofnd discover` writes, whole or not at all. `source` is named in its summary; names [n] or
 * NULL; replace: 1: an earlier result at this place may go. Since 0.2. */
GLOFND_API glofnd_status glofnd_discovery_save(glofnd_discovery *r, const char *folder, const char *source,
                                               const char *const *names, int replace, char *why, size_t why_bytes);

/* The same with more choices. A zeroed struct with its size writes tables of text without names, of the source "memory". */
typedef struct glofnd_discovery_files {
    size_t size;              /* sizeof(glofnd_discovery_files) */
    const char *source;       /* named in the summary; NULL: "memory" */
    const char *const *names; /* [n] of rows, or NULL */
    const char *const
        *classes;        /* [class_count] names of labels 0, 1, 2 ...: classes.txt, and columns of label issues. NULL: none */
    int64_t class_count; /* above every label */
    int32_t replace;     /* 1: an earlier result at this place may go */
    int32_t parquet;     /* 1: tables are Parquet files; 0: of text */
} glofnd_discovery_files;

/* Since 0.2. */
GLOFND_API glofnd_status glofnd_discovery_write(glofnd_discovery *r, const char *folder, const glofnd_discovery_files *files,
                                                char *why, size_t why_bytes);

#endif /* GLOFND_EXPERIMENTAL_H */
