# glofnd discover on small embeddings: the files of a result, the same bytes for any number of threads, queries, runs, what is
# refused and how, and that nothing half-written stays behind.
. "$2/tests/sh/common.inc"
needs_tools python3
discover() { "$glofnd" discover "$@" --quiet; }
has() { grep -q "$2" "$1" || fail "$1 has no $2"; }

# Embeddings without NumPy: 60 rows of 8 numbers in 6 clusters; rows 7 and 9 are copies of 1, row 20 is zero, row 33 not a number.
cat > make.py <<'PY'
import json, struct, random
def npy(path, descr, shape, data):
    head = "{'descr': '%s', 'fortran_order': False, 'shape': %s, }" % (descr, shape)
    head += " " * ((-11 - len(head)) % 64) + "\n"
    open(path, "wb").write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode() + data)
random.seed(5)
centre = [[random.gauss(0, 1) for _ in range(8)] for _ in range(6)]
rows = [[c + 0.3 * random.gauss(0, 1) for c in centre[i % 6]] for i in range(60)]
rows = [[struct.unpack("<e", struct.pack("<e", v))[0] for v in r] for r in rows]
rows[7] = rows[9] = rows[1]
rows[20] = [0.0] * 8
rows[33][2] = float("nan")
flat = [v for r in rows for v in r]
npy("x.npy", "<f4", "(60, 8)", struct.pack("<480f", *flat))
npy("half.npy", "<f2", "(60, 8)", struct.pack("<480e", *flat))
npy("one.npy", "<f4", "(1, 8)", struct.pack("<8f", *rows[0]))
npy("two.npy", "<f4", "(2, 8)", struct.pack("<16f", *(rows[0] + rows[2])))
npy("new.npy", "<f4", "(3, 8)", struct.pack("<24f", *(rows[1] + rows[2] + [1.0] * 8)))
npy("alien.npy", "<f4", "(3, 8)", struct.pack("<24f", *([v + 1e-6 for v in rows[1]] + [2.0 * v for v in rows[2]] + [1.0] * 8)))
npy("wide.npy", "<f4", "(3, 9)", struct.pack("<27f", *range(27)))
npy("integer.npy", "<i4", "(2, 8)", struct.pack("<16i", *range(16)))
npy("flat.npy", "<f4", "(480,)", struct.pack("<480f", *flat))
npy("empty.npy", "<f4", "(0, 8)", b"")
npy("huge.npy", "<f4", "(4611686018427387904, 4611686018427387904)", b"1234")
npy("big.npy", "<f4", "(1099511627776, 8)", b"1234")
npy("short.npy", "<i2", "(60,)", struct.pack("<60h", *range(60)))
npy("float.npy", "<f4", "(60,)", struct.pack("<60f", *range(60)))
npy("nan.npy", "<f4", "(60, 8)", struct.pack("<480f", *[float("nan")] * 480))
npy("unknown.npy", "<i4", "(60,)", struct.pack("<60i", *[-1] * 60))
npy("y.npy", "<i4", "(60,)", struct.pack("<60i", *[i % 6 for i in range(60)]))
npy("y62.npy", "<i4", "(62,)", struct.pack("<62i", *[i % 6 for i in range(62)]))
npy("y59.npy", "<i4", "(59,)", struct.pack("<59i", *range(59)))
open("cut.npy", "wb").write(open("x.npy", "rb").read()[:-5])
open("names", "w").write("".join("image %d\n" % i for i in range(60)))
open("new_names", "w").write("new 0\nnew 1\nnew 2\n")
open("names59", "w").write("".join("image %d\n" % i for i in range(59)))
header = json.dumps({"emb": {"dtype": "F32", "shape": [60, 8], "data_offsets": [0, 1920]},
                     "b": {"dtype": "F32", "shape": [4], "data_offsets": [1920, 1936]}}).encode()
two = json.dumps({"a": {"dtype": "F32", "shape": [60, 4], "data_offsets": [0, 960]},
                  "b": {"dtype": "F32", "shape": [60, 4], "data_offsets": [960, 1920]}}).encode()
open("two.safetensors", "wb").write(struct.pack("<Q", len(two)) + two + struct.pack("<480f", *flat))
open("x.safetensors", "wb").write(struct.pack("<Q", len(header)) + header + struct.pack("<484f", *flat, 0, 0, 0, 0))
PY
python3 make.py || fail "embeddings"

# A result, whole: 58 usable rows; ceil(0.1 * 57) = 6, so five others of each lie above, fewer where some are equal.
expect 0 " s, search " "$glofnd" discover x.npy --out times
grep -qE "at most [1-9][0-9.]* [kM]B of memory.* the search: less than 2s" err || fail "what it takes: $(head -n 1 err)"
expect 0 "bad rows    2 left out" discover x.npy --alpha 0.1 --dup 0.9999 --labels y.npy --names names --format jsonl --out a --threads 1
for f in pairs.tsv pairs.jsonl mutual.tsv components.tsv duplicates.tsv duplicate_groups.tsv bad_rows.tsv anchors.npy \
    neighbours.npy similarities.npy summary.json summary.txt; do
    [ -f a/$f ] || fail "no $f"
done
[ "$(ls -A | grep -c tmp-)" -eq 0 ] || fail "a temporary folder is left"
has out "distinct rows of 58: 2 exact copies"
has out "duplicates  3 pairs of similarity 0.9999"
has out "labels      precision"
has a/summary.json '"rank": 6,'
python3 -c '
import struct
b = open("a/anchors.npy", "rb").read()
t = struct.unpack("<480d", b[-3840:])
bad = [any(v != v for v in t[8 * r:8 * r + 8]) + all(v != v for v in t[8 * r:8 * r + 8]) for r in range(60)]
assert bad == [2 * (r in (20, 33)) for r in range(60)], bad' || fail "NaN in anchors.npy"
has a/summary.json '"duplicate_images": 3,'
[ "$(cat a/bad_rows.tsv)" = "$(printf 'row\twhy\tname\n20\tzero\timage 20\n33\tnot finite\timage 33')" ] || fail "bad rows"
[ "$(cut -f 1-3,5-7 a/duplicates.tsv | sed -n 2p)" = "$(printf '0\t1\t7\t1\timage 1\timage 7')" ] || fail "duplicates"
listed=$(sed -n 's/.*"pairs_listed": \([0-9]*\).*/\1/p' a/summary.json)
[ "$(wc -l < a/pairs.tsv)" -eq $((listed + 1)) ] && [ "$(wc -l < a/pairs.jsonl)" -eq "$listed" ] || fail "pairs listed"
awk -F'\t' 'NR > 1 && ($3 + 0 < $4 + 0 || NF != 9) { exit 1 }' a/pairs.tsv || fail "a pair below its threshold"
python3 -c 'import json; [json.loads(l) for l in open("a/pairs.jsonl")]; json.load(open("a/summary.json"))' || fail "JSON"

# The same bytes from other threads, other memory, other types of file.
expect 0 "written" discover x.npy --alpha 0.1 --dup 0.9999 --labels y.npy --names names --format jsonl --out b --threads 3
diff -r a b > out || fail "threads change the result"
expect 0 "written" discover x.npy --alpha 0.1 --labels y.npy --names names --top 1 --out few
expect 0 "written" discover half.npy --alpha 0.1 --labels y.npy --names names --out h
cmp -s a/pairs.tsv h/pairs.tsv || fail "float16 of the same numbers"
expect 0 "written" discover x.safetensors --alpha 0.1 --labels y.npy --names names --out s
cmp -s a/pairs.tsv s/pairs.tsv || fail "safetensors"
expect 1 "no tensor 'c'; it has emb, b" discover x.safetensors --tensor c --out t
expect 0 "the 3 most similar samples of an anchor are above it" discover x.npy --k 3 --dup exact --out k
has k/summary.json '"duplicate_pairs": 3,'
expect 0 "the most similar sample of an anchor is above it, exact" discover x.npy --k 1 --out k1

# Limits are reported; an alpha that finds nothing.
expect 0 "limited from" discover x.npy --k 10 --max-pairs 50 --out cap
[ "$(wc -l < cap/pairs.tsv)" -eq 51 ] || fail "--max-pairs"
expect 0 "0 pairs (anchor, other) of 0 anchors: the threshold is the largest similarity itself" \
    discover x.npy --alpha 0.001 --out none

expect 0 "of them listed in duplicates.tsv: those among the most similar" discover x.npy --k 3 --dup -1 --out near
has out "duplicates  1653 pairs"
listed=$(sed -n 's/.*"duplicates_listed": \([0-9]*\).*/\1/p' near/summary.json)
[ "$listed" -lt 1653 ] && [ "$(wc -l < near/duplicates.tsv)" -eq $((listed + 1)) ] || fail "$listed duplicates listed"
python3 -c '
exec(open("make.py").read().split("random.seed")[0])
npy("equal.npy", "<f4", "(9, 1)", struct.pack("<9f", *range(1, 10)))'
expect 0 "0 anchors: the 3 largest similarities of every anchor are equal" discover equal.npy --k 2 --out equal
has out "components  none"

# The learner.
expect 0 "error against exact thresholds of 58 anchors: MAE 0.0" discover x.npy --alpha 0.2 --learned --epochs 60 --out l
has l/summary.json '"learned": true'

# New samples: row 0 is a copy of stored rows 1, 7 and 9, row 1 of 2.
exact() { awk -F'\t' -v OFS='\t' 'NR > 1 { print $2, $3, $5 }' "$1/duplicates.tsv"; }
expect 0 "2 of the 3 new rows are exact copies of stored ones" discover x.npy --query new.npy --stored a --out q
[ "$(exact q)" = "$(printf '0\t1\t1\n0\t7\t1\n0\t9\t1\n1\t2\t1')" ] || fail "duplicates of new samples: $(exact q)"
has q/summary.json '"rank": 6,'
has q/summary.json '"dup": 0.9999,'
has q/summary.json '"stored_copies": 2'
expect 0 "duplicates  4 pairs of equal rows" discover x.npy --query new.npy --stored a --dup exact --out qe
has out "2 of them listed in duplicates.tsv: each copy once"
[ "$(exact qe)" = "$(printf '0\t1\t1\n1\t2\t1')" ] || fail "exact copies of new samples: $(exact qe)"
expect 0 "duplicates  4 pairs of equal rows" discover x.npy --query new.npy --stored k --out qk     # as the stored one has it
expect 0 "58 of the 58 new rows are exact copies of stored ones" discover x.npy --query half.npy --stored a --out qh
[ "$(exact qh | awk '$1 == $2 && $3' | wc -l)" -eq 58 ] || fail "every row is a copy of itself"
expect 0 "0 of the 3 new rows" discover half.npy --query alien.npy --stored a --top 0 --dup 0 --out q0
has q0/summary.json '"dup": 0'
expect 0 "written" discover x.npy --query new.npy --query-names new_names --stored a --format jsonl --out qn
[ "$(head -n 1 qn/pairs.tsv | cut -f 5-)" = "$(printf 'mutual\tanchor_name')" ] || fail "names of new ones"
has qn/pairs.jsonl '"anchor_name": "new 2"}'
expect 2 "the stored result itself" discover x.npy --query new.npy --stored a --out ./a/ --force
expect 1 "is the result of a query, not of embeddings" discover x.npy --query new.npy --stored qh --out q2
expect 1 "the result of different embeddings" discover new.npy --query new.npy --stored k --out q2
expect 1 "9 dimensions, the stored ones 8" discover x.npy --query wide.npy --stored a --out q2
mkdir arun && : > arun/config.cfg
expect 1 'as `glofnd embed` makes them' discover x.npy --query arun --stored a --out q2
expect 2 "--query and --stored go together" discover x.npy --query new.npy --out q2

# What is refused.
expect 1 "exists; it is replaced only with --force" discover x.npy --out a
expect 0 "written" discover x.npy --k 2 --out a --force
has a/summary.json '"k": 2,'
mkdir other && touch other/file
echo kept > a/notes.txt
mkdir a/plots
echo kept > a/plots/plot
expect 0 "written" discover x.npy --k 2 --out a --force
[ "$(cat a/notes.txt a/plots/plot)" = "kept
kept" ] || fail "--force has removed files of the user"
mkdir foreign
echo '{}' > foreign/summary.json
echo precious > foreign/thesis.tex
expect 1 "is not a folder of results" discover x.npy --out foreign --force
[ -s foreign/thesis.tex ] && [ -s foreign/summary.json ] || fail "files of another program are removed"
(umask 077 && discover x.npy --out private > out 2> err) || fail "discover under umask 077"
[ "$(ls -ld private | cut -c1-10)" = drwx------ ] || fail "the folder does not follow the umask: $(ls -ld private)"
# Killed at any renaming there is a result, and the next call removes what the killed one left.
shim=$build/tests/hostile_shim.so
if [ -e "$shim" ]; then
    cp -r a replaced
    for n in 1 2 3 4 5; do
        LD_PRELOAD=$shim HOSTILE_DO=kill HOSTILE_AT=$n HOSTILE_UNDER=$PWD/replaced HOSTILE_ONLY=rename \
            "$glofnd" discover x.npy --k 2 --out replaced --force > out 2>&1
        [ -s replaced/summary.json ] && [ "$(cat replaced/notes.txt replaced.tmp-*/notes.txt 2> /dev/null)" = kept ] ||
            fail "killed at renaming $n: $(ls -d replaced*) $(ls replaced)"
    done
    expect 0 "written" discover x.npy --k 2 --out replaced --force
    [ "$(ls -d replaced*)" = replaced ] && [ "$(cat replaced/notes.txt)" = kept ] || fail "leftovers: $(ls -d replaced*)"
    # A file of the user that cannot be moved now: it is named, and the next call moves it.
    left=0
    for n in $(seq 60); do
        LD_PRELOAD=$shim HOSTILE_DO=EACCES HOSTILE_AT=$n HOSTILE_UNDER=$PWD/replaced HOSTILE_ONLY=rename \
            "$glofnd" discover x.npy --k 2 --out replaced --force > out 2>&1 && break
        grep -q "left in 'replaced.tmp-" out || continue
        left=$((left + 1))
        expect 0 "written" discover x.npy --k 2 --out replaced --force
        [ "$(ls -d replaced*)" = replaced ] && [ "$(cat replaced/notes.txt)" = kept ] ||
            fail "renaming $n has failed: $(ls -d replaced*)"
    done
    [ "$left" = 2 ] || fail "notes.txt and plots: $left renamings failed, expected 2"
fi
expect 1 "is not a folder of results (no summary.json of glofnd discover)" discover x.npy --out other --force
expect 1 "need at least two usable rows, found 1" discover one.npy --out z
expect 1 "k is 5; an anchor has 1 other, and --k=1 needs 2" discover two.npy --k 5 --out z
expect 1 "an empty array, 0 x 8" discover empty.npy --out z
: > nothing
expect 1 "nothing: the file is empty" discover nothing --out z
expect 1 "nothing: the file is empty; expected one name per line for 60 embeddings" discover x.npy --names nothing --out z
expect 1 "an array with 1 axis; expected two, [samples][dimensions]" discover flat.npy --out z
expect 1 'float32, float16 or float64: save x.astype("float32")' discover integer.npy --out z
expect 1 "does not fit 63 bits" discover huge.npy --out z
expect 1 "cut: the header promises" discover big.npy --out z
expect 1 "cut: the header promises" discover cut.npy --out z
expect 1 "59 names for 60 embeddings" discover x.npy --names names59 --out z
expect 1 "59 labels with 1 axis for 60" discover x.npy --labels y59.npy --out z
expect 1 "cannot be opened" discover nowhere.npy --out z
mkdir -p arun && : > arun/config.cfg
expect 1 "arun is not the folder of a run: it names no data" discover arun --out z
mkdir bare && : > bare/x.txt
expect 1 "has no .npy, .parquet, .safetensors, .csv or .tsv file" discover bare --out z
grep -qF "for files in its folders give a pattern: 'bare/*/*.parquet'" err || fail "no pattern: $(cat err)"
printf 'PK\003\004 something of np.savez' > x.npz
expect 1 'np.load(FILE)["NAME"]' discover x.npz --out z
expect 2 "expected a number in [0.001, 1000000], of GB" discover x.npy --memory 1MB --out z
for words in "--dup 2" "--keep best" "--format json" "--split a=0:9 --split a=9:12" "--alpha 0.1 --k 2"; do # one line each
    expect 2 "; --help explains" discover x.npy $words --out z
    [ "$(wc -l < err)" = 1 ] || fail "$words: more than a message: $(cat err)"
done
expect 0 "are exact copies of other rows: is a file given twice?" discover x.npy x.npy --k 3 --out twice
grep -q "tell too little apart" out && fail "a caution for the wrong reason: $(cat out)"
expect 0 "issues      " discover two.npy x.npy --labels y62.npy --k 2 --out words
grep -qE "(^| )1 (pairs|rows|groups|anchors|label issues)|images|suspects" words/summary.txt && fail "words: $(cat out)"
expect 2 "can be at most 56" discover x.npy --k 57 --out z
expect 2 "can be at most 58" discover x.npy --k 1000 --out z
expect 2 "an anchor has 57 others, so k can be at most 55" discover x.npy --k 56 --learned --out z
expect 2 "an anchor has 58 others, so k can be at most 57" discover x.npy --query new.npy --stored a --k 58 --out z
expect 1 "cannot create a folder next to" discover x.npy --out no/where
expect 1 "cannot create a folder next to" discover nowhere.npy --out no/where      # before anything is read
expect 2 "cpu|cuda" discover x.npy --device gpu --out z
expect 1 "'<i2' is not supported; save" discover x.npy --labels short.npy --out z
expect 1 'expected int32, int64 or uint8: save y.astype("int64")' discover x.npy --labels float.npy --out z
expect 1 "choose one with --tensor=NAME: a, b" discover two.safetensors --out z
expect 1 "need at least two usable rows, found 0 (rows of zeros and rows with nan or inf are skipped)" discover nan.npy --out z
expect 0 "written" discover x.npy --k 3 --labels unknown.npy --out unknown
grep -q precision out && fail "precision without a known label"
expect 2 "exclude each other" discover x.npy --k 3 --alpha 0.1 --out z
expect 2 "expected a number in" discover x.npy --alpha 2 --out z
expect 2 "--out is needed" discover x.npy
expect 2 "--html-mb goes with --html" discover x.npy --html-mb 3 --out z
expect 2 "--batch and --epochs go with --learned" discover x.npy --batch 3 --out z
expect 2 "--help explains" discover --out z
[ ! -e z ] && [ "$(ls -A | grep -c tmp-)" -eq 0 ] || fail "something was left behind"

# A run and its images; rows are positions in the dataset.
data=shapes:n=48,classes=4,size=16,seed=3
if "$glofnd" info | grep -q 'oneDNN yes'; then
    train run --epochs 1
    expect 0 "embeddings  48 x " discover run --data $data --k 4 --out r
    has r/pairs.tsv "anchor_name.*anchor_label"
    has out "labels      precision"
    expect 0 "embeddings  48 x 8 from run" discover run --data $data --k 4 --head --out r --force

    # The encoder goes where --device says; else where the run was trained, or on the CPU, and says so.
    sed -i 's/^device = .*/device = cuda/' run/config.cfg
    without_gpu() { env CUDA_VISIBLE_DEVICES= "$glofnd" discover run --data $data --k 4 --head --quiet "$@"; }
    expect 0 "glofnd discover: the run was trained on cuda, which cannot be used here (" without_gpu --out moved
    expect 0 "written" without_gpu --device cpu --threads 1 --out asked
    grep -q "trained on" err && fail "the CPU was asked for"
    diff -r r moved > out && diff -r r asked > out || fail "the encoder's device or threads change the result"
    expect 1 "use --device" without_gpu --device cuda --out z
fi

# Ctrl-C in the middle of the work leaves nothing.
python3 -c '
import struct, random
exec(open("make.py").read().split("random.seed")[0])
n, dim = 30000, 64
random.seed(1)
base = [random.gauss(0, 1) for _ in range(n + dim)]
npy("long.npy", "<f4", "(%d, %d)" % (n, dim), b"".join(struct.pack("<64f", *base[i:i + dim]) for i in range(n)))'
expect 1 "--memory allows" discover long.npy --memory 0.01 --out z
"$glofnd" discover long.npy --alpha 0.3 --memory 0.1 --threads 1 --out stopped > out 2> err &
child=$!
until grep -q "MB of memory" err || ! kill -0 $child; do sleep 0.1; done       # now it listens, and has seconds of work ahead
kill -INT $child
wait $child
code=$?
[ $code -eq 1 ] && grep -q "stopped; nothing is written" err || fail "exit code $code after an interrupt"
grep -qE "the search: about [0-9hms]+$" err || fail "no time was expected: $(cat err)"
[ ! -e stopped ] && [ "$(ls -A | grep -c tmp-)" -eq 0 ] || fail "an interrupt left something behind"

# A call that waits for a file is named in the log of progress, and ends at the first signal.
mkfifo endless.csv
timeout -k 5 120 "$glofnd" discover x.npy --names endless.csv --out stopped > out 2> err &
child=$!
until grep -q "reading: 0.0 %" err || ! kill -0 $child; do sleep 0.1; done
kill -INT $child
wait $child
code=$?
[ $code -eq 1 ] && grep -q "stopped; nothing is written" err || fail "exit code $code of a call that waited for a file: $(cat err)"
[ ! -e stopped ] && [ "$(ls -A | grep -c tmp-)" -eq 0 ] || fail "an interrupt of a waiting call left something behind"
