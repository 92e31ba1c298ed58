/* units.h - discovery in units: of embeddings that are streamed, with finished parts on disk, by one rank or many.
 *
 *     gf_discover_classify_stream(err, &source, &watch, &d);         usable rows and copies, without the rows
 *     gf_discover_run_units(err, &spec, &units, &d, &r);     on rank 0 r is what gf_discover_run() gives, to the bit
 *     gf_unit_folder_remove(units.folder);                   once the result is written
 * All ranks make the same calls with the same arguments; they share the folder.
 *
 * Without ranks: any number of processes with `worker` set share the folder, too. They may come, die and return at any time; each
 * makes units that no other works on, until all are there, and its result is empty. Then a call without `worker` reads them.
 */
#pragma once

#include "discover/discover.h"
#include "pairs/pairs_sweep.h"

typedef struct gf_units {
    const char *folder; /* of finished parts */
    gf_row_source source;
    int force;    /* parts of another search are removed */
    int64_t rows; /* of a unit; 0: chosen */
    int rank, ranks;
    int worker;      /* 1: only makes units, beside other workers; one rank */
    double patience; /* worker: seconds after which a silent one is taken for dead */
    /* NULL: one rank. The first rank with a failure decides; all ranks wait for each other. */
    glofnd_status (*agree)(gf_error *err, void *user, glofnd_status mine);
    void *user;
    /* NULL, or before the work: how it is cut. chunks 0: a search by cells, with rows in the folder */
    void (*report)(void *user, int64_t units, int64_t done, int64_t chunks);
} gf_units;

/* Rows that equal each other in two hashes of 64 bits count as copies: they are not read again to be compared. */
glofnd_status gf_discover_classify_stream(gf_error *err, const gf_row_source *source, const gf_job_progress *watch,
                                          gf_discover_data *d);
glofnd_status gf_discover_run_units(gf_error *err, const gf_discover_spec *s, const gf_units *u, gf_discover_data *d,
                                    gf_discover_result *r);
/* Seconds that gf_discover_run_units() is expected to take on one rank; NAN: not known. Some rows are read. */
double gf_discover_units_seconds(const gf_discover_spec *s, const gf_units *u);
/* Removes the folder, and all that it holds of a search. Other files stay, and then the folder. */
void gf_unit_folder_remove(const char *path);
