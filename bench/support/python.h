/* python.h - runs a script of tools/ that measures the same in Python, and reads the rows it prints: one JSON object per line. */
#pragma once

#include <stddef.h>
#include <stdio.h>
#include <sys/types.h>

#define PYTHON_ARGUMENTS 16 /* at most */

/* `args`: ended by NULL. Tries the Pythons of this system until one has what the script needs (it exits with 3 otherwise), and
 * hands every line to `row`. 0, with a note on stderr that names `needs`, where none has it; 1 otherwise, also where the script
 * failed in the middle, which is noted too. */
int python_rows(const char *script, char *const *args, const char *needs, void (*row)(void *user, const char *line), void *user);

/* A script to take turns with: it measures once, and prints one row, for every line it is given. */
typedef struct python_partner {
    FILE *in, *out; /* NULL: not running */
    pid_t child;
} python_partner;
/* 1 and the first row in `line`; 0 where no Python has the packages it needs, noted as above. */
int python_meet(python_partner *p, const char *script, char *const *args, const char *needs, char *line, size_t capacity);
int python_ask(python_partner *p, char *line, size_t capacity); /* the next row; 0 where the script has ended */
void python_leave(python_partner *p);

/* The text or number behind "key": in a row; NULL if it is not there. */
const char *python_value(const char *line, const char *key);
double python_number(const char *line, const char *key); /* NaN: not there */
/* Text in quotes behind "key":, cut to the capacity; empty without the key. */
void python_text(const char *line, const char *key, char *out, size_t capacity);
