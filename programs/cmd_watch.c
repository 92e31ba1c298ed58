/* cmd_watch.c - glofnd watch: the curves of a run in the terminal, while it is trained. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "programs/cli.h"
#include "report/page.h"
#include "util/text.h"

static volatile sig_atomic_t ended;

static void end(int signal_number) {
    (void)signal_number;
    ended = 1;
}

static void ignore(int signal_number) { (void)signal_number; } /* only to wake up poll */

/* ----- the terminal ----- */

typedef struct screen {
    int keys; /* stdin is a terminal whose settings were changed */
    struct termios before;
} screen;

static int number_in(const char *variable, int otherwise) {
    const char *text = getenv(variable);
    int64_t x = 0;
    return text && !gf_integer_read(text, &x) && x > 0 && x < 10000 ? (int)x : otherwise;
}

static gf_watch_size size_of_screen(void) {
    struct winsize w = {0};
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &w) == 0 && w.ws_col && w.ws_row)
        return (gf_watch_size){.columns = w.ws_col, .rows = w.ws_row, .colour = cli_wants_colour()};
    return (gf_watch_size){.columns = number_in("COLUMNS", 80), .rows = number_in("LINES", 24)};
}

/* 1: a key that quits, or the end of the terminal. */
static int wait_for_key(const screen *s, int milliseconds) {
    struct pollfd p = {.fd = STDIN_FILENO, .events = POLLIN};
    char key = 0;
    if (poll(&p, s->keys ? 1 : 0, milliseconds) <= 0) return 0;
    const ssize_t n = read(STDIN_FILENO, &key, 1);
    return n == 0 || (n < 0 && errno != EINTR && errno != EAGAIN) || key == 'q' || key == 'Q' || key == 3 || key == 4;
}

/* ----- frames ----- */

static glofnd_status draw(gf_error *err, const gf_run_log *r, int live) {
    gf_text text = {0};
    gf_watch_size size = size_of_screen();
    /* 1: the lock that pretrain holds on the folder is free. 0 also where locks are not available. */
    const int fd = open(r->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const int free_now = fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0;
    if (fd >= 0) close(fd);
    size.idle = free_now;
    if (live) size.rows--, size.colour = cli_wants_colour();
    gf_watch_frame(&text, r, &size);
    const glofnd_status status = text.failed ? gf_fail(err, GLOFND_E_MEMORY, "no memory for a frame") : GLOFND_OK;
    if (live) gf_print(stdout, "\033[H");
    for (char *line = text.at, *next; status == GLOFND_OK && line && *line; line = next) {
        next = strchr(line, '\n') + 1;
        fwrite(line, 1, (size_t)(next - line - 1), stdout); /* has own colours; text from outside in it is shown, not raw */
        gf_print(stdout, live ? "\033[K\n" : "\n");
    }
    if (live) gf_print(stdout, "\033[Jq quits");
    fflush(stdout);
    gf_text_free(&text);
    return status;
}

static glofnd_status follow(gf_error *err, gf_run_tail *t, int interval) {
    screen s = {0};
    glofnd_status status = GLOFND_OK;
    /* The other screen, so that what was on this one comes back; keys come one by one, unseen. */
    struct sigaction on_end = {.sa_handler = end}, on_size = {.sa_handler = ignore};
    sigaction(SIGINT, &on_end, NULL);
    sigaction(SIGTERM, &on_end, NULL);
    sigaction(SIGHUP, &on_end, NULL);
    sigaction(SIGWINCH, &on_size, NULL);
    s.keys = isatty(STDIN_FILENO) && tcgetattr(STDIN_FILENO, &s.before) == 0;
    if (s.keys) {
        struct termios raw = s.before;
        raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
        raw.c_cc[VMIN] = 0, raw.c_cc[VTIME] = 0;
        tcsetattr(STDIN_FILENO, TCSANOW, &raw);
    }
    gf_print(stdout, "\033[?1049h\033[?25l");
    while (!ended && status == GLOFND_OK) {
        status = gf_run_tail_more(t);
        if (status == GLOFND_OK) status = draw(err, &t->log, 1);
        if (wait_for_key(&s, 1000 * interval)) break;
    }
    gf_print(stdout, "\033[0m\033[?25h\033[?1049l");
    fflush(stdout);
    if (s.keys) tcsetattr(STDIN_FILENO, TCSANOW, &s.before);
    return status;
}

typedef struct watch_flags {
    int32_t once;
    int64_t interval;
} watch_flags;

static const gf_option rows[] = {
    CLI_SWITCH(watch_flags, once, "once", "print one frame and end"),
    CLI_INTEGER(watch_flags, interval, "interval", "S", "1", 1, 3600, "seconds between frames"),
};

static int watch(const cli_call *call, const void *flags) {
    const watch_flags *f = flags;
    gf_error err = {{0}};
    gf_run_tail tail;
    glofnd_status status = gf_run_tail_open(&err, call->word[0], &tail);
    if (status != GLOFND_OK) return cli_failed("watch", status, &err);
    const int live = !f->once && isatty(STDOUT_FILENO) && !cli_terminal_is_dumb();
    status = live ? follow(&err, &tail, (int)f->interval) : draw(&err, &tail.log, 0);
    gf_run_tail_close(&tail);
    return status == GLOFND_OK ? CLI_OK : cli_failed("watch", status, &err);
}

const cli_verb cmd_watch = {
    .name = "watch",
    .summary = "live curves of a run in the terminal",
    .usage = "glofnd watch RUN [--once] [--interval S]\n"
             "Live curves of a run in the terminal: loss, flagged share, precision, remaining time. q or Ctrl-C quits; the run "
             "continues. Where stdout is no terminal, one frame is printed.",
    CLI_FLAGS(rows, watch_flags),
    .word = "RUN",
    .word_help = "the folder of a run",
    .min_words = 1,
    .max_words = 1,
    .run = watch,
};
