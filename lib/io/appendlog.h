/* appendlog.h - a file that only grows at its end, record by record, and can be cut back to a record: what JSON lines and event
 * files are written with.
 *
 *     gf_log_open, gf_log_cut, then per record gf_log_put ..., gf_log_end; gf_log_flush or gf_log_sync now and then; then close.
 *
 * Whole records or nothing: records are gathered in memory and written together, a record that was not ended is never written,
 * and a write that fails half way (a full disk) is taken back. After a kill the last record may still be torn, which is why a
 * resumed run cuts. Failures stick: later puts do nothing, and every call that returns a status returns the first failure.
 */
#pragma once

#include "util/status.h"

#define GF_LOG_ALL (-1)   /* as `keep`: everything up to the last whole record */
#define GF_LOG_CUT ".cut" /* behind the name of a log: what was cut from it, until that is surely not needed any more */

typedef struct gf_log {
    gf_error *err;        /* borrowed until close */
    glofnd_status status; /* of the first failure; GLOFND_OK so far */
    int fd;
    int shared; /* a file of lines that other processes append to, too */
    char *path;
    unsigned char *buffer;        /* whole records not written yet, then the record in the making */
    size_t capacity, used, ended; /* of the buffer: bytes taken; of these, in whole records */
    uint64_t written;             /* bytes in the file */
} gf_log;

/* Opens for reading and writing, made if missing and `create`; E_IO if that fails or it is not a regular file. After a failed
 * open, close is not needed, but allowed. */
glofnd_status gf_log_open(gf_error *err, gf_log *f, const char *path, int create);
/* A file of lines that several processes append to: the records of a flush are written together, behind all others and under a
 * lock; an unfinished line at the end, of a killed process, is removed then. It is not cut otherwise. */
glofnd_status gf_log_open_shared(gf_error *err, gf_log *f, const char *path);
/* Size of the file as opened, and its bytes from `at` on, before anything is put: to find where to cut. */
uint64_t gf_log_size(const gf_log *f);
glofnd_status gf_log_read(gf_log *f, uint64_t at, void *to, size_t n);
/* Keeps the first `size` bytes; the next record follows them. Must come once, before the first put. */
glofnd_status gf_log_cut(gf_log *f, uint64_t size);

/* Copies what a cut of PATH to `keep` bytes would remove to PATH.cut, synced; a longer PATH.cut of an earlier cut stays. */
glofnd_status gf_log_save_tail(gf_error *err, const char *path, uint64_t keep);
void gf_log_forget_tail(const char *path); /* removes PATH.cut */
/* *restored: the file was removed or replaced while it was open; all of it is written again under its name. */
glofnd_status gf_log_restore(gf_log *f, int *restored);

void gf_log_put(gf_log *f, const void *data, size_t n);
/* The record is complete. It is written at the latest when 64 KB have gathered. */
glofnd_status gf_log_end(gf_log *f);
/* Forgets the record in the making. */
void gf_log_drop(gf_log *f);
glofnd_status gf_log_flush(gf_log *f); /* to the operating system: survives the end of this process */
glofnd_status gf_log_sync(gf_log *f);  /* and to the disk */
/* Bytes of all whole records, flushed or not: what a checkpoint keeps, after a sync, to cut to. */
uint64_t gf_log_offset(const gf_log *f);
/* Flushes, and reports the first failure. NULL, a zeroed and a closed one are fine. */
glofnd_status gf_log_close(gf_log *f);
