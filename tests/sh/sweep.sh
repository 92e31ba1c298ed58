# glofnd sweep on tiny runs: the grid, continuing after an interruption, failures, evaluation, choice of the best.
. "$2/tests/sh/common.inc"
needs_runs
printf '%s\n' 'data = shapes:n=64,classes=4,size=16,seed=3' 'arch = resnet8' 'batch = 16' 'epochs = 3' 'warmup_epochs = 0' \
    'alpha = 0.25' 'head_hidden = 32' 'head_out = 8' > tiny.cfg
sweep() { "$glofnd" sweep --config tiny.cfg --vary start_epoch=1,2 --seeds 1,2 --out grid "$@"; }

expect 0 "4 runs, 0 finished" sweep --dry-run
[ ! -e grid ] || fail "--dry-run makes nothing"

# Everything at once: two at a time, evaluated, compared.
expect 0 "best      start_epoch=" sweep --jobs 2 --eval "knn --k 5"
grep -q "knn k 5 top-1 %" out || fail "kNN is compared"
for s in 1 2; do for e in 1 2; do
    [ -e grid/start_epoch-${e}_seed-$s/model.safetensors ] || fail "start_epoch $e, seed $s"
    grep -q "^start_epoch = $e$" grid/start_epoch-${e}_seed-$s/config.cfg || fail "configuration of start_epoch $e"
done; done
for f in csv json tex; do [ -s grid/compare.$f ] || fail "compare.$f"; done

# Again: nothing is trained or evaluated a second time. An evaluation is added, another choice made.
lines=$(wc -l < grid/sweep.jsonl)
expect 0 "best      start_epoch=" sweep --eval "knn --k 5"
[ "$(wc -l < grid/sweep.jsonl)" -eq "$lines" ] || fail "a finished sweep does nothing"
[ "$(cat grid/*/eval.jsonl | wc -l)" -eq 4 ] || fail "evaluated twice"
expect 1 'has "linear" to choose by; available: knn k 5 top-1 %' sweep --choose linear
expect 0 "knn k 1 top-1 %" sweep --eval "knn --k 5" --eval "knn --k 1" --choose "kNN k 1"
grep -q "^best .*knn k 1" out || fail "--choose"
# What is evaluated needs its data no more.
expect 0 "40 samples written" "$glofnd" data export shapes:n=40,classes=4,size=16 --folder --out images
expect 0 "best      start_epoch=" sweep --eval "knn --data folder:images"
mv images away
expect 0 "best      start_epoch=" sweep --eval "knn --data folder:images"
expect 2 "images" sweep --seeds 1,2,3 --eval "knn --data folder:images"
mv away images

# What chooses is what most configurations have, measured in one way; who has it not is counted.
sed -i 's/"k": 5/"k": 5, "new": 1/' grid/start_epoch-1_seed-?/eval.jsonl
expect 0 "1 of 2 configurations were not measured with these settings" sweep --eval "knn --k 5" --choose "knn k 5"
expect 0 "knn k 1 top-1 %" sweep --eval "knn --k 5" --eval "knn --k 1" --choose knn
wants "what most have" 0 "best      start_epoch="
grep -q "^best .*knn k 1 top-1" out || fail "of several figures that which most have"
sed -i 's/, "new": 1//' grid/*/eval.jsonl

# The data of the runs is not added to datasets that an evaluation names.
expect 0 "transfer paper mean top-1 %" sweep --eval \
    "transfer a=shapes:n=60,classes=3,size=16,seed=5 b=shapes:n=60,classes=2,size=16,seed=6 --seed 4"
cat grid/*/eval.jsonl | grep '"transfer"' | grep -v '"dataset": "[ab]"' > others
[ ! -s others ] || fail "transfer to the data of the runs"
many=$(i=0; while [ $i -lt 200 ]; do i=$((i + 1)); printf ' --k 5'; done)
expect 2 "it has too many arguments" sweep --eval "knn$many"

# An unfinished run is continued, to the same weights; a removed one is made again, with all its evaluations.
cp grid/start_epoch-1_seed-2/model.safetensors kept
grep -v 'finished.*start_epoch-1_seed-2' grid/sweep.jsonl > lines && mv lines grid/sweep.jsonl
rm -r grid/start_epoch-1_seed-2/model.safetensors grid/start_epoch-2_seed-1
expect 0 "start_epoch-1_seed-2 finished" sweep --eval "knn --k 5" --eval "knn --k 1"
grep -q "start_epoch-2_seed-1 finished" err || fail "a removed run"
[ "$(grep -c '"knn"' grid/start_epoch-2_seed-1/eval.jsonl)" -eq 2 ] || fail "evaluations of a removed run"
cmp -s kept grid/start_epoch-1_seed-2/model.safetensors || fail "other weights after continuing"
grep -q "resumed at step 12" grid/start_epoch-1_seed-2.log || fail "it was not resumed"

# Another configuration does not mix with it.
expect 1 "made under a different configuration" sweep --set lr=0.5
# A run that fails is named, the others go on; a key that cannot work is reported before anything starts.
expect 1 "batch-100_seed-1 failed; see broken/batch-100_seed-1.log" \
    "$glofnd" sweep --config tiny.cfg --vary batch=100,16 --set epochs=1 --set start_epoch=0 --out broken
grep -q "batch-16_seed-1 finished" err || fail "the others"
grep -q "more than the 64 samples" broken/batch-100_seed-1.log || fail "the log says why"
grep -q "^    glofnd pretrain: .*more than the 64 samples" err || fail "a failed run without its reason"
grep -q "1 of 2 runs are incomplete" err || fail "the end says so"
expect 2 "lambda_lr" "$glofnd" sweep --config tiny.cfg --vary lamda_lr=1,2 --out typo
expect 2 "in [" "$glofnd" sweep --config tiny.cfg --vary alpha=0.1,2 --out typo
expect 2 "KEY=a,b,c" "$glofnd" sweep --config tiny.cfg --vary alpha --out typo
expect 2 "alpha is varied twice" "$glofnd" sweep --config tiny.cfg --vary alpha=0.1 --vary alpha=0.2 --out typo
expect 2 "a value is repeated" "$glofnd" sweep --config tiny.cfg --vary alpha=0.1,0.1 --out typo
# Data that cannot be opened is reported at once, also without an evaluation. A comma in a SPEC is not one between two.
expect 2 "data-folder_nowhere_seed-1 cannot be trained: " "$glofnd" sweep --config tiny.cfg \
    --vary 'data=shapes:n=90\,classes=4,folder:nowhere' --out typo --dry-run
expect 0 "2 runs, 0 finished" "$glofnd" sweep --config tiny.cfg --vary 'data=shapes:n=90\,classes=4,shapes:n=80' --out typo \
    --dry-run
grep -q "^typo/data-shapes_n_90_classes_4_seed-1 " out || fail "a SPEC with a comma"
# Values that do not go together: the run that has them is named.
expect 2 "detector-none_neighbours-5_seed-1 cannot be trained: neighbours: they are found by averages of" "$glofnd" sweep \
    --config tiny.cfg --set similarity=bank --vary detector=glofnd,none --vary neighbours=0,5 --out typo
expect 2 "given by seeds" "$glofnd" sweep --config tiny.cfg --vary seed=1,2 --out typo
expect 2 "--out is needed" "$glofnd" sweep --config tiny.cfg --vary alpha=0.1
expect 1 "no such file" "$glofnd" sweep --file nowhere.sweep --out typo
# So is an evaluation, and a choice by something that no figure is called.
typo() { "$glofnd" sweep --config tiny.cfg --vary alpha=0.1 --out typo "$@"; }
expect 2 'unknown verb "knnn"' typo --eval knnn
expect 2 '--eval "knn --kk 3" cannot work' typo --eval knn --eval "knn --kk 3"
grep -q "unknown flag --kk" err || fail "why it cannot"
expect 2 "an integer" typo --eval "knn --k 0"
expect 2 'no figure has "nothing" in its name' typo --eval knn --choose nothing
for name in "kNN" "top-1 %" "paper-centre 10 %" "linear mean" "zeroshot imagenet-v2" "fn views glofnd F1"; do
    expect 0 "1 run, 0 finished" typo --set task=clip --eval "zeroshot --data imagenet-v2=shapes:n=9" --choose "$name" --dry-run
done
# Neither is data that cannot be opened or has not what the evaluation needs, nor a task it is not for.
mkdir flat && cp images/*/*.png flat
for pair in "knn --data folder:nowhere|nowhere" "linear --test=folder:nowhere|nowhere" \
    "threshold --data cifar10:nowhere|nowhere" "transfer folder:nowhere --seed 3|nowhere" \
    "transfer --untrained a=shapes:n=9 b=folder:nowhere|nowhere" \
    "fn --data folder:flat|folder:flat has no labels" "knn --data folder:flat|folder:flat has no labels" \
    "knn --data x=shapes:n=9|names no format" "fn --truth captions|--truth captions is for runs of task = clip" \
    "retrieval|it is for runs of task = clip, and these are of task = views" \
    "zeroshot shapes:n=9|it is for runs of task = clip, and these are of task = views"; do
    expect 2 "${pair#*|}" typo --eval knn --eval "${pair%|*}"
    wants "$pair" 2 "--eval \"${pair%|*}\" cannot work: " "; nothing was started"
done
for pair in "threshold|it is for runs of task = views" "retrieval --data a=folder:flat|no captions" \
    "zeroshot shapes:n=9 folder:nowhere|nowhere" "zeroshot --data=shapes:n=9 --retrieval folder:flat|no captions" \
    "fn --truth labels --data folder:flat|has no labels"; do
    expect 2 "${pair#*|}" typo --set task=clip --eval "${pair%|*}"
done
for words in "fn --data folder:flat" "transfer a=shapes:n=9 --metric mean" "zeroshot --datacomp flat" \
    "zeroshot --metric top1 --retrieval shapes:n=9"; do
    expect 0 "1 run, 0 finished" typo --set task=clip --eval "$words" --dry-run
done
expect 2 "nowhere" "$glofnd" sweep --config tiny.cfg --vary data=shapes:n=9,folder:nowhere --eval knn --out typo
[ ! -e typo ] || fail "a plan that cannot work makes nothing"

# Stopped in the middle: the run keeps a checkpoint, and the same command continues from it.
"$glofnd" sweep --config tiny.cfg --set epochs=40 --seeds 1 --out long > out 2> err &
pid=$!
soon "no epoch within a minute" grep -qs '"event": "epoch"' long/seed-1/log.jsonl
kill -TERM $pid
wait $pid
[ $? -eq 1 ] && grep -q "stopped; the same command continues" err || fail "a stopped sweep"
[ ! -e long/seed-1/model.safetensors ] || fail "it was over before it could be stopped"
expect 0 "seed-1 finished" "$glofnd" sweep --config tiny.cfg --set epochs=40 --seeds 1 --out long
grep -q "resumed at step" long/seed-1.log || fail "it was not resumed"

# A command of a file is not run.
for line in 'set = on_epoch=touch ran' 'set = on-epoch = touch ran' 'vary = on_epoch=touch ran,true'; do
    printf 'config = tiny.cfg\n%s\nseeds = 1\n' "$line" > foreign.sweep
    expect 2 'foreign.sweep:2: a file may not name a command to run' "$glofnd" sweep --file foreign.sweep --out foreign
done
[ ! -e ran ] && [ ! -e foreign ] || fail "a command of a file was run"
expect 0 "seed-1 finished" "$glofnd" sweep --config tiny.cfg --set epochs=1 --set start_epoch=0 --seeds 1 \
    --set 'on_epoch=touch ran' --out own
[ -e ran ] || fail "a command of the command line was not run"

# A run that is killed, as for memory, is not blamed on an earlier message of its log.
expect 1 "seed-1 failed; see killed/seed-1.log" "$glofnd" sweep --config tiny.cfg --seeds 1 \
    --set 'on_epoch=kill -9 $PPID' --out killed
wants "a killed run" 1 "it was ended by signal 9, Killed (the system does that when memory runs out)"

# The paper's sweep is a file.
paper=$source/configs/sweep-start-epoch.sweep
expect 0 "18 runs, 0 finished" "$glofnd" sweep --file "$paper" --data shapes:n=300 --out s --dry-run
fnc=$source/configs/sweep-fnc-start-epoch.sweep
expect 0 "21 runs, 0 finished" "$glofnd" sweep --file "$fnc" --data shapes:n=300 --out s --dry-run
wants "starts as shares" 0 "start_epoch-65__seed-3"
