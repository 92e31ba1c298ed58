/* turns.c - see turns.h. */
#include "support/turns.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/die.h"
#include "support/flags.h"
#include "support/python.h"
#include "util/machine.h"
#include "util/parallel.h"

typedef struct arguments {
    int threads, steps, batch, json, with_torch, cpu_time, whole; /* batch 0: the cases' own */
    const char *net, *precision;                                  /* the only ones; NULL: all */
} arguments;

/* ---- arguments ---- */

_Noreturn static void help(const turns_program *p) {
    const training_case *first = &p->cases[0], *last = &p->cases[TURNS_CASES - 1];
    printf("Usage: %s [--only WORD [--only WORD]] %s[--threads N] [--steps N] [--quick] [--json] [--cpu-time] [--no-torch]\n%s",
           p->name, p->has_batch ? "[--batch N] [--whole] " : "", p->about);
    printf("  --only WORD   %s, %s, fp32 or bf16; two of them: what is both\n", first->net, last->net);
    if (p->has_batch)
        printf("  --batch N     pairs per step, 2 to 4096 (%d)\n"
               "  --whole       all positions of texts are computed, those after the end too, as PyTorch does\n",
               first->batch);
    printf("  --threads N   threads of both (as many as OpenMP would use)\n"
           "  --steps N     steps to time after one to warm up, 1 to 100 (%d)\n"
           "  --quick       two steps\n"
           "  --json        one object per case on stdout, nothing else\n"
           "  --cpu-time    seconds of the processor, the least of the steps: for busy machines\n"
           "  --no-torch    not against PyTorch\n"
           "  --help        this text\n"
           "Exit status: 0, 1 failed, 2 usage.\n",
           p->steps);
    exit(0);
}

static void read_only(arguments *a, const turns_program *p, const char *word) {
    char text[80];
    for (int i = 0; i < TURNS_CASES; i++) {
        const training_case *c = &p->cases[i];
        if (strcmp(word, c->net) == 0) a->net = c->net;
        if (strcmp(word, training_precision(c)) == 0) a->precision = training_precision(c);
    }
    if ((a->net && strcmp(a->net, word) == 0) || (a->precision && strcmp(a->precision, word) == 0)) return;
    snprintf(text, sizeof text, "is %s, %s, fp32 or bf16", p->cases[0].net, p->cases[TURNS_CASES - 1].net);
    flag_misused(p->name, "--only", text);
}

static arguments read_arguments(const turns_program *p, int argc, char **argv) {
    arguments a = {.threads = gf_parallel_default(), .steps = p->steps, .with_torch = 1};
    for (int i = 1; i < argc; i++) {
        const char *flag = argv[i];
        if (strcmp(flag, "--help") == 0) help(p);
        else if (strcmp(flag, "--quick") == 0) a.steps = 2;
        else if (strcmp(flag, "--json") == 0) a.json = 1;
        else if (strcmp(flag, "--cpu-time") == 0) a.cpu_time = 1;
        else if (strcmp(flag, "--no-torch") == 0) a.with_torch = 0;
        else if (p->has_batch && strcmp(flag, "--batch") == 0) a.batch = flag_number(p->name, argc, argv, &i, 2, 4096);
        else if (p->has_batch && strcmp(flag, "--whole") == 0) a.whole = 1;
        else if (strcmp(flag, "--threads") == 0) a.threads = flag_number(p->name, argc, argv, &i, 1, 1024);
        else if (strcmp(flag, "--steps") == 0) a.steps = flag_number(p->name, argc, argv, &i, 1, 100);
        else if (strcmp(flag, "--only") == 0 && i + 1 < argc) read_only(&a, p, argv[++i]);
        else flag_misused(p->name, flag, "unknown argument, or without its value");
    }
    return a;
}

static int wanted(const arguments *a, const training_case *c) {
    return (!a->net || strcmp(a->net, c->net) == 0) && (!a->precision || strcmp(a->precision, training_precision(c)) == 0);
}

/* ---- one case ---- */

static char *loose(const char *text) { return (char *)(uintptr_t)text; }

static void meet_torch(python_partner *torch, const turns_program *p, const training_case *c, const arguments *a, char *line,
                       size_t capacity) {
    char size[24], batch[24], count[24];
    char *args[] = {loose(p->net_flag),
                    loose(c->net),
                    "--size",
                    size,
                    "--batch",
                    batch,
                    "--precision",
                    loose(training_precision(c)),
                    "--threads",
                    count,
                    "--steps",
                    "0",
                    loose(p->more[0]),
                    loose(p->more[1]),
                    NULL,
                    NULL};
    for (size_t i = 0; a->cpu_time && i + 1 < sizeof args / sizeof *args; i++)
        if (!args[i]) args[i] = "--cpu-time", i = sizeof args / sizeof *args;
    snprintf(size, sizeof size, "%d", c->size);
    snprintf(batch, sizeof batch, "%d", c->batch);
    snprintf(count, sizeof count, "%d", a->threads);
    python_meet(torch, p->script, args, p->needs, line, capacity);
}

static void ask_torch(python_partner *torch, const training_kind *kind, turns_side *s, char *line, size_t capacity) {
    if (!python_ask(torch, line, capacity)) return;
    clock_add(&s->all, python_number(line, "ms"));
    for (int k = 0; k < kind->parts; k++) clock_add(&s->part[k], python_number(line, kind->names[k]));
}

/* The first step of each is not counted: memory is touched, and PyTorch makes its primitives then. */
static void run_case(const turns_program *p, const arguments *a, const training_case *c, turns_result *r) {
    char line[1024] = "";
    python_partner torch = {0};
    *r = (turns_result){0};
    if (a->with_torch) meet_torch(&torch, p, c, a, line, sizeof line);
    python_text(line, "torch", r->version, sizeof r->version);
    training_clock = a->cpu_time ? gf_cpu_clock : gf_clock;
    training *t = p->kind->make(c, a->threads);
    r->bytes = p->kind->bytes(t);
    p->kind->step(t);
    for (int i = 0; i < a->steps; i++) {
        clock_add(&r->ours.all, p->kind->step(t));
        for (int k = 0; k < p->kind->parts; k++) clock_add(&r->ours.part[k], t->part_ms[k]);
        ask_torch(&torch, p->kind, &r->torch, line, sizeof line);
    }
    r->loss = t->loss;
    p->kind->free(t);
    python_leave(&torch);
}

double turns_time(clock_times *t) { return training_clock == gf_cpu_clock ? clock_least(t) : clock_median(t); }

double turns_ratio(turns_result *r) { return turns_time(&r->torch.all) / turns_time(&r->ours.all); }

/* ---- all of them ---- */

/* Two lines for the machine and what nets run on, then the program's own. */
static void heading(const turns_program *p, const machine *m, int threads) {
    char nets[256];
    gf_net_describe(nets, sizeof nets);
    printf("%s, %d cores, %d threads, load %.1f; product kernel %.0f GFLOP/s\nnets: %s\n\n", m->cpu, m->cores, threads, m->load,
           m->kernel_gflops, nets);
    p->heading();
}

int turns_main(const turns_program *p, int argc, char **argv) {
    static turns_result r;
    const arguments a = read_arguments(p, argc, argv);
    const machine m = machine_probe(a.threads);
    if (!a.json) heading(p, &m, a.threads);
    for (int i = 0; i < TURNS_CASES; i++) {
        training_case c = p->cases[i];
        if (a.batch > 0) c.batch = a.batch;
        c.whole_texts = a.whole;
        if (!wanted(&a, &c)) continue;
        run_case(p, &a, &c, &r);
        if (a.json) p->json(&c, &r, &m, a.threads);
        else p->rows(&c, &r);
        if (ferror(stdout) || fflush(stdout) != 0) die("stdout cannot be written");
    }
    return 0;
}
