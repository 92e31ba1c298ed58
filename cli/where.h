/* where.h - where the encoder of a run works: --device and --threads of `embed`, `discover` and all of `eval`. */
#ifndef GF_CLI_WHERE_H
#define GF_CLI_WHERE_H

#include "cli.h"
#include "eval/encode.h"

typedef struct where_flags {    /* texts; NULL: not given */
    const char *device, *threads;
} where_flags;

/* Their rows in a table of flags; w: a where_flags. */
#define WHERE_USAGE "[--device cpu|cuda] [--threads N]"
#define WHERE_FLAGS(w)                                                                                                      \
    {"device", "NAME", "cpu or cuda; default: as the run was trained, or the CPU where that cannot be used", &(w).device},  \
    {"threads", "N", "default: as the run; results are the same for any number", &(w).threads}

/* CLI_USAGE with a message: there is no such device, this is no number of threads. */
int where_check_device(const char *title, const char *device);
int where_read(const char *title, const where_flags *w, gf_encoder_where *out);
/* Says, where it is so, that the run's own device cannot be used. `verb`: what the line begins with. */
void where_tell(const char *verb, const gf_encoder *e);
/* Opens the encoder and tells. */
glofnd_status where_open(gf_error *err, const char *verb, const gf_encoder_spec *spec, gf_encoder **out);

#endif
