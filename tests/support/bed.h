/* bed.h - a test bed for bad input: a store in use, a valid call for it, and checks that a spoilt one is refused with the status
 * the header promises, with a text, and without a trace in the store.
 */
#pragma once

#include "compare.h"
#include "method/options.h"
#include "support/losses.h"

#define ANY_ERROR (-1) /* the header does not say which */

typedef struct bed { /* a store in use and a valid batch for it */
    scene s;
    runner w;
    scene_batch b;
    outputs out;
    glofnd_anchor *before; /* [sides][anchors + 1], the shared row last */
} bed;

bed bed_make(int loss, glofnd_detector detector);
void bed_free(bed *t);
int bed_sides(const bed *t);
/* All rows of the store, in the shape of bed.before. */
void bed_read_rows(const bed *t, glofnd_anchor *rows);
void expect_untouched(const bed *t, const char *what);
/* `got`, of a call on the bed's context and store, is the status `want`, there is a text, and the store is as it was. */
void expect_refused(const bed *t, const char *what, glofnd_status got, int want);
