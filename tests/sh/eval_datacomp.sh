# glofnd eval zeroshot --datacomp on a mock-up of the benchmark's download: classes and templates one folder up, {c}, each task's
# own score, tasks that are missing, and no average of the benchmark unless all are there.
. "$2/tests/sh/common.inc"
needs_runs
needs 'png yes'
needs_tools tar
call "$glofnd" pretrain --quiet --task clip --data shapes:n=128,classes=4,size=16,seed=3 \
    --arch resnet8 --embed-dim 16 --text-width 16 --text-layers 1 --text-heads 2 --context 24 --vocab-merges 100 --batch 32 \
    --epochs 1 --start-epoch 0 --alpha 0.1 --out run
wants "pretrain" 0
score() { grep "\"dataset\": \"$1\"" run/eval.jsonl | tail -n 1 | sed 's/.*"score": \([^,}]*\).*/\1/'; }
value() { grep "\"dataset\": \"$1\"" run/eval.jsonl | tail -n 1 | sed "s/.*\"$2\": \([^,}]*\).*/\1/"; }

# A task: shards in test/, names and sentences above. Groups are numbers in .npy files: 0, 1, 0, 1, ..., and one of group 5.
npy() {
    printf '\223NUMPY\001\000\166\000%-117s\n' "{'descr': '<i8', 'fortran_order': False, 'shape': (2,), }"
    printf "\\00$1\000\000\000\000\000\000\000\007\000\000\000\000\000\000\000"
}
task() {
    mkdir -p "suite/$1/test" unpacked
    "$glofnd" data export shapes:n=40,classes=4,size=16,seed=5,split=test --out made > out 2> err || fail "export"
    mv made/classnames.txt "suite/$1/"
    (cd unpacked && tar xf ../made/*.tar && rm -f ./*.txt ./*.json)
    i=0
    for image in unpacked/*.png; do
        [ $i -lt 39 ] && group=$((i % 2)) || group=5
        npy $group > "${image%.png}.npy"
        i=$((i + 1))
    done
    (cd unpacked && tar cf "../suite/$1/test/0.tar" --sort=name .)
    echo "a photo of {c}, indeed." > "suite/$1/zeroshot_classification_templates.txt"
    rm -rf made unpacked
}
for name in wds_vtab-pets_test wds_wilds-iwildcam_test wds_wilds-fmow_test wds_dollar_street_test wds_geode_test; do
    task $name
done

expect 0 "DataComp task ImageNet 1k is missing: no folder wds_imagenet1k_test in suite" \
    "$glofnd" eval zeroshot run --datacomp suite
wants "the benchmark" 0 "DataComp task MSCOCO is missing: no folder wds_retrieval-mscoco_2014_5k_test_image_text_retrieval_test" \
    "no DataComp average: 5 of its 38 tasks are here" \
    "templates suite/wds_vtab-pets_test/test/../zeroshot_classification_templates.txt" \
    "WARNING: pets has 40 images here, 3669 in DataComp"
[ "$(grep -c 'is missing' err)" -eq 33 ] || fail "every missing task is named"
grep -q "^pets .* mean_per_class " out && grep -q "^iwildcam .* macro_f1 " out && grep -q "^fmow .* worst_group " out &&
    grep -q "^dollar_street .* worst_group5 " out && grep -q "^geode .* worst_group " out || fail "each task has its own score"
[ "$(score dollar_street)" = "$(value dollar_street worst_group5)" ] || fail "the score of a task"
expect 1 "has no evaluation set of DataComp" "$glofnd" eval zeroshot run --datacomp run

# One of its folders is a SPEC; a task's name brings its score, also without the benchmark.
expect 0 "classes    4" "$glofnd" data info wds:suite/wds_vtab-pets_test
expect 0 "mean_per_class" "$glofnd" eval zeroshot run --data pets=wds:suite/wds_vtab-pets_test --data x=wds:suite/wds_geode_test
grep -q "^x .* top1 " out || fail "mean per class and top-1 in one call"
expect 1 "scored by its worst group, and its samples have no .npy" "$glofnd" eval zeroshot run \
    --data fmow=shapes:n=20,classes=4,size=16,split=test
expect 0 "top1" "$glofnd" eval zeroshot run --metric top1 --data fmow=shapes:n=20,classes=4,size=16,split=test

# WinoGAViL: images associated with a cue, Jaccard index of the instances with ten candidates or more.
mkdir -p suite/winogavil/images
"$glofnd" data export shapes:n=12,classes=4,size=16,seed=8 --folder --out png12 > out 2> err || fail "export"
list=
i=0
find png12 -name '*.png' | sort > files
while read -r file; do
    cp "$file" "suite/winogavil/images/w$i.jpg"
    list="$list${list:+, }\"\"w$i\"\""
    i=$((i + 1))
done < files
{
    echo "cue,candidates,associations"
    echo "circle,\"[$list]\",\"[\"\"w1\"\", \"\"w5\"\"]\""
    echo "star,\"[\"\"w1\"\", \"\"w2\"\", \"\"w3\"\", \"\"w4\"\", \"\"w5\"\"]\",\"[\"\"w2\"\"]\""
} > suite/winogavil/winogavil_dataset.csv
expect 0 "no DataComp average: 6 of its 38 tasks are here" "$glofnd" eval zeroshot run --datacomp suite
grep -q "^winogavil  *12 .* 2  jaccard " out || fail "the row of WinoGAViL"
grep -q '"event": "associations".*"instances": 2, "images": 12, "jaccard": ' run/eval.jsonl || fail "its record"
expect 0 "jaccard" "$glofnd" eval zeroshot run --data winogavil:suite/winogavil

# The paper's column "Retrieval" is the mean of Flickr, MSCOCO and WinoGAViL, as DataComp groups them.
"$glofnd" data export shapes:n=20,classes=4,size=16,seed=5 --out pairs > out 2> err || fail "export of captions"
for name in flickr_1k_test mscoco_2014_5k_test; do cp -r pairs "suite/wds_retrieval-${name}_image_text_retrieval_test"; done
expect 0 "of retrieval" "$glofnd" eval zeroshot run --datacomp suite
awk '$1 == "flickr30k" || $1 == "coco" || $1 == "winogavil" { sum += $6; n++ } /^of retrieval/ { mean = $3 }
    END { if (n != 3 || mean - sum / 3 > 0.01 || sum / 3 - mean > 0.01) exit 1 }' out || fail "retrieval is the mean of three sets"

# WordNet ids are no names.
mkdir -p ids/n01440764 ids/n01443537
"$glofnd" data export shapes:n=4,classes=2,size=16 --folder --out png > out 2> err || fail "export"
for class in n01440764 n01443537; do cp png/*/*0.png "ids/$class/" 2> /dev/null || cp png/*/*.png "ids/$class/"; done
expect 1 "is called n01440764, a WordNet id" "$glofnd" eval zeroshot run --data folder:ids
printf 'n00000001 nothing\nn01443537 goldfish, Carassius\nn01440764 tench\n' > names.txt
expect 0 "top1" "$glofnd" eval zeroshot run --data folder:ids --classes names.txt
printf 'n01440764 tench\n' > few.txt
expect 1 'has no line for class 1, "n01443537"' "$glofnd" eval zeroshot run --data folder:ids --classes few.txt
echo "eval datacomp: ok"
