/* suggest.c - see suggest.h. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "util/suggest.h"

#include <string.h>

#define WORD 40

static int least(int a, int b, int c) {
    const int ab = a < b ? a : b;
    return ab < c ? ab : c;
}

/* d[i & 3] is the row of the first i letters of a. */
int gf_edit_distance(const char *a, const char *b) {
    int d[4][WORD + 1];
    const int na = (int)strnlen(a, WORD), nb = (int)strnlen(b, WORD);
    for (int j = 0; j <= nb; j++) d[0][j] = j;
    for (int i = 1; i <= na; i++) {
        int *row = d[i & 3], *above = d[(i - 1) & 3];
        row[0] = i;
        for (int j = 1; j <= nb; j++) {
            row[j] = least(above[j] + 1, row[j - 1] + 1, above[j - 1] + (a[i - 1] != b[j - 1]));
            const int swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
            if (swapped) row[j] = least(row[j], d[(i - 2) & 3][j - 2] + 1, row[j]);
        }
    }
    return d[na & 3][nb];
}

int gf_is_near(const char *word, const char *known) {
    const int n = (int)strnlen(word, WORD), most = n <= 3 ? 1 : n <= 8 ? 2 : n / 3;
    return gf_edit_distance(word, known) <= most;
}
