/* epoch_watch.c - see epoch_watch.h. */
#include "loop/epoch_watch.h"

#include <math.h>

#include "loop/announce.h"

glofnd_status gf_epoch_prepare(gf_error *err, const gf_pretrain *p, const gf_trainer *t) {
    const gf_config *c = &t->config;
    if (!p->watch) return GLOFND_OK;
    if (p->left_out)
        gf_pretrain_report(p, "on_epoch of a file is not run; to run it, give it on the command line: --on-epoch '%s'",
                           p->left_out);
    if (*c->on_epoch) gf_pretrain_report(p, "on_epoch: after every epoch `%s` is run", c->on_epoch);
    return c->eval_every > 0 ? p->watch->prepare(err, p->watch->user, t) : GLOFND_OK;
}

double gf_epoch_measure(const gf_pretrain *p, const gf_trainer *t) {
    const int64_t epochs = t->step / t->epoch_steps;
    gf_error err = {{0}};
    double top1 = NAN;
    if (!p->watch || t->config.eval_every < 1) return NAN;
    if (epochs % t->config.eval_every != 0 && epochs < t->config.epochs) return NAN;
    const glofnd_status status = p->watch->measure(&err, p->watch->user, t, &top1);
    if (status != GLOFND_OK) gf_pretrain_report(p, "no evaluation of epoch %lld: %s", (long long)epochs, err.text);
    return status == GLOFND_OK ? top1 : NAN;
}
