/* averages.h - the averages of similarity BANK, between a store and an array where the steps of its context are. Implemented by
 * the method. */
#pragma once

#include "util/status.h"

/* Averages of the anchors id [n], of one side: rows [n][dim] float16 to the store (put = 1), or from it. On a device id and rows
 * are its memory, the call only queues, in the order of steps, and passes over ids outside of the store, which the step reports.
 * On the CPU it is glofnd_bank_put() or glofnd_bank_get(). */
glofnd_status gf_averages_move(glofnd_ctx *c, glofnd_store *s, int put, int side, const int64_t *id, int64_t n, void *rows);
