/* cunn_window.cuh - 3 x 3 convolutions of stride 1 on Hopper, with batch norm in the epilogue: shared memory, rings and products.
 * sm_90a only.
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
 * Results are left in a slot as they are to lie in memory, and stored by another warp, which then frees the slot.
 */
#pragma once

#include "cuda/sm90/tile_wgmma.cuh"
#include "nn/cuda/cunn.h"
#include "nn/cuda/cunn_norm_line.cuh"

enum {
    WINDOW_SLOTS = 8,   /* of pixels, at most */
    WINDOW_WEIGHTS = 9, /* slots of weights, at most */
    WINDOW_WORKERS = 256,
    WINDOW_THREADS = WINDOW_WORKERS + 128,
    WINDOW_BLOCK = 8192, /* bytes of 64 x 64 weights */
    WINDOW_TAIL = 1024
};

enum window_mode { /* what the epilogue does */
                   WINDOW_FORWARD,
                   WINDOW_INNER, /* the gradient of a norm with ReLU whose only reader is the convolution */
                   WINDOW_OTHER, /* the same where there is another reader, whose part of the gradient is there */
                   WINDOW_END,   /* and the norm ends a block: bits say what ReLU let pass */
                   WINDOW_PAIR   /* and its shortcut has a norm, too */
};

struct window_args {
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

struct window_tail { /* what shared memory holds beside slots */
    uint64_t full[WINDOW_SLOTS], empty[WINDOW_SLOTS];
    uint64_t out_full[2][WINDOW_SLOTS]; /* results of a warpgroup lie there */
    uint64_t weights_full[WINDOW_WEIGHTS], weights_empty[WINDOW_WEIGHTS];
    int last;
};
static_assert(sizeof(window_tail) <= WINDOW_TAIL, "tail");

struct window_space { /* addresses in shared memory */
    uint32_t weights, slots;
    window_tail *tail;
};

template <bool SHARED> __device__ __forceinline__ window_space window_layout(unsigned char *base, const window_args &p) {
    const int weights = p.weights * WINDOW_BLOCK * (SHARED ? 2 : 1), slots = p.slots * p.slot * (SHARED ? 1 : 2);
    window_space s;
    s.weights = gf_shared_address(base);
    s.slots = s.weights + weights;
    s.tail = reinterpret_cast<window_tail *>(base + weights + slots);
    return s;
}

struct window_place { /* position in a ring of slots first .. first + count - 1 */
    int first, count, at, lap;

    __device__ __forceinline__ int slot() const { return first + at; }
    __device__ __forceinline__ int before(int by = 1) const { return first + (at + count - by) % count; }
    __device__ __forceinline__ void advance() {
        if (++at == count) at = 0, lap ^= 1;
    }
};

/* The ring of pixels of a warpgroup. */
template <bool SHARED> __device__ __forceinline__ window_place window_ring(const window_args &p, int group) {
    return {SHARED ? 0 : group * p.slots, p.slots, 0, 0};
}

/* ----- copies ------------------------------------------------------------------------------------------------------ */

struct window_patch { /* its first pixel */
    int image, x, y;
};

__device__ __forceinline__ window_patch window_patch_of(const window_args &p, int unit) {
    const int within = unit % p.per_image;
    return {unit / p.per_image, within % p.across * p.step, within / p.across * p.high};
}

__device__ __forceinline__ void window_copy(uint32_t dst, const CUtensorMap *map, int c, const window_patch &at, int dx, int dy,
                                            uint32_t barrier) {
    asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4, %5}], "
                 "[%6];" ::"r"(dst),
                 "l"(map), "r"(c), "r"(at.x + dx), "r"(at.y + dy), "r"(at.image), "r"(barrier)
                 : "memory");
}

__device__ __forceinline__ void window_copy_weights(uint32_t dst, const CUtensorMap *map, int c, int tap, int row,
                                                    uint32_t barrier) {
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4}], "
                 "[%5];" ::"r"(dst),
                 "l"(map), "r"(c), "r"(tap), "r"(row), "r"(barrier)
                 : "memory");
}

__device__ __forceinline__ void window_store(const CUtensorMap *map, uint32_t src, int c, const window_patch &at, int dx) {
    asm volatile("cp.async.bulk.tensor.4d.global.shared::cta.tile.bulk_group [%0, {%1, %2, %3, %4}], [%5];" ::"l"(map), "r"(c),
                 "r"(at.x + dx), "r"(at.y), "r"(at.image), "r"(src)
                 : "memory");
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

__device__ __forceinline__ void window_free(uint32_t barrier, int count) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(count) : "memory");
}

/* This warp no longer reads the slot; count: of the arrivals that free it. */
__device__ __forceinline__ void window_release(uint64_t *empty, int count) {
    __syncwarp();
    if (threadIdx.x % 32 == 0) window_free(gf_shared_address(empty), count);
}

/* ----- products ---------------------------------------------------------------------------------------------------- */

#define WINDOW_NAMES_96                                                                                    \
    "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, " \
    "%22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, " \
    "%42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, " \
    "%62, %63, %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, %80, %81, " \
    "%82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95"
#define WINDOW_NAMES_112 \
    WINDOW_NAMES_96 ", %96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111"
#define WINDOW_MORE(how, d)                                                                                                     \
    GF_WG_QUAD(how, d, 16), GF_WG_QUAD(how, d, 17), GF_WG_QUAD(how, d, 18), GF_WG_QUAD(how, d, 19), GF_WG_QUAD(how, d, 20),     \
        GF_WG_QUAD(how, d, 21), GF_WG_QUAD(how, d, 22), GF_WG_QUAD(how, d, 23), GF_WG_QUAD(how, d, 24), GF_WG_QUAD(how, d, 25), \
        GF_WG_QUAD(how, d, 26), GF_WG_QUAD(how, d, 27)
/* d (+)= 64 columns of weights times 224 pixels, 16 channels of the sum. ACROSS: the weights lie as [sum][columns]. */
template <bool ACROSS> __device__ __forceinline__ void window_product(float (&d)[28][4], uint64_t a, uint64_t b, int add) {
    asm volatile("{\n.reg .pred add;\nsetp.ne.b32 add, %114, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n224k16.f32.bf16.bf16 {" WINDOW_NAMES_112
                 "}, %112, %113, add, 1, 1, %115, 0;\n}"
                 : GF_WG_EACH("+f", d), WINDOW_MORE("+f", d)
                 : "l"(a), "l"(b), "r"(add), "n"(ACROSS ? 1 : 0));
}

/* The same of 128 pixels. */
template <bool ACROSS> __device__ __forceinline__ void window_product(float (&d)[16][4], uint64_t a, uint64_t b, int add) {
    asm volatile("{\n.reg .pred add;\nsetp.ne.b32 add, %66, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 " GF_WG_NAMES ", %64, %65, add, 1, 1, %67, 0;\n}"
                 : GF_WG_SUMS(d)
                 : "l"(a), "l"(b), "r"(add), "n"(ACROSS ? 1 : 0));
}

/* As gf_operand_at, with groups of 8 rows `stride` bytes apart. */
__device__ __forceinline__ uint64_t window_operand(uint32_t address, int stride, int far = 16) {
    return static_cast<uint64_t>((address & 0x3ffff) >> 4) | static_cast<uint64_t>(far >> 4) << 16 |
           static_cast<uint64_t>(stride >> 4) << 32 | 1ull << 62;
}

template <int NT> __device__ __forceinline__ void window_pin(float (&d)[NT][4]) {
#pragma unroll
    for (int i = 0; i < 4 * NT; i++) asm volatile("" : "+f"(d[i / 4][i % 4])::"memory");
}

enum { WINDOW_LINE = 10 * 128 }; /* bytes of a line of a patch with its border */

/* d (+)= the 64 channels of a chunk at `weights`, moved to the window's place `tap`, times those of the patch at `pixels`. */
template <bool ACROSS, int NT>
__device__ __forceinline__ void window_tap(float (&d)[NT][4], uint32_t weights, uint32_t pixels, int tap, int add) {
    constexpr int STEP = ACROSS ? 2048 : 32;
    const uint64_t left = gf_operand_at(weights, 16);
    const uint64_t right = window_operand(pixels + tap / 3 * WINDOW_LINE + tap % 3 * 128, WINDOW_LINE);
#pragma unroll
    for (int k = 0; k < 4; k++)
        window_product<ACROSS>(d, gf_operand_on(left, STEP * k), gf_operand_on(right, 32 * k), add || k > 0);
}

/* Alone: d = the convolution of the next slot, which is not freed. */
template <int NT, bool ACROSS>
__device__ __forceinline__ void window_multiply_own(float (&d)[NT][4], const window_space &s, const window_args &p,
                                                    const window_place &at) {
    gf_barrier_wait(gf_shared_address(&s.tail->full[at.slot()]), at.lap);
    window_pin(d);
    gf_wg_begin();
#pragma unroll
    for (int tap = 0; tap < 9; tap++)
        window_tap<ACROSS>(d, s.weights + tap * WINDOW_BLOCK, s.slots + at.slot() * p.slot, tap, tap > 0);
    gf_wg_commit();
    gf_wg_wait<0>();
    window_pin(d);
}

/* Shared: d and e = the convolution of the next slots, of two patches. The last `keep` slots are not freed: results will lie
 * there. */
template <bool ACROSS>
__device__ __forceinline__ void window_multiply(float (&d)[16][4], float (&e)[16][4], const window_space &s, const window_args &p,
                                                window_place &at, window_place &weights, int group, int keep) {
    int before = 0;
    window_pin(d), window_pin(e);
    for (int i = 0; i < p.chunks; i++) {
        gf_barrier_wait(gf_shared_address(&s.tail->full[at.slot()]), at.lap);
        const uint32_t pixels = s.slots + at.slot() * p.slot;
        for (int tap = 0; tap < 9; tap++) {
            gf_barrier_wait(gf_shared_address(&s.tail->weights_full[weights.slot()]), weights.lap);
            const uint32_t left = s.weights + (2 * weights.slot() + group) * WINDOW_BLOCK;
            gf_wg_begin();
            window_tap<ACROSS>(d, left, pixels, tap, i > 0 || tap > 0);
            window_tap<ACROSS>(e, left, pixels + p.slot / 2, tap, i > 0 || tap > 0);
            gf_wg_commit();
            gf_wg_wait<1>(); /* all before these products */
            if (i > 0 || tap > 0) window_release(&s.tail->weights_empty[before], 1);
            before = weights.slot();
            weights.advance();
            if (tap == 0 && i > 0 && i <= p.chunks - keep) window_release(&s.tail->empty[at.before()], 1);
        }
        at.advance();
    }
    gf_wg_wait<0>();
    window_pin(d), window_pin(e);
    window_release(&s.tail->weights_empty[before], 1);
    if (keep == 0) window_release(&s.tail->empty[at.before()], 1);
}

/* ----- numbers of a slot ------------------------------------------------------------------------------------------- */

/* Four blocks of 8 pixels x 8 channels between a slot, where a row is a pixel, and the layout of sums, where it is a channel. */
__device__ __forceinline__ void window_read(uint32_t (&v)[4], uint32_t at) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v[0]), "=r"(v[1]), "=r"(v[2]), "=r"(v[3])
                 : "r"(at)
                 : "memory");
}

__device__ __forceinline__ void window_write(const uint32_t (&v)[4], uint32_t at) {
    asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(at), "r"(v[0]), "r"(v[1]),
                 "r"(v[2]), "r"(v[3])
                 : "memory");
}

__device__ __forceinline__ float2 window_floats(uint32_t two) {
    return make_float2(__uint_as_float(two << 16), __uint_as_float(two & 0xffff0000u));
}

__device__ __forceinline__ uint32_t window_pack(float a, float b) {
    const __nv_bfloat162 two = __floats2bfloat162_rn(a, b);
    return *reinterpret_cast<const uint32_t *>(&two);
}
