/* cmd_man.c - glofnd man: manual pages of all verbs, from the tables of flags. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "programs/cli.h"
#include "programs/shell.h"
#include "util/text.h"

/* ----- text for troff ----- */

/* A line's first character may be a request; '-' is to stay a minus that can be copied; blanks after a line break are layout. */
static void print_text(FILE *f, const char *text) {
    for (int first = 1; *text; text++) {
        if (first && (*text == '.' || *text == '\'')) fputs("\\&", f);
        first = *text == '\n';
        if (*text == '\\') fputs("\\e", f);
        else if (*text == '-') fputs("\\-", f);
        else fputc(*text, f);
    }
}

/* Help of a flag: its line breaks are those of the terminal. */
static void print_flowing(FILE *f, const char *text) {
    char line[4096];
    size_t n = 0;
    for (int blank = 1; *text && n + 1 < sizeof line; text++) {
        const int space = *text == ' ' || *text == '\n';
        if (!space || !blank) line[n++] = space ? ' ' : *text;
        blank = space;
    }
    line[n] = 0;
    print_text(f, line);
}

static void print_title(FILE *f, const char *name) {
    fprintf(f, ".TH \"");
    for (; *name; name++) fputc(*name >= 'a' && *name <= 'z' ? *name - 32 : *name, f);
    fprintf(f, "\" 1 \"\" \"GloFND %d.%d.%d\" \"User Commands\"\n", GLOFND_VERSION_MAJOR, GLOFND_VERSION_MINOR,
            GLOFND_VERSION_PATCH);
}

/* ----- pages ----- */

static void print_flag(FILE *f, const gf_option *o) {
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
    print_flowing(f, o->help);
    if (*range && o->type != GF_OPTION_TEXT) fprintf(f, "; "), print_text(f, range);
    if (o->preset && *o->preset) fprintf(f, "; default: "), print_text(f, o->preset);
    fprintf(f, "\n");
}

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
    for (int i = 0; (o = cli_flag_at(v, i)); i++) print_flag(f, o);
}

static void print_page(FILE *f, const cli_verb *v) {
    char name[64], heading[128];
    snprintf(name, sizeof name, "glofnd-%.50s", v->name);
    print_title(f, name);
    fprintf(f, ".SH NAME\n");
    print_text(f, name);
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
}

static void print_overview(FILE *f, const cli_verb *root) {
    print_title(f, "glofnd");
    fprintf(f, ".SH NAME\nglofnd \\- contrastive pretraining with global false\\-negative discovery\n");
    print_usage(f, "glofnd VERB ...\nglofnd help VERB [WHAT]\nglofnd --version");
    fprintf(
        f, ".SH DESCRIPTION\nPretrains image and image\\-text encoders, finds the false negatives of a contrastive loss while it "
           "trains, and evaluates the result. Each verb has a page of its own.\n.SH VERBS\n");
    for (int i = 0; root->verbs[i]; i++) {
        fprintf(f, ".TP\n.BR glofnd\\-%s (1)\n", root->verbs[i]->name);
        print_text(f, root->verbs[i]->summary);
        fprintf(f, "\n");
    }
    fprintf(f, ".SH \"SEE ALSO\"\n.BR libglofnd (3)\n");
}

/* ----- the verb ----- */

/* v: NULL for the page of glofnd itself. */
static int write_page(const char *folder, const cli_verb *v) {
    char path[PATH_MAX], name[80];
    gf_error err = {""};
    snprintf(name, sizeof name, v ? "glofnd-%.50s.1" : "glofnd%.0s.1", v ? v->name : "");
    if (gf_path_join(&err, path, folder, name) != GLOFND_OK) return cli_failed("man", GLOFND_E_ARGUMENT, &err);
    FILE *f = fopen(path, "w");
    if (f && v) print_page(f, v);
    else if (f) print_overview(f, &cli_root);
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
                          .summary = "manual pages of all verbs, into a folder",
                          .usage = "glofnd man DIR\n\nWrites glofnd.1 and one page per verb; `make install` installs them.",
                          .word = "DIR",
                          .word_help = "the folder to write to",
                          .min_words = 1,
                          .max_words = 1,
                          .run = man};
