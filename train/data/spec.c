/* spec.c - see spec.h. */
#include "data/spec.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "util/text.h"

static int is_word(char c) { return (c >= 'a' && c <= 'z') || c == '_'; }

static int begins_option(const char *s) {
    const char *p = s;
    while (is_word(*p)) p++;
    return p > s && *p == '=';
}

/* Cuts `list` at every `separator`. */
static glofnd_status add_options(gf_error *err, gf_spec *s, char *list, char separator) {
    while (list && *list) {
        char *next = strchr(list, separator);
        if (next) *next++ = 0;
        char *equals = strchr(list, '=');
        FAIL_IF(err, !begins_option(list) || !equals, GLOFND_E_OPTION, "data '%.60s': '%.200s' is not key=value", s->format,
                list);
        *equals = 0;
        FAIL_IF(err, gf_spec_value(s, list), GLOFND_E_OPTION, "data '%.60s': option %.60s is given twice", s->format, list);
        FAIL_IF(err, s->options == GF_SPEC_OPTIONS, GLOFND_E_OPTION, "data '%.60s': more than %d options", s->format,
                GF_SPEC_OPTIONS);
        s->option[s->options].key = list;
        s->option[s->options++].value = equals + 1;
        list = next;
    }
    return GLOFND_OK;
}

/* The format of a path without one, by its ending. */
static const char *suggest_format(const char *path) {
    static const struct {
        const char *ending, *format;
    } known[] = {{".tar", "wds"}, {".csv", "csv"}, {".tsv", "csv"}, {".txt", "list"}};
    const char *ending = strrchr(path, '.');
    for (size_t k = 0; ending && k < sizeof known / sizeof known[0]; k++)
        if (strcasecmp(ending, known[k].ending) == 0) return known[k].format;
    return "folder";
}

static glofnd_status parse_copy(gf_error *err, gf_spec *s) {
    char *colon = s->text;
    while (is_word(*colon) || (*colon >= '0' && *colon <= '9')) colon++;
    FAIL_IF(err, colon == s->text || (*colon && *colon != ':'), GLOFND_E_OPTION,
            "data '%.200s' names no format; write for example %s:%.200s", s->text, suggest_format(s->text), s->text);
    s->format = s->text;
    s->place = colon; /* "" when there is no colon */
    if (!*colon) return GLOFND_OK;
    *colon = 0;
    s->place = colon + 1;
    /* The last '?' before an option; globs may have others. */
    for (char *p = colon + strlen(colon + 1); p > colon; p--)
        if (*p == '?' && begins_option(p + 1)) {
            *p = 0;
            return add_options(err, s, p + 1, '&');
        }
    return GLOFND_OK;
}

glofnd_status gf_spec_parse(gf_error *err, const char *text, gf_spec *out) {
    *out = (gf_spec){0};
    FAIL_IF(err, !text || !*text, GLOFND_E_OPTION, "no dataset given; write for example shapes:n=4096");
    const size_t length = strnlen(text, GF_SPEC_BYTES);
    FAIL_IF(err, length == GF_SPEC_BYTES, GLOFND_E_OPTION, "the dataset spec is longer than %d bytes", GF_SPEC_BYTES - 1);
    out->text = strdup(text);
    FAIL_IF(err, !out->text, GLOFND_E_MEMORY, "no memory for the dataset spec");
    const glofnd_status status = parse_copy(err, out);
    if (status != GLOFND_OK) gf_spec_free(out);
    return status;
}

glofnd_status gf_spec_open_place(gf_error *err, gf_spec *s) {
    char *list = s->text + (s->place - s->text);
    s->place = "";
    return add_options(err, s, list, ',');
}

glofnd_status gf_spec_check(gf_error *err, const gf_spec *s, const char *const *known) {
    for (int i = 0; i < s->options; i++) {
        int found = 0;
        for (const char *const *k = known; *k; k++) found |= strcmp(*k, s->option[i].key) == 0;
        if (found) continue;
        char names[200] = "";
        size_t used = 0;
        for (const char *const *k = known; *k && used < sizeof names; k++)
            used += (size_t)snprintf(names + used, sizeof names - used, "%s%s", used ? ", " : "", *k);
        GF_FAIL(err, GLOFND_E_OPTION, "data '%.60s' has no option '%.60s'; it has: %s", s->format, s->option[i].key,
                names[0] ? names : "none");
    }
    return GLOFND_OK;
}

const char *gf_spec_value(const gf_spec *s, const char *key) {
    for (int i = 0; i < s->options; i++)
        if (strcmp(s->option[i].key, key) == 0) return s->option[i].value;
    return NULL;
}

glofnd_status gf_spec_integer(gf_error *err, const gf_spec *s, const char *key, int64_t lo, int64_t hi, int64_t *value) {
    const char *text = gf_spec_value(s, key);
    if (!text) return GLOFND_OK;
    int64_t x;
    FAIL_IF(err, gf_integer_read(text, &x) || x < lo || x > hi, GLOFND_E_OPTION,
            "data '%.60s': %s is '%.60s'; expected an integer in [%lld, %lld]", s->format, key, text, (long long)lo,
            (long long)hi);
    *value = x;
    return GLOFND_OK;
}

int gf_spec_with(const gf_spec *s, const char *key, const char *value, char *out, size_t bytes) {
    int n = snprintf(out, bytes, "%s:%s?%s=%s", s->format, s->place, key, value);
    for (int i = 0; i < s->options && n > 0 && (size_t)n < bytes; i++) {
        if (strcmp(s->option[i].key, key) == 0) continue;
        n += snprintf(out + n, bytes - (size_t)n, "&%s=%s", s->option[i].key, s->option[i].value);
    }
    return n > 0 && (size_t)n < bytes;
}

void gf_spec_free(gf_spec *s) {
    free(s->text);
    *s = (gf_spec){0};
}
