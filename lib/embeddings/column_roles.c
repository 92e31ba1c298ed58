/* column_roles.c - see column_roles.h. */
#include "embeddings/column_roles.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "util/text.h"

static int has_title(const gf_string_list *titles, const char *title) {
    for (int64_t i = 0; i < titles->n; i++)
        if (strcasecmp(gf_string_list_get(titles, i), title) == 0) return 1;
    return 0;
}

gf_column_role gf_column_role_of(const gf_string_list *titles, int64_t i) {
    static const struct {
        const char *title;
        gf_column_role role;
    } known[] = {{"id", GF_COLUMN_ID},
                 {"idx", GF_COLUMN_ID},
                 {"index", GF_COLUMN_ID},
                 {"unnamed: 0", GF_COLUMN_ID},
                 {"sample", GF_COLUMN_ID},
                 {"label", GF_COLUMN_LABEL},
                 {"labels", GF_COLUMN_LABEL},
                 {"class", GF_COLUMN_LABEL},
                 {"target", GF_COLUMN_LABEL},
                 {"y", GF_COLUMN_LABEL},
                 {"__index_level_0__", GF_COLUMN_ID}};
    const char *title = gf_string_list_get(titles, i);
    if (i == 0 && !title[0] && titles->n > 1) return GF_COLUMN_ID; /* the index of a data frame */
    for (size_t k = 0; k < sizeof known / sizeof *known; k++)
        if (strcasecmp(title, known[k].title) == 0)
            return strcasecmp(title, "y") == 0 && has_title(titles, "x") ? GF_COLUMN_DIMENSION : known[k].role;
    return GF_COLUMN_DIMENSION;
}

typedef struct words {
    char *out;
    size_t used, bytes;
} words;

static void add(words *w, const char *before, const char *text, const char *after) {
    const int n = snprintf(w->out + w->used, w->bytes - w->used, "%s%.60s%s", before, text, after);
    w->used += n > 0 ? (size_t)n : 0;
    if (w->used >= w->bytes) w->used = w->bytes - 1;
}

static const char *title_of(const gf_string_list *titles, int64_t i) {
    const char *title = gf_string_list_get(titles, i);
    return title[0] ? title : i == 0 ? "the first one" : "one without a title";
}

static void add_dimensions(words *w, const gf_column_choice *c) {
    int64_t count = 0, first = -1, last = -1;
    char number[32];
    for (int64_t i = 0; i < c->titles->n; i++)
        if (c->dimension[i]) first = first < 0 ? i : first, last = i, count++;
    snprintf(number, sizeof number, "%lld", (long long)count);
    add(w, "", number, count == 1 ? " column" : " columns");
    if (first >= 0) add(w, ", ", title_of(c->titles, first), "");
    if (last > first) add(w, " to ", title_of(c->titles, last), "");
}

void gf_columns_describe(const gf_column_choice *c, char *out, size_t bytes) {
    words w = {.out = out, .bytes = bytes};
    int64_t left = 0;
    out[0] = 0;
    if (c->list >= 0) add(&w, "column ", title_of(c->titles, c->list), "");
    else add_dimensions(&w, c);
    if (c->id >= 0) add(&w, "; names: ", title_of(c->titles, c->id), "");
    if (c->label >= 0) add(&w, "; labels: ", title_of(c->titles, c->label), "");
    for (int64_t i = 0; i < c->titles->n; i++) {
        const int used = i == c->list || i == c->id || i == c->label || (c->list < 0 && c->dimension[i]);
        if (!used && left++ < 3) add(&w, left == 1 ? "; left out: " : ", ", title_of(c->titles, i), "");
    }
    if (left > 3) add(&w, ", ...", "", "");
    gf_utf8_trim(out);
}
