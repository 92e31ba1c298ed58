/* progress.c - see progress.h. */
#include "run/progress.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "util/machine.h"
#include "util/print.h"

gf_progress gf_progress_start(int64_t done, gf_progress_mode mode) {
    const double now = gf_clock();
    if (mode == GF_PROGRESS_AUTO && !isatty(STDERR_FILENO)) mode = GF_PROGRESS_LINES;
    return (gf_progress){.mode = mode, .started = now, .next = now + gf_progress_interval(0.0), .first = done};
}

double gf_progress_interval(double elapsed) { return fmax(15.0, elapsed / 10.0); }

void gf_progress_time(double s, char *out, int bytes) {
    const long long n = s < 0 || !(s < 1e9) ? 0 : (long long)(s + 0.5);
    if (n >= 3600) snprintf(out, (size_t)bytes, "%lldh%02lld", n / 3600, n / 60 % 60);
    else if (n >= 60) snprintf(out, (size_t)bytes, "%lldm%02lld", n / 60, n % 60);
    else snprintf(out, (size_t)bytes, "%llds", n);
}

/* Width of the terminal; 0: unknown. */
static int terminal_columns(void) {
    struct winsize w = {0};
    return ioctl(STDERR_FILENO, TIOCGWINSZ, &w) == 0 ? w.ws_col : 0;
}

/* Characters of UTF-8. */
static int characters(const char *s) {
    int n = 0;
    for (; *s; s++) n += (*s & 0xC0) != 0x80;
    return n;
}

/* Bytes of the first `max` characters. */
static int bytes_of(const char *s, int max) {
    int at = 0;
    for (; s[at] && ((s[at] & 0xC0) == 0x80 || max-- > 0);) at++;
    return at;
}

void gf_progress_line(const char *text, const char *eta, int columns, char *out, size_t bytes) {
    char kept[300];
    const int capacity =
        columns - 1 - (int)strlen(" | eta ") - characters(eta); /* the last column stays free: some terminals wrap there */
    snprintf(kept, sizeof kept, "%s", text);
    for (char *last; columns > 0 && characters(kept) > capacity && (last = strrchr(kept, '|'));)
        *(last > kept && last[-1] == ' ' ? last - 1 : last) = 0;
    if (columns > 0 && characters(kept) > capacity) kept[bytes_of(kept, capacity > 0 ? capacity : 0)] = 0;
    snprintf(out, bytes, "%s | eta %s", kept, eta);
    if (columns > 0) out[bytes_of(out, columns - 1)] = 0; /* a window narrower than the remaining time */
}

void gf_progress_draw(gf_progress *p, int64_t done, int64_t total, const char *text, int now) {
    const double t = gf_clock();
    const int lines = p->mode == GF_PROGRESS_LINES;
    char eta[32] = "?", line[400];
    if (p->mode == GF_PROGRESS_QUIET || (lines ? t < p->next : !now && t - p->drawn < 1.0 / 6.0)) return;
    p->drawn = t;
    p->next = t + gf_progress_interval(t - p->started);
    p->open = !lines;
    if (done > p->first) gf_progress_time((t - p->started) / (double)(done - p->first) * (double)(total - done), eta, sizeof eta);
    gf_progress_line(text, eta, lines ? 0 : terminal_columns(), line, sizeof line);
    if (lines) gf_print(stderr, "%s\n", line);
    else gf_print(stderr, "\r%s\033[K", line);
    fflush(stderr);
}

void gf_progress_end(gf_progress *p) {
    if (p->open) gf_print(stderr, "\n");
    p->open = 0;
}
