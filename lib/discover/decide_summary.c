/* decide_summary.c - decisions in summary.json and summary.txt; see decide_files.h. */
#include "discover/decide.h"
#include "discover/decide_files.h"
#include "io/jsonl.h"
#include "util/text.h"

/* ----- JSON ----- */

static void put_splits(gf_jsonl *j, const gf_discover_report *x) {
    const gf_decide_spec *c = x->decide;
    const char *name[GF_SPLITS_MAX];
    double first[GF_SPLITS_MAX], rows[GF_SPLITS_MAX], leak[GF_SPLITS_MAX * GF_SPLITS_MAX], exact[GF_SPLITS_MAX * GF_SPLITS_MAX];
    for (int a = 0; a < c->splits; a++) {
        name[a] = c->split[a].name, first[a] = (double)c->split[a].first, rows[a] = (double)c->split[a].rows;
        for (int b = 0; b < c->splits; b++) {
            leak[a * c->splits + b] = (double)x->decisions->leak[a][b];
            exact[a * c->splits + b] = (double)x->decisions->exact[a][b];
        }
    }
    gf_jsonl_texts(j, "splits", name, c->splits);
    gf_jsonl_numbers(j, "split_first", first, c->splits);
    gf_jsonl_numbers(j, "split_rows", rows, c->splits);
    gf_jsonl_numbers(j, "split_leaks", leak, (int64_t)c->splits * c->splits);
    gf_jsonl_numbers(j, "split_exact", exact, (int64_t)c->splits * c->splits);
}

void gf_decide_put_json(struct gf_jsonl *j, const gf_discover_report *x) {
    const gf_decisions *e = x->decisions;
    gf_jsonl_text(j, "keep_rule", gf_keep_rule_name(x->decide->keep));
    gf_jsonl_integer(j, "keep", e->keep);
    gf_jsonl_integer(j, "remove", e->duplicates + e->bad);
    gf_jsonl_integer(j, "remove_duplicates", e->duplicates);
    gf_jsonl_integer(j, "outliers", e->outliers_found);
    gf_jsonl_number(j, "outlier_limit", e->outlier_limit);
    if (x->d->label) gf_jsonl_integer(j, "label_issues", e->issues);
    if (x->decide->negatives) gf_jsonl_integer(j, "negatives", x->decide->negatives);
    if (x->decide->sample) gf_jsonl_integer(j, "sample", e->samples);
    if (x->decide->sample) gf_jsonl_number(j, "sample_reach", e->sample_reach);
    if (x->decide->splits) put_splits(j, x);
}

/* ----- text ----- */

static void add_leaks(gf_text *t, const gf_discover_report *x) {
    const gf_decide_spec *c = x->decide;
    const gf_decisions *e = x->decisions;
    int some = 0;
    int64_t outside = x->d->n;
    for (int a = 0; a < c->splits; a++) outside -= c->split[a].rows;
    for (int a = 0; a < c->splits; a++)
        for (int b = a + 1; b < c->splits; b++) {
            if (!e->leak[a][b] && !e->exact[a][b]) continue;
            gf_text_add(t, "%s%lld of %lld rows of %s have a duplicate in %s (%lld exact), %lld of %lld the other way\n",
                        some ? "            " : "leaks       ", (long long)e->leak[a][b], (long long)c->split[a].rows,
                        c->split[a].name, c->split[b].name, (long long)e->exact[a][b], (long long)e->leak[b][a],
                        (long long)c->split[b].rows);
            some = 1;
        }
    if (some) gf_text_add(t, "            pairs in leaks%s, all counts in split_matrix.tsv\n", gf_table_ending(x->format));
    else gf_text_add(t, "leaks       none between the splits\n");
    if (outside > 0) gf_text_add(t, "            %lld of %lld rows belong to no split\n", (long long)outside, (long long)x->d->n);
}

void gf_decide_summary(gf_text *t, const gf_discover_report *x) {
    const gf_decisions *e = x->decisions;
    gf_text_add(t,
                "keep        %lld of %lld rows in keep.txt, by --keep %s; %lld in remove.txt: %lld duplicate%s, %lld bad row%s\n",
                (long long)e->keep, (long long)x->d->n, gf_keep_rule_name(x->decide->keep), (long long)(e->duplicates + e->bad),
                (long long)e->duplicates, gf_plural(e->duplicates), (long long)e->bad, gf_plural(e->bad));
    const int64_t copies = x->d->good_n - x->d->distinct;
    if (copies > x->d->n / 4)
        gf_text_add(t, "            caution: %.0f %% are exact copies of other rows: is a file given twice?\n",
                    100.0 * (double)copies / (double)x->d->n);
    else if (x->s->dup < GF_DUP_EXACT && e->duplicates > x->d->n / 4)
        gf_text_add(t,
                    "            caution: %.0f %% count as duplicates; at --dup %g these embeddings tell too little apart: look "
                    "first, or\n"
                    "            use --dup %s\n",
                    100.0 * (double)e->duplicates / (double)x->d->n, x->s->dup, x->s->dup < 0.999 ? "0.999 or exact" : "exact");
    if (x->decide->splits) add_leaks(t, x);
    if (x->r->f.top > 0 && !x->s->only_dup)
        gf_text_add(t,
                    "outliers    %lld row%s whose nearest one is below %.4f, two standard deviations below the mean threshold\n",
                    (long long)e->outliers_found, gf_plural(e->outliers_found), e->outlier_limit);
    if (x->d->label && !x->s->only_dup)
        gf_text_add(t,
                    "issues      %lld label issue%s, rows whose mutual neighbours mostly have one other label: label_issues%s\n",
                    (long long)e->issues, gf_plural(e->issues), gf_table_ending(x->format));
    if (x->decide->sample > e->samples)
        gf_text_add(t, "sample      all %lld kept rows in sample.txt: --sample asks for %lld\n", (long long)e->samples,
                    (long long)x->decide->sample);
    else if (x->decide->sample)
        gf_text_add(t, "sample      %lld rows in sample.txt; every kept row has one of similarity %.4f or more\n",
                    (long long)e->samples, e->sample_reach);
}
