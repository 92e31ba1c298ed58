/* discover_summary.c - summary of a discovery as JSON and as text. */
#include <math.h>

#include "discover/decide.h"
#include "discover/discover_files.h"
#include "io/jsonl.h"
#include "util/text.h"

#define COLUMN_NAMES "threshold nearest_similarity nearest above mutual same_label component duplicate_group"

/* ----- JSON ----- */

glofnd_status gf_discover_write_json(gf_error *err, const char *path, const gf_discover_report *x) {
    gf_jsonl j = {0};
    TRY(gf_jsonl_open(err, &j, path, 0));
    gf_jsonl_begin(&j);
    const gf_discover_spec *s = x->s;
    gf_jsonl_integer(&j, "version", 1);
    gf_jsonl_text(&j, "embeddings", x->source);
    gf_jsonl_text(&j, "query", x->query);
    gf_jsonl_integer(&j, "crc32c", x->d->crc);
    gf_jsonl_integer(&j, "rows", x->q->n);
    gf_jsonl_integer(&j, "dim", x->q->dim);
    gf_jsonl_integer(&j, "usable", x->q->good_n);
    gf_jsonl_integer(&j, "bad_rows", x->q->n - x->q->good_n);
    gf_jsonl_integer(&j, "distinct", x->q->distinct);
    gf_jsonl_number(&j, "alpha", s->k > 0 ? NAN : s->alpha);
    gf_jsonl_integer(&j, "k", s->k);
    gf_jsonl_integer(&j, "rank", x->r->rank);
    gf_jsonl_integer(&j, "top", s->task.top);
    gf_jsonl_integer(&j, "max_pairs", s->max_pairs);
    gf_jsonl_number(&j, "dup", s->dup_exact ? NAN : s->dup);
    gf_jsonl_flag(&j, "learned", s->learned);
    if (s->task.only_dup) gf_jsonl_flag(&j, "duplicates_only", 1);
    if (s->task.probe) gf_jsonl_integer(&j, "approx", s->task.probe);
    if (s->task.only_dup || s->task.probe) gf_jsonl_integer(&j, "cells", x->r->f.cells);
    if (s->task.only_dup || s->task.probe) gf_jsonl_integer(&j, "pairs_compared", x->r->f.compared);
    if (s->task.probe) gf_jsonl_integer(&j, "recall_anchors", x->r->f.sampled);
    if (s->task.probe) gf_jsonl_number(&j, "recall_above", (double)x->r->f.recalled / (double)x->r->f.wanted);
    gf_jsonl_flag(&j, "labels", x->q->label != NULL);
    if (!x->query && gf_stored_names_escaped(x->d)) gf_jsonl_flag(&j, "names_escaped", 1);
    gf_jsonl_text(&j, "columns", COLUMN_NAMES);
    const gf_discover_result *r = x->r;
    gf_jsonl_number(&j, "threshold_mean", r->lambda.mean);
    gf_jsonl_number(&j, "threshold_std", r->lambda.std);
    gf_jsonl_number(&j, "threshold_min", r->lambda.min);
    gf_jsonl_number(&j, "threshold_max", r->lambda.max);
    gf_jsonl_integer(&j, "pairs_above", r->above);
    gf_jsonl_integer(&j, "anchors_with_pairs", r->with_pairs);
    gf_jsonl_integer(&j, "pairs_listed", r->listed);
    gf_jsonl_flag(&j, "listed_cut", r->listed < r->listed_of);
    gf_jsonl_integer(&j, "mutual_pairs", r->mutual_pairs);
    gf_jsonl_integer(&j, "duplicate_pairs", r->dup_pairs);
    gf_jsonl_integer(&j, "duplicates_listed", r->dup_listed);
    if (x->query) {
        gf_jsonl_integer(&j, "stored_copies", r->stored_copies);
    } else {
        gf_jsonl_integer(&j, "components", r->parts.count);
        gf_jsonl_integer(&j, "component_images", r->parts.nodes);
        gf_jsonl_integer(&j, "component_pairs", r->parts.edges);
        gf_jsonl_integer(&j, "largest_component_images", r->parts.count ? r->parts.part[0].nodes : 0);
        gf_jsonl_integer(&j, "duplicate_groups", r->groups.count);
        gf_jsonl_integer(&j, "duplicate_images", r->groups.nodes);
        gf_jsonl_integer(&j, "largest_duplicate_group_images", r->groups.count ? r->groups.part[0].nodes : 0);
    }
    const int choices = x->decisions ? x->decisions->choices : 0;
    if (choices) {
        const gf_dup_choice *choice = x->decisions->choice;
        double limit[GF_DUP_LIMITS], pairs[GF_DUP_LIMITS], rows[GF_DUP_LIMITS];
        for (int c = 0; c < choices; c++)
            limit[c] = choice[c].limit, pairs[c] = (double)choice[c].pairs, rows[c] = (double)choice[c].rows;
        gf_jsonl_numbers(&j, "dup_limits", limit, choices);
        gf_jsonl_numbers(&j, "dup_limit_pairs", pairs, choices);
        gf_jsonl_numbers(&j, "dup_limit_rows", rows, choices);
    }
    if (x->decisions) {
        const gf_decisions *e = x->decisions;
        gf_jsonl_text(&j, "keep_rule", gf_keep_rule_name(x->decide->keep));
        gf_jsonl_integer(&j, "keep", e->keep);
        gf_jsonl_integer(&j, "remove", e->duplicates + e->bad);
        gf_jsonl_integer(&j, "remove_duplicates", e->duplicates);
        if (x->decide->most) gf_jsonl_integer(&j, "keep_rows", x->decide->most);
        if (x->decide->most) gf_jsonl_number(&j, "keep_limit", e->limit);
        if (x->d->label) gf_jsonl_integer(&j, "remove_other_label", e->other_label);
        if (e->unchecked) gf_jsonl_integer(&j, "keep_unchecked", e->unchecked);
        gf_jsonl_integer(&j, "outliers", e->outliers_found);
        gf_jsonl_number(&j, "outlier_limit", e->outlier_limit);
        if (x->d->label) gf_jsonl_integer(&j, "label_issues", e->issues);
        if (e->issues_confident) gf_jsonl_flag(&j, "pred_probs", 1);
        if (x->decide->negatives) gf_jsonl_integer(&j, "negatives", x->decide->negatives);
        if (x->decide->sample) gf_jsonl_integer(&j, "sample", e->samples);
        if (x->decide->sample) gf_jsonl_number(&j, "sample_reach", e->sample_reach);
        if (x->decide->splits) {
            const gf_decide_spec *c = x->decide;
            const char *name[GF_SPLITS_MAX];
            double first[GF_SPLITS_MAX], rows[GF_SPLITS_MAX], leak[GF_SPLITS_MAX * GF_SPLITS_MAX],
                exact[GF_SPLITS_MAX * GF_SPLITS_MAX];
            for (int a = 0; a < c->splits; a++) {
                name[a] = c->split[a].name, first[a] = (double)c->split[a].first, rows[a] = (double)c->split[a].rows;
                for (int b = 0; b < c->splits; b++) {
                    leak[a * c->splits + b] = (double)x->decisions->leak[a][b];
                    exact[a * c->splits + b] = (double)x->decisions->exact[a][b];
                }
            }
            gf_jsonl_texts(&j, "splits", name, c->splits);
            gf_jsonl_numbers(&j, "split_first", first, c->splits);
            gf_jsonl_numbers(&j, "split_rows", rows, c->splits);
            gf_jsonl_numbers(&j, "split_leaks", leak, (int64_t)c->splits * c->splits);
            gf_jsonl_numbers(&j, "split_exact", exact, (int64_t)c->splits * c->splits);
        }
    }
    const gf_discover_result *result = x->r;
    if (result->quality.anchors) {
        gf_jsonl_number(&j, "precision", result->quality.precision);
        gf_jsonl_number(&j, "recall", result->quality.recall);
        gf_jsonl_number(&j, "f1", result->quality.f1);
        gf_jsonl_number(&j, "pooled_precision", result->quality.pooled_precision);
        gf_jsonl_number(&j, "pooled_recall", result->quality.pooled_recall);
        gf_jsonl_number(&j, "pooled_f1", result->quality.pooled_f1);
    }
    if (result->error.count) {
        gf_jsonl_integer(&j, "learned_sample", result->error.count);
        gf_jsonl_number(&j, "learned_mae", result->error.mae);
        gf_jsonl_number(&j, "learned_rmse", result->error.rmse);
        gf_jsonl_number(&j, "learned_bias", result->error.bias);
    }
    gf_jsonl_end(&j);
    return gf_jsonl_close(&j);
}

/* ----- text ----- */

/* Searches that do not compare all pairs. */
static void add_cells(gf_text *t, const gf_discover_report *x) {
    const gf_pairs_found *f = &x->r->f;
    const double n = (double)x->q->good_n, share = 100.0 * (double)f->compared / (n * (n - 1.0));
    const int searched = x->s->task.only_dup && !x->s->dup_exact;
    if (searched && f->cells == 0) gf_text_add(t, "compared    all %.3g pairs\n", 0.5 * n * (n - 1.0));
    if (searched && f->cells > 0)
        gf_text_add(t, "cells       %lld, exact: %.3g of %.3g pairs (%.2f %%) were compared, no other can be a duplicate\n",
                    (long long)f->cells, 0.5 * (double)f->compared, 0.5 * n * (n - 1.0), share);
    if (x->s->task.probe)
        gf_text_add(t,
                    "approximate an anchor was compared with the rows of its %lld nearest of %lld cells, %.2f %% of all: "
                    "recall %.2f %% of the pairs above, on %lld anchors; duplicates are exact\n",
                    (long long)x->s->task.probe, (long long)f->cells, share, 100.0 * (double)f->recalled / (double)f->wanted,
                    (long long)f->sampled);
}

static void add_duplicates(gf_text *t, const gf_discover_report *x) {
    const gf_discover_result *r = x->r;
    const int64_t copies = x->q->good_n - x->q->distinct;
    if (x->s->dup_exact)
        gf_text_add(t, "duplicates  %lld pair%s of equal rows", (long long)r->dup_pairs, gf_plural(r->dup_pairs));
    else
        gf_text_add(t, "duplicates  %lld pair%s of similarity %g or more", (long long)r->dup_pairs, gf_plural(r->dup_pairs),
                    x->s->dup);
    if (!x->query)
        gf_text_add(t, ", in %lld group%s of %lld rows", (long long)r->groups.count, gf_plural(r->groups.count),
                    (long long)r->groups.nodes);
    if (r->dup_listed < r->dup_pairs)
        gf_text_add(t, "\n            %lld of them listed in duplicates%s: %s", (long long)r->dup_listed,
                    gf_table_ending(x->format), x->s->dup_exact ? "each copy once" : "those among the most similar of an anchor");
    if (r->dup_listed < r->dup_pairs && !x->s->dup_exact) gf_text_add(t, " (top)");
    if (x->query)
        gf_text_add(t, "\n            %lld of the %lld new rows %s of stored ones", (long long)r->stored_copies,
                    (long long)x->q->good_n, r->stored_copies == 1 ? "is an exact copy" : "are exact copies");
    gf_text_add(t, "\n            %lld distinct row%s of %lld: %lld exact cop%s%s\n", (long long)x->q->distinct,
                gf_plural(x->q->distinct), (long long)x->q->good_n, (long long)copies, copies == 1 ? "y" : "ies",
                x->query ? " among themselves" : "");
}

/* What other limits would find. */
static void add_choices(gf_text *t, const gf_discover_report *x) {
    if (!x->decisions) return;
    const gf_dup_choice *choice = x->decisions->choice;
    int choices = x->decisions->choices, cut = 0;
    while (choices > 0 && choice[choices - 1].pairs == 0) choices--;
    for (int c = 0; c < choices; c++) cut |= choice[c].cut;
    for (int c = 0; c < choices; c++)
        gf_text_add(t, "%s%-6g%12lld%s pair%s%12lld row%s\n", c ? "            " : "at dup      ", choice[c].limit,
                    (long long)choice[c].pairs,
                    choice[c].cut ? "+"
                    : cut         ? " "
                                  : "",
                    choice[c].pairs == 1 ? " " : "s", (long long)choice[c].rows, choice[c].rows == 1 ? "" : "s");
    if (cut)
        gf_text_add(t, "            +: among the %lld most similar of each row; there may be more\n", (long long)x->r->f.top);
}

/* A limit that is too low joins rows that merely resemble each other: many are removed, or one chain takes many. */
static void add_caution(gf_text *t, const gf_discover_report *x) {
    const int64_t n = x->d->n, copies = x->d->good_n - x->d->distinct, near = x->decisions->duplicates - copies;
    const int64_t largest = x->r->groups.count ? x->r->groups.part[0].nodes : 0;
    const int many = !x->s->dup_exact && !x->decide->most && near > n / 10,
              chain = !x->s->dup_exact && largest > 100 && largest > n / 100 + copies;
    if (copies > n / 4)
        gf_text_add(t, "            caution: %.0f %% are exact copies of other rows: is a file given twice?\n",
                    100.0 * (double)copies / (double)n);
    else if (many || chain) {
        gf_text_add(t, "            caution: ");
        if (many) gf_text_add(t, "%.0f %% count as duplicates", 100.0 * (double)x->decisions->duplicates / (double)n);
        if (many && chain) gf_text_add(t, ", and ");
        if (chain) gf_text_add(t, "a chain of duplicates connects %lld rows", (long long)largest);
        gf_text_add(t, ":\n            at dup=%g these embeddings tell too little apart; look first, or use dup=%s\n", x->s->dup,
                    x->s->dup < 0.999 ? "0.999 or dup=exact" : "exact");
    }
}

/* Undefined where no pair is flagged or none has equal labels. */
static void add_percent(gf_text *t, const char *before, double share) {
    if (isfinite(share)) gf_text_add(t, "%s %.2f %%", before, 100.0 * share);
    else gf_text_add(t, "%s undefined", before);
}

static void add_quality(gf_text *t, const char *head, double precision, double recall, double f1, const char *tail) {
    add_percent(t, head, precision);
    add_percent(t, ", recall", recall);
    add_percent(t, ", F1", f1);
    gf_text_add(t, " (%s)\n", tail);
}

void gf_discover_summary(gf_text *t, const gf_discover_report *x) {
    const gf_precision_recall *q = &x->r->quality;
    const gf_discover_data *data = x->q;
    const gf_discover_spec *s = x->s;
    gf_text_add(t, "embeddings  %lld x %lld from ", (long long)data->n, (long long)data->dim);
    gf_text_show(t, x->query ? x->query : x->source);
    if (x->query) gf_text_add(t, "\nagainst     %lld of ", (long long)x->d->good_n);
    if (x->query) gf_text_show(t, x->source);
    gf_text_add(t, "\n");
    if (data->good_n < data->n)
        gf_text_add(t, "bad rows    %lld left out (%snot finite, or all zero): bad_rows%s\n", (long long)(data->n - data->good_n),
                    data->unreadable ? "unreadable, " : "", gf_table_ending(x->format));
    if (!s->task.only_dup) {
        if (s->k == 1) gf_text_add(t, "threshold   the most similar sample of an anchor is above it");
        else if (s->k > 1) gf_text_add(t, "threshold   the %lld most similar samples of an anchor are above it", (long long)s->k);
        else gf_text_add(t, "threshold   alpha %g: the similarity of rank %lld of an anchor", s->alpha, (long long)x->r->rank);
        gf_text_add(t, "%s\n",
                    s->learned      ? ", estimated by the learner"
                    : s->task.probe ? ", among the rows it was compared with"
                                    : ", exact");
        gf_text_add(t, "            mean %.4f, std %.4f, from %.4f to %.4f\n", x->r->lambda.mean, x->r->lambda.std,
                    x->r->lambda.min, x->r->lambda.max);
        if (x->r->error.count)
            gf_text_add(t, "            error against exact thresholds of %lld anchors: MAE %.5f, RMSE %.5f, bias %+.5f\n",
                        (long long)x->r->error.count, x->r->error.mae, x->r->error.rmse, x->r->error.bias);
    }
    add_cells(t, x);
    if (!x->s->task.only_dup) {
        const gf_discover_result *r = x->r;
        gf_text_add(t, "above       %lld pair%s (anchor, other) of %lld anchor%s", (long long)r->above, gf_plural(r->above),
                    (long long)r->with_pairs, gf_plural(r->with_pairs));
        if (r->above == 0 && r->rank == 1)
            gf_text_add(t, ": the threshold is the largest similarity itself; use a larger alpha, or k");
        if (r->above == 0 && r->rank > 1)
            gf_text_add(t, ": the %lld largest similarities of every anchor are equal", (long long)r->rank);
        gf_text_add(t, "\n            %lld listed in %s: the %lld most similar of each anchor", (long long)r->listed,
                    x->format == GF_TABLE_PARQUET ? "pairs.parquet"
                    : x->format == GF_TABLE_JSONL ? "pairs.tsv and pairs.jsonl"
                                                  : "pairs.tsv",
                    (long long)r->f.top);
        if (r->listed < r->listed_of)
            gf_text_add(t, ", limited from %lld by max_pairs: none below similarity %.8f", (long long)r->listed_of,
                        (double)r->cutoff);
        gf_text_add(t, "\nmutual      %lld pair%s above both thresholds\n", (long long)r->mutual_pairs,
                    r->mutual_pairs == 1 ? " is" : "s are");
        if (!x->query && !r->parts.count) gf_text_add(t, "components  none\n");
        if (!x->query && r->parts.count)
            gf_text_add(t, "components  %lld, of %lld rows and %lld pair%s; the largest has %lld rows and %lld pair%s\n",
                        (long long)r->parts.count, (long long)r->parts.nodes, (long long)r->parts.edges,
                        gf_plural(r->parts.edges), (long long)r->parts.part[0].nodes, (long long)r->parts.part[0].edges,
                        gf_plural(r->parts.part[0].edges));
    }
    add_duplicates(t, x);
    add_choices(t, x);
    if (x->decisions) {
        const gf_decisions *e = x->decisions;
        gf_text_add(
            t, "keep        %lld of %lld rows in keep.txt, by keep=%s; %lld in remove.txt: %lld duplicate%s, %lld bad row%s\n",
            (long long)e->keep, (long long)x->d->n, gf_keep_rule_name(x->decide->keep), (long long)(e->duplicates + e->bad),
            (long long)e->duplicates, gf_plural(e->duplicates), (long long)e->bad, gf_plural(e->bad));
        if (x->decide->most)
            gf_text_add(t, "            rows=%lld: a removed row has similarity %.6f or more to the row that is kept for it\n",
                        (long long)x->decide->most, e->limit);
        if (e->other_label)
            gf_text_add(t, "            %lld of the removed rows %s another label than the row that is kept: remove%s\n",
                        (long long)e->other_label, e->other_label == 1 ? "has" : "have", gf_table_ending(x->format));
        if (e->unchecked)
            gf_text_add(
                t,
                "            %lld kept row%s more duplicates than are listed (top=%lld), and no embeddings to compare them "
                "with: give these\n",
                (long long)e->unchecked, e->unchecked == 1 ? " has" : "s have", (long long)x->r->f.top);
        add_caution(t, x);
        if (x->decide->splits) {
            const gf_decide_spec *c = x->decide;
            const gf_decisions *decisions = x->decisions;
            int some = 0;
            int64_t outside = x->d->n;
            for (int a = 0; a < c->splits; a++) outside -= c->split[a].rows;
            for (int a = 0; a < c->splits; a++)
                for (int b = a + 1; b < c->splits; b++) {
                    if (!decisions->leak[a][b] && !decisions->exact[a][b]) continue;
                    gf_text_add(t, "%s%lld of %lld rows of %s have a duplicate in %s (%lld exact), %lld of %lld the other way\n",
                                some ? "            " : "leaks       ", (long long)decisions->leak[a][b],
                                (long long)c->split[a].rows, c->split[a].name, c->split[b].name,
                                (long long)decisions->exact[a][b], (long long)decisions->leak[b][a], (long long)c->split[b].rows);
                    some = 1;
                }
            if (some)
                gf_text_add(t, "            pairs in leaks%s, all counts in split_matrix.tsv\n", gf_table_ending(x->format));
            else gf_text_add(t, "leaks       none between the splits\n");
            if (outside > 0)
                gf_text_add(t, "            %lld of %lld rows belong to no split\n", (long long)outside, (long long)x->d->n);
        }
        if (x->r->f.top > 0 && !x->s->task.only_dup)
            gf_text_add(t,
                        "outliers    %lld row%s whose mean similarity to the nearest rows, duplicates apart, is below %.4f:\n"
                        "            1.5 ranges of the quartiles below the first\n",
                        (long long)e->outliers_found, gf_plural(e->outliers_found), e->outlier_limit);
        if (x->d->label && !x->s->task.only_dup)
            gf_text_add(t, "issues      %lld label issue%s, rows %s another label: label_issues%s\n", (long long)e->issues,
                        gf_plural(e->issues),
                        e->issues_confident ? "that are confidently predicted to have" : "whose mutual neighbours speak for",
                        gf_table_ending(x->format));
        if (x->decide->sample > e->samples)
            gf_text_add(t, "sample      all %lld kept rows in sample.txt: sample=%lld asks for more\n", (long long)e->samples,
                        (long long)x->decide->sample);
        else if (x->decide->sample)
            gf_text_add(t, "sample      %lld rows in sample.txt; every kept row has one of similarity %.4f or more\n",
                        (long long)e->samples, e->sample_reach);
    }
    if (!q->anchors) return;
    add_quality(t, "labels      precision", q->precision, q->recall, q->f1, "means over anchors");
    add_quality(t, "            precision", q->pooled_precision, q->pooled_recall, q->pooled_f1, "all pairs");
}
