/* shard_paths.c - files that words of the command line stand for; see embedding_set.h. */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <glob.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "embeddings/embedding_set.h"
#include "io/file.h"
#include "util/text.h"
#include "util/string_list.h"

static int ends_with(const char *text, const char *end) {
    const size_t n = strlen(text), m = strlen(end);
    return n > m && strcmp(text + n - m, end) == 0;
}

static int is_shard_name(const char *name, int tables) {
    static const char *const arrays[] = {".npy", ".parquet", ".safetensors", NULL}, *const texts[] = {".csv", ".tsv", NULL};
    if (name[0] == '.' || name[0] == '_') return 0;
    for (const char *const *end = tables ? texts : arrays; *end; end++)
        if (ends_with(name, *end)) return 1;
    return 0;
}

/* Bytewise, but digits in a row are one number; equal numbers: fewer zeros in front come first. */
static int natural_order(const char *a, const char *b) {
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

static int by_nature(const void *x, const void *y) { return natural_order(*(char *const *)x, *(char *const *)y); }

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

static glofnd_status list_files(gf_error *err, const char *folder, int tables, gf_string_list *found) {
    DIR *d = gf_open_folder(folder);
    int error = 0;
    FAIL_IF(err, !d, GLOFND_E_IO, "'%.300s' cannot be read: %s", folder, strerror(errno));
    glofnd_status status = GLOFND_OK;
    for (struct dirent *e; status == GLOFND_OK && (e = gf_next_entry(d, &error));) {
        char path[PATH_MAX];
        if (!is_shard_name(e->d_name, tables)) continue;
        status = gf_path_join(err, path, folder, e->d_name);
        if (status == GLOFND_OK && !gf_is_folder(path)) status = gf_string_list_add(err, found, path, strlen(path));
    }
    closedir(d);
    FAIL_IF(err, status == GLOFND_OK && error, GLOFND_E_IO, "'%.300s' cannot be read: %s", folder, strerror(error));
    return status;
}

/* Beside arrays, tables are more often lists of something else: they count where there are no arrays. */
static glofnd_status list_folder(gf_error *err, const char *folder, gf_string_list *found) {
    TRY(list_files(err, folder, 0, found));
    return found->n > 0 ? GLOFND_OK : list_files(err, folder, 1, found);
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
    glofnd_status status = folder ? list_folder(err, name, &found) : list_matches(err, name, &found);
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
