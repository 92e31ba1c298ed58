/* run_data.c - see run_data.h. */
#include "eval/run_data.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "data/spec.h"
#include "io/calls.h"
#include "run/resume.h"
#include "util/text.h"

/* 1: the folder has an entry whose name begins with `stem`. */
static int has_entry(const char *folder, const char *stem) {
    int error = 0, found = 0;
    DIR *d = gf_open_folder(folder);
    for (struct dirent *e; d && !found && (e = gf_next_entry(d, &error));)
        found = e->d_name[0] != '.' && strncmp(e->d_name, stem, strlen(stem)) == 0;
    if (d) closedir(d);
    return found;
}

/* 1: there is such a file or folder; of a pattern, something that begins as it does. */
static int exists(const char *place) {
    char prefix[PATH_MAX];
    const size_t n = strcspn(place, "*?[{");
    if (!place[n]) return access(place, F_OK) == 0;
    if (n >= sizeof prefix) return 0;
    memcpy(prefix, place, n);
    prefix[n] = 0;
    char *slash = strrchr(prefix, '/');
    if (!slash) return has_entry(".", prefix);
    *slash = 0;
    return has_entry(slash == prefix ? "/" : prefix, slash + 1);
}

/* Options follow the place in the text of the SPEC. */
static int find_above(char base[PATH_MAX], const gf_spec *s, const char *rest, char *out, size_t bytes) {
    char place[PATH_MAX];
    for (char *end = base + strlen(base); end && end > base; end = strrchr(base, '/')) {
        *end = 0;
        const int n = snprintf(place, sizeof place, "%s/%s", base, s->place);
        if (n < 0 || (size_t)n >= sizeof place || !exists(place)) continue;
        const int m = snprintf(out, bytes, "%s:%s/%s", s->format, base, rest);
        return m > 0 && (size_t)m < bytes;
    }
    return 0;
}

int gf_run_data_find(const char *run, const char *spec, char *out, size_t bytes) {
    char base[PATH_MAX];
    gf_spec s = {0};
    int found = 0;
    if (gf_spec_parse(NULL, spec, &s) == GLOFND_OK) {
        const int relative = *s.place && *s.place != '/' && strcmp(s.format, "shapes") != 0;
        if (relative && !exists(s.place) && realpath(run, base)) found = find_above(base, &s, strchr(spec, ':') + 1, out, bytes);
        gf_spec_free(&s);
    }
    if (!found) snprintf(out, bytes, "%s", spec);
    return found;
}

glofnd_status gf_run_data_of(gf_error *err, const char *run, char *out, size_t bytes) {
    gf_config c;
    const char *was;
    TRY(gf_config_init(err, &c));
    TRY(gf_resume_read(err, run, &c, &was));
    FAIL_IF(err, !*c.data, GLOFND_E_IO, "%.300s is not the folder of a run: it names no data", run);
    gf_run_data_find(run, c.data, out, bytes);
    return GLOFND_OK;
}
