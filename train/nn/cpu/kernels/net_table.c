/* net_table.c - the kernels of networks of one instruction set in one table. */
#include "cpu/kernels/simd.h"
#include "nn/cpu/kernels/net_kernels.h"

#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)

extern const gf_norm_ops GF_NAME(gf_norm_ops);
extern const gf_row_ops GF_NAME(gf_row_ops);
extern const gf_wino_ops GF_NAME(gf_wino_ops);
extern const gf_net_kernels GF_NAME(gf_net_kernels);

const gf_net_kernels GF_NAME(gf_net_kernels) = {
    .isa = TEXT(GF_ISA),
    .norm = &GF_NAME(gf_norm_ops),
    .row = &GF_NAME(gf_row_ops),
    .wino = &GF_NAME(gf_wino_ops),
};
