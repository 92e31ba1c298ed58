/* device_flags.h - where the encoder of a run works: --device and --threads of `embed`, `discover` and all of `eval`. */
#pragma once

#include "programs/cli.h"
#include "eval/encode.h"

typedef struct device_flags {
    const char *device; /* NULL: as the run was trained */
    int64_t threads;    /* 0: as the run */
} device_flags;

#define DEVICE_USAGE "[--device cpu|cuda] [--threads N]"
/* Their rows; f: a device_flags within s. */
#define DEVICE_FLAGS(s, f)                                                                            \
    CLI_STRING(s, f.device, "device", "NAME",                                                         \
               "cpu or cuda; default: as the run was trained, or the CPU where that cannot be used"), \
        CLI_INTEGER(s, f.threads, "threads", "N", NULL, 1, 1024, "default: as the run; results are the same for any number")

/* CLI_USAGE with a message if there is no such device. */
int device_flags_check(const char *title, const char *device);
int device_flags_read(const cli_call *call, const device_flags *f, gf_encoder_device *out);
/* Reports on stderr the step of the weights, and that the run's own device cannot be used, where that is so. `verb` begins the
 * line. */
void device_flags_report(const char *verb, const gf_run_encoder *e);
/* Opens the encoder and reports. */
glofnd_status device_flags_open(gf_error *err, const char *verb, const gf_run_encoder_spec *spec, gf_run_encoder **out);
