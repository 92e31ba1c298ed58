/* args.c - see cli.h. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "util/strings/suggest.h"

void cli_help(const char *usage, const cli_flag *flags, int count) {
    printf("usage: %s\n", usage);
    for (int i = 0; i < count; i++) {
        char left[48];
        snprintf(left, sizeof left, "--%s%s%s", flags[i].name, flags[i].value_name ? " " : "",
                 flags[i].value_name ? flags[i].value_name : "");
        printf("  %-24s %s\n", left, flags[i].help);
    }
}

static const cli_flag *find(const cli_flag *flags, int count, const char *name, size_t length) {
    for (int i = 0; i < count; i++)
        if (strlen(flags[i].name) == length && strncmp(flags[i].name, name, length) == 0) return &flags[i];
    return NULL;
}

static int refuse(const cli_flag *flags, int count, const char *verb, const char *name, size_t length) {
    char word[64];
    int best = -1;
    snprintf(word, sizeof word, "%.*s", (int)length, name);
    for (int i = 0; i < count; i++)
        if (best < 0 || gf_edit_distance(word, flags[i].name) < gf_edit_distance(word, flags[best].name)) best = i;
    const int near = best >= 0 && gf_is_near(word, flags[best].name);
    fprintf(stderr, "glofnd %s: unknown flag --%.*s; %s%s%s--help lists what it takes\n", verb, (int)length, name,
            near ? "did you mean --" : "", near ? flags[best].name : "", near ? "? " : "");
    return CLI_USAGE;
}

/* One flag at argv[*i]; moves *i past its value. */
static int take(const cli_flag *flags, int count, int argc, char **argv, int *i) {
    const char *name = argv[*i] + 2, *equals = strchr(name, '=');
    const size_t length = equals ? (size_t)(equals - name) : strlen(name);
    const cli_flag *f = find(flags, count, name, length);
    if (!f) return refuse(flags, count, argv[0], name, length);
    if (!f->value_name && equals) {
        fprintf(stderr, "glofnd %s: --%s takes no value\n", argv[0], f->name);
        return CLI_USAGE;
    }
    if (f->value_name && !equals && *i + 1 >= argc) {
        fprintf(stderr, "glofnd %s: --%s needs a value: %s\n", argv[0], f->name, f->value_name);
        return CLI_USAGE;
    }
    *f->value = !f->value_name ? f->name : equals ? equals + 1 : argv[++*i];
    return CLI_OK;
}

static const char *called = ""; /* argv[0] of the flags that were parsed last */

const char *cli_called(void) { return called; }

int cli_parse(const char *usage, const cli_flag *flags, int count, int argc, char **argv, int *positionals) {
    int only_positionals = 0;
    called = argv[0];
    *positionals = 0;
    for (int i = 1; i < argc; i++) {
        if (!only_positionals && strcmp(argv[i], "--") == 0) {
            only_positionals = 1;
        } else if (!only_positionals && (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)) {
            cli_help(usage, flags, count);
            return -1;
        } else if (!only_positionals && strncmp(argv[i], "--", 2) == 0) {
            const int code = take(flags, count, argc, argv, &i);
            if (code != CLI_OK) return code;
        } else {
            argv[1 + (*positionals)++] = argv[i];
        }
    }
    return CLI_OK;
}

int cli_integer(const char *flag, const char *text, int64_t min, int64_t max, int64_t *out) {
    char *end;
    errno = 0;
    const long long x = strtoll(text, &end, 10);
    if (errno || end == text || *end || x < min || x > max) {
        fprintf(stderr, "glofnd %s: --%s is \"%s\"; it takes a whole number in [%lld, %lld]\n", called, flag, text,
                (long long)min, (long long)max);
        return CLI_USAGE;
    }
    *out = x;
    return CLI_OK;
}

int cli_failed(const char *verb, glofnd_status status, const gf_error *err) {
    fprintf(stderr, "glofnd %s: %s\n", verb, err->text[0] ? err->text : glofnd_status_text(status));
    return status == GLOFND_E_OPTION ? CLI_USAGE : CLI_FAILED;
}

int cli_terminal_is_dumb(void) {
    const char *term = getenv("TERM");
    return !term || !*term || strcmp(term, "dumb") == 0;
}
