/* torch_writer.h - files as torch.save writes them, made byte by byte: a pickle of tensors and an archive that stores it.
 *
 *     tape p = {0};                                   the pickle
 *     begin_dict(&p); key(&p, "w"); tensor(&p, "FloatStorage", "0", 6, 0, "2 3", "3 1"); end_dict(&p); stop(&p);
 *     archive a = {0};
 *     store(&a, "x/data.pkl", p.bytes, p.n); store(&a, "x/data/0", numbers, 24); finish(&a);
 *     ... a.file.bytes, a.file.n ...
 */
#pragma once

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct tape {
    uint8_t bytes[1 << 15];
    size_t n;
} tape;

static inline void put(tape *t, const void *bytes, size_t n) {
    if (n > sizeof t->bytes - t->n) abort();
    memcpy(t->bytes + t->n, bytes, n);
    t->n += n;
}

static inline void put_number(tape *t, uint64_t x, int bytes) {
    for (int k = 0; k < bytes; k++) put(t, &(uint8_t){k < 8 ? (uint8_t)(x >> (8 * k)) : 0}, 1);
}

/* ----- pickle ----- */

static inline void op(tape *t, const char *code) { put(t, code, strlen(code)); }
static inline void text(tape *t, const char *s) { op(t, "X"), put_number(t, strlen(s), 4), op(t, s); }
static inline void global(tape *t, const char *module, const char *name) {
    op(t, "c"), op(t, module), op(t, "\n"), op(t, name), op(t, "\n");
}
static inline void integer(tape *t, int64_t x) {
    if (x >= 0 && x < 256) op(t, "K"), put_number(t, (uint64_t)x, 1);
    else if (x >= INT32_MIN && x <= INT32_MAX) op(t, "J"), put_number(t, (uint64_t)x, 4);
    else op(t, "\x8a\x08"), put_number(t, (uint64_t)x, 8);
}
/* "2 3" */
static inline void integers(tape *t, const char *list) {
    op(t, "(");
    for (char *end; *list; list = *end ? end + 1 : end) integer(t, strtoll(list, &end, 10));
    op(t, "t");
}
static inline void ordered_dict(tape *t) { global(t, "collections", "OrderedDict"), op(t, ")R"); }
static inline void begin_pickle(tape *t) { put(t, "\x80\2", 2); }
static inline void begin_dict(tape *t) { op(t, "}("); }
static inline void end_dict(tape *t) { op(t, "u"); }
static inline void stop(tape *t) { op(t, "."); }
static inline void key(tape *t, const char *s) { text(t, s); }

/* shape and stride as "2 3"; numbers: those that the storage claims to have */
static inline void tensor(tape *t, const char *storage, const char *name, int64_t numbers, int64_t offset, const char *shape,
                          const char *stride) {
    global(t, "torch._utils", "_rebuild_tensor_v2");
    op(t, "((");
    text(t, "storage"), global(t, "torch", storage), text(t, name), text(t, "cpu"), integer(t, numbers);
    op(t, "tQ");
    integer(t, offset), integers(t, shape), integers(t, stride);
    op(t, "\x89");
    ordered_dict(t);
    op(t, "tR");
}

/* ----- archive ----- */

typedef struct archive {
    tape file, table;
    int count;
    int zip64;     /* sizes and places in the zip64 parts, as PyTorch may write them */
    int method;    /* of the next entries: 0 stored */
    int wrong_end; /* the end says other numbers */
} archive;

static inline void store_as(archive *a, const char *name, const void *bytes, size_t n, uint64_t claimed) {
    const size_t at = a->file.n, name_n = strlen(name);
    const uint64_t ones = 0xffffffffu;
    put(&a->file, "PK\3\4\0\0\0\0", 8), put_number(&a->file, (uint64_t)a->method, 2), put_number(&a->file, 0, 8);
    put_number(&a->file, n, 4), put_number(&a->file, n, 4), put_number(&a->file, name_n, 2), put_number(&a->file, 6, 2);
    put(&a->file, name, name_n), put(&a->file, "FB\2\0ZZ", 6), put(&a->file, bytes, n);
    tape *t = &a->table;
    put(t, "PK\1\2\0\0\0\0\0\0", 10), put_number(t, (uint64_t)a->method, 2), put_number(t, 0, 8);
    put_number(t, a->zip64 ? ones : claimed, 4), put_number(t, a->zip64 ? ones : claimed, 4), put_number(t, name_n, 2);
    put_number(t, a->zip64 ? 28 + 5 : 0, 2), put_number(t, 3, 2), put_number(t, 0, 8), put_number(t, a->zip64 ? ones : at, 4);
    put(t, name, name_n);
    if (a->zip64) {
        put(t, "\7\0\1\0Z", 5); /* another part first */
        put_number(t, 1, 2), put_number(t, 24, 2), put_number(t, claimed, 8), put_number(t, claimed, 8), put_number(t, at, 8);
    }
    put(t, "abc", 3); /* a comment */
    a->count++;
}
static inline void store(archive *a, const char *name, const void *bytes, size_t n) { store_as(a, name, bytes, n, n); }

static inline void finish(archive *a) {
    tape *f = &a->file;
    const uint64_t at = f->n, bytes = a->table.n, end64 = at + bytes, count = (uint64_t)(a->count + a->wrong_end);
    put(f, a->table.bytes, a->table.n);
    if (a->zip64) {
        put(f, "PK\6\6", 4), put_number(f, 44, 8), put_number(f, 0, 12), put_number(f, count, 8), put_number(f, count, 8);
        put_number(f, bytes, 8), put_number(f, at, 8);
        put(f, "PK\6\7\0\0\0\0", 8), put_number(f, end64, 8), put_number(f, 1, 4);
    }
    put(f, "PK\5\6\0\0\0\0", 8), put_number(f, a->zip64 ? 0xffff : count, 2), put_number(f, a->zip64 ? 0xffff : count, 2);
    put_number(f, a->zip64 ? 0xffffffffu : bytes, 4), put_number(f, a->zip64 ? 0xffffffffu : at, 4);
    put_number(f, 7, 2), put(f, "comment", 7);
}
