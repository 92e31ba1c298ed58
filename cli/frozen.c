/* frozen.c - see frozen.h. */
#include "frozen.h"

#include <stdio.h>
#include <stdlib.h>

void frozen_progress_begin(frozen_progress *p, const char *what) {
    *p = (frozen_progress){.line = gf_progress_start(0, cli_terminal_is_dumb()), .what = what};
}

void frozen_progress_draw(void *user, int64_t done, int64_t total) {
    frozen_progress *p = user;
    char text[120];
    snprintf(text, sizeof text, "%s: %lld of %lld encoded", p->what, (long long)done, (long long)total);
    gf_progress_draw(&p->line, done, total, text, done == total);
}

void frozen_progress_pairs(void *user, const char *what, int64_t done, int64_t total) {
    frozen_progress *p = user;
    char text[120];
    if (p->what != what) frozen_progress_begin(p, what);        /* another stage, with a time of its own */
    snprintf(text, sizeof text, "%s: %.0f %%", what, 100.0 * (double)done / (double)total);
    gf_progress_draw(&p->line, done, total, text, done == total);
}

void frozen_progress_end(frozen_progress *p) { gf_progress_end(&p->line); }

void frozen_warn(void *user, int64_t i, const char *message) {
    (void)user;
    fprintf(stderr, "glofnd eval: sample %lld is left out: %s\n", (long long)i, message);
}

int frozen_share(const char *flag, const char *text, double *out) {
    char *end;
    const double x = strtod(text, &end);
    if (end == text || *end || !(x > 0.0 && x < 1.0)) {
        fprintf(stderr, "glofnd: --%s is \"%s\"; it takes a number in (0, 1)\n", flag, text);
        return CLI_USAGE;
    }
    *out = x;
    return CLI_OK;
}
