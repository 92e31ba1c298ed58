/* zip_entries.h - the table of a zip archive, also of zip64: names and places of its entries. Entries are not unpacked. */
#pragma once

#include "util/status.h"

typedef struct gf_zip_entry {
    const char *name;
    uint64_t header_at, size; /* of its local header; bytes of its content */
    int stored;               /* 1: neither compressed nor encrypted */
} gf_zip_entry;

typedef struct gf_zip {
    int fd;           /* borrowed */
    const char *path; /* borrowed; for messages */
    uint64_t file_bytes;
    gf_zip_entry *entry; /* [count] by name, all different */
    size_t count;
    char *names;
} gf_zip;

/* E_FORMAT: not an archive, or its table is corrupt. */
glofnd_status gf_zip_read_table(gf_error *err, int fd, const char *path, uint64_t file_bytes, gf_zip *out);
void gf_zip_free(gf_zip *z);
const gf_zip_entry *gf_zip_find(const gf_zip *z, const char *name); /* NULL: not there */
/* Offset of the content of a stored entry, which lies inside of the file. E_FORMAT: compressed, or corrupt. */
glofnd_status gf_zip_place(gf_error *err, const gf_zip *z, const gf_zip_entry *e, uint64_t *at);
