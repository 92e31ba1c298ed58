/* cpu_isa.h - the instruction set the kernels use on this machine, for the build info. */
#ifndef GF_CPU_KERNELS_CPU_ISA_H
#define GF_CPU_KERNELS_CPU_ISA_H

const char *gf_cpu_isa_name(void);

#endif
