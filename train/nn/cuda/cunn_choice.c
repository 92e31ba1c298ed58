/* cunn_choice.c - chosen algorithms, one line each: "key engine type=value ...". See cunn_plan.h. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/blockfile.h"
#include "nn/cuda/cunn_plan.h"
#include "util/text.h"

enum { LINE = 2048 };

const gf_cunn_choice *gf_cunn_choice_find(const gf_nn_engine *s, const char *key) {
    for (const gf_cunn_choice *c = s->choices; c; c = c->next)
        if (strcmp(c->key, key) == 0) return c;
    return NULL;
}

/* In front: a newer choice is found first, and hides an older one that no longer works. */
void gf_cunn_choice_add(gf_nn_engine *s, const gf_cunn_choice *c) {
    gf_cunn_choice *copy = malloc(sizeof *copy);
    if (!copy) return;
    *copy = *c;
    copy->next = s->choices;
    s->choices = copy;
    s->new_choices = 1;
}

void gf_cunn_choices_free(gf_nn_engine *s) {
    while (s->choices) {
        gf_cunn_choice *next = s->choices->next;
        free(s->choices);
        s->choices = next;
    }
}

static int parse_line(char *line, gf_cunn_choice *c) {
    char *rest = NULL;
    const char *key = strtok_r(line, " \n", &rest), *engine = strtok_r(NULL, " \n", &rest);
    if (!key || !engine || strlen(key) >= sizeof c->key) return 0;
    memset(c, 0, sizeof *c);
    memcpy(c->key, key, strlen(key) + 1);
    if (gf_integer_read(engine, &c->engine) || c->engine < 0) return 0;
    for (char *pair; (pair = strtok_r(NULL, " \n", &rest)); c->knobs++) {
        if (c->knobs == GF_CUNN_KNOBS) return 0;
        char *value = strchr(pair, '=');
        if (!value) return 0;
        *value++ = 0;
        if (gf_integer_read(pair, &c->knob[c->knobs][0]) || gf_integer_read(value, &c->knob[c->knobs][1])) return 0;
    }
    return 1;
}

void gf_cunn_choices_read(gf_nn_engine *s, const char *path) {
    char line[LINE];
    gf_cunn_choice c;
    FILE *f = fopen(path, "r");
    if (!f) return;
    while (fgets(line, sizeof line, f))
        if (strchr(line, '\n') && parse_line(line, &c)) gf_cunn_choice_add(s, &c);
    fclose(f);
    s->new_choices = 0;
}

static void put_choice(gf_writer *w, const gf_cunn_choice *c) {
    char line[LINE];
    int n = snprintf(line, sizeof line, "%s %lld", c->key, (long long)c->engine);
    for (int i = 0; i < c->knobs && n < LINE - 64; i++)
        n += snprintf(line + n, sizeof line - (size_t)n, " %lld=%lld", (long long)c->knob[i][0], (long long)c->knob[i][1]);
    line[n++] = '\n';
    gf_put(w, line, (size_t)n);
}

/* Oldest first, so that reading restores the order. */
static void put_from(gf_writer *w, const gf_cunn_choice *c) {
    const gf_cunn_choice *all[4096];
    int n = 0;
    for (; c && n < 4096; c = c->next) all[n++] = c;
    while (n > 0) put_choice(w, all[--n]);
}

glofnd_status gf_cunn_choices_write(gf_error *err, const gf_nn_engine *s, const char *path) {
    gf_writer w;
    TRY(gf_writer_open(err, &w, path));
    put_from(&w, s->choices);
    return gf_writer_finish(&w);
}
