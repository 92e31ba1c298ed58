# glofnd eval transfer on published datasets as they are unpacked: tiny mock-ups of their layouts. The right classes or none: a
# folder that is not what its name says is refused, and a doubtful result stays out of the average.
. "$2/tests/sh/common.inc"
needs_runs
needs 'png yes'
data=shapes:n=60,classes=3,size=16,seed=3
train run --epochs 1 --start-epoch 0
"$glofnd" eval transfer run shapes:n=40,classes=2,size=16,seed=4 > out 2> err
grep -q "no L-BFGS" err && skip "no liblbfgs"

"$glofnd" data export shapes:n=120,classes=3,size=16,seed=5 --folder --out all > out 2> err || fail "export"
list() { (cd all && find . -name '*.png' | sort | sed 's:^\./::'); }

# Oxford-IIIT Pet: images and lists. As a folder of folders it has one class and would score 100 %.
mkdir -p pets/images pets/annotations
list | while read -r name; do
    class=${name%%/*} file=${name##*/}
    label=$((${class%%[!0-9]*} + 1))
    cp "all/$name" "pets/images/breed_${label}_${file%.png}.jpg"
    echo "breed_${label}_${file%.png} $label 1 1"
done > every
awk 'NR % 3' every > pets/annotations/trainval.txt
awk 'NR % 3 == 0' every > pets/annotations/test.txt
expect 1 "has 3 classes and 80 images in split trainval; Oxford-IIIT Pet has 37 classes and 3680 images" \
    "$glofnd" eval transfer run pets=pets
for spec in pets=pets pets=folder:pets pets:pets; do expect 1 "?counts=any" "$glofnd" eval transfer run $spec; done
expect 0 "Pets *             80       40       3  mean per class" "$glofnd" eval transfer run "pets=pets?counts=any"
wants "a subset" 0 "test on    pets:pets?split=test&counts=any" "WARNING: Pets: it has 80 training and 40 test images"
expect 1 "all has 3 classes, Oxford-IIIT Pet has 37; the unpacked download is read by pets=DIR" \
    "$glofnd" eval transfer run pets=folder:all

# Results that cannot be stored are printed all the same, those of every dataset.
mkdir full && cp -r run/config.cfg run/model.safetensors run/checkpoints full && mkdir full/eval.jsonl
sets='a=shapes:n=80,classes=3,size=16,seed=2 b=shapes:n=90,classes=3,size=16,seed=9'
expect 1 "the result is printed, but not stored: 'full/eval.jsonl' cannot be opened" "$glofnd" eval transfer full $sets
"$glofnd" eval transfer run $sets 2> err | cmp - out || fail "transfer: other results"
sed -i '/"names": \["a", "b"\]/d' run/eval.jsonl
for verb in knn linear; do
    expect 1 "the result is printed, but not stored" "$glofnd" eval $verb full
    "$glofnd" eval $verb run 2> err | cmp - out || fail "$verb: other results"
done

# A file for TensorBoard that cannot be written: eval.jsonl has the result, and the message says so.
rmdir full/eval.jsonl && : > full/eval
expect 1 "the result is printed, and eval.jsonl has it, but TensorBoard's charts lack it: 'full/eval/" "$glofnd" eval knn full
grep -q '"event": "knn"' full/eval.jsonl || fail "charts that cannot be written: no record"

# The average is over sound results alone.
expect 0 "* not in the average, which is over 2 of 3 datasets" "$glofnd" eval transfer run "pets:pets?counts=any" \
    a=shapes:n=80,classes=3,size=16,seed=2 b=shapes:n=90,classes=3,size=16,seed=9
tail -n 1 run/eval.jsonl | grep -q '"names": \["a", "b"\]' || fail "a doubtful result in the mean"
mkdir -p one/only && cp all/*/*.png one/only/
expect 0 "WARNING: one: it has 1 class" "$glofnd" eval transfer run one=folder:one a=shapes:n=80,classes=3,size=16,seed=2
[ "$(grep -c transfer_mean run/eval.jsonl)" -eq 1 ] || fail "a mean over one sound result"
data=folder:all train own --epochs 1 --start-epoch 0
expect 0 "held-out part of the images that the encoder was trained on" "$glofnd" eval transfer own x=folder:all

# Such a SPEC serves everywhere, and brings its test split.
data="pets:pets?counts=any" train bred --epochs 1 --start-epoch 0
expect 0 "test      40 samples of pets:pets?split=test&counts=any" "$glofnd" eval knn bred
expect 0 "80 samples written" "$glofnd" data export "pets:pets?counts=any" --out exported
expect 0 "80 x " "$glofnd" embed bred --data "pets:pets?counts=any" --out e.npy

# data info says what was recognised.
expect 0 "dataset    Oxford-IIIT Pet, scored by mean per class" "$glofnd" data info "pets:pets?counts=any"
wants "data info" 0 "split      trainval  80 images of 3 classes, NOT as published" "split      test      40 images"

# Held-out images of training are no test set, and every evaluation says which one it used.
expect 0 "WARNING: the encoder was trained on the test images" "$glofnd" eval knn own
wants "knn" 0 "held out of it"
expect 0 "UNTRAINED" "$glofnd" eval knn own --untrained
grep -q WARNING err && fail "a warning about weights that were not trained: $(cat err)"
expect 0 "of folder:all" "$glofnd" eval knn run --data folder:all
grep -q WARNING err && fail "a warning about other data"
echo "eval transfer: ok"
