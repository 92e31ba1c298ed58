/* main.c - glofnd: finds the verb and runs it. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "plot/terminal.h"
#include "programs/cli.h"
#include "programs/omp_wait.h"
#include "programs/shell.h"

static const cli_verb *const verbs[] = {&cmd_data,  &cmd_pretrain,   &cmd_embed,   &cmd_discover, &cmd_eval,
                                        &cmd_sweep, &cmd_reproduce,  &cmd_compare, &cmd_report,   &cmd_watch,
                                        &cmd_info,  &cmd_completion, &cmd_man,     NULL};
const cli_verb cli_root = {.name = "glofnd", .usage = "glofnd VERB ...", .verbs = verbs};

static void help(void) {
    gf_print(stdout, "GloFND %d.%d.%d: global false-negative discovery for contrastive learning\n\n", GLOFND_VERSION_MAJOR,
             GLOFND_VERSION_MINOR, GLOFND_VERSION_PATCH);
    cli_help(&cli_root, 1);
}

/* A caller may have closed the standard streams; the next files opened would get their numbers, and messages would go into a log
 * or a checkpoint. So the numbers are taken by something that refuses what the stream is for. */
static void fill_streams(void) {
    for (int fd = 0; fd < 3; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", fd == 0 ? O_WRONLY : O_RDONLY) < 0) return;
}

/* 1: stdout is a pipe whose reader has ended. */
static int reader_is_gone(void) {
    struct pollfd out = {.fd = STDOUT_FILENO, .events = POLLOUT};
    return poll(&out, 1, 0) == 1 && (out.revents & POLLERR);
}

/* The output is the result: if it cannot be written (a full disk, a closed stream), the command has failed. A reader that has
 * seen enough (`| head`) is no error to report: the program ends like every filter. */
static int finished(int code) {
    if (fflush(stdout) == 0 && !ferror(stdout)) return code;
    if (reader_is_gone()) {
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
static int run(int argc, char **argv) {
    static const char *const ask[] = {"--help", "-h", "help", NULL}, *const version[] = {"--version", "-V", "version", NULL};
    char flag[] = "--help";
    const int asks = argc > 1 && is_one_of(argv[1], ask);
    if (argc < 2 || (asks && argc == 2)) return help(), asks ? CLI_OK : CLI_USAGE;
    char *words[] = {argv[0], argc > 2 ? argv[2] : NULL, argc > 3 ? argv[3] : flag, flag, NULL};
    if (asks) return cli_run(&cli_root, argc > 3 ? 4 : 3, words);
    if (argc == 2 && is_one_of(argv[1], version)) return gf_print(stdout, "%s\n", glofnd_build_info()), CLI_OK;
    return cli_run(&cli_root, argc, argv);
}

int main(int argc, char **argv) {
    fill_streams();
    signal(SIGPIPE,
           SIG_IGN); /* messages are not the work: it continues, or stops with a checkpoint, when their reader has ended */
    signal(SIGXFSZ, SIG_IGN); /* a file above the limit: an error like a full disk, not the end */
    cli_wait_passively(argv);
    gf_table_set_terminal(cli_terminal_columns(STDOUT_FILENO));
    return finished(run(argc, argv));
}
