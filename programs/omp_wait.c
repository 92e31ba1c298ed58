/* omp_wait.c - see omp_wait.h.
 *
 * libgomp lets threads spin at the end of every parallel loop. Where the cores also run the loader's threads or other programs,
 * the spinning takes them from the thread that all others wait for, and a training step takes up to five times as long; with
 * sleeping threads it is no slower even on a machine of its own. The runtime reads the environment once, before main, so setting
 * the variable here is too late: the program starts itself again.
 */
#include "programs/omp_wait.h"

#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

#define STARTED_AGAIN "GLOFND_WAITS_PASSIVELY" /* set: never a second time, whatever becomes of the other variable */

void cli_wait_passively(char **argv) {
    char path[PATH_MAX];
    if (getenv("OMP_WAIT_POLICY") || getenv("GOMP_SPINCOUNT") || getenv(STARTED_AGAIN)) return;
    if (setenv("OMP_WAIT_POLICY", "passive", 1) != 0 || setenv(STARTED_AGAIN, "1", 1) != 0) return;
    const ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1); /* started as the link it would be called "exe" */
    if (length <= 0 || length >= (ssize_t)sizeof path - 1) return;
    path[length] = 0;
    execv(path, argv);
    /* Not allowed: the program is slower at worst. Programs that it starts have the setting all the same. */
}
