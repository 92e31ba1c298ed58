/* progress.c - see progress.h. */
#include "report/progress.h"

#include <stdio.h>
#include <time.h>
#include <unistd.h>

static double seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

gf_progress gf_progress_start(int64_t done, int quiet) {
    return (gf_progress){.terminal = !quiet && isatty(STDERR_FILENO), .started = seconds(), .first = done};
}

void gf_progress_time(double s, char *out, int bytes) {
    const long long n = s < 0 || !(s < 1e9) ? 0 : (long long)(s + 0.5);
    if (n >= 3600) snprintf(out, (size_t)bytes, "%lldh%02lld", n / 3600, n / 60 % 60);
    else if (n >= 60) snprintf(out, (size_t)bytes, "%lldm%02lld", n / 60, n % 60);
    else snprintf(out, (size_t)bytes, "%llds", n);
}

void gf_progress_draw(gf_progress *p, int64_t done, int64_t total, const char *text, int now) {
    const double t = seconds();
    char eta[32] = "?";
    if (!p->terminal || (!now && t - p->drawn < 1.0 / 6.0)) return;
    p->drawn = t;
    if (done > p->first) gf_progress_time((t - p->started) / (double)(done - p->first) * (double)(total - done), eta, sizeof eta);
    fprintf(stderr, "\r%s | eta %s\033[K", text, eta);
    fflush(stderr);
}

void gf_progress_end(gf_progress *p) {
    if (p->terminal) fputc('\n', stderr);
}
