/* device_flags.h - where the encoder of a run works: --device and --threads of `embed`, `discover` and all of `eval`. */
#ifndef GF_CLI_DEVICE_FLAGS_H
#define GF_CLI_DEVICE_FLAGS_H

#include "cli/cli.h"
#include "eval/encode.h"

typedef struct device_flags { /* texts; NULL: not given */
    const char *device, *threads;
} device_flags;

/* Their rows in a table of flags; w: a device_flags. */
#define DEVICE_USAGE "[--device cpu|cuda] [--threads N]"
#define DEVICE_FLAGS(w)                                                                                                      \
    {"device", "NAME", "cpu or cuda; default: as the run was trained, or the CPU where that cannot be used", &(w).device}, { \
        "threads", "N", "default: as the run; results are the same for any number", &(w).threads                             \
    }

/* CLI_USAGE with a message: there is no such device, this is no number of threads. */
int device_flags_check(const char *title, const char *device);
int device_flags_read(const char *title, const device_flags *w, gf_encoder_device *out);
/* Says, where it is so, that the run's own device cannot be used. `verb`: what the line begins with. */
void device_flags_report(const char *verb, const gf_run_encoder *e);
/* Opens the encoder and tells. */
glofnd_status device_flags_open(gf_error *err, const char *verb, const gf_run_encoder_spec *spec, gf_run_encoder **out);

#endif
