/* announce.h - messages of a run for people: what is about to be trained, and lines while it is. */
#pragma once

#include "loop/pretrain.h"
#include "loop/trainer.h"

/* A line, by the first of several ranks. */
void gf_pretrain_report(const gf_pretrain *p, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Before memory is allocated, so that a run that does not fit has reported how much it needs. E_MEMORY: it does not fit. */
glofnd_status gf_pretrain_announce(gf_error *err, const gf_pretrain *p, const gf_trainer *t);
