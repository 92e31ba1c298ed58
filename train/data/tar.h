/* tar.h - the members of a tar archive: POSIX ustar, GNU long names, pax path and size; nothing is unpacked.
 *
 *     gf_tar t = gf_tar_begin(path, fd, size);
 *     for (;;) { TRY(gf_tar_next(err, &t, &m));  if (!m.name) break;  ... pread(fd, ..., m.size, m.at) ... }
 *     gf_tar_end(&t);
 */
#pragma once

#include "util/status.h"

typedef struct gf_tar {
    const char *path; /* for messages */
    int fd;
    uint64_t size, next; /* of the archive; where the next header is */
    char *name;          /* of the member given last */
    int no_end_mark;     /* after the last: the file ends without the two zero blocks that mark its end */
} gf_tar;

typedef struct gf_tar_member { /* a regular file inside */
    const char *name;          /* valid until the next call; NULL after the last */
    uint64_t at, size;         /* its bytes; they lie inside the archive */
} gf_tar_member;

gf_tar gf_tar_begin(const char *path, int fd, uint64_t size);
/* The next regular file; folders, links and devices are skipped. E_FORMAT: corrupt, cut short, empty or not a tar; the
 * message names file, place and remedy. */
glofnd_status gf_tar_next(gf_error *err, gf_tar *t, gf_tar_member *m);
void gf_tar_end(gf_tar *t);

#define GF_TAR_BLOCK 512
/* The header of a regular file (name shorter than 100 bytes, size below 8 GiB), for writing. */
void gf_tar_header(uint8_t block[GF_TAR_BLOCK], const char *name, uint64_t size);
