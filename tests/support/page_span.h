/* page_span.h - pieces of a page, so that a test can say where on it a text must stand. */
#pragma once

#include <stddef.h>

typedef struct page_span {
    const char *at;
    size_t n;
} page_span;

page_span span_of(const char *text);
/* From `begin` to the `end` that follows; fails the test unless `begin` occurs exactly once. */
page_span span_between(page_span s, const char *begin, const char *end);
page_span span_section(const char *page, const char *id);
page_span span_figure(page_span s, const char *title); /* title as in HTML */
int span_count(page_span s, const char *text);         /* occurrences */
/* Fails the test unless the text occurs exactly once. */
void assert_span_has(page_span s, const char *text);
