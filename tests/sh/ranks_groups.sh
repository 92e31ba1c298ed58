# Groups of samples and the other methods on two ranks: the losses of one.
. "$2/tests/sh/ranks.inc"
needs_tools python3
awk 'BEGIN { for (i = 0; i < 128; i++) print i % 5 - 1 }' > ids.txt
sed '$s/.*/7/' ids.txt > odd.txt
both() { # NAME FLAGS...
    name=$1
    shift
    call ranks 1 $images --epochs 8 --quiet "$@" --out "$name-1"
    wants "$name, one rank" 0
    call ranks 2 $images --epochs 8 --quiet "$@" --out "$name-2"
    wants "$name, two ranks" 0
    close "$name-1" "$name-2" "$name" || fail "$name: two ranks differ from one"
}
both file --detector groups --groups ids.txt
both kmeans --detector groups --groups kmeans --kmeans-groups 3,9 --kmeans-epochs 3
[ -e kmeans-2/checkpoints/step-64/groups.npy ] || fail "no groups in a checkpoint of two ranks"
PYTHONDONTWRITEBYTECODE=1 PYTHONPATH="$source/tests/sh" python3 -c '
import random, struct
from npy_file import npy
random.seed(1)
npy("guide.npy", "<f4", (128, 3), struct.pack("<384f", *(random.gauss(0, 1) for _ in range(384))))
npy("at.npy", "<f4", (128,), struct.pack("<128f", *(0.01 * i for i in range(128))))
npy("odd.npy", "<f4", (128,), struct.pack("<128f", *(0.5 for i in range(128))))' || fail "arrays"
# A small lr, as for simclr below.
both fixed --lr 1e-5 --detector fixed --guide guide.npy --guide-thresholds at.npy
both fixed-mutual --lr 1e-5 --detector fixed-mutual --guide guide.npy --guide-thresholds at.npy
# A small lr for simclr, whose gradients are 20 times those of sogclr: else roundings of the weights grow.
both wcl --loss simclr --detector components --action attract --attract-omega 1 --lr 1e-6
both temperatures --loss isogclr-views
both support --detector fnc --fnc-rule topk --fnc-support 3 --alpha 0.02
export ODD="--groups odd.txt"
call ranks 2 $images --epochs 2 --detector groups --groups ids.txt --out wrong
wants "another file on one rank" 1 "value of 'groups'"
ODD="--guide-thresholds odd.npy"
call ranks 2 $images --epochs 2 --detector fixed --guide guide.npy --guide-thresholds at.npy --out wrong
wants "other thresholds on one rank" 1 "value of 'guide_thresholds'"
exit 0
