/* omp_wait.h - how the threads of this process wait for work. */
#pragma once

/* Makes waiting threads sleep instead of spin, unless the environment chooses how they wait. May start the program anew with
 * the same arguments, so it comes before anything else in main. */
void cli_wait_passively(char **argv);
