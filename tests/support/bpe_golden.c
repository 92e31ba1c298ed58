/* bpe_golden.c - see bpe_golden.h. */
#include "support/bpe_golden.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/source_file.h"
#include "text/bpe.h"

const char *bpe_golden_path(const char *name) {
    char file[512];
    snprintf(file, sizeof file, "tests/fixtures/bpe/%s", name);
    return source_file(file);
}

size_t bpe_golden_from_hex(char *hex, size_t n) {
    for (size_t i = 0; i < n / 2; i++) {
        const char digits[3] = {hex[2 * i], hex[2 * i + 1], 0};
        hex[i] = (char)strtol(digits, NULL, 16);
    }
    hex[n / 2] = 0;
    return n / 2;
}

static void check_line(const gf_bpe *b, gf_bpe_scratch *s, char *line, int number) {
    int32_t ids[GF_BPE_CONTEXT];
    int count, wanted = 0;
    char *tab = strchr(line, '\t'), *at = tab + 1, *end;
    assert_non_null(tab);
    const size_t n = bpe_golden_from_hex(line, (size_t)(tab - line));
    assert_int_equal(gf_bpe_encode(NULL, b, s, line, n, GF_BPE_CONTEXT, ids, &count), GLOFND_OK);
    for (long id = strtol(at, &end, 10); end != at; id = strtol(at, &end, 10)) {
        if (wanted >= count || ids[wanted] != id)
            fail_msg("line %d, token %d: not %ld in '%.*s'", number, wanted, id, (int)n, line);
        wanted++;
        at = end;
    }
    assert_int_equal(count, wanted);
    for (int i = count; i < GF_BPE_CONTEXT; i++) assert_int_equal(ids[i], 0);
}

int bpe_golden_check(const char *merges, const char *golden) {
    gf_error err = {""};
    gf_bpe *b;
    gf_bpe_scratch s = {0};
    char *line = NULL;
    size_t room = 0;
    int lines = 0;
    if (gf_bpe_load(&err, merges, &b) != GLOFND_OK) fail_msg("%s", err.text);
    FILE *f = fopen(golden, "r");
    assert_non_null(f);
    while (getline(&line, &room, f) > 0) check_line(b, &s, line, ++lines);
    fclose(f);
    free(line);
    gf_bpe_scratch_free(&s);
    gf_bpe_free(b);
    return lines;
}
