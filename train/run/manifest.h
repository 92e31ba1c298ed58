/* manifest.h - DONE, the last file of a checkpoint: one line "checksum bytes name" for each of the others, and "end LINES".
 *
 * The checksum has 16 hexadecimal digits and depends on every byte. Earlier it was the file's CRC-32C, 8 digits; where sections
 * of a file end in their own CRC-32C, that one depends on the length alone, because the CRC of data followed by its CRC is a
 * constant. Older checkpoints have such lines, and no end line; they are still accepted.
 */
#pragma once

#include "util/status.h"

/* Writes FOLDER/DONE, which lists the files `name` [count] of the folder. */
glofnd_status gf_manifest_write(gf_error *err, const char *folder, const char *const *name, int count);
/* Writes FOLDER/DONE again, with the same names, after `name` was replaced. */
glofnd_status gf_manifest_renew(gf_error *err, const char *folder, const char *name);
/* Checks every listed file. E_FORMAT names one whose length or checksum differs, or one of the `count` needed files that is not
 * listed. */
glofnd_status gf_manifest_check(gf_error *err, const char *folder, const char *const *needed, int count);
/* Checks one file, if it is listed. */
glofnd_status gf_manifest_check_one(gf_error *err, const char *folder, const char *name, int *listed);
/* *same: OTHER/name has the length and checksum that FOLDER/DONE lists. */
glofnd_status gf_manifest_same(gf_error *err, const char *folder, const char *other, const char *name, int *same);
