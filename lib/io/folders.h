/* folders.h - folders that are made with all that is missing above them, and taken back; where paths lead. */
#pragma once

#include "util/status.h"

/* *made (may be NULL): how many were made, `path` and those above it; 0 if it was there. E_IO if it cannot be made. */
glofnd_status gf_folder_make(gf_error *err, const char *path, int *made);
/* Removes the last `made` folders of `path`, as long as they are empty. */
void gf_folder_unmake(const char *path, int made);
/* The names in it reach the disk, where the file system can do that. */
void gf_folder_sync(const char *path);
/* Opens a folder and locks it: one process at a time. E_IO: it cannot be opened, or another process has the lock. On file systems
 * without locks only opens it. To be closed by gf_close. */
glofnd_status gf_folder_lock(gf_error *err, const char *path, int *fd);
/* 1: another process has the lock of this folder, which exists. */
int gf_folder_in_use(const char *path);
/* 1: both lead to the same file or folder. Also if it does not exist yet: the same name in the same folder. */
int gf_path_same(const char *a, const char *b);
