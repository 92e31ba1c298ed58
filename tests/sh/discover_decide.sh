# Decisions of glofnd discover against a second computation of every list by its definition, in plain Python: keep and remove by
# every rule, outliers, labels, leaks, negatives, the subset, the graph; and what is refused.
. "$2/tests/sh/common.inc"
needs_tools python3
export PYTHONPATH="$2/tests/sh" PYTHONDONTWRITEBYTECODE=1     # npy_file.py
discover() { "$glofnd" discover "$@" --quiet; }

cat > make.py <<'PY'
import random, struct
from npy_file import npy
random.seed(11)
N, DIM = 150, 12
centre = [[random.gauss(0, 1) for _ in range(DIM)] for _ in range(10)]
rows = [[c + random.choice((0.08, 0.4)) * random.gauss(0, 1) for c in centre[i % 10]] for i in range(N)]
for a, b in ((3, 90), (3, 120), (7, 8), (50, 149)): rows[b] = list(rows[a])             # copies, also between splits
for i in (17, 130): rows[i] = [4 * random.gauss(0, 1) * (1 if k % 5 == i % 5 else -0.5) for k in range(DIM)]    # alone
rows[20] = [0.0] * DIM
rows[33][2] = float("nan")
label = [i % 10 for i in range(N)]
for i in range(0, N, 13): label[i] = (label[i] + 3) % 10
for i in range(5, N, 29): label[i] = -1
flat = [v for r in rows for v in r]
npy("x.npy", "<f4", "(%d, %d)" % (N, DIM), struct.pack("<%df" % len(flat), *flat))
npy("a.npy", "<f4", "(100, %d)" % DIM, struct.pack("<%df" % (100 * DIM), *flat[:100 * DIM]))
npy("b.npy", "<f4", "(50, %d)" % DIM, struct.pack("<%df" % (50 * DIM), *flat[100 * DIM:]))
npy("y.npy", "<i4", "(%d,)" % N, struct.pack("<%di" % N, *label))
score = [round(random.random(), 1) for _ in range(N)]
score[90] = float("nan")
npy("score.npy", "<f8", "(%d,)" % N, struct.pack("<%dd" % N, *score))
open("score.txt", "w").write("".join("%s\n" % s for s in score))
open("short.txt", "w").write("1\n2\n")
open("words.txt", "w").write("one\n" * N)
open("names", "w").write("".join("image %d\n" % i for i in range(N)))
PY
python3 make.py || fail "embeddings"

cat > check.py <<'PY'
import json, math, os, struct, sys, zipfile
folder, rule, dup, k, top, splits = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5]), eval(sys.argv[6])
def load(data):
    size = struct.unpack("<H", data[8:10])[0]
    head = eval(data[10:10 + size])
    kind, n = head["descr"], 1
    for s in head["shape"]: n *= s
    if kind == "|S3": return data[10 + size:], head["shape"]
    return struct.unpack("<%d%s" % (n, {"<f4": "f", "<f8": "d", "<i4": "i", "<i8": "q"}[kind]), data[10 + size:]), head["shape"]
def npy(path): return load(open(path, "rb").read())
def tsv(name):
    lines = [l.split("\t") for l in open(os.path.join(folder, name)).read().splitlines()]
    return lines[0], lines[1:]
def numbers(name): return [int(l) for l in open(os.path.join(folder, name)).read().splitlines()]
flat, (N, DIM) = npy("x.npy")
label, _ = npy("y.npy")
X = [flat[i * DIM:(i + 1) * DIM] for i in range(N)]
good = [i for i in range(N) if all(math.isfinite(v) for v in X[i]) and any(X[i])]
U = {i: [v / math.sqrt(sum(w * w for w in X[i])) for v in X[i]] for i in good}
S = {i: {j: sum(a * b for a, b in zip(U[i], U[j])) for j in good} for i in good}
near = {i: sorted((j for j in good if j != i), key=lambda j: (-S[i][j] if X[i] != X[j] else -1, j)) for i in good}
# Exact copies of one row are equally similar to every other row: the lower row comes first.
near = {i: sorted(near[i], key=lambda j: (-round(S[i][j], 6), j)) for i in good}
lam = {i: S[i][near[i][k]] for i in good}
above = lambda i, j: S[i][j] > lam[i] + 1e-6
limit = 1 - 1e-6 if dup == "exact" else float(dup)
group = {i: i for i in good}
def root(i):
    while group[i] != i: i = group[i]
    return i
for i in good:
    for j in good:
        if i < j and (X[i] == X[j] if dup == "exact" else S[i][j] >= limit): group[max(root(i), root(j))] = min(root(i), root(j))
members = {}
for i in good: members.setdefault(root(i), []).append(i)
members = [m for m in members.values()]

# ----- keep and remove
score, _ = npy("score.npy")
split = lambda i: next((s for s, (name, a, b) in enumerate(splits) if a <= i < b), 99)
def value(i, m):
    if rule == "central": return round(sum(S[i][j] for j in m if j != i) / (len(m) - 1), 7) if len(m) > 2 else 0
    if rule == "score": return -math.inf if math.isnan(score[i]) else score[i]
    if rule == "label":
        known = [label[j] for j in m if label[j] >= 0]
        if not known: return 0
        most = max(known.count(l) for l in known)
        return int(label[i] == next(l for l in known if known.count(l) == most))
    return 0
kept = {}
same = lambda i, j: X[i] == X[j] if dup == "exact" else S[i][j] >= limit
for m in members:       # greedy: a row goes for the most similar of the kept rows that it is a duplicate of
    chosen = []
    for i in sorted(m, key=lambda i: (split(i), -value(i, m), i)):
        near_kept = [j for j in chosen if same(i, j)]
        kept[i] = max(near_kept, key=lambda j: round(S[i][j], 6)) if near_kept else i
        if not near_kept: chosen.append(i)
keep = [i for i in range(N) if kept.get(i) == i]
assert numbers("keep.txt") == keep, (numbers("keep.txt"), keep)
assert numbers("remove.txt") == [i for i in range(N) if i not in keep]
head, rows = tsv("remove.tsv")
why = lambda i: ("zero" if not any(X[i]) else "not finite") if i not in U else "exact" if X[i] == X[kept[i]] else "duplicate"
assert [int(r[0]) for r in rows] == [i for i in range(N) if i not in keep]
if top > 20: assert [(int(r[1]), r[3]) for r in rows] == [(kept.get(i, -1), why(i)) for i in range(N) if i not in keep], rows
for r in rows: assert int(r[0]) not in U or same(int(r[0]), int(r[1])) and int(r[1]) in keep, r
for r in rows: assert r[4] == "nan" if int(r[0]) not in U else abs(float(r[4]) - S[int(r[0])][int(r[1])]) < 2e-6, r
for s, (name, a, b) in enumerate(splits): assert numbers("keep_%d.txt" % (s + 1)) == [i - a for i in keep if a <= i < b]

# ----- outliers
others = {i: [j for j in near[i][:top] if not same(i, j)][:10] for i in good}      # duplicates are no neighbours
alone = {i: sum(S[i][j] for j in others[i]) / len(others[i]) if others[i] else lam[i] for i in good}
order = sorted(good, key=lambda i: (round(alone[i], 6), i))
sizes, n = sorted(alone.values()), len(good)
fence = sizes[n // 4] - 1.5 * (sizes[n - (n + 3) // 4] - sizes[n // 4])      # of a box plot
head, rows = tsv("outliers.tsv")
assert head[:6] == ["row", "nearest", "similarity", "threshold", "score", "outlier"]
assert [int(r[0]) for r in rows] == order[:40], ([int(r[0]) for r in rows][:9], order[:9])
for r in rows:
    i = int(r[0])
    assert int(r[1]) == (others[i] or [-1])[0] and abs(float(r[3]) - lam[i]) < 2e-6, r
    assert abs(float(r[2]) - S[i][int(r[1])]) < 2e-6 if others[i] else r[2] == "nan", r
    assert abs(float(r[4]) - alone[i]) < 2e-6 and int(r[5]) == (alone[i] < fence), r
assert any(r[5] == "1" for r in rows)

# ----- labels
voters = min(top, 50)
ends = {i: S[i][near[i][:voters][-1]] for i in good}
votes = {i: [label[j] for j in near[i][:voters] if S[i][j] >= ends[j] - 1e-7 and label[j] >= 0] for i in good}
classes = sorted({label[i] for i in good if label[i] >= 0})
rows_of = {c: [i for i in good if label[i] == c and votes[i]] for c in classes}
theta = {c: {j: (sum(votes[i].count(j) / len(votes[i]) for i in rows_of[c]) + 0.5 / len(classes)) / (len(rows_of[c]) + 0.5)
             for j in classes} for c in classes}
evidence = lambda i, c: sum(math.log(theta[c][j]) for j in votes[i]) / (len(votes[i]) + 1) ** 0.75
issues = []
for i in good:
    if label[i] < 0 or not votes[i]: continue
    best = max(sorted(set(votes[i])), key=lambda c: round(evidence(i, c), 9))
    score = evidence(i, best) - evidence(i, label[i])
    if score > 1e-9: issues.append((score, i, best))
issues.sort(key=lambda x: (-round(x[0], 7), x[1]))
head, rows = tsv("label_issues.tsv")
assert head[:8] == ["row", "label", "suggested", "score", "probability", "neighbours", "agree_suggested", "agree_label"], head
assert len(rows) > 5
assert sorted((int(r[0]), int(r[2])) for r in rows) == sorted((i, best) for _, i, best in issues), (rows, issues)
for r, e in zip(rows, issues):
    i = int(r[0])
    assert abs(float(r[3]) - e[0]) < 1e-6 and 0 < float(r[4]) < 1, (r, e)
    assert [int(v) for v in r[5:8]] == [len(votes[i]), votes[i].count(int(r[2])), votes[i].count(label[i])], r

# ----- pairs, components, duplicates, tables of rows
listed = [(i, j) for i in good for j in near[i][:top] if above(i, j)]
head, rows = tsv("pairs.tsv")
assert head[:5] == ["anchor", "other", "similarity", "threshold", "mutual"]
assert [(int(r[0]), int(r[1])) for r in rows] == listed
for r, line in zip(rows, open(folder + "/pairs.jsonl")):
    i, j, e = int(r[0]), int(r[1]), json.loads(line)
    assert abs(float(r[2]) - S[i][j]) < 2e-6 and abs(float(r[3]) - lam[i]) < 2e-6 and int(r[4]) == (above(i, j) and above(j, i))
    assert r[5:] == ["image %d" % i, "image %d" % j, str(label[i]), str(label[j])]
    assert [e["anchor"], e["other"], e["mutual"], e["anchor_name"], e["other_label"]] == [i, j, r[4] == "1", r[5], label[j]]
    assert abs(e["similarity"] - float(r[2])) < 1e-8 and abs(e["threshold"] - float(r[3])) < 1e-8
once = lambda pairs: sorted({(min(p), max(p)) for p in pairs})
head, rows = tsv("mutual.tsv")
found = [(int(r[0]), int(r[1])) for r in rows]
assert once(found) == once(p for p in listed if above(*p[::-1])) and len(once(found)) == len(found)
def connected(edges):       # (rows, edges, first row) of every part with an edge, and the part of a row
    of = {i: i for i in good}
    def top_of(i):
        while of[i] != i: i = of[i]
        return i
    for i, j in edges: of[max(top_of(i), top_of(j))] = min(top_of(i), top_of(j))
    parts = {}
    for i in good: parts.setdefault(top_of(i), []).append(i)
    sizes = {r: (len(m), sum(top_of(i) == r for i, j in edges), r) for r, m in parts.items() if len(m) > 1}
    return sorted(sizes.values()), {i: top_of(i) if len(parts[top_of(i)]) > 1 else -1 for i in good}
mutual_pairs = [(i, j) for i in good for j in good if i < j and above(i, j) and above(j, i)]
alike = [(i, j) for i in good for j in good if i < j and (X[i] == X[j] if dup == "exact" else S[i][j] >= limit)]
part = {}
for name, edges in (("components", mutual_pairs), ("duplicate_groups", alike)):
    head, rows = tsv(name + ".tsv")
    sizes, part[name] = connected(edges)
    assert head == ["number", "images", "pairs", "first"] and [int(r[0]) for r in rows] == list(range(len(rows)))
    assert sorted(tuple(map(int, r[1:])) for r in rows) == sizes, (name, rows, sizes)
    assert [int(r[1]) for r in rows] == sorted((s[0] for s in sizes), reverse=True)
    first = [int(r[3]) for r in rows] + [-1]
    part[name] = {i: first.index(p) if p >= 0 else -1 for i, p in part[name].items()}
head, rows = tsv("duplicates.tsv")
first_copy = {i: min(j for j in good if X[j] == X[i]) for i in good}
wanted = [(first_copy[i], i) for i in good if first_copy[i] != i] if dup == "exact" else \
    [p for p in alike if p[1] in near[p[0]][:top] or p[0] in near[p[1]][:top]]
assert once((int(r[1]), int(r[2])) for r in rows) == sorted(wanted) and len(rows) == len(wanted)
for r in rows:
    i, j = int(r[1]), int(r[2])
    assert int(r[0]) == part["duplicate_groups"][i] and abs(float(r[3]) - S[i][j]) < 2e-6 and int(r[4]) == (X[i] == X[j]), r
assert tsv("bad_rows.tsv")[1] == [[str(i), why(i), "image %d" % i] for i in range(N) if i not in U]
table, shape = npy(folder + "/anchors.npy")
others, (_, wide) = npy(folder + "/neighbours.npy")
values, _ = npy(folder + "/similarities.npy")
stored, _ = npy(folder + "/rows.npy")
for i in range(N):
    row, list_of, of_list = table[8 * i:8 * i + 8], others[wide * i:wide * i + wide], values[wide * i:wide * i + wide]
    if i not in U:
        assert all(math.isnan(v) for v in row) and set(list_of) == {-1} and all(math.isnan(v) for v in of_list)
        assert tuple(stored[3 * i:3 * i + 3]) == (-1 if any(X[i]) else -2, 0, label[i])
        continue
    over = [j for j in good if j != i and above(i, j)]
    same = sum(label[j] == label[i] for j in over) if label[i] >= 0 else 0
    assert abs(row[0] - lam[i]) < 2e-6 and abs(row[1] - S[i][near[i][0]]) < 2e-6
    assert list(map(int, row[2:])) == [near[i][0], len(over), sum(above(j, i) for j in over), same, part["components"][i],
                                       part["duplicate_groups"][i]], (i, row)
    assert [j for j in list_of if j >= 0] == near[i][:top]
    assert all(abs(v - S[i][j]) < 2e-6 for v, j in zip(of_list, near[i][:top]))
    copies = sum(X[j] == X[i] if dup == "exact" else S[i][j] >= limit for j in good if j != i)
    assert tuple(stored[3 * i:3 * i + 3]) == (first_copy[i], copies, label[i]), (i, stored[3 * i:3 * i + 3], copies)

# ----- splits
if splits:
    pairs = []
    for i in good:
        for j in good:
            if i < j and 99 > split(i) != split(j) < 99 and (X[i] == X[j] if dup == "exact" else S[i][j] >= limit):
                pairs.append((i, j))
    head, rows = tsv("leaks.tsv")
    same = lambda i, j: X[i] == X[j] if dup == "exact" else root(i) == root(j)
    if dup == "exact": pairs = [(i, j) for i, j in pairs if i == next(g for g in good if X[g] == X[j])]     # the first copy
    if dup != "exact": pairs = [(i, j) for i, j in pairs if j in near[i][:top] or i in near[j][:top]]
    shown = {(i, split(j)) for i, j in pairs} | {(j, split(i)) for i, j in pairs}
    more = []       # rows that leak in no listed pair, each beside the lowest row of the other split
    for i in good:
        for b in range(len(splits)):
            j = next((g for g in good if split(g) == b and same(i, g)), None)
            if split(i) in (b, 99) or j is None or (i, b) in shown: continue
            more.append((i, j))
            shown |= {(i, b), (j, split(i))}
    found = [(int(r[4]), int(r[5])) for r in rows]
    listed = len(rows) - len(more)
    assert sorted(tuple(sorted(p)) for p in found[:listed]) == pairs, (found, pairs)
    assert found[listed:] == more, (found[listed:], more)
    for (i, j), r in zip(found, rows):
        alike = X[i] == X[j]
        assert abs(float(r[6]) - S[i][j]) < 2e-6 if alike or (min(i, j), max(i, j)) in pairs else r[6] == "nan", r
    for s in range(len(splits)):        # every row that the matrix counts
        for b in range(len(splits)):
            rows_of = {i for i, j in found + [p[::-1] for p in found] if split(i) == s and split(j) == b}
            assert b == s or rows_of == {i for i in good if split(i) == s and any(split(j) == b and same(i, j) for j in good)}
    for r in rows:
        for side in (0, 1):
            name, first, end = next(s for s in splits if s[0] == r[side])
            assert first <= int(r[4 + side]) < end and int(r[4 + side]) - first == int(r[2 + side])
        assert int(r[7]) == (X[int(r[4])] == X[int(r[5])])
    head, rows = tsv("split_matrix.tsv")
    for s, r in enumerate(rows):
        name, a, b = splits[s]
        inside = lambda other, same: sum(
            any(j != i and split(j) == other and (X[j] == X[i] if same else root(j) == root(i)) for j in good)
            for i in good if split(i) == s)
        assert r == [name, str(a), str(b - a)] + [str(inside(o, False)) for o in range(len(splits))] + \
            [str(inside(o, True)) for o in range(len(splits))], r

# ----- negatives, subset, graph
table, shape = npy(folder + "/negatives.npy")
assert shape == (N, 5)
for i in range(N):
    wanted = [j for j in near[i] if not above(i, j)][:5] if i in U else [-1] * 5
    assert list(table[5 * i:5 * i + 5]) == wanted, (i, table[5 * i:5 * i + 5], wanted)
chosen = []
total = [sum(U[i][d] for i in keep) for d in range(DIM)]
best = max(keep, key=lambda i: (round(sum(a * b for a, b in zip(U[i], total)), 9), -i))
while len(chosen) < 9:
    chosen.append(best)
    best = min((i for i in keep if i not in chosen), key=lambda i: (round(max(S[i][c] for c in chosen), 9), i))
assert numbers("sample.txt") == chosen, (numbers("sample.txt"), chosen)
archive = zipfile.ZipFile(folder + "/graph.npz")
graph = {name[:-4]: load(archive.read(name)) for name in archive.namelist()}
assert archive.testzip() is None
assert graph["format"][0] == b"csr" and graph["shape"][0] == (N, N)
starts, cells, data = graph["indptr"][0], graph["indices"][0], graph["data"][0]
assert len(starts) == N + 1 and starts[-1] == len(cells) == len(data)
for i in range(N):
    assert list(cells[starts[i]:starts[i + 1]]) == (near[i][:top] if i in U else []), i
    for c in range(starts[i], starts[i + 1]): assert data[c] >= 0 and abs(data[c] - max(0, 1 - S[i][cells[c]])) < 2e-6
try:
    import scipy.sparse
    m = scipy.sparse.load_npz(folder + "/graph.npz")
    assert m.shape == (N, N) and m.nnz == len(cells) and abs(m[3, cells[starts[3]]] - data[starts[3]]) == 0
except ImportError:
    pass
PY
check() { python3 check.py "$@" || fail "not as defined: $*"; }
also='--format jsonl --labels y.npy --names names --negatives 5 --sample 9 --graph --outliers 40 --top 149'
two="--split train=0:100 --split test=100:150"
for rule in first central label score; do
    file=$rule
    [ $rule = score ] && file=score:score.npy
    expect 0 "by keep=$rule" discover x.npy --k 6 --dup 0.97 --keep $file $also --out $rule
    check $rule $rule 0.97 6 149 '[]'
done
expect 0 "by keep=score" discover x.npy --k 6 --dup 0.97 --keep score:score.txt $also --out text
diff -r score text > out || fail "numbers of a text"
expect 0 "rows of train have a duplicate in test" discover x.npy --k 6 --dup 0.97 --keep central $two $also --out two
check two central 0.97 6 149 '[("train", 0, 100), ("test", 100, 150)]'
expect 0 "(2 exact)" discover x.npy --k 6 --dup exact --split c=120:150 --split a=0:60 --split b=70:110 $also --out three
check three first exact 6 149 '[("c", 120, 150), ("a", 0, 60), ("b", 70, 110)]'
expect 0 "rows of train have a duplicate in test" discover x.npy --k 2 --dup 0.9 $two ${also%149}3 --out cut
check cut first 0.9 2 3 '[("train", 0, 100), ("test", 100, 150)]'
grep -q nan cut/leaks.tsv || fail "no leak beyond --top"

# Splits of files of their own are the same rows; only the source has another name.
files="--split train=a.npy --split test=b.npy"
expect 0 "from train=a.npy test=b.npy" discover $files --k 6 --dup 0.97 --keep central $also --out files
for f in two/*; do
    case $f in */summary.*) continue ;; esac
    cmp "$f" "files/${f#*/}" || fail "splits of files"
done
expect 0 "leaks       none between the splits" discover x.npy --k 6 --dup exact --split a=10:15 --split b=22:30 --out none

# The largest of a group by its header: a picture of more pixels, then of more bytes.
if "$glofnd" info | grep -q 'png yes'; then
    "$glofnd" data export shapes:n=150,classes=2,size=16,seed=1 --folder --out small > out 2>&1 || fail "export"
    "$glofnd" data export shapes:n=150,classes=2,size=24,seed=1 --folder --out large > out 2>&1 || fail "export"
    find "$PWD/small" -name '*.png' | sort > paths
    find "$PWD/large" -name '*.png' | sort | sed -n 121p > one
    { sed -n 1,120p paths; cat one; sed -n 122,150p paths; } > pictures
    expect 0 "by keep=largest" discover x.npy --k 6 --dup exact --names pictures --keep largest --out largest
    grep -q '^120$' largest/keep.txt && ! grep -q '^3$' largest/keep.txt || fail "the largest of rows 3, 90 and 120 is row 120"
    expect 1 "no image of a duplicate can be measured" discover x.npy --k 6 --dup exact --names names --keep largest --out z
fi

# What is kept is a dataset.
expect 0 "samples    $(wc -l < first/keep.txt)" "$glofnd" data info "shapes:n=150,classes=2,size=16,seed=1?rows=first/keep.txt"

if "$glofnd" info | grep -q 'png yes'; then       # by name, with and without the folder
    sed -n '3p;9p' paths > chosen
    expect 0 "samples    2" "$glofnd" data info "folder:$PWD/small?split=all&rows=chosen"
    sed "s|^$PWD/small/||" chosen > short
    expect 0 "samples    2" "$glofnd" data info "folder:$PWD/small?split=all&rows=short"
    echo missing.png >> chosen
    expect 1 'chosen: line 3: "missing.png" is no sample' "$glofnd" data info "folder:$PWD/small?split=all&rows=chosen"
    { cat short; head -n 1 short; } > twice
    expect 1 "twice: line 3: sample 2 is there twice" "$glofnd" data info "folder:$PWD/small?split=all&rows=twice"
fi

# Limits of a list do not change totals; equal bytes for any number of threads; nothing of decisions in a query.
expect 0 "keep " discover x.npy --k 6 --dup 0.97 --keep central $two $also --threads 1 --out single
expect 0 "keep " discover x.npy --k 6 --dup 0.97 --keep central $two $also --threads 3 --out several
diff -r single several > out || fail "threads change the result"
expect 0 "written" discover x.npy --k 6 --top 0 --out bare
[ -e bare/keep.txt ] && [ ! -e bare/outliers.tsv ] && [ ! -e bare/label_issues.tsv ] || fail "files without neighbours"
expect 0 "written" discover x.npy --query b.npy --stored bare --out query
[ ! -e query/keep.txt ] && [ ! -e query/rows.npy ] || fail "decisions of a query"

# Embeddings that a threshold does not tell apart: a caution beside the decision.
expect 0 "95 % count as duplicates, and a chain of duplicates connects 148 rows:" discover x.npy --dup 0.2 --out alike
expect 0 "written" discover x.npy --dup exact --out exact
grep -q caution alike/summary.txt && ! grep -q caution exact/summary.txt || fail "a caution too few or too many"

expect 0 "kept rows in sample.txt: sample=5000 asks for more" discover x.npy --k 6 --sample 5000 --out many
[ "$(sort -n many/sample.txt)" = "$(cat many/keep.txt)" ] || fail "a sample of more rows than there are"
expect 2 "expected first, central" discover x.npy --keep best --out z
expect 2 "expected first, central" discover x.npy --keep score: --out z
expect 2 "expected NAME=FIRST:END" discover x.npy --split train --out z
expect 2 "expected a range of rows" discover x.npy --split train=b.npy --out z
expect 2 "expected NAME=" discover x.npy --split '<b>=0:3' --out z
expect 2 "name or rows of an earlier split" discover x.npy --split a=0:30 --split b=29:40 --out z
expect 2 "name or rows of an earlier split" discover x.npy --split a=0:30 --split a=31:40 --out z
expect 2 "ends at row 151; there are 150 rows" discover x.npy --split a=0:151 --out z
expect 2 "do not go with --query" discover x.npy --query b.npy --stored bare --keep central --out z
expect 2 "does not go with --learned" discover x.npy --negatives 3 --learned --out z
expect 2 "EMB is needed" discover --out z
expect 1 "needs labels" discover x.npy --keep label --out z
expect 1 "2 numbers for 150 embeddings" discover x.npy --keep score:short.txt --out z
expect 1 'line 1: "one"' discover x.npy --keep score:words.txt --out z
npy2() { python3 -c 'exec(open("make.py").read().split("random.seed")[0]); npy("narrow.npy", "<f4", "(2, 3)", bytes(24))'; }
npy2
expect 1 "narrow.npy: rows of 3 numbers; those of a.npy have 12" discover --split a=a.npy --split b=narrow.npy --out z
python3 -c 'exec(open("make.py").read().split("random.seed")[0])
p = [((i * 7 + 3 * k) % 11 + 1) / 66.0 for i in range(150) for k in range(10)]
npy("p.npy", "<f4", "(150, 10)", struct.pack("<1500f", *p)); npy("p9.npy", "<f8", "(150, 9)", bytes(8 * 1350))'
expect 0 "confidently predicted to have another label" discover x.npy --k 6 --labels y.npy --pred-probs p.npy --out probs
expect 0 "confidently predicted to have another label" discover --from probs --pred-probs p.npy --out again
cmp probs/label_issues.tsv again/label_issues.tsv || fail "issues of a stored result"
grep -q '"pred_probs": true' probs/summary.json || fail "no word of probabilities in summary.json"
expect 2 "needs labels" discover x.npy --pred-probs p.npy --out z
expect 1 "has label 9, and there are probabilities of 9 labels" discover x.npy --labels y.npy --pred-probs p9.npy --out z
expect 1 "expected probabilities" discover x.npy --labels y.npy --pred-probs y.npy --out z
expect 2 "does not go with --duplicates" discover x.npy --labels y.npy --pred-probs p.npy --duplicates --out z
expect 2 "exclude each other" discover x.npy --labels y.npy --pred-probs p.npy --probe --out z
expect 2 "need the embeddings" discover --from probs --probe --out z
expect 2 "needs labels" discover x.npy --probe --out z
expect 0 "label issue" discover x.npy --k 6 --labels y.npy --probe --out probe
expect 0 "label issue" discover x.npy --from probe --probe --threads 3 --out probe_again
cmp probe/label_issues.tsv probe_again/label_issues.tsv || fail "a probe of a stored result"
expect 0 "label issue" discover x.npy --k 6 --labels y.npy --probe --resume --out probe_streamed
cmp probe/label_issues.tsv probe_streamed/label_issues.tsv || fail "a probe of streamed rows"
# The first issues are every thirteenth row, rows 8 and 149, which copy a row of another label, and row 17, which is alone.
sed -n 2,14p probe/label_issues.tsv | awk '$1 % 13 && $1 != 8 && $1 != 149 && $1 != 17' > wrong
[ ! -s wrong ] || fail "planted labels are not first"
[ ! -e z ] || fail "something was left behind"
