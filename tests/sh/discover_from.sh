# glofnd discover --from: the bytes of a new search with these settings, or a message that says what the stored neighbours answer.
. "$2/tests/sh/common.inc"
needs_tools python3
export PYTHONPATH="$2/tests/sh" PYTHONDONTWRITEBYTECODE=1     # npy_file.py
discover() { "$glofnd" discover "$@" --quiet; }

cat > make.py <<'PY'
import random, struct
from npy_file import npy
random.seed(3)
N, DIM = 200, 10
centre = [[random.gauss(0, 1) for _ in range(DIM)] for _ in range(12)]
rows = [[c + (0.03 if i % 3 else 0.4) * random.gauss(0, 1) for c in centre[i % 12]] for i in range(N)]
rows[150] = rows[199] = rows[4]
rows[20] = [0.0] * DIM
rows[33][2] = float("inf")
flat = [v for r in rows for v in r]
npy("x.npy", "<f4", "(%d, %d)" % (N, DIM), struct.pack("<%df" % len(flat), *flat))
npy("other.npy", "<f4", "(%d, %d)" % (N, DIM), struct.pack("<%df" % len(flat), *([1.0] + flat[1:])))
npy("y.npy", "<i4", "(%d,)" % N, struct.pack("<%di" % N, *[(i % 12 if i % 7 else 3) if i % 31 else -1 for i in range(N)]))
npy("z.npy", "<i4", "(%d,)" % N, struct.pack("<%di" % N, *[i % 5 for i in range(N)]))
open("names", "w").write("".join("image %d\n" % i for i in range(N)))
open("other_names", "w").write("".join("picture %d\n" % i for i in range(N)))
PY
python3 make.py || fail "embeddings"

# same FLAGS...: stored and new give equal folders with these flags; $new are those that only a new search needs, and $emb is EMB
# or nothing
same() {
    rm -rf again fresh
    expect 0 written discover $emb --from stored "$@" --out again
    expect 0 written discover x.npy $new "$@" --out fresh
    diff -r again fresh > out 2>&1 || fail "--from is not a new search: $*"
}
base='--k 6 --top 30 --dup 0.999 --labels y.npy --names names'
emb=
expect 0 written discover x.npy $base --out stored
new="--top 30 --labels y.npy --names names"
for dup in 0.999 0.99 0.97 1 exact; do new="$new --k 6" same --dup $dup; done
new="--top 30 --labels y.npy --names names --dup 0.999"
for rank in '--k 1' '--k 29' '--alpha 0.1' '--alpha 0.003'; do same $rank; done
emb=x.npy      # rows with more duplicates than lists hold are compared again
same --k 4 --top 8 --max-pairs 100 --negatives 7 --graph --outliers 5
same --k 4 --top 0
emb=
same --k 6 --split train=0:120 --split test=120:200 --keep label
same --k 6 --html
emb=x.npy
same --k 3 --keep central --sample 11 --split b=100:200
emb=
new="--top 30 --dup 0.999 --names names --k 6" same --labels z.npy
new="--top 30 --dup 0.999 --labels y.npy --k 6" same --names other_names

# What lists do not hold, the stored result may: its own rank and its own duplicates.
emb=x.npy
expect 0 written discover x.npy --alpha 0.2 --top 5 --dup 0.9 --labels y.npy --out stored --force
new="--top 5 --labels y.npy --alpha 0.2" same --dup 0.9
new="--top 5 --labels y.npy --alpha 0.2" same --dup exact
new="--top 5 --labels y.npy --dup 0.9" same --k 4
expect 0 written discover x.npy --alpha 0.2 --top 0 --out bare
rm -rf fresh
expect 0 written discover x.npy --alpha 0.2 --top 0 --dup exact --out fresh
expect 0 written discover --from bare --dup exact --out again2
diff -r again2 fresh > out || fail "without neighbours"

# Splits of a result stay its splits.
expect 0 written discover x.npy --k 6 --split train=0:120 --split test=120:200 --out parts
expect 0 written discover --from parts --dup 0.99 --out parts_again
expect 0 written discover x.npy --k 6 --dup 0.99 --split train=0:120 --split test=120:200 --out parts_fresh
diff -r parts_again parts_fresh > out || fail "splits of the stored result"

# A result of duplicates alone answers higher limits: the files of a new search. Only the counts of what the search compared
# differ, in the summary.
expect 0 written discover x.npy --duplicates --dup 0.97 --labels y.npy --names names --out only
for dup in 0.97 0.99 0.999 1 exact; do
    rm -rf again fresh
    expect 0 written discover --from only --dup $dup --keep label --split train=0:120 --split test=120:200 --out again
    expect 0 written discover x.npy --duplicates --dup $dup --labels y.npy --names names --keep label --split train=0:120 \
        --split test=120:200 --out fresh
    diff -r -x 'summary.*' again fresh > out || fail "duplicates alone: --from --dup $dup is not a new search"
    for at in again fresh; do grep -v '^cells\|^compared' $at/summary.txt > $at.txt; done
    diff again.txt fresh.txt > out || fail "duplicates alone: the summary of --dup $dup"
done
rm -rf again twice
expect 0 written discover --from only --dup 0.98 --out again
expect 0 written discover --from again --dup 0.99 --out twice
expect 1 "only duplicates of similarity 0.97 or more: use --dup=0.97 or more" discover --from only --dup 0.9 --out z
expect 1 "it takes a higher --dup or exact" discover --from only --k 3 --out z
expect 1 "it takes a higher --dup or exact" discover --from only --html --out z
expect 0 written discover x.npy --duplicates --dup exact --out copies
expect 0 written discover --from copies --keep label --labels y.npy --out copies_again
expect 1 "only exact duplicates; --dup=0.99 needs a new search" discover --from copies --dup 0.99 --out z
expect 0 written discover x.npy --duplicates --dup 0.9 --top 2 --out few
expect 1 "search again with --top=3 or more" discover --from few --dup 0.95 --out z
expect 0 written discover x.npy --approx 2 --k 3 --out approx
expect 1 "Search again: with approx; or for duplicates alone with" discover --from approx --dup 0.999 --out z

# A copy of a result answers as it does; and what neighbours do not answer is said.
expect 1 "lists 5 neighbours of each row; a threshold of rank 7 needs as many: use --k=4 or less" \
    discover --from stored --k 6 --out z
expect 1 "are all of similarity" discover --from stored --dup 0.5 --out z
limit=$(sed -n 's/.*use --dup=\([0-9.]*\) or more,.*/\1/p' err)
[ -n "$limit" ] || fail "no similarity is named"
expect 0 written discover --from stored --dup $limit --out z
rm -r z
expect 1 "are all of similarity" discover --from stored --dup $(python3 -c "print($limit - 1e-6)") --out z
expect 1 "lists 5 neighbours of each row; --top=6 needs a new search" discover --from stored --top 6 --out z
expect 1 "search again with --top=7" discover --from stored --k 4 --negatives 3 --out z
expect 1 "new labels need the pairs above" discover --from stored --labels z.npy --out z
expect 1 "is the result of other embeddings" discover other.npy --from stored --keep central --out z
expect 2 "need the embeddings: glofnd discover EMB --from DIR" discover --from stored --keep central --out z
expect 2 "need the embeddings: glofnd discover EMB --from DIR" discover --from stored --sample 3 --out z
expect 2 "the stored result itself" discover --from stored --out stored --force
expect 2 "does not go with" discover --from stored --learned --out z
expect 0 written discover x.npy --query x.npy --stored stored --out query
expect 1 "is the result of a query" discover --from query --out z
expect 0 written discover x.npy --k 5 --learned --epochs 1 --batch 16 --out learned
expect 1 "are learned ones" discover --from learned --out z
expect 1 "" discover --from nowhere --out z

# Files that are not a result's: each is refused, none is obeyed.
cat > damage.py <<'PY'
import random, shutil, subprocess, sys, os
random.seed(1)
files = ["rows.npy", "neighbours.npy", "similarities.npy", "anchors.npy", "summary.json", "split_matrix.tsv"]
for trial in range(60):
    shutil.rmtree("damaged", ignore_errors=True)
    shutil.rmtree("z", ignore_errors=True)
    whole = ("parts", "only")[trial // len(files) % 2]
    shutil.copytree(whole, "damaged")
    if not os.path.exists("damaged/" + files[trial % len(files)]): continue
    name = files[trial % len(files)]
    data = bytearray(open("damaged/" + name, "rb").read())
    for _ in range(random.choice((1, 4, 40))):
        data[random.randrange(0 if trial % 4 else len(data) // 2, len(data))] = random.choice((0, 255, 127, 9, 65))
    if trial % 7 == 0: data = data[:random.randrange(len(data))]
    open("damaged/" + name, "wb").write(data)
    for flags in (["--dup", "0.9", "--k", "3"], ["--dup", "0.99"], []):
        code = subprocess.run([sys.argv[1], "discover", "--from", "damaged", *flags, "--out", "z", "--force", "--quiet"],
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode
        assert code in (0, 1, 2), (trial, name, code)
PY
python3 damage.py "$glofnd" || fail "a damaged result"
