/* manifest.h - DONE, the last file of a checkpoint: one line "checksum bytes name" for each of the others, and "end LINES".
 *
 * The checksum has 16 hexadecimal digits and depends on every byte. Earlier it was the file's CRC-32C, 8 digits; where sections
 * of a file end in their own CRC-32C, that one depends on the length alone, because the CRC of data followed by its CRC is a
 * constant. Such lines of older checkpoints, which have no end line, are still accepted, for what they are worth.
 */
#ifndef GF_RUN_MANIFEST_H
#define GF_RUN_MANIFEST_H

#include "io/blockfile.h"
#include "run/layout.h"

/* The line of a file of `folder`, to the writer of DONE. */
glofnd_status gf_manifest_add(gf_error *err, gf_writer *w, const char *folder, const char *name);
/* After the last of `lines`. */
glofnd_status gf_manifest_end(gf_writer *w, int lines);
/* E_FORMAT names a file of which length or checksum is another, or one of the `count` needed ones that is not listed. */
glofnd_status gf_manifest_check(gf_error *err, const char *folder, const char *const *needed, int count);
/* The same of one file, if it is listed. */
glofnd_status gf_manifest_check_one(gf_error *err, const char *folder, const char *name, int *listed);

#endif
