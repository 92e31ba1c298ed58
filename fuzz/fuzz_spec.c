/* fuzz_spec.c - libFuzzer target of the texts that name data: SPECs, shard patterns, csv. The first byte chooses. */
#include <stdlib.h>
#include <string.h>

#include "data/formats/wds.h"
#include "data/spec.h"
#include "util/string_list.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void try_spec(const char *text) {
    gf_error err = {""};
    gf_spec s;
    if (gf_spec_parse(&err, text, &s) != GLOFND_OK) {
        if (!err.text[0] || s.text) abort();
        return;
    }
    if (!s.format[0] || !s.place || s.options > GF_SPEC_OPTIONS) abort();
    for (int i = 0; i < s.options; i++) {
        int64_t x = 5;
        const glofnd_status status = gf_spec_integer(NULL, &s, s.option[i].key, 0, 9, &x);
        if (x < 0 || x > 9 || (status != GLOFND_OK && x != 5)) abort();
        if (gf_spec_value(&s, s.option[i].key) != s.option[i].value) abort();
    }
    (void)gf_spec_open_place(NULL, &s);
    gf_spec_free(&s);
}

static void try_braces(const char *text) {
    gf_error err = {""};
    gf_string_list s = {0};
    const int64_t count = gf_braces_count(text);
    if (count > 10000 && count < INT64_MAX) return; /* right, but slow */
    const glofnd_status status = gf_braces_expand(&err, text, &s);
    if (status == GLOFND_OK && s.n != count) abort();
    if (status == GLOFND_OK ? s.n < 1 || s.n > GF_BRACES_MAX : !err.text[0]) abort();
    gf_string_list_free(&s);
}

static void try_csv(char *text, size_t n) {
    gf_csv c = gf_csv_begin("fuzz", text, text + n);
    gf_string_list row = {0};
    size_t rows = 0;
    while (gf_csv_next(NULL, &c, &row) == GLOFND_OK && row.n > 0) {
        if (++rows > n + 1) abort(); /* every row takes a byte at least */
        for (int64_t i = 0; i < row.n; i++) {
            if (strlen(gf_string_list_get(&row, i)) > n) abort();
        }
    }
    gf_string_list_free(&row);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 1) return 0;
    char *text = malloc(size);
    if (!text) abort();
    memcpy(text, data + 1, size - 1);
    text[size - 1] = 0;
    if (data[0] % 3 == 0) try_spec(text);
    else if (data[0] % 3 == 1 && size < 200) try_braces(text);
    else if (data[0] % 3 == 2) try_csv(text, size - 1);
    free(text);
    return 0;
}
