/* cli.h - the command line: verbs, flags, exit codes. The only code that prints and exits.
 *
 * Exit codes: 0 done, 1 failed, 2 wrong usage. Results go to stdout, talk and errors to stderr.
 */
#ifndef GF_CLI_CLI_H
#define GF_CLI_CLI_H

#include "util/status.h"

enum { CLI_OK = 0, CLI_FAILED = 1, CLI_USAGE = 2 };

typedef struct cli_verb {
    const char *name;
    int (*run)(int argc, char **argv); /* argv[0] is the verb */
    const char *summary;
} cli_verb;

int cmd_info(int argc, char **argv);
int cmd_data(int argc, char **argv);
int cmd_pretrain(int argc, char **argv);
int cmd_embed(int argc, char **argv);
int cmd_discover(int argc, char **argv);
int cmd_eval(int argc, char **argv);
int cmd_report(int argc, char **argv);
int cmd_watch(int argc, char **argv);
int cmd_compare(int argc, char **argv);
int cmd_sweep(int argc, char **argv);

/* Flags of a verb: "--name VALUE", "--name=VALUE", or a switch "--name"; everything else is positional, also all after "--". */
typedef struct cli_flag {
    const char *name;       /* without the dashes */
    const char *value_name; /* NULL: a switch */
    const char *help;
    const char **value; /* out: the text, or for a switch its own name; left alone if absent */
} cli_flag;

/* Sorts argv[1..] into flags and positionals (written to argv[1..], count in *positionals). CLI_USAGE after a message naming the
 * unknown flag and a known one that is near. `--help` prints the verb's help and gives -1. */
int cli_parse(const char *usage, const cli_flag *flags, int count, int argc, char **argv, int *positionals);
void cli_help(const char *usage, const cli_flag *flags, int count);
/* The verb whose flags were parsed last, "eval knn": what messages about their values begin with. */
const char *cli_called(void);
/* A whole number in [min, max] from the text of a flag; CLI_USAGE with a message if it is not. */
int cli_integer(const char *flag, const char *text, int64_t min, int64_t max, int64_t *out);
/* Prints "glofnd VERB: text" (the library's message if err has one) to stderr. CLI_USAGE for a wrong key or value, else
 * CLI_FAILED. */
int cli_failed(const char *verb, glofnd_status status, const gf_error *err);
/* Is stderr no terminal on which a line can be drawn over (TERM=dumb: an editor's shell, a console log)? */
int cli_terminal_is_dumb(void);

#endif
