/* wide_passes.cu - passes B (stats, count) and C (grad) of wide embeddings on a Hopper GPU. Compare first, time second.
 *
 *     build/bench/cuda/wide_passes [check] [time] [vN] [BxD ...]     e.g. 65536x768; vN: times of that version alone
 *                                                                    default: both, the sizes of docs/benchmarks.md
 *
 * Image and text ("pairs"): S = A B' of B x B. Two views: rows are columns, 2B of them, no pair within a sample. Every version is
 * first compared with the exact kernels on bf16 numbers, in odd sizes, with large and small buffers, small temperatures (where
 * the numbers are such that similarities are exact), and run twice: the bits must be the same. `check` with sizes compares the
 * newest versions with "v2 cluster" instead. Then times, with a buffer of so many MB for the weights of pass C, and TFLOP/s of
 * the products that the version makes.
 *
 * Lessons
 *   v1 wide      tiles of 128 x 128 (cuda_wide.cu). Image and text make S twice in each pass. P was made for complete rows, as
 *                many as 32 MB hold: at B = 65536 that is 256 rows, so that P Z had 16 thread blocks for 132 multiprocessors.
 *                Square pieces of P, and rows of 768 numbers that are no longer padded to 1024: 105 ms instead of a step of 248
 *                (B = 65536, d = 768, no thresholds).
 *   v2 large     tiles of 128 x 256 (cuda_large_*.cu), one product for both anchors of a pair, P Z and P'Z of a piece in one
 *                kernel: 45 ms. Two mistakes had cost 10 ms: a gradient that was read, added to and written number by number,
 *                each read waiting for the write before it; and numbers of the columns read behind a branch (is it past the
 *                end?), which kept the compiler from having more than one read in flight.
 *   v2 cluster   pairs of thread blocks share the columns that they fetch: between 6 % slower and 2 % faster. Thread blocks by
 *                themselves are no longer built.
 *   v3 flow      tiles of 128 x 128 with two sets of sums (the first part of cuda_large_*.cu): one is used while the tensor cores fill the other.
 *                All passes take 5 to 10 % less from B = 32768 on; the GPU is then at its power limit, and its clock falls. By
 *                rows: only the weights of pass C.
 *   Slower: weights and sums of all pieces in one persistent kernel, with P Z in tiles of 128 x 128 (38 instead of 34 ms).
 *   Without any gain: starting the next kernel early (programmatic launch), a lead of none, one or two steps of the first
 *   warpgroup before the second, thread blocks that take one tile of P Z each instead of several in turn, adding to the gradient
 *   by 16 loads at a time instead of `red`.
 */
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <string>
#include <vector>

#include "cuda/sm90/hopper.cuh"

#define MASKED (GF_MASK | GF_COUNT | GF_MOMENT)

static void check(cudaError_t e, const char *what) {
    if (e == cudaSuccess) return;
    fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(e));
    exit(1);
}
#define CHECK(call) check((call), #call)

/* ---- a batch on the device ---- */

static __device__ uint64_t mix(uint64_t i) {
    i = (i + 0x9e3779b97f4a7c15ull) * 0xbf58476d1ce4e5b9ull;
    return i ^ i >> 31;
}

static __device__ float noise(uint64_t i) { /* about normal */
    float sum = 0.0f;
    for (int k = 0; k < 4; k++) {
        i = mix(i);
        sum += float(i >> 40) * (1.0f / 16777216.0f) - 0.5f;
    }
    return sum;
}

/* Multiples of 1/64 from -4/64 to 4/64: sums of products are multiples of 2^-12, and of 1024 of them at most 4, so that any order
 * of adding them gives the same float32, also on tensor cores, which truncate. */
static __global__ void draw_exact(float *f32, __nv_bfloat16 *hi, int dim, int ld, uint64_t seed) { /* one warp per row */
    const int64_t at = int64_t(blockIdx.x) * ld;
    for (int d = threadIdx.x; d < ld; d += 32) {
        f32[at + d] = d < dim ? float(int(mix(mix(seed + at + d)) >> 33) % 9 - 4) / 64.0f : 0.0f;
        hi[at + d] = __float2bfloat16(f32[at + d]);
    }
}
static float exact_variance() { return 60.0f / 9.0f / 4096.0f; } /* of one number */

static __global__ void draw(float *f32, __nv_bfloat16 *hi, int dim, int ld, uint64_t seed) { /* one warp per row */
    const int64_t at = int64_t(blockIdx.x) * ld;
    float square = 0.0f;
    for (int d = threadIdx.x; d < dim; d += 32) square += powf(noise(seed + at + d), 2);
    for (int lanes = 16; lanes > 0; lanes /= 2) square += __shfl_xor_sync(0xffffffffu, square, lanes);
    for (int d = threadIdx.x; d < ld; d += 32) {
        hi[at + d] = __float2bfloat16(d < dim ? noise(seed + at + d) * rsqrtf(square) : 0.0f);
        f32[at + d] = __bfloat162float(hi[at + d]);
    }
}

struct batch {
    int rows, cols, ld;
    bool views;
    bool exact; /* its similarities: 1/tau above 14, which would magnify their errors */
    float inv_tau;
    gf_tile_args a; /* of the first side; flags are set by the caller */
    gf_cuda_rows side[2];
    std::vector<void *> blocks;
};

template <class T> static T *space(batch *b, size_t count) { /* poisoned */
    void *p = NULL;
    CHECK(cudaMalloc(&p, count * sizeof(T)));
    CHECK(cudaMemset(p, 0xff, count * sizeof(T)));
    b->blocks.push_back(p);
    return static_cast<T *>(p);
}

template <class T> static T *upload(batch *b, const std::vector<T> &v) {
    T *p = space<T>(b, v.size());
    CHECK(cudaMemcpy(p, v.data(), v.size() * sizeof(T), cudaMemcpyHostToDevice));
    return p;
}

static gf_operand embeddings(batch *b, int rows, int dim, uint64_t seed) {
    gf_operand z = {};
    float *f32 = space<float>(b, size_t(rows) * b->ld);
    __nv_bfloat16 *hi = space<__nv_bfloat16>(b, size_t(rows) * b->ld);
    if (b->exact) draw_exact<<<rows, 32>>>(f32, hi, dim, b->ld, seed << 40);
    else draw<<<rows, 32>>>(f32, hi, dim, b->ld, seed << 40);
    z.f32 = f32, z.hi = hi, z.rows = rows;
    return z;
}

/* Thresholds near the top 1 %. */
static gf_cuda_rows numbers(batch *b, int rows, int dim, unsigned seed) {
    gf_cuda_rows x = {};
    std::vector<float> tau(rows, b->inv_tau), lo(rows), w(rows), log_w(rows);
    const float spread = (b->exact ? exact_variance() * float(dim) : 1.0f) / sqrtf(float(dim)); /* of similarities */
    srand(seed);
    for (int r = 0; r < rows; r++) {
        lo[r] = (2.33f + 0.2f * float(rand()) / float(RAND_MAX)) * spread;
        log_w[r] = -1.0f - logf(float(rows)) - 0.2f * float(rand()) / float(RAND_MAX);
        w[r] = expf(log_w[r] + std::max(0.0f, b->inv_tau - 70.0f)); /* gf_fixed_peak */
    }
    x.inv_tau = upload(b, tau), x.lo = x.mid = x.theta = upload(b, lo), x.w = upload(b, w), x.log_w = upload(b, log_w);
    x.sum = space<double>(b, rows), x.moment = space<double>(b, rows), x.peak = space<float>(b, rows);
    x.kept = space<int32_t>(b, rows), x.above = space<int32_t>(b, rows);
    x.grad = space<float>(b, size_t(rows) * b->ld);
    return x;
}

/* rows < cols: own rows of a rank, from q0 on. buffer: bytes for the weights of pass C. */
static batch make(int rows, int cols, int q0, int dim, bool views, float inv_tau, size_t buffer) {
    batch b = {};
    b.rows = rows, b.cols = cols, b.views = views, b.inv_tau = inv_tau, b.exact = inv_tau > 14.0f;
    b.ld = static_cast<int>(gf_cuda_embed_ld(dim));
    gf_operand k = embeddings(&b, cols, dim, 1), q = views ? k : embeddings(&b, cols, dim, 2);
    q.f32 += size_t(q0) * b.ld, q.hi += size_t(q0) * b.ld, q.rows = rows;
    b.side[0] = numbers(&b, cols, dim, 3), b.side[1] = views ? b.side[0] : numbers(&b, cols, dim, 4);
    gf_tile_args &a = b.a;
    a.q = q, a.k = k, a.dim = dim, a.ld = b.ld, a.q0 = q0, a.shift = views ? 1 : 0, a.col_role = 1;
    a.row = b.side[0], a.col = b.side[1];
    for (float **x : {&a.row.inv_tau, &a.row.lo, &a.row.mid, &a.row.theta, &a.row.w, &a.row.log_w}) *x += q0;
    const size_t parts = size_t(cols + 255) / 128 * size_t(cols + 255) * 10 + size_t(cols) * 400; /* of pass B, at most */
    a.buffer_bytes = buffer, a.buffer = space<char>(&b, std::max(buffer, parts));
    return b;
}

static void drop(batch *b) {
    for (void *p : b->blocks) CHECK(cudaFree(p));
    b->blocks.clear();
}

/* The transpose: the other side of image and text. */
static gf_tile_args other_side(const gf_tile_args &a) {
    gf_tile_args t = a;
    std::swap(t.q, t.k), std::swap(t.row, t.col);
    return t;
}

/* ---- versions ---- */

typedef cudaError_t (*one_pass)(const gf_tile_args &a, cudaStream_t stream);

struct version {
    const char *name;
    one_pass stats, grad; /* NULL: large */
    bool flows;
    bool both;
};

static const version versions[] = {
    {"exact", gf_stats_exact, gf_grad_exact, false, false}, {"v1 wide", gf_stats_wide, gf_grad_wide, false, false},
    {"v2 cluster, by rows", NULL, NULL, false, false},      {"v2 cluster", NULL, NULL, false, true},
    {"v3 flow, by rows", NULL, NULL, true, false},          {"v3 flow", NULL, NULL, true, true},
};

static bool is_mirrored(const batch &b) { return b.rows == b.cols; }
static int sides_of(const batch &b) { return b.views || b.rows < b.cols ? 1 : 2; }

static cudaError_t run(const version &v, const batch &b, unsigned flags, bool grad, cudaStream_t stream) {
    gf_tile_args a = b.a;
    gf_cuda_rows mirror = b.side[1];
    a.flags = flags, a.fixed = 1;
    if (b.inv_tau > 40.0f && !(flags & GF_ABOVE)) a.flags |= GF_SHIFT;
    if (!(flags & GF_MASK)) a.row.theta = a.col.theta = mirror.theta = NULL;
    if (v.both && is_mirrored(b))
        return grad ? gf_grad_large(a, &mirror, 1, v.flows, stream) : gf_stats_large(a, &mirror, 1, v.flows, stream);
    cudaError_t e = cudaSuccess;
    for (int i = 0; e == cudaSuccess && i < sides_of(b); i++) {
        if (i) a = other_side(a);
        if (grad) e = v.grad ? v.grad(a, stream) : gf_grad_large(a, NULL, 1, v.flows, stream);
        else e = v.stats ? v.stats(a, stream) : gf_stats_large(a, NULL, 1, v.flows, stream);
    }
    return e;
}

/* ---- comparison ---- */

struct outcome { /* of both sides */
    std::vector<double> sum, moment, grad;
    std::vector<int32_t> kept, above;
};

template <class T, class U> static void append(std::vector<U> &to, const T *p, size_t count) {
    std::vector<T> v(count);
    CHECK(cudaMemcpy(v.data(), p, count * sizeof(T), cudaMemcpyDeviceToHost));
    to.insert(to.end(), v.begin(), v.end());
}

static void poison(const batch &b) {
    for (int i = 0; i < sides_of(b); i++) {
        const gf_cuda_rows &x = b.side[i];
        CHECK(cudaMemset(x.sum, 0xff, sizeof(double) * b.rows)), CHECK(cudaMemset(x.moment, 0xff, sizeof(double) * b.rows));
        CHECK(cudaMemset(x.kept, 0xff, 4 * size_t(b.rows))), CHECK(cudaMemset(x.above, 0xff, 4 * size_t(b.rows)));
        CHECK(cudaMemset(x.grad, 0xff, sizeof(float) * size_t(b.rows) * b.ld));
    }
    CHECK(cudaMemset(b.a.buffer, 0xff, b.a.buffer_bytes));
}

/* Sums of a side, relative to one peak. */
static void append_sums(std::vector<double> &to, const double *sums, const gf_cuda_rows &x, const batch &b) {
    std::vector<double> own;
    std::vector<float> peak;
    append(own, sums, b.rows), append(peak, x.peak, b.rows);
    for (int r = 0; r < b.rows; r++) to.push_back(b.inv_tau > 40.0f ? own[r] * exp(double(peak[r]) - b.inv_tau / 4) : own[r]);
}

static outcome results(const version &v, const batch &b, unsigned flags) {
    outcome y;
    poison(b);
    CHECK(run(v, b, GF_ABOVE, false, 0)), CHECK(run(v, b, flags, false, 0)), CHECK(run(v, b, flags & GF_MASK, true, 0));
    CHECK(cudaDeviceSynchronize());
    for (int i = 0; i < sides_of(b); i++) {
        const gf_cuda_rows &x = b.side[i];
        append_sums(y.sum, x.sum, x, b), append(y.grad, x.grad, size_t(b.rows) * b.ld), append(y.above, x.above, b.rows);
        if (flags & GF_MOMENT) append_sums(y.moment, x.moment, x, b);
        if (flags & GF_COUNT) append(y.kept, x.kept, b.rows);
    }
    return y;
}

template <class T> static double distance(const std::vector<T> &x, const std::vector<T> &y) {
    double error = 0.0, size = 0.0;
    for (size_t i = 0; i < x.size(); i++) error += pow(double(x[i]) - double(y[i]), 2), size += pow(double(y[i]), 2);
    return error == 0.0 ? 0.0 : sqrt(error / size);
}

/* The largest relative error of a row. */
static double worst(const std::vector<double> &x, const std::vector<double> &y) {
    double error = 0.0;
    for (size_t i = 0; i < x.size(); i++) {
        const double here = fabs(x[i] - y[i]) / fabs(y[i]);
        if (std::isnan(here)) return here;
        error = std::max(error, here);
    }
    return error;
}

static int failures;

/* Relative errors. Sums at 1/tau 14: tensor cores truncate similarities, by less than 7e-7, times 14. Above 14 similarities are
 * exact, and the limits hold for every row. At 1/tau 98, similarities below 0.2, 2^(k s - peak) is left: k = 141 is rounded by
 * 2^-17 at most, peak = 40 and the difference by 2^-19 each; times log 2 that is 1.1e-6 + 2.6e-6. The power is off by
 * 2^-22, a thread's sum of 350 of them by about 2^-24 sqrt(350): together 5e-6. Moments: the same, with similarities of both
 * signs. Gradients: weights in bf16. */
#define SUM_LIMIT 1e-5
#define MOMENT_LIMIT 1e-4
#define GRAD_LIMIT 4e-3
#define KEPT_LIMIT 1e-4 /* a threshold may lie between two roundings of a similarity; exact ones: none differs */

/* Counts of `wide` and `large` have to be equal: their similarities have the same bits. */
static bool same_counts(const batch &b, const outcome &got, const outcome &want, const outcome &wide) {
    const bool bits = got.kept == wide.kept && got.above == wide.above;
    return bits && (!b.exact || (got.kept == want.kept && got.above == want.above));
}

static void compare(const version &v, const batch &b, unsigned flags, const outcome &want, const outcome &wide) {
    const outcome got = results(v, b, flags), again = results(v, b, flags);
    const outcome &sums = flags & GF_MASK && !b.exact ? wide : want; /* see KEPT_LIMIT */
    const auto error = b.exact ? worst : distance<double>;
    const double sum = error(got.sum, sums.sum), moment = error(got.moment, sums.moment);
    const double grad = distance(got.grad, want.grad), kept = distance(got.kept, want.kept);
    const bool same = got.sum == again.sum && got.moment == again.moment && got.grad == again.grad && got.kept == again.kept &&
                      got.above == again.above;
    const bool counts = same_counts(b, got, want, wide);
    const bool good = sum < SUM_LIMIT && moment < MOMENT_LIMIT && grad < GRAD_LIMIT && kept < KEPT_LIMIT && same && counts;
    printf("%s %-20s %dx%dx%d %s 1/tau %.0f flags %2x: sum %.1e moment %.1e grad %.1e kept %.1e%s%s\n", good ? "ok " : "BAD",
           v.name, b.rows, b.cols, b.ld, b.views ? "views" : "pairs", double(b.inv_tau), flags & 0xffff, sum, moment, grad, kept,
           same ? "" : ", other bits each run", counts ? "" : ", counts differ");
    failures += !good;
}

static void compare_all() {
    static const struct {
        int rows, cols, q0, dim;
        bool views;
        float inv_tau;
        size_t buffer;
    } CASES[] = {
        {1000, 1000, 0, 768, false, 14.0f, 64u << 20}, {1000, 1000, 0, 700, false, 14.0f, 600u << 10},
        {2305, 2305, 0, 512, false, 14.0f, 8u << 20},  {1299, 1299, 0, 1000, false, 14.0f, 4u << 20},
        {130, 130, 0, 256, false, 14.0f, 1u << 20},    {2306, 2306, 0, 512, true, 14.0f, 64u << 20},
        {2562, 2562, 0, 300, true, 14.0f, 1u << 20},   {900, 900, 0, 768, true, 14.0f, 600u << 10},
        {702, 2002, 640, 768, false, 14.0f, 1u << 20}, {640, 1400, 700, 512, true, 14.0f, 64u << 20},
        {4352, 4352, 0, 512, false, 14.0f, 8u << 20},  {1000, 1000, 0, 768, false, 50.0f, 4u << 20},
        {1299, 1299, 0, 512, false, 80.0f, 4u << 20},  {1400, 1400, 0, 512, true, 98.0f, 4u << 20},
    };
    for (const auto &c : CASES) {
        batch b = make(c.rows, c.cols, c.q0, c.dim, c.views, c.inv_tau, c.buffer);
        for (unsigned flags : {0u, unsigned(GF_MASK | GF_COUNT), unsigned(GF_MOMENT), unsigned(MASKED)}) {
            const outcome want = results(versions[0], b, flags), wide = results(versions[1], b, flags);
            for (const version &v : versions)
                if (&v != versions) compare(v, b, flags, want, wide);
        }
        drop(&b);
    }
}

/* Sizes for which exact products take too long. */
static void compare_newest(const char *size) {
    const version *const cluster =
        std::find_if(std::begin(versions), std::end(versions), [](const version &v) { return !strcmp(v.name, "v2 cluster"); });
    int n = 0, dim = 0;
    if (sscanf(size, "%dx%d", &n, &dim) != 2) return;
    for (bool views : {false, true}) {
        const int rows = views ? 2 * n : n;
        if (rows > 70000) continue;
        batch b = make(rows, rows, 0, dim, views, 14.0f, 64u << 20);
        for (unsigned flags : {unsigned(GF_MOMENT), unsigned(MASKED)}) {
            const outcome want = results(*cluster, b, flags);
            for (const version *v = cluster + 1; v != std::end(versions); v++) compare(*v, b, flags, want, want);
        }
        drop(&b);
    }
}

/* ---- timing ---- */

static double time_ms(const version &v, const batch &b, unsigned flags, bool grad) {
    cudaEvent_t from, to;
    float best = 1e30f;
    CHECK(cudaEventCreate(&from)), CHECK(cudaEventCreate(&to));
    CHECK(run(v, b, flags, grad, 0));
    for (int i = 0; i < 3; i++) {
        float t;
        const int repeats = b.rows > 20000 ? 2 : 10;
        CHECK(cudaEventRecord(from, 0));
        for (int k = 0; k < repeats; k++) CHECK(run(v, b, flags, grad, 0));
        CHECK(cudaEventRecord(to, 0)), CHECK(cudaEventSynchronize(to)), CHECK(cudaEventElapsedTime(&t, from, to));
        best = std::min(best, t / float(repeats));
    }
    CHECK(cudaEventDestroy(from)), CHECK(cudaEventDestroy(to));
    return best;
}

static void report(const batch &b, const char *size, const std::string &only, size_t megabytes) {
    const double product = 2.0 * b.rows * double(b.rows) * b.ld * 1e-9; /* GFLOP; over ms: TFLOP/s */
    for (const version &v : versions) {
        if (&v == versions || (megabytes != 64 && !v.both) || strncmp(v.name, only.c_str(), only.size())) continue;
        const bool both = v.both, halves = both && b.views;
        const double s = halves ? 0.5 : both || b.views ? 1.0 : 2.0, g = s + (b.views ? 1.0 : 2.0);
        const double ms[5] = {time_ms(v, b, GF_MOMENT, false), time_ms(v, b, 0, true), time_ms(v, b, GF_ABOVE, false),
                              time_ms(v, b, MASKED, false), time_ms(v, b, GF_MASK, true)};
        printf("%-10s %-5s %3zu MB %-20s", size, b.views ? "views" : "pairs", megabytes, v.name);
        for (double t : ms) printf(" %8.3f", t);
        printf("  | %8.3f %8.3f |", ms[0] + ms[1], ms[2] + ms[3] + ms[4]);
        for (int i = 0; i < 5; i++) printf(" %4.0f", product * (i == 1 || i == 4 ? g : s) / ms[i]);
        printf("\n");
        fflush(stdout);
    }
}

int main(int argc, char **argv) {
    std::vector<std::string> sizes;
    std::string only;
    bool checks = false, times = false;
    setvbuf(stdout, NULL, _IOLBF, 0);
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "check")) checks = true;
        else if (!strcmp(argv[i], "time")) times = true;
        else if (argv[i][0] == 'v') only = argv[i];
        else sizes.push_back(argv[i]);
    }
    if ((checks && sizes.empty()) || (!checks && !times)) compare_all();
    for (size_t i = 0; checks && i < sizes.size(); i++) compare_newest(sizes[i].c_str());
    if (failures) printf("%d comparisons failed\n", failures);
    if (checks && !times) return failures > 0;
    if (sizes.empty()) sizes = {"65536x768", "32768x512", "8192x512", "4096x512", "2048x512"};
    printf("%-10s %-5s %6s %-20s %8s %8s %8s %8s %8s  | %8s %8s | TFLOP/s\n", "", "", "", "ms", "stats", "grad", "count", "stats",
           "grad", "none", "glofnd");
    for (const std::string &size : sizes) {
        int n = 0, d = 0;
        if (sscanf(size.c_str(), "%dx%d", &n, &d) != 2) continue;
        for (int views = 0; views < 2; views++) {
            const int rows = views ? 2 * n : n;
            if (rows > 70000) continue;
            for (size_t megabytes : {64, 128}) {
                batch b = make(rows, rows, 0, d, views, 14.0f, megabytes << 20);
                report(b, size.c_str(), only, megabytes);
                drop(&b);
            }
        }
    }
    return failures > 0;
}
