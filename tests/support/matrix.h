/* matrix.h - all combinations of loss, detector, action, learner and extras, as scenes, and which of them the library refuses.
 *
 * A cell is a number: for (int i = 0; i < MATRIX_CELLS; i++) if (matrix_scene(i, &s)) ... A new loss, detector, action, learner or extra
 * is one row of a table in matrix.c, and what does not work with others is a rule there.
 */
#pragma once

#include "support/scene.h"

enum { MATRIX_DETECTORS = 16, MATRIX_ACTIONS = 3, MATRIX_LEARNERS = 5, MATRIX_EXTRAS = 128 };
enum { MATRIX_CELLS = LOSSES * MATRIX_DETECTORS * MATRIX_ACTIONS * MATRIX_LEARNERS * MATRIX_EXTRAS };

typedef struct matrix_rule { /* words that a message of the library has for the two that do not go together */
    const char *one, *other;
} matrix_rule;

/* The scene of a cell, with up to three extras; 0: none, as there are more, or one of the options has nothing to do. */
int matrix_scene(int cell, scene *out);
/* Rules that refuse it: up to `most` of them. Returns their number; 0: it works. */
int matrix_refusals(const scene *s, matrix_rule *rule, int most);
