/* meter.h - a transport between ranks that times itself: before every call it waits for the slowest rank, so that waiting and
 * communication can be separated. Duplicates for other threads are not metered.
 */
#pragma once

#include "dist/comm.h"

typedef struct meter {
    gf_comm head;
    gf_comm *inner; /* borrowed */
    int calls;
    double waiting_ms, talking_ms;
} meter;

void meter_make(meter *m, gf_comm *inner);
void meter_reset(meter *m);
