/* simd_neon.h - the vector types of simd.h for NEON: four lanes. The operations, their order and the order of sums are those of
 * the plain C vectors, so both give the same bits on one machine; what differs is that masks become bits, products of tiles use
 * all 32 registers, and bf16 is converted in vectors. Included by simd.h alone.
 */
#pragma once

#include <arm_neon.h>

#define GF_LANES 4
typedef float32x4_t vf;
typedef uint32x4_t vm;
typedef int32x4_t vi;

GF_INLINE vf vf_load(const float *p) { return vld1q_f32(p); }
GF_INLINE void vf_store(float *p, vf a) { vst1q_f32(p, a); }
GF_INLINE vf vf_set(float x) { return vdupq_n_f32(x); }
GF_INLINE vf vf_add(vf a, vf b) { return vaddq_f32(a, b); }
GF_INLINE vf vf_sub(vf a, vf b) { return vsubq_f32(a, b); }
GF_INLINE vf vf_mul(vf a, vf b) { return vmulq_f32(a, b); }
GF_INLINE vf vf_fma(vf a, vf b, vf c) { return vfmaq_f32(c, a, b); }
GF_INLINE vf vf_pick(vm m, vf a, vf b) { return vbslq_f32(m, a, b); }
GF_INLINE vf vf_max(vf a, vf b) { return vbslq_f32(vcgtq_f32(a, b), a, b); } /* b where a is NaN, unlike vmaxq */
GF_INLINE vf vf_min(vf a, vf b) { return vbslq_f32(vcltq_f32(a, b), a, b); }
GF_INLINE vf vf_round(vf a) { return vrndnq_f32(a); }
GF_INLINE vf vf_scale2(vf a, vf n) {
    const int32x4_t e = vshlq_n_s32(vaddq_s32(vcvtq_s32_f32(n), vdupq_n_s32(127)), 23);
    return vmulq_f32(a, vreinterpretq_f32_s32(e));
}
GF_INLINE vm vm_le(vf a, vf b) { return vcleq_f32(a, b); }
GF_INLINE vm vm_lt(vf a, vf b) { return vcltq_f32(a, b); }
GF_INLINE vm vm_eq(vf a, vf b) { return vceqq_f32(a, b); }
GF_INLINE vm vm_and(vm a, vm b) { return vandq_u32(a, b); }
GF_INLINE vm vm_or(vm a, vm b) { return vorrq_u32(a, b); }
GF_INLINE vm vm_andnot(vm a, vm b) { return vbicq_u32(a, b); }
GF_INLINE unsigned vm_bits(vm m) { return vaddvq_u32(vandq_u32(m, (uint32x4_t){1, 2, 4, 8})); }
GF_INLINE vm vm_of_bits(unsigned bits) { return vtstq_u32(vdupq_n_u32(bits), (uint32x4_t){1, 2, 4, 8}); }
GF_INLINE vf vf_keep(vm m, vf a) { return vreinterpretq_f32_u32(vandq_u32(m, vreinterpretq_u32_f32(a))); }
GF_INLINE vf vf_addm(vf a, vm m, vf b) { return vaddq_f32(a, vf_keep(m, b)); }
GF_INLINE vi vi_load(const int32_t *p) { return vld1q_s32(p); }
GF_INLINE void vi_store(int32_t *p, vi a) { vst1q_s32(p, a); }
GF_INLINE vi vi_set(int32_t x) { return vdupq_n_s32(x); }
GF_INLINE vm vi_eq(vi a, vi b) { return vceqq_s32(a, b); }
GF_INLINE vm vi_gt(vi a, vi b) { return vcgtq_s32(a, b); }
GF_INLINE vi vi_count(vi c, vm m) { return vsubq_s32(c, vreinterpretq_s32_u32(m)); }
GF_INLINE float vf_sum(vf a) { /* (a0 + a2) + (a1 + a3) */
    const float32x2_t s = vadd_f32(vget_low_f32(a), vget_high_f32(a));
    return vget_lane_f32(s, 0) + vget_lane_f32(s, 1);
}
GF_INLINE float vf_top(vf a) { return vmaxnmvq_f32(a); } /* as fmaxf: a number rather than NaN */

GF_INLINE vf vf_load_bf16(const uint16_t *p) { return vreinterpretq_f32_u32(vshll_n_u16(vld1_u16(p), 16)); }
GF_INLINE void vf_store_bf16(uint16_t *p, vf a) {
    const uint32x4_t bits = vreinterpretq_u32_f32(a), high = vshrq_n_u32(bits, 16);
    const uint32x4_t odd = vandq_u32(high, vdupq_n_u32(1));
    const uint32x4_t near = vshrq_n_u32(vaddq_u32(bits, vaddq_u32(odd, vdupq_n_u32(0x7fff))), 16);
    const uint32x4_t quiet = vorrq_u32(high, vdupq_n_u32(0x40));
    vst1_u16(p, vmovn_u32(vbslq_u32(vceqq_f32(a, a), near, quiet)));
}
