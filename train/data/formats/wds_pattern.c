/* wds_pattern.c - shard patterns: braces as in a shell (util/string_list.h), then * ? [...] matched against files. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "data/formats/wds.h"

#include <glob.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util/string_list.h"

/* ----- files ----- */

static glofnd_status add_matches(gf_error *err, const char *pattern, gf_string_list *out) {
    glob_t found;
    const int rc = glob(pattern, GLOB_NOSORT, NULL, &found);
    if (rc == GLOB_NOSPACE) GF_FAIL(err, GLOFND_E_MEMORY, "no memory to match '%.400s'", pattern);
    gf_string_list sorted = {0};
    glofnd_status status = GLOFND_OK;
    for (size_t i = 0; rc == 0 && i < found.gl_pathc && status == GLOFND_OK; i++) {
        status = gf_string_list_add(err, &sorted, found.gl_pathv[i], strlen(found.gl_pathv[i]));
    }
    if (rc == 0) globfree(&found);
    if (status == GLOFND_OK) status = gf_string_list_sort(err, &sorted);
    for (int64_t i = 0; i < sorted.n && status == GLOFND_OK; i++) {
        status = gf_string_list_add(err, out, gf_string_list_get(&sorted, i), strlen(gf_string_list_get(&sorted, i)));
    }
    if (status == GLOFND_OK && sorted.n == 0) status = gf_fail(err, GLOFND_E_IO, "no file matches '%.400s'", pattern);
    gf_string_list_free(&sorted);
    return status;
}

static glofnd_status add_shards(gf_error *err, const char *name, gf_string_list *out) {
    char pattern[PATH_MAX];
    if (strpbrk(name, "*?[")) return add_matches(err, name, out);
    if (!gf_is_folder(name)) return gf_string_list_add(err, out, name, strlen(name));
    const int n = snprintf(pattern, sizeof pattern, "%s/*.tar", name);
    FAIL_IF(err, n < 0 || n + 5 >= PATH_MAX, GLOFND_E_ARGUMENT, "the path '%.400s' is too long", name);
    const glofnd_status status = add_matches(err, pattern, out);
    if (status != GLOFND_E_IO) return status;
    snprintf(pattern, sizeof pattern, "%.*s/test/*.tar", n - 6, name); /* an evaluation set of DataComp */
    return add_matches(NULL, pattern, out) == GLOFND_OK ? GLOFND_OK : status;
}

glofnd_status gf_shards_find(gf_error *err, const char *pattern, gf_string_list *out) {
    gf_string_list names = {0};
    glofnd_status status = gf_braces_expand(err, pattern, &names);
    for (int64_t i = 0; i < names.n && status == GLOFND_OK; i++) status = add_shards(err, gf_string_list_get(&names, i), out);
    gf_string_list_free(&names);
    return status;
}
