/* memory_limit.h - how much memory a process can have here. */
#pragma once

#include <stdint.h>

/* The least of the machine's memory, the limit of its container (cgroup) and that of the process (ulimit -v), in bytes; 0:
 * unknown. *what (may be NULL): which of them, for messages: "this machine", "this container", "this process (ulimit -v)". */
int64_t gf_memory_limit(const char **what);
/* Address space that is left under ulimit -v; INT64_MAX without such a limit. */
int64_t gf_address_space_left(void);
