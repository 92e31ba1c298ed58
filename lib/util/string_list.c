/* string_list.c - see string_list.h. */
#include "util/string_list.h"

#include <stdlib.h>
#include <string.h>

#include "util/grow.h"

glofnd_status gf_string_list_add(gf_error *err, gf_string_list *s, const char *text, size_t length) {
    FAIL_IF(err,
            !gf_grow(&s->text, &s->text_capacity, s->used + length + 1, 1) ||
                !gf_grow(&s->at, &s->capacity, (size_t)s->n + 1, sizeof *s->at),
            GLOFND_E_MEMORY, "no memory for a list of %lld names", (long long)s->n + 1);
    memcpy(s->text + s->used, text, length);
    s->text[s->used + length] = 0;
    s->at[s->n++] = s->used;
    s->used += length + 1;
    return GLOFND_OK;
}

const char *gf_string_list_get(const gf_string_list *s, int64_t i) { return i >= 0 && i < s->n ? s->text + s->at[i] : NULL; }

static int compare_texts(const void *a, const void *b) { return strcmp(*(const char *const *)a, *(const char *const *)b); }

glofnd_status gf_string_list_sort(gf_error *err, gf_string_list *s) {
    if (s->n < 2) return GLOFND_OK;
    const char **order = malloc((size_t)s->n * sizeof *order);
    FAIL_IF(err, !order, GLOFND_E_MEMORY, "no memory to sort %lld names", (long long)s->n);
    for (int64_t i = 0; i < s->n; i++) order[i] = s->text + s->at[i];
    qsort(order, (size_t)s->n, sizeof *order, compare_texts);
    for (int64_t i = 0; i < s->n; i++) s->at[i] = (size_t)(order[i] - s->text);
    free(order);
    return GLOFND_OK;
}

void gf_string_list_unique(gf_string_list *s) {
    int64_t kept = 0;
    for (int64_t i = 0; i < s->n; i++) {
        if (kept > 0 && strcmp(s->text + s->at[kept - 1], s->text + s->at[i]) == 0) continue;
        s->at[kept++] = s->at[i];
    }
    s->n = kept;
}

int64_t gf_string_list_find(const gf_string_list *s, const char *text) {
    int64_t lo = 0, hi = s->n;
    while (lo < hi) {
        const int64_t mid = lo + (hi - lo) / 2;
        const int order = strcmp(s->text + s->at[mid], text);
        if (order == 0) return mid;
        if (order < 0) lo = mid + 1;
        else hi = mid;
    }
    return -1;
}

void gf_string_list_free(gf_string_list *s) {
    free(s->text);
    free(s->at);
    *s = (gf_string_list){0};
}
