/* torch_file.c - see torch_file.h. */
#include "torch/torch_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "io/file.h"
#include "pickle/pickle.h"
#include "torch/zip_entries.h"

/* ----- what may be called ----- */

/* X(name of the storage's class, type of its numbers) */
#define STORAGE_LIST(X)      \
    X(FloatStorage, F32)     \
    X(HalfStorage, F16)      \
    X(BFloat16Storage, BF16) \
    X(DoubleStorage, F64) X(LongStorage, I64) X(IntStorage, I32) X(CharStorage, I8) X(ByteStorage, U8) X(BoolStorage, BOOL)

static const gf_pickle_function functions[] = {{"collections", "OrderedDict"},
                                               {"torch._utils", "_rebuild_tensor_v2"},
                                               {"torch._utils", "_rebuild_parameter"},
#define X(name, type) {"torch", #name},
                                               STORAGE_LIST(X)
#undef X
};

static const gf_pickle_rules rules = {
    .of = "tensors",
    .refusal = "only tensors are read, no objects; in PyTorch: torch.save(model.state_dict(), \"x.pth\")",
    .functions = functions,
    .count = sizeof functions / sizeof *functions,
    .persistent = 1};

static int type_of(const gf_pickle *p, int32_t function, gf_st_type *out) {
#define X(name, type) \
    if (gf_pickle_is_function(p, function, #name)) return *out = GF_ST_##type, 1;
    STORAGE_LIST(X)
#undef X
    return 0;
}

/* ----- tensors ----- */

typedef struct reader {
    gf_error *err;
    const char *path;
    gf_zip zip;
    char *pickle_name; /* "NAME/data.pkl" */
    gf_pickle p;
    gf_st_file *out;
    char *name; /* where the next name goes */
    size_t capacity;
    glofnd_status status;
} reader;

static glofnd_status bad_tensor(const reader *r, const gf_st_tensor *t, const char *what) {
    GF_FAIL(r->err, GLOFND_E_FORMAT, "%.200s: tensor '%.100s' %s", r->path, t->name, what);
}

/* Arguments of the call that makes a tensor; -1: no tensor. Parameters hold one. */
static int32_t tensor_call(const gf_pickle *p, int32_t node) {
    int32_t inner;
    if (gf_pickle_items(p, gf_pickle_call(p, node, "_rebuild_parameter"), &inner, 1)) node = inner;
    return gf_pickle_call(p, node, "_rebuild_tensor_v2");
}

static int read_integers(const gf_pickle *p, int32_t list, int n, int64_t *out) {
    int32_t item[GF_ST_MAX_RANK];
    if (gf_pickle_count(p, list) != n || !gf_pickle_items(p, list, item, n)) return 0;
    for (int k = 0; k < n; k++)
        if (!gf_pickle_integer(p, item[k], &out[k]) || out[k] < 0) return 0;
    return 1;
}

/* count and strided from shape and stride; *span = numbers of the storage from the first to the last. 0: beyond int64_t. */
static int measure(gf_st_tensor *t, int64_t *span) {
    int64_t bytes = (int64_t)gf_st_type_bytes(t->type), step = 1, last = 0;
    t->strided = 0;
    for (int k = t->rank - 1; k >= 0; k--) {
        int64_t reach;
        if (t->shape[k] > 1 && t->stride[k] != step) t->strided = 1;
        if (t->shape[k] > 0 &&
            (__builtin_mul_overflow(bytes, t->shape[k], &bytes) || __builtin_mul_overflow(step, t->shape[k], &step)))
            return 0;
        if (t->shape[k] > 0 &&
            (__builtin_mul_overflow(t->shape[k] - 1, t->stride[k], &reach) || __builtin_add_overflow(last, reach, &last)))
            return 0;
    }
    t->count = step;
    for (int k = 0; k < t->rank; k++)
        if (t->shape[k] == 0) t->count = 0, t->strided = 0;
    *span = t->count ? last : -1;
    return !__builtin_add_overflow(*span, 1, span);
}

/* ("storage", class, key, place, numbers): where it lies, and how many numbers it has. */
static glofnd_status find_storage(const reader *r, int32_t node, gf_st_tensor *t, uint64_t *at, int64_t *numbers) {
    int32_t part[5];
    const char *tag, *key;
    size_t tag_n, key_n;
    char name[512];
    const gf_pickle *p = &r->p;
    if (!gf_pickle_items(p, gf_pickle_persistent(p, node), part, 5) || !gf_pickle_string(p, part[0], &tag, &tag_n) ||
        tag_n != 7 || memcmp(tag, "storage", 7) != 0 || !type_of(p, part[1], &t->type) ||
        !gf_pickle_string(p, part[2], &key, &key_n) || !gf_pickle_integer(p, part[4], numbers) || *numbers < 0)
        return bad_tensor(r, t, "has no storage that is known here");
    const size_t folder = strlen(r->pickle_name) - strlen("data.pkl");
    if (key_n > 100 || folder > 300) return bad_tensor(r, t, "has a storage of an impossible name");
    snprintf(name, sizeof name, "%.*sdata/%.*s", (int)folder, r->pickle_name, (int)key_n, key);
    const gf_zip_entry *e = gf_zip_find(&r->zip, name);
    if (!e) return bad_tensor(r, t, "has a storage that is missing: the file is cut, or not of torch.save");
    if ((uint64_t)*numbers > e->size / gf_st_type_bytes(t->type))
        return bad_tensor(r, t, "has a storage that is shorter than it should be");
    return gf_zip_place(r->err, &r->zip, e, at);
}

/* storage, offset, sizes, strides, ... */
static glofnd_status read_tensor(const reader *r, int32_t arguments, gf_st_tensor *t) {
    int32_t part[4];
    int64_t offset = 0, numbers = 0, span = 0;
    const gf_pickle *p = &r->p;
    if (!gf_pickle_items(p, arguments, part, 4) || !gf_pickle_integer(p, part[1], &offset) || offset < 0)
        return bad_tensor(r, t, "is not described by storage, offset, sizes and strides");
    const int64_t rank = gf_pickle_count(p, part[2]);
    if (rank > GF_ST_MAX_RANK) return bad_tensor(r, t, "has more than 8 axes");
    t->rank = (int)rank;
    if (rank < 0 || !read_integers(p, part[2], t->rank, t->shape) || !read_integers(p, part[3], t->rank, t->stride))
        return bad_tensor(r, t, "is not described by storage, offset, sizes and strides");
    TRY(find_storage(r, part[0], t, &t->at, &numbers));
    if (!measure(t, &span)) return bad_tensor(r, t, "has a shape that is too large");
    if (offset > numbers || span > numbers - offset) return bad_tensor(r, t, "reaches beyond its storage");
    t->at += (uint64_t)offset * gf_st_type_bytes(t->type);
    return GLOFND_OK;
}

/* ----- the dict ----- */

static int count_tensor(void *user, int32_t key, int32_t value) {
    reader *r = user;
    const char *text;
    size_t n;
    if (tensor_call(&r->p, value) < 0 || !gf_pickle_string(&r->p, key, &text, &n)) return 1;
    r->out->count++;
    r->capacity += n + 1;
    return 1;
}

static int add_tensor(void *user, int32_t key, int32_t value) {
    reader *r = user;
    const int32_t arguments = tensor_call(&r->p, value);
    const char *text;
    size_t n;
    if (arguments < 0 || !gf_pickle_string(&r->p, key, &text, &n)) return 1;
    gf_st_tensor *t = &r->out->tensors[r->out->count++];
    memcpy(r->name, text, n);
    r->name[n] = 0;
    t->name = r->name;
    r->name += n + 1;
    r->status = memchr(text, 0, n) ? bad_tensor(r, t, "has a name with a zero byte") : read_tensor(r, arguments, t);
    return r->status == GLOFND_OK;
}

static int64_t tensors_in(reader *r, int32_t dict) {
    r->out->count = 0, r->capacity = 0;
    (void)gf_pickle_each_pair(&r->p, dict, count_tensor, r);
    return r->out->count;
}

static int32_t choose_dict(reader *r) {
    static const char *const inside[] = {"state_dict", "model_state_dict", "model"};
    for (size_t k = 0; k < sizeof inside / sizeof *inside; k++) {
        const int32_t dict = gf_pickle_get(&r->p, r->p.root, inside[k]);
        if (tensors_in(r, dict) > 0) return dict;
    }
    return tensors_in(r, r->p.root) > 0 ? r->p.root : -1;
}

static int all_begin_with(const gf_st_file *f, const char *prefix) {
    for (int64_t i = 0; i < f->count; i++)
        if (strncmp(f->tensors[i].name, prefix, strlen(prefix)) != 0) return 0;
    return f->count > 0;
}

/* Wrappers put their name in front of all others; they may be nested. */
static void strip_wrappers(gf_st_file *f) {
    static const char *const wrapper[] = {"module.", "_orig_mod."};
    for (int k = 0, none = 0; none < 2; k = !k) {
        none = all_begin_with(f, wrapper[k]) ? 0 : none + 1;
        for (int64_t i = 0; none == 0 && i < f->count; i++) f->tensors[i].name += strlen(wrapper[k]);
    }
}

static int by_text(const void *x, const void *y) { return strcmp(*(const char *const *)x, *(const char *const *)y); }

static glofnd_status check_names(const reader *r) {
    const gf_st_file *f = r->out;
    const char **name = malloc(sizeof *name * (size_t)f->count);
    FAIL_IF(r->err, !name, GLOFND_E_MEMORY, "%.300s: no memory for its names", r->path);
    for (int64_t i = 0; i < f->count; i++) name[i] = f->tensors[i].name;
    qsort(name, (size_t)f->count, sizeof *name, by_text);
    const char *twice = NULL;
    for (int64_t i = 1; i < f->count && !twice; i++)
        if (strcmp(name[i - 1], name[i]) == 0) twice = name[i];
    free(name);
    FAIL_IF(r->err, twice, GLOFND_E_FORMAT, "%.200s: corrupt: two tensors '%.100s'", r->path, twice);
    return GLOFND_OK;
}

static glofnd_status read_dict(reader *r) {
    gf_st_file *f = r->out;
    const int32_t dict = choose_dict(r);
    FAIL_IF(r->err, dict < 0, GLOFND_E_FORMAT,
            "%.200s: no dict of tensors in it; in PyTorch: torch.save(model.state_dict(), \"x.pth\")", r->path);
    f->tensors = calloc((size_t)f->count, sizeof *f->tensors);
    f->names = malloc(r->capacity);
    FAIL_IF(r->err, !f->tensors || !f->names, GLOFND_E_MEMORY, "%.300s: no memory for its tensors", r->path);
    f->count = 0, r->name = f->names;
    (void)gf_pickle_each_pair(&r->p, dict, add_tensor, r);
    TRY(r->status);
    strip_wrappers(f);
    return check_names(r);
}

/* ----- the archive ----- */

/* The pickle lies in the one folder of the archive. */
static const gf_zip_entry *find_pickle(const gf_zip *z) {
    for (size_t k = 0; k < z->count; k++) {
        const char *slash = strchr(z->entry[k].name, '/');
        if (slash && strcmp(slash, "/data.pkl") == 0) return &z->entry[k];
    }
    return NULL;
}

static glofnd_status check_order(reader *r) {
    char name[512], order[8] = "";
    uint64_t at = 0;
    snprintf(name, sizeof name, "%.*sbyteorder", (int)(strlen(r->pickle_name) - strlen("data.pkl")), r->pickle_name);
    const gf_zip_entry *e = gf_zip_find(&r->zip, name);
    if (!e) return GLOFND_OK; /* before PyTorch 2.1 */
    TRY(gf_zip_place(r->err, &r->zip, e, &at));
    TRY(gf_file_read_at(r->err, r->zip.fd, r->path, at, order, e->size < 6 ? (size_t)e->size : 6));
    FAIL_IF(r->err, strcmp(order, "little") != 0, GLOFND_E_FORMAT,
            "%.200s: numbers in the byte order of a big-endian machine; save it again on another one", r->path);
    return GLOFND_OK;
}

static glofnd_status read_archive(reader *r, uint8_t **bytes) {
    uint64_t at = 0;
    const gf_zip_entry *e = find_pickle(&r->zip);
    FAIL_IF(r->err, !e || strlen(e->name) > 300, GLOFND_E_FORMAT,
            "%.200s: a zip archive without data.pkl; expected a file of torch.save(model.state_dict(), ...)", r->path);
    r->pickle_name = (char *)(uintptr_t)e->name;
    TRY(check_order(r));
    TRY(gf_zip_place(r->err, &r->zip, e, &at));
    FAIL_IF(r->err, e->size > GF_PICKLE_BYTES_MAX, GLOFND_E_FORMAT, "%.200s: its data.pkl has %llu bytes", r->path,
            (unsigned long long)e->size);
    *bytes = malloc((size_t)e->size + 1);
    FAIL_IF(r->err, !*bytes, GLOFND_E_MEMORY, "%.200s: no memory for its data.pkl", r->path);
    TRY(gf_file_read_at(r->err, r->zip.fd, r->path, at, *bytes, (size_t)e->size));
    TRY(gf_pickle_parse(r->err, r->path, &rules, *bytes, (size_t)e->size, &r->p));
    return read_dict(r);
}

static glofnd_status open_and_read(gf_error *err, const char *path, gf_st_file *f) {
    gf_file_stamp stamp;
    uint8_t *bytes = NULL;
    reader r = {.err = err, .path = path, .p = {.root = -1}, .out = f};
    TRY(gf_file_open(err, path, &f->fd, &stamp));
    TRY(gf_zip_read_table(err, f->fd, path, stamp.size, &r.zip));
    const glofnd_status status = read_archive(&r, &bytes);
    gf_pickle_free(&r.p);
    gf_zip_free(&r.zip);
    free(bytes);
    return status;
}

glofnd_status gf_torch_open(gf_error *err, const char *path, gf_st_file *out) {
    gf_st_file f = {.fd = -1, .path = strdup(path)};
    FAIL_IF(err, !f.path, GLOFND_E_MEMORY, "%.300s: no memory", path);
    const glofnd_status status = open_and_read(err, path, &f);
    if (status == GLOFND_OK) *out = f;
    else gf_st_close(&f);
    return status;
}

/* ----- by content ----- */

glofnd_status gf_weights_open(gf_error *err, const char *path, gf_st_file *out) {
    uint8_t prefix[4] = {0};
    int fd = -1;
    gf_file_stamp stamp;
    TRY(gf_file_open(err, path, &fd, &stamp));
    const glofnd_status status =
        stamp.size < sizeof prefix ? GLOFND_OK : gf_file_read_at(err, fd, path, 0, prefix, sizeof prefix);
    close(fd);
    TRY(status);
    FAIL_IF(err, prefix[0] == 0x80 && prefix[1] == 2 && prefix[2] == 0x8a, GLOFND_E_FORMAT,
            "%.200s: a file of torch.save before PyTorch 1.6; in PyTorch: torch.save(torch.load(\"x.pth\", weights_only=True), "
            "\"y.pth\")",
            path);
    return memcmp(prefix, "PK\3\4", 4) == 0 ? gf_torch_open(err, path, out) : gf_st_open(err, path, out);
}
