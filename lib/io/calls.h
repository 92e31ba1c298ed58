/* calls.h - system calls on files, repeated while a signal interrupts them; and the difference between "it does not exist" and
 * "that cannot be known".
 */
#pragma once

#include <dirent.h>
#include <stdio.h>
#include <sys/types.h>

#include "util/status.h"

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
