# glofnd reproduce: every table of the paper on mock-up data, tiny networks, continued where it stopped.
. "$2/tests/sh/common.inc"
needs_runs
needs 'png yes'
root=$scratch/data

# ImageNet-100: an image per class and split; drawn images stand for photographs.
mkdir -p "$root/imagenet/train" "$root/imagenet/val" drawn
expect 0 "samples written" "$glofnd" data export shapes:n=200,classes=4,size=16,seed=3 --folder --out drawn/a
find drawn/a -name '*.png' | sort > files
[ "$(wc -l < files)" -eq 200 ] || fail "200 drawn images"
i=0
while read -r wnid; do
    mkdir "$root/imagenet/train/$wnid" "$root/imagenet/val/$wnid"
    for split in train val; do
        i=$((i + 1))
        cp "$(sed -n ${i}p files)" "$root/imagenet/$split/$wnid/$i.png"
        [ $split = val ] || cp "$(sed -n "$((i + 1))p" files)" "$root/imagenet/$split/$wnid/b$i.png"
    done
done < "$source/configs/imagenet100.txt"

tiny="--set arch=resnet8 --set size=16 --set stem=1 --set batch=16 --set head_hidden=32 --set head_out=8 --set epochs=2
    --set threads=1"
in100="--data imagenet:$root/imagenet?classes=$source/configs/imagenet100.txt&counts=any" # two images a class are not ImageNet
reproduce() { "$glofnd" reproduce "$@"; }

expect 2 "is not a table; available: linear, transfer, bimodal, simclr, finetune, single" reproduce tabel --data-root "$root"
expect 2 "--data-root is needed" reproduce linear
# The table's own evaluations are checked before the first run; nothing is made.
expect 2 "glofnd reproduce: config-cifar10-sogclr_seed-1 cannot be trained" reproduce cifar10 --data-root nowhere
expect 2 "ImageNet (ILSVRC 2012) has 100 classes and 5000 images" reproduce linear --data-root "$root" $tiny
wants "an incomplete test split" 2 "nothing was started"
[ ! -e reproduce-linear ] || fail "an incomplete test split is found before the first run"
expect 0 "9 runs, 0 finished" reproduce linear --data-root "$root" $tiny $in100 --dry-run
[ ! -e reproduce-linear ] || fail "--dry-run makes nothing"

# A key of one row: tuned start epochs enter the table without editing a preset.
expect 2 'no run has the configuration "sogclr-fnc"' reproduce linear --data-root "$root" $tiny $in100 --dry-run \
    --set sogclr-fnc:start_epoch=45%
expect 2 'alpha: "2" is out of range' reproduce linear --data-root "$root" $tiny $in100 --dry-run \
    --set imagenet100-sogclr-fnc:alpha=2
expect 0 "6 runs, 0 finished" reproduce linear --data-root "$root" $tiny $in100 --dry-run --seeds 1,2 \
    --set imagenet100-sogclr-fnc:start_epoch=0 --set imagenet100-sogclr-glofnd:start_epoch=50%
printf 'set = imagenet100-sogclr:on_epoch=touch made\nvary = config=imagenet100-sogclr\n' > command.sweep
expect 2 "a file may not name a command" "$glofnd" sweep --file command.sweep --seeds 1 --out swept --dry-run

linear="linear --fractions 100 --epochs 2"
for table in linear simclr single; do
    expect 0 "  paper " reproduce $table --data-root "$root" $tiny $in100 --seeds 1,2 --eval "$linear"
    grep -q '^+ GloFND  *[0-9.]* ([0-9.]*)' out || fail "$table: mean (std) of the last row"
    grep -q '^+ GloFND .*[0-9] ([0-9.]*) ([+-][0-9.]*)' out || fail "$table: the gain with the average"
    grep -q "^The classes are CMC's list of 100" out || fail "$table: says that the classes are not the paper's"
    grep -q '^  p  ' out || fail "$table: p-values"
    [ $table != linear ] || grep -q '^  paper .*63.36 (+1.70)' out || fail "the paper's gain"
    [ $table != linear ] || grep -q "^  paper's p  *0.002  *0.011  *< 0.001  *0.018" out || fail "the paper's p-values"
done
grep -q '^  paper  *77.07  *72.85  *64.14  *36.21  *62.57 (+0.91)' out || fail "the bars of a single threshold"
grep -q 'heights of the bars in its figure' out || fail "where these come from"
cp out before
expect 0 "77.59 (0.03)" reproduce single --data-root "$root" $tiny $in100 --seeds 1,2 --eval "$linear"
cmp -s out before || fail "a finished table is only printed"
[ "$(grep -c '"finished"' reproduce-single/sweep.jsonl)" -eq 8 ] || fail "four rows, two seeds"
# A score of zero is a number, and so is a p-value of zero, of equal differences.
cp -r reproduce-single zeros
sed -i 's/"top1": [0-9.e-]*/"top1": 0/' zeros/*sogclr_seed-*/eval.jsonl
sed -i 's/"top1": [0-9.e-]*/"top1": 0.5/' zeros/*glofnd_seed-*/eval.jsonl
expect 0 "50.00 (0.00)" reproduce single --data-root "$root" $tiny $in100 --seeds 1,2 --eval "$linear" --out zeros
grep -q '^SogCLR  *0.00 (0.00)' out || fail "a score of zero"
sed -n '/^+ GloFND/,$p' out | grep -q '^  p  *< 0.001' || fail "a p-value of zero"
rm reproduce-single/*fnc_seed-2/model.safetensors
expect 0 "fnc_seed-2 finished" reproduce single --data-root "$root" $tiny $in100 --seeds 1,2 --eval "$linear"
expect 0 "paper" reproduce linear --data-root "$root" $tiny $in100 --seeds 1 --eval "$linear" --out tuned \
    --set imagenet100-sogclr-fnc:start_epoch=1 --set imagenet100-sogclr-glofnd:start_epoch=0
grep -q "^start_epoch = 1$" tuned/config-imagenet100-sogclr-fnc_seed-1/config.cfg || fail "FNC's own start"
grep -q "^start_epoch = 0$" tuned/config-imagenet100-sogclr-glofnd_seed-1/config.cfg || fail "GloFND's own start"
grep -q "^blur_p = 1$" reproduce-linear/config-imagenet100-sogclr-glofnd_seed-1/config.cfg || fail "the preset's keys"
grep -q 'imagenet?split=val' reproduce-linear/*sogclr_seed-1/eval.jsonl || fail "tested on the validation split"

# Transfer: other data here, so that the downloads are not needed.
expect 0 "64.31" reproduce transfer --data-root "$root" $tiny $in100 --seeds 1 --eval "transfer own=folder:$scratch/drawn/a"

# Images with captions.
mkdir -p "$root/retrieval" "$root/zeroshot"
expect 0 "samples written" "$glofnd" data export shapes:n=48,classes=4,size=16,seed=3 --out "$root/cc3m"
cp -r "$root/cc3m" "$root/cc3m-val"
cp -r "$root/cc3m" "$root/retrieval/flickr30k"
cp -r drawn/a "$root/zeroshot/imagenet1k"
expect 0 merges "$glofnd" data bpe "wds:$root/cc3m/*.tar" --merges 100 --out merges.txt
gzip -c merges.txt > "$root/bpe_simple_vocab_16e6.txt.gz"
clip="--set arch=resnet8 --set size=16 --set stem=1 --set batch=16 --set embed_dim=16 --set text_width=16 --set text_layers=1
    --set text_heads=2 --set context=16 --set epochs=2 --set threads=1"
expect 0 "24.87 (0.13)" reproduce bimodal --data-root "$root" $clip --seeds 1
wants "its tasks" 0 "2 of DataComp's 38 tasks are there"
grep -q '^FastCLIP  *[0-9]' out || fail "a row of the second block"
mkdir -p "$root/datacomp"
cp -r "$root/cc3m" "$root/datacomp/wds_vtab-caltech101_test"
expect 0 "6 runs, 0 finished" reproduce bimodal --data-root "$root" $clip --seeds 1 --out by-benchmark --dry-run
rm -r "$root/datacomp"
cp reproduce-bimodal/config-cc3m-sogclr_seed-1/model.safetensors "$root/RN50.safetensors"
expect 0 "36.52" reproduce finetune --data-root "$root" $clip --seeds 1
grep -q '^+ GloFND  *[0-9]' out || fail "retrieval of the fine-tuned network"
grep '^Base ' out | grep -q ' - ' && fail "the base has all columns"
sed -n '/^Base  *[0-9]/{n;p;q}' out | grep -q '^  paper  *27.58  *48.17  *57.53  *44.43' || fail "the weights that it began with"
grep -c "CMC" out | grep -qx 0 || fail "captions have no classes"
exit 0
