# Every command in the table of docs/evaluation.md, paper item -> command, on mock-ups of the official downloads. The
# commands are read from the page; the test adds only what makes them small, and counts=any where a mock-up lacks images.
. "$2/tests/sh/common.inc"
needs_runs
needs 'png yes'
"$glofnd" eval transfer nowhere shapes:n=40,classes=2,size=16 2>&1 | grep -q "no L-BFGS" && skip "no liblbfgs"
root=$scratch/data
mkdir -p "$root"
cp -r "$source/configs" configs # the page names files of it; sweeps would evaluate for 900 epochs
sed -i 's/^eval = linear --protocol paper --augment epoch$/& --fractions 100 --epochs 1/' configs/*.sweep

# ----- the table -----

sed -n '/^| paper | command |$/,/^$/p' "$source/docs/evaluation.md" | sed 1,2d | sed '/^$/d' > rows
[ "$(wc -l < rows)" -ge 20 ] || fail "no table in docs/evaluation.md"
sed 's/^[^`]*`\(.*\)` |$/\1/' rows > commands
grep -qv '^glofnd ' commands && fail "a row without a command"

# ----- mock-ups: drawn images stand for photographs -----

"$glofnd" data export shapes:n=240,classes=4,size=16,seed=3 --folder --out drawn > out 2> err || fail "export"
find drawn -name '*.png' | sort > files
i=0
next_image() { # FILE: the next drawn image, over and over
    i=$((i % 240 + 1))
    cp "$(sed -n ${i}p files)" "$1"
}
while read -r wnid; do
    mkdir -p "$root/imagenet/train/$wnid" "$root/imagenet/val/$wnid"
    for name in train/$wnid/a train/$wnid/b val/$wnid/c; do next_image "$root/imagenet/$name.png"; done
done < configs/imagenet100.txt

# records CLASSES FILE COUNT COARSE: CIFAR's binary files
records() {
    k=0
    while [ $k -lt "$3" ]; do
        [ -z "$4" ] || printf '\000'
        printf "\\$(printf %03o $((k % $1)))"
        yes "picture $k $((k * k)) of $2" | head -c 3072
        k=$((k + 1))
    done > "$root/$2"
}
mkdir "$root/cifar10" "$root/cifar100"
for part in data_batch_1 data_batch_2 data_batch_3 data_batch_4 data_batch_5 test_batch; do
    records 10 cifar10/$part.bin 20 ''
done
records 100 cifar100/train.bin 200 coarse
records 100 cifar100/test.bin 100 coarse
awk 'BEGIN { for (k = 0; k < 10; k++) print "class" k }' > "$root/cifar10/batches.meta.txt"
awk 'BEGIN { for (k = 0; k < 100; k++) print "class" k }' > "$root/cifar100/fine_label_names.txt"
awk 'BEGIN { for (k = 0; k < 20; k++) print "coarse" k }' > "$root/cifar100/coarse_label_names.txt"

mkdir -p "$root/food-101/meta" "$root/caltech-101/101_ObjectCategories" "$root/dtd/labels" "$root/pets/images" \
    "$root/pets/annotations" "$root/cars/car_ims" "$root/flowers/jpg"
for class in apple_pie bibimbap; do
    mkdir -p "$root/food-101/images/$class" "$root/caltech-101/101_ObjectCategories/$class" "$root/dtd/images/$class"
    for n in 1 2 3 4 5 6 7 8; do
        next_image "$root/food-101/images/$class/$n.jpg"
        next_image "$root/caltech-101/101_ObjectCategories/$class/image_000$n.jpg"
        next_image "$root/dtd/images/$class/${class}_$n.jpg"
        [ $n -le 4 ] && list=train || list=test
        echo "$class/$n" >> "$root/food-101/meta/$list.txt"
        [ $n -gt 2 ] || list=val
        echo "$class/${class}_$n.jpg" >> "$root/dtd/labels/${list}1.txt"
    done
done
for n in 1 2 3 4 5 6 7 8 9 10 11 12; do
    next_image "$root/pets/images/breed_$((n % 2))_$n.jpg"
    [ $((n % 3)) = 0 ] && list=test || list=trainval
    echo "breed_$((n % 2))_$n $((n % 2 + 1)) 1 1" >> "$root/pets/annotations/$list.txt"
    [ $list = test ] || list=train
    for name in cars/car_ims flowers/jpg; do
        next_image "$root/$name/$n.jpg"
        printf '%s/%d.jpg\t%d\n' "${name#*/}" $n $((n % 2)) >> "$root/${name%/*}/$list.tsv"
    done
done

"$glofnd" data export shapes:n=32,classes=4,size=16,seed=3 --out "$root/cc3m" > out 2> err || fail "export of captions"
cp -r "$root/cc3m" "$root/cc3m-val"
# DataComp's 38 tasks: each is the same 16 images with class, caption and group. WinoGAViL is a table.
task=$root/datacomp/wds_vtab-pets_test
mkdir -p "$task/test" unpacked
"$glofnd" data export shapes:n=16,classes=4,size=16,seed=5 --out pairs > out 2> err || fail "export of a task"
(cd unpacked && for shard in ../pairs/*.tar; do tar xf "$shard"; done)
i=0
for image in unpacked/*.png; do
    printf '\223NUMPY\001\000\166\000%-117s\n' "{'descr': '<i8', 'fortran_order': False, 'shape': (2,), }" > "${image%.png}.npy"
    printf "\\00$((i % 2))\000\000\000\000\000\000\000\007\000\000\000\000\000\000\000" >> "${image%.png}.npy"
    i=$((i + 1))
done
(cd unpacked && tar cf "$task/test/0.tar" --sort=name .)
cp pairs/classnames.txt "$task/"
echo "a photo of {c}, indeed." > "$task/zeroshot_classification_templates.txt"
mkdir -p "$root/datacomp/winogavil/images"
list=
for n in 0 1 2 3 4 5 6 7 8 9 10 11; do
    next_image "$root/datacomp/winogavil/images/w$n.jpg"
    list="$list${list:+, }\"\"w$n\"\""
done
printf 'cue,candidates,associations\ncircle,"[%s]","[""w1"", ""w5""]"\n' "$list" > "$root/datacomp/winogavil/winogavil_dataset.csv"
"$glofnd" data bpe "wds:$root/cc3m/*.tar" --merges 100 --out merges.txt > out 2> err || fail "merges"
gzip -c merges.txt > "$root/bpe_simple_vocab_16e6.txt.gz"

# ----- runs -----

views="arch=resnet8 size=16 stem=1 batch=16 head_hidden=32 head_out=8 epochs=1 threads=1"
clip="arch=resnet8 size=16 stem=1 batch=16 embed_dim=16 text_width=16 text_layers=1 text_heads=2 context=16 epochs=1 threads=1"
set_all() { for pair in $1; do printf ' --set %s' "$pair"; done; }
in100="imagenet:$root/imagenet?classes=configs/imagenet100.txt&counts=any"
for detector in none fnc glofnd; do
    "$glofnd" pretrain --quiet --data "$in100" $(set_all "$views") --detector $detector --start-epoch 0 --alpha 0.05 \
        --out run-$detector 2> err || fail "pretrain $detector"
done
"$glofnd" pretrain --quiet --task clip --data "wds:$root/cc3m/*.tar" $(set_all "$clip") --vocab-merges 100 --out run-clip \
    2> err || fail "pretrain clip"
cp run-clip/model.safetensors "$root/RN50.safetensors"

call "$glofnd" eval zeroshot run-clip --datacomp "$root/datacomp"
sed -n 's/.*is missing: no folder \(wds_[^ ]*\) in .*/\1/p' err > missing
[ "$(wc -l < missing)" -eq 36 ] || fail "all but two of DataComp's tasks are missing"
while read -r name; do cp -r "$task" "$root/datacomp/$name"; done < missing

# ----- every row -----

# What a row printed must be more than a table of dashes.
look_at() { # ROW
    case $1 in
    "glofnd reproduce bimodal"*)
        grep -qE '^(SogCLR|FastCLIP|\+ [A-Za-z]*) .* - *' out && fail "bimodal: a column is empty"
        [ "$(grep -cE '^(SogCLR|FastCLIP|\+ FNC|\+ GloFND)  *[0-9]' out)" -eq 6 ] || fail "bimodal: six rows"
        ;;
    "glofnd reproduce finetune"*) grep -qE '^(Base|SogCLR|\+ [A-Za-z]*) .* - ' out && fail "finetune: a column is empty" ;;
    "glofnd eval zeroshot"*) wants "the benchmark" 0 "DataComp average over its 38 tasks" ;;
    "glofnd sweep"*start-epoch*)
        starts=$(sed -n 's/^vary = start_epoch=//p' "configs/$(echo "$1" | sed 's:.*configs/\(sweep[^ ]*\) .*:\1:')" | tr , '\n' | wc -l)
        [ "$(grep -c '^group ' out)" -eq "$starts" ] || fail "$starts start epochs are as many groups"
        wants "a choice" 0 "best"
        ;;
    "glofnd sweep"*bimodal*) [ "$(grep -c '^group ' out)" -eq 4 ] || fail "two values of alpha, two starts" ;;
    esac
}

n=0
while read -r row; do
    n=$((n + 1))
    more=
    case $row in
    "glofnd reproduce bimodal"* | "glofnd reproduce finetune"*) more="$(set_all "$clip") --seeds 1" ;;
    "glofnd reproduce transfer"*)
        more="$(set_all "$views") --seeds 1 --data $in100"
        more="$more --eval 'transfer pets=$root/pets?counts=any flowers=$root/flowers?counts=any'"
        ;;
    "glofnd reproduce cifar"*) more="$(set_all "$views") --seeds 1 --eval 'linear --fractions 100 --epochs 1'" ;;
    "glofnd reproduce"*) more="$(set_all "$views") --seeds 1 --data $in100 --eval 'linear --fractions 100 --epochs 1'" ;;
    "glofnd sweep"*bimodal*) more="$(set_all "$clip") --set epochs=2 --seeds 1" ;;
    "glofnd sweep"*start-epoch*) more="$(set_all "$views") --set epochs=20 --seeds 1" ;; # so many that each start is its own
    "glofnd sweep"*) more="$(set_all "$views kmeans_groups=3,5") --seeds 1" ;;
    "glofnd pretrain"*) more="--quiet $(set_all "$views")" ;;
    "glofnd eval linear"*) more="--epochs 1" ;;
    "glofnd eval threshold"*) more="--samples 400" ;;
    "glofnd report RUN"*) more="--samples 60" ;;
    esac
    text=$(echo "$row $more" | sed -e "s:^glofnd :\"\$glofnd\" :" -e "s: RUN: run-glofnd:g" -e "s: BASE: run-none:g" \
        -e "s: FNC: run-fnc:g" -e "s: CLIP: run-clip:g" -e "s:NEW:new-$n:g" -e "s:DATA/:$root/:g" -e "s:-root DATA:-root $root:" \
        -e 's/imagenet100\.txt"/imagenet100.txt\&counts=any"/' -e "s:=\($root/[a-z0-9-]*\) :='\1?counts=any' :g")
    case $row in *"eval transfer"*) text=$(echo "$text" | sed "s:'\($root/cifar100*\)?counts=any':\1:g") ;; esac
    text=$(echo "$text" | sed "s:--data imagenet\([^ ]*\):--data 'imagenet\1':")
    eval "call $text"
    [ "$code" = 0 ] || fail "row $n of the table: $row
as: $text"
    [ -s out ] || [ -e "new-$n" ] || fail "row $n has no result: $row"
    look_at "$row"
done < commands
echo "$n rows work"
exit 0
