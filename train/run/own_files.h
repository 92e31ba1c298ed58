/* own_files.h - the files of a run, which the output of other commands must not overwrite. */
#pragma once

#include "util/status.h"

/* E_ARGUMENT: `path` names a file that a run folder has of its own (a config.cfg lies beside it, or it lies in a checkpoint), so
 * that `flag` ("--out") cannot write there. NULL is fine. */
glofnd_status gf_own_files_check(gf_error *err, const char *flag, const char *path);
