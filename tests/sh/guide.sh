# Detectors fixed and fixed-mutual in training: a guide of labels is the oracle; the output of discover as a guide; resume to the bit;
# refusals.
. "$2/tests/sh/common.inc"
needs_runs
needs_tools python3
export PYTHONPATH="$source/tests/sh" PYTHONDONTWRITEBYTECODE=1 # npy_file.py
data=shapes:n=192,classes=4,size=16,seed=3
flags="--data $data --arch resnet8 --batch 32 --head-hidden 32 --head-out 8 --epochs 4 --start-epoch 1 --log-steps 1 --threads 1"
small() { call "$glofnd" pretrain $flags "$@"; }
values() { grep '"event": "epoch"' "$1/log.jsonl" | sed "s/.*\"$2\": \([^,}]*\).*/\1/" | tr '\n' ' '; }
same_run() {
    cmp "$1/model.safetensors" "$2/model.safetensors" || fail "$3: other weights"
    [ "$(values "$1" loss)" = "$(values "$2" loss)" ] || fail "$3: other losses"
}
cat > make.py <<'END'
import random, struct
from npy_file import npy
def write(path, rows, kind="f"):
    wide = isinstance(rows[0], list)
    flat = [x for row in rows for x in row] if wide else rows
    npy(path, {"f": "<f4", "d": "<f8", "i": "<i4"}[kind], (len(rows), len(rows[0])) if wide else (len(rows),), struct.pack(f"<{len(flat)}{kind}", *flat))
n, nan = 192, float("nan")
hot = [[5.0 * (i % 4 == c) for c in range(4)] for i in range(n)] # labels of shapes are i mod classes
write("hot.npy", hot)
write("hot64.npy", hot, "d")
write("half.npy", [0.5] * n)
write("never.npy", [nan] * n)
random.seed(1)
write("found.npy", [[random.gauss(0, 1) for _ in range(6)] for _ in range(n)])
write("ints.npy", [1] * n, "i")
write("short.npy", hot[:100])
write("short_half.npy", [0.5] * 100)
write("zero.npy", hot[:7] + [[0.0] * 4] + hot[8:])
write("nan.npy", hot[:9] + [[nan] * 4] + hot[10:])
write("endless.npy", [0.5] * 3 + [float("inf")] + [0.5] * (n - 4))
END
python3 make.py || fail "arrays"

# ----- labels as a guide: samples of one label have similarity 1, others 0 -----
small --detector oracle --out oracle
wants "oracle" 0
small --detector fixed --guide hot.npy --guide-thresholds half.npy --out fixed
wants "a guide of labels" 0 "flags: expected from epoch 2 of 4 on"
same_run oracle fixed "labels as a guide"
right=$(values fixed pooled_precision)
[ "$right" = "null 1.0 1.0 1.0 " ] || fail "flags of a guide of labels are right: $right"
small --detector fixed-mutual --guide hot64.npy --guide-thresholds half.npy --out mutual
wants "float64, both sides" 0
same_run oracle mutual "labels as a guide of both sides"
small --detector none --out none
small --detector fixed --guide hot.npy --guide-thresholds never.npy --out never
wants "thresholds of NaN" 0
same_run none never "thresholds of NaN flag nothing"
[ "$(values none loss | cut -d' ' -f1)" = "$(values fixed loss | cut -d' ' -f1)" ] || fail "the guide before the start"
[ "$(values none loss | cut -d' ' -f2)" != "$(values fixed loss | cut -d' ' -f2)" ] || fail "the guide after the start"

# ----- what discover writes -----
call "$glofnd" discover found.npy --alpha 0.1 --out found
wants "discover" 0
guided="--detector fixed --guide found.npy --guide-thresholds found/anchors.npy --checkpoint-steps 1"
small $guided --out whole
wants "a guide by discover" 0
set -- $(values whole flagged)
awk "BEGIN { exit !($1 == 0 && $2 > 0.07 && $2 < 0.13 && $4 > 0.07 && $4 < 0.13) }" || fail "a tenth is flagged: $*"
"$glofnd" pretrain $flags $guided --out killed 2> err &
process=$!
while kill -0 $process 2> /dev/null; do
    at=$(newest killed)
    [ "${at#step-}" -ge 9 ] 2> /dev/null && break
    sleep 0.01
done
kill -9 $process 2> /dev/null
wait $process 2> /dev/null
call "$glofnd" pretrain --out killed --resume --quiet
wants "resume" 0
equal whole killed "killed and resumed"

# ----- refusals, before anything is made -----
refuse() { # CODE TEXT FLAGS...
    refused_code=$1 refused_text=$2
    shift 2
    small "$@" --out wrong
    wants "$*" "$refused_code" "$refused_text"
    [ ! -e wrong ] || fail "$*: a refused run left a folder"
}
refuse 2 "fixed needs a guide" --detector fixed
refuse 2 "fixed-mutual needs a guide" --detector fixed-mutual --guide hot.npy
refuse 2 "guide: it is for detector = fixed" --guide hot.npy
refuse 2 "guide_thresholds: it is for detector = fixed" --guide-thresholds half.npy
refuse 1 "missing.npy" --detector fixed --guide missing.npy --guide-thresholds half.npy
refuse 1 "missing.npy" --detector fixed --guide hot.npy --guide-thresholds missing.npy
refuse 2 "guide: short.npy has 100 rows, and the data has 192 samples" --detector fixed --guide short.npy --guide-thresholds half.npy
refuse 2 "short_half.npy has 100 rows" --detector fixed --guide hot.npy --guide-thresholds short_half.npy
refuse 1 "guide: half.npy is of rank 1" --detector fixed --guide half.npy --guide-thresholds half.npy
refuse 1 "guide_thresholds: hot.npy is of rank 2" --detector fixed --guide hot.npy --guide-thresholds hot.npy
refuse 1 "ints.npy has int32" --detector fixed --guide hot.npy --guide-thresholds ints.npy
refuse 1 "row 7 is zero" --detector fixed --guide zero.npy --guide-thresholds half.npy
refuse 1 "row 9 is not finite" --detector fixed --guide nan.npy --guide-thresholds half.npy
refuse 1 "sample 3 is infinite" --detector fixed --guide hot.npy --guide-thresholds endless.npy
exit 0
