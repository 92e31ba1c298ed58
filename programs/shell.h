/* shell.h - what an installed program gives to the shell: completion and manual pages, both from the tables of flags. */
#pragma once

#include "programs/cli.h"

extern const cli_verb cmd_completion, cmd_man;
