/* where.c - see where.h. */
#include "where.h"

#include <stdio.h>

enum { MOST_THREADS = 1024 };   /* as the option of a run */

int where_check_device(const char *title, const char *device) {
    gf_error err = {{0}};
    glofnd_device found;
    const glofnd_status status = gf_encoder_device(&err, device, &found);
    return status == GLOFND_OK ? CLI_OK : cli_failed(title, status, &err);
}

int where_read(const char *title, const where_flags *w, gf_encoder_where *out) {
    int64_t threads = 0;
    int code = w->device ? where_check_device(title, w->device) : CLI_OK;
    if (code == CLI_OK && w->threads) code = cli_whole("threads", w->threads, 1, MOST_THREADS, &threads);
    *out = (gf_encoder_where){.device = w->device, .threads = (int)threads};
    return code;
}

void where_tell(const char *verb, const gf_encoder *e) {
    const char *why = gf_encoder_moved(e);
    if (*why) fprintf(stderr, "glofnd %s: the run was trained on cuda, which cannot be used here (%s): on the CPU\n", verb, why);
}

glofnd_status where_open(gf_error *err, const char *verb, const gf_encoder_spec *spec, gf_encoder **out) {
    TRY(gf_encoder_open(err, spec, out));
    where_tell(verb, *out);
    return GLOFND_OK;
}
