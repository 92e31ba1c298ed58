# discover_names.sh BUILD SOURCE - names that tables of lines cannot hold as they are: what is written is what was read, after the
# escapes of a TSV are undone, and as it is in Parquet and JSON. Unreadable images are bad rows, with the reason.
. "$2/tests/sh/common.inc"
needs_tools python3
export PYTHONPATH="$2/tests/sh" PYTHONDONTWRITEBYTECODE=1 source # parquet_file.py
discover() { "$glofnd" discover "$@" --quiet; }

cat > make.py << 'PY'
import csv, random
random.seed(4)
odd = ["two\nlines", "a\ttab", "C:\\new\\table", "\u00e4 \u2603", "bell \x07", "\u0085 next line", " blank ", "\r",
        "\\", "\\x41", "a\r\nb"]
names = odd + ["plain %d" % i for i in range(9)]
with open("x.csv", "w", newline="", encoding="utf-8") as f:
    w = csv.writer(f)
    w.writerow(["key"] + ["e%d" % k for k in range(4)])
    for n in names: w.writerow([n] + [round(random.gauss(0, 1), 4) for _ in range(4)])
PY
cat > check.py << 'PY'
import json, re, sys
import parquet_file
exec(open("make.py", encoding="utf-8").read().split("with open")[0])
tsv, parquet = sys.argv[1:]
letters = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\"}
def undo(text):
    one = lambda m: bytes([int(m[1][1:], 16)]) if m[1][:1] == b"x" else letters[m[1].decode()].encode()
    return re.sub(rb"\\(x..|.)", one, text.encode()).decode()
lines = [l.split("\t") for l in open(tsv + "/pairs.tsv", encoding="utf-8", newline="\n").read().split("\n")[:-1]]
assert all(len(l) == len(lines[0]) for l in lines)
rows = [dict(zip(lines[0], l)) for l in lines[1:]]
assert len(rows) == 60 and all(undo(r["anchor_name"]) == names[int(r["anchor"])] for r in rows)
for line in open(tsv + "/pairs.jsonl", encoding="utf-8"):
    x = json.loads(line)
    assert x["anchor_name"] == names[x["anchor"]], x
head, rows = parquet_file.read(parquet + "/pairs.parquet")
assert all(dict(zip(head, r))["anchor_name"] == names[r[0]] for r in rows) and len(rows) == 60
PY
python3 make.py || fail "names"
expect 0 "20 x 4" discover x.csv --k 3 --html --format jsonl --out a
expect 0 "20 x 4" discover x.csv --k 3 --format parquet --out b
python3 check.py a b || fail "names are not those that were read"
expect 0 "20 x 4" discover --from a --k 2 --out again
expect 0 "20 x 4" discover x.csv --k 2 --format jsonl --out anew
diff -r anew again || fail "--from changes names"
expect 0 "20 x 4" discover --from b --k 3 --format jsonl --html --out c
diff -r a c || fail "--from a Parquet result changes names"
sed -e '3s/.*/a\\q/' a/names.txt > names && cp names a/names.txt
expect 1 "line 3: a backslash begins no escape" discover --from a --k 2 --out z
# Without a name that needs it, nothing is escaped in names.txt, as in results of earlier versions.
printf 'C:\\new\\%s\n' 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 > names
expect 0 "20 x 4" discover x.csv --names names --k 3 --out d
cmp names d/names.txt || fail "names.txt is not as it was"
{ printf '\357\273\277'; sed 's/$/\r/' names; } > names-windows                    # a mark of UTF-8, and the ends of lines there
expect 0 "20 x 4" discover x.csv --names names-windows --k 3 --out w
cmp names w/names.txt || fail "the mark or the ends of lines became a part of names"
# A zero byte in an id is refused with its row.
python3 -c '
import os
data = open(os.environ["source"] + "/tests/fixtures/parquet/none-v1-plain-f32.parquet", "rb").read()
open("zero.parquet", "wb").write(data.replace(b"row 22", b"row\x0022"))' || fail "zero.parquet"
expect 1 "row 22 has a zero byte" discover zero.parquet --column emb --id key --k 3 --out z

# Unreadable images.
needs_runs
needs 'png yes'
"$glofnd" data export shapes:n=24,classes=2,size=16,seed=1 --folder --out images > /dev/null || fail 'data export'
first=$(ls -d images/*/*.png | head -n 1)
head -c 60 "$first" > cut && cp cut "$first"
all='folder:images?split=all'
expect 0 "" "$glofnd" pretrain --data "$all" --arch resnet8 --head-hidden 16 --head-out 8 --batch 8 --epochs 1 --out run --quiet
expect 0 "1 left out (unreadable, not finite, or all zero)" "$glofnd" discover run --k 2 --out found
sed -n 2p found/bad_rows.tsv | grep -q "^0	unreadable: .*PNG" || fail "the reason is not listed: $(cat found/bad_rows.tsv)"
sed -n 2p found/remove.tsv | cut -f 1,4 | grep -qx "0	unreadable" || fail "remove.tsv: $(cat found/remove.tsv)"
expect 0 "1 left out (unreadable" "$glofnd" discover --from found --k 1 --out again_found
cmp found/bad_rows.tsv again_found/bad_rows.tsv || fail "--from loses the reason"
expect 0 "2 left out (unreadable" "$glofnd" discover run --split "a=$all" --split "b=$all" --k 2 --out both
[ "$(cut -f 1 both/bad_rows.tsv | tr '\n' ' ')" = "row 0 24 " ] || fail "reasons of splits: $(cat both/bad_rows.tsv)"
