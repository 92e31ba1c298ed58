/* file.h - reading files that may be anything: regular files only, sizes bounded before memory is taken, no shared file
 * position. */
#pragma once

#include "util/status.h"

#define GF_FILE_BYTES_MAX ((uint64_t)1 << 30) /* bytes of one encoded image */
#define GF_LIST_BYTES_MAX ((uint64_t)1 << 34) /* bytes of a list of files */

typedef struct gf_file_stamp { /* differs if the file has changed */
    uint64_t size, mtime_ns;
} gf_file_stamp;

/* E_IO unless it is a regular file that can be read. A pipe or device is refused, never waited for. `stamp` may be NULL. */
glofnd_status gf_file_open(gf_error *err, const char *path, int *fd, gf_file_stamp *stamp);
/* Exactly n bytes from `offset`: E_FORMAT, with `name`, if the file ends before. */
glofnd_status gf_file_read_at(gf_error *err, int fd, const char *name, uint64_t offset, void *out, size_t n);
/* The whole file, at most `max` bytes, into *bytes (grown by realloc when *capacity is too small; a 0 byte follows the last). */
glofnd_status gf_file_read(gf_error *err, const char *path, uint64_t max, uint8_t **bytes, size_t *capacity, size_t *size);
/* The same, of a text: E_FORMAT if it is UTF-16 or has a zero byte, which would end it early. */
glofnd_status gf_file_read_text(gf_error *err, const char *path, uint64_t max, uint8_t **bytes, size_t *capacity, size_t *size);
/* That check, of bytes that were read otherwise. */
glofnd_status gf_check_text(gf_error *err, const char *path, const void *bytes, size_t size);
/* Calls take(err, user, line, number) for each line of a text, without a byte order mark; the line may be changed. A pipe is
 * fine. E_FORMAT: UTF-16, a zero byte, a line of more than GF_LINE_MAX bytes; E_IO: it cannot be read, which is never its end. */
#define GF_LINE_MAX 2198
glofnd_status gf_each_line(gf_error *err, const char *path,
                           glofnd_status (*take)(gf_error *err, void *user, char *line, int number), void *user);
/* Makes *bytes hold n bytes; content undefined. */
glofnd_status gf_file_reserve(gf_error *err, const char *name, size_t n, uint8_t **bytes, size_t *capacity);
int gf_is_folder(const char *path);
