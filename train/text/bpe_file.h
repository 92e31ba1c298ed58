/* bpe_file.h - text files that may be gzip: merges files, read and written. */
#pragma once

#include "util/status.h"

#define GF_BPE_FILE_MAX ((size_t)64 << 20) /* bytes, packed or not */

/* The text of the file, unpacked if it begins as gzip does; to be freed. E_FORMAT: corrupt, or more than GF_BPE_FILE_MAX. */
glofnd_status gf_bpe_file_read(gf_error *err, const char *path, char **text, size_t *n);
/* The same from memory. `bytes` may be freed afterwards. */
glofnd_status gf_gunzip(gf_error *err, const char *name, const uint8_t *bytes, size_t n, char **text, size_t *size);
/* Writes the file under its name only when it is complete; a name that ends in .gz is packed. */
glofnd_status gf_bpe_file_write(gf_error *err, const char *path, const char *text, size_t n);
