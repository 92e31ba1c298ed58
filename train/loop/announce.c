/* announce.c - see announce.h. */
#include "loop/announce.h"

#include <stdarg.h>
#include <stdio.h>

#include "run/forecast.h"
#include "util/machine.h"

void gf_pretrain_report(const gf_pretrain *p, const char *fmt, ...) {
    char line[1600];
    va_list args;
    if (!p->report || (p->comm && p->comm->rank > 0)) return;
    va_start(args, fmt);
    vsnprintf(line, sizeof line, fmt, args);
    va_end(args);
    p->report(line);
}

static const char *plural(int64_t n) { return n == 1 ? "" : "s"; }

/* A run that does not fit would be killed in its first steps, without a message. */
static glofnd_status check_memory(gf_error *err, const gf_pretrain *p, const gf_config *c, size_t bytes) {
    const char *what;
    const int64_t limit = gf_memory_limit(&what);
    const int fits = c->method.device != GLOFND_DEVICE_CPU || limit == 0 || bytes <= (size_t)limit;
    FAIL_IF(err, !fits && !p->force, GLOFND_E_MEMORY,
            "about %.0f MB are needed, more than the %.0f MB of %s; a smaller batch or size needs less, --force starts anyway",
            (double)bytes / 1e6, (double)limit / 1e6, what);
    if (!fits) gf_pretrain_report(p, "that is more than the %.0f MB of %s", (double)limit / 1e6, what);
    return GLOFND_OK;
}

glofnd_status gf_pretrain_announce(gf_error *err, const gf_pretrain *p, const gf_trainer *t) {
    const gf_config *c = &t->config;
    size_t bytes = 0;
    char arch[32], name[32], detector[64] = "no detector", text[100] = "", decoding[80] = "", line[300], warning[500];
    gf_config_text(c, "arch", arch, sizeof arch);
    if (c->task == GF_TASK_CLIP)
        snprintf(text, sizeof text, ", captions of %d tokens through %d layers of %d", (int)c->context, (int)c->text_layers,
                 (int)c->text_width);
    gf_config_text(c, "detector", name, sizeof name);
    if (c->method.detector != GLOFND_DETECT_NONE)
        snprintf(detector, sizeof detector, "detector %s after %d epoch%s", name, (int)c->method.mask_epoch,
                 plural(c->method.mask_epoch));
    TRY(gf_trainer_estimate(err, t, &bytes));
    if (t->info.width == 0)
        snprintf(decoding, sizeof decoding, ", large images up to %.0f MB more (max_pixels)",
                 (double)c->max_pixels * GF_PIXEL_BYTES / 1e6);
    gf_pretrain_report(p,
                       "%s: %lld images, %s at %d px%s, batch %lld, %d epoch%s of %lld step%s, peak lr %.4g, %s, "
                       "about %.0f MB%s%s",
                       c->data, (long long)t->info.n, arch, (int)c->size, text, (long long)c->batch, (int)c->epochs,
                       plural(c->epochs), (long long)t->epoch_steps, plural(t->epoch_steps), gf_config_lr(c), detector,
                       (double)bytes / 1e6, c->method.device == GLOFND_DEVICE_CUDA ? " on the GPU" : "", decoding);
    if (*gf_dataset_note(t->data)) gf_pretrain_report(p, "data: %s", gf_dataset_note(t->data));
    if (c->method.loss == GLOFND_LOSS_SIMCLR)
        gf_pretrain_report(p,
                           "loss simclr is the sum over both views per image: twice the mean of NT-Xent over its 2 x batch rows");
    gf_flag_forecast_text(c, t->epoch_steps, line, sizeof line, warning, sizeof warning);
    if (*line) gf_pretrain_report(p, "%s", line);
    if (*warning) gf_pretrain_report(p, "%s", warning);
    for (int k = 0; gf_idle_option(c, k); k++) gf_pretrain_report(p, "note: %s", gf_idle_option(c, k));
    return check_memory(err, p, c, bytes);
}
