# Tables in the documentation are readable: a paragraph belongs below the table, not in a cell, and columns are few.
. "$2/tests/sh/common.inc"
for page in commands benchmarks; do
    awk -F '|' -v page="$page" '/^\|/ {
        for (i = 2; i < NF; i++) if (length($i) > 170) { print page ".md:" NR ": " substr($i, 1, 80); bad = 1 }
    } END { exit bad }' "$source/docs/$page.md" > out || fail "paragraphs in cells"
done
# A table has at most six columns: more do not fit beside the navigation of the site.
find "$source/README.md" "$source/docs" -name '*.md' | while read -r page; do
    awk -F '|' -v page="${page#"$source"/}" '{ gsub(/\\\|/, "") } /^\|/ && NF - 2 > 6 { print page ":" NR ": " NF - 2 " columns" }' "$page"
done > out
[ ! -s out ] || fail "wide tables: $(cat out)"
# The table "of the paper" has claims that the paper makes, and presets expect what its figures show.
sed -n '/^| of the paper |/,/^$/p' "$source/research/2026-11/results.md" > claims
[ "$(wc -l < claims)" -gt 10 ] || fail "no table of the paper's claims in research/2026-11/results.md"
grep -nE "matters little|constant share is most wrong" claims > out && fail "claims that are not the paper's"
grep -n "between FNC and GloFND" "$source"/configs/*.cfg > out && fail "a single threshold is below FNC in the paper's figure"
exit 0
