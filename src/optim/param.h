/* param.h - what an optimizer sees of a network: a list of flat tensors (gf_param, ifc/optim_rule.h).
 *
 * Every optimizer is a pure function over such a list: no allocation, no I/O, no hidden state. Storage is float32, arithmetic
 * float64; sums run in a fixed order, so equal inputs give equal bits. State starts as zeros and belongs to the caller.
 */
#ifndef GF_OPTIM_PARAM_H
#define GF_OPTIM_PARAM_H

#include "ifc/optim_rule.h"

/* The rule for `decay`: at least two axes, and a name (may be NULL) without bn, ln or bias in it. */
int gf_param_decays(int axes, const char *name);
/* The rule for `adapt`: at least two axes. Vectors (biases, scales and shifts of normalisations) take plain steps. */
int gf_param_adapts(int axes);

/* sqrt(sum (x + c*y)^2) in float64; y may be NULL if c is 0. */
double gf_param_norm(const float *x, const float *y, double c, size_t n);

#endif
