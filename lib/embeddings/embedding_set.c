/* embedding_set.c - see embedding_set.h. */
#include "embeddings/embedding_set.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/file.h"
#include "util/array.h"
#include "util/parallel.h"

struct gf_embedding_set {
    gf_string_list paths;
    gf_shard *shard; /* [paths.n] */
    int64_t n, dim;
    int named;
};

static int ends_with(const char *path, const char *end) {
    const size_t n = strlen(path), m = strlen(end);
    return n >= m && strcasecmp(path + n - m, end) == 0;
}

/* By the magic of Parquet, else by the name; everything else is taken for a .npy, whose reader knows its own. */
static const gf_shard_kind *kind_of(const char *path) {
    char magic[4] = {0};
    if (ends_with(path, ".safetensors")) return &gf_shard_tensor;
    if (ends_with(path, ".csv") || ends_with(path, ".tsv")) return &gf_shard_table;
    if (ends_with(path, ".parquet")) return &gf_shard_parquet;
    const int fd = gf_open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK, 0);
    const int parquet = fd >= 0 && read(fd, magic, 4) == 4 && memcmp(magic, "PAR1", 4) == 0;
    if (fd >= 0) gf_close(fd);
    return parquet ? &gf_shard_parquet : &gf_shard_npy;
}

static int is_packed(const char *path) {
    static const char *const endings[] = {".gz", ".zst", ".bz2", ".xz", ".zip"};
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++)
        if (ends_with(path, endings[i])) return 1;
    return 0;
}

static const char *first_with_rows(const gf_embedding_set *s) {
    int64_t i = 0;
    while (i + 1 < s->paths.n && s->shard[i].rows == 0) i++;
    return s->shard[i].path;
}

static glofnd_status open_shard(gf_error *err, const gf_embedding_input *in, gf_embedding_set *s, gf_shard *h) {
    struct stat st;
    const int there = stat(h->path, &st) == 0;
    FAIL_IF(err, there && S_ISREG(st.st_mode) && st.st_size == 0, GLOFND_E_FORMAT, "%.300s: the file is empty", h->path);
    h->kind = kind_of(h->path);
    FAIL_IF(err, there && is_packed(h->path) && h->kind == &gf_shard_npy, GLOFND_E_FORMAT,
            "%.300s is compressed; unpack it first (Parquet files may be compressed inside)", h->path);
    TRY(h->kind->open(err, in, h));
    h->first = s->n;
    if (h->rows == 0 && s->paths.n > 1) return GLOFND_OK; /* tools that write in parallel leave such files */
    FAIL_IF(err, h->rows < 1 && h->dim < 1, GLOFND_E_FORMAT, "%.300s: no rows", h->path);
    FAIL_IF(err, h->rows < 1 || h->dim < 1, GLOFND_E_FORMAT, "%.300s: an empty array, %lld x %lld", h->path, (long long)h->rows,
            (long long)h->dim);
    FAIL_IF(err, h->rows >= INT32_MAX - s->n || h->dim > (1 << 20), GLOFND_E_FORMAT,
            "%.300s: %lld x %lld is too large; the limit is 2^31 - 2 samples of 2^20 dimensions", h->path,
            (long long)(s->n + h->rows), (long long)h->dim);
    FAIL_IF(err, s->dim && h->dim != s->dim, GLOFND_E_FORMAT, "%.200s: rows of %lld numbers; those of %.200s have %lld", h->path,
            (long long)h->dim, first_with_rows(s), (long long)s->dim);
    FAIL_IF(err, s->dim && h->named != s->named && !in->some_names, GLOFND_E_FORMAT,
            "%.200s and %.200s: only one of them has names", h->path, first_with_rows(s));
    s->named = h->named && (s->named || !s->dim);
    s->n += h->rows, s->dim = h->dim;
    return GLOFND_OK;
}

static glofnd_status open_all(gf_error *err, const gf_embedding_input *in, gf_embedding_set *s) {
    TRY(gf_embedding_paths(err, in, &s->paths));
    FAIL_IF(err, s->paths.n == 0, GLOFND_E_ARGUMENT, "no file of embeddings");
    s->shard = calloc((size_t)s->paths.n, sizeof *s->shard);
    FAIL_IF(err, !s->shard, GLOFND_E_MEMORY, "no memory for %lld files", (long long)s->paths.n);
    for (int64_t i = 0; i < s->paths.n; i++) {
        s->shard[i].path = gf_string_list_get(&s->paths, i);
        TRY(open_shard(err, in, s, &s->shard[i]));
    }
    FAIL_IF(err, s->n == 0, GLOFND_E_FORMAT, "%.300s and %lld more files: no rows", s->shard[0].path, (long long)s->paths.n - 1);
    return GLOFND_OK;
}

glofnd_status gf_embeddings_open(gf_error *err, const gf_embedding_input *in, gf_embedding_set **out) {
    gf_embedding_set *s = calloc(1, sizeof *s);
    FAIL_IF(err, !s, GLOFND_E_MEMORY, "no memory for embeddings");
    const glofnd_status status = open_all(err, in, s);
    if (status == GLOFND_OK) *out = s;
    else gf_embeddings_close(s);
    return status;
}

void gf_embeddings_close(gf_embedding_set *s) {
    if (!s) return;
    for (int64_t i = 0; s->shard && i < s->paths.n; i++)
        if (s->shard[i].kind) s->shard[i].kind->close(&s->shard[i]);
    free(s->shard);
    gf_string_list_free(&s->paths);
    free(s);
}

int64_t gf_embeddings_rows(const gf_embedding_set *s) { return s->n; }
int64_t gf_embeddings_dim(const gf_embedding_set *s) { return s->dim; }
int64_t gf_embeddings_files(const gf_embedding_set *s) { return s->paths.n; }
int64_t gf_embeddings_first(const gf_embedding_set *s, int64_t file) { return file < s->paths.n ? s->shard[file].first : s->n; }
int gf_embeddings_have_names(const gf_embedding_set *s) { return s->named; }

/* ----- reading ----- */

typedef struct reading {
    gf_embedding_set *s;
    int64_t first, rows, shard; /* first shard of the rows */
    float *x;
    gf_error *error;       /* [shards] */
    glofnd_status *status; /* [shards] */
} reading;

static void read_shard(void *arg, int64_t task, int thread) {
    reading *r = arg;
    gf_shard *h = &r->s->shard[r->shard + task];
    const int64_t from = GF_MAX(r->first, h->first), to = GF_MIN(r->first + r->rows, h->first + h->rows);
    (void)thread;
    if (from >= to) return; /* a file without rows */
    r->status[task] = h->kind->read(&r->error[task], h, from - h->first, to - from, r->x + (from - r->first) * r->s->dim);
}

static int64_t shard_of(const gf_embedding_set *s, int64_t row) {
    int64_t low = 0, high = s->paths.n - 1;
    while (low < high) {
        const int64_t mid = low + (high - low + 1) / 2;
        if (s->shard[mid].first <= row) low = mid;
        else high = mid - 1;
    }
    return low;
}

glofnd_status gf_embeddings_read(gf_error *err, gf_embedding_set *s, int64_t first, int64_t rows, float *x) {
    FAIL_IF(err, first < 0 || rows < 0 || rows > s->n - first, GLOFND_E_ARGUMENT, "rows %lld to %lld of %lld", (long long)first,
            (long long)(first + rows), (long long)s->n);
    if (rows == 0) return GLOFND_OK;
    reading r = {.s = s, .first = first, .rows = rows, .x = x, .shard = shard_of(s, first)};
    const int64_t shards = shard_of(s, first + rows - 1) - r.shard + 1;
    r.error = calloc((size_t)shards, sizeof *r.error);
    r.status = calloc((size_t)shards, sizeof *r.status);
    glofnd_status status = r.error && r.status ? GLOFND_OK : gf_fail(err, GLOFND_E_MEMORY, "no memory to read embeddings");
    if (status == GLOFND_OK) gf_parallel(gf_parallel_default(), shards, read_shard, &r);
    for (int64_t i = 0; status == GLOFND_OK && i < shards; i++)
        if (r.status[i] != GLOFND_OK) status = gf_fail(err, r.status[i], "%s", r.error[i].text);
    free(r.error);
    free(r.status);
    return status;
}

int gf_embeddings_have_columns(const gf_embedding_set *s) {
    for (int64_t i = 0; s && i < s->paths.n; i++)
        if (s->shard[i].kind->labels) return 1;
    return 0;
}

int gf_embeddings_have_tensors(const gf_embedding_set *s) {
    for (int64_t i = 0; i < s->paths.n; i++)
        if (s->shard[i].kind == &gf_shard_tensor) return 1;
    return 0;
}

const char *gf_embeddings_columns(const gf_embedding_set *s) {
    for (int64_t i = 0; i < s->paths.n; i++)
        if (s->shard[i].columns[0]) return s->shard[i].columns;
    return NULL;
}

glofnd_status gf_embeddings_names(gf_error *err, gf_embedding_set *s, gf_string_list *out) {
    for (int64_t i = 0; i < s->paths.n; i++)
        if (s->shard[i].rows > 0) TRY(s->shard[i].kind->names(err, &s->shard[i], out));
    return GLOFND_OK;
}

glofnd_status gf_embeddings_labels(gf_error *err, gf_embedding_set *s, gf_string_list *out) {
    for (int64_t i = 0; i < s->paths.n; i++) {
        gf_shard *h = &s->shard[i];
        FAIL_IF(err, !h->kind->labels, GLOFND_E_FORMAT,
                "%.300s: --label-column is for Parquet files and tables; give the labels by --labels Y.npy", h->path);
        if (h->rows > 0) TRY(h->kind->labels(err, h, out));
    }
    return GLOFND_OK;
}
