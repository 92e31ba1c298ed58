/* param.h - what an optimizer sees of a network: a list of flat tensors.
 *
 * Every optimizer is a pure function over such a list: no allocation, no I/O, no hidden state. Storage is float32, arithmetic
 * float64; sums run in a fixed order, so equal inputs give equal bits. State starts as zeros and belongs to the caller.
 */
#ifndef GF_OPTIM_PARAM_H
#define GF_OPTIM_PARAM_H

#include <stddef.h>
#include <stdint.h>

typedef struct gf_param {
    float *p;                   /* [n] weights, updated */
    const float *g;             /* [n] gradient */
    float *state1;              /* [n] momentum; AdamW: first moment */
    float *state2;              /* [n] AdamW: second moment; else NULL */
    size_t n;
    int decay;                  /* 1: weight decay applies */
    int adapt;                  /* 1: LARS trust ratio applies */
} gf_param;

/* The rule for `decay`: at least two axes, and a name (may be NULL) without bn, ln or bias in it. */
int gf_param_decays(int axes, const char *name);
/* The rule for `adapt`: at least two axes. Vectors (biases, scales and shifts of normalisations) take plain steps. */
int gf_param_adapts(int axes);

/* sqrt(sum (x + c*y)^2) in float64; y may be NULL if c is 0. */
double gf_param_norm(const float *x, const float *y, double c, size_t n);

#endif
