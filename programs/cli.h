/* cli.h - the command line: verbs, flags, exit codes. The only code that prints and exits.
 *
 * Results go to stdout, progress and errors to stderr. A verb is one cli_verb: its flags are rows of an option table, from which
 * parsing, ranges, defaults and help follow. cli_root is the tree of all verbs; cli_flag_at enumerates the flags of one.
 */
#pragma once

#include <limits.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>

#include "run/progress.h"
#include "util/option_table.h"
#include "util/print.h"
#include "util/status.h"

enum {
    CLI_OK = 0,
    CLI_FAILED = 1, /* run-time failure (files, memory, numerics) */
    CLI_USAGE = 2   /* usage error */
};

typedef struct cli_verb cli_verb;

typedef struct cli_call { /* a parsed command line */
    const cli_verb *verb;
    const char *title; /* "eval knn": messages begin with it */
    char **word;       /* [words] arguments that are no flags */
    int words;
    uint64_t given; /* bit i: row i of the verb's flags */
} cli_call;

struct cli_verb {
    const char *name, *summary;
    const char *usage; /* printed after "usage: "; further lines explain */
    const char *brief; /* the flags that --help shows, with blanks between them; NULL: all, as --help-all */
    const gf_option *flags;
    int flag_count;
    size_t flags_bytes;           /* of the struct that the rows describe; all zero before defaults are set */
    const char *word, *word_help; /* an argument that is no flag: "RUN", "the folder of a run" */
    int min_words, max_words;     /* how many of them; max_words < 0: no limit */
    const char *once;             /* hint where --data is given twice; NULL: the last one counts */
    int (*run)(const cli_call *call, const void *flags);
    int (*run_raw)(int argc, char **argv); /* instead of run: parses its arguments itself */
    int takes_keys;                        /* keys of the configuration are flags, too */
    int shows_progress;                    /* it takes --quiet, beside its own flags */
    const cli_verb *const *verbs;          /* sub-verbs, ends with NULL */
    const char *verbs_usage;               /* usage of them together; NULL: a list is made of names and summaries */
};

/* Rows of flags; s: the struct, f: its field. Numbers and choices with a default NULL keep the field's 0 unless given. */
#define CLI_STRING(s, f, k, v, h) \
    { .key = k, .type = GF_OPTION_STRING, .offset = offsetof(s, f), .value = v, .help = h }
#define CLI_STRING_OR(s, f, k, v, p, h) \
    { .key = k, .type = GF_OPTION_STRING, .offset = offsetof(s, f), .value = v, .preset = p, .help = h }
#define CLI_STRINGS(s, f, k, v, h) \
    { .key = k, .type = GF_OPTION_STRINGS, .offset = offsetof(s, f), .value = v, .help = h }
#define CLI_SWITCH(s, f, k, h) \
    { .key = k, .type = GF_OPTION_BOOL, .offset = offsetof(s, f), .help = h }
#define CLI_INTEGER(s, f, k, v, p, lo, hi, h) \
    { .key = k, .type = GF_OPTION_INT64, .offset = offsetof(s, f), .value = v, .preset = p, .min = lo, .max = hi, .help = h }
#define CLI_COUNT(s, f, k, v, p, lo, hi, h) /* an integer that may be written as 1e7 */                             \
    {                                                                                                               \
        .key = k, .type = GF_OPTION_INT64, .offset = offsetof(s, f), .value = v, .preset = p, .min = lo, .max = hi, \
        .flags = GF_OPTION_EXPONENT, .help = h                                                                      \
    }
#define CLI_NUMBER(s, f, k, v, p, lo, hi, bits, h)                                                                   \
    {                                                                                                                \
        .key = k, .type = GF_OPTION_DOUBLE, .offset = offsetof(s, f), .value = v, .preset = p, .min = lo, .max = hi, \
        .flags = bits, .help = h                                                                                     \
    }
#define CLI_CHOICE(s, f, k, p, n, h) \
    { .key = k, .type = GF_OPTION_ENUM, .offset = offsetof(s, f), .preset = p, .names = n, .help = h }
#define CLI_FLAGS(rows, s) .flags = rows, .flag_count = (int)(sizeof rows / sizeof *rows), .flags_bytes = sizeof(s)
#define CLI_SHARE GF_OPTION_ABOVE_MIN | GF_OPTION_BELOW_MAX /* a number in (0, 1) */
#define CLI_LARGE 0x1p53 - 1                                /* the largest integer that a flag accepts */

extern const cli_verb cli_root; /* glofnd itself: cli_root.verbs are its verbs */
extern const cli_verb cmd_info, cmd_data, cmd_pretrain, cmd_embed, cmd_discover, cmd_eval, cmd_report, cmd_compare, cmd_sweep,
    cmd_reproduce, cmd_completion, cmd_man;

/* Finds the verb or sub-verb that argv[1..] names, parses its flags and runs it: an exit code. argv[0]: the title of v. */
int cli_run(const cli_verb *v, int argc, char **argv);
/* Flag i of a verb, --quiet or keys of the configuration after its own; NULL: there are no more. */
const gf_option *cli_flag_at(const cli_verb *v, int i);
int cli_given(const cli_call *call, const char *flag); /* 1: the flag was among the arguments */
/* "glofnd TITLE: text", then the usage: CLI_USAGE. */
int cli_misused(const cli_call *call, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* all: every flag, else those of v->brief. Lines have at most 80 columns. */
void cli_help(const cli_verb *v, int all);
/* "usage: " and the lines of a usage. */
void cli_print_usage(FILE *out, const char *usage);
/* The lines of a usage between columns 0 and `width`, the first from column `at` on. */
void cli_print_usage_within(FILE *out, const char *usage, int at, int width);
/* `text` in lines of at most 80 columns, blanks and line breaks in it being one: behind `left`, which is padded to `indent`. */
void cli_print_wrapped(FILE *out, const char *left, int indent, const char *text);
/* Prints "glofnd VERB: text" (the library's message if err has one) to stderr. CLI_USAGE for a wrong key or value, else
 * CLI_FAILED. */
int cli_failed(const char *verb, glofnd_status status, const gf_error *err);
/* 1: stderr is no terminal on which a line can be drawn over (TERM=dumb: an editor's shell, a console log). */
int cli_terminal_is_dumb(void);
int cli_terminal_columns(int fd);         /* 0: fd is no terminal, or its width is unknown */
gf_progress_mode cli_progress_mode(void); /* of a verb with shows_progress: by --quiet and the terminal */

/* ----- Ctrl-C -----
 *
 * The first SIGINT or SIGTERM asks the verb to stop where nothing is lost, the second ends the program at once.
 *   pretrain      finishes the step, writes a checkpoint, ends; --resume continues from it (train/loop/pretrain.c)
 *   sweep         asks its runs to stop in the same way; the same command continues
 *   discover      ends without a result: a folder is written whole or not at all
 *   data export   ends after the present sample, and reports how many were written
 * Other verbs end at once: they replace files only when complete. */

extern atomic_int cli_interrupted; /* 1 after the first signal */

/* message: written to stderr by the first signal; NULL: nothing. */
void cli_catch_interrupts(const char *message);
/* The same for long runs. SIGUSR1 counts, too: mpirun passes it on to the ranks without killing them soon after, and batch
 * systems send it before the time is up. So does the end of the terminal (SIGHUP), but not under nohup. */
void cli_catch_batch_signals(const char *message);

/* ----- presets: configurations by name ----- */

/* The file that --config or --file names: `name` itself if there is such a file; else, for a name without '/', the preset NAME or
 * NAME + suffix beside the program: PREFIX/share/glofnd/configs of an installed one, the link configs in a build folder, wherever
 * that is. E_IO: neither; the text lists the presets, or the one that is likely meant. */
glofnd_status cli_preset_file(gf_error *err, const char *name, const char *suffix, char path[PATH_MAX]);

/* Prints the names of the presets that end in `suffix`, without it, a line each. */
void cli_preset_list(const char *suffix);
