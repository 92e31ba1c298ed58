/* defaults.h - tests/fixtures/defaults.tsv: the default of every option of the method. The library, the program and the Python
 * package are held against this one table, each by a test of its own (unit_options, unit_config, python/tests/test_defaults.py). */
#pragma once

typedef struct option_default {
    char key[32];
    char value[3][32]; /* in the library and in Python; in a new run of two views, and of image and text */
} option_default;

enum { MOST_DEFAULTS = 64 };

/* Reads the table; returns the number of rows. */
int read_defaults(option_default rows[MOST_DEFAULTS]);
