# glofnd eval knn, linear and transfer on a tiny run: tables, records, a backbone that stays as it is, messages and exit codes.
. "$2/tests/sh/common.inc"
needs_runs
needs 'png yes'
data=shapes:n=200,classes=4,size=16,seed=3

records() { grep -c "\"event\": \"$1\"" run/eval.jsonl; }

train run --epochs 1 --start-epoch 0
find run -type f ! -name eval.jsonl -exec cksum {} + | sort > before

# ----- a sample that is unreadable in the second of two passes -----

# It is left out of both, as one that was never readable.
shim=$build/tests/hostile_shim.so
if [ -e "$shim" ]; then
    "$glofnd" data export shapes:n=40,classes=4,size=16,seed=5 --folder --out images > out 2> err || fail "images"
    two_passes() {
        "$glofnd" eval linear run --data folder:images --test shapes:n=60,classes=4,size=16,seed=5,split=test --augment 2 \
            --fractions 100 --epochs 6
    }
    export HOSTILE_UNDER="$PWD/images" HOSTILE_ONLY=open
    (export LD_PRELOAD="$shim" HOSTILE_DO=EIO HOSTILE_TRACE="$PWD/trace" && two_passes) > whole 2> err || fail "two passes"
    last=$(grep 'png$' trace | tail -n 1)
    (export LD_PRELOAD="$shim" HOSTILE_DO=EIO HOSTILE_AT="${last%% *}" && two_passes) > once 2> err || fail "unreadable once"
    file=$(sed -n "s/.*is left out: '\\(.*png\\)'.*/\\1/p" err) # workers open files in any order
    [ -s "$file" ] || fail "a sample that cannot be read is named"
    : > "$file"
    two_passes > never 2> err || fail "never readable"
    cmp -s once never || fail "unreadable in one pass: $(tail -n 1 once); in all: $(tail -n 1 never)"
    cmp -s whole never && fail "a sample less makes no difference"
    unset HOSTILE_UNDER HOSTILE_ONLY
    rm run/eval.jsonl
fi

# ----- nearest neighbours -----

# Equal votes have a name of their own. As many neighbours as are asked for, or what there is if nothing was asked.
expect 0 "protocol  knn: cosine, k 20, votes exp(s / 0.07)" "$glofnd" eval knn run
expect 0 "protocol  knn-unweighted: cosine, k 20, equal votes" "$glofnd" eval knn run --unweighted
expect 0 "knn-unweighted k 20 top-1 %" "$glofnd" compare run
grep -q "^knn k 20 top-1 %" out || fail "weighted ones beside it"
expect 2 "glofnd eval knn: --k is 201, but there are 200 training samples" "$glofnd" eval knn run --k 201
expect 0 "k 200, " "$glofnd" eval knn run --k 200
expect 0 "k 12, " "$glofnd" eval knn run --data shapes:n=12,classes=3,size=16
tail -n 1 run/eval.jsonl | grep -q '"k": 12,' || fail "what is recorded is what was done"
expect 2 "glofnd eval knn: --k: " "$glofnd" eval knn run --k 0
expect 2 "glofnd eval fn: --alpha: " "$glofnd" eval fn run --alpha 1
[ "$(records knn)" -eq 4 ] || fail "records of knn"

# ----- linear -----

# Of a class with too few samples for a share one is used, and that is said: 1 % and 0.1 % of 50 per class.
expect 0 "mean" "$glofnd" eval linear run --data $data --epochs 30
for share in 1 0.1; do
    grep -q "linear: $share % of the labels: 4 classes have too few samples for a whole one; one sample of each" err ||
        fail "$share % takes one of each class, and says so"
done
[ "$(grep -c 'paper-centre-epochs30$' out)" -eq 5 ] || fail "every number must come with the protocol's name"
[ "$(records linear)" -eq 4 ] && [ "$(records linear_mean)" -eq 1 ] || fail "records of linear"
grep '"fraction": 0.001, ' run/eval.jsonl | grep -q '"train_samples": 4, ' || fail "0.1 % are one of each class"
grep '"event": "linear", "protocol": "paper-centre-epochs30"' run/eval.jsonl |
    grep -q '"fraction": 0.1, .*"train_samples": 20, ' || fail "10 % are 5 of each class"
expect 0 "   0.1 %        4" "$glofnd" eval linear run --data $data --fractions 0.1 --epochs 3

expect 0 "official-cached2-epochs4-validated" "$glofnd" eval linear run --data $data --protocol official --augment 2 \
    --validation 0.2 --epochs 4 --fractions 50
expect 0 "paper-epochs2" "$glofnd" eval linear run --data $data --augment epoch --epochs 2 --fractions 10
expect 0 "UNTRAINED" "$glofnd" eval linear run --data $data --epochs 2 --untrained --fractions 100
expect 0 "40 samples of shapes:n=40" "$glofnd" eval linear run --data $data --test shapes:n=40,classes=3,size=16,seed=5 \
    --epochs 1 --fractions 100

expect 0 " 90/90 " "$glofnd" eval linear run --data $data --fractions 100

# Means over other shares, and other draws of labels, are other figures.
expect 0 "mean" "$glofnd" eval linear run --data $data --epochs 30 --fractions 100,50
expect 0 "linear paper-centre-epochs30 mean top-1 % (fractions 0.001, 0.01, 0.1, 1)" "$glofnd" compare run
wants "another mean" 0 "linear paper-centre-epochs30 mean top-1 % (fractions 0.5, 1)"
expect 0 "mean" "$glofnd" eval linear run --data $data --epochs 30 --fractions 50,100 --seed 2
expect 0 "linear paper-centre-epochs30 50 % top-1 % (seed 2)" "$glofnd" compare run

# The same call gives the same numbers.
"$glofnd" eval linear run --data $data --fractions 100 --epochs 9 > one 2> err || fail "first call"
"$glofnd" eval linear run --data $data --fractions 100 --epochs 9 > two 2> err || fail "second call"
cmp -s one two || fail "two equal calls differ"

expect 2 "--data is given twice; expected one" "$glofnd" eval knn run --data $data --data $data

# ----- transfer -----

"$glofnd" eval transfer run $data > out 2> err
code=$?
if grep -q "no L-BFGS" err; then
    [ $code -eq 1 ] || fail "without liblbfgs it must fail"
else
    other=shapes:n=80,classes=3,size=16,seed=2
    third=shapes:n=90,classes=3,size=16,seed=9
    expect 0 "Average" "$glofnd" eval transfer run b=shapes:n=120,classes=4,size=16,seed=3 a=$other c=$third --protocol official
    [ "$(grep -c 'official$' out)" -eq 3 ] || fail "every number must come with the protocol's name"
    [ "$(records transfer)" -eq 4 ] && [ "$(records transfer_mean)" -eq 1 ] || fail "records of transfer"
    grep -q '"event": "transfer_mean".*"metric": "top1"' run/eval.jsonl || fail "the metric of the mean"
    [ "$(tail -n 2 run/eval.jsonl | head -n 1 | tr ',' '\n' | grep -c 'e-05\|e-06')" -ge 1 ] || fail "strengths are recorded"

    grep -q '"event": "transfer_mean".*"names": \["b", "a", "c"\], "sets": \["b=shapes:.* top1", ' \
        run/eval.jsonl || fail "what the mean is over"
    expect 0 "Average" "$glofnd" eval transfer run a=$other d=$third --protocol official
    expect 0 "transfer official mean top-1 % (names a, b, c)" "$glofnd" compare run
    wants "means over other datasets" 0 "transfer official mean top-1 % (names a, d)"

    expect 2 "given twice" "$glofnd" eval transfer run --data $data --data $data
    expect 2 "it would count twice in the mean" "$glofnd" eval transfer run $data a=$data $data

    # Where it runs: as in embed.sh.
    for threads in 1 2; do
        expect 0 "paper" "$glofnd" eval transfer run $data --threads $threads
        mv out said$threads
    done
    cmp -s said1 said2 || fail "threads change a transfer"
    expect 2 "cpu|cuda" "$glofnd" eval transfer run $data --device gpu
    expect 1 "; use --device cpu" env CUDA_VISIBLE_DEVICES= "$glofnd" eval transfer run $data --device cuda

    expect 2 "--help explains" "$glofnd" eval transfer run $data $data --test $data
    expect 2 "no protocol" "$glofnd" eval transfer run $data --protocol best
    expect 2 "--metric" "$glofnd" eval transfer run $data --metric f1
fi

# ----- nothing but eval.jsonl, and the files for TensorBoard, has changed -----

find run -type f ! -name eval.jsonl ! -path "run/eval/*" -exec cksum {} + | sort > after
cmp -s before after || fail "an evaluation changed the run"

# ----- what cannot be done -----

mkdir flat other && cp "$(find . -name '*.png' | head -n 1)" flat/ 2> /dev/null ||
    { "$glofnd" data synth $data --out flat/sheet.png > out 2> err || fail "synth"; }
expect 1 "has no labels" "$glofnd" eval linear run --data folder:flat
expect 1 "class 3" "$glofnd" eval linear run --data shapes:n=60,classes=3,size=16,seed=3 --test $data
expect 1 "not a run folder" "$glofnd" eval linear other --data $data
expect 1 "not a run folder" "$glofnd" eval transfer other $data
[ ! -e other/eval.jsonl ] || fail "a failed call left a record"
expect 2 "no protocol" "$glofnd" eval linear run --data $data --protocol best
expect 2 "percentages" "$glofnd" eval linear run --data $data --fractions 10,x
expect 2 "percentages" "$glofnd" eval linear run --data $data --fractions 0
expect 2 "an integer" "$glofnd" eval linear run --data $data --augment some
expect 2 "(0, 1)" "$glofnd" eval linear run --data $data --validation 1
expect 2 "RUN is missing" "$glofnd" eval linear
expect 2 "unknown verb" "$glofnd" eval guess run
echo "eval linear and transfer: ok"
