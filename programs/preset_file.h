/* preset_file.h - configurations by name. */
#pragma once

#include <limits.h>

#include "util/status.h"

/* The file that --config or --file names: `name` itself if there is such a file; else, for a name without '/', the preset NAME or
 * NAME + suffix beside the program: PREFIX/share/glofnd/configs of an installed one, the link configs in a build folder, wherever
 * that is. E_IO: neither; the text lists the presets, or the one that is likely meant. */
glofnd_status cli_preset_file(gf_error *err, const char *name, const char *suffix, char path[PATH_MAX]);

/* Prints the names of the presets that end in `suffix`, without it, a line each. */
void cli_preset_list(const char *suffix);
