/* sheet.h - many small pictures as one: tiles of a JPEG, for pages that show one of them at a time. */
#ifndef GF_REPORT_SHEET_H
#define GF_REPORT_SHEET_H

#include "data/dataset.h"

enum { GF_SHEET_COLUMNS = 40 };

/* Samples id [n] of a dataset, each filling a tile of side x side (its middle, if it is no square), row by row; unreadable ones
 * are grey. *jpeg is malloc'ed. E_UNSUPPORTED in a build without libjpeg. */
glofnd_status gf_sheet_make(gf_error *err, const gf_dataset *data, const int64_t *id, int64_t n, int side, int quality,
                            uint8_t **jpeg, size_t *bytes);

#endif
