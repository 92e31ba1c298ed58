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

# Images of the network's size stay as they are, in folders, too, and next to images of other sizes.
expect 0 "samples written" "$glofnd" data export $data --folder --out same
expect 0 "samples written" "$glofnd" data export shapes:n=8,classes=2,size=24,seed=4 --folder --out larger
(cd same && find . -name '*.png' | sort) > names
{ sed 's:^:same/:' names; find larger -name '*.png' | sort; } > mixed.txt
sed 's:^:same/:' names > plain.txt
for list in plain mixed; do expect 0 "features" "$glofnd" embed run --data list:$list.txt --out $list.npy; done
expect 0 "64 x 64 features" "$glofnd" embed run --data folder:same --out folder.npy
rows() { tail -c +129 "$1" | head -c $((64 * 64 * 4)); }
sorted() { rows "$1" | od -An -v -tx4 -w256 | sort; }
sorted a.npy > a.rows
for list in folder plain mixed; do
    sorted $list.npy | cmp -s - a.rows || fail "$list: images of the network's size are changed"
done

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
    expect 1 "if it moved, give its SPEC by --data" "$glofnd" eval $what moved
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
    expect 2 "an integer in [1, 1024]" "$glofnd" eval $way run $flags --threads 0
    expect 1 "cuda cannot be used here: " without_gpu eval $way run $flags --device cuda
    wants "$way without a GPU" 1 "; use --device cpu"
    expect 0 "glofnd eval: the run was trained on cuda, which cannot be used here (" without_gpu eval $way there $flags
    [ "$(grep -c "): on the CPU" err)" -eq 1 ] || fail "$way: said once"
    expect 0 "" without_gpu eval $way there $flags --device cpu
    grep -q "trained on" err && fail "$way: the CPU was asked for"
done < ways
expect 2 "cpu|cuda" "$glofnd" embed run --data $data --device gpu --out x.npy
expect 2 "an integer in [1, 1024]" "$glofnd" embed run --data $data --threads many --out x.npy
expect 1 "; use --device cpu" without_gpu embed run --data $data --device cuda --out x.npy
[ ! -e x.npy ] || fail "a refused call left a file"
expect 0 "glofnd embed: the run was trained on cuda, which cannot be used here (" without_gpu embed there --data $data --out x.npy
cmp -s a.npy x.npy || fail "rows of a run from elsewhere"
grep -v '"event": "linear' there/eval.jsonl | sort -u > elsewhere
grep -v '"event": "linear' run/eval.jsonl | sort -u > here
cmp -s elsewhere here || fail "answers of a run from elsewhere"

expect 2 "--help explains" "$glofnd" embed run --data $data
expect 2 "usage" "$glofnd" eval guess run --data $data
expect 2 "an integer" "$glofnd" eval knn run --data $data --k 0
expect 1 "not a run folder" "$glofnd" embed nowhere --data $data --out x.npy
expect 1 "is not a run folder" "$glofnd" report nowhere --out x.html
mkdir flat && expect 1 "" "$glofnd" eval knn run --data folder:flat

# Damaged images: three are named, all are counted; rows move up, and --samples says whose they are.
"$glofnd" data export $data --folder --out hurt > /dev/null && rm hurt/captions.csv || fail "export"
find hurt -name '*.png' | LC_ALL=C sort > names
for k in 1 2 30 31; do sed -n ${k}p names | while read -r name; do echo broken > "$name"; done; done
expect 0 "60 x 64 features" "$glofnd" embed run --data folder:hurt --out rows.npy --labels y.npy --samples which.npy
wants "unreadable images" 0 "sample 0 is left out: " "4 of 64 samples are left out" \
    "has the sample of each row"
[ "$(grep -c "is left out" err)" -eq 3 ] || fail "embed names other than three"
head -c 128 which.npy | grep -aq "'<i8'.*(60,)" || fail "header of which.npy"
tail -c +129 which.npy | od -An -v -t d8 -w8 | tr -d ' ' > which
seq 0 63 | sed -e '1,2d' -e '30,31d' | cmp - which || fail "which samples the rows are of"
tail -c +129 y.npy | od -An -v -t d4 -w4 | tr -d ' ' | sort | uniq -c > classes
[ "$(wc -l < classes)" -eq 4 ] || fail "labels of the rows that are left: $(cat classes)"
while read -r name; do
    grep -q '^broken' "$name" || { mkdir -p "sound/${name%/*}" && cp "$name" "sound/$name"; }
done < names
expect 0 "60 x 64 features" "$glofnd" embed run --data folder:sound/hurt --out sound.npy --labels sound_y.npy
cmp -s rows.npy sound.npy && cmp -s y.npy sound_y.npy || fail "rows of the readable images"
expect 0 "--samples FILE.npy lists those that remain" "$glofnd" embed run --data folder:hurt --out rows.npy
expect 0 "top-1" "$glofnd" eval knn run --data folder:hurt --test folder:hurt --k 5
[ "$(grep -c "is left out" err)" -eq 6 ] || fail "eval names other than three of each set"
[ "$(grep -c "glofnd eval: 4 samples in all are left out" err)" -eq 2 ] || fail "eval counts"
while read -r name; do echo broken > "$name"; done < names
expect 1 "samples" "$glofnd" embed run --data folder:hurt --out none.npy
[ "$(wc -l < err)" -le 5 ] && [ ! -e none.npy ] || fail "nothing to embed"
expect 1 "samples" "$glofnd" eval knn run --data folder:hurt --test folder:hurt
[ "$(wc -l < err)" -le 6 ] || fail "nothing to evaluate"

# Files: each its own, and all writable before the work begins.
rm -f same.npy
expect 2 "must be different files" "$glofnd" embed run --data $data --out same.npy --labels same.npy
mkdir -p sub && ln -s .. sub/up
for name in ./same.npy "$PWD/same.npy" sub/../same.npy sub/up//same.npy; do
    expect 2 "must be different files" "$glofnd" embed run --data $data --out same.npy --labels "$name"
    expect 2 "must be different files" "$glofnd" embed run --data $data --out a.npy --labels "$name" --samples same.npy
done
[ ! -e same.npy ] || fail "a refused call left a file"
expect 0 "64 x 64 features" "$glofnd" embed run --data $data --out same.npy --labels sub/same.npy
rm same.npy
touch same.npy && ln same.npy link.npy
expect 2 "must be different files" "$glofnd" embed run --data $data --out same.npy --samples link.npy
rm -f early.npy
expect 1 "'nowhere/y.npy' cannot be written" "$glofnd" embed run --data $data --out early.npy --labels nowhere/y.npy
[ -z "$(ls | grep early)" ] || fail "a refused call left a file"
expect 0 "64 x 64 features" "$glofnd" embed run --data $data --out a.npy --samples all.npy
tail -c +129 all.npy | od -An -v -t d8 -w8 | tr -d ' ' > which
seq 0 63 | cmp - which || fail "samples of all rows"
exit 0
