# glofnd eval retrieval, zeroshot and fn on a tiny image-text run: above chance, records, files of embeddings, bad input.
. "$2/tests/sh/common.inc"
needs_runs
needs 'png yes'
data=shapes:n=384,classes=4,size=16,seed=3
test=shapes:n=128,classes=4,size=16,seed=3,split=test

# value EVENT KEY: of the newest such record
value() { grep "\"event\": \"$1\"" run/eval.jsonl | tail -n 1 | sed "s/.*\"$2\": \([^,}]*\).*/\1/"; }
# above A B: numbers
above() { awk "BEGIN { exit !($1 > $2) }" || fail "$1 is not above $2"; }

call "$glofnd" pretrain --quiet --task clip --data $data --arch resnet8 --embed-dim 32 --text-width 32 --text-layers 1 \
    --text-heads 2 --context 24 --vocab-merges 200 --batch 32 --epochs 8 --start-epoch 4 --alpha 0.1 --lr 3e-3 --out run
wants "pretrain" 0
train views --epochs 1

# Retrieval: four captions per image; chance is 1 of 128. The same in equal calls.
expect 0 "128 images, 512 captions" "$glofnd" eval retrieval run --data $test
grep -q "^IR, text to image " out || fail "table"
above "$(value retrieval ir1)" 0.0079
above "$(value retrieval mean)" 0.06
mv run/eval.jsonl first && "$glofnd" eval retrieval run --data $test > out 2> err
cmp -s run/eval.jsonl first || fail "two equal calls differ"
expect 0 "UNTRAINED" "$glofnd" eval retrieval run --data named=$test --untrained
grep -q '"untrained": true, "dataset": "named"' run/eval.jsonl || fail "record of the baseline"

# Embeddings of files give the same; owners by default are one caption each.
"$glofnd" embed run --data $test --out i.npy > out 2> err || fail "embed"
"$glofnd" embed run --data $test --text --out t.npy --samples o.npy > out 2> err || fail "embed --text"
"$glofnd" eval retrieval run --data $test > out 2> err; grep "^[IT]R" out > of_run
expect 0 "512 captions of i.npy" "$glofnd" eval retrieval --image-emb i.npy --text-emb t.npy --owner o.npy
grep "^[IT]R" out > of_files
cmp -s of_run of_files || fail "files and run differ"
expect 1 "--owner must give" "$glofnd" eval retrieval --image-emb i.npy --text-emb t.npy
expect 0 "100.00" "$glofnd" eval retrieval --image-emb i.npy --text-emb i.npy
expect 1 "int64, int32 or uint8 [128]" "$glofnd" eval retrieval --image-emb i.npy --text-emb i.npy --owner o.npy
expect 2 "belong together" "$glofnd" eval retrieval --image-emb i.npy
expect 2 "not both" "$glofnd" eval retrieval run --image-emb i.npy --text-emb i.npy

# Lines that name one image are its captions.
"$glofnd" data export shapes:n=12,classes=3,size=16 --out exported --folder > out 2> err || fail "export"
{ echo "filepath,title"; find exported -name '*.png' | sort | sed 's/.*/&,a red circle\n&,a blue star &/'; } > list.csv
expect 0 "12 images, 24 captions" "$glofnd" eval retrieval run --data csv:list.csv
grep -q "12 samples name an image of an earlier one" out || fail "repeated images"
first=$(sed -n 4p list.csv | cut -d, -f1)
{ cat list.csv; printf '%s\n' "missing.png,a lost star" "missing.png,a lost ring" "$first,"; } > holes.csv
expect 0 "12 images, 24 captions" "$glofnd" eval retrieval run --data csv:holes.csv
grep -q "2 captions of unreadable images are left out" out || fail "captions of a missing image"
grep -q "sample 24 is left out" err || fail "name of a missing image"
grep -q "sample 26 lacks a caption: the sample has no caption" err || fail "a sample without caption"
{ head -n 1 list.csv; echo "missing.png,a lost star"; } > lost.csv
expect 1 "samples are unreadable" "$glofnd" eval retrieval run --data csv:lost.csv

# Zero-shot: one dataset and many, class names and templates of files.
expect 0 "top1" "$glofnd" eval zeroshot run --data $test
above "$(value zeroshot top5)" 0.99
echo "a {} picture" > t.txt
printf 'one\ntwo\nthree\nfour\n' > four.txt
expect 0 "average" "$glofnd" eval zeroshot run --data a=$test --data b=shapes:n=60,classes=3,size=16 --retrieval $test \
    --classes a=four.txt --templates t.txt
[ "$(grep -c '"protocol": "t.txt"' run/eval.jsonl)" -eq 3 ] || fail "protocol of a template file"
[ "$(value zeroshot_mean datasets)" -eq 3 ] || fail "record of the mean"
grep -q "^shapes *128 *- *512 *recall1 " out || fail "retrieval among the datasets"
expect 0 "of retrieval" "$glofnd" eval zeroshot run --data imagenet-v2=$test --data ObjectNet=$test --data c=$test \
    --retrieval r=$test --retrieval s=$test
grep -q "^of ImageNets " out || fail "mean of ImageNet and its variants"
[ "$(value zeroshot_mean imagenet)" = "$(value zeroshot top1)" ] || fail "mean of equal datasets"
above "$(value zeroshot_mean score)" "$(value zeroshot_mean retrieval)"
# Other words, other datasets: other figures, and names that say so; the same words from another file are the same.
classes_of() { value zeroshot classes_sum; }
first=$(classes_of)
[ "$(echo "$first" | grep -c '^"[0-9a-f]\{8\}"$')" -eq 1 ] || fail "checksum of the class names"
cp four.txt same.txt && printf 'one\ntwo\nthree\nother\n' > other.txt
mkdir more && echo "some {}" > more/t.txt
for words in "four.txt t.txt" "same.txt t.txt" "other.txt t.txt" "four.txt more/t.txt"; do
    expect 0 "top1" "$glofnd" eval zeroshot run --data w=$test --classes ${words% *} --templates ${words#* }
    echo "$(classes_of) $(value zeroshot templates_sum)"
done > sums
[ "$(sort -u sums | wc -l)" -eq 3 ] && [ "$(sed -n 1p sums)" = "$(sed -n 2p sums)" ] || fail "checksums of words: $(cat sums)"
expect 0 "zeroshot t.txt w top-1 % (classes_sum " "$glofnd" compare run
expect 0 "average" "$glofnd" eval zeroshot run --data a=$test --data b=$test
expect 0 "average" "$glofnd" eval zeroshot run --data a=$test --data c=$test
expect 0 "zeroshot own-templates mean % (names a, b)" "$glofnd" compare run
wants "means over other datasets" 0 "zeroshot own-templates mean % (names a, c)"
grep '"names": \["a", "c"\], "sets": \["a='$test' top1 classes [0-9a-f]* templates [0-9a-f]*", "c=' run/eval.jsonl > /dev/null ||
    fail "what a mean is over"
expect 2 "a=$test is given twice; it would count twice in the average" "$glofnd" eval zeroshot run --data a=$test --data a=$test
expect 2 'no dataset is called "y"' "$glofnd" eval zeroshot run --data x=$test --classes y=four.txt
expect 2 'no dataset is called "y"' "$glofnd" eval zeroshot run --data x=$test --templates y=t.txt
cp four.txt y=four.txt && expect 0 "top1" "$glofnd" eval zeroshot run --data x=$test --classes y=four.txt
expect 0 "recall1" "$glofnd" eval zeroshot run --retrieval r=$test
expect 2 "--data is given twice; expected one" "$glofnd" eval retrieval run --data $test --data=$data
{ echo "filepath,label"; sed -n '2,9p' list.csv | cut -d, -f1 | sed 's/$/,2/'; } > numbers.csv
expect 0 "4        -  top1" "$glofnd" eval zeroshot run --data csv:numbers.csv --classes four.txt
grep -q "3 of 4 classes have no image" err || fail "classes without image"
expect 1 "class 0 of this data has no name" "$glofnd" eval zeroshot run --data csv:numbers.csv
expect 1 "4 class names, the data has 3" "$glofnd" eval zeroshot run --data shapes:n=60,classes=3,size=16 --classes four.txt
printf 'one\n\nthree\nfour\n' > four.txt
expect 1 "line 2 is empty" "$glofnd" eval zeroshot run --data $test --classes four.txt
echo "a picture" > t.txt
expect 1 "line 1 has no {}" "$glofnd" eval zeroshot run --data $test --templates t.txt
expect 2 "needs a value" "$glofnd" eval zeroshot run --data
expect 2 "RUN is missing" "$glofnd" eval zeroshot --data $test
expect 2 "--data is missing" "$glofnd" eval zeroshot run
expect 2 "top1|mean" "$glofnd" eval zeroshot run --data $test --metric best

# Where it runs: as in embed.sh, with two encoders.
without_gpu() { env CUDA_VISIBLE_DEVICES= "$glofnd" "$@"; }
cp -r run here && cp -r run there && sed -i 's/^device = .*/device = cuda/' there/config.cfg
for way in "retrieval %s --data $test" "zeroshot %s --data $test --retrieval r=$test"; do
    here=$(printf "$way" here) there=$(printf "$way" there)
    for threads in 1 2; do
        rm here/eval.jsonl
        expect 0 "" "$glofnd" eval $here --threads $threads
        mv out said$threads && cp here/eval.jsonl records$threads
    done
    cmp -s records1 records2 && cmp -s said1 said2 || fail "threads change $here"
    expect 2 "cpu|cuda" "$glofnd" eval $here --device gpu
    expect 1 "; use --device cpu" without_gpu eval $here --device cuda
    rm there/eval.jsonl
    expect 0 "glofnd eval: the run was trained on cuda, which cannot be used here (" without_gpu eval $there
    [ "$(grep -c "): on the CPU" err)" -eq 1 ] || fail "said once"
    cmp -s there/eval.jsonl records1 || fail "answers of a run from elsewhere"
done
# Matrix products of oneDNN round alike on any number of threads if the CPU has AVX-512; else they may differ in the last bits.
"$glofnd" embed run --data $test --text --threads 1 --out t1.npy > out 2> err || fail "embed --text --threads 1"
if "$glofnd" info | grep -q 'oneDNN .* AVX-512'; then
    cmp -s t.npy t1.npy || fail "embed --text --threads 1: other bits"
else
    numbers() { tail -c 65536 "$1" | od -An -v -tf4 -w4; }      # 512 x 32 floats
    numbers t.npy > a.txt && numbers t1.npy > b.txt
    paste a.txt b.txt | awk '{ d = $1 - $2; if (d < 0) d = -d; if (!(d <= 2e-6)) bad = 1 } END { exit bad || NR != 16384 }' ||
        fail "embed --text --threads 1: other numbers"
fi
expect 0 "512 captions of i.npy" "$glofnd" eval retrieval --image-emb i.npy --text-emb t.npy --owner o.npy --threads 1
grep "^[IT]R" out | cmp -s - of_files || fail "files on one thread"
expect 2 "files are ranked on the CPU" "$glofnd" eval retrieval --image-emb i.npy --text-emb i.npy --device cpu

# Data without captions or labels; runs without an encoder of captions.
mkdir flat && find exported -name '*.png' -exec sh -c 'mv "$1" "flat/$(basename "$(dirname "$1")")-$(basename "$1")"' _ {} \;
expect 1 "has no captions" "$glofnd" eval retrieval run --data folder:flat
expect 1 "has no captions" "$glofnd" eval zeroshot run --retrieval folder:flat
expect 1 "has no labels" "$glofnd" eval zeroshot run --data folder:flat
expect 1 "a run with task = clip" "$glofnd" eval retrieval views --data $test
expect 1 "a run with task = clip" "$glofnd" eval zeroshot views --data $test
# It is the first thing to know: other data would not help.
for verb in retrieval zeroshot; do
    expect 1 "a run with task = clip" "$glofnd" eval $verb views
    expect 1 "a run with task = clip" "$glofnd" eval $verb views --data folder:nowhere
    expect 2 "--data is missing" "$glofnd" eval $verb run
done
expect 1 "not a run folder" "$glofnd" eval retrieval nowhere --data $test

# Results that cannot be stored are printed all the same, those of every dataset.
mkdir full && cp -r run/config.cfg run/vocab.txt run/model.safetensors run/checkpoints full && mkdir full/eval.jsonl
expect 1 "the result is printed, but not stored: 'full/eval.jsonl' cannot be opened" "$glofnd" eval zeroshot full --data a=$test \
    --data b=shapes:n=60,classes=3,size=16
"$glofnd" eval zeroshot run --data a=$test --data b=shapes:n=60,classes=3,size=16 2> err | cmp - out ||
    fail "zeroshot: other results"
expect 1 "the result is printed, but not stored" "$glofnd" eval retrieval full --data $test
"$glofnd" eval retrieval run --data $test 2> err | cmp - out || fail "retrieval: other results"

# Another vocabulary of as many tokens means other words: the checkpoint tells. Images alone need none.
cp -r run swapped
awk '{ line[NR] = $0 }
    END { for (i = 1; i <= NR; i++) printf "%s%s", (i > 1 ? "\n" : ""), line[i < NR - 1 ? i : 2 * NR - 1 - i] }' \
    run/vocab.txt > swapped/vocab.txt
cmp -s run/vocab.txt swapped/vocab.txt && fail "the vocabulary is the same"
for verb in "eval retrieval swapped" "eval zeroshot swapped" "embed swapped --text --out e.npy"; do
    expect 1 "swapped/vocab.txt is not the vocabulary the run was trained with" "$glofnd" $verb --data $test
done
expect 1 "is not the vocabulary" "$glofnd" eval fn swapped
expect 0 "no pictures of swapped: swapped/vocab.txt is not" "$glofnd" report swapped --out page.html
expect 0 "features" "$glofnd" embed swapped --data $test --out e.npy
rm -r swapped/checkpoints
expect 1 "is not the vocabulary" "$glofnd" eval retrieval swapped --data $test
cp run/vocab.txt swapped
expect 0 "IR" "$glofnd" eval retrieval swapped --data $test

# What evaluates images alone takes the image encoder.
expect 0 "numbers of the image embedding" "$glofnd" eval knn run --data $data
expect 0 "top-1" "$glofnd" eval linear run --data $data --epochs 2 --fractions 100

# False negatives between the sides: by labels, by captions that samples share; thresholds of images and of texts.
expect 0 "image to text, in batches" "$glofnd" eval fn run
[ "$(grep -c '"event": "fn"' run/eval.jsonl)" -eq 14 ] || fail "records: two sides, four detectors in batches, three over all"
for side in "image to text" "text to image"; do
    grep -q "^$side, all pairs  *glofnd " out || fail "glofnd over all pairs, $side"
done
[ "$(grep -cE '^[0-9]+ ' out)" -ge 4 ] || fail "epochs of the log"
grep '"protocol": "text-image dataset exact"' run/eval.jsonl | grep -q '"flagged": 0.099' || fail "share of the exact quantile"
expect 0 "have one in common" "$glofnd" eval fn run --truth captions
grep -q '"protocol": "image-text batches fnc by captions"' run/eval.jsonl || fail "protocol of captions"
expect 2 "labels|captions" "$glofnd" eval fn run --truth x
expect 1 "needs one of task = clip" "$glofnd" eval fn views --truth captions
expect 1 "image-text run" "$glofnd" eval threshold run

expect 0 "retrieval shapes IR@1 %" "$glofnd" compare run
expect 0 "zeroshot own-templates shapes top-1 %" "$glofnd" compare run
expect 0 "zeroshot t.txt mean %" "$glofnd" compare run
