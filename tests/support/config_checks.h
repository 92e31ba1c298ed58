/* config_checks.h - configurations in tests: keys are set, and whether they resolve; a failure names the reason. */
#pragma once

#include <string.h>

#include "run/config.h"

static inline gf_config fresh(void) {
    gf_error err = {""};
    gf_config c;
    if (gf_config_init(&err, &c) != GLOFND_OK) fail_msg("%s", err.text);
    return c;
}

static inline void set(gf_config *c, const char *key, const char *value) {
    gf_error err = {""};
    if (gf_config_set(&err, c, key, value) != GLOFND_OK) fail_msg("%s = %s: %s", key, value, err.text);
}

/* part: of the message. */
static inline void refused(gf_config *c, const char *key, const char *value, const char *part) {
    gf_error err = {""};
    const gf_config before = *c;
    assert_int_equal(gf_config_set(&err, c, key, value), GLOFND_E_OPTION);
    if (!strstr(err.text, part)) fail_msg("\"%s\" is not in: %s", part, err.text);
    assert_memory_equal(&before, c, sizeof before);
}

static inline void resolve(gf_config *c) {
    gf_error err = {""};
    if (gf_config_resolve(&err, c) != GLOFND_OK) fail_msg("%s", err.text);
}

static inline void unresolved(gf_config c, const char *part) {
    gf_error err = {""};
    assert_int_equal(gf_config_resolve(&err, &c), GLOFND_E_OPTION);
    if (!strstr(err.text, part)) fail_msg("\"%s\" is not in: %s", part, err.text);
}
