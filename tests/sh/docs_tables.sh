# Cells of tables in the documentation are short: a paragraph belongs below the table.
. "$2/tests/sh/common.inc"
for page in commands benchmarks; do
    awk -F '|' -v page="$page" '/^\|/ {
        for (i = 2; i < NF; i++) if (length($i) > 170) { print page ".md:" NR ": " substr($i, 1, 80); bad = 1 }
    } END { exit bad }' "$source/docs/$page.md" > out || fail "paragraphs in cells"
done
exit 0
