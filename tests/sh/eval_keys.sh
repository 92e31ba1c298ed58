# The table of eval.jsonl's keys and FORMATS.md say the same: every key is in the row of its event.
. "$2/tests/sh/common.inc"
awk '/^static const gf_eval_key / { event = $4; sub(/\[.*/, "", event) }
     event { line = $0
             while (match(line, /[A-Z_]+\("[a-z0-9_]+"/)) {
                 key = substr(line, RSTART, RLENGTH); gsub(/^[A-Z_]+\("|"$/, "", key); print event, key
                 line = substr(line, RSTART + RLENGTH) } }
     /^};|}};/ { event = "" }' "$source/train/run/run_eval.c" | grep -v '^every \|^epoch \|^trained ' > keys
[ "$(wc -l < keys)" -gt 80 ] || fail "the table was not found"
while read -r event key; do
    grep "^| \`$event\` |" "$source/FORMATS.md" | grep -q "\`$key\`" || fail "FORMATS.md: $key of $event is missing"
done < keys
