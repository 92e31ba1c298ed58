/* paper_tables.h - the tables of the paper: presets of their rows, data, evaluations, figures, and the numbers it prints. */
#pragma once

#include <stddef.h>

enum { PAPER_ROWS = 8, PAPER_COLUMNS = 10, PAPER_EVALS = 2 };

typedef struct paper_column {
    const char *title;
    const char *event, *part; /* texts in the name of the figure */
} paper_column;

typedef struct paper_row {
    const char *title, *preset;
    double mean[PAPER_COLUMNS], std[PAPER_COLUMNS], p[PAPER_COLUMNS]; /* 0: not printed */
} paper_row;

typedef struct paper_table {
    const char *name, *summary;
    const char *data;              /* SPEC to train on; ROOT: the folder of the data, CLASSES: the list of classes */
    const char *set[3];            /* KEY=VALUE, with ROOT */
    const char *eval[PAPER_EVALS]; /* arguments of `glofnd eval`, with ROOT */
    const char *needs;             /* below ROOT, for people */
    paper_column column[PAPER_COLUMNS];
    paper_row row[PAPER_ROWS];
    int base[PAPER_ROWS]; /* row whose seeds are paired with this one's in the test */
} paper_table;

/* i = 0, 1, ...; NULL at the end. */
const paper_table *paper_table_at(int i);
const paper_table *paper_table_find(const char *name); /* NULL: none */
