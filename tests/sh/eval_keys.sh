# The table of eval.jsonl's keys and docs/formats.md say the same: every key is in the row of its event.
. "$2/tests/sh/common.inc"
sed -n 's/^    [A-Z_]*("\([a-z_]*\)", "\([a-z0-9_]*\)".*/\1 \2/p' "$source/src/run/eval_schema.c" > keys
[ "$(wc -l < keys)" -gt 80 ] || fail "the table was not found"
while read -r event key; do
    grep "^| \`$event\` |" "$source/docs/formats.md" | grep -q "\`$key\`" || fail "docs/formats.md: $key of $event is missing"
done < keys
