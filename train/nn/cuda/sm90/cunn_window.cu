/* cunn_window.cu - 3 x 3 convolutions of stride 1 whose epilogue does a part of a batch norm (cunn_window.cuh):
 *   forward   y = x * w, and the statistics of the batch norm that follows;
 *   backward  g = (dy * w turned around + the other part of the gradient, if there is one) where ReLU let pass: the gradient of
 *             the norm before, with the sums of its backward, and of its shortcut's.
 */
#include "nn/cuda/sm90/cunn_window_norm.cuh"

/* ----- the kernel -------------------------------------------------------------------------------------------------- */

template <bool SHARED> static __device__ __forceinline__ void window_begin(const window_space &s, const window_args &p) {
    if (threadIdx.x == 0) {
        for (int i = 0; i < p.slots * (SHARED ? 1 : 2); i++) {
            gf_barrier_init(gf_shared_address(&s.tail->full[i]), 1);
            gf_barrier_init(gf_shared_address(&s.tail->empty[i]), SHARED ? 8 : 4);
            for (int g = 0; g < 2; g++) gf_barrier_init(gf_shared_address(&s.tail->out_full[g][i]), 4);
        }
        for (int i = 0; i < p.weights; i++) {
            gf_barrier_init(gf_shared_address(&s.tail->weights_full[i]), 1);
            gf_barrier_init(gf_shared_address(&s.tail->weights_empty[i]), 8);
        }
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    }
    __syncthreads();
}

struct window_job {      /* of a block */
    int n0, part, group; /* its first column; alone: group 0 or 1, part and column of the warpgroup */
};

template <bool SHARED> static __device__ __forceinline__ window_job window_job_of(const window_args &p, int group) {
    const int strip = blockIdx.x % p.strips, block = blockIdx.x / p.strips;
    return {strip * (SHARED ? 128 : 64), SHARED ? block : 2 * block + group, group};
}

/* The next slot of the ring, with `bytes` on their way. */
static __device__ __forceinline__ uint32_t window_expect(const window_space &s, const window_place &at, int bytes) {
    const uint32_t ready = gf_shared_address(&s.tail->full[at.slot()]);
    gf_barrier_wait(gf_shared_address(&s.tail->empty[at.slot()]), at.lap ^ 1);
    gf_barrier_expect(ready, bytes);
    return ready;
}

/* One thread: the pixels of one warpgroup, or of both. */
template <bool SHARED, class Work>
static __device__ __forceinline__ void window_load(const window_args &p, const window_space &s, const window_job &job) {
    window_place at = window_ring<SHARED>(p, job.group);
    for (int unit = job.part; unit < p.units; unit += p.parts) {
        const window_patch patch = window_patch_of(p, unit);
        for (int i = 0; i < p.chunks; i++, at.advance()) {
            const uint32_t ready = window_expect(s, at, Work::PATCHES * p.border), to = s.slots + at.slot() * p.slot;
            for (int q = 0; q < Work::PATCHES; q++) window_copy(to + q * p.slot / 2, &p.a, 64 * i, patch, 8 * q - 1, -1, ready);
        }
        for (int g = 0; g < (SHARED ? 2 : 1); g++)
            for (int i = 0; i < Work::EXTRA; i++, at.advance()) { /* x of the shortcut, x, the other part of the gradient */
                const int bytes = 8 * p.high * 128, which = i + 3 - (Work::OTHER ? Work::EXTRA : 2);
                const uint32_t ready = window_expect(s, at, Work::PATCHES * bytes), to = s.slots + at.slot() * p.slot;
                for (int q = 0; q < Work::PATCHES; q++)
                    window_copy(to + q * bytes,
                                which == 0   ? &p.x2
                                : which == 1 ? &p.x
                                             : &p.out,
                                job.n0 + 64 * g, patch, 8 * q, 0, ready);
            }
    }
}

/* One thread. Alone: all weights, once. */
template <bool SHARED, class Work>
static __device__ __forceinline__ void window_load_weights(const window_args &p, const window_space &s, const window_job &job) {
    constexpr int BLOCK = WINDOW_BLOCK * (SHARED ? 2 : 1);
    window_place at = {0, p.weights, 0, 0};
    for (int unit = job.part; unit < p.units; unit += p.parts) {
        for (int i = 0; i < 9 * p.chunks; i++, at.advance()) {
            const uint32_t ready = gf_shared_address(&s.tail->weights_full[at.slot()]), to = s.weights + at.slot() * BLOCK;
            const int chunk = i / 9 * 64, tap = i % 9;
            if (SHARED) gf_barrier_wait(gf_shared_address(&s.tail->weights_empty[at.slot()]), at.lap ^ 1);
            gf_barrier_expect(ready, BLOCK);
            if (!Work::BACK) window_copy_weights(to, &p.w, chunk, tap, job.n0, ready);
            else
                for (int g = 0; g < (SHARED ? 2 : 1); g++)
                    window_copy_weights(to + g * WINDOW_BLOCK, &p.w, job.n0 + 64 * g, 8 - tap, chunk, ready);
        }
        if (!SHARED) return;
    }
}

/* One thread: the results of one warpgroup. */
template <bool SHARED, class Work>
static __device__ __forceinline__ void window_store_all(const window_args &p, const window_space &s, const window_job &job) {
    const int each = p.chunks + Work::EXTRA * (SHARED ? 2 : 1);
    const int mine = !SHARED ? each - 1 : Work::BACK ? p.chunks + (job.group + 1) * Work::EXTRA - 1 : p.chunks - 1 - job.group;
    window_place at = window_ring<SHARED>(p, job.group);
    unsigned laps = 0; /* a bit per slot */
    for (int unit = job.part; unit < p.units; unit += p.parts) {
        const window_patch patch = window_patch_of(p, unit);
        for (int i = 0; i < mine; i++) at.advance();
        gf_barrier_wait(gf_shared_address(&s.tail->out_full[job.group][at.slot()]), laps >> at.slot() & 1);
        laps ^= 1u << at.slot();
        for (int q = 0; q < Work::PATCHES; q++)
            window_store(&p.out, s.slots + at.slot() * p.slot + q * 8 * p.high * 128, job.n0 + (SHARED ? 64 * job.group : 0),
                         patch, 8 * q);
        asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
        window_free(gf_shared_address(&s.tail->empty[at.slot()]), SHARED && !Work::BACK ? 8 : 4);
        for (int i = mine; i < each; i++) at.advance();
    }
    asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}

/* A slot of the ring that only this warpgroup reads; returns it. */
static __device__ __forceinline__ int window_await(const window_space &s, window_place &at) {
    const int slot = at.slot();
    gf_barrier_wait(gf_shared_address(&s.tail->full[slot]), at.lap);
    at.advance();
    return slot;
}

/* Results lie in the slot. */
static __device__ __forceinline__ void window_hand_over(const window_space &s, int group, int slot) {
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncwarp();
    if (threadIdx.x % 32 == 0) gf_barrier_arrive(gf_shared_address(&s.tail->out_full[group][slot]));
}

/* Slots that only the other warpgroup reads. Both free every slot, else one could be a whole lap behind and wait for the wrong
 * one. */
template <class Work> static __device__ __forceinline__ void window_pass(const window_space &s, window_place &at) {
    for (int i = 0; i < Work::EXTRA; i++) {
        const int slot = window_await(s, at);
        window_release(&s.tail->empty[slot], 1);
    }
}

/* Backward, after the products: the slots with x and the rest, and the results in the last of them. */
template <int NT, bool SHARED, class Work>
static __device__ __forceinline__ void window_back(Work &k, const window_args &p, const window_space &s, window_place &at) {
    if (SHARED && k.group == 1) window_pass<Work>(s, at);
    const int x2 = Work::SUMS == 3 ? window_await(s, at) : 0, x = window_await(s, at);
    const int out = Work::OTHER ? window_await(s, at) : x;
#pragma unroll
    for (int q = 0; q < Work::PATCHES; q++)
        window_back_out<NT>(k, q, s.slots + out * p.slot + q * NT * 1024, s.slots + x * p.slot + q * NT * 1024,
                            s.slots + x2 * p.slot + q * NT * 1024);
    if (Work::SUMS == 3) window_release(&s.tail->empty[x2], 1);
    if (Work::OTHER) window_release(&s.tail->empty[x], 1);
    window_hand_over(s, k.group, out);
    if (SHARED && k.group == 0) window_pass<Work>(s, at);
}

/* Forward: results in the slot of the last products (shared: in that before for the second warpgroup), once nobody reads it. */
template <int NT, bool SHARED, class Work>
static __device__ __forceinline__ void window_forward(Work &k, const window_args &p, const window_space &s,
                                                      const window_place &at) {
    const int out = at.before(SHARED && k.group == 1 ? 2 : 1);
    if (SHARED) window_sync();
    else asm volatile("bar.sync %0, 128;" ::"r"(2 + k.group) : "memory");
#pragma unroll
    for (int q = 0; q < Work::PATCHES; q++) window_forward_out<NT>(k, q, s.slots + out * p.slot + q * NT * 1024);
    window_hand_over(s, k.group, out);
}

template <class Work> static __device__ __forceinline__ void window_prepare(Work &k, const window_args &p, int column) {
#pragma unroll
    for (int i = 0; i < 2 * Work::SUMS; i++) k.sum[i / 2][i % 2] = 0.0f;
#pragma unroll
    for (int half = 0; half < 2; half++) {
        const int c = column + 16 * k.warp + 8 * half + k.lane / 4;
        k.pivot[half] = Work::BACK ? p.n.mean[c] : 0.0f;
        if (Work::SUMS == 3) k.mean2[half] = p.m.mean[c];
        if (Work::BACK && !Work::BITS) k.scale[half] = p.n.scale[c], k.shift[half] = p.n.shift[c];
    }
}

template <int NT, bool SHARED, int MODE>
static __device__ __forceinline__ void window_compute(const window_args &p, const window_space &s, const window_job &job,
                                                      double *shared) {
    typedef window_work<NT, SHARED, MODE> work;
    const int column = job.n0 + (SHARED ? 64 * job.group : 0);
    work k;
    k.group = job.group, k.warp = threadIdx.x % 128 / 32, k.lane = threadIdx.x % 32;
    k.at = k.lane / 16 * 1024 + k.lane % 8 * 128 + (((2 * k.warp + k.lane / 8 % 2) ^ (k.lane % 8)) << 4);
    window_prepare(k, p, column);
    if (!SHARED)
        for (int i = 0; i < 9; i++) gf_barrier_wait(gf_shared_address(&s.tail->weights_full[i]), 0);
    window_place at = window_ring<SHARED>(p, job.group), weights = {0, p.weights, 0, 0};
    for (int unit = job.part; unit < p.units; unit += p.parts) {
        window_load_bits<NT>(k, p, window_patch_of(p, unit), column);
        if constexpr (SHARED) {
            window_multiply<work::BACK>(k.d[0], k.d[1], s, p, at, weights, k.group, work::BACK ? 0 : 2);
        } else {
            window_multiply_own<NT, work::BACK>(k.d[0], s, p, at);
            if (work::BACK) window_release(&s.tail->empty[at.slot()], 1);
            at.advance();
        }
        if (!work::BACK && unit == job.part)
#pragma unroll
            for (int half = 0; half < 2; half++) {
                const float first = window_floats(window_pack(k.d[0][0][2 * half], 0.0f)).x;
                k.pivot[half] = __shfl_sync(0xffffffffu, first, k.lane & ~3);
            }
        if constexpr (work::BACK) window_back<NT, SHARED>(k, p, s, at);
        else window_forward<NT, SHARED>(k, p, s, at);
    }
    window_keep_sums(k, p, job.part, column);
    if (window_comes_last(s, p, blockIdx.x % p.strips)) window_finish<SHARED ? 128 : 64, work>(p, shared, job.n0);
}

template <int NT, bool SHARED, int MODE>
static __global__ void __launch_bounds__(WINDOW_THREADS, 1) window_kernel(const __grid_constant__ window_args p) {
    typedef window_work<NT, SHARED, MODE> work;
    extern __shared__ __align__(1024) unsigned char base[];
    const window_space s = window_layout<SHARED>(base, p);
    window_begin<SHARED>(s, p);
    if (gf_wg_index() == WINDOW_WORKERS / 128) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
        const int warp = (threadIdx.x - WINDOW_WORKERS) / 32;
        if (threadIdx.x % 32 == 0) {
            if (warp == 0) window_load<SHARED, work>(p, s, window_job_of<SHARED>(p, 0));
            if (warp == 1 && !SHARED) window_load<SHARED, work>(p, s, window_job_of<SHARED>(p, 1));
            if (warp == 1 && SHARED) window_load_weights<SHARED, work>(p, s, window_job_of<SHARED>(p, 0));
            if (warp >= 2) {
                if (warp == 2 && !SHARED) window_load_weights<SHARED, work>(p, s, window_job_of<SHARED>(p, 0));
                window_store_all<SHARED, work>(p, s, window_job_of<SHARED>(p, warp - 2));
            }
        }
    } else {
        gf_wg_take_registers<232>();
        window_compute<NT, SHARED, MODE>(p, s, window_job_of<SHARED>(p, gf_wg_index()), reinterpret_cast<double *>(base));
    }
}

/* ----- launchers --------------------------------------------------------------------------------------------------- */

struct window_plan { /* of a shape in one direction; high 0: not of this shape */
    int high, shared, slots, weights;
    int64_t sum, columns;
};

/* Slots of weights that stay, or pass; and of pixels. */
enum { WINDOW_TAPS = 9, WINDOW_PASSING = 5, WINDOW_OWN = 3, WINDOW_OWN_LARGE = 2, WINDOW_COMMON = 3 };

static int window_border(const window_plan &f) { return WINDOW_LINE * (f.high + 2); }
static int window_slot(const window_plan &f) { return (window_border(f) + 1023) / 1024 * 1024 * (f.shared ? 2 : 1); }

static size_t window_bytes(const window_plan &f) {
    return (size_t)(f.weights * WINDOW_BLOCK * (f.shared ? 2 : 1) + f.slots * window_slot(f) * (f.shared ? 1 : 2) + WINDOW_TAIL);
}

static window_plan window_plan_of(const gf_nn_engine *s, const gf_nn_shape *c, int back) {
    const window_plan none = {};
    window_plan f = {};
    if (!s->hopper || c->kind != GF_NN_CONV || c->type != GF_TYPE_BF16 || c->kernel != 3 || c->stride != 1 || c->pad != 1 ||
        c->n * c->h * c->w >= 1 << 30)
        return none;
    f.sum = back ? c->out : c->in, f.columns = back ? c->in : c->out;
    f.shared = f.columns % 128 == 0;
    if (f.shared ? f.sum % 64 != 0 || f.sum < 128 || f.columns / 128 > GF_CUNN_TICKETS : f.columns != 64 || f.sum != 64)
        return none;
    if (c->w % (f.shared ? 16 : 8) != 0) return none;
    if (c->h % 16 == 0) f.high = 16;
    else if (c->h % 28 == 0 && !f.shared) f.high = 28;
    else return none;
    f.slots = f.shared ? WINDOW_COMMON : f.high == 16 ? WINDOW_OWN : WINDOW_OWN_LARGE;
    f.weights = f.shared ? WINDOW_PASSING : WINDOW_TAPS;
    return window_bytes(f) <= s->shared ? f : none;
}

int gf_cunn_window_fits(const gf_nn_engine *s, const gf_nn_shape *c) { return window_plan_of(s, c, 0).high > 0; }

int gf_cunn_window_back_fits(const gf_nn_engine *s, const gf_nn_shape *c, gf_nn_before before) {
    const window_plan f = window_plan_of(s, c, 1);
    if (f.high == 0 || before == GF_NN_BEFORE_NONE) return 0;
    return before == GF_NN_BEFORE_INNER || (f.high == 16 && (f.shared || before != GF_NN_BEFORE_PAIR));
}

static window_args window_sizes(const gf_nn_engine *s, const gf_nn_shape *c, const window_plan &f) {
    window_args p = {};
    p.tickets = s->tickets;
    p.high = f.high, p.step = f.shared ? 16 : 8, p.image_w = (int)c->w, p.image_h = (int)c->h;
    p.across = p.image_w / p.step, p.per_image = p.across * (p.image_h / f.high), p.units = (int)c->n * p.per_image;
    p.chunks = (int)(f.sum / 64), p.border = window_border(f);
    p.slot = window_slot(f), p.slots = f.slots, p.weights = f.weights;
    p.columns = (int)f.columns, p.strips = f.shared ? p.columns / 128 : 1;
    const int most = f.shared ? p.units : (p.units + 1) / 2;
    p.blocks = s->multiprocessors / p.strips;
    if (p.blocks < 1) p.blocks = 1;
    if (p.blocks > most) p.blocks = most;
    p.parts = f.shared ? p.blocks : 2 * p.blocks;
    return p;
}

/* x [n][h][w][channels], in boxes of a patch, with a border of a pixel or without. */
static cudaError_t window_map(CUtensorMap *map, const void *x, const gf_nn_shape *c, int64_t channels, const window_plan &f,
                              int border) {
    const int64_t size[4] = {channels, c->w, c->h, c->n};
    const int box[4] = {64, 8 + 2 * border, f.high + 2 * border, 1};
    return gf_box_map(map, x, 4, size, box);
}

static cudaError_t window_weights_map(CUtensorMap *map, const void *w, const gf_nn_shape *c, int rows) {
    const int64_t size[3] = {c->in, WINDOW_TAPS, c->out};
    const int box[3] = {64, 1, rows};
    return gf_box_map(map, w, 3, size, box);
}

template <int NT, bool SHARED, int MODE>
static void window_launch(gf_nn_engine *s, const window_args &p, const window_plan &f, cudaError_t e) {
    const size_t bytes = window_bytes(f);
    if (e == cudaSuccess)
        e = cudaFuncSetAttribute(window_kernel<NT, SHARED, MODE>, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes);
    if (e == cudaSuccess) {
        window_kernel<NT, SHARED, MODE><<<(unsigned)(p.strips * p.blocks), WINDOW_THREADS, bytes, s->stream>>>(p);
        e = cudaGetLastError();
    }
    gf_cunn_note(s, e, "convolution with batch norm");
}

void gf_cunn_window_forward(gf_nn_engine *s, const gf_nn_shape *c, const gf_nn_args *a) {
    const window_plan f = window_plan_of(s, c, 0);
    window_args p = window_sizes(s, c, f);
    p.n = *a->norm;
    cudaError_t e = window_map(&p.a, a->x, c, c->in, f, 1);
    if (e == cudaSuccess) e = window_weights_map(&p.w, a->packed, c, f.shared ? 128 : 64);
    if (e == cudaSuccess) e = window_map(&p.out, a->y, c, c->out, f, 0);
    if (f.shared) window_launch<16, true, WINDOW_FORWARD>(s, p, f, e);
    else if (f.high == 16) window_launch<16, false, WINDOW_FORWARD>(s, p, f, e);
    else window_launch<28, false, WINDOW_FORWARD>(s, p, f, e);
}

void gf_cunn_window_back(gf_nn_engine *s, const gf_nn_shape *c, const gf_nn_args *a) {
    const window_plan f = window_plan_of(s, c, 1);
    const gf_nn_norm *n = a->before;
    const int ends = gf_nn_norm_sums_up(n), other = !a->dx;
    window_args p = window_sizes(s, c, f);
    p.n = *n;
    if (n->shortcut) p.m = *n->shortcut;
    cudaError_t e = window_map(&p.a, a->dy, c, c->out, f, 1);
    if (e == cudaSuccess) e = window_weights_map(&p.w, a->packed, c, 64);
    if (e == cudaSuccess) e = window_map(&p.out, other ? n->dy : a->dx, c, c->in, f, 0);
    if (e == cudaSuccess) e = window_map(&p.x, n->x, c, c->in, f, 0);
    if (e == cudaSuccess && n->shortcut) e = window_map(&p.x2, n->shortcut->x, c, c->in, f, 0);
    if (f.high == 28) window_launch<28, false, WINDOW_INNER>(s, p, f, e);
    else if (n->shortcut) window_launch<16, true, WINDOW_PAIR>(s, p, f, e);
    else if (f.shared && ends) window_launch<16, true, WINDOW_END>(s, p, f, e);
    else if (f.shared && other) window_launch<16, true, WINDOW_OTHER>(s, p, f, e);
    else if (f.shared) window_launch<16, true, WINDOW_INNER>(s, p, f, e);
    else if (ends) window_launch<16, false, WINDOW_END>(s, p, f, e);
    else if (other) window_launch<16, false, WINDOW_OTHER>(s, p, f, e);
    else window_launch<16, false, WINDOW_INNER>(s, p, f, e);
}
