# glofnd eval knn, linear, fn and threshold on embeddings in files: the figures of the run that made them.
. "$2/tests/sh/common.inc"
needs_runs
data=shapes:n=200,classes=4,size=16,seed=3 test=shapes:n=80,classes=4,size=16,seed=4
train run --epochs 3 --start-epoch 1

embed() { call "$glofnd" embed run --quiet "$@"; wants "embed $*" 0; }
embed --data $data --out a.npy --labels la.npy
embed --data $test --out t.npy --labels lt.npy
embed --data $data --head --out h.npy --labels lh.npy
file() { what=$1; shift; call "$glofnd" eval $what "$@" --quiet; wants "eval $what $*" 0; cp out file; }
of_run() { what=$1; shift; call "$glofnd" eval $what run "$@" --quiet; wants "eval $what run $*" 0; cp out run.out; }

# The same rows and labels give the same numbers.
file knn a.npy --labels la.npy --test t.npy --test-labels lt.npy --k 7
of_run knn --data $data --test $test --k 7
[ "$(grep top-1 file)" = "$(grep top-1 run.out)" ] || fail "knn: $(cat file run.out)"
file linear a.npy --labels la.npy --test t.npy --test-labels lt.npy --fractions 100,20 --epochs 5
of_run linear --data $data --test $test --fractions 100,20 --epochs 5
[ "$(grep '^ .*%' file)" = "$(grep '^ .*%' run.out)" ] || fail "linear: $(cat file run.out)"
file fn h.npy --labels lh.npy --alpha 0.1
of_run fn --alpha 0.1
figures() { grep 'all pairs' "$1" | grep "$2 " | sed 's/.*all pairs *[a-z]* *//' | tr -s ' '; }
for detector in exact single; do
    [ -n "$(figures file $detector)" ] && [ "$(figures file $detector)" = "$(figures run.out $detector)" ] ||
        fail "fn, $detector: $(cat file run.out)"
done
grep -q 'in batches .*fnc' file || fail "no row of FNC"
grep -q '^rows.*glofnd' file && fail "thresholds that were not given"
file threshold h.npy --alpha 0.1 --fnc-batch 32 --out found
of_run threshold --plain --alpha 0.1 --fnc-batch 32
optimum() { grep '^optimum  *[0-9]' "$1" | tr -s ' '; }
[ -n "$(optimum file)" ] && [ "$(optimum file)" = "$(optimum run.out)" ] || fail "threshold: $(cat file run.out)"
cut -f1,4 found/thresholds.tsv > a && cut -f1,4 run/thresholds.tsv > b && cmp a b || fail "optimal thresholds"

# Nothing is written where no folder is named, and every call repeats itself.
[ "$(ls | grep -c jsonl)" -eq 0 ] || fail "a record without a run"
file knn a.npy --labels la.npy && cp file first
grep -q 'held out of it, 20 %' file || fail "no held-out rows"
file knn a.npy --labels la.npy --threads 1
cmp -s file first || fail "threads change the result"

# What does not fit.
refused() { call "$glofnd" eval "$@"; [ "$code" != 0 ] || fail "accepted: $*"; }
refused knn a.npy;                                          wants 'no labels' 2 '--labels is missing'
refused fn a.npy;                                           wants 'fn without labels' 2 '--labels is missing'
refused knn a.npy --labels lt.npy;                          wants 'labels of others' 1 'lt.npy'
refused knn a.npy --labels la.npy --test t.npy;             wants 'test rows without labels' 2 '--test-labels'
refused knn a.npy --labels la.npy --test h.npy --test-labels lh.npy;    wants 'another model' 1 'numbers per row'
refused knn a.npy --labels la.npy --data $data;             wants 'data and a file' 2 '--data goes with a run'
refused knn a.npy --labels la.npy --untrained;              wants 'an untrained file' 2 '--untrained goes with a run'
refused knn a.npy --labels la.npy --device cpu;             wants 'a device for a file' 2 '--device goes with'
refused knn run --labels la.npy;                            wants 'labels of a run' 2 '--labels goes with a file'
refused knn nowhere.npy --labels la.npy;                    wants 'no such file' 2 'nowhere.npy does not exist'
refused knn nowhere --data $data;                           wants 'neither file nor folder' 1 nowhere
refused linear a.npy --labels la.npy --augment 2;           wants 'views of a file' 2 '--augment needs images'
refused fn a.npy --labels la.npy --detector glofnd;         wants 'no thresholds' 1 '--thresholds'
refused fn h.npy --labels lh.npy --thresholds lt.npy;       wants 'thresholds of another type' 1 'float32'
printf 'not numpy' > bad.npy
refused knn bad.npy --labels la.npy;                        wants 'not an array' 1 'bad.npy'
command -v python3 > /dev/null || exit 0
python3 - <<'PY'
import ast, struct
def load(path):
    raw = open(path, "rb").read()
    end = 10 + struct.unpack("<H", raw[8:10])[0]
    head = ast.literal_eval(raw[10:end].decode())
    size = int(head["descr"][2])
    kind = "d" if size == 8 else head["descr"][1]
    return head["shape"], list(struct.unpack("<%d%s" % ((len(raw) - end) // size, kind), raw[end:]))
def save(path, kind, shape, x):
    head = ("{'descr': '<%s4', 'fortran_order': False, 'shape': %r, }" % (kind, tuple(shape))).ljust(117) + "\n"
    data = struct.pack("<%d%s" % (len(x), kind), *x)
    open(path, "wb").write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode() + data)
shape, x = load("h.npy")
save("large.npy", "i", [200], [2**31 - 1] * 200)
thresholds = [float("nan")] * shape[0]
_, t = load("found/thresholds.npy")     # sample, label, lambda, optimum, ...
for i in range(0, len(t), 6):
    thresholds[int(t[i])] = t[i + 3]
save("lam.npy", "f", [shape[0]], thresholds)
x[3 * shape[1] + 2] = float("nan")
save("nan.npy", "f", shape, x)
shape, y = load("la.npy")
save("none.npy", "i", shape, [-1] * len(y))
shape, y = load("lt.npy")
save("new.npy", "i", shape, [77] + y[1:])
PY
refused knn a.npy --labels large.npy;                       wants 'large labels' 1 'label 2147483647 of row 0'
# Optimal thresholds as learned ones: no error, and the flags of `exact`.
file threshold h.npy --alpha 0.1 --thresholds lam.npy
grep -q '^learned .* 0\.0000  *0\.0000' file || fail "error of optimal thresholds: $(cat file)"
file fn h.npy --labels lh.npy --alpha 0.1 --thresholds lam.npy
[ -n "$(figures file glofnd)" ] && [ "$(figures file exact)" = "$(figures file glofnd)" ] || fail "given thresholds: $(cat file)"
refused knn nan.npy --labels lh.npy;                        wants 'a row that is not finite' 1 'row 3 is not finite'
refused knn a.npy --labels none.npy;                        wants 'no label at all' 1 'no row has a label'
refused knn a.npy --labels la.npy --test t.npy --test-labels new.npy;   wants 'an unknown class' 1 'class 77'
exit 0
