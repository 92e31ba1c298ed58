/* main.c - glofnd: finds the verb and runs it; how its threads wait, and what Ctrl-C does. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "plot/terminal.h"
#include "programs/cli.h"

/* ----- threads that wait -----
 *
 * libgomp lets threads spin at the end of every parallel loop. Where the cores also run the loader's threads or other
 * programs, the spinning takes them from the thread that all others wait for, and a training step takes up to five times as
 * long; with sleeping threads it is no slower even on a machine of its own. The runtime reads the environment once, before
 * main, so setting the variable here is too late: the program starts itself again. */

#define STARTED_AGAIN "GLOFND_WAITS_PASSIVELY" /* set: never a second time, whatever becomes of the other variable */

/* Makes waiting threads sleep instead of spin, unless the environment chooses how they wait. May start the program anew with the
 * same arguments, so it comes before anything else in main. */
static void wait_passively(char **argv) {
    char path[PATH_MAX];
    if (getenv("OMP_WAIT_POLICY") || getenv("GOMP_SPINCOUNT") || getenv(STARTED_AGAIN)) return;
    if (setenv("OMP_WAIT_POLICY", "passive", 1) != 0 || setenv(STARTED_AGAIN, "1", 1) != 0) return;
    const ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1); /* started as the link it would be called "exe" */
    if (length <= 0 || length >= (ssize_t)sizeof path - 1) return;
    path[length] = 0;
    execv(path, argv);
    /* Not allowed: the program is slower at worst. Programs that it starts have the setting all the same. */
}

/* ----- Ctrl-C -----
 *
 * train/loop/pretrain.c ends after the step, with a checkpoint. */

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

/* ----- main ----- */

static const cli_verb *const verbs[] = {&cmd_data,       &cmd_pretrain,  &cmd_embed,   &cmd_discover, &cmd_eval,
                                        &cmd_sweep,      &cmd_reproduce, &cmd_compare, &cmd_report,   &cmd_info,
                                        &cmd_completion, &cmd_man,       NULL};
const cli_verb cli_root = {.name = "glofnd", .usage = "glofnd VERB ...", .verbs = verbs};

static void print_help(void) {
    gf_print(stdout, "GloFND %d.%d.%d: global false-negative discovery for contrastive learning\n\n", GLOFND_VERSION_MAJOR,
             GLOFND_VERSION_MINOR, GLOFND_VERSION_PATCH);
    cli_help(&cli_root, 1);
}

/* The output is the result: if it cannot be written (a full disk, a closed stream), the command has failed. A reader that has
 * seen enough (`| head`) is no error to report: the program ends like every filter. */
static int check_output(int code) {
    if (fflush(stdout) == 0 && !ferror(stdout)) return code;
    struct pollfd out = {.fd = STDOUT_FILENO, .events = POLLOUT};
    if (poll(&out, 1, 0) == 1 && (out.revents & POLLERR)) { /* a pipe whose reader has ended */
        signal(SIGPIPE, SIG_DFL);
        raise(SIGPIPE);
    }
    gf_print(stderr, "glofnd: the output cannot be written: %s\n", strerror(errno));
    return code == CLI_OK ? CLI_FAILED : code;
}

static int is_one_of(const char *text, const char *const *names) {
    while (*names && strcmp(text, *names) != 0) names++;
    return *names != NULL;
}

/* "help VERB" is "VERB --help", "help VERB WHAT" is "VERB WHAT --help". */
static int run_command_line(int argc, char **argv) {
    static const char *const ask[] = {"--help", "-h", "help", NULL}, *const version[] = {"--version", "-V", "version", NULL};
    char flag[] = "--help";
    const int asks = argc > 1 && is_one_of(argv[1], ask);
    if (argc < 2 || (asks && argc == 2)) return print_help(), asks ? CLI_OK : CLI_USAGE;
    char *words[] = {argv[0], argc > 2 ? argv[2] : NULL, argc > 3 ? argv[3] : flag, flag, NULL};
    if (asks) return cli_run(&cli_root, argc > 3 ? 4 : 3, words);
    if (argc == 2 && is_one_of(argv[1], version)) return gf_print(stdout, "%s\n", glofnd_build_info()), CLI_OK;
    return cli_run(&cli_root, argc, argv);
}

int main(int argc, char **argv) {
    /* A caller may have closed the standard streams; the next files opened would get their numbers, and messages would go into a
     * log or a checkpoint. So the numbers are taken by something that refuses what the stream is for. */
    for (int fd = 0; fd < 3; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", fd == 0 ? O_WRONLY : O_RDONLY) < 0) break;
    /* Messages are not the work: it continues, or stops with a checkpoint, when their reader has ended. */
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN); /* a file above the limit: an error like a full disk, not the end */
    wait_passively(argv);
    gf_table_set_terminal(cli_terminal_columns(STDOUT_FILENO));
    return check_output(run_command_line(argc, argv));
}
