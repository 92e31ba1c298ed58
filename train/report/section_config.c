/* section_config.c - configuration keys in which runs differ, and the others. */
#include <string.h>

#include "report/page_parts.h"

static void value_of(const gf_run_log *r, const gf_option *o, int in_method, char *out, size_t bytes) {
    gf_option_format(o, in_method ? (const void *)&r->config.method : &r->config, out, bytes);
}

static int differs(const gf_report *r, const gf_option *o, int in_method) {
    char first[1100], other[1100];
    value_of(&r->runs[0], o, in_method, first, sizeof first);
    for (int i = 1; i < r->count; i++) {
        value_of(&r->runs[i], o, in_method, other, sizeof other);
        if (strcmp(first, other) != 0) return 1;
    }
    return 0;
}

static void option_row(gf_text *out, const gf_report *r, int shown, const gf_option *o, int in_method) {
    char value[1100];
    gf_text_add(out, "<tr><th scope=\"row\"><code>%s</code></th>", o->key);
    for (int i = 0; i < shown; i++) {
        value_of(&r->runs[i], o, in_method, value, sizeof value);
        gf_text_add(out, "<td><code>");
        gf_text_escape(out, *value ? value : "-");
        gf_text_add(out, "</code></td>");
    }
    gf_text_add(out, "</tr>\n");
}

/* Keys in which the runs differ, a column per run; or the common keys, in one column. */
static void option_table(gf_text *out, const gf_report *r, int different) {
    const int shown = different ? r->count : 1;
    int in_method;
    gf_text_add(out, "<div class=\"wide\"><table class=\"keys\"><tr><th scope=\"col\">key</th>");
    for (int i = 0; i < shown; i++) {
        gf_text_add(out, "<th scope=\"col\">");
        gf_text_escape(out, different ? r->runs[i].name : "value");
        gf_text_add(out, "</th>");
    }
    gf_text_add(out, "</tr>\n");
    for (int i = 0;; i++) {
        const gf_option *o = gf_config_option(i, &in_method);
        if (!o) break;
        if (differs(r, o, in_method) == different) option_row(out, r, shown, o, in_method);
    }
    gf_text_add(out, "</table></div>\n");
}

void gf_section_config(gf_text *out, const gf_report *r) {
    gf_section_begin(out, "config", "Configuration", NULL);
    if (r->count > 1) {
        gf_text_add(out, "<h3>Differences</h3>\n");
        option_table(out, r, 1);
    }
    gf_text_add(out, "<details><summary>%s</summary>\n", r->count > 1 ? "Common keys" : "All keys");
    option_table(out, r, 0);
    gf_text_add(out, "</details>\n");
    gf_section_end(out);
}
