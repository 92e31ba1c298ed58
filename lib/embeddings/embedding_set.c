/* embedding_set.c - see embedding_set.h. */
#include "embeddings/embedding_set.h"

#include "glofnd_discover.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/file.h"
#include "io/npy.h"
#include "util/array.h"
#include "util/parallel.h"
#include "util/string_list.h"
#include "util/text.h"

/* ----- files that paths, folders and patterns stand for ----- */

/* Bytewise, but digits in a row are one number; equal numbers: fewer zeros in front come first. */
static int by_nature(const void *x, const void *y) {
    const char *a = *(char *const *)x, *b = *(char *const *)y;
    while (*a && *b) {
        if (!isdigit((unsigned char)*a) || !isdigit((unsigned char)*b)) {
            if (*a != *b) return (unsigned char)*a < (unsigned char)*b ? -1 : 1;
            a++, b++;
            continue;
        }
        const size_t zeros_a = strspn(a, "0"), zeros_b = strspn(b, "0");
        const size_t na = strspn(a + zeros_a, "0123456789"), nb = strspn(b + zeros_b, "0123456789");
        const int order = na != nb ? (na < nb ? -1 : 1) : strncmp(a + zeros_a, b + zeros_b, na);
        if (order) return order;
        if (zeros_a != zeros_b) return zeros_a < zeros_b ? -1 : 1;
        a += zeros_a + na, b += zeros_b + nb;
    }
    return (*a != 0) - (*b != 0);
}

/* Appends `found` to `out` in natural order. */
static glofnd_status add_sorted(gf_error *err, const gf_string_list *found, gf_string_list *out) {
    const char **name = malloc((size_t)(found->n ? found->n : 1) * sizeof *name);
    FAIL_IF(err, !name, GLOFND_E_MEMORY, "no memory for %lld names of files", (long long)found->n);
    for (int64_t i = 0; i < found->n; i++) name[i] = gf_string_list_get(found, i);
    qsort(name, (size_t)found->n, sizeof *name, by_nature);
    glofnd_status status = GLOFND_OK;
    for (int64_t i = 0; i < found->n && status == GLOFND_OK; i++) status = gf_string_list_add(err, out, name[i], strlen(name[i]));
    free(name);
    return status;
}

/* Files of a folder that can hold embeddings: arrays, or tables. Hidden ones, and those of tools (_SUCCESS), are none. */
enum { ARRAYS, TABLES, ARROW };

static int is_listed(const char *name, int kind) {
    if (kind == ARROW) return gf_ends_with(name, ".arrow");
    if (kind == TABLES) return gf_ends_with(name, ".csv") || gf_ends_with(name, ".tsv");
    return gf_ends_with(name, ".npy") || gf_ends_with(name, ".parquet") || gf_ends_with(name, ".safetensors");
}

static glofnd_status list_files(gf_error *err, const char *folder, int kind, gf_string_list *found) {
    DIR *d = gf_open_folder(folder);
    int error = 0;
    FAIL_IF(err, !d, GLOFND_E_IO, "'%.300s' cannot be read: %s", folder, strerror(errno));
    glofnd_status status = GLOFND_OK;
    for (struct dirent *e; status == GLOFND_OK && (e = gf_next_entry(d, &error));) {
        char path[PATH_MAX];
        const char *name = e->d_name;
        if (name[0] == '.' || name[0] == '_' || !is_listed(name, kind)) continue;
        status = gf_path_join(err, path, folder, e->d_name);
        if (status == GLOFND_OK && !gf_is_folder(path)) status = gf_string_list_add(err, found, path, strlen(path));
    }
    closedir(d);
    FAIL_IF(err, status == GLOFND_OK && error, GLOFND_E_IO, "'%.300s' cannot be read: %s", folder, strerror(error));
    return status;
}

static glofnd_status list_matches(gf_error *err, const char *pattern, gf_string_list *found) {
    glob_t g;
    const int rc = glob(pattern, GLOB_NOSORT, NULL, &g);
    FAIL_IF(err, rc == GLOB_NOSPACE, GLOFND_E_MEMORY, "no memory to match '%.300s'", pattern);
    FAIL_IF(err, rc != 0, GLOFND_E_IO, "no file matches '%.300s'", pattern);
    glofnd_status status = GLOFND_OK;
    for (size_t i = 0; i < g.gl_pathc && status == GLOFND_OK; i++)
        status = gf_string_list_add(err, found, g.gl_pathv[i], strlen(g.gl_pathv[i]));
    globfree(&g);
    return status;
}

static glofnd_status expand_name(gf_error *err, const char *name, gf_string_list *out) {
    const int folder = gf_is_folder(name);
    if (!folder && (!strpbrk(name, "*?[") || access(name, F_OK) == 0)) return gf_string_list_add(err, out, name, strlen(name));
    gf_string_list found = {0};
    glofnd_status status = folder ? list_files(err, name, ARRAYS, &found) : list_matches(err, name, &found);
    /* Beside arrays, tables are more often lists of something else: they count where there are no arrays. */
    if (status == GLOFND_OK && folder && found.n == 0) status = list_files(err, name, TABLES, &found);
    char images[PATH_MAX]; /* as clip-retrieval has it: img_emb, text_emb and metadata in one folder */
    if (status == GLOFND_OK && folder && found.n == 0 && gf_path_join(NULL, images, name, "img_emb") == GLOFND_OK &&
        gf_is_folder(images))
        status = list_files(err, images, ARRAYS, &found);
    if (status == GLOFND_OK && folder && found.n == 0) { /* as datasets of Hugging Face save_to_disk() */
        status = list_files(err, name, ARROW, &found);
        if (status == GLOFND_OK && found.n > 0)
            status = gf_fail(err, GLOFND_E_FORMAT,
                             "'%.200s' has .arrow files, which are not read here; convert them in Python: "
                             "datasets.load_from_disk(FOLDER).to_parquet(\"x.parquet\")",
                             name);
    }
    if (status == GLOFND_OK && found.n == 0)
        status = gf_fail(err, GLOFND_E_IO,
                         "'%.200s' has no .npy, .parquet, .safetensors, .csv or .tsv file; for files in its folders give a "
                         "pattern: '%.200s/*/*.parquet'",
                         name, name);
    if (status == GLOFND_OK) status = add_sorted(err, &found, out);
    gf_string_list_free(&found);
    return status;
}

glofnd_status gf_embedding_paths(gf_error *err, const gf_embedding_input *in, gf_string_list *out) {
    for (int i = 0; i < in->paths; i++) {
        if (!strchr(in->path[i], '{') || access(in->path[i], F_OK) == 0) {
            TRY(expand_name(err, in->path[i], out));
            continue;
        }
        gf_string_list names = {0};
        glofnd_status status = gf_braces_expand(err, in->path[i], &names);
        for (int64_t k = 0; k < names.n && status == GLOFND_OK; k++)
            status = expand_name(err, gf_string_list_get(&names, k), out);
        gf_string_list_free(&names);
        TRY(status);
    }
    return GLOFND_OK;
}

/* ----- the set ----- */

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

static const char *first_with_rows(const gf_embedding_set *s) {
    int64_t i = 0;
    while (i + 1 < s->paths.n && s->shard[i].rows == 0) i++;
    return s->shard[i].path;
}

static glofnd_status open_all(gf_error *err, const gf_embedding_input *in, gf_embedding_set *s) {
    static const char *const packers[] = {".gz", ".zst", ".bz2", ".xz", ".zip"};
    TRY(gf_embedding_paths(err, in, &s->paths));
    FAIL_IF(err, s->paths.n == 0, GLOFND_E_ARGUMENT, "no file of embeddings");
    s->shard = calloc((size_t)s->paths.n, sizeof *s->shard);
    FAIL_IF(err, !s->shard, GLOFND_E_MEMORY, "no memory for %lld files", (long long)s->paths.n);
    for (int64_t i = 0; i < s->paths.n; i++) {
        s->shard[i].path = gf_string_list_get(&s->paths, i);
        gf_shard *h = &s->shard[i];
        struct stat st;
        const int there = stat(h->path, &st) == 0;
        if (there) h->bytes = st.st_size, h->changed = st.st_mtim.tv_sec, h->changed_ns = st.st_mtim.tv_nsec;
        FAIL_IF(err, there && S_ISREG(st.st_mode) && st.st_size == 0, GLOFND_E_FORMAT, "%.300s: the file is empty", h->path);
        h->kind = kind_of(h->path);
        int packed = 0;
        for (size_t k = 0; k < sizeof packers / sizeof *packers; k++) packed |= ends_with(h->path, packers[k]);
        FAIL_IF(err, there && packed && h->kind == &gf_shard_npy, GLOFND_E_FORMAT,
                "%.300s is compressed; unpack it first (Parquet files may be compressed inside)", h->path);
        /* Files of other programs, by their ending: how to convert them. */
        static const struct {
            const char *ending, *how;
        } foreign[] = {{".npz", "np.save(\"x.npy\", np.load(FILE)[\"NAME\"])"},
                       {".h5", "np.save(\"x.npy\", h5py.File(FILE)[\"NAME\"][:])"},
                       {".hdf5", "np.save(\"x.npy\", h5py.File(FILE)[\"NAME\"][:])"},
                       {".arrow", "pyarrow.parquet.write_table(pyarrow.ipc.open_stream(FILE).read_all(), \"x.parquet\")"},
                       {".feather", "pandas.read_feather(FILE).to_parquet(\"x.parquet\")"},
                       {".jsonl", "pandas.read_json(FILE, lines=True).to_parquet(\"x.parquet\")"},
                       {".pkl", "np.save(\"x.npy\", pickle.load(open(FILE, \"rb\")))"},
                       {".mat", "np.save(\"x.npy\", scipy.io.loadmat(FILE)[\"NAME\"])"},
                       {".pt", "np.save(\"x.npy\", torch.load(FILE).numpy())"},
                       {".pth", "np.save(\"x.npy\", torch.load(FILE).numpy())"}};
        for (size_t k = 0; there && h->kind == &gf_shard_npy && k < sizeof foreign / sizeof *foreign; k++)
            FAIL_IF(err, ends_with(h->path, foreign[k].ending), GLOFND_E_FORMAT,
                    "%.200s: %s files are not read here; convert it in Python: %s", h->path, foreign[k].ending, foreign[k].how);
        TRY(h->kind->open(err, in, h));
        h->first = s->n;
        if (h->rows != 0 || s->paths.n <= 1) { /* tools that write in parallel leave such files */
            FAIL_IF(err, h->rows < 1 && h->dim < 1, GLOFND_E_FORMAT, "%.300s: no rows", h->path);
            FAIL_IF(err, h->rows < 1 || h->dim < 1, GLOFND_E_FORMAT, "%.300s: an empty array, %lld x %lld", h->path,
                    (long long)h->rows, (long long)h->dim);
            FAIL_IF(err, h->rows >= INT32_MAX - s->n || h->dim > (1 << 20), GLOFND_E_FORMAT,
                    "%.300s: %lld x %lld is too large; the limit is 2^31 - 2 samples of 2^20 dimensions", h->path,
                    (long long)(s->n + h->rows), (long long)h->dim);
            FAIL_IF(err, s->dim && h->dim != s->dim, GLOFND_E_FORMAT, "%.200s: rows of %lld numbers; those of %.200s have %lld",
                    h->path, (long long)h->dim, first_with_rows(s), (long long)s->dim);
            FAIL_IF(err, s->dim && h->named != s->named && !in->some_names, GLOFND_E_FORMAT,
                    "%.200s and %.200s: only one of them has names", h->path, first_with_rows(s));
            s->named = h->named && (s->named || !s->dim);
            s->n += h->rows, s->dim = h->dim;
        }
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

glofnd_status gf_embeddings_check_unchanged(gf_error *err, const gf_embedding_set *s) {
    for (int64_t i = 0; i < s->paths.n; i++) {
        const gf_shard *h = &s->shard[i];
        struct stat st;
        FAIL_IF(err,
                stat(h->path, &st) != 0 || st.st_size != h->bytes || st.st_mtim.tv_sec != h->changed ||
                    st.st_mtim.tv_nsec != h->changed_ns,
                GLOFND_E_ARGUMENT, "'%.300s' was changed while it was read; nothing is written: search again", h->path);
    }
    return GLOFND_OK;
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

enum { NAME_BYTES = 65536 }; /* of a row, at most */

glofnd_status gf_embeddings_names(gf_error *err, gf_embedding_set *s, gf_string_list *out) {
    for (int64_t i = 0; i < s->paths.n; i++)
        if (s->shard[i].rows > 0) TRY(s->shard[i].kind->names(err, &s->shard[i], out));
    for (int64_t i = 0; i < out->n; i++)
        FAIL_IF(err, strlen(gf_string_list_get(out, i)) > NAME_BYTES, GLOFND_E_FORMAT,
                "the name of row %lld has %zu bytes; the limit is %d: choose another column, id=NAME", (long long)i,
                strlen(gf_string_list_get(out, i)), NAME_BYTES);
    return GLOFND_OK;
}

glofnd_status gf_embeddings_labels(gf_error *err, gf_embedding_set *s, gf_string_list *out) {
    for (int64_t i = 0; i < s->paths.n; i++) {
        gf_shard *h = &s->shard[i];
        FAIL_IF(err, !h->kind->labels, GLOFND_E_FORMAT,
                "%.300s has no columns: label_column is for Parquet files and tables; give the labels in a file, labels=Y.npy",
                h->path);
        if (h->rows > 0) TRY(h->kind->labels(err, h, out));
    }
    return GLOFND_OK;
}

/* ----- whole files ----- */

#define NAMES_MAX ((int64_t)1 << 32) /* bytes of a file of names */

glofnd_status gf_embeddings_load_set(gf_error *err, gf_embedding_set *set, int64_t *n, int64_t *dim, float **x) {
    *n = gf_embeddings_rows(set), *dim = gf_embeddings_dim(set);
    *x = malloc((size_t)*n * (size_t)*dim * sizeof **x);
    FAIL_IF(err, !*x, GLOFND_E_MEMORY, "no memory for %lld x %lld float32", (long long)*n, (long long)*dim);
    return gf_embeddings_read(err, set, 0, *n, *x);
}

glofnd_status gf_embeddings_load(gf_error *err, const char *path, const char *tensor, int64_t *n, int64_t *dim, float **x) {
    const gf_embedding_input in = {.path = &path, .paths = 1, .tensor = tensor};
    gf_embedding_set *set = NULL;
    TRY(gf_embeddings_open(err, &in, &set));
    const glofnd_status status = gf_embeddings_load_set(err, set, n, dim, x);
    gf_embeddings_close(set);
    return status;
}

/* ----- labels of the rows ----- */

static glofnd_status labels_of_array(gf_error *err, const char *path, const gf_npy *a, int64_t n, int32_t **label) {
    FAIL_IF(err, a->type != GF_NPY_I4 && a->type != GF_NPY_I8 && a->type != GF_NPY_U1, GLOFND_E_FORMAT,
            "%.300s: elements are %s; expected int32, int64 or uint8: save y.astype(\"int64\")", path, gf_npy_type_name(a->type));
    FAIL_IF(err, a->rank != 1 || a->shape[0] != n, GLOFND_E_ARGUMENT,
            "%.300s: %lld labels with %d ax%s for %lld embeddings; expected one axis, and one label per row", path,
            (long long)a->count, a->rank, a->rank == 1 ? "is" : "es", (long long)n);
    *label = malloc((size_t)n * sizeof **label);
    FAIL_IF(err, !*label, GLOFND_E_MEMORY, "no memory for labels");
    for (int64_t i = 0; i < n; i++) {
        const int64_t y = gf_npy_i64(a, i);
        FAIL_IF(err, y > INT32_MAX, GLOFND_E_FORMAT, "%.300s: label %lld of row %lld does not fit into 31 bits", path,
                (long long)y, (long long)i);
        (*label)[i] = y < 0 ? -1 : (int32_t)y;
    }
    return GLOFND_OK;
}

/* Each name is one cell of a table. */
static void clean_names(gf_string_list *names) {
    for (int64_t i = 0; i < names->n; i++) gf_utf8_clean(names->text + names->at[i], ' ');
}

glofnd_status gf_row_labels_of_texts(gf_error *err, const gf_string_list *texts, int64_t n, int32_t **label,
                                     gf_string_list *classes) {
    FAIL_IF(err, texts->n != n, GLOFND_E_ARGUMENT, "%lld labels for %lld embeddings", (long long)texts->n, (long long)n);
    *label = malloc((size_t)(n + 1) * sizeof **label);
    FAIL_IF(err, !*label, GLOFND_E_MEMORY, "no memory for labels");
    int64_t integers = 0, y;
    while (integers < n && gf_label_read(gf_string_list_get(texts, integers), &y)) integers++;
    if (integers < n) {
        /* *classes: their names, by number. */
        gf_string_list class = {0};
        glofnd_status status = GLOFND_OK;
        for (int64_t i = 0; i < texts->n && status == GLOFND_OK; i++) {
            const char *text = gf_string_list_get(texts, i);
            if (gf_is_class_name(text)) status = gf_string_list_add(err, &class, text, strlen(text));
        }
        if (status == GLOFND_OK) status = gf_string_list_sort(err, &class);
        if (status == GLOFND_OK) gf_string_list_unique(&class);
        for (int64_t i = 0; i < texts->n && status == GLOFND_OK; i++)
            (*label)[i] = (int32_t)gf_string_list_find(&class, gf_string_list_get(texts, i));
        if (status == GLOFND_OK) clean_names(&class);
        if (status == GLOFND_OK) *classes = class;
        else gf_string_list_free(&class);
        return status;
    }
    for (int64_t i = 0; i < n; i++) {
        gf_label_read(gf_string_list_get(texts, i), &y);
        FAIL_IF(err, y > INT32_MAX, GLOFND_E_FORMAT, "label %lld of row %lld does not fit into 31 bits", (long long)y,
                (long long)i);
        (*label)[i] = y < 0 ? -1 : (int32_t)y;
    }
    return GLOFND_OK;
}

static glofnd_status add_line(gf_error *err, void *user, const char *text, int64_t row) {
    (void)row;
    return gf_string_list_add(err, user, text, strlen(text));
}

/* A label per line, of a .txt file, or of a table with one column. A table may have a title: a line more than rows. *known: 0: a
 * table with several columns. */
static glofnd_status labels_of_lines(gf_error *err, const char *path, int64_t n, int32_t **label, gf_string_list *classes,
                                     int *known) {
    gf_string_list texts = {0};
    int64_t lines = 0;
    const int table = !ends_with(path, ".txt");
    glofnd_status status = gf_row_values_read(err, &(gf_row_values){.path = path, .line = add_line, .user = &texts}, &lines);
    *known = 1;
    for (int64_t i = 0; table && i < texts.n && *known; i++) *known = !strpbrk(gf_string_list_get(&texts, i), ",;\t\"");
    if (status == GLOFND_OK && *known) {
        gf_string_list rest = texts;
        if (table && texts.n == n + 1) rest.at++, rest.n--;
        status = gf_row_labels_of_texts(err, &rest, n, label, classes);
    }
    gf_string_list_free(&texts);
    return status;
}

glofnd_status gf_row_labels_read(gf_error *err, const char *path, const char *column, int64_t n, int32_t **label,
                                 gf_string_list *classes) {
    if (!column && !gf_is_folder(path) && access(path, F_OK) == 0 &&
        (ends_with(path, ".txt") || ends_with(path, ".csv") || ends_with(path, ".tsv"))) {
        int known = 0;
        TRY(labels_of_lines(err, path, n, label, classes, &known));
        if (known) return GLOFND_OK;
    }
    if (gf_labels_have_columns(path)) {
        gf_string_list texts = {0};
        glofnd_status status = gf_labels_of_column(err, path, column, &texts);
        if (status == GLOFND_OK) status = gf_row_labels_of_texts(err, &texts, n, label, classes);
        gf_string_list_free(&texts);
        return status;
    }
    gf_npy a = {0};
    gf_string_list names = {0};
    int texts = 0;
    glofnd_status status = gf_npy_read_texts(err, path, &names, &texts);
    if (status == GLOFND_OK && texts) status = gf_row_labels_of_texts(err, &names, n, label, classes);
    gf_string_list_free(&names);
    if (status != GLOFND_OK || texts) return status;
    TRY(gf_npy_read(err, path, &a));
    status = labels_of_array(err, path, &a, n, label);
    gf_npy_free(&a);
    return status;
}

glofnd_status gf_row_classes_read(gf_error *err, const char *path, const int32_t *label, int64_t n, gf_string_list *classes) {
    uint8_t *text = NULL;
    size_t capacity = 0, bytes = 0;
    glofnd_status status = gf_file_read_text(err, path, GF_LIST_BYTES_MAX, &text, &capacity, &bytes);
    for (size_t at = 0; status == GLOFND_OK && at < bytes;) {
        const uint8_t *stop = memchr(text + at, '\n', bytes - at);
        const size_t length = stop ? (size_t)(stop - text) - at : bytes - at;
        status = gf_string_list_add(err, classes, (const char *)text + at, length);
        at += length + 1;
    }
    free(text);
    clean_names(classes);
    for (int64_t i = 0; status == GLOFND_OK && label && i < n; i++)
        FAIL_IF(err, label[i] >= classes->n, GLOFND_E_FORMAT, "'%.300s' has %lld names of classes; a label is %d", path,
                (long long)classes->n, (int)label[i]);
    return status;
}

/* ----- names of the rows ----- */

static glofnd_status read_text(gf_error *err, const char *path, char **text, size_t *bytes) {
    FILE *f = gf_stream_open(path, "r");
    FAIL_IF(err, !f, GLOFND_E_IO, "%.300s: cannot be opened: %s", path, strerror(errno));
    char *at = NULL;
    size_t used = 0, capacity = 0, got;
    do {
        if ((int64_t)used > NAMES_MAX || !gf_grow(&at, &capacity, used + 65536, 1)) {
            free(at);
            fclose(f);
            GF_FAIL(err, GLOFND_E_MEMORY, "%.300s: too large for a file of names", path);
        }
        got = fread(at + used, 1, 65535, f);
        used += got;
    } while (got > 0);
    const int failed = ferror(f);
    fclose(f);
    at[used] = 0;
    *text = at, *bytes = used;
    FAIL_IF(err, failed, GLOFND_E_IO, "%.300s: cannot be read", path);
    return GLOFND_OK;
}

/* Terminates every line with 0. A mark of UTF-8, which Windows puts in front, is no part of the first name. */
static glofnd_status split_names(gf_error *err, const char *path, char *text, size_t bytes, int64_t n, const char **name) {
    int64_t lines = 0;
    FAIL_IF(err, bytes == 0, GLOFND_E_ARGUMENT, "%.300s: the file is empty; expected one name per line for %lld embeddings", path,
            (long long)n);
    FAIL_IF(err, memchr(text, 0, bytes) != NULL, GLOFND_E_FORMAT, "%.300s: not a text file: it has a zero byte", path);
    if (bytes && text[bytes - 1] == '\n') text[--bytes] = 0;
    const size_t mark = bytes >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
    for (char *at = text + mark; at <= text + bytes; lines++) {
        char *stop = memchr(at, '\n', (size_t)(text + bytes - at));
        if (!stop) stop = text + bytes;
        *stop = 0;
        if (stop > at && stop[-1] == '\r') stop[-1] = 0;
        if (lines < n) name[lines] = at;
        at = stop + 1;
    }
    FAIL_IF(err, lines != n, GLOFND_E_ARGUMENT, "%.300s: %lld name%s for %lld embeddings; expected one name per line and row",
            path, (long long)lines, lines == 1 ? "" : "s", (long long)n);
    return GLOFND_OK;
}

glofnd_status gf_row_names_of_list(gf_error *err, gf_string_list *list, int64_t n, const char ***name, char **text) {
    FAIL_IF(err, list->n != n, GLOFND_E_ARGUMENT, "%lld names for %lld embeddings", (long long)list->n, (long long)n);
    *name = malloc((size_t)n * sizeof **name);
    FAIL_IF(err, !*name, GLOFND_E_MEMORY, "no memory for names");
    for (int64_t i = 0; i < n; i++) (*name)[i] = list->text + list->at[i];
    *text = list->text;
    list->text = NULL;
    return GLOFND_OK;
}

glofnd_status gf_row_names_read(gf_error *err, const char *path, const char *id, int64_t n, const char ***name, char **text) {
    if (gf_names_have_columns(path, id)) {
        gf_string_list names = {0};
        glofnd_status status = gf_names_of_column(err, path, id, &names);
        if (status == GLOFND_OK) status = gf_row_names_of_list(err, &names, n, name, text);
        gf_string_list_free(&names);
        return status;
    }
    size_t bytes = 0;
    TRY(read_text(err, path, text, &bytes));
    *name = malloc((size_t)n * sizeof **name);
    FAIL_IF(err, !*name, GLOFND_E_MEMORY, "no memory for names");
    return split_names(err, path, *text, bytes, n, *name);
}

/* ----- glofnd_embeddings of the public header: an embedding_set, with its names and labels ----- */

struct glofnd_embeddings {
    gf_embedding_set *set;
    gf_string_list names, labels;
    const char **name, **label; /* [n] into these; NULL: none */
};

gf_embedding_set *gf_embeddings_of(glofnd_embeddings *e) { return e->set; }

static glofnd_status point_at(gf_error *err, const glofnd_embeddings *e, const gf_string_list *texts, const char *what,
                              const char ***out) {
    const int64_t n = gf_embeddings_rows(e->set);
    FAIL_IF(err, texts->n != n, GLOFND_E_FORMAT, "%lld %s for %lld embeddings", (long long)texts->n, what, (long long)n);
    *out = malloc((size_t)n * sizeof **out);
    FAIL_IF(err, !*out, GLOFND_E_MEMORY, "no memory for %lld %s", (long long)n, what);
    for (int64_t i = 0; i < n; i++) (*out)[i] = gf_string_list_get(texts, i);
    return GLOFND_OK;
}

static glofnd_status open_files(gf_error *err, const glofnd_embedding_files *f, glofnd_embeddings *e) {
    const gf_embedding_input in = {
        .path = f->path, .paths = (int)f->paths, .tensor = f->tensor, .column = f->column, .id = f->id, .label = f->label};
    TRY(gf_embeddings_open(err, &in, &e->set));
    /* Names of columns or tensors that no file has would be without effect. */
    const gf_embedding_set *set = e->set;
    const char *asked = f->column ? "column" : f->id ? "id" : f->label ? "label_column" : NULL;
    FAIL_IF(err, asked && !gf_embeddings_have_columns(set), GLOFND_E_OPTION,
            "%s names a column of Parquet files or tables; the embeddings are in none", asked);
    FAIL_IF(err, f->tensor && !gf_embeddings_have_tensors(set), GLOFND_E_OPTION,
            "tensor names one of .safetensors files; the embeddings are in none");
    if (gf_embeddings_have_names(e->set)) {
        TRY(gf_embeddings_names(err, e->set, &e->names));
        TRY(point_at(err, e, &e->names, "names", &e->name));
    }
    if (!f->label) return GLOFND_OK;
    TRY(gf_embeddings_labels(err, e->set, &e->labels));
    return point_at(err, e, &e->labels, "labels", &e->label);
}

static glofnd_status create(gf_error *err, const glofnd_embedding_files *f, glofnd_embeddings **out) {
    FAIL_IF(err, !f || !out, GLOFND_E_ARGUMENT, "%s is NULL", out ? "files" : "out");
    TRY(gf_struct_check(err, "files", "glofnd_embedding_files", f, sizeof *f, sizeof *f));
    FAIL_IF(err, !f->path || f->paths < 1 || f->paths > INT_MAX, GLOFND_E_ARGUMENT, "no path of a file of embeddings");
    for (int64_t i = 0; i < f->paths; i++)
        FAIL_IF(err, !f->path[i] || !f->path[i][0], GLOFND_E_ARGUMENT, "path %lld of the embedding files is empty", (long long)i);
    glofnd_embeddings *e = calloc(1, sizeof *e);
    FAIL_IF(err, !e, GLOFND_E_MEMORY, "no memory for embedding files");
    const glofnd_status status = open_files(err, f, e);
    if (status == GLOFND_OK) *out = e;
    else glofnd_embeddings_close(e);
    return status;
}

glofnd_status glofnd_embeddings_open(const glofnd_embedding_files *files, glofnd_embeddings **out, char *why, size_t why_bytes) {
    gf_error err = {""};
    if (out) *out = NULL;
    return gf_explain(create(&err, files, out), &err, why, why_bytes);
}

void glofnd_embeddings_close(glofnd_embeddings *e) {
    if (!e) return;
    gf_embeddings_close(e->set);
    gf_string_list_free(&e->names);
    gf_string_list_free(&e->labels);
    free(e->name);
    free(e->label);
    free(e);
}

glofnd_status glofnd_embeddings_describe(const glofnd_embeddings *e, glofnd_embeddings_info *out) {
    if (!e || gf_struct_check(NULL, "", "", out, sizeof *out, GF_STRUCT_OUT) != GLOFND_OK) return GLOFND_E_ARGUMENT;
    const glofnd_embeddings_info info = {.n = gf_embeddings_rows(e->set),
                                         .dim = gf_embeddings_dim(e->set),
                                         .files = gf_embeddings_files(e->set),
                                         .columns = gf_embeddings_columns(e->set),
                                         .name = e->name,
                                         .label = e->label};
    gf_struct_fill(out, &info, sizeof info);
    return GLOFND_OK;
}

glofnd_status glofnd_embeddings_read(glofnd_embeddings *e, int64_t first, int64_t rows, float *x, char *why, size_t why_bytes) {
    gf_error err = {""};
    const glofnd_status status = !e || (!x && rows > 0)
                                     ? gf_fail(&err, GLOFND_E_ARGUMENT, "%s is NULL", e ? "x" : "the embedding files")
                                     : gf_embeddings_read(&err, e->set, first, rows, x);
    return gf_explain(status, &err, why, why_bytes);
}
