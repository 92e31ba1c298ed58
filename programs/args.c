/* args.c - see cli.h. */
#include <dirent.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "programs/cli.h"
#include "run/config.h"
#include "util/print.h"
#include "util/text.h"

/* ----- help ----- */

/* A flag of every verb that shows progress. */
static const gf_option quiet_row = {.key = "quiet", .type = GF_OPTION_BOOL, .help = "no progress"};
static int quiet;

const gf_option *cli_flag_at(const cli_verb *v, int i) {
    int in_method;
    if (i < v->flag_count) return &v->flags[i];
    if (v->shows_progress) return i == v->flag_count ? &quiet_row : NULL;
    return v->takes_keys ? gf_config_option(i - v->flag_count, &in_method) : NULL;
}

enum { WIDTH = 80, FLAG_INDENT = 27 };

/* The words of a text, from column `indent` to `width`; the line is at column `at`. */
static void print_words(FILE *out, int at, int indent, int width, const char *text) {
    if (at >= indent) gf_print(out, "\n"), at = 0;
    for (int first = 1; *text; first = 0) {
        text += strspn(text, " \n");
        int n = (int)strcspn(text, " \n");
        if (n == 0) break;
        if (n > width - indent) {
            /* Names with bars between them, as many as fit. */
            const int room = width - indent;
            int part = n;
            for (int i = 0; i < room; i++)
                if (text[i] == '|') part = i + 1;
            n = part;
        }
        if (at < indent) gf_print(out, "%*s", indent - at, ""), at = indent;
        else if (!first && at + 1 + n > width) gf_print(out, "\n%*s", indent, ""), at = indent;
        else gf_print(out, " "), at++;
        gf_print(out, "%.*s", n, text);
        at += n, text += n;
    }
    gf_print(out, "\n");
}

void cli_print_wrapped(FILE *out, const char *left, int indent, const char *text) {
    gf_print(out, "%s", left);
    print_words(out, (int)strlen(left), indent, WIDTH, text);
}

static void help_flag(const char *prefix, const gf_option *o) {
    char left[100] = "  ", text[800];
    /* "--rows N", "--metric top1|mean", "--strict" */
    char *out = left + 2;
    const size_t bytes = sizeof left - 2;
    int n = snprintf(out, bytes, "--%s%s%s", o->key, o->value ? " " : "", o->value ? o->value : "");
    for (int i = 0; !o->value && o->names && o->names[i] && (size_t)n < bytes; i++)
        n += snprintf(out + n, bytes - (size_t)n, "%s%s", i ? "|" : " ", o->names[i]);
    snprintf(text, sizeof text, "%s%s%s%s%s", prefix, *prefix ? ": " : "", o->help, o->preset ? "; default: " : "",
             o->preset ? o->preset : "");
    cli_print_wrapped(stdout, left, FLAG_INDENT, text);
}

/* 1: the blank at line[i] lies between a flag and its value. */
static int splits_flag(const char *line, int i) {
    int word = i;
    while (word > 0 && line[word - 1] != ' ') word--;
    return i - word > 2 && strncmp(line + word, "--", 2) == 0 && !strchr("-[ ", line[i + 1]);
}

/* The blank where a line of a usage is broken: the last one outside of brackets, and not between a flag and its value, that
 * fits, else the next one; its end if none. */
static int break_of(const char *line, int n, int room) {
    int best = n, depth = 0;
    for (int i = 0; i < n; i++) {
        depth += line[i] == '[' ? 1 : line[i] == ']' ? -1 : 0;
        if (line[i] != ' ' || depth > 0 || i == 0 || line[i - 1] == ' ' || splits_flag(line, i)) continue;
        if (i <= room || best == n) best = i;
        if (i > room) break;
    }
    return n <= room ? n : best;
}

/* Lines that are too long continue in the next one, indented further where they are a command. */
static void print_broken_line(FILE *out, const char *line, int n, int at, int width) {
    const int blanks = (int)strspn(line, " "), command = strncmp(line + blanks, "glofnd ", 7) == 0 || blanks > 7;
    const int more = blanks >= n ? 0 : command ? (blanks > 7 ? blanks : 11) : blanks;
    int cut = blanks + break_of(line + blanks, n - blanks, width - at - blanks);
    gf_print(out, "%.*s\n", cut, line);
    while (cut < n) {
        line += cut, n -= cut;
        const int skip = (int)strspn(line, " ");
        line += skip, n -= skip;
        if (n <= 0) return;
        cut = break_of(line, n, width - more);
        gf_print(out, "%*s%.*s\n", more, "", cut, line);
    }
}

void cli_print_usage_within(FILE *out, const char *usage, int at, int width) {
    for (const char *end; *usage; usage = *end ? end + 1 : end, at = 0) {
        end = usage + strcspn(usage, "\n");
        /* An explanation that does not fit is broken in its own column, or begins in the next line. */
        const int n = (int)(end - usage);
        /* Start of the explanation behind a command or name: after the last three blanks in a row; 0: there is none. */
        int column = 0;
        for (int i = (int)strspn(usage, " ") + 3; i < n; i++)
            if (usage[i] != ' ' && strncmp(usage + i - 3, "   ", 3) == 0) column = i;
        char text[512];
        int line_end = column;
        if (at + n <= width || column == 0) {
            print_broken_line(out, usage, n, at, width);
        } else {
            while (line_end > 0 && usage[line_end - 1] == ' ') line_end--;
            snprintf(text, sizeof text, "%.*s", n - column, usage + column);
            if (at + column > width - 30) {
                print_broken_line(out, usage, line_end, at, width);
                print_words(out, 0, 11, width, text);
            } else {
                gf_print(out, "%.*s", line_end, usage);
                print_words(out, at + line_end, at + column, width, text);
            }
        }
    }
}

void cli_print_usage(FILE *out, const char *usage) {
    gf_print(out, "usage: ");
    cli_print_usage_within(out, usage, (int)strlen("usage: "), WIDTH);
}

static void list_verbs(FILE *out, const cli_verb *v) {
    if (v->verbs_usage) {
        cli_print_usage(out, v->verbs_usage);
        return;
    }
    cli_print_usage(out, v->usage);
    for (int i = 0; v->verbs[i]; i++) {
        char left[32];
        snprintf(left, sizeof left, "  %s", v->verbs[i]->name);
        cli_print_wrapped(out, left, 13, v->verbs[i]->summary);
    }
    gf_print(out, "\n`glofnd%s%s %s --help` explains one of them.\n", v == &cli_root ? "" : " ", v == &cli_root ? "" : v->name,
             v == &cli_root ? "VERB" : "WHAT");
}

void cli_help(const cli_verb *v, int all) {
    int left_out = 0;
    if (v->verbs) list_verbs(stdout, v);
    else cli_print_usage(stdout, v->usage);
    for (int i = 0; i < v->flag_count; i++) {
        if (all || !v->brief || gf_has_word(v->brief, v->flags[i].key)) help_flag("", &v->flags[i]);
        else left_out++;
    }
    if (v->shows_progress) help_flag("", &quiet_row);
    if (left_out) gf_print(stdout, "--help-all explains %d more flags.\n", left_out);
    for (int k = 0; v->verbs_usage && v->verbs[k]; k++)
        for (int i = 0; i < v->verbs[k]->flag_count; i++) help_flag(v->verbs[k]->name, &v->verbs[k]->flags[i]);
}

/* ----- messages ----- */

int cli_misused(const cli_call *call, const char *fmt, ...) {
    va_list args;
    gf_print(stderr, "glofnd %s: ", call->title);
    va_start(args, fmt);
    gf_vprint(stderr, fmt, args);
    va_end(args);
    gf_print(stderr, "; --help explains\n");
    return CLI_USAGE;
}

static int find_flag(const cli_verb *v, const char *name) {
    for (int i = 0; i < v->flag_count; i++)
        if (strcmp(v->flags[i].key, name) == 0) return i;
    return -1;
}

static const cli_verb *running; /* NULL: none, or one that parses its arguments itself */

/* The library writes a setting as name=value, which is right in C and Python. If the running verb has such a flag, it becomes
 * --name=value, a switch --name. replace=1 of the library is --force. out: twice as long as text. */
static void name_flags(const char *text, char *out) {
    for (char before = ' '; *text;) {
        const size_t n = strspn(text, "abcdefghijklmnopqrstuvwxyz_");
        char name[64];
        *out = 0;
        if ((before == ' ' || before == '(') && n > 0 && n < sizeof name && text[n] == '=' && running) {
            memcpy(name, text, n);
            name[n] = 0;
            for (char *at = name; (at = strchr(at, '_'));) *at = '-';
            const int flag = find_flag(running, strcmp(name, "replace") == 0 ? "force" : name);
            if (flag >= 0) {
                out += sprintf(out, "--%s", running->flags[flag].key);
                text += n;
                if (running->flags[flag].type == GF_OPTION_BOOL) text += strncmp(text, "=1", 2) == 0 ? 2 : 0;
                before = '=';
                continue;
            }
        }
        before = *out++ = *text++;
    }
    *out = 0;
}

int cli_failed(const char *verb, glofnd_status status, const gf_error *err) {
    char text[2 * sizeof err->text]; /* a setting of three letters becomes five */
    name_flags(err->text[0] ? err->text : glofnd_status_text(status), text);
    gf_print(stderr, "glofnd %s: %s\n", verb, text);
    return status == GLOFND_E_OPTION ? CLI_USAGE : CLI_FAILED;
}

int cli_terminal_is_dumb(void) {
    const char *term = getenv("TERM");
    return !term || !*term || strcmp(term, "dumb") == 0;
}

int cli_terminal_columns(int fd) {
    struct winsize w = {0};
    return isatty(fd) && ioctl(fd, TIOCGWINSZ, &w) == 0 ? w.ws_col : 0;
}

gf_progress_mode cli_progress_mode(void) {
    return quiet ? GF_PROGRESS_QUIET : cli_terminal_is_dumb() ? GF_PROGRESS_LINES : GF_PROGRESS_AUTO;
}

/* ----- flags ----- */

int cli_given(const cli_call *call, const char *flag) {
    const int i = find_flag(call->verb, flag);
    return i >= 0 && (call->given >> i & 1);
}

/* One flag at argv[*i]; moves *i past its value. */
static int take_flag(cli_call *call, void *flags, int argc, char **argv, int *i) {
    char name[64];
    const char *text = argv[*i] + 2, *equals = strchr(text, '=');
    snprintf(name, sizeof name, "%.*s", (int)(equals ? equals - text : 63), text);
    const int at = find_flag(call->verb, name);
    if (call->verb->shows_progress && !equals && strcmp(name, quiet_row.key) == 0) return quiet = 1, CLI_OK;
    if (at < 0) {
        const gf_option_table table = {call->verb->flags, call->verb->flag_count};
        const gf_option *best = gf_option_nearest(&table, call->verb->flags_bytes, name);
        int near = best && gf_is_near(name, best->key);
        for (int j = 0; !near && j < table.count; j++) { /* --output is --out, --label is --labels */
            best = &table.rows[j];
            const size_t n = strlen(best->key), m = strlen(name);
            near = n >= 3 && m >= 3 && strncmp(name, best->key, n < m ? n : m) == 0;
        }
        gf_print(stderr, "glofnd %s: unknown flag --%s; %s%s%s--help lists the flags\n", call->title, name,
                 near ? "did you mean --" : "", near ? best->key : "", near ? "? " : "");
        return CLI_USAGE;
    }
    const gf_option *o = &call->verb->flags[at];
    const int is_switch = o->type == GF_OPTION_BOOL;
    if (is_switch && equals) return gf_print(stderr, "glofnd %s: --%s takes no value\n", call->title, name), CLI_USAGE;
    if (!is_switch && !equals && *i + 1 >= argc)
        return gf_print(stderr, "glofnd %s: --%s needs a value\n", call->title, name), CLI_USAGE;
    if (call->verb->once && strcmp(name, "data") == 0 && (call->given >> at & 1))
        return gf_print(stderr, "glofnd %s: --data is given twice; %s\n", call->title, call->verb->once), CLI_USAGE;
    call->given |= (uint64_t)1 << at;
    const char *value = is_switch ? "1" : equals ? equals + 1 : argv[++*i];
    const gf_option_table one = {o, 1};
    gf_error err = {{0}};
    if (gf_option_set(&err, &one, flags, call->verb->flags_bytes, o->key, value) == GLOFND_OK) return CLI_OK;
    gf_print(stderr, "glofnd %s: --%s\n", call->title, err.text);
    return CLI_USAGE;
}

static int is_help_all(const char *text) { return strcmp(text, "--help-all") == 0; }
static int is_help(const char *text) { return strcmp(text, "--help") == 0 || strcmp(text, "-h") == 0 || is_help_all(text); }

/* Flags to *flags, everything else to call->word, also all that follows "--". -1: help was asked for, and printed. */
static int parse(cli_call *call, void *flags, int argc, char **argv) {
    const gf_option_table table = {call->verb->flags, call->verb->flag_count};
    int only_words = 0;
    gf_error err = {{0}};
    if (gf_options_preset(&err, &table, flags, call->verb->flags_bytes) != GLOFND_OK)
        return cli_failed(call->title, GLOFND_E_OPTION, &err);
    for (int i = 1; i < argc; i++) {
        int code = CLI_OK;
        if (!only_words && is_help(argv[i])) return cli_help(call->verb, is_help_all(argv[i])), -1;
        if (!only_words && strcmp(argv[i], "--") == 0) only_words = 1;
        else if (!only_words && strncmp(argv[i], "--", 2) == 0) code = take_flag(call, flags, argc, argv, &i);
        else call->word[call->words++] = argv[i];
        if (code != CLI_OK) return code;
    }
    const cli_verb *v = call->verb;
    if (call->words < v->min_words) return cli_misused(call, "%s is missing: %s", v->word, v->word_help);
    if (v->max_words == 0 && call->words > 0) return cli_misused(call, "\"%s\" is not expected", call->word[0]);
    if (v->max_words >= 0 && call->words > v->max_words)
        return v->max_words == 1
                   ? cli_misused(call, "%d arguments are given; expected one %s", call->words, v->word)
                   : cli_misused(call, "%d arguments are given; expected at most %d of %s", call->words, v->max_words, v->word);
    return CLI_OK;
}

/* ----- verbs ----- */

int cli_run(const cli_verb *v, int argc, char **argv) {
    if (v->verbs) {
        char title[64], who[64];
        const cli_verb *found = NULL;
        snprintf(who, sizeof who, v == &cli_root ? "glofnd" : "glofnd %s", v->name);
        if (argc < 2) return gf_print(stderr, "%s: what to do is missing\n", who), list_verbs(stderr, v), CLI_USAGE;
        const char *name = argv[1];
        if (is_help(name)) return cli_help(v, is_help_all(name)), CLI_OK;
        for (int i = 0; v->verbs[i] && !found; i++)
            if (strcmp(name, v->verbs[i]->name) == 0) found = v->verbs[i];
        if (found) {
            snprintf(title, sizeof title, "%s %s", v->name, found->name);
            if (v != &cli_root) argv[1] = title;
            return cli_run(found, argc - 1, argv + 1);
        }
        const cli_verb *best = v->verbs[0];
        for (int i = 1; v->verbs[i]; i++)
            if (gf_edit_distance(name, v->verbs[i]->name) < gf_edit_distance(name, best->name)) best = v->verbs[i];
        const int near = gf_is_near(name, best->name);
        if (name[0] == '-') return gf_print(stderr, "%s: unknown flag %s; --help lists verbs\n", who, name), CLI_USAGE;
        if (v == &cmd_data && strchr(name, ':'))
            return gf_print(stderr, "glofnd data: did you mean `glofnd data info %s`?\n", name), CLI_USAGE;
        gf_print(stderr, "%s: unknown verb \"%s\"; %s%s%s\n", who, name, near ? "did you mean " : "", near ? best->name : "",
                 near ? "?" : "--help lists them");
        if (v != &cli_root) list_verbs(stderr, v);
        return CLI_USAGE;
    }
    if (v->run_raw) return v->run_raw(argc, argv);
    cli_call call = {.verb = v, .title = argv[0], .word = argv + 1};
    void *flags = calloc(1, v->flags_bytes ? v->flags_bytes : 1);
    gf_error err = {{0}};
    if (!flags) return cli_failed(argv[0], gf_fail(&err, GLOFND_E_MEMORY, "no memory for the flags"), &err);
    running = v;
    int code = parse(&call, flags, argc, argv);
    code = code < 0 ? CLI_OK : code != CLI_OK ? code : v->run(&call, flags);
    free(flags);
    return code;
}

/* ----- presets: folders ----- */

static const char *const folders[] = {"../share/glofnd/configs", "configs", NULL};

static int preset_folder(int i, char out[PATH_MAX]) {
    char program[PATH_MAX];
    /* The folder of the running program; "": the system does not say. */
    const ssize_t n = readlink("/proc/self/exe", program, PATH_MAX - 1);
    program[n > 0 ? n : 0] = 0;
    char *slash = strrchr(program, '/');
    if (slash) *slash = 0;
    return *program && gf_path_join(NULL, out, program, folders[i]) == GLOFND_OK;
}

/* Calls take(user, name) for every preset in order, without its suffix. */
static void each_preset(const char *suffix, void (*take)(void *user, const char *name), void *user) {
    char folder[PATH_MAX];
    for (int i = 0; folders[i]; i++) {
        struct dirent **entry = NULL;
        const int n = preset_folder(i, folder) ? scandir(folder, &entry, NULL, alphasort) : 0;
        for (int k = 0; k < n; k++) {
            char *name = entry[k]->d_name;
            const size_t length = strlen(name), end = strlen(suffix);
            if (length > end && strcmp(name + length - end, suffix) == 0) {
                name[length - end] = 0;
                take(user, name);
            }
            free(entry[k]);
        }
        free(entry);
    }
}

/* ----- presets: a name that is not there ----- */

typedef struct presets {
    const char *wanted;
    char list[360], nearest[128]; /* names, as many as fit, then "..." */
    int distance;
} presets;

static void note_preset(void *user, const char *name) {
    presets *p = user;
    const size_t n = strlen(name), used = strlen(p->list);
    if (n >= sizeof p->nearest) return;
    const int distance = gf_edit_distance(p->wanted, name);
    if (!*p->nearest || distance < p->distance) p->distance = distance, memcpy(p->nearest, name, n + 1);
    const int cut = used >= 3 && strcmp(p->list + used - 3, "...") == 0; /* a shorter name that would fit is not listed, either */
    if (cut) return;
    snprintf(p->list + used, sizeof p->list - used, "%s%s", used ? ", " : "", used + n + 12 < sizeof p->list ? name : "...");
}

/* ----- presets: finding ----- */

glofnd_status cli_preset_file(gf_error *err, const char *name, const char *suffix, char path[PATH_MAX]) {
    char folder[PATH_MAX], file[NAME_MAX + 1];
    errno = 0;
    if (!*name || strchr(name, '/') || access(name, F_OK) == 0 || errno != ENOENT) {
        FAIL_IF(err, snprintf(path, PATH_MAX, "%s", name) >= PATH_MAX, GLOFND_E_ARGUMENT, "the path '%.200s...' is too long",
                name);
        return GLOFND_OK; /* its reader reports what is wrong with it */
    }
    for (int i = 0; folders[i] && strlen(name) + strlen(suffix) <= NAME_MAX; i++)
        for (int with_suffix = 0; with_suffix < 2 && preset_folder(i, folder); with_suffix++) {
            snprintf(file, sizeof file, "%s%s", name, with_suffix ? suffix : "");
            if (gf_path_join(NULL, path, folder, file) == GLOFND_OK && access(path, R_OK) == 0) return GLOFND_OK;
        }
    presets p = {.wanted = name};
    each_preset(suffix, note_preset, &p);
    FAIL_IF(err, *p.nearest && gf_is_near(name, p.nearest), GLOFND_E_IO,
            "'%.100s': no such file, and no preset of that name; did you mean %s?", name, p.nearest);
    GF_FAIL(err, GLOFND_E_IO, "'%.100s': no such file, and no preset of that name%s%s", name, *p.list ? "; presets: " : "",
            p.list);
}

static void print_preset(void *user, const char *name) {
    (void)user;
    gf_print(stdout, "%s\n", name);
}

void cli_preset_list(const char *suffix) { each_preset(suffix, print_preset, NULL); }
