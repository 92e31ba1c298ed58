/* specs.h - for tests of datasets in the scratch folder: opened, or refused with a word. */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "data/dataset.h"
#include "support/scratch.h"

/* A SPEC with the scratch folder for every %. */
static inline const char *spec_of(const char *pattern) {
    static char spec[1024];
    size_t used = 0;
    for (const char *p = pattern; *p; p++) {
        used += (size_t)snprintf(spec + used, sizeof spec - used, *p == '%' ? "%s" : "%.1s", *p == '%' ? box.folder : p);
    }
    spec[used] = 0;
    return spec;
}

static inline gf_dataset *open_spec(const char *pattern) {
    gf_error err = {""};
    gf_dataset *d = NULL;
    if (gf_dataset_open(&err, spec_of(pattern), &d) != GLOFND_OK) fail_msg("%s: %s", pattern, err.text);
    return d;
}

static inline void refused(const char *pattern, glofnd_status expected, const char *word) {
    gf_error err = {""};
    gf_dataset *d = NULL;
    const glofnd_status status = gf_dataset_open(&err, spec_of(pattern), &d);
    if (status != expected || !strstr(err.text, word) || d) fail_msg("%s: status %d, %s", pattern, status, err.text);
}
