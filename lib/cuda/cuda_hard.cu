/* cuda_hard.cu - hard_beta: a pair weighs the difference of two powers of exp(S/tau), each of which has a pass C. */
#include "cuda/cuda_step.h"

#define THREADS 256

static __global__ void __launch_bounds__(THREADS) subtract(const gf_cuda_step x, const int64_t rows, const int64_t ld) {
    const int64_t at = int64_t(blockIdx.x) * THREADS + threadIdx.x;
    const gf_cuda_side &side = x.side[blockIdx.y];
    if (at < rows * ld && at % ld < x.dim) side.every.grad[at] -= side.hard_grad[at];
}

cudaError_t gf_cuda_subtract_hard(const gf_cuda_step *x, cudaStream_t stream) {
    const int64_t own = x->plan.rows * x->plan.per_sample, ld = x->side[0].z.f32.ld;
    const unsigned blocks = static_cast<unsigned>((own * ld + THREADS - 1) / THREADS);
    subtract<<<dim3(blocks, x->plan.sides), THREADS, 0, stream>>>(*x, own, ld);
    return cudaGetLastError();
}
