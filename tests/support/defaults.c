/* defaults.c - see defaults.h. */
#include "support/defaults.h"

#include <stdio.h>

#include "support/source_file.h"
#include "support/test.h"

int read_defaults(option_default rows[MOST_DEFAULTS]) {
    char line[256];
    int n = 0;
    FILE *f = fopen(source_file("tests/fixtures/defaults.tsv"), "r");
    assert_non_null(f);
    assert_non_null(fgets(line, sizeof line, f)); /* titles */
    while (fgets(line, sizeof line, f)) {
        assert_true(n < MOST_DEFAULTS);
        option_default *row = &rows[n++];
        assert_int_equal(sscanf(line, "%31s %31s %31s %31s", row->key, row->value[0], row->value[1], row->value[2]), 4);
    }
    fclose(f);
    return n;
}
