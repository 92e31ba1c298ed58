/* interrupt.c - see interrupt.h. train/loop/pretrain.c ends after the step, with a checkpoint. */
#include "programs/interrupt.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

atomic_int cli_interrupted;
static const char *first_message;

static void on_interrupt(int number) {
    const int before = errno; /* the interrupted code may be about to read it */
    (void)number;
    atomic_store(&cli_interrupted, 1);
    const ssize_t written = first_message ? write(STDERR_FILENO, first_message, strlen(first_message)) : 0;
    (void)written; /* stderr may be closed */
    errno = before;
}

/* SA_RESETHAND: the second signal has its usual effect. */
static void catch_one(int number) {
    sigaction(number, &(struct sigaction){.sa_handler = on_interrupt, .sa_flags = (int)(SA_RESETHAND | SA_RESTART)}, NULL);
}

void cli_catch_interrupts(const char *message) {
    first_message = message;
    catch_one(SIGINT);
    catch_one(SIGTERM);
}

void cli_catch_batch_signals(const char *message) {
    struct sigaction before;
    cli_catch_interrupts(message);
    catch_one(SIGUSR1);
    if (sigaction(SIGHUP, NULL, &before) == 0 && before.sa_handler == SIG_DFL) catch_one(SIGHUP);
}
