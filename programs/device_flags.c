/* device_flags.c - see device_flags.h. */
#include "programs/device_flags.h"

#include <stdio.h>
#include <string.h>

int device_flags_check(const char *title, const char *device) {
    gf_error err = {{0}};
    glofnd_device found;
    const glofnd_status status = gf_run_encoder_device(&err, device, &found);
    return status == GLOFND_OK ? CLI_OK : cli_failed(title, status, &err);
}

int device_flags_read(const cli_call *call, const device_flags *f, gf_encoder_device *out) {
    *out = (gf_encoder_device){.device = f->device, .threads = (int)f->threads};
    return f->device ? device_flags_check(call->title, f->device) : CLI_OK;
}

void device_flags_report(const char *verb, const gf_run_encoder *e) {
    const gf_run_state *s = gf_run_encoder_state(e);
    const char *why = gf_run_encoder_cpu_fallback(e);
    if (*s->weights && s->step >= 0)
        gf_print(stderr, "glofnd %s: weights of step %lld, %s\n", verb, (long long)s->step, s->weights);
    if (*gf_run_encoder_data(e) && strcmp(gf_run_encoder_data(e), gf_run_encoder_config(e)->data) != 0)
        gf_print(stderr, "glofnd %s: data of the run: %s\n", verb, gf_run_encoder_data(e));
    if (*s->weights && *s->note) gf_print(stderr, "glofnd %s: note: %s\n", verb, s->note);
    if (*why) gf_print(stderr, "glofnd %s: the run was trained on cuda, which cannot be used here (%s): on the CPU\n", verb, why);
}

glofnd_status device_flags_open(gf_error *err, const char *verb, const gf_run_encoder_spec *spec, gf_run_encoder **out) {
    TRY(gf_run_encoder_create(err, spec, out));
    device_flags_report(verb, *out);
    return GLOFND_OK;
}
