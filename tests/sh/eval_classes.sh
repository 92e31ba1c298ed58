# Classes of test samples are those of training, by name: eval knn, linear and transfer with a test set that lacks a class, and
# with what `data export` wrote.
. "$2/tests/sh/common.inc"
needs_runs
needs 'png yes'
data=shapes:n=40,classes=4,size=16,seed=3
train run --epochs 1 --start-epoch 0

# ----- a test set without one class -----

expect 0 "40 samples written" "$glofnd" data export $data --out named --folder
mkdir -p sets/train sets/test whole
for name in a b c d; do
    for class in named/0*; do break; done
    mv "$class" sets/train/$name
done
cp -r sets/train/a sets/train/b sets/train/d sets/test
cp -r sets/test/. whole && mkdir whole/c

expect 0 "30 samples of folder:sets?split=test" "$glofnd" eval knn run --data folder:sets --k 1
grep -q "^top-1  *100.00 %" out || fail "every test sample is a training sample"

# same COMMAND...: it says the same as where an empty folder stands for the class
same() {
    "$glofnd" "$@" --test folder:sets/test > few 2> err || fail "$*: without a class"
    "$glofnd" "$@" --test folder:whole > all 2> err || fail "$*: with all"
    sed -i -e 's/folder:sets.test/TEST/' -e 's/folder:whole/TEST/' -e 's/ [0-9.]* s / /' few all
    cmp -s few all || fail "$*: a missing class changes figures: $(diff few all)"
}
same eval knn run --data folder:sets
same eval linear run --data folder:sets --fractions 100 --epochs 2
"$glofnd" eval transfer run folder:sets > out 2> err
grep -q "no L-BFGS" err || same eval transfer run s=folder:sets

mv sets/test/d sets/test/e
for call in "knn run --data" "linear run --data" "transfer run"; do
    expect 1 "class 2 (e) of the test samples has no training sample: none of the 4 training classes has that name" \
        "$glofnd" eval $call folder:sets
done

# ----- what was exported is the same data -----

expect 0 "40 samples written" "$glofnd" data export $data --out folders --folder
expect 0 "40 samples written" "$glofnd" data export $data --out shards
for test in folder:folders wds:shards; do
    expect 0 "40 samples of $test" "$glofnd" eval knn run --data $data --test $test
    expect 0 "40 samples of $test" "$glofnd" eval knn run --data folder:folders --test $test --k 1
    grep -q "^top-1  *100.00 %" out || fail "$test: other samples or labels"
done
exit 0
