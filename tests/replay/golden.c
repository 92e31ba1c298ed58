/* golden.c - see golden.h. */
#include "golden.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "io/file.h"

#define TABLE_LIMIT ((size_t)64 << 20) /* bytes of a .tsv file */

enum { MANIFEST_CASE, MANIFEST_ARRAY, MANIFEST_ROLE, MANIFEST_DTYPE, MANIFEST_SHAPE, MANIFEST_FILE, MANIFEST_COLUMNS };
enum { HYPER_CASE, HYPER_KEY, HYPER_VALUE, HYPER_COLUMNS };

int say(message *m, int code, const char *fmt, ...) {
    va_list args;
    va_start(args, fmt);
    vsnprintf(m->text, sizeof m->text, fmt, args);
    va_end(args);
    return code;
}

void *grab(size_t count, size_t size) {
    void *p = calloc(count ? count : 1, size ? size : 1);
    if (!p) {
        fprintf(stderr, "replay: out of memory\n");
        exit(REPLAY_UNREADABLE);
    }
    return p;
}

/* ----- tables --------------------------------------------------------------------------------------------------- */

static const char *cell(const golden_table *t, size_t row, int column) { return t->field[row * t->columns + (size_t)column]; }

static int read_text(const char *path, char **text, message *m) {
    FILE *f = fopen(path, "rb");
    SAY_IF(m, !f, REPLAY_UNREADABLE, "%s: cannot be opened: %s", path, strerror(errno));
    size_t capacity = 1 << 16, used = 0;
    char *p = grab(capacity, 1);
    while (used < TABLE_LIMIT) {
        const size_t n = fread(p + used, 1, capacity - used - 1, f);
        if (n == 0) break;
        used += n;
        if (used + 1 < capacity) continue;
        char *larger = grab(2 * capacity, 1);
        memcpy(larger, p, used);
        free(p);
        p = larger;
        capacity *= 2;
    }
    const int bad = ferror(f), holes = memchr(p, 0, used) != NULL;
    fclose(f);
    *text = p;
    SAY_IF(m, bad, REPLAY_UNREADABLE, "%s: cannot be read", path);
    SAY_IF(m, holes || used >= TABLE_LIMIT, REPLAY_UNREADABLE, "%s: not a table of text", path);
    return REPLAY_OK;
}

/* Cuts one line into exactly t->columns fields. */
static int split_line(golden_table *t, char *line, const char *path, size_t number, message *m) {
    const char **row = t->field + t->rows * t->columns;
    size_t n = 0;
    line[strcspn(line, "\r")] = 0;
    if (!*line) return REPLAY_OK;
    for (char *at = line; at; n++) {
        char *tab = strchr(at, '\t');
        if (tab) *tab = 0;
        if (n < t->columns) row[n] = at;
        at = tab ? tab + 1 : NULL;
    }
    SAY_IF(m, n != t->columns, REPLAY_UNREADABLE, "%s, line %zu: %zu fields; expected %zu, separated by tabs", path, number, n,
           t->columns);
    t->rows++;
    return REPLAY_OK;
}

static int read_table(golden_table *t, const char *root, const char *name, size_t columns, message *m) {
    char path[4096];
    size_t lines = 1, number = 0;
    *t = (golden_table){.columns = columns};
    SAY_IF(m, snprintf(path, sizeof path, "%s/%s", root, name) >= (int)sizeof path, REPLAY_UNREADABLE, "path too long");
    PASS(read_text(path, &t->text, m));
    for (const char *p = t->text; *p; p++) lines += *p == '\n';
    t->field = grab(lines * columns, sizeof *t->field);
    for (char *at = t->text; at && *at;) {
        char *end = strchr(at, '\n');
        if (end) *end = 0;
        PASS(split_line(t, at, path, ++number, m));
        at = end ? end + 1 : NULL;
    }
    return REPLAY_OK;
}

/* Adds the cases of a table that are not known yet. */
static void collect_cases(golden *g, const golden_table *t) {
    for (size_t i = 0; i < t->rows; i++) {
        size_t k = 0;
        while (k < g->case_count && strcmp(g->cases[k], cell(t, i, 0)) != 0) k++;
        if (k == g->case_count) g->cases[g->case_count++] = cell(t, i, 0);
    }
}

int golden_open(golden *g, const char *root, message *m) {
    *g = (golden){.root = root};
    PASS(read_table(&g->manifest, root, "manifest.tsv", MANIFEST_COLUMNS, m));
    PASS(read_table(&g->hyper, root, "hyper.tsv", HYPER_COLUMNS, m));
    g->cases = grab(g->manifest.rows + g->hyper.rows, sizeof *g->cases);
    collect_cases(g, &g->manifest);
    collect_cases(g, &g->hyper);
    SAY_IF(m, g->case_count == 0, REPLAY_UNREADABLE, "%s/manifest.tsv: no cases", root);
    return REPLAY_OK;
}

void golden_close(golden *g) {
    free(g->manifest.text);
    free(g->manifest.field);
    free(g->hyper.text);
    free(g->hyper.field);
    free(g->cases);
}

/* ----- arrays --------------------------------------------------------------------------------------------------- */

static void print_shape(const gf_npy *a, char *text, size_t bytes) {
    size_t n = 0;
    text[0] = 0;
    for (int k = 0; k < a->rank && n < bytes; k++)
        n += (size_t)snprintf(text + n, bytes - n, k ? ",%lld" : "%lld", (long long)a->shape[k]);
}

static uint32_t little_endian(const uint8_t *p, int bytes) {
    uint32_t x = 0;
    for (int k = 0; k < bytes; k++) x |= (uint32_t)p[k] << 8 * k;
    return x;
}

/* Where the stored (not deflated) member `name` of a ZIP file lies, by its central directory. NULL: found; else what is wrong. */
static const char *find_member(const uint8_t *zip, size_t size, const char *name, size_t *at, size_t *bytes) {
    enum { END = 22, ENTRY = 46, LOCAL = 30 }; /* sizes of the three kinds of header, names not counted */
    size_t end = size;
    do {
        if (end-- < END) return "not a .npz file";
    } while (end > size - END || memcmp(zip + end, "PK\5\6", 4) != 0);
    size_t entry = little_endian(zip + end + 16, 4);
    for (uint32_t left = little_endian(zip + end + 10, 2); left > 0; left--) {
        if (entry + ENTRY > end || memcmp(zip + entry, "PK\1\2", 4) != 0) return "damaged .npz file";
        const size_t length = little_endian(zip + entry + 28, 2);
        const size_t next = entry + ENTRY + length + little_endian(zip + entry + 30, 2) + little_endian(zip + entry + 32, 2);
        if (next > end) return "damaged .npz file";
        if (length == strlen(name) && memcmp(zip + entry + ENTRY, name, length) == 0) {
            if (little_endian(zip + entry + 10, 2) != 0) return "compressed; write it with numpy.savez";
            const size_t local = little_endian(zip + entry + 42, 4);
            *bytes = little_endian(zip + entry + 24, 4);
            if (local + LOCAL > end || memcmp(zip + local, "PK\3\4", 4) != 0) return "damaged .npz file";
            *at = local + LOCAL + little_endian(zip + local + 26, 2) + little_endian(zip + local + 28, 2);
            return *at + *bytes > end ? "damaged .npz file" : NULL;
        }
        entry = next;
    }
    return "no such array";
}

/* ROOT/FOLDER/NAME.npy: the member NAME.npy of ROOT/FOLDER.npz if there is one, else the file itself. */
static int read_array(const char *root, const char *file, gf_npy *array, gf_error *err) {
    char path[4096], member[4096 + 256];
    const char *slash = strrchr(file, '/');
    const int folder = slash ? (int)(slash - file) : 0;
    if (snprintf(path, sizeof path, "%s/%.*s.npz", root, folder, file) >= (int)sizeof path)
        return snprintf(err->text, sizeof err->text, "path too long"), 0;
    if (!slash || access(path, F_OK) != 0) {
        snprintf(path, sizeof path, "%s/%s", root, file);
        return gf_npy_read(err, path, array) == GLOFND_OK;
    }
    uint8_t *zip = NULL;
    size_t capacity = 0, size = 0, at = 0, bytes = 0;
    snprintf(member, sizeof member, "%s: %s", path, slash + 1);
    int ok = gf_file_read(err, path, TABLE_LIMIT, &zip, &capacity, &size) == GLOFND_OK;
    if (ok) {
        const char *wrong = find_member(zip, size, slash + 1, &at, &bytes);
        if (wrong) snprintf(err->text, sizeof err->text, "%.*s: %s", (int)sizeof err->text / 2, member, wrong);
        ok = !wrong && gf_npy_decode(err, member, zip + at, bytes, array) == GLOFND_OK;
    }
    free(zip);
    return ok;
}

static int load_item(const golden *g, size_t row, golden_item *item, message *m) {
    const golden_table *t = &g->manifest;
    const char *id = cell(t, row, MANIFEST_CASE), *name = cell(t, row, MANIFEST_ARRAY), *role = cell(t, row, MANIFEST_ROLE);
    char shape[256];
    gf_error err = {""};
    item->name = name;
    item->is_output = strcmp(role, "output") == 0;
    SAY_IF(m, !item->is_output && strcmp(role, "input") != 0 && strcmp(role, "info") != 0, REPLAY_UNREADABLE,
           "%s: array '%s': role '%s'; expected input, output or info", id, name, role);
    SAY_IF(m, !read_array(g->root, cell(t, row, MANIFEST_FILE), &item->array, &err), REPLAY_UNREADABLE, "%s: array '%s': %s", id,
           name, err.text);
    print_shape(&item->array, shape, sizeof shape);
    SAY_IF(m, strcmp(shape, cell(t, row, MANIFEST_SHAPE)) != 0, REPLAY_UNREADABLE,
           "%s: array '%s' has shape %s; manifest.tsv says %s", id, name, shape, cell(t, row, MANIFEST_SHAPE));
    const char *dtype = gf_npy_type_name(item->array.type);
    SAY_IF(m, strcmp(dtype, cell(t, row, MANIFEST_DTYPE)) != 0, REPLAY_UNREADABLE, "%s: array '%s' is %s; manifest.tsv says %s",
           id, name, dtype, cell(t, row, MANIFEST_DTYPE));
    return REPLAY_OK;
}

int golden_load(const golden *g, const char *id, golden_case *c, message *m) {
    size_t outputs = 0;
    *c = (golden_case){.g = g, .id = id, .items = grab(g->manifest.rows, sizeof(golden_item))};
    for (size_t i = 0; i < g->manifest.rows; i++) {
        if (strcmp(cell(&g->manifest, i, MANIFEST_CASE), id) != 0) continue;
        const char *name = cell(&g->manifest, i, MANIFEST_ARRAY);
        SAY_IF(m, golden_find(c, name), REPLAY_UNREADABLE, "%s: array '%s' is listed twice", id, name);
        PASS(load_item(g, i, &c->items[c->count++], m));
        outputs += (size_t)c->items[c->count - 1].is_output;
    }
    SAY_IF(m, outputs == 0, REPLAY_UNREADABLE, "%s: manifest.tsv lists no output for it", id);
    return REPLAY_OK;
}

void golden_unload(golden_case *c) {
    for (size_t i = 0; i < c->count; i++) gf_npy_free(&c->items[i].array);
    free(c->items);
}

const gf_npy *golden_find(const golden_case *c, const char *name) {
    for (size_t i = 0; i < c->count; i++)
        if (strcmp(c->items[i].name, name) == 0) return &c->items[i].array;
    return NULL;
}

int golden_array(const golden_case *c, const char *name, int rank, const int64_t *dims, const gf_npy **out, message *m) {
    const gf_npy *a = golden_find(c, name);
    char shape[256];
    SAY_IF(m, !a, REPLAY_UNREADABLE, "%s: manifest.tsv lists no array '%s'", c->id, name);
    int same = a->rank == rank;
    for (int k = 0; same && k < rank; k++) same = dims[k] < 0 || a->shape[k] == dims[k];
    print_shape(a, shape, sizeof shape);
    SAY_IF(m, !same, REPLAY_UNREADABLE, "%s: array '%s' has shape %s, which does not fit hyper.tsv", c->id, name, shape);
    *out = a;
    return REPLAY_OK;
}

/* ----- hyper-parameters ----------------------------------------------------------------------------------------- */

static const char *find_hyper(const golden_case *c, const char *key) {
    const golden_table *t = &c->g->hyper;
    for (size_t i = 0; i < t->rows; i++)
        if (strcmp(cell(t, i, HYPER_CASE), c->id) == 0 && strcmp(cell(t, i, HYPER_KEY), key) == 0) return cell(t, i, HYPER_VALUE);
    return NULL;
}

int golden_has(const golden_case *c, const char *key) { return find_hyper(c, key) != NULL; }

int golden_text(const golden_case *c, const char *key, const char **out, message *m) {
    *out = find_hyper(c, key);
    SAY_IF(m, !*out, REPLAY_UNREADABLE, "%s: hyper.tsv has no key '%s' for it", c->id, key);
    return REPLAY_OK;
}

int golden_number(const golden_case *c, const char *key, double *out, message *m) {
    const char *text = NULL;
    char *end = NULL;
    PASS(golden_text(c, key, &text, m));
    *out = strtod(text, &end);
    SAY_IF(m, end == text || *end || !isfinite(*out), REPLAY_UNREADABLE, "%s: hyper.tsv: '%s' is '%s'; a number is expected",
           c->id, key, text);
    return REPLAY_OK;
}

int golden_integer(const golden_case *c, const char *key, int64_t low, int64_t high, int64_t *out, message *m) {
    double x = 0.0;
    PASS(golden_number(c, key, &x, m));
    SAY_IF(m, x != floor(x) || x < (double)low || x > (double)high, REPLAY_UNREADABLE,
           "%s: hyper.tsv: '%s' is %g; expected an integer in %lld .. %lld", c->id, key, x, (long long)low, (long long)high);
    *out = (int64_t)x;
    return REPLAY_OK;
}
