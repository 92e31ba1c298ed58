# Groups of samples: `groups = FILE` from anywhere, and by k-means (IFND), in training: flags, resume to the bit, ranks, refusals.
. "$2/tests/sh/common.inc"
needs_runs
needs_tools awk
data=shapes:n=192,classes=4,size=16,seed=3

flags="--data $data --arch resnet8 --batch 32 --head-hidden 32 --head-out 8 --epochs 4 --start-epoch 1 --log-steps 1 --threads 1"
small() { call "$glofnd" pretrain $flags "$@"; }
# values RUN KEY: a number of every logged epoch
values() { grep '"event": "epoch"' "$1/log.jsonl" | sed "s/.*\"$2\": \([^,}]*\).*/\1/" | tr '\n' ' '; }
# same_run A B: the same weights and the same losses
same_run() {
    cmp "$1/model.safetensors" "$2/model.safetensors" || fail "$3: other weights"
    [ "$(values "$1" loss)" = "$(values "$2" loss)" ] || fail "$3: other losses"
}

# ----- a file of ids: the labels as ids are the oracle -----
# `data info` has no list of labels: those of shapes are i mod classes
awk 'BEGIN { for (i = 0; i < 192; i++) print i % 4 }' > labels.txt
small --detector oracle --out oracle
wants "oracle" 0
small --detector groups --groups labels.txt --out file
wants "groups of a file" 0 "flags: expected from epoch 2 of 4 on"
same_run oracle file "labels as groups"
right=$(values file pooled_precision)
[ "$right" = "null 1.0 1.0 1.0 " ] || fail "groups made of labels are right: $right"
# before the detector begins the file changes nothing
small --detector none --out none
[ "$(values none loss | cut -d' ' -f1)" = "$(values file loss | cut -d' ' -f1)" ] || fail "groups before the start"
[ "$(values none loss | cut -d' ' -f2)" != "$(values file loss | cut -d' ' -f2)" ] || fail "groups after the start"
# -1: no group
awk 'BEGIN { for (i = 0; i < 192; i++) print -1 }' > no_groups.txt
small --detector groups --groups no_groups.txt --out alone
wants "samples without group" 0
same_run none alone "no groups"

# the same ids as an array
if command -v python3 > /dev/null && python3 -c 'import numpy' 2> /dev/null; then
    python3 -c 'import numpy; numpy.save("labels.npy", numpy.arange(192) % 4)'
    small --detector groups --groups labels.npy --out array
    wants "groups of an array" 0
    same_run oracle array "ids of an array"
    python3 -c 'import numpy; numpy.save("wrong.npy", numpy.zeros((192, 2), int)); numpy.save("real.npy", numpy.zeros(192))'
    small --detector groups --groups wrong.npy --out wrong
    wants "rank 2" 1 "expected int32 or int64 of rank 1"
    small --detector groups --groups real.npy --out wrong
    wants "floats" 1 "float64 of rank 1"
fi

# refusals, before anything is made
head -n 100 labels.txt > short.txt
small --detector groups --groups short.txt --out wrong
wants "too few ids" 2 "short.txt has 100 ids, and the data has 192 samples"
sed 's/^2$/two/' labels.txt > words.txt
small --detector groups --groups words.txt --out wrong
wants "words" 1 'words.txt:3: "two"'
sed '5s/.*/99999999999/' labels.txt > large.txt
small --detector groups --groups large.txt --out wrong
wants "a large id" 1 "id 99999999999 of sample 4 does not fit 32 bits"
small --detector groups --groups missing.txt --out wrong
wants "no file" 1 "missing.txt"
small --detector glofnd --groups labels.txt --out wrong
wants "another detector" 2 "groups: it is for detector = groups"
small --detector groups --out wrong
wants "no groups" 2 "set groups to a file of ids or to kmeans"
[ ! -e wrong ] || fail "a refused run left a folder"

# ----- k-means -----
ifnd="--detector groups --groups kmeans --kmeans-groups 4,12 --kmeans-epochs 2"
small $ifnd --out kmeans
wants "k-means" 0 "flags: expected from epoch 2 of 4 on"
[ -e kmeans/checkpoints/step-24/groups.npy ] || fail "no groups in the checkpoint"
grep -q groups.npy kmeans/checkpoints/step-24/DONE || fail "groups are not in the manifest"
[ "$(values none loss | cut -d' ' -f1)" = "$(values kmeans loss | cut -d' ' -f1)" ] || fail "k-means before the start"
set -- $(values kmeans flagged)
[ "$1" = 0.0 ] && [ "$2" != 0.0 ] || fail "flags begin in epoch 2: $*"
awk "BEGIN { exit !($4 > $2) }" || fail "more samples are accepted in later epochs: $*"
small $ifnd --kmeans-accept 0 --out nobody
same_run none nobody "no sample accepted"
small $ifnd --threads 2 --workers 3 --out threads # oneDNN's gradients depend on threads: only that it runs
wants "two threads" 0

# Killed and resumed, between clusterings and about the second one: the same bytes. Whatever step a kill falls on, so must it be.
small $ifnd --checkpoint-steps 1 --out whole
wants "a checkpoint every step" 0
same_run kmeans whole "checkpoints"
for step in 2 8 12 17; do
    rm -rf killed
    "$glofnd" pretrain $flags $ifnd --checkpoint-steps 1 --out killed 2> err &
    process=$!
    while kill -0 $process 2> /dev/null; do
        at=$(newest killed)
        [ "${at#step-}" -ge $step ] 2> /dev/null && break
        sleep 0.01
    done
    kill -9 $process 2> /dev/null
    wait $process 2> /dev/null
    call "$glofnd" pretrain --out killed --resume --quiet
    wants "resume" 0
    equal whole killed "killed at step $step"
done

# Other numbers of groups may be given to a resumed run, which then makes its groups at once.
small $ifnd --epochs 2 --out more
call "$glofnd" pretrain --out more --resume --epochs 3 --kmeans-groups 6 --quiet
wants "other numbers of groups" 0
set -- $(values more flagged)
[ "$3" != 0.0 ] || fail "flags after the resume"

small $ifnd --kmeans-groups 4,x --out wrong
wants "no number" 2 'kmeans_groups: "x" in "4,x"'
small $ifnd --kmeans-groups 193 --out wrong
wants "more groups than samples" 2 "kmeans_groups: 193 groups of 192 samples"
small $ifnd --kmeans-groups '' --out wrong
wants "no groups" 2 'kmeans_groups: ""'
small $ifnd --kmeans-accept -0.5 --out wrong
wants "a negative share" 2 "kmeans_accept: -0.5"
call "$glofnd" pretrain --task clip --data "$data" --detector groups --groups kmeans --out wrong
wants "equal contents, too" 2 "set mask_duplicates = 0"
[ ! -e wrong ] || fail "a refused run left a folder"

# Images of image-text runs.
call "$glofnd" pretrain --task clip --data "$data" --arch resnet8 --embed-dim 16 --text-width 32 --text-layers 1 --text-heads 2 \
    --context 12 --vocab-merges 50 --batch 32 --micro-batch 16 --epochs 2 --start-epoch 1 $ifnd \
    --mask-duplicates 0 --kmeans-accept 1 --out clip
wants "image and text" 0 "flags: expected from epoch"
exit 0
