/* preset_file.c - see preset_file.h. */
#include "programs/preset_file.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "util/print.h"
#include "util/text.h"

/* ----- folders of presets ----- */

static const char *const folders[] = {"../share/glofnd/configs", "configs", NULL};

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

/* Calls take(user, name) for every preset in order, without its suffix. */
static void each_preset(const char *suffix, void (*take)(void *user, const char *name), void *user) {
    char folder[PATH_MAX];
    for (int i = 0; folders[i]; i++) {
        struct dirent **entry = NULL;
        const int n = preset_folder(i, folder) ? scandir(folder, &entry, NULL, alphasort) : 0;
        for (int k = 0; k < n; k++) {
            char *name = entry[k]->d_name;
            const size_t length = strlen(name), end = strlen(suffix);
            if (length > end && strcmp(name + length - end, suffix) == 0) {
                name[length - end] = 0;
                take(user, name);
            }
            free(entry[k]);
        }
        free(entry);
    }
}

/* ----- a name that is not there ----- */

typedef struct presets {
    const char *wanted;
    char list[360], nearest[128]; /* names, as many as fit, then "..." */
    int distance;
} presets;

static void note_preset(void *user, const char *name) {
    presets *p = user;
    const size_t n = strlen(name), used = strlen(p->list);
    if (n >= sizeof p->nearest) return;
    const int distance = gf_edit_distance(p->wanted, name);
    if (!*p->nearest || distance < p->distance) p->distance = distance, memcpy(p->nearest, name, n + 1);
    const int cut = used >= 3 && strcmp(p->list + used - 3, "...") == 0; /* a shorter name that would fit is not listed, either */
    if (cut) return;
    snprintf(p->list + used, sizeof p->list - used, "%s%s", used ? ", " : "", used + n + 12 < sizeof p->list ? name : "...");
}

static glofnd_status refuse(gf_error *err, const char *name, const char *suffix) {
    presets p = {.wanted = name};
    each_preset(suffix, note_preset, &p);
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

static void print_preset(void *user, const char *name) {
    (void)user;
    gf_print(stdout, "%s\n", name);
}

void cli_preset_list(const char *suffix) { each_preset(suffix, print_preset, NULL); }
