/* cunn_conv3x3.cu - 3 x 3 convolutions of stride 1 on Hopper, with batch norm in the epilogue. sm_90a only.
 *
 * A warpgroup computes 64 channels of a patch of pixels: [64 channels] x [pixels], so that a product reads few bytes of shared
 * memory for its multiplications, and a thread has two channels, whose sums are a few registers. The copy engine fetches 64
 * channels of the patch with a border of a pixel, and writes zeros for what is outside the image.
 *
 * A patch is 8 pixels wide; rows of 8 of the 10 pixels of a slot's line are the groups of 8 that the tensor cores read, at any
 * offset, since the swizzle follows from the address alone: one fetch serves nine products.
 *
 *   alone   64 columns in all: warpgroups have patches and slots of their own, weights stay in shared memory
 *   shared  strips of 128 columns: both warpgroups read the same two patches, side by side; weights come through a ring
 *
 * Results are left in a slot as they are to lie in memory, and stored by another warp, which then frees the slot. */
#include "nn/cuda/sm90/cunn_epilogue.cuh"

/* ----- Shared memory, rings and products ------------------------------------------------------------------------- */

enum {
    CONV3X3_SLOTS = 8,   /* of pixels, at most */
    CONV3X3_WEIGHTS = 9, /* slots of weights, at most */
    CONV3X3_WORKERS = 256,
    CONV3X3_THREADS = CONV3X3_WORKERS + 128,
    CONV3X3_BLOCK = 8192, /* bytes of 64 x 64 weights */
    CONV3X3_TAIL = 1024
};

enum conv3x3_mode { /* what the epilogue does */
                    CONV3X3_FORWARD,
                    CONV3X3_INNER, /* the gradient of a norm with ReLU whose only reader is the convolution */
                    CONV3X3_OTHER, /* the same where there is another reader, whose part of the gradient is there */
                    CONV3X3_END,   /* and the norm ends a block: bits say what ReLU let pass */
                    CONV3X3_PAIR   /* and its shortcut has a norm, too */
};

struct conv3x3_args {
    CUtensorMap a, w, out, x, x2; /* a: boxes with a border; out, x, x2 without */
    gf_nn_norm n, m;              /* the norm of the epilogue; backward: of its shortcut */
    unsigned *tickets;
    int units, across, per_image; /* patches; side by side in an image; of an image */
    int high, step;               /* pixels of a patch: 8 x high; from one to the next */
    int image_w, image_h;         /* of an image */
    int chunks, border;           /* of the sum, 64 each; bytes of a fetch */
    int slot, slots, weights;     /* bytes of a slot; slots of pixels (alone: of a warpgroup), of weights */
    int strips, blocks;           /* of columns, side by side; blocks that share one */
    int parts, columns;           /* warpgroups (shared: blocks) that share a strip; all columns */
};

struct conv3x3_tail { /* what shared memory holds beside slots */
    uint64_t full[CONV3X3_SLOTS], empty[CONV3X3_SLOTS];
    uint64_t out_full[2][CONV3X3_SLOTS]; /* results of a warpgroup lie there */
    uint64_t weights_full[CONV3X3_WEIGHTS], weights_empty[CONV3X3_WEIGHTS];
    int last;
};
static_assert(sizeof(conv3x3_tail) <= CONV3X3_TAIL, "tail");

struct conv3x3_space { /* addresses in shared memory */
    uint32_t weights, slots;
    conv3x3_tail *tail;
};

template <bool SHARED> __device__ __forceinline__ conv3x3_space conv3x3_layout(unsigned char *base, const conv3x3_args &p) {
    const int weights = p.weights * CONV3X3_BLOCK * (SHARED ? 2 : 1), slots = p.slots * p.slot * (SHARED ? 1 : 2);
    conv3x3_space s;
    s.weights = gf_shared_address(base);
    s.slots = s.weights + weights;
    s.tail = reinterpret_cast<conv3x3_tail *>(base + weights + slots);
    return s;
}

struct conv3x3_place { /* position in a ring of slots first .. first + count - 1 */
    int first, count, at, lap;

    __device__ __forceinline__ int slot() const { return first + at; }
    __device__ __forceinline__ int before(int by = 1) const { return first + (at + count - by) % count; }
    __device__ __forceinline__ void advance() {
        if (++at == count) at = 0, lap ^= 1;
    }
};

/* The ring of pixels of a warpgroup. */
template <bool SHARED> __device__ __forceinline__ conv3x3_place conv3x3_ring(const conv3x3_args &p, int group) {
    return {SHARED ? 0 : group * p.slots, p.slots, 0, 0};
}

/* ----- copies ------------------------------------------------------------------------------------------------------ */

struct conv3x3_patch { /* its first pixel */
    int image, x, y;
};

__device__ __forceinline__ conv3x3_patch conv3x3_patch_of(const conv3x3_args &p, int unit) {
    const int within = unit % p.per_image;
    return {unit / p.per_image, within % p.across * p.step, within / p.across * p.high};
}

__device__ __forceinline__ void conv3x3_copy(uint32_t dst, const CUtensorMap *map, int c, const conv3x3_patch &at, int dx, int dy,
                                             uint32_t barrier) {
    asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4, %5}], "
                 "[%6];" ::"r"(dst),
                 "l"(map), "r"(c), "r"(at.x + dx), "r"(at.y + dy), "r"(at.image), "r"(barrier)
                 : "memory");
}

__device__ __forceinline__ void conv3x3_copy_weights(uint32_t dst, const CUtensorMap *map, int c, int tap, int row,
                                                     uint32_t barrier) {
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4}], "
                 "[%5];" ::"r"(dst),
                 "l"(map), "r"(c), "r"(tap), "r"(row), "r"(barrier)
                 : "memory");
}

__device__ __forceinline__ void conv3x3_store(const CUtensorMap *map, uint32_t src, int c, const conv3x3_patch &at, int dx) {
    asm volatile("cp.async.bulk.tensor.4d.global.shared::cta.tile.bulk_group [%0, {%1, %2, %3, %4}], [%5];" ::"l"(map), "r"(c),
                 "r"(at.x + dx), "r"(at.y), "r"(at.image), "r"(src)
                 : "memory");
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

__device__ __forceinline__ void conv3x3_free(uint32_t barrier, int count) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(count) : "memory");
}

/* This warp no longer reads the slot; count: of the arrivals that free it. */
__device__ __forceinline__ void conv3x3_release(uint64_t *empty, int count) {
    __syncwarp();
    if (threadIdx.x % 32 == 0) conv3x3_free(gf_shared_address(empty), count);
}

/* ----- products ---------------------------------------------------------------------------------------------------- */

#define CONV3X3_NAMES_96                                                                                   \
    "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, " \
    "%22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, " \
    "%42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, " \
    "%62, %63, %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, %80, %81, " \
    "%82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95"
#define CONV3X3_NAMES_112 \
    CONV3X3_NAMES_96 ", %96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111"
#define CONV3X3_MORE(how, d)                                                                                                    \
    GF_WG_QUAD(how, d, 16), GF_WG_QUAD(how, d, 17), GF_WG_QUAD(how, d, 18), GF_WG_QUAD(how, d, 19), GF_WG_QUAD(how, d, 20),     \
        GF_WG_QUAD(how, d, 21), GF_WG_QUAD(how, d, 22), GF_WG_QUAD(how, d, 23), GF_WG_QUAD(how, d, 24), GF_WG_QUAD(how, d, 25), \
        GF_WG_QUAD(how, d, 26), GF_WG_QUAD(how, d, 27)
/* d (+)= 64 columns of weights times 224 pixels, 16 channels of the sum. ACROSS: the weights lie as [sum][columns]. */
template <bool ACROSS> __device__ __forceinline__ void conv3x3_product(float (&d)[28][4], uint64_t a, uint64_t b, int add) {
    asm volatile("{\n.reg .pred add;\nsetp.ne.b32 add, %114, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n224k16.f32.bf16.bf16 {" CONV3X3_NAMES_112
                 "}, %112, %113, add, 1, 1, %115, 0;\n}"
                 : GF_WG_EACH("+f", d), CONV3X3_MORE("+f", d)
                 : "l"(a), "l"(b), "r"(add), "n"(ACROSS ? 1 : 0));
}

/* The same of 128 pixels. */
template <bool ACROSS> __device__ __forceinline__ void conv3x3_product(float (&d)[16][4], uint64_t a, uint64_t b, int add) {
    asm volatile("{\n.reg .pred add;\nsetp.ne.b32 add, %66, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 " GF_WG_NAMES ", %64, %65, add, 1, 1, %67, 0;\n}"
                 : GF_WG_SUMS(d)
                 : "l"(a), "l"(b), "r"(add), "n"(ACROSS ? 1 : 0));
}

/* As gf_operand_at, with groups of 8 rows `stride` bytes apart. */
__device__ __forceinline__ uint64_t conv3x3_operand(uint32_t address, int stride, int far = 16) {
    return static_cast<uint64_t>((address & 0x3ffff) >> 4) | static_cast<uint64_t>(far >> 4) << 16 |
           static_cast<uint64_t>(stride >> 4) << 32 | 1ull << 62;
}

enum { CONV3X3_LINE = 10 * 128 }; /* bytes of a line of a patch with its border */

/* d (+)= the 64 channels of a chunk at `weights`, moved to the window's place `tap`, times those of the patch at `pixels`. */
template <bool ACROSS, int NT>
__device__ __forceinline__ void conv3x3_tap(float (&d)[NT][4], uint32_t weights, uint32_t pixels, int tap, int add) {
    constexpr int STEP = ACROSS ? 2048 : 32;
    const uint64_t left = gf_operand_at(weights, 16);
    const uint64_t right = conv3x3_operand(pixels + tap / 3 * CONV3X3_LINE + tap % 3 * 128, CONV3X3_LINE);
#pragma unroll
    for (int k = 0; k < 4; k++)
        conv3x3_product<ACROSS>(d, gf_operand_on(left, STEP * k), gf_operand_on(right, 32 * k), add || k > 0);
}

/* Alone: d = the convolution of the next slot, which is not freed. */
template <int NT, bool ACROSS>
__device__ __forceinline__ void conv3x3_multiply_own(float (&d)[NT][4], const conv3x3_space &s, const conv3x3_args &p,
                                                     const conv3x3_place &at) {
    gf_barrier_wait(gf_shared_address(&s.tail->full[at.slot()]), at.lap);
    epilogue_pin(d);
    gf_wg_begin();
#pragma unroll
    for (int tap = 0; tap < 9; tap++)
        conv3x3_tap<ACROSS>(d, s.weights + tap * CONV3X3_BLOCK, s.slots + at.slot() * p.slot, tap, tap > 0);
    gf_wg_commit();
    gf_wg_wait<0>();
    epilogue_pin(d);
}

/* Shared: d and e = the convolution of the next slots, of two patches. The last `keep` slots are not freed: results will lie
 * there. */
template <bool ACROSS>
__device__ __forceinline__ void conv3x3_multiply(float (&d)[16][4], float (&e)[16][4], const conv3x3_space &s,
                                                 const conv3x3_args &p, conv3x3_place &at, conv3x3_place &weights, int group,
                                                 int keep) {
    int before = 0;
    epilogue_pin(d), epilogue_pin(e);
    for (int i = 0; i < p.chunks; i++) {
        gf_barrier_wait(gf_shared_address(&s.tail->full[at.slot()]), at.lap);
        const uint32_t pixels = s.slots + at.slot() * p.slot;
        for (int tap = 0; tap < 9; tap++) {
            gf_barrier_wait(gf_shared_address(&s.tail->weights_full[weights.slot()]), weights.lap);
            const uint32_t left = s.weights + (2 * weights.slot() + group) * CONV3X3_BLOCK;
            gf_wg_begin();
            conv3x3_tap<ACROSS>(d, left, pixels, tap, i > 0 || tap > 0);
            conv3x3_tap<ACROSS>(e, left, pixels + p.slot / 2, tap, i > 0 || tap > 0);
            gf_wg_commit();
            gf_wg_wait<1>(); /* all before these products */
            if (i > 0 || tap > 0) conv3x3_release(&s.tail->weights_empty[before], 1);
            before = weights.slot();
            weights.advance();
            if (tap == 0 && i > 0 && i <= p.chunks - keep) conv3x3_release(&s.tail->empty[at.before()], 1);
        }
        at.advance();
    }
    gf_wg_wait<0>();
    epilogue_pin(d), epilogue_pin(e);
    conv3x3_release(&s.tail->weights_empty[before], 1);
    if (keep == 0) conv3x3_release(&s.tail->empty[at.before()], 1);
}

/* ----- numbers of a slot ------------------------------------------------------------------------------------------- */

/* Four blocks of 8 pixels x 8 channels between a slot, where a row is a pixel, and the layout of sums, where it is a channel. */
__device__ __forceinline__ void conv3x3_read(uint32_t (&v)[4], uint32_t at) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v[0]), "=r"(v[1]), "=r"(v[2]), "=r"(v[3])
                 : "r"(at)
                 : "memory");
}

__device__ __forceinline__ void conv3x3_write(const uint32_t (&v)[4], uint32_t at) {
    asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(at), "r"(v[0]), "r"(v[1]),
                 "r"(v[2]), "r"(v[3])
                 : "memory");
}

/* ----- The epilogue ---------------------------------------------------------------------------------------------- */

/* The part of a batch norm that 3 x 3 convolutions do (cunn_conv3x3.cu): the epilogue of a patch, and at
 * the end the sums of all blocks. sm_90a only. */

/* ----- the epilogue ------------------------------------------------------------------------------------------------ */

template <int NT, bool SHARED, int MODE> struct conv3x3_work { /* of a thread of the warpgroups that multiply */
    static constexpr int PATCHES = SHARED ? 2 : 1;
    static constexpr int SUMS = MODE == CONV3X3_PAIR ? 3 : 2;
    static constexpr bool BACK = MODE != CONV3X3_FORWARD, BITS = MODE >= CONV3X3_END, OTHER = MODE >= CONV3X3_OTHER;
    static constexpr int EXTRA = MODE == CONV3X3_FORWARD ? 0 : MODE == CONV3X3_INNER ? 1 : MODE == CONV3X3_PAIR ? 3 : 2;
    float d[PATCHES][NT][4], sum[SUMS][2];     /* channels lane / 4 and lane / 4 + 8 of the warp's 16 */
    float pivot[2], mean2[2];                  /* forward the first number, backward the mean; of the shortcut */
    float scale[2], shift[2];                  /* without bits */
    uint32_t bits[PATCHES][BITS ? NT / 4 : 1]; /* of pixel 32 i + lane, the warp's 16 channels */
    int group, warp, lane;
    uint32_t at; /* bytes from the start of a slot to the lane's row of a block of 8 x 8 */
};

template <class Work> __device__ __forceinline__ void conv3x3_add(Work &k, int half, float a, float b) {
    k.sum[0][half] += a, k.sum[0][half] += b;
    k.sum[1][half] = fmaf(a, a, k.sum[1][half]), k.sum[1][half] = fmaf(b, b, k.sum[1][half]);
}

/* Forward, of patch q; out: its place in the slot. */
template <int NT, class Work> __device__ __forceinline__ void conv3x3_forward_out(Work &k, int q, uint32_t out) {
#pragma unroll
    for (int j = 0; j < NT; j += 2) {
        uint32_t four[4];
#pragma unroll
        for (int i = 0; i < 4; i++) {
            four[i] = epilogue_pack(k.d[q][j + i / 2][i % 2 * 2], k.d[q][j + i / 2][i % 2 * 2 + 1]);
            const float2 v = epilogue_floats(four[i]);
            conv3x3_add(k, i % 2, v.x - k.pivot[i % 2], v.y - k.pivot[i % 2]);
        }
        conv3x3_write(four, out + k.at + j * 1024);
    }
}

/* Backward, of patch q, over what lies at `out`: the other part of the gradient, or x. */
template <int NT, class Work>
__device__ __forceinline__ void conv3x3_back_out(Work &k, int q, uint32_t out, uint32_t x, uint32_t x2) {
#pragma unroll
    for (int j = 0; j < NT; j += 2) {
        uint32_t four[4], xs[4], others[4], seconds[4];
        conv3x3_read(xs, x + k.at + j * 1024);
        if (Work::OTHER) conv3x3_read(others, out + k.at + j * 1024);
        if (Work::SUMS == 3) conv3x3_read(seconds, x2 + k.at + j * 1024);
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const int t = j + i / 2, half = i % 2;
            const float2 v = epilogue_floats(xs[i]), other = Work::OTHER ? epilogue_floats(others[i]) : make_float2(0.0f, 0.0f);
            bool pass[2];
            if constexpr (Work::BITS) {
#pragma unroll
                for (int e = 0; e < 2; e++) /* both halves of the warp's channels lie in one word */
                    pass[e] =
                        __shfl_sync(0xffffffffu, k.bits[q][t / 4], t % 4 * 8 + k.lane % 4 * 2 + e) >> (8 * half + k.lane / 4) &
                        1u;
            } else {
                pass[0] = fmaf(k.scale[half], v.x, k.shift[half]) > 0.0f;
                pass[1] = fmaf(k.scale[half], v.y, k.shift[half]) > 0.0f;
            }
            four[i] =
                epilogue_pack(pass[0] ? k.d[q][t][2 * half] + other.x : 0.0f, pass[1] ? k.d[q][t][2 * half + 1] + other.y : 0.0f);
            const float2 g = epilogue_floats(four[i]);
            k.sum[0][half] += g.x, k.sum[0][half] += g.y;
            k.sum[1][half] = fmaf(g.x, v.x - k.pivot[half], k.sum[1][half]);
            k.sum[1][half] = fmaf(g.y, v.y - k.pivot[half], k.sum[1][half]);
            if (Work::SUMS == 3) {
                const float2 u = epilogue_floats(seconds[i]);
                float &sum = k.sum[Work::SUMS - 1][half];
                sum = fmaf(g.x, u.x - k.mean2[half], sum);
                sum = fmaf(g.y, u.y - k.mean2[half], sum);
            }
        }
        conv3x3_write(four, out + k.at + j * 1024);
    }
}

/* The bits of the patches' pixels for the warp's 16 channels. */
template <int NT, class Work>
__device__ __forceinline__ void conv3x3_load_bits(Work &k, const conv3x3_args &p, const conv3x3_patch &at, int column) {
    if constexpr (Work::BITS) {
#pragma unroll
        for (int i = 0; i < Work::PATCHES * NT / 4; i++) {
            const int q = i / (NT / 4), pixel = i % (NT / 4) * 32 + k.lane;
            const int64_t row = ((int64_t)at.image * p.image_h + at.y + pixel / 8) * p.image_w + at.x + 8 * q + pixel % 8;
            k.bits[q][i % (NT / 4)] =
                __ldg(reinterpret_cast<const unsigned short *>(p.n.positive + (row * p.columns + column) / 8) + k.warp);
        }
    }
}

/* ----- the end: sums of all blocks of a strip ------------------------------------------------------------------------ */

/* All warpgroups that multiply. */
/* Sums of the warpgroup's columns go to scratch [part][3][columns]: forward the third is the pivot. */
template <class Work>
__device__ __forceinline__ void conv3x3_keep_sums(const Work &k, const conv3x3_args &p, int part, int column) {
    float *to = (float *)p.n.scratch + (int64_t)part * 3 * p.columns + column + 16 * k.warp + k.lane / 4;
#pragma unroll
    for (int i = 0; i < 3; i++)
#pragma unroll
        for (int half = 0; half < 2; half++) {
            if (i == Work::SUMS && Work::BACK) continue;
            float v = i < Work::SUMS ? k.sum[i < Work::SUMS ? i : 0][half] : k.pivot[half];
            if (i < Work::SUMS) {
                v += __shfl_xor_sync(0xffffffffu, v, 1);
                v += __shfl_xor_sync(0xffffffffu, v, 2);
            }
            if (k.lane % 4 == 0) __stcg(to + (int64_t)i * p.columns + 8 * half, v);
        }
}

/* Of one column, over parts from..to - 1. Forward: sum x and sum x^2 from differences. */
template <class Work>
static __device__ __forceinline__ epilogue_totals conv3x3_sum(const conv3x3_args &p, int column, int from, int to) {
    epilogue_totals t = {{0.0, 0.0, 0.0}};
#pragma unroll 4
    for (int i = from; i < to; i++) {
        const float *at = (const float *)p.n.scratch + (int64_t)i * 3 * p.columns + column;
        const double a = __ldcg(at), b = __ldcg(at + p.columns),
                     c = !Work::BACK || Work::SUMS == 3 ? __ldcg(at + 2 * p.columns) : 0.0f;
        if (Work::BACK) {
            t.v[0] += a, t.v[1] += b, t.v[2] += c;
        } else {
            const double rows = (double)((p.units - i + p.parts - 1) / p.parts) * (p.step * p.high);
            t.v[0] += a + rows * c;
            t.v[1] += b + 2 * c * a + rows * c * c;
        }
    }
    return t;
}

/* The last block: columns n0 .. n0 + BN - 1. */
template <int BN, class Work>
static __device__ __forceinline__ void conv3x3_finish(const conv3x3_args &p, double *shared, int n0) {
    constexpr int SLICES = CONV3X3_WORKERS / BN;
    const int slice = threadIdx.x / BN, column = threadIdx.x % BN, share = (p.parts + SLICES - 1) / SLICES;
    const epilogue_totals mine =
        conv3x3_sum<Work>(p, n0 + column, min(slice * share, p.parts), min((slice + 1) * share, p.parts));
#pragma unroll
    for (int i = 0; i < Work::SUMS; i++) shared[(slice * Work::SUMS + i) * BN + column] = mine.v[i];
    epilogue_sync();
    if (slice > 0) return;
    epilogue_totals t = {{0.0, 0.0, 0.0}};
    for (int k = 0; k < SLICES; k++)
#pragma unroll
        for (int i = 0; i < Work::SUMS; i++) t.v[i] += shared[(k * Work::SUMS + i) * BN + column];
    const int64_t at = n0 + column;
    if (Work::BACK) {
        epilogue_back_line(p.n, at, t.v[0], t.v[1]);
        if (Work::SUMS == 3) epilogue_back_line(p.m, at, t.v[0], t.v[2]);
    } else {
        keep_line(p.n, at, line_of_sums(p.n, at, t.v[0], t.v[1], (double)p.n.rows), (double)p.n.rows);
    }
}

/* ----- Forward, and the gradient of x ---------------------------------------------------------------------------- */

/* 3 x 3 convolutions of stride 1 whose epilogue does a part of a batch norm (cunn_conv3x3.cu):
 *   forward   y = x * w, and the statistics of the batch norm that follows;
 *   backward  g = (dy * w turned around + the other part of the gradient, if there is one) where ReLU let pass: the gradient of
 *             the norm before, with the sums of its backward, and of its shortcut's. */

/* ----- the kernel -------------------------------------------------------------------------------------------------- */

template <bool SHARED> static __device__ __forceinline__ void conv3x3_begin(const conv3x3_space &s, const conv3x3_args &p) {
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

struct conv3x3_job {     /* of a block */
    int n0, part, group; /* its first column; alone: group 0 or 1, part and column of the warpgroup */
};

template <bool SHARED> static __device__ __forceinline__ conv3x3_job conv3x3_job_of(const conv3x3_args &p, int group) {
    const int strip = blockIdx.x % p.strips, block = blockIdx.x / p.strips;
    return {strip * (SHARED ? 128 : 64), SHARED ? block : 2 * block + group, group};
}

/* The next slot of the ring, with `bytes` on their way. */
static __device__ __forceinline__ uint32_t conv3x3_expect(const conv3x3_space &s, const conv3x3_place &at, int bytes) {
    const uint32_t ready = gf_shared_address(&s.tail->full[at.slot()]);
    gf_barrier_wait(gf_shared_address(&s.tail->empty[at.slot()]), at.lap ^ 1);
    gf_barrier_expect(ready, bytes);
    return ready;
}

/* One thread: the pixels of one warpgroup, or of both. */
template <bool SHARED, class Work>
static __device__ __forceinline__ void conv3x3_load(const conv3x3_args &p, const conv3x3_space &s, const conv3x3_job &job) {
    conv3x3_place at = conv3x3_ring<SHARED>(p, job.group);
    for (int unit = job.part; unit < p.units; unit += p.parts) {
        const conv3x3_patch patch = conv3x3_patch_of(p, unit);
        for (int i = 0; i < p.chunks; i++, at.advance()) {
            const uint32_t ready = conv3x3_expect(s, at, Work::PATCHES * p.border), to = s.slots + at.slot() * p.slot;
            for (int q = 0; q < Work::PATCHES; q++) conv3x3_copy(to + q * p.slot / 2, &p.a, 64 * i, patch, 8 * q - 1, -1, ready);
        }
        for (int g = 0; g < (SHARED ? 2 : 1); g++)
            for (int i = 0; i < Work::EXTRA; i++, at.advance()) { /* x of the shortcut, x, the other part of the gradient */
                const int bytes = 8 * p.high * 128, which = i + 3 - (Work::OTHER ? Work::EXTRA : 2);
                const uint32_t ready = conv3x3_expect(s, at, Work::PATCHES * bytes), to = s.slots + at.slot() * p.slot;
                for (int q = 0; q < Work::PATCHES; q++)
                    conv3x3_copy(to + q * bytes,
                                 which == 0   ? &p.x2
                                 : which == 1 ? &p.x
                                              : &p.out,
                                 job.n0 + 64 * g, patch, 8 * q, 0, ready);
            }
    }
}

/* One thread. Alone: all weights, once. */
template <bool SHARED, class Work>
static __device__ __forceinline__ void conv3x3_load_weights(const conv3x3_args &p, const conv3x3_space &s,
                                                            const conv3x3_job &job) {
    constexpr int BLOCK = CONV3X3_BLOCK * (SHARED ? 2 : 1);
    conv3x3_place at = {0, p.weights, 0, 0};
    for (int unit = job.part; unit < p.units; unit += p.parts) {
        for (int i = 0; i < 9 * p.chunks; i++, at.advance()) {
            const uint32_t ready = gf_shared_address(&s.tail->weights_full[at.slot()]), to = s.weights + at.slot() * BLOCK;
            const int chunk = i / 9 * 64, tap = i % 9;
            if (SHARED) gf_barrier_wait(gf_shared_address(&s.tail->weights_empty[at.slot()]), at.lap ^ 1);
            gf_barrier_expect(ready, BLOCK);
            if (!Work::BACK) conv3x3_copy_weights(to, &p.w, chunk, tap, job.n0, ready);
            else
                for (int g = 0; g < (SHARED ? 2 : 1); g++)
                    conv3x3_copy_weights(to + g * CONV3X3_BLOCK, &p.w, job.n0 + 64 * g, 8 - tap, chunk, ready);
        }
        if (!SHARED) return;
    }
}

/* One thread: the results of one warpgroup. */
template <bool SHARED, class Work>
static __device__ __forceinline__ void conv3x3_store_all(const conv3x3_args &p, const conv3x3_space &s, const conv3x3_job &job) {
    const int each = p.chunks + Work::EXTRA * (SHARED ? 2 : 1);
    const int mine = !SHARED ? each - 1 : Work::BACK ? p.chunks + (job.group + 1) * Work::EXTRA - 1 : p.chunks - 1 - job.group;
    conv3x3_place at = conv3x3_ring<SHARED>(p, job.group);
    unsigned laps = 0; /* a bit per slot */
    for (int unit = job.part; unit < p.units; unit += p.parts) {
        const conv3x3_patch patch = conv3x3_patch_of(p, unit);
        for (int i = 0; i < mine; i++) at.advance();
        gf_barrier_wait(gf_shared_address(&s.tail->out_full[job.group][at.slot()]), laps >> at.slot() & 1);
        laps ^= 1u << at.slot();
        for (int q = 0; q < Work::PATCHES; q++)
            conv3x3_store(&p.out, s.slots + at.slot() * p.slot + q * 8 * p.high * 128, job.n0 + (SHARED ? 64 * job.group : 0),
                          patch, 8 * q);
        asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
        conv3x3_free(gf_shared_address(&s.tail->empty[at.slot()]), SHARED && !Work::BACK ? 8 : 4);
        for (int i = mine; i < each; i++) at.advance();
    }
    asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}

/* A slot of the ring that only this warpgroup reads; returns it. */
static __device__ __forceinline__ int conv3x3_await(const conv3x3_space &s, conv3x3_place &at) {
    const int slot = at.slot();
    gf_barrier_wait(gf_shared_address(&s.tail->full[slot]), at.lap);
    at.advance();
    return slot;
}

/* Results lie in the slot. */
static __device__ __forceinline__ void conv3x3_hand_over(const conv3x3_space &s, int group, int slot) {
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncwarp();
    if (threadIdx.x % 32 == 0) gf_barrier_arrive(gf_shared_address(&s.tail->out_full[group][slot]));
}

/* Slots that only the other warpgroup reads. Both free every slot, else one could be a whole lap behind and wait for the wrong
 * one. */
template <class Work> static __device__ __forceinline__ void conv3x3_pass(const conv3x3_space &s, conv3x3_place &at) {
    for (int i = 0; i < Work::EXTRA; i++) {
        const int slot = conv3x3_await(s, at);
        conv3x3_release(&s.tail->empty[slot], 1);
    }
}

/* Backward, after the products: the slots with x and the rest, and the results in the last of them. */
template <int NT, bool SHARED, class Work>
static __device__ __forceinline__ void conv3x3_back(Work &k, const conv3x3_args &p, const conv3x3_space &s, conv3x3_place &at) {
    if (SHARED && k.group == 1) conv3x3_pass<Work>(s, at);
    const int x2 = Work::SUMS == 3 ? conv3x3_await(s, at) : 0, x = conv3x3_await(s, at);
    const int out = Work::OTHER ? conv3x3_await(s, at) : x;
#pragma unroll
    for (int q = 0; q < Work::PATCHES; q++)
        conv3x3_back_out<NT>(k, q, s.slots + out * p.slot + q * NT * 1024, s.slots + x * p.slot + q * NT * 1024,
                             s.slots + x2 * p.slot + q * NT * 1024);
    if (Work::SUMS == 3) conv3x3_release(&s.tail->empty[x2], 1);
    if (Work::OTHER) conv3x3_release(&s.tail->empty[x], 1);
    conv3x3_hand_over(s, k.group, out);
    if (SHARED && k.group == 0) conv3x3_pass<Work>(s, at);
}

/* Forward: results in the slot of the last products (shared: in that before for the second warpgroup), once nobody reads it. */
template <int NT, bool SHARED, class Work>
static __device__ __forceinline__ void conv3x3_forward(Work &k, const conv3x3_args &p, const conv3x3_space &s,
                                                       const conv3x3_place &at) {
    const int out = at.before(SHARED && k.group == 1 ? 2 : 1);
    if (SHARED) epilogue_sync();
    else asm volatile("bar.sync %0, 128;" ::"r"(2 + k.group) : "memory");
#pragma unroll
    for (int q = 0; q < Work::PATCHES; q++) conv3x3_forward_out<NT>(k, q, s.slots + out * p.slot + q * NT * 1024);
    conv3x3_hand_over(s, k.group, out);
}

template <class Work> static __device__ __forceinline__ void conv3x3_prepare(Work &k, const conv3x3_args &p, int column) {
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
static __device__ __forceinline__ void conv3x3_compute(const conv3x3_args &p, const conv3x3_space &s, const conv3x3_job &job,
                                                       double *shared) {
    typedef conv3x3_work<NT, SHARED, MODE> work;
    const int column = job.n0 + (SHARED ? 64 * job.group : 0);
    work k;
    k.group = job.group, k.warp = threadIdx.x % 128 / 32, k.lane = threadIdx.x % 32;
    k.at = k.lane / 16 * 1024 + k.lane % 8 * 128 + (((2 * k.warp + k.lane / 8 % 2) ^ (k.lane % 8)) << 4);
    conv3x3_prepare(k, p, column);
    if (!SHARED)
        for (int i = 0; i < 9; i++) gf_barrier_wait(gf_shared_address(&s.tail->weights_full[i]), 0);
    conv3x3_place at = conv3x3_ring<SHARED>(p, job.group), weights = {0, p.weights, 0, 0};
    for (int unit = job.part; unit < p.units; unit += p.parts) {
        conv3x3_load_bits<NT>(k, p, conv3x3_patch_of(p, unit), column);
        if constexpr (SHARED) {
            conv3x3_multiply<work::BACK>(k.d[0], k.d[1], s, p, at, weights, k.group, work::BACK ? 0 : 2);
        } else {
            conv3x3_multiply_own<NT, work::BACK>(k.d[0], s, p, at);
            if (work::BACK) conv3x3_release(&s.tail->empty[at.slot()], 1);
            at.advance();
        }
        if (!work::BACK && unit == job.part)
#pragma unroll
            for (int half = 0; half < 2; half++) {
                const float first = epilogue_floats(epilogue_pack(k.d[0][0][2 * half], 0.0f)).x;
                k.pivot[half] = __shfl_sync(0xffffffffu, first, k.lane & ~3);
            }
        if constexpr (work::BACK) conv3x3_back<NT, SHARED>(k, p, s, at);
        else conv3x3_forward<NT, SHARED>(k, p, s, at);
    }
    conv3x3_keep_sums(k, p, job.part, column);
    if (epilogue_comes_last(s, p, blockIdx.x % p.strips, p.blocks)) conv3x3_finish<SHARED ? 128 : 64, work>(p, shared, job.n0);
}

template <int NT, bool SHARED, int MODE>
static __global__ void __launch_bounds__(CONV3X3_THREADS, 1) conv3x3_kernel(const __grid_constant__ conv3x3_args p) {
    typedef conv3x3_work<NT, SHARED, MODE> work;
    extern __shared__ __align__(1024) unsigned char base[];
    const conv3x3_space s = conv3x3_layout<SHARED>(base, p);
    conv3x3_begin<SHARED>(s, p);
    if (gf_wg_index() == CONV3X3_WORKERS / 128) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
        const int warp = (threadIdx.x - CONV3X3_WORKERS) / 32;
        if (threadIdx.x % 32 == 0) {
            if (warp == 0) conv3x3_load<SHARED, work>(p, s, conv3x3_job_of<SHARED>(p, 0));
            if (warp == 1 && !SHARED) conv3x3_load<SHARED, work>(p, s, conv3x3_job_of<SHARED>(p, 1));
            if (warp == 1 && SHARED) conv3x3_load_weights<SHARED, work>(p, s, conv3x3_job_of<SHARED>(p, 0));
            if (warp >= 2) {
                if (warp == 2 && !SHARED) conv3x3_load_weights<SHARED, work>(p, s, conv3x3_job_of<SHARED>(p, 0));
                conv3x3_store_all<SHARED, work>(p, s, conv3x3_job_of<SHARED>(p, warp - 2));
            }
        }
    } else {
        gf_wg_take_registers<232>();
        conv3x3_compute<NT, SHARED, MODE>(p, s, conv3x3_job_of<SHARED>(p, gf_wg_index()), reinterpret_cast<double *>(base));
    }
}

/* ----- launchers --------------------------------------------------------------------------------------------------- */

struct conv3x3_plan { /* of a shape in one direction; high 0: not of this shape */
    int high, shared, slots, weights;
    int64_t sum, columns;
};

/* Slots of weights that stay, or pass; and of pixels. */
enum { CONV3X3_TAPS = 9, CONV3X3_PASSING = 5, CONV3X3_OWN = 3, CONV3X3_OWN_LARGE = 2, CONV3X3_COMMON = 3 };

static int conv3x3_border(const conv3x3_plan &f) { return CONV3X3_LINE * (f.high + 2); }
static int conv3x3_slot(const conv3x3_plan &f) { return (conv3x3_border(f) + 1023) / 1024 * 1024 * (f.shared ? 2 : 1); }

static size_t conv3x3_bytes(const conv3x3_plan &f) {
    return (size_t)(f.weights * CONV3X3_BLOCK * (f.shared ? 2 : 1) + f.slots * conv3x3_slot(f) * (f.shared ? 1 : 2) +
                    CONV3X3_TAIL);
}

static conv3x3_plan conv3x3_plan_of(const gf_nn_engine *s, const gf_nn_shape *c, int back) {
    const conv3x3_plan none = {};
    conv3x3_plan f = {};
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
    f.slots = f.shared ? CONV3X3_COMMON : f.high == 16 ? CONV3X3_OWN : CONV3X3_OWN_LARGE;
    f.weights = f.shared ? CONV3X3_PASSING : CONV3X3_TAPS;
    return conv3x3_bytes(f) <= s->shared ? f : none;
}

int gf_cunn_conv3x3_fits(const gf_nn_engine *s, const gf_nn_shape *c) { return conv3x3_plan_of(s, c, 0).high > 0; }

int gf_cunn_conv3x3_back_fits(const gf_nn_engine *s, const gf_nn_shape *c, gf_nn_before before) {
    const conv3x3_plan f = conv3x3_plan_of(s, c, 1);
    if (f.high == 0 || before == GF_NN_BEFORE_NONE) return 0;
    return before == GF_NN_BEFORE_INNER || (f.high == 16 && (f.shared || before != GF_NN_BEFORE_PAIR));
}

static conv3x3_args conv3x3_sizes(const gf_nn_engine *s, const gf_nn_shape *c, const conv3x3_plan &f) {
    conv3x3_args p = {};
    p.tickets = s->tickets;
    p.high = f.high, p.step = f.shared ? 16 : 8, p.image_w = (int)c->w, p.image_h = (int)c->h;
    p.across = p.image_w / p.step, p.per_image = p.across * (p.image_h / f.high), p.units = (int)c->n * p.per_image;
    p.chunks = (int)(f.sum / 64), p.border = conv3x3_border(f);
    p.slot = conv3x3_slot(f), p.slots = f.slots, p.weights = f.weights;
    p.columns = (int)f.columns, p.strips = f.shared ? p.columns / 128 : 1;
    const int most = f.shared ? p.units : (p.units + 1) / 2;
    p.blocks = s->multiprocessors / p.strips;
    if (p.blocks < 1) p.blocks = 1;
    if (p.blocks > most) p.blocks = most;
    p.parts = f.shared ? p.blocks : 2 * p.blocks;
    return p;
}

/* x [n][h][w][channels], in boxes of a patch, with a border of a pixel or without. */
static cudaError_t conv3x3_map(CUtensorMap *map, const void *x, const gf_nn_shape *c, int64_t channels, const conv3x3_plan &f,
                               int border) {
    const int64_t size[4] = {channels, c->w, c->h, c->n};
    const int box[4] = {64, 8 + 2 * border, f.high + 2 * border, 1};
    return gf_box_map(map, x, 4, size, box);
}

static cudaError_t conv3x3_weights_map(CUtensorMap *map, const void *w, const gf_nn_shape *c, int rows) {
    const int64_t size[3] = {c->in, CONV3X3_TAPS, c->out};
    const int box[3] = {64, 1, rows};
    return gf_box_map(map, w, 3, size, box);
}

template <int NT, bool SHARED, int MODE>
static void conv3x3_launch(gf_nn_engine *s, const conv3x3_args &p, const conv3x3_plan &f, cudaError_t e) {
    const size_t bytes = conv3x3_bytes(f);
    if (e == cudaSuccess)
        e = cudaFuncSetAttribute(conv3x3_kernel<NT, SHARED, MODE>, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes);
    if (e == cudaSuccess) {
        conv3x3_kernel<NT, SHARED, MODE><<<(unsigned)(p.strips * p.blocks), CONV3X3_THREADS, bytes, s->stream>>>(p);
        e = cudaGetLastError();
    }
    gf_cunn_note(s, e, "convolution with batch norm");
}

void gf_cunn_conv3x3_forward(gf_nn_engine *s, const gf_nn_shape *c, const gf_nn_args *a) {
    const conv3x3_plan f = conv3x3_plan_of(s, c, 0);
    conv3x3_args p = conv3x3_sizes(s, c, f);
    p.n = *a->norm;
    cudaError_t e = conv3x3_map(&p.a, a->x, c, c->in, f, 1);
    if (e == cudaSuccess) e = conv3x3_weights_map(&p.w, a->packed, c, f.shared ? 128 : 64);
    if (e == cudaSuccess) e = conv3x3_map(&p.out, a->y, c, c->out, f, 0);
    if (f.shared) conv3x3_launch<16, true, CONV3X3_FORWARD>(s, p, f, e);
    else if (f.high == 16) conv3x3_launch<16, false, CONV3X3_FORWARD>(s, p, f, e);
    else conv3x3_launch<28, false, CONV3X3_FORWARD>(s, p, f, e);
}

void gf_cunn_conv3x3_back(gf_nn_engine *s, const gf_nn_shape *c, const gf_nn_args *a) {
    const conv3x3_plan f = conv3x3_plan_of(s, c, 1);
    const gf_nn_norm *n = a->before;
    const int ends = gf_nn_norm_sums_up(n), other = !a->dx;
    conv3x3_args p = conv3x3_sizes(s, c, f);
    p.n = *n;
    if (n->shortcut) p.m = *n->shortcut;
    cudaError_t e = conv3x3_map(&p.a, a->dy, c, c->out, f, 1);
    if (e == cudaSuccess) e = conv3x3_weights_map(&p.w, a->packed, c, 64);
    if (e == cudaSuccess) e = conv3x3_map(&p.out, other ? n->dy : a->dx, c, c->in, f, 0);
    if (e == cudaSuccess) e = conv3x3_map(&p.x, n->x, c, c->in, f, 0);
    if (e == cudaSuccess && n->shortcut) e = conv3x3_map(&p.x2, n->shortcut->x, c, c->in, f, 0);
    if (f.high == 28) conv3x3_launch<28, false, CONV3X3_INNER>(s, p, f, e);
    else if (n->shortcut) conv3x3_launch<16, true, CONV3X3_PAIR>(s, p, f, e);
    else if (f.shared && ends) conv3x3_launch<16, true, CONV3X3_END>(s, p, f, e);
    else if (f.shared && other) conv3x3_launch<16, true, CONV3X3_OTHER>(s, p, f, e);
    else if (f.shared) conv3x3_launch<16, true, CONV3X3_INNER>(s, p, f, e);
    else if (ends) conv3x3_launch<16, false, CONV3X3_END>(s, p, f, e);
    else if (other) conv3x3_launch<16, false, CONV3X3_OTHER>(s, p, f, e);
    else conv3x3_launch<16, false, CONV3X3_INNER>(s, p, f, e);
}

/* ----- The gradient of the weights ------------------------------------------------------------------------------- */

/* Gradient of the weights of 3 x 3 convolutions of stride 1 and 64 channels on Hopper:
 * dw [out][3][3][in] = the sum over pixels of dy [out] x [in], x moved by the window's place.
 *
 * Patches of 8 x 16 pixels (8 x 14 where 16 do not fit) as in cunn_conv3x3.cu: dy as it is, x with a border of a pixel. A
 * warpgroup has one row of the window, [64 out] x [3 x 64 in]: both operands are summed across their rows, the pixels, and the
 * three places in a row of the window are the same numbers one pixel further: one product reads all of them. A block keeps its
 * sums to the end; a second kernel adds those of all blocks, in order, and rounds. */

enum { WEIGHTS_STAGES = 5, WEIGHTS_WORKERS = 384, WEIGHTS_THREADS = WEIGHTS_WORKERS + 128, WEIGHTS_COUNT = 64 * 9 * 64 };

template <int HIGH> struct weights_stage { /* bytes of a patch's dy and x */
    static constexpr int DY = 8 * HIGH * 128, X = CONV3X3_LINE * (HIGH + 2), BYTES = DY + (X + 1023) / 1024 * 1024;
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
                 "wgmma.mma_async.sync.aligned.m64n192k16.f32.bf16.bf16 {" CONV3X3_NAMES_96 "}, %96, %97, add, 1, 1, 1, 1;\n}"
                 : GF_WG_EACH("+f", d), GF_WG_QUAD("+f", d, 16), GF_WG_QUAD("+f", d, 17), GF_WG_QUAD("+f", d, 18),
                   GF_WG_QUAD("+f", d, 19), GF_WG_QUAD("+f", d, 20), GF_WG_QUAD("+f", d, 21), GF_WG_QUAD("+f", d, 22),
                   GF_WG_QUAD("+f", d, 23)
                 : "l"(a), "l"(b), "r"(add));
}

/* One thread. */
template <int HIGH>
static __device__ __forceinline__ void weights_load(const weights_args &p, uint32_t slots, weights_tail *tail) {
    typedef weights_stage<HIGH> stage;
    conv3x3_place at = {0, WEIGHTS_STAGES, 0, 0};
    for (int unit = blockIdx.x; unit < p.units; unit += p.parts, at.advance()) {
        const int within = unit % p.per_image;
        const conv3x3_patch patch = {unit / p.per_image, within % p.across * 8, within / p.across * HIGH};
        const uint32_t ready = gf_shared_address(&tail->full[at.slot()]), to = slots + at.slot() * stage::BYTES;
        gf_barrier_wait(gf_shared_address(&tail->empty[at.slot()]), at.lap ^ 1);
        gf_barrier_expect(ready, stage::DY + stage::X);
        conv3x3_copy(to, &p.dy, 0, patch, 0, 0, ready);
        conv3x3_copy(to + stage::DY, &p.x, 0, patch, -1, -1, ready);
    }
}

/* The sums of row `ky` of the window. */
template <int HIGH>
static __device__ __forceinline__ void weights_sum(const weights_args &p, uint32_t slots, weights_tail *tail, int ky) {
    typedef weights_stage<HIGH> stage;
    float d[24][4];
    conv3x3_place at = {0, WEIGHTS_STAGES, 0, 0};
    epilogue_pin(d);
    for (int unit = blockIdx.x; unit < p.units; unit += p.parts) {
        const uint32_t dy = slots + at.slot() * stage::BYTES, x = dy + stage::DY + ky * CONV3X3_LINE;
        gf_barrier_wait(gf_shared_address(&tail->full[at.slot()]), at.lap);
        gf_wg_begin();
#pragma unroll
        for (int k = 0; k < HIGH / 2; k++) /* two lines of 8 pixels each; 128 bytes to the next place of the window */
            weights_product(d, gf_operand_at(dy + 2048 * k, 16), conv3x3_operand(x + 2 * CONV3X3_LINE * k, CONV3X3_LINE, 128),
                            unit > (int)blockIdx.x || k > 0);
        gf_wg_commit();
        gf_wg_wait<1>();
        if (unit > (int)blockIdx.x) conv3x3_release(&tail->empty[at.before()], 1);
        at.advance();
    }
    gf_wg_wait<0>();
    epilogue_pin(d);
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

size_t gf_cunn_conv3x3_weights_scratch(const gf_nn_engine *s, const gf_nn_shape *c) {
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

void gf_cunn_conv3x3_weights(gf_nn_engine *s, const gf_nn_shape *c, const gf_nn_args *a, void *dw) {
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
