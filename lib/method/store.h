/* store.h - state per anchor, internal interface.
 *
 * One record per anchor: `modalities` gf_record, then (with temperatures) `modalities` gf_temperature, then (with a bank) as many
 * rows of float16; formulas/record.h. All-zero bytes mean
 * "never seen", so a fresh mapping or a hole in a sparse file is a valid state and creating n = 1e9 anchors costs nothing.
 * The step reads records with gf_store_gather and writes them with gf_store_scatter: O(batch), never O(n).
 *
 * Call order of a step on a store: gf_store_check_ids, gf_store_prepare, gf_store_gather, then compute, then gf_store_scatter.
 * Files: store.c (life, rows, ring, averages, a store on a device), store_file.c (save and load; the working file behind a
 * mapped store), store_keys.c (a store of keys: keys to rows, growth).
 */
#pragma once

#include <pthread.h>

#include "device/accel_step.h"
#include "util/status.h"

typedef struct gf_ring { /* recent unit embeddings of one modality's columns */
    float *rows;         /* [capacity][dim] */
    int64_t *id;         /* [capacity] anchor ids */
} gf_ring;

#define GF_STORE_PAGE 4096 /* bytes: unit in which a working file takes disk space */
#define GF_STORE_MAX_N ((int64_t)1 << 40)
#define GF_STORE_MAX_RECORD (80 + 4 * GF_BANK_MAX_DIM) /* bytes of the largest record: two modalities with everything, a key */

struct glofnd_store {
    gf_store_spec spec;
    size_t record_bytes;    /* of one anchor */
    unsigned char *records; /* [n][record_bytes], heap or mapping */
    size_t mapped_bytes;    /* > 0: `records` lies in a mapping of this size that starts at `mapping` */
    void *mapping;
    uint64_t *touched;             /* bit per block that was ever written */
    gf_record shared[2];           /* per side: the one lambda of SINGLE and lambda_warmup; log_u unused */
    gf_ring ring[2];               /* per side; rows NULL without ring */
    int64_t ring_head, ring_count; /* slot of the next push; slots filled: all of 0..head-1 until the ring has wrapped */
    uint64_t *pages;               /* bit per GF_STORE_PAGE bytes of `records`: ever written, or disk space is set aside for them.
                                   Others are zero and are never read: reading a hole of a full tmpfs would be fatal */
    glofnd_anchor
        *lent;  /* [modalities][n + 1] memory of the caller that holds the state instead of records and shared; NULL: none */
    int adam;   /* see gf_store_note_adam() */
    int fd;     /* of the working file; -1 in memory */
    char *path; /* of the working file of a store of keys, beside which its table lies; else NULL */
    struct gf_key_table {
        uint64_t *slot; /* [slots] 0: free; else row + 1, below 24 bits of the hash of its key. NULL: the store has positions */
        int64_t slots;  /* a power of two */
        int fd;         /* of the unnamed file that it is a mapping of; -1: memory */
    } table;
    int64_t used;            /* keys on the CPU: rows 0 .. used-1 have one, in the order in which they came */
    const gf_device *device; /* NULL: the CPU. Else the state lies there, and everything above but spec is a copy made by
                                   pull */
    gf_device_store *on;
    pthread_mutex_t lock; /* on a device: of that copy, which readers of the store fill */
};

/* State of the anchors id [n]. `follow`: one that has not learned a lambda takes the shared row's, as a step sees it; else as the
 * store has it. */
void gf_store_gather(const glofnd_store *s, int side, const int64_t *id, int64_t n, int follow, glofnd_anchor *rows);
/* Notes in s->adam whether Adam learned what a file or a caller brought: it has moments, and no pool of SHRINKAGE. With learner
 * AUTO Adam then goes on. Looks at records and shared rows on the host. */
void gf_store_note_adam(glofnd_store *s);
/* Writes rows back and marks blocks as touched. Never fails: ids were checked before. With clock 0, lambda is not stored. */
void gf_store_scatter(glofnd_store *s, int side, const int64_t *id, int64_t n, const glofnd_anchor *rows);
/* Averages of the bank, rows [n][bank_dim] float16; put marks blocks as touched. */
void gf_store_bank_gather(const glofnd_store *s, int side, const int64_t *id, int64_t n, uint16_t *rows);
void gf_store_bank_scatter(glofnd_store *s, int side, const int64_t *id, int64_t n, const uint16_t *rows);
/* The shared row; clock 0 = never learned. */
glofnd_anchor gf_store_shared_get(const glofnd_store *s, int side);
void gf_store_shared_put(glofnd_store *s, int side, const glofnd_anchor *row);

/* E_INDEX if an id is outside 0..n-1, or, with `distinct`, occurs twice. `name` is the array in messages, its part after the last
 * dot one element of it: "id", "own.slot". `scratch` [2n] is overwritten (only for distinct). */
glofnd_status gf_store_check_ids(gf_error *err, const glofnd_store *s, const char *name, const int64_t *id, int64_t n,
                                 int distinct, int64_t *scratch);

/* Where ids are not rows of the store: keys, which must differ, and names, which must not be negative, too. */
glofnd_status gf_store_check_distinct(gf_error *err, const char *name, const int64_t *id, int64_t n, int64_t *scratch);
glofnd_status gf_store_check_names(gf_error *err, const char *name, const int64_t *id, int64_t n, int64_t *scratch);

/* A store over rows of the caller (glofnd_ctx_state), for one step: nothing to free. The check is of the anchors `id` and of the
 * shared row; E_NUMERIC or E_ARGUMENT names the first that no step can continue from. */
glofnd_store gf_store_lend(const gf_store_spec *spec, glofnd_anchor *rows);
glofnd_status gf_store_check_lent(gf_error *err, const glofnd_store *s, const int64_t *id, int64_t n);

/* To be called before the work whose results gf_store_scatter will write: takes disk space for the records of `id`, so that a
 * full disk is E_IO here, not a fatal signal there. Changes no state. No-op in memory; negative ids are passed over. */
glofnd_status gf_store_prepare(gf_error *err, glofnd_store *s, const int64_t *id, int64_t n);

/* Remembers n unit embeddings per side, oldest forgotten first: rows[side] [n] of stride `ld` floats (NULL: side without
 * ring), ids [n] may repeat. If n exceeds the capacity only the last ones stay. No-op without ring. A side that has a ring but
 * is given no rows gets zero rows with id -1. */
void gf_store_ring_push(glofnd_store *s, const float *const rows[2], int64_t ld, const int64_t *id, int64_t n);

/* A store of n anchors in memory with the state of `from`, whose row i goes to row to[i], or nowhere where that is negative; no
 * two rows to one. Shared rows and ring stay; ids in the ring follow their anchors. */
glofnd_status gf_store_remap(gf_error *err, const glofnd_store *from, int64_t n, const int64_t *to, glofnd_store **out);

/* Copies the shared rows and the ring, which belong to no anchor, to a store. E_FORMAT: a ring of a different size. */
glofnd_status gf_store_carry(gf_error *err, const glofnd_store *from, glofnd_store *to);

/* Averages of the anchors id [n], of one side: rows [n][dim] float16 to the store (put = 1), or from it. On a device id and rows
 * are its memory, the call only queues, in the order of steps, and passes over ids outside of the store, which the step reports.
 * On the CPU it is glofnd_bank_put() or glofnd_bank_get(). */
glofnd_status gf_averages_move(glofnd_ctx *c, glofnd_store *s, int put, int side, const int64_t *id, int64_t n, void *rows);

/* ----- keys: for stores with spec.keyed, on the CPU ----- */

/* row [n] = the rows of the keys id [n]; -1: it has none. `insert`: those get the next rows, and the store grows if it must
 * (E_MEMORY, E_IO); what was taken is given back by gf_store_forget_keys(). On failure no row was taken. */
glofnd_status gf_store_rows(gf_error *err, glofnd_store *s, const int64_t *id, int64_t n, int insert, int64_t *row);
/* Takes back the rows from `used` on, which must have no state: a step that failed. */
void gf_store_forget_keys(glofnd_store *s, int64_t used);

/* ----- between the store's own files ----- */

#define GF_KEYS_MAX ((((int64_t)1 << 40) / 10) * 7) /* rows of the largest table */

/* Lazily-zero memory; growing keeps the content, and leaves it alone where it fails (NULL). */
void *gf_lazy_alloc(uint64_t bytes);
void *gf_lazy_grow(void *p, uint64_t bytes, uint64_t more);
void gf_lazy_free(void *p, uint64_t bytes);
uint64_t gf_store_touched_bytes(const glofnd_store *s);
uint64_t gf_store_pages_bytes(const glofnd_store *s);
/* Rows of the smallest table with room for so many keys. */
int64_t gf_store_room(int64_t keys);
/* Room for so many keys, for good. */
glofnd_status gf_store_make_room(gf_error *err, glofnd_store *s, int64_t keys);
/* The table of a store whose rows 0 .. used-1 have their keys. E_FORMAT: one occurs twice. */
glofnd_status gf_store_index(gf_error *err, glofnd_store *s);
void gf_store_drop_table(glofnd_store *s);
int64_t gf_store_key_of(const glofnd_store *s, int64_t row);
/* Bytes of a record without its key: all zero means never seen. */
size_t gf_store_state_bytes(const glofnd_store *s);

typedef struct gf_keyed_row {
    int64_t key, row;
} gf_keyed_row;

/* (*out) [*count]: the rows that have state, by ascending keys; to be freed. Also of the copy of a store on a device. */
glofnd_status gf_store_order(gf_error *err, const glofnd_store *s, gf_keyed_row **out, int64_t *count);
/* First row from `row` on that has state; spec.n: none. */
int64_t gf_store_next_seen(const glofnd_store *s, int64_t row);
/* Working file and mapping get n rows. */
glofnd_status gf_store_map_grow(gf_error *err, glofnd_store *s, int64_t n);
/* The table's file: unnamed, beside the working file, with disk space for all of it. */
glofnd_status gf_store_map_table(gf_error *err, const glofnd_store *s, int64_t slots, struct gf_key_table *out);

/* E_ARGUMENT naming the field and its range. */
glofnd_status gf_store_check_spec(gf_error *err, const gf_store_spec *spec);
/* Makes a store of a checked spec on the CPU, in memory (path NULL) or on a working file. */
glofnd_status gf_store_new(gf_error *err, const gf_store_spec *spec, const char *path, glofnd_store **out);
/* The same for the device of c, with the checks. */
glofnd_status gf_store_make(glofnd_ctx *c, const gf_store_spec *spec, const char *path, glofnd_store **out);
int64_t gf_store_blocks(const glofnd_store *s);
int64_t gf_store_block_rows(const glofnd_store *s, int64_t block); /* the last block may be shorter */
/* Bit maps over pages and blocks of records: which were ever written. */
int gf_bit(const uint64_t *bits, int64_t i);
void gf_bit_set(uint64_t *bits, int64_t i);
/* The record_bytes of one anchor, zeros where nothing was ever written. */
void gf_store_read_record(const glofnd_store *s, int64_t id, unsigned char *out);
/* Marks records first .. first+count-1 as written. */
void gf_store_mark(glofnd_store *s, int64_t first, int64_t count);
/* As gf_store_prepare, for consecutive records. */
glofnd_status gf_store_prepare_range(gf_error *err, glofnd_store *s, int64_t first, int64_t count);

/* A store on a device. Moves the state of a new or loaded store there; fetches it to be saved; single rows. */
glofnd_status gf_store_to_device(gf_error *err, glofnd_store *s, const gf_device *device, gf_device_ctx *d);
/* Several threads may read a store at a time, and each fills the copy on the host: hold the lock from before the pull or borrow
 * to the last read of the copy. No-op on the CPU, where readers write nothing. */
void gf_store_lock(const glofnd_store *s);
void gf_store_unlock(const glofnd_store *s);
glofnd_status gf_store_pull(gf_error *err, const glofnd_store *s);
glofnd_status gf_store_pull_touched(gf_error *err, const glofnd_store *s); /* only which blocks were written */
glofnd_status gf_store_pull_shared(gf_error *err, const glofnd_store *s);  /* only shared rows and rings */
glofnd_status gf_store_push_shared(gf_error *err, const glofnd_store *s);
glofnd_status gf_store_device_get(gf_error *err, const glofnd_store *s, int side, const int64_t *id, int64_t n,
                                  glofnd_anchor *rows);
glofnd_status gf_store_device_put(gf_error *err, glofnd_store *s, int side, const int64_t *id, int64_t n,
                                  const glofnd_anchor *rows);
/* Rows of one side, and its shared row, to the copy on the host and back: code for the CPU then works on a device's store. */
glofnd_status gf_store_device_borrow(gf_error *err, const glofnd_store *s, int side, const int64_t *id, int64_t n);
glofnd_status gf_store_device_return(gf_error *err, glofnd_store *s, int side, const int64_t *id, int64_t n);
/* One side of a record, both ways. */
glofnd_anchor gf_store_decode(const glofnd_store *s, int side, const unsigned char *record, const gf_record *otherwise);
void gf_store_encode(const glofnd_store *s, int side, const glofnd_anchor *row, unsigned char *record);

/* Opens or makes the working file of s (spec, record_bytes and the bit maps are set) and maps it. On failure a file that was
 * made or filled here is gone or empty again. */
glofnd_status gf_store_map(gf_error *err, glofnd_store *s, const char *path);
void gf_store_unmap(glofnd_store *s);
/* 1: a store has this working file mapped. 0 also where the file system has no locks. */
int gf_store_map_in_use(const char *path);
/* Copies the shared rows, and how many rows have a key, to the working file. */
void gf_store_map_shared(glofnd_store *s);
