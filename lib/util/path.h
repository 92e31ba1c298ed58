/* path.h - paths as text. */
#pragma once

#include <limits.h>

#include "util/status.h"

/* FOLDER/NAME. E_ARGUMENT: it is too long for a path. */
glofnd_status gf_path_join(gf_error *err, char out[PATH_MAX], const char *folder, const char *name);
