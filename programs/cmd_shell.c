/* cmd_shell.c - what an installed program gives to the shell, from the tables of flags: glofnd man, manual pages of all
 * verbs, and glofnd completion. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "programs/cli.h"
#include "util/text.h"

/* ----- man: text for troff ----- */

/* A line's first character may be a request; '-' is to stay a minus that can be copied; a line may break between the values of a
 * list; blanks after a line break are layout. */
static void print_text(FILE *f, const char *text) {
    for (int first = 1; *text; text++) {
        if (first && (*text == '.' || *text == '\'')) fputs("\\&", f);
        first = *text == '\n';
        if (*text == '\\') fputs("\\e", f);
        else if (*text == '-') fputs("\\-", f);
        else if (*text == '|') fputs("|\\:", f);
        else fputc(*text, f);
    }
}

static void print_title(FILE *f, const char *name) {
    fprintf(f, ".TH \"");
    for (; *name; name++) fputc(*name >= 'a' && *name <= 'z' ? *name - 32 : *name, f);
    fprintf(f, "\" 1 \"\" \"GloFND %d.%d.%d\" \"User Commands\"\n.ad l\n", GLOFND_VERSION_MAJOR, GLOFND_VERSION_MINOR,
            GLOFND_VERSION_PATCH); /* lists of values are long words: no line is stretched */
}

/* ----- man: pages ----- */

/* Lines as --help breaks them, within a terminal of 80 columns. Commands begin at the left, not below "usage: ". */
static void print_broken(FILE *f, const char *usage) {
    enum { WIDTH = 73, BELOW = 7 };
    char *text = NULL;
    size_t bytes;
    FILE *lines = open_memstream(&text, &bytes);
    if (!lines) return;
    cli_print_usage_within(lines, usage, 0, WIDTH);
    fclose(lines);
    fprintf(f, ".nf\n");
    for (const char *line = text; line && *line;) {
        const size_t n = strcspn(line, "\n"), skip = strncmp(line, "       glofnd ", BELOW + 7) == 0 ? BELOW : 0;
        char one[256];
        snprintf(one, sizeof one, "%.*s\n", (int)(n - skip), line + skip);
        print_text(f, one);
        line += line[n] ? n + 1 : n;
    }
    fprintf(f, ".fi\n");
    free(text);
}

static void print_usage(FILE *f, const char *usage) {
    fprintf(f, ".SH SYNOPSIS\n");
    print_broken(f, usage);
}

static void print_verb(FILE *f, const cli_verb *v, const char *heading) {
    const gf_option *o;
    if (*heading) {
        fprintf(f, ".SH \"");
        print_text(f, heading);
        fprintf(f, "\"\n");
        print_text(f, v->summary ? v->summary : "");
        fprintf(f, "\n.PP\n");
        print_broken(f, v->usage);
    } else if (cli_flag_at(v, 0)) fprintf(f, ".SH OPTIONS\n");
    for (int i = 0; (o = cli_flag_at(v, i)); i++) {
        char range[256] = "";
        fprintf(f, ".TP\n\\fB\\-\\-");
        print_text(f, o->key);
        fprintf(f, "\\fR");
        if (o->value) fprintf(f, " \\fI"), print_text(f, o->value), fprintf(f, "\\fR");
        else if (o->type != GF_OPTION_BOOL || o->preset) {
            gf_option_range(o, range, sizeof range);
            fprintf(f, " \\fIVALUE\\fR");
        }
        fprintf(f, "\n");
        /* Help of a flag: its line breaks are those of the terminal. */
        const char *text = o->help;
        char line[4096];
        size_t n = 0;
        for (int blank = 1; *text && n + 1 < sizeof line; text++) {
            const int space = *text == ' ' || *text == '\n';
            if (!space || !blank) line[n++] = space ? ' ' : *text;
            blank = space;
        }
        line[n] = 0;
        print_text(f, line);
        if (*range && o->type != GF_OPTION_TEXT) fprintf(f, "; "), print_text(f, range);
        if (o->preset && *o->preset) fprintf(f, "; default: "), print_text(f, o->preset);
        fprintf(f, "\n");
    }
}

/* ----- man ----- */

/* v: NULL for the page of glofnd itself. */
static int write_page(const char *folder, const cli_verb *v) {
    char path[PATH_MAX], name[80];
    gf_error err = {""};
    snprintf(name, sizeof name, v ? "glofnd-%.50s.1" : "glofnd%.0s.1", v ? v->name : "");
    if (gf_path_join(&err, path, folder, name) != GLOFND_OK) return cli_failed("man", GLOFND_E_ARGUMENT, &err);
    FILE *f = fopen(path, "w");
    if (f && v) {
        char page_name[64], heading[128];
        snprintf(page_name, sizeof page_name, "glofnd-%.50s", v->name);
        print_title(f, page_name);
        fprintf(f, ".SH NAME\n");
        print_text(f, page_name);
        fprintf(f, " \\- ");
        print_text(f, v->summary);
        fprintf(f, "\n");
        print_usage(f, v->verbs_usage ? v->verbs_usage : v->usage);
        if (!v->verbs) print_verb(f, v, "");
        for (int i = 0; v->verbs && v->verbs[i]; i++) {
            snprintf(heading, sizeof heading, "glofnd %.50s %.50s", v->name, v->verbs[i]->name);
            print_verb(f, v->verbs[i], heading);
        }
        fprintf(f, ".SH \"EXIT STATUS\"\n0: done; 1: run-time failure (files, memory, numerics); 2: usage error.\n"
                   ".SH \"SEE ALSO\"\n.BR glofnd (1)\n");
    } else if (f) {
        print_title(f, "glofnd");
        fprintf(f, ".SH NAME\nglofnd \\- contrastive pretraining with global false\\-negative discovery\n");
        print_usage(f, "glofnd VERB ...\nglofnd help VERB [WHAT]\nglofnd --version");
        fprintf(f, ".SH DESCRIPTION\nPretrains image and image\\-text encoders, finds the false negatives of a contrastive loss "
                   "while it "
                   "trains, and evaluates the result. Each verb has a page of its own.\n.SH VERBS\n");
        for (int i = 0; cli_root.verbs[i]; i++) {
            fprintf(f, ".TP\n.BR glofnd\\-%s (1)\n", cli_root.verbs[i]->name);
            print_text(f, cli_root.verbs[i]->summary);
            fprintf(f, "\n");
        }
        fprintf(f, ".SH \"SEE ALSO\"\n.BR libglofnd (3)\n");
    }
    const int written = f && !ferror(f);
    if ((f && fclose(f) != 0) || !written) {
        gf_print(stderr, "glofnd man: '%s' cannot be written: %s\n", path, strerror(errno));
        return CLI_FAILED;
    }
    return CLI_OK;
}

static int man(const cli_call *call, const void *flags) {
    (void)flags;
    if (mkdir(call->word[0], 0777) != 0 && errno != EEXIST) {
        gf_print(stderr, "glofnd man: the folder '%s' cannot be made: %s\n", call->word[0], strerror(errno));
        return CLI_FAILED;
    }
    int code = write_page(call->word[0], NULL);
    for (int i = 0; code == CLI_OK && cli_root.verbs[i]; i++) code = write_page(call->word[0], cli_root.verbs[i]);
    return code;
}

const cli_verb cmd_man = {.name = "man",
                          .summary = "write manual pages of all verbs to a folder",
                          .usage = "glofnd man DIR\n\nWrites glofnd.1 and one page per verb; `make install` installs them.",
                          .word = "DIR",
                          .word_help = "the folder to write to",
                          .min_words = 1,
                          .max_words = 1,
                          .run = man};

/* ----- completion ----- */

/* Glofnd completion: completion of verbs, flags and values for a shell, from the tables of flags. */

typedef void visit(const cli_verb *v, const char *title);

/* Calls `f` for every verb that takes flags: "pretrain", "eval knn". */
static void each_leaf(visit *f) {
    char title[64];
    for (const cli_verb *const *v = cli_root.verbs; *v; v++) {
        if (!(*v)->verbs) f(*v, (*v)->name);
        for (const cli_verb *const *sub = (*v)->verbs; sub && *sub; sub++) {
            snprintf(title, sizeof title, "%s %s", (*v)->name, (*sub)->name);
            f(*sub, title);
        }
    }
}

static void print_names(const cli_verb *v) {
    for (int i = 0; v->verbs[i]; i++) printf("%s%s", i ? " " : "", v->verbs[i]->name);
}

/* A preset by its name, or a file. The names are asked of the program when they are needed. */
static int takes_preset(const gf_option *o) { return strcmp(o->key, "config") == 0; }

static int is_switch(const gf_option *o) { return o->type == GF_OPTION_BOOL && !o->value && !o->names; }

/* ----- bash ----- */

static void bash_leaf(const cli_verb *v, const char *title) {
    const gf_option *o;
    printf("    '%s')\n        flags='--help --help-all", title);
    for (int i = 0; (o = cli_flag_at(v, i)); i++) printf(" --%s", o->key);
    printf("'\n        case $prev in\n");
    for (int i = 0; (o = cli_flag_at(v, i)); i++) {
        if (takes_preset(o)) printf("        --%s) values=$(glofnd completion presets 2> /dev/null) files=1 ;;\n", o->key);
        if (!o->names) continue;
        printf("        --%s) values='", o->key);
        for (int k = 0; o->names[k]; k++) printf("%s%s", k ? " " : "", o->names[k]);
        printf("' ;;\n");
    }
    printf("        esac ;;\n");
}

static void bash(void) {
    printf("# bash completion of glofnd; generated by `glofnd completion bash`\n"
           "_glofnd() {\n"
           "    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} flags= values= words= files=\n"
           "    local verb=${COMP_WORDS[1]}\n"
           "    case $verb in\n");
    for (const cli_verb *const *v = cli_root.verbs; *v; v++) {
        if (!(*v)->verbs) continue;
        printf("    %s)\n        [ \"$COMP_CWORD\" -eq 2 ] && words='", (*v)->name);
        print_names(*v);
        printf("'\n        verb=\"$verb ${COMP_WORDS[2]}\" ;;\n");
    }
    printf("    esac\n    [ \"$COMP_CWORD\" -eq 1 ] && words='help ");
    print_names(&cli_root);
    printf("'\n    case $verb in\n");
    each_leaf(bash_leaf);
    printf("    esac\n"
           "    if [ -n \"$words\" ]; then COMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))\n"
           "    elif [ -n \"$values\" ]; then\n"
           "        COMPREPLY=($(compgen -W \"$values\" -- \"$cur\"))\n"
           "        [ -z \"$files\" ] || COMPREPLY+=($(compgen -f -- \"$cur\"))\n"
           "    elif [[ $cur == -* ]]; then COMPREPLY=($(compgen -W \"$flags\" -- \"$cur\"))\n"
           "    else COMPREPLY=(); fi\n"
           "}\n"
           "complete -o default -F _glofnd glofnd\n");
}

/* ----- zsh ----- */

/* Help as one line, without characters that mean something in a specification of _arguments or in quotes. NULL is "". */
static void print_plain(const char *text) {
    for (int blank = 0; text && *text; text++) {
        const int space = *text == ' ' || *text == '\n';
        if (space && blank) continue;
        blank = space;
        putchar(space ? ' ' : strchr("[]:'\"`$\\", *text) ? '-' : *text);
    }
}

static void zsh_leaf(const cli_verb *v, const char *title) {
    const gf_option *o;
    printf("    '%s')\n        _arguments '--help[this verb]' '--help-all[every flag]' \\\n", title);
    for (int i = 0; (o = cli_flag_at(v, i)); i++) {
        printf("            '*--%s[", o->key);
        print_plain(o->help);
        printf("]");
        if (!is_switch(o)) printf(":%s:", o->key);
        if (o->names) {
            printf("(");
            for (int k = 0; o->names[k]; k++) printf("%s%s", k ? " " : "", o->names[k]);
            printf(")");
        } else if (!is_switch(o)) printf("%s", takes_preset(o) ? "_glofnd_presets" : "_files");
        printf("' \\\n");
    }
    printf("            '*:file:_files' ;;\n");
}

static void zsh_verbs(const char *variable, const cli_verb *v) {
    printf("    local -a %s=(", variable);
    for (int i = 0; v->verbs[i]; i++) {
        printf(" '%s:", v->verbs[i]->name);
        print_plain(v->verbs[i]->summary);
        printf("'");
    }
    printf(" )\n");
}

static void zsh(void) {
    printf("#compdef glofnd\n# zsh completion of glofnd; generated by `glofnd completion zsh`\n"
           "_glofnd_presets() {\n    compadd -- ${(f)\"$(glofnd completion presets 2> /dev/null)\"}\n    _files\n}\n"
           "_glofnd() {\n    local verb=$words[2] sub=$words[3]\n");
    zsh_verbs("glofnd_verbs", &cli_root);
    printf("    if (( CURRENT == 2 )); then _describe verb glofnd_verbs; return; fi\n    case $verb in\n");
    for (const cli_verb *const *v = cli_root.verbs; *v; v++) {
        if (!(*v)->verbs) continue;
        printf("    %s)\n    ", (*v)->name);
        zsh_verbs("sub_verbs", *v);
        printf("        if (( CURRENT == 3 )); then _describe what sub_verbs; return; fi\n"
               "        verb=\"$verb $sub\"; shift words; (( CURRENT-- )) ;;\n");
    }
    printf("    esac\n    shift words; (( CURRENT-- ))\n    case $verb in\n");
    each_leaf(zsh_leaf);
    printf("    esac\n}\ncompdef _glofnd glofnd\n");
}

/* ----- fish ----- */

static void fish_leaf(const cli_verb *v, const char *title) {
    const gf_option *o;
    char condition[160];
    const char *space = strchr(title, ' ');
    if (space)
        snprintf(condition, sizeof condition, "__fish_seen_subcommand_from %.*s; and __fish_seen_subcommand_from %s",
                 (int)(space - title), title, space + 1);
    else snprintf(condition, sizeof condition, "__fish_seen_subcommand_from %s", title);
    for (int i = 0; (o = cli_flag_at(v, i)); i++) {
        printf("complete -c glofnd -n '%s' -l %s -d '", condition, o->key);
        print_plain(o->help);
        printf("'%s", is_switch(o) ? "" : o->names ? " -x -a '" : " -r");
        for (int k = 0; o->names && o->names[k]; k++) printf("%s%s", k ? " " : "", o->names[k]);
        printf("%s\n", o->names ? "'" : takes_preset(o) ? " -a '(glofnd completion presets)'" : "");
    }
}

static void fish_verbs(const char *condition, const cli_verb *v) {
    for (int i = 0; v->verbs[i]; i++) {
        printf("complete -c glofnd -n '%s' -f -a %s -d '", condition, v->verbs[i]->name);
        print_plain(v->verbs[i]->summary);
        printf("'\n");
    }
}

static void fish(void) {
    char condition[160];
    printf("# fish completion of glofnd; generated by `glofnd completion fish`\n");
    fish_verbs("__fish_use_subcommand", &cli_root);
    for (const cli_verb *const *v = cli_root.verbs; *v; v++) {
        if (!(*v)->verbs) continue;
        snprintf(condition, sizeof condition, "__fish_seen_subcommand_from %s; and test (count (commandline -opc)) -eq 2",
                 (*v)->name);
        fish_verbs(condition, *v);
    }
    each_leaf(fish_leaf);
}

/* ----- the verb ----- */

static void presets(void) { cli_preset_list(".cfg"); }

static int completion(const cli_call *call, const void *flags) {
    static const struct {
        const char *name;
        void (*print)(void);
    } shells[] = {{"bash", bash}, {"zsh", zsh}, {"fish", fish}, {"presets", presets}};
    (void)flags;
    for (size_t i = 0; i < sizeof shells / sizeof *shells; i++)
        if (strcmp(call->word[0], shells[i].name) == 0) return shells[i].print(), CLI_OK;
    return cli_misused(call, "no completion for \"%s\"; available: bash, zsh, fish, presets", call->word[0]);
}

const cli_verb cmd_completion = {.name = "completion",
                                 .summary = "print shell completion for bash, zsh or fish",
                                 .usage = "glofnd completion bash|zsh|fish|presets\n\n"
                                          "Prints a script for the shell; `make install` installs all three. By hand:\n"
                                          "  source <(glofnd completion bash)\n"
                                          "  glofnd completion zsh > ~/.zfunc/_glofnd       a folder of $fpath\n"
                                          "  glofnd completion fish > ~/.config/fish/completions/glofnd.fish\n"
                                          "presets: names that --config takes, a line each",
                                 .word = "SHELL",
                                 .word_help = "bash, zsh, fish or presets",
                                 .min_words = 1,
                                 .max_words = 1,
                                 .run = completion};
