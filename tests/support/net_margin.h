/* net_margin.h - nets without numbers near the kinks of their ReLUs. */
#pragma once

#include "nn/net.h"

/* Moves the biases of batch norms by `by`, up in one channel and down in the next: what a ReLU sees then lies far from its kink,
 * and roundings cannot carry it across. */
void net_leave_kinks(gf_net *n, float by);
