/* cunn_window_weights.cu - gradient of the weights of 3 x 3 convolutions of stride 1 and 64 channels on Hopper:
 * dw [out][3][3][in] = the sum over pixels of dy [out] x [in], x moved by the window's place.
 *
 * Patches of 8 x 16 pixels (8 x 14 where 16 do not fit) as in cunn_window.cuh: dy as it is, x with a border of a pixel. A
 * warpgroup has one row of the window, [64 out] x [3 x 64 in]: both operands are summed across their rows, the pixels, and the
 * three places in a row of the window are the same numbers one pixel further: one product reads all of them. A block keeps its
 * sums to the end; a second kernel adds those of all blocks, in order, and rounds.
 */
#include "nn/cuda/sm90/cunn_window.cuh"

enum { WEIGHTS_STAGES = 5, WEIGHTS_WORKERS = 384, WEIGHTS_THREADS = WEIGHTS_WORKERS + 128, WEIGHTS_COUNT = 64 * 9 * 64 };

template <int HIGH> struct weights_stage { /* bytes of a patch's dy and x */
    static constexpr int DY = 8 * HIGH * 128, X = WINDOW_LINE * (HIGH + 2), BYTES = DY + (X + 1023) / 1024 * 1024;
    static constexpr int SHARED = WEIGHTS_STAGES * BYTES + 256;
};

struct weights_args {
    CUtensorMap dy, x;
    float *partial; /* [parts][64][9][64] */
    int units, parts, across, per_image;
};

struct weights_tail {
    uint64_t full[WEIGHTS_STAGES], empty[WEIGHTS_STAGES];
};

/* d (+)= dy' x of 16 pixels, for three places of the window. */
static __device__ __forceinline__ void weights_product(float (&d)[24][4], uint64_t a, uint64_t b, int add) {
    asm volatile("{\n.reg .pred add;\nsetp.ne.b32 add, %98, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n192k16.f32.bf16.bf16 {" WINDOW_NAMES_96 "}, %96, %97, add, 1, 1, 1, 1;\n}"
                 : GF_WG_EACH("+f", d), GF_WG_QUAD("+f", d, 16), GF_WG_QUAD("+f", d, 17), GF_WG_QUAD("+f", d, 18),
                   GF_WG_QUAD("+f", d, 19), GF_WG_QUAD("+f", d, 20), GF_WG_QUAD("+f", d, 21), GF_WG_QUAD("+f", d, 22),
                   GF_WG_QUAD("+f", d, 23)
                 : "l"(a), "l"(b), "r"(add));
}

/* One thread. */
template <int HIGH>
static __device__ __forceinline__ void weights_load(const weights_args &p, uint32_t slots, weights_tail *tail) {
    typedef weights_stage<HIGH> stage;
    window_place at = {0, WEIGHTS_STAGES, 0, 0};
    for (int unit = blockIdx.x; unit < p.units; unit += p.parts, at.advance()) {
        const int within = unit % p.per_image;
        const window_patch patch = {unit / p.per_image, within % p.across * 8, within / p.across * HIGH};
        const uint32_t ready = gf_shared_address(&tail->full[at.slot()]), to = slots + at.slot() * stage::BYTES;
        gf_barrier_wait(gf_shared_address(&tail->empty[at.slot()]), at.lap ^ 1);
        gf_barrier_expect(ready, stage::DY + stage::X);
        window_copy(to, &p.dy, 0, patch, 0, 0, ready);
        window_copy(to + stage::DY, &p.x, 0, patch, -1, -1, ready);
    }
}

/* The sums of row `ky` of the window. */
template <int HIGH>
static __device__ __forceinline__ void weights_sum(const weights_args &p, uint32_t slots, weights_tail *tail, int ky) {
    typedef weights_stage<HIGH> stage;
    float d[24][4];
    window_place at = {0, WEIGHTS_STAGES, 0, 0};
    window_pin(d);
    for (int unit = blockIdx.x; unit < p.units; unit += p.parts) {
        const uint32_t dy = slots + at.slot() * stage::BYTES, x = dy + stage::DY + ky * WINDOW_LINE;
        gf_barrier_wait(gf_shared_address(&tail->full[at.slot()]), at.lap);
        gf_wg_begin();
#pragma unroll
        for (int k = 0; k < HIGH / 2; k++) /* two lines of 8 pixels each; 128 bytes to the next place of the window */
            weights_product(d, gf_operand_at(dy + 2048 * k, 16), window_operand(x + 2 * WINDOW_LINE * k, WINDOW_LINE, 128),
                            unit > (int)blockIdx.x || k > 0);
        gf_wg_commit();
        gf_wg_wait<1>();
        if (unit > (int)blockIdx.x) window_release(&tail->empty[at.before()], 1);
        at.advance();
    }
    gf_wg_wait<0>();
    window_pin(d);
    const int lane = threadIdx.x % 32, row = threadIdx.x % 128 / 32 * 16 + lane / 4;
    float *to = p.partial + (int64_t)blockIdx.x * WEIGHTS_COUNT + ky * 3 * 64 + lane % 4 * 2;
#pragma unroll
    for (int j = 0; j < 24; j++)
#pragma unroll
        for (int half = 0; half < 2; half++)
            __stcg(reinterpret_cast<float2 *>(to + (row + 8 * half) * 9 * 64 + 8 * j),
                   make_float2(d[j][2 * half], d[j][2 * half + 1]));
}

template <int HIGH>
static __global__ void __launch_bounds__(WEIGHTS_THREADS, 1) weights_kernel(const __grid_constant__ weights_args p) {
    extern __shared__ __align__(1024) unsigned char base[];
    const uint32_t slots = gf_shared_address(base);
    weights_tail *tail = reinterpret_cast<weights_tail *>(base + WEIGHTS_STAGES * weights_stage<HIGH>::BYTES);
    if (threadIdx.x == 0) {
        for (int i = 0; i < WEIGHTS_STAGES; i++) {
            gf_barrier_init(gf_shared_address(&tail->full[i]), 1);
            gf_barrier_init(gf_shared_address(&tail->empty[i]), WEIGHTS_WORKERS / 32);
        }
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    }
    __syncthreads();
    if (gf_wg_index() == WEIGHTS_WORKERS / 128) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
        if (threadIdx.x == WEIGHTS_WORKERS) weights_load<HIGH>(p, slots, tail);
    } else {
        gf_wg_take_registers<152>();
        weights_sum<HIGH>(p, slots, tail, gf_wg_index());
    }
}

/* dw = the sum over parts, in order. */
static __global__ void weights_add_kernel(__nv_bfloat16 *dw, const float *partial, int parts) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    float sum = 0.0f;
#pragma unroll 12
    for (int k = 0; k < parts; k++) sum += __ldcg(partial + (int64_t)k * WEIGHTS_COUNT + i);
    dw[i] = __float2bfloat16(sum);
}

/* ----- launchers --------------------------------------------------------------------------------------------------- */

/* Lines of a patch; 0: none fits. */
static int weights_high(const gf_nn_shape *c) { return c->h % 16 == 0 ? 16 : c->h % 14 == 0 ? 14 : 0; }
static int64_t weights_units(const gf_nn_shape *c) { return c->n * (c->w / 8) * (c->h / weights_high(c)); }

static int weights_parts(const gf_nn_engine *s, const gf_nn_shape *c) {
    const int64_t units = weights_units(c);
    return units < s->multiprocessors ? (int)units : s->multiprocessors;
}

size_t gf_cunn_window_weights_scratch(const gf_nn_engine *s, const gf_nn_shape *c) {
    if (!s->hopper || c->kind != GF_NN_CONV || c->type != GF_TYPE_BF16 || c->kernel != 3 || c->stride != 1 || c->pad != 1 ||
        c->in != 64 || c->out != 64 || c->w % 8 != 0 || weights_high(c) == 0 || c->n * c->h * c->w >= 1 << 30 ||
        weights_stage<16>::SHARED > s->shared)
        return 0;
    return sizeof(float) * WEIGHTS_COUNT * (size_t)weights_parts(s, c);
}

template <int HIGH> static cudaError_t weights_launch(gf_nn_engine *s, const weights_args &p) {
    constexpr int bytes = weights_stage<HIGH>::SHARED;
    const cudaError_t e = cudaFuncSetAttribute(weights_kernel<HIGH>, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
    if (e != cudaSuccess) return e;
    weights_kernel<HIGH><<<(unsigned)p.parts, WEIGHTS_THREADS, bytes, s->stream>>>(p);
    return cudaGetLastError();
}

void gf_cunn_window_weights(gf_nn_engine *s, const gf_nn_shape *c, const gf_nn_args *a, void *dw) {
    const int high = weights_high(c);
    weights_args p = {};
    p.partial = (float *)a->scratch, p.units = (int)weights_units(c), p.parts = weights_parts(s, c);
    p.across = (int)(c->w / 8), p.per_image = p.across * (int)(c->h / high);
    const int64_t size[4] = {64, c->w, c->h, c->n};
    const int plain[4] = {64, 8, high, 1}, border[4] = {64, 10, high + 2, 1};
    cudaError_t e = gf_box_map(&p.dy, a->dy, 4, size, plain);
    if (e == cudaSuccess) e = gf_box_map(&p.x, a->x, 4, size, border);
    if (e == cudaSuccess) e = high == 16 ? weights_launch<16>(s, p) : weights_launch<14>(s, p);
    if (e == cudaSuccess) {
        weights_add_kernel<<<WEIGHTS_COUNT / 256, 256, 0, s->stream>>>((__nv_bfloat16 *)dw, p.partial, p.parts);
        e = cudaGetLastError();
    }
    gf_cunn_note(s, e, "gradient of a convolution's weights");
}
