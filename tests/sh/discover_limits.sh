# The similarity of duplicates: one that fits dense embeddings, the table of other limits, and --rows N, against their definitions in
# plain Python; --classes.
. "$2/tests/sh/common.inc"
needs_tools python3
export PYTHONPATH="$2/tests/sh" PYTHONDONTWRITEBYTECODE=1     # npy_file.py
discover() { "$glofnd" discover "$@" --quiet; }

cat > make.py <<'PY'
import math, random, struct
from npy_file import npy
random.seed(5)
N, DIM = 600, 6
# A dense cloud, in which ten others are nearer than 0.98, and 20 rows that are all but copies of others. plain: nothing is near.
dense = [[3.0 + 0.6 * random.gauss(0, 1) for _ in range(DIM)] for i in range(N)]
for i in range(20): dense[580 + i] = [v * (1 + 5e-3 * random.gauss(0, 1)) for v in dense[7 * i]]
plain = [[random.gauss(0, 1) for _ in range(40)] for _ in range(200)]
for name, rows in (("dense", dense), ("plain", plain)):
    flat = [v for r in rows for v in r]
    npy(name + ".npy", "<f4", "(%d, %d)" % (len(rows), len(rows[0])), struct.pack("<%df" % len(flat), *flat))
npy("y.npy", "<i4", "(%d,)" % N, struct.pack("<%di" % N, *[i % 3 for i in range(N)]))
PY
python3 make.py || fail "embeddings"

cat > check.py <<'PY'
import json, math, os, struct, sys
folder, source, rows = sys.argv[1], sys.argv[2], int(sys.argv[3])
def npy(path):
    data = open(path, "rb").read()
    size = struct.unpack("<H", data[8:10])[0]
    head = eval(data[10:10 + size])
    kind = {"<f4": "f", "<i4": "i", "<f8": "d"}[head["descr"]]
    flat = struct.unpack("<%d%s" % (head["shape"][0] * head["shape"][1], kind), data[10 + size:])
    width = head["shape"][1]
    return [flat[i * width:(i + 1) * width] for i in range(head["shape"][0])]
X = npy(source)
U = [[v / math.sqrt(sum(w * w for w in r)) for v in r] for r in X]
S = [[sum(a * b for a, b in zip(u, v)) for v in U] for u in U]
N, summary = len(X), json.load(open(os.path.join(folder, "summary.json")))
near, listed = npy(os.path.join(folder, "similarities.npy")), npy(os.path.join(folder, "neighbours.npy"))

# ----- the fitting limit: a box plot of the distances of tenth neighbours; no list is full
tenth = sorted((r[9] for r in near), reverse=True)
a, b = 1 - tenth[(N + 3) // 4 - 1], 1 - tenth[N - N // 4 - 1]
fence = min(a * (a / b) ** 1.5, min(1 - r[-1] for r in near))
if 1 - a * (a / b) ** 1.5 > 0.98 and not rows:
    unit = 10 ** (math.floor(math.log10(fence)) - 1)
    want = 1 - unit * (math.ceil(fence / unit) - 1)
    assert abs(summary["dup"] - want) < 1e-12, (summary["dup"], want)
    assert want > 0.98
elif not rows: assert summary["dup"] == 0.98, summary["dup"]

# ----- the table: listed pairs, and rows that have one
for limit, pairs, some in zip(summary["dup_limits"], summary["dup_limit_pairs"], summary["dup_limit_rows"]):
    want = {(min(i, j), max(i, j)) for i in range(N) for j, s in zip(listed[i], near[i]) if s >= limit}
    assert pairs == len(want), (limit, pairs, len(want))
    assert some == sum(r[0] >= limit for r in near)

# ----- every removed row has a kept one that is similar enough
keep = [int(l) for l in open(os.path.join(folder, "keep.txt"))]
gone = [l.split("\t") for l in open(os.path.join(folder, "remove.tsv")).read().splitlines()[1:]]
limit = summary["keep_limit"] if rows else summary["dup"]
assert len(keep) + len(gone) == N and not set(keep) & {int(g[0]) for g in gone}
# S is computed here in doubles, by the library in floats.
for g in gone:
    row, kept, s = int(g[0]), int(g[1]), float(g[4])
    assert kept in keep and s >= limit - 1e-6 and abs(S[row][kept] - s) < 1e-5, (g, limit)
if rows:
    assert len(keep) == rows == summary["keep_rows"], len(keep)
    # As similar as can be: at a limit just above, greedy keeping of the lower row keeps more.
    higher, stay = limit + 2e-6, []
    for i in range(N):
        if not any(S[i][j] >= higher and (j in listed[i] or i in listed[j]) for j in stay): stay.append(i)
    assert len(stay) > rows, (len(stay), rows)
PY
check() { python3 check.py "$@" || fail "$1: not as defined"; }

expect 0 "written" discover dense.npy --k 5 --out dense
check dense dense.npy 0
grep -q "^at dup      0.9  *[0-9]*+ pairs *600 rows" dense/summary.txt || fail "no table of limits"
[ "$(cut -f 1 dense/remove.tsv | tail -n +2 | sort -n | tail -n 20 | head -n 1)" = 580 ] || fail "planted copies are kept"
expect 0 "written" discover plain.npy --k 5 --out plain
check plain plain.npy 0
"$glofnd" discover dense.npy --k 5 --out told 2>&1 | grep -q "^dup=auto: many rows have ten others of similarity 0.98; duplicates have 0.99" || fail "the limit is not told"
# The same limit by units and from a stored result; a limit that is given is used.
expect 0 "written" discover dense.npy --k 5 --resume --out units
diff -r dense units || fail "--resume decides otherwise"
expect 0 "written" discover --from dense --k 5 --out again
diff -r dense again || fail "--from decides otherwise"
expect 0 "similarity 0.98 or more" discover dense.npy --k 5 --dup 0.98 --out given
grep -q '"dup": *0.98[,}]' given/summary.json || fail "--dup is not used"
expect 0 "written" discover dense.npy --k 5 --dup auto --out auto
diff -r dense auto || fail "--dup auto is not the default"
expect 2 "exact or auto" discover dense.npy --k 5 --dup often --out z

# ----- --rows
for rows in 599 590 500 120; do
    expect 0 " $rows of 600 rows in keep.txt" discover dense.npy --k 5 --rows $rows --out rows$rows
    check rows$rows dense.npy $rows
done
expect 0 "written" discover dense.npy --from dense --rows 500 --out again500
diff rows500/keep.txt again500/keep.txt || fail "--from --rows"
expect 0 " 600 of 600 rows in keep.txt" discover dense.npy --k 5 --rows 5000 --out all
expect 1 "raise top" discover dense.npy --k 5 --rows 2 --out z
expect 2 "rows needs the neighbours" discover dense.npy --duplicates --rows 2 --out z

# ----- --center: the result of rows less their mean
cat > center.py <<'PY'
import array, struct
from npy_file import npy
data = open("dense.npy", "rb").read()[-600 * 6 * 4:]
x = struct.unpack("<3600f", data)
mean = [sum(x[k::6]) / 600 for k in range(6)]
centred = array.array("f", (v - mean[i % 6] for i, v in enumerate(x)))
npy("centred.npy", "<f4", "(600, 6)", centred.tobytes())
npy("new.npy", "<f4", "(9, 6)", data[:9 * 24])
npy("centred_new.npy", "<f4", "(9, 6)", centred[:54].tobytes())
PY
python3 center.py || fail "centred embeddings"
expect 0 "written" discover dense.npy --center --k 5 --out centre
expect 0 "written" discover centred.npy --k 5 --out centred
for file in keep.txt neighbours.npy outliers.tsv; do cmp centre/$file centred/$file || fail "--center: $file"; done
expect 0 "written" discover dense.npy --center --from centre --k 5 --keep central --out central
expect 1 "other embeddings" discover dense.npy --from centre --k 5 --keep central --out z
expect 0 "written" discover dense.npy --center --query new.npy --stored centre --out newer
expect 0 "written" discover centred.npy --query centred_new.npy --stored centred --out newest
cmp newer/neighbours.npy newest/neighbours.npy || fail "--center --query"
expect 2 "does not go with --center" discover dense.npy --center --resume --k 5 --out z

# ----- --classes
printf 'cat\ndog\nbird\n' > names.txt
head -n 2 names.txt > two.txt
expect 0 "written" discover dense.npy --k 5 --labels y.npy --classes names.txt --out named
cmp named/classes.txt names.txt || fail "names of classes"
head -n 1 named/label_issues.tsv | grep -q "suggested_class" || fail "no names in label_issues.tsv"
expect 1 "has 2 names of classes" discover dense.npy --k 5 --labels y.npy --classes two.txt --out z
expect 2 "names the labels of" discover dense.npy --k 5 --classes names.txt --out z

# A closed stdout is no failure: the result is complete. A full one is.
"$glofnd" discover plain.npy --k 5 --quiet --out closed >&- || fail "a closed stdout"
cmp closed/summary.txt plain/summary.txt || fail "another result"
[ ! -e /dev/full ] || ! "$glofnd" discover plain.npy --k 5 --quiet --out full > /dev/full 2> err || fail "a full stdout"
[ ! -e z ] || fail "something was left behind"
