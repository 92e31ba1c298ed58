/* stored_rows.h - what a result keeps of its rows beside the tables, so that `discover --from` can decide again: rows.npy and
 * names.txt. */
#pragma once

#include "discover/discover_files.h"

enum { GF_STORED_COPY, GF_STORED_COPIES, GF_STORED_LABEL, GF_STORED_COLUMNS }; /* of rows.npy, int32 */
enum { GF_STORED_NOT_FINITE = -1, GF_STORED_ZERO = -2 };                       /* GF_STORED_COPY of a bad row */

/* rows.npy: the first row of the same bytes, the number of duplicates, the label (-1: unknown) of each row. names.txt: a name per
 * line, if there are names; escaped (util/text.h) if one of them is not a line. */
glofnd_status gf_stored_rows_write(gf_error *err, const gf_output_folder *to, const gf_discover_report *x);
/* 1: names.txt is escaped. */
int gf_stored_names_escaped(const gf_discover_data *d);
/* The names of the classes of d, one per line, if its labels have names. */
glofnd_status gf_stored_classes_write(gf_error *err, const gf_output_folder *to, const gf_discover_report *x,
                                      const gf_discover_data *d, const char *name);
