/* leftovers.c - see leftovers.h. */
#include "run/leftovers.h"

#include <dirent.h>
#include <string.h>
#include <unistd.h>

#include "io/appendlog.h"
#include "io/calls.h"
#include "run/layout.h"

static int is_leftover(const char *name) {
    static const char *const prefixes[] = {GF_CONFIG_FILE GF_TEMP_MARK,
                                           GF_MODEL_FILE GF_TEMP_MARK,
                                           GF_VOCABULARY_FILE GF_TEMP_MARK,
                                           GF_MEMORY_FILE GF_TEMP_MARK,
                                           GF_LOG_FILE GF_TEMP_MARK,
                                           GF_LOG_FILE GF_LOG_CUT GF_TEMP_MARK,
                                           GF_EVENTS_FILE GF_TEMP_MARK,
                                           GF_EVENTS_FILE GF_LOG_CUT GF_TEMP_MARK,
                                           GF_ANCHORS_WORK,
                                           GF_ANCHORS_REMAPPED,
                                           GF_RANKS_PROBE};
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++)
        if (strncmp(name, prefixes[i], strlen(prefixes[i])) == 0) return 1;
    return 0;
}

void gf_leftovers_remove(int folder) {
    int error = 0;
    const int fd = dup(folder);
    DIR *d = fd < 0 ? NULL : fdopendir(fd);
    if (!d && fd >= 0) close(fd);
    for (struct dirent *e; d && (e = gf_next_entry(d, &error));)
        if (is_leftover(e->d_name)) unlinkat(folder, e->d_name, 0);
    if (d) closedir(d);
}
