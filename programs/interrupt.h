/* interrupt.h - what happens on Ctrl-C: the first SIGINT or SIGTERM asks the verb to stop where nothing is lost, the second ends
 * the program at once.
 *
 *   pretrain      finishes the step, writes a checkpoint, ends; --resume continues from it (train/pretrain.c)
 *   sweep         asks its runs to stop in the same way; the same command continues
 *   discover      ends without a result: a folder is written whole or not at all
 *   data export   ends after the present sample, and reports how many were written
 * Other verbs end at once: they replace files only when complete.
 */
#pragma once

#include <stdatomic.h>

extern atomic_int cli_interrupted; /* 1 after the first signal */

/* message: written to stderr by the first signal; NULL: nothing. */
void cli_catch_interrupts(const char *message);
/* The same for long runs. SIGUSR1 counts, too: mpirun passes it on to the ranks without killing them soon after, and batch
 * systems send it before the time is up. So does the end of the terminal (SIGHUP), but not under nohup. */
void cli_catch_batch_signals(const char *message);
