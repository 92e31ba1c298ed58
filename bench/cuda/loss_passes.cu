/* loss_passes.cu - passes B (stats) and C (grad) on the GPU as they grew. Compare first, time second.
 *
 *     build/bench/cuda/loss_passes [NAME ...] [B ...]      versions whose name has one of the NAMEs in it; default: all of them,
 *                                                          B = 128 512 1024 2048 4096 8192 16384
 *     build/bench/cuda/loss_passes rows wgmma pairs library 1024 1056 1088 1536 2048 3072     # which is fastest, by size
 *
 * Two views of B samples, d = 128, SogCLR with GloFND: S = Z Z' of 2B x 2B, no pair within a sample. Every version is first
 * compared with v1 (float32) at 2B = 1536 rows, then timed: medians of replays of a graph that holds several repetitions. TFLOP/s
 * counts 2 (2B)^2 d per product: one in count and in stats, two in grad. The last column is grad with labels: it counts pairs of
 * one label, too, and those flagged (GF_QUALITY), where the version can.
 *
 * Lessons
 *   v1 exact     64 x 64 tiles, float32. Bound by FMA issue and shared-memory reads; it is the reference, not a contender.
 *   v2 m16       tensor cores, 8 warps of 16 rows: each right operand read from shared memory feeds one product of 16 rows, so
 *                shared memory, at 128 bytes a clock, allows half of what the tensor cores can do.
 *   v3 m32       4 warps of 32 rows, two blocks per multiprocessor: each operand feeds two products, and one block's exponentials
 *                hide behind the other's products.
 *   v4 split     few rows: 16 rows per block, 8 warps share out the columns, partial sums meet in shared memory. All
 *                multiprocessors work from 2B = 2112 down to 2B = 256 without atomics or a second launch.
 *   v5 wgmma     Hopper: products of a whole warpgroup straight from shared memory, columns fetched by the copy engine. In grad
 *                one warpgroup's next S and last P Z run while it takes exponentials; in stats four warpgroups take turns. Pays
 *                from B = 1057 on, where blocks of 16 rows no longer have a multiprocessor each.
 *   v6 pairs     stats where rows are columns: each pair is made once, for both its anchors. Half the products and exponentials,
 *                twice the sums: those of columns stay in registers, those of rows leave with each tile, and a second launch adds
 *                up the parts. Pays from B = 8192 on, without thresholds always. Three warpgroups instead of two were slower.
 *   v6 turns     grad: the two warpgroups have the tensor cores in turn, instead of sharing them and then weighing both at once.
 *   v7 between   v6 in which a product is always under way: sums of one tile stand between the products of the next, where the
 *                compiler puts them if there is no branch. What is no pair is blanked before; rows are written down half a block
 *                later, so that warps do not wait for each other. Stats and grad: addresses of operands made of values that the
 *                compiler knows to be the same for the whole warp, else it copies them anew before every product. Without any
 *                gain: flags as saturated products (fma.sat) instead of compares, polynomials for some of the exponentials,
 *                three warpgroups; in grad, weights between the products P Z, clusters that share out columns.
 *   v8 labels    grad that counts quality: the kernel of v5 instead of the general one, for few rows, too. A pair costs four
 *                instructions, written as such: two compares, and additions under their predicates. No entry is tested for being
 *                a pair: others are blanked and so never flagged, and columns of the row's own sample are subtracted at the end.
 *                Counted in a separate loop before the weights, quality made the pass take 15 % longer at B = 512 and 50 % at
 *                B = 16384 than between the weights, behind their exponentials. Without any gain: pairs of one label
 *                counted by idle warps of the warpgroup that fetches.
 *   v9 moving    count, update of lambda and stats at once, with lists of what lies above the least lambda that is expected. It
 *                needs the state of anchors, so it is not among the versions here: bench/cuda/step times it, cuda_moving
 *                compares it.
 * v2 to v4 are timed as the library chooses among their shapes (tile_mma.cuh); single shapes were timed by earlier versions of this
 * file. The last version is what the library picks by the number of rows (cuda_pass.cu).
 */
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "cuda/sm90/hopper.cuh"

#define DIM 128
#define CEILING 788.0 /* TFLOP/s of a large bf16 product on this GPU (docs/benchmarks.md) */
#define MASKED (GF_MASK | GF_COUNT)

static void check(cudaError_t e, const char *what) {
    if (e == cudaSuccess) return;
    fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(e));
    exit(1);
}
#define CHECK(call) check((call), #call)

/* ---- one batch on the device ---- */

struct batch {
    int rows;
    gf_tile_args a; /* flags are set by set_flags */
    float *theta;
    std::vector<void *> blocks;
};

static double uniform(uint64_t *s) {
    *s = *s * 6364136223846793005u + 1442695040888963407u;
    return ((double)(*s >> 11) + 0.5) / 9007199254740992.0;
}

static double normal(uint64_t *s) {
    const double u = uniform(s);
    return sqrt(-2.0 * log(u)) * cos(6.283185307179586 * uniform(s));
}

template <class T> static T *upload(batch *b, const std::vector<T> &v) {
    void *p = NULL;
    CHECK(cudaMalloc(&p, v.size() * sizeof(T)));
    CHECK(cudaMemcpy(p, v.data(), v.size() * sizeof(T), cudaMemcpyHostToDevice));
    b->blocks.push_back(p);
    return static_cast<T *>(p);
}

template <class T> static T *space(batch *b, size_t count) { /* poisoned */
    void *p = NULL;
    CHECK(cudaMalloc(&p, count * sizeof(T)));
    CHECK(cudaMemset(p, 0xff, count * sizeof(T)));
    b->blocks.push_back(p);
    return static_cast<T *>(p);
}

/* Random unit rows; bf16 numbers, so that all versions see the same similarities. Thresholds near the top 1 %. */
static batch make(int rows, uint64_t seed) {
    batch b = {};
    b.rows = rows;
    std::vector<float> z((size_t)rows * DIM), tau(rows, 10.0f), lo(rows), w(rows), log_w(rows);
    std::vector<int32_t> label(rows);
    std::vector<__nv_bfloat16> half(z.size());
    for (int r = 0; r < rows; r++) {
        double x[DIM], square = 0.0;
        for (double &v : x) v = normal(&seed), square += v * v;
        for (int d = 0; d < DIM; d++) {
            half[(size_t)r * DIM + d] = __float2bfloat16((float)(x[d] / sqrt(square)));
            z[(size_t)r * DIM + d] = __bfloat162float(half[(size_t)r * DIM + d]);
        }
        lo[r] = (float)(0.2 + 0.02 * uniform(&seed));
        log_w[r] = (float)(-1.0 - log((double)rows) - 0.2 * uniform(&seed)), w[r] = expf(log_w[r]);
        label[r] = r % 2 ? label[r - 1] : (int32_t)(11.0 * uniform(&seed)) - 1; /* -1: none */
    }
    gf_operand q = {};
    q.f32 = upload(&b, z), q.hi = upload(&b, half), q.rows = rows;
    gf_tile_args &a = b.a;
    a.q = a.k = q, a.dim = a.ld = DIM, a.shift = 1, a.col_role = 1;
    gf_cuda_rows &x = a.row;
    x.inv_tau = upload(&b, tau), x.lo = x.mid = upload(&b, lo);
    x.w = upload(&b, w), x.log_w = upload(&b, log_w);
    x.sum = space<double>(&b, rows), x.kept = space<int32_t>(&b, rows), x.above = space<int32_t>(&b, rows);
    x.label = upload(&b, label), x.same = space<int32_t>(&b, rows), x.hits = space<int32_t>(&b, rows);
    x.grad = space<float>(&b, z.size());
    a.buffer_bytes = sizeof(float) * z.size(), a.buffer = space<char>(&b, a.buffer_bytes);
    b.theta = x.lo;
    return b;
}

/* Without a mask there is no threshold. */
static void set_flags(batch *b, unsigned flags) {
    b->a.flags = flags;
    b->a.row.theta = flags & GF_MASK ? b->theta : NULL;
    b->a.col = b->a.row;
}

static void drop(batch *b) {
    for (void *p : b->blocks) CHECK(cudaFree(p));
    b->blocks.clear();
}

/* ---- versions ---- */

typedef cudaError_t (*pass)(const gf_tile_args &a, cudaStream_t stream);

static cudaError_t library_pass(gf_tile_args a, cudaError_t (*run)(const gf_cuda_pass *, int, cudaStream_t),
                                cudaStream_t stream) {
    gf_cuda_embed z = {};
    gf_cuda_pass p = {};
    z.f32.row = const_cast<float *>(a.q.f32), z.f32.rows = a.q.rows, z.f32.dim = z.f32.ld = DIM;
    z.hi = const_cast<__nv_bfloat16 *>(a.q.hi);
    p.row = &a.row, p.col = &a.col, p.shift = a.shift, p.col_role = a.col_role, p.flags = a.flags;
    p.q = p.k = &z, p.math = GF_CUDA_BF16, p.buffer = a.buffer, p.buffer_bytes = a.buffer_bytes;
    return run(&p, 1, stream);
}

static cudaError_t library_stats(const gf_tile_args &a, cudaStream_t stream) {
    return library_pass(a, a.flags & GF_ABOVE ? gf_cuda_count : gf_cuda_stats, stream);
}

static cudaError_t library_grad(const gf_tile_args &a, cudaStream_t stream) { return library_pass(a, gf_cuda_grad, stream); }

struct version {
    const char *name;
    pass stats, grad;
    bool labelled; /* whether grad counts quality */
    int most;      /* rows it is timed for */
};

static const version versions[] = {
    {"v1 exact", gf_stats_exact, gf_grad_exact, true, 8192},    {"v2 to v4 by rows", gf_stats_bf16, gf_grad_bf16, true, 1 << 30},
    {"v5 wgmma", gf_stats_wgmma, gf_grad_wgmma, true, 1 << 30}, {"v7 pairs", gf_stats_pairs, gf_grad_wgmma, true, 1 << 30},
    {"library", library_stats, library_grad, true, 1 << 30},
};

/* ---- comparison ---- */

template <class T> static std::vector<T> fetch(const T *p, size_t count) {
    std::vector<T> v(count);
    CHECK(cudaMemcpy(v.data(), p, count * sizeof(T), cudaMemcpyDeviceToHost));
    return v;
}

template <class T> static double distance(const std::vector<T> &x, const std::vector<T> &y) {
    double error = 0.0, size = 0.0;
    for (size_t i = 0; i < x.size(); i++) error += pow((double)x[i] - (double)y[i], 2), size += pow((double)y[i], 2);
    return error == 0.0 ? 0.0 : sqrt(error / size);
}

static cudaError_t count(const version *v, gf_tile_args a) {
    a.flags = GF_ABOVE;
    return v->stats(a, 0);
}

static void compare(const version *v, unsigned flags) {
    batch b = make(1536, 7), ref = make(1536, 7);
    set_flags(&b, flags), set_flags(&ref, flags);
    CHECK(count(&versions[0], ref.a)), CHECK(gf_stats_exact(ref.a, 0)), CHECK(gf_grad_exact(ref.a, 0));
    CHECK(count(v, b.a)), CHECK(v->stats(b.a, 0)), CHECK(v->grad(b.a, 0));
    CHECK(cudaDeviceSynchronize());
    const size_t n = b.rows;
    const double sums = distance(fetch(b.a.row.sum, n), fetch(ref.a.row.sum, n));
    const double grads = distance(fetch(b.a.row.grad, n * DIM), fetch(ref.a.row.grad, n * DIM));
    const double kept = flags & GF_COUNT ? distance(fetch(b.a.row.kept, n), fetch(ref.a.row.kept, n)) : 0.0;
    const double above = distance(fetch(b.a.row.above, n), fetch(ref.a.row.above, n));
    const double same = flags & GF_QUALITY ? distance(fetch(b.a.row.same, n), fetch(ref.a.row.same, n)) : 0.0;
    const double hits = flags & GF_QUALITY ? distance(fetch(b.a.row.hits, n), fetch(ref.a.row.hits, n)) : 0.0;
    const bool good = sums < 1e-5 && grads < 4e-3 && kept < 1e-4 && above < 1e-2 && same == 0.0 && hits < 1e-2;
    if (flags & GF_QUALITY) printf("%-20s %s same %.1e  hits %.1e\n", v->name, good ? "ok  " : "BAD ", same, hits);
    else if (!good || flags)
        printf("%-20s %s sum %.1e  grad %.1e  kept %.1e  above %.1e\n", v->name, good ? "ok  " : "BAD ", sums, grads, kept,
               above);
    drop(&b), drop(&ref);
    if (!good) exit(1);
}

/* Thresholds are similarities, from the product that selections work on: a difference of one bit changes the kept pairs. */
static void compare_bits(const version *v) {
    const int rows = 640;
    batch b = make(rows, 9);
    std::vector<float> s((size_t)rows * rows), lo(rows);
    set_flags(&b, MASKED);
    gf_product_args p = {};
    p.q = p.k = b.a.q, p.ld = DIM, p.rows = rows, p.shift = 1, p.s = space<float>(&b, s.size());
    CHECK(gf_product_mma(p, 1, 0)), CHECK(cudaDeviceSynchronize());
    s = fetch(p.s, s.size());
    int differ = 0, checked = 0;
    for (int shift = 2; shift < rows; shift += 37) {
        for (int r = 0; r < rows; r++) lo[r] = s[(size_t)r * rows + (r + shift) % rows];
        CHECK(cudaMemcpy(b.a.row.lo, lo.data(), rows * sizeof(float), cudaMemcpyHostToDevice));
        CHECK(v->stats(b.a, 0)), CHECK(cudaDeviceSynchronize());
        const std::vector<int32_t> kept = fetch(b.a.row.kept, rows);
        for (int r = 0; r < rows; r++) {
            const float *row = &s[(size_t)r * rows];
            const auto want = std::count_if(row, row + rows, [&](float x) { return x <= lo[r]; });
            differ += lo[r] == lo[r] && kept[r] != want, checked += lo[r] == lo[r];
        }
    }
    printf("%-20s bits of S: %d of %d thresholds differ\n", v->name, differ, checked);
    drop(&b);
    if (differ) exit(1);
}

/* ---- timing ---- */

static double time_ms(pass run, const gf_tile_args &a, int repeats) {
    cudaStream_t stream;
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    cudaEvent_t from, to;
    CHECK(cudaStreamCreate(&stream)), CHECK(cudaEventCreate(&from)), CHECK(cudaEventCreate(&to));
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    for (int i = 0; i < repeats; i++) CHECK(run(a, stream));
    CHECK(cudaStreamEndCapture(stream, &graph)), CHECK(cudaGraphInstantiate(&exec, graph, 0));
    std::vector<float> ms;
    for (int i = 0; i < 13; i++) {
        float t;
        CHECK(cudaEventRecord(from, stream)), CHECK(cudaGraphLaunch(exec, stream)), CHECK(cudaEventRecord(to, stream));
        CHECK(cudaEventSynchronize(to)), CHECK(cudaEventElapsedTime(&t, from, to));
        if (i >= 2) ms.push_back(t / (float)repeats);
    }
    std::sort(ms.begin(), ms.end());
    CHECK(cudaGraphExecDestroy(exec)), CHECK(cudaGraphDestroy(graph)), CHECK(cudaStreamDestroy(stream));
    CHECK(cudaEventDestroy(from)), CHECK(cudaEventDestroy(to));
    return ms[ms.size() / 2];
}

static void report(const version *v, batch *b) {
    const double product = 2.0 * b->rows * (double)b->rows * DIM * 1e-9; /* GFLOP; over ms: TFLOP/s */
    const int repeats = b->rows > 8192 ? 2 : 20;
    static const unsigned FLAGS[6] = {0, 0, GF_ABOVE, MASKED, MASKED, MASKED | GF_QUALITY};
    double ms[6];
    for (int i = 0; i < (v->labelled ? 6 : 5); i++) {
        set_flags(b, FLAGS[i]);
        ms[i] = time_ms(i == 1 || i > 3 ? v->grad : v->stats, b->a, repeats);
    }
    printf("%6d  %-20s", b->rows / 2, v->name);
    for (int i = 0; i < 5; i++) printf(" %8.4f", ms[i]);
    const double rate[3] = {product / ms[2], product / ms[3], 2.0 * product / ms[4]};
    for (double r : rate) printf(" %6.0f", r);
    for (double r : rate) printf(" %5.1f", 100.0 * r / CEILING);
    if (v->labelled) printf(" %8.4f", ms[5]);
    printf("\n");
    fflush(stdout);
}

static bool is_chosen(const version &v, const std::vector<const char *> &names) {
    const auto has = [&](const char *name) { return strstr(v.name, name) != NULL; };
    return names.empty() || std::any_of(names.begin(), names.end(), has);
}

int main(int argc, char **argv) {
    std::vector<int> sizes;
    std::vector<const char *> names;
    std::vector<version> chosen;
    for (int i = 1; i < argc; i++) atoi(argv[i]) > 0 ? sizes.push_back(atoi(argv[i])) : names.push_back(argv[i]);
    if (sizes.empty()) sizes = {128, 512, 1024, 2048, 4096, 8192, 16384};
    for (const version &v : versions)
        if (is_chosen(v, names)) chosen.push_back(v);
    for (const version &v : chosen) {
        compare(&v, 0), compare(&v, MASKED);
        if (v.labelled) compare(&v, GF_QUALITY), compare(&v, MASKED | GF_QUALITY);
        if (v.stats != gf_stats_exact) compare_bits(&v);
    }
    printf("\n%28s %17s %26s %20s %17s %8s\n", "", "none", "glofnd", "TFLOP/s, glofnd", "% of ceiling", "labelled");
    printf("%6s  %-20s %8s %8s %8s %8s %8s %6s %6s %6s %5s %5s %5s %8s\n", "B", "version", "stats", "grad", "count", "stats",
           "grad", "count", "stats", "grad", "count", "stats", "grad", "grad");
    for (int size : sizes) {
        batch b = make(2 * size, 1);
        for (const version &v : chosen)
            if (b.rows <= v.most) report(&v, &b);
        drop(&b);
    }
    return 0;
}
