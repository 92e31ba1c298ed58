/* preset_file.c - see preset_file.h. */
#include "cli/preset_file.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "util/path.h"
#include "util/strings/print.h"
#include "util/strings/suggest.h"

/* ----- folders of presets ----- */

static const char *const folders[] = {"../share/glofnd/configs", "../configs", NULL};

/* The folder of the running program; "": the system does not say. */
static void program_folder(char out[PATH_MAX]) {
    const ssize_t n = readlink("/proc/self/exe", out, PATH_MAX - 1);
    out[n > 0 ? n : 0] = 0;
    char *slash = strrchr(out, '/');
    if (slash) *slash = 0;
}

static int preset_folder(int i, char out[PATH_MAX]) {
    char program[PATH_MAX];
    program_folder(program);
    return *program && gf_path_join(NULL, out, program, folders[i]) == GLOFND_OK;
}

/* ----- a name that is not there ----- */

typedef struct presets {
    char list[360], nearest[128]; /* names without suffix, as many as fit, then "..." */
    int distance;
} presets;

static void note_preset(presets *p, const char *name, const char *file, const char *suffix) {
    char stem[128];
    const size_t n = strlen(file), m = strlen(suffix), used = strlen(p->list);
    if (n <= m || strcmp(file + n - m, suffix) != 0 || n - m >= sizeof stem) return;
    snprintf(stem, sizeof stem, "%.*s", (int)(n - m), file);
    const int distance = gf_edit_distance(name, stem);
    if (!*p->nearest || distance < p->distance) p->distance = distance, memcpy(p->nearest, stem, sizeof stem);
    const int cut = used >= 3 && strcmp(p->list + used - 3, "...") == 0; /* a shorter name that would fit is not listed, either */
    if (cut) return;
    if (used + n + 8 < sizeof p->list)
        snprintf(p->list + used, sizeof p->list - used, "%s%.*s", used ? ", " : "", (int)(n - m), file);
    else snprintf(p->list + used, sizeof p->list - used, ", ...");
}

static void collect(presets *p, const char *name, const char *suffix) {
    char folder[PATH_MAX];
    for (int i = 0; folders[i]; i++) {
        struct dirent **entry = NULL;
        const int n = preset_folder(i, folder) ? scandir(folder, &entry, NULL, alphasort) : 0;
        for (int k = 0; k < n; k++) note_preset(p, name, entry[k]->d_name, suffix), free(entry[k]);
        free(entry);
    }
}

static glofnd_status refuse(gf_error *err, const char *name, const char *suffix) {
    presets p = {0};
    collect(&p, name, suffix);
    FAIL_IF(err, *p.nearest && gf_is_near(name, p.nearest), GLOFND_E_IO,
            "'%.100s': no such file, and no preset of that name; did you mean %s?", name, p.nearest);
    GF_FAIL(err, GLOFND_E_IO, "'%.100s': no such file, and no preset of that name%s%s", name, *p.list ? "; presets: " : "",
            p.list);
}

/* ----- finding ----- */

static int find_preset(const char *name, const char *suffix, char path[PATH_MAX]) {
    char folder[PATH_MAX], file[NAME_MAX + 1];
    if (strlen(name) + strlen(suffix) > NAME_MAX) return 0;
    for (int i = 0; folders[i]; i++) {
        if (!preset_folder(i, folder)) continue;
        for (int with_suffix = 0; with_suffix < 2; with_suffix++) {
            snprintf(file, sizeof file, "%s%s", name, with_suffix ? suffix : "");
            if (gf_path_join(NULL, path, folder, file) == GLOFND_OK && access(path, R_OK) == 0) return 1;
        }
    }
    return 0;
}

glofnd_status cli_preset_file(gf_error *err, const char *name, const char *suffix, char path[PATH_MAX]) {
    errno = 0;
    if (!*name || strchr(name, '/') || access(name, F_OK) == 0 || errno != ENOENT) {
        FAIL_IF(err, snprintf(path, PATH_MAX, "%s", name) >= PATH_MAX, GLOFND_E_ARGUMENT, "the path '%.200s...' is too long",
                name);
        return GLOFND_OK; /* its reader reports what is wrong with it */
    }
    return find_preset(name, suffix, path) ? GLOFND_OK : refuse(err, name, suffix);
}

void cli_preset_list(const char *suffix) {
    char folder[PATH_MAX];
    for (int i = 0; folders[i]; i++) {
        struct dirent **entry = NULL;
        const int n = preset_folder(i, folder) ? scandir(folder, &entry, NULL, alphasort) : 0;
        for (int k = 0; k < n; k++) {
            const size_t length = strlen(entry[k]->d_name), m = strlen(suffix);
            if (length > m && strcmp(entry[k]->d_name + length - m, suffix) == 0)
                gf_print(stdout, "%.*s\n", (int)(length - m), entry[k]->d_name);
            free(entry[k]);
        }
        free(entry);
    }
}
