/* file.h - files and folders: reading files that may be anything (regular files only, sizes bounded before memory is taken, no
 * shared file position), system calls that a signal does not end, folders that are made, locked and compared. */
#pragma once

#include <dirent.h>
#include <stdio.h>
#include <sys/types.h>

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
/* Calls take(err, user, line, number) for each line of a text, without a byte order mark; the line may be changed. A pipe is
 * fine. E_FORMAT: UTF-16, a zero byte, a line of more than GF_LINE_MAX bytes; E_IO: it cannot be read, which is never its end. */
#define GF_LINE_MAX 2198
glofnd_status gf_each_line(gf_error *err, const char *path,
                           glofnd_status (*take)(gf_error *err, void *user, char *line, int number), void *user);
/* Makes *bytes hold n bytes; content undefined. */
glofnd_status gf_file_reserve(gf_error *err, const char *name, size_t n, uint8_t **bytes, size_t *capacity);
int gf_is_folder(const char *path);

/* ----- system calls on files, repeated while a signal interrupts them ----- */

int gf_open(const char *path, int flags, mode_t mode);
int gf_sync(int fd);
int gf_truncate(int fd, off_t size);
int gf_flock(int fd, int how); /* flock */
/* EINTR counts as success: the descriptor is gone, and repeating would close another thread's. */
int gf_close(int fd);
DIR *gf_open_folder(const char *path);
/* NULL at the end with *error 0, or after a failure with its errno. */
struct dirent *gf_next_entry(DIR *d, int *error);
/* As fopen and fdopen, but reads and writes go on after a signal. fileno() does not work on them. Without memory or after a
 * failure NULL; then gf_stream_of leaves fd open. */
FILE *gf_stream_open(const char *path, const char *mode);
FILE *gf_stream_of(int fd, const char *mode);

/* *yes: something has this name, also a link to nothing. Only ENOENT and ENOTDIR mean no; any other failure is E_IO: a disk that
 * does not answer has not lost its files. */
glofnd_status gf_exists(gf_error *err, const char *path, int *yes);

/* ----- folders that are made with all that is missing above them, and taken back; where paths lead ----- */

/* *made (may be NULL): how many were made, `path` and those above it; 0 if it was there. E_IO if it cannot be made. */
glofnd_status gf_folder_make(gf_error *err, const char *path, int *made);
/* Removes the last `made` folders of `path`, as long as they are empty. */
void gf_folder_unmake(const char *path, int made);
/* The names in it reach the disk, where the file system can do that. */
void gf_folder_sync(const char *path);
/* Opens a folder and locks it: one process at a time. E_IO: it cannot be opened, or another process has the lock. On file systems
 * without locks only opens it. To be closed by gf_close. */
glofnd_status gf_folder_lock(gf_error *err, const char *path, int *fd);
/* The same for processes that share the folder with each other, but not with one that has locked it. */
glofnd_status gf_folder_share(gf_error *err, const char *path, int *fd);
/* 1: another process has the lock of this folder, which exists. */
int gf_folder_in_use(const char *path);
/* 1: both lead to the same file or folder. Also if it does not exist yet: the same name in the same folder. */
int gf_path_same(const char *a, const char *b);
