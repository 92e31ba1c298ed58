# The end of an epoch: kNN while training (eval_every), a command (on_epoch), older checkpoints (keep_checkpoints,
# checkpoint_epochs). None of them changes a bit of the training, and a failing command does not end it.
. "$2/tests/sh/common.inc"
needs_runs
data=shapes:n=64,classes=4,size=16,seed=3
epochs='--epochs 6 --checkpoint-steps 4 --log-steps 1'

train plain $epochs
cat > hook.sh <<'HOOK'
echo "$GLOFND_EPOCH|$GLOFND_EPOCHS|$GLOFND_STEP|$GLOFND_LOSS|${GLOFND_KNN-none}|$GLOFND_RUN" >> hook.out
cat >> hook.in
echo said by the command
[ "$GLOFND_EPOCH" != 3 ]
HOOK
train full $epochs --eval-every 2 --keep-checkpoints 3 --on-epoch 'sh hook.sh'
grep -q 'said by the command' out && fail "output of the command among the results"
wants 'a failing command' 0 'said by the command' 'exit code 1 after epoch 4; training continues'
wants 'an evaluated run' 0 'eval_every: kNN of 40 images of'

# The command's variables are the record of the epoch.
[ "$(wc -l < hook.out)" -eq 6 ] || fail "the command runs after each of 6 epochs: $(cat hook.out)"
[ -s hook.in ] && fail "the command has an input"
[ "$(cut -d'|' -f1,2,3,6 hook.out | tr '\n' ' ')" = '0|6|4|full 1|6|8|full 2|6|12|full 3|6|16|full 4|6|20|full 5|6|24|full ' ] ||
    fail "variables: $(cat hook.out)"
[ "$(cut -d'|' -f5 hook.out | grep -c none)" -eq 3 ] || fail "kNN of every second epoch: $(cat hook.out)"
[ "$(grep -c '"knn": ' full/log.jsonl)" -eq 3 ] || fail "kNN in log.jsonl"
last_knn() { sed -n 's/.*"knn": \([^,}]*\).*/\1/p' "$1/log.jsonl" | tail -n 1; }
[ "$(last_knn full)" = "$(tail -n 1 hook.out | cut -d'|' -f5)" ] || fail "another kNN in the log"
grep -q knn plain/log.jsonl && fail "kNN that was not asked for"
grep -aq 'eval/knn_top1' full/events.out.tfevents.glofnd || fail "kNN is not in TensorBoard's file"
grep -aq 'eval/knn_top1' plain/events.out.tfevents.glofnd && fail "kNN that was not asked for, in TensorBoard's file"
"$glofnd" compare plain full > out 2> err || fail "compare"

# The same bits, and the evaluation at the end is that of `eval knn`.
cmp plain/model.safetensors full/model.safetensors || fail "weights differ"
timeless plain > a.log
timeless full | sed 's/, "knn": [^,}]*//' > b.log
cmp a.log b.log || fail "logs differ"

# Checkpoints: the newest three, each complete; a run that resumes keeps as many as it is told.
[ "$(ls full/checkpoints | sort -V | tr '\n' ' ')" = 'step-16 step-20 step-24 ' ] || fail "checkpoints: $(ls full/checkpoints)"
for step in 16 20 24; do [ -s full/checkpoints/step-$step/DONE ] || fail "step-$step has no DONE"; done
[ "$(ls plain/checkpoints)" = step-24 ] || fail "more than one checkpoint by default"
mkdir full/checkpoints/step-18 && echo torn > full/checkpoints/step-18/state.json      # as a kill leaves it
call "$glofnd" pretrain --out full --resume --epochs 8 --keep-checkpoints 2 --quiet
wants 'a resumed run' 0 "give it on the command line: --on-epoch 'sh hook.sh'"
[ "$(ls full/checkpoints | sort -V | tr '\n' ' ')" = 'step-28 step-32 ' ] || fail "after a resume: $(ls full/checkpoints)"
[ "$(wc -l < hook.out)" -eq 6 ] || fail "a command that only config.cfg names was run"
# And those after some epochs, until a run that resumes is told otherwise; a checkpoint is made for it where there is none.
train chosen --epochs 6 --checkpoint-minutes 60 --checkpoint-epochs 2,4,9
[ "$(ls chosen/checkpoints | sort -V | tr '\n' ' ')" = 'step-8 step-16 step-24 ' ] || fail "chosen: $(ls chosen/checkpoints)"
for step in 8 16 24; do [ -s chosen/checkpoints/step-$step/DONE ] || fail "chosen: step-$step has no DONE"; done
cmp plain/model.safetensors chosen/model.safetensors || fail "checkpoints change the training"
call "$glofnd" pretrain --out chosen --resume --epochs 8 --checkpoint-epochs 4 --quiet
wants 'a resumed run with one of them' 0 'resumed at step 24'
[ "$(ls chosen/checkpoints | sort -V | tr '\n' ' ')" = 'step-16 step-32 ' ] || fail "chosen, resumed: $(ls chosen/checkpoints)"
call "$glofnd" pretrain --out chosen --resume --checkpoint-epochs= --quiet
wants 'a finished run without them' 0
[ "$(ls chosen/checkpoints)" = step-32 ] || fail "chosen, finished: $(ls chosen/checkpoints)"
call "$glofnd" pretrain --out chosen --resume --checkpoint-epochs 2,x
wants 'no epoch' 2 'checkpoint_epochs: "x" in "2,x"; expected integers in [1, 1000000] with commas'

echo 'on_epoch = touch ran' > hook.cfg
train file --config hook.cfg --epochs 1
wants 'a command in a file' 0 "give it on the command line: --on-epoch 'touch ran'"
[ ! -e ran ] || fail "a command that only a file names was run"
train line --epochs 1 --on-epoch 'touch ran' --config hook.cfg
[ -e ran ] || fail "a command of the command line, before a file"

# Resumed from an older checkpoint, an evaluated run becomes the one that was not stopped; its last evaluation is that of
# `eval knn`.
train again $epochs --eval-every 2 --keep-checkpoints 9
cp -r again stopped
rm -rf stopped/checkpoints/step-2? stopped/checkpoints/step-16 stopped/model.safetensors
call "$glofnd" pretrain --out stopped --resume --quiet
wants 'an older checkpoint' 0 'resumed at step 12'
cmp again/model.safetensors stopped/model.safetensors || fail "resumed: weights differ"
same_state again stopped || fail "resumed: checkpoints differ"
timeless again > a.log
timeless stopped > b.log
cmp a.log b.log || fail "resumed: logs differ"
call "$glofnd" eval knn again --quiet
wants 'eval knn' 0 'top-1'
[ "$(sed -n 's/.*"top1": \([^,}]*\).*/\1/p' again/eval.jsonl)" = "$(last_knn again)" ] || fail "eval knn: $(cat again/eval.jsonl)"

# Scores of evaluations have files of their own for TensorBoard: those of training are cut by a resume.
grep -aq 'knn/knn k=20/top1' again/eval/events.out.tfevents.* || fail "eval knn is not in TensorBoard's files"
[ "$(ls again/eval | wc -l)" -eq 1 ] || fail "one evaluation, one file"
call "$glofnd" eval knn again --quiet --untrained
cat again/eval/* | grep -aq 'knn/knn untrained k=20/top1' || fail "the untrained network has the same name"
rm -rf again/eval && echo mine > again/eval
call "$glofnd" eval knn again --quiet
wants 'a file of that name' 1 'again/eval/'
[ "$(grep -c knn again/eval.jsonl)" -eq 3 ] || fail "the record was not written"

# What cannot work is said before anything is written.
mkdir flat && "$glofnd" data export $data --folder --out images > /dev/null 2>&1
find images -name '*.png' -exec cp {} flat/ \;
if [ -n "$(ls flat)" ]; then
    call "$glofnd" pretrain --quiet --data folder:flat --arch resnet8 --batch 16 --epochs 2 --eval-every 1 --out nolabels
    [ "$code" != 0 ] || fail "eval_every without labels"
    wants 'eval_every without labels' "$code" 'eval_every: ' labels
    [ ! -e nolabels ] || fail "a refused run left a folder"
fi
call "$glofnd" pretrain --quiet --data $data --arch resnet8 --epochs 2 --batch 16 --keep-checkpoints 0 --out x
wants 'no checkpoint to keep' 2 'keep_checkpoints' '[1, 10000]'
exit 0
