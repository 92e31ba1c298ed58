/* blockfile.h - checked sequential files: little-endian fields in sections, each closed by its CRC-32C.
 *
 * Write:  gf_writer_open, gf_put_* ..., gf_put_crc, ..., gf_writer_commit, gf_writer_close.
 * Read:   gf_reader_open, gf_get_* ..., gf_check_crc, ..., gf_reader_end, gf_reader_close.
 *
 * What is written goes to a temporary name beside the target. Only gf_writer_commit gives it the target's name, after the bytes
 * have reached the disk: a crash or a full disk leaves the old file. Failures stick to the writer or reader: later puts do
 * nothing, later gets give zeros, and `status` (or commit, check_crc, end) reports. So fields are handled one per line, and are
 * used only after their CRC has been checked.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define GF_TEMP_MARK ".tmp-" /* behind the name of a file that is being written: NAME.tmp-PID-K */

#include "util/status.h"

typedef struct gf_writer {
    gf_error *err;
    glofnd_status status; /* of the first failure; GLOFND_OK so far */
    int fd, dir_fd;       /* dir_fd -1: the directory cannot be opened, so it cannot be synced either */
    const char *path;     /* borrowed until close */
    char *temp;           /* name beside `path`; NULL once committed */
    unsigned char *buffer;
    size_t used;
    uint64_t bytes; /* put so far */
    uint32_t crc;   /* of the section so far */
    uint32_t chain; /* CRC of all section CRCs so far: ties the sections of one file together */
} gf_writer;

/* After a failed open, close is not needed, but allowed. */
glofnd_status gf_writer_open(gf_error *err, gf_writer *w, const char *path);
void gf_put(gf_writer *w, const void *data, size_t n);
void gf_put_u16(gf_writer *w, uint16_t x);
void gf_put_u32(gf_writer *w, uint32_t x);
void gf_put_u64(gf_writer *w, uint64_t x);
/* `count` 4-byte words (float, uint32_t) or 8-byte words (int64_t) of host order. */
void gf_put_words4(gf_writer *w, const void *words, size_t count);
void gf_put_words8(gf_writer *w, const void *words, size_t count);
/* Closes the section: its CRC goes to the file and into the chain. */
void gf_put_crc(gf_writer *w);
glofnd_status gf_writer_commit(gf_writer *w);
/* Removes what was not committed. */
void gf_writer_close(gf_writer *w);
glofnd_status gf_writer_finish(gf_writer *w); /* commit, then close */
/* Fails as opening a writer would, and changes nothing: before long work whose result goes there. */
glofnd_status gf_writer_check(gf_error *err, const char *path);
/* Removes what killed writers of this file have left beside it, NAME.tmp-PID-K: of processes that are gone, and not locked, as by
 * one on another machine. */
void gf_writer_clean(const char *path);
/* A file of these bytes; on failure the old one is left as it was. */
glofnd_status gf_file_write(gf_error *err, const char *path, const void *bytes, size_t n);

typedef struct gf_reader {
    gf_error *err;
    glofnd_status status;
    int fd;
    const char *path;      /* borrowed until close */
    uint64_t size, offset; /* of the file; of the next byte to get */
    unsigned char *buffer;
    size_t fill, at; /* bytes in the buffer; of these already given */
    uint32_t crc, chain;
} gf_reader;

/* E_IO if it cannot be opened or is not a regular file. */
glofnd_status gf_reader_open(gf_error *err, gf_reader *r, const char *path);
/* E_FORMAT when the file is too short for it. */
void gf_get(gf_reader *r, void *data, size_t n);
uint16_t gf_get_u16(gf_reader *r);
uint32_t gf_get_u32(gf_reader *r);
uint64_t gf_get_u64(gf_reader *r);
void gf_get_words4(gf_reader *r, void *words, size_t count);
void gf_get_words8(gf_reader *r, void *words, size_t count);
/* Bytes not read yet: what a size found in the file must be checked against before it is used. */
uint64_t gf_reader_left(const gf_reader *r);
/* E_FORMAT naming "what index" (index < 0: only "what") if the section's CRC is not the one in the file. */
glofnd_status gf_check_crc(gf_reader *r, const char *what, int64_t index);
/* E_FORMAT if bytes follow. */
glofnd_status gf_reader_end(gf_reader *r);
void gf_reader_close(gf_reader *r);

/* A new empty file beside `path`, opened with `flags`; *name is its name, to be freed. -1: errno says why. */
int gf_open_temp(const char *path, int flags, char **name);
/* Little-endian bytes, for formats that are not read in sequence. */
void gf_le32_put(unsigned char *p, uint32_t x);
void gf_le64_put(unsigned char *p, uint64_t x);
uint32_t gf_le32(const unsigned char *p);
uint64_t gf_le64(const unsigned char *p);

/* ----- checksums ----- */

#define GF_CHECKSUM_START 0xcbf29ce484222325u
enum { GF_CHECKSUM_DIGITS = 16 };

/* A checksum of 64 bits that depends on every byte, for files that hold CRCs of their own: a CRC of data followed by its CRC is a
 * constant. Continues h over n bytes. n is a multiple of 8 but for the end, whose last word is filled up with zeros: the length
 * has to be compared as well. */
uint64_t gf_checksum(uint64_t h, const void *bytes, size_t n);

/* CRC-32C (Castagnoli), the checksum of GloFND's own files: of the bytes so far (0 at the start), continued over n more.
 * gf_crc32c(0, "123456789", 9) is 0xe3069283. */
uint32_t gf_crc32c(uint32_t crc, const void *data, size_t n);
