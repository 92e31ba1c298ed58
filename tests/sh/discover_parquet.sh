# discover_parquet.sh BUILD SOURCE - tables as Parquet: cell for cell those of TSV, by a reader written for this test, by the
# program's own and, where it is installed, by pyarrow.
. "$2/tests/sh/common.inc"
needs_tools python3
export PYTHONPATH="$2/tests/sh" PYTHONDONTWRITEBYTECODE=1     # npy_file.py, parquet_file.py
discover() { "$glofnd" discover "$@" --quiet; }

python3 - << 'PY' || fail "embeddings"
import array, random
from npy_file import npy
random.seed(9)
N, D = 900, 8
x, label = array.array("f"), array.array("i")
for i in range(N):
    x.extend(random.gauss(0, 1) for _ in range(D)) if i % 9 else x.extend([0.0] * D if i == 9 else [1.0 + 0.01 * i] * D)
    label.append(i % 7 - 1)
npy("x.npy", "<f4", (N, D), x.tobytes())
npy("y.npy", "<i4", (N,), label.tobytes())
open("names", "w").write("".join("im\u00e4ge %d%s\n" % (i, "x" * (i % 50)) for i in range(N)))
PY

cat > check.py << 'PY'
import math, os, sys
import parquet_file
tsv, parquet, names = sys.argv[1], sys.argv[2], sys.argv[3:]
for name in names:
    lines = [l.split("\t") for l in open("%s/%s.tsv" % (tsv, name), encoding="utf-8").read().split("\n")[:-1]]
    head, rows = parquet_file.read("%s/%s.parquet" % (parquet, name))
    assert head == lines[0], (name, head, lines[0])
    assert len(rows) == len(lines) - 1 and len(rows) > 0, (name, len(rows), len(lines))
    for row, line in zip(rows, lines[1:]):
        for value, text in zip(row, line):
            if isinstance(value, float) and math.isnan(value): assert text == "nan", (name, row, line)
            elif isinstance(value, float): assert abs(value - float(text)) <= 5.1e-9 + 2 ** -24 * abs(value), (name, row, line)
            elif text == "": assert value in ("", -1), (name, row, line)
            else: assert str(value) == text, (name, row, line)
    assert not os.path.exists("%s/%s.tsv" % (parquet, name))
if "remove" in names:
    head, rows = parquet_file.read(parquet + "/keep.parquet")
    assert head == ["row", "split", "name", "label"], head
    assert [r[0] for r in rows] == [int(l) for l in open(tsv + "/keep.txt")]
    all_names = open("names", encoding="utf-8").read().splitlines()
    assert all(r[2] == all_names[r[0]] and r[3] == r[0] % 7 - 1 for r in rows)
    assert {r[1] for r in rows} == {"train", "test"} and all((r[1] == "train") == (r[0] < 600) for r in rows)
    head, rows = parquet_file.read(parquet + "/negatives.parquet")
    assert head[:4] == ["anchor", "other", "similarity", "threshold"]
    import struct
    data = open(parquet + "/negatives.npy", "rb").read()
    table = struct.unpack("<%di" % (900 * 3), data[-900 * 3 * 4:])
    assert [r[1] for r in rows] == [v for v in table if v >= 0] and all(r[2] <= r[3] for r in rows)
try:
    import pyarrow.parquet as pq
except ImportError:
    sys.exit(0)
for name in names + ["keep", "negatives"] * ("remove" in names):
    table = pq.read_table("%s/%s.parquet" % (parquet, name))
    head, rows = parquet_file.read("%s/%s.parquet" % (parquet, name))
    assert table.column_names == head and table.num_rows == len(rows)
    for c, column in enumerate(table.columns):
        for a, b in zip(column.to_pylist(), (r[c] for r in rows)): assert a == b or a != a and b != b, (name, a, b)
print("pyarrow", len(names))
PY

also='--k 5 --dup 0.97 --negatives 3 --labels y.npy --names names --split train=0:600 --split test=600:900 --outliers 40'
expect 0 "listed in pairs.tsv:" discover x.npy $also --out tsv
[ ! -e tsv/pairs.jsonl ] || fail "pairs as JSON, which nobody asked for"
expect 0 "listed in pairs.parquet" discover x.npy $also --format parquet --out parquet
expect 0 "leaks.parquet" discover x.npy $also --format parquet --threads 3 --out three
diff -r parquet three > out || fail "threads change the bytes"
for file in keep.txt remove.txt keep_1.txt keep_2.txt split_matrix.tsv anchors.npy neighbours.npy similarities.npy rows.npy \
    names.txt; do
    cmp "tsv/$file" "parquet/$file" || fail "$file differs"
done
[ ! -e parquet/pairs.jsonl ] || fail "pairs as JSON beside Parquet"
tables='pairs mutual duplicates duplicate_groups components bad_rows remove outliers label_issues leaks'
python3 check.py tsv parquet $tables || fail "tables differ"

# The program reads its own files: names of the kept rows.
cut -f 1 tsv/keep.txt | while read -r row; do sed -n "$((row + 1))p" names; done > kept.names
python3 - << 'PY'
import array
from npy_file import npy
rows = [int(l) for l in open("tsv/keep.txt")]
data = open("x.npy", "rb").read()[-900 * 8 * 4:]
npy("kept.npy", "<f4", (len(rows), 8), b"".join(data[r * 32:r * 32 + 32] for r in rows))
PY
expect 0 "written" discover kept.npy --k 3 --names kept.names --out one
expect 0 "written" discover kept.npy --k 3 --names parquet/keep.parquet --id name --out two
cmp one/pairs.tsv two/pairs.tsv || fail "the program reads other names than it wrote"

# Without names and labels; deciding again; replacing a result of the other format leaves nothing behind.
expect 0 "written" discover x.npy --k 5 --out plain
expect 0 "written" discover x.npy --k 5 --format parquet --out bare
python3 check.py plain bare pairs mutual duplicates duplicate_groups components bad_rows remove outliers 2> err &&
    fail "keep.parquet has names"
grep -q "\['row'\]" err || fail "keep.parquet without names: $(cat err)"
expect 0 "written" discover --from tsv --format parquet --negatives 3 --outliers 40 --out again
for name in $tables keep; do cmp "parquet/$name.parquet" "again/$name.parquet" || fail "--from: $name"; done
expect 0 "written" discover --from parquet --negatives 3 --outliers 40 --out as_it_was
diff -r parquet as_it_was > out || fail "--from a result with Parquet tables: $(cat out)"
expect 0 "written" discover --from parquet --format tsv --negatives 3 --outliers 40 --out back
diff -r tsv back > out || fail "--from a result with Parquet tables: $(cat out)"
expect 0 "written" discover x.npy $also --force --out parquet
diff -r tsv parquet > out || fail "files of the other format stay: $(cat out)"
expect 2 "expected tsv, parquet or jsonl" discover x.npy --format csv --out z
[ ! -e z ] || fail "something was left behind"
