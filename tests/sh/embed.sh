# glofnd embed, eval and report on a tiny run: files, shapes, repeatability, messages and exit codes.
. "$2/tests/sh/common.inc"
needs_runs
data=shapes:n=64,classes=4,size=16,seed=3

train run --epochs 2 --start-epoch 1

# Shapes, from the headers; rows are the same again, and not those of the untrained network.
expect 0 "64 x 64 features" "$glofnd" embed run --data $data --out a.npy --labels labels.npy
expect 0 "64 x 8 projections" "$glofnd" embed run --data $data --head --out head.npy
expect 0 "64 x 64 features" "$glofnd" embed run --data $data --out b.npy
expect 0 "64 x 64 features" "$glofnd" embed run --data $data --untrained --out c.npy
head -c 128 a.npy | grep -aq "'<f4'.*(64, 64)" || fail "header of a.npy"
head -c 128 head.npy | grep -aq "'<f4'.*(64, 8)" || fail "header of head.npy"
head -c 128 labels.npy | grep -aq "'<i4'.*(64,)" || fail "header of labels.npy"
cmp -s a.npy b.npy || fail "two equal calls differ"
cmp -s a.npy c.npy && fail "the untrained network gives the trained one's features"

# Without model.safetensors the newest checkpoint serves, with the same weights.
mv run/model.safetensors kept
expect 0 "64 x 64 features" "$glofnd" embed run --data $data --out d.npy
cmp -s a.npy d.npy || fail "the checkpoint's features differ"
mv run/checkpoints hidden
expect 1 "neither model.safetensors nor a complete checkpoint" "$glofnd" embed run --data $data --out e.npy
mv hidden run/checkpoints && mv kept run/model.safetensors
[ ! -e e.npy ] || fail "a failed call left a file"

expect 0 "top-1" "$glofnd" eval knn run --data $data --k 5
grep -q "split=test" out || fail "the data's own test split is the default"
expect 0 "UNTRAINED" "$glofnd" eval knn run --data $data --untrained --k 5
expect 0 "equal votes" "$glofnd" eval knn run --data $data --test $data --k 1 --unweighted
expect 0 "100.00 %" "$glofnd" eval knn run --data $data --test $data --k 1      # each is its own neighbour
[ "$(grep -c '"event": "knn"' run/eval.jsonl)" -eq 4 ] || fail "eval.jsonl should have 4 lines"

# The data of the run unless another is named; gone, it says what to do.
expect 0 "train     64 samples of $data" "$glofnd" eval knn run --k 5
cp -r run moved && sed -i 's/^data = .*/data = folder:gone/' moved/config.cfg
for what in knn linear fn threshold; do
    expect 1 "--data says where it is now" "$glofnd" eval $what moved
done
expect 0 "top-1" "$glofnd" eval knn moved --data $data --k 5

# Where it runs: the same rows and answers from any number of threads. A device that was asked for must be there and have a name
# we know; that of the run is replaced by the CPU, and this is said, once.
printf '%s\n' knn "linear --epochs 2 --fractions 50" fn "threshold --samples 400 --fnc-batch 16" > ways
without_gpu() { env CUDA_VISIBLE_DEVICES= "$glofnd" "$@"; }
for threads in 1 2; do
    expect 0 "64 x 64 features" "$glofnd" embed run --data $data --threads $threads --out t$threads.npy
    cmp -s a.npy t$threads.npy || fail "rows from $threads threads"
    rm run/eval.jsonl
    while read -r way flags; do
        expect 0 "" "$glofnd" eval $way run $flags --threads $threads
        cat out >> said$threads
    done < ways
    sed 's/"time_s": [^,}]*//' run/eval.jsonl > records$threads
done
cmp -s records1 records2 && cmp -s said1 said2 || fail "threads change an evaluation"
[ "$(wc -l < records1)" -eq 15 ] || fail "records of four evaluations"

cp -r run there && sed -i 's/^device = .*/device = cuda/' there/config.cfg
while read -r way flags; do
    expect 2 "cpu|cuda" "$glofnd" eval $way run $flags --device gpu
    expect 2 "whole number in [1, 1024]" "$glofnd" eval $way run $flags --threads 0
    expect 1 "cuda cannot be used here: " without_gpu eval $way run $flags --device cuda
    wants "$way without a GPU" 1 "; --device cpu takes the CPU"
    expect 0 "glofnd eval: the run was trained on cuda, which cannot be used here (" without_gpu eval $way there $flags
    [ "$(grep -c "): on the CPU" err)" -eq 1 ] || fail "$way: said once"
    expect 0 "" without_gpu eval $way there $flags --device cpu
    grep -q "trained on" err && fail "$way: the CPU was asked for"
done < ways
expect 2 "cpu|cuda" "$glofnd" embed run --data $data --device gpu --out x.npy
expect 2 "whole number in [1, 1024]" "$glofnd" embed run --data $data --threads many --out x.npy
expect 1 "; --device cpu takes the CPU" without_gpu embed run --data $data --device cuda --out x.npy
[ ! -e x.npy ] || fail "a refused call left a file"
expect 0 "glofnd embed: the run was trained on cuda, which cannot be used here (" without_gpu embed there --data $data --out x.npy
cmp -s a.npy x.npy || fail "rows of a run from elsewhere"
grep -v '"event": "linear' there/eval.jsonl | sort -u > elsewhere
grep -v '"event": "linear' run/eval.jsonl | sort -u > here
cmp -s elsewhere here || fail "answers of a run from elsewhere"

expect 2 "usage" "$glofnd" embed run --out x.npy
expect 2 "usage" "$glofnd" eval guess run --data $data
expect 2 "whole number" "$glofnd" eval knn run --data $data --k 0
expect 1 "not the folder of a run" "$glofnd" embed nowhere --data $data --out x.npy
expect 1 "not the folder of a run" "$glofnd" report nowhere --out x.html
mkdir flat && expect 1 "" "$glofnd" eval knn run --data folder:flat
