/* page_span.c - see page_span.h. */
#include "support/page_span.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

page_span span_of(const char *text) { return (page_span){text, strlen(text)}; }

static const char *find(page_span s, const char *text) {
    const size_t n = strlen(text);
    for (size_t i = 0; i + n <= s.n; i++)
        if (memcmp(s.at + i, text, n) == 0) return s.at + i;
    return NULL;
}

static page_span after(page_span s, const char *at) { return (page_span){at, s.n - (size_t)(at - s.at)}; }

int span_count(page_span s, const char *text) {
    int count = 0;
    for (const char *at; (at = find(s, text)) != NULL; count++) s = after(s, at + strlen(text));
    return count;
}

void assert_span_has(page_span s, const char *text) {
    const int count = span_count(s, text);
    if (count != 1) fail_msg("%d times instead of once: %s\nin: %.*s", count, text, s.n < 4000 ? (int)s.n : 4000, s.at);
}

page_span span_between(page_span s, const char *begin, const char *end) {
    assert_span_has(s, begin);
    s = after(s, find(s, begin));
    const char *to = find(s, end);
    if (!to) fail_msg("no %s after %s", end, begin);
    return (page_span){s.at, (size_t)(to - s.at)};
}

page_span span_section(const char *page, const char *id) {
    char begin[100];
    snprintf(begin, sizeof begin, "<section id=\"%s\">", id);
    return span_between(span_of(page), begin, "</section>");
}

page_span span_figure(page_span s, const char *title) {
    char begin[400];
    snprintf(begin, sizeof begin, "<figcaption>%s</figcaption>", title);
    return span_between(s, begin, "</figure>");
}
