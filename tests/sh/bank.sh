# Experimental flags in training: the controls, averages over views and visits (similarity bank), two levels, neighbours. Each has
# an effect, and not before the detector begins; a resumed run has the same bits, with anchors in memory and mapped from a file.
. "$2/tests/sh/common.inc"
needs_runs
data=shapes:n=96,classes=4,size=16,seed=3
losses() { grep '"event": "step"' "$1/log.jsonl" | sed 's/.*"loss": \([^,]*\).*/\1/'; }
epochs() { grep '"event": "epoch"' "$1/log.jsonl" | sed "s/.*\"$2\": \([^,]*\).*/\1/"; }
glo="--detector glofnd --alpha 0.2 --lambda-init quantile --epochs 3 --start-epoch 1 --log-steps 1"
two="--similarity bank --action attract --attract-alpha 0.02"
near="--neighbours 2 --neighbour-rows 40"

train plain $glo
for flags in "--flag-probability 0.2" "--require-label 1" "--similarity bank" "--similarity bank --bank-momentum 0" "$two" \
    "--similarity bank --neighbours 3 --neighbour-rows 50 --neighbour-share 0.5"; do
    run=$(echo "$flags" | tr -cd 'a-z0-9')
    train "$run" $glo $flags
    losses plain | head -n 6 > a
    losses "$run" | head -n 6 | cmp -s a - || fail "$flags: other bits before the detector begins"
    losses plain > a
    losses "$run" | cmp -s a - && fail "$flags: no effect"
done
epochs requirelabel1 precision | tail -n 1 | awk '{ exit !($1 > 0.999999) }' || fail "require_label: labels of a flag differ"
awk -v all="$(epochs plain flagged | tail -n 1)" -v some="$(epochs flagprobability02 flagged | tail -n 1)" \
    'BEGIN { exit !(some > 0.1 * all && some < 0.4 * all) }' || fail "flag_probability 0.2: not a fifth of the pairs"

grep '"event": "step"' similaritybankneighbours3neighbourrows50neighbourshare05/log.jsonl | tail -n 1 |
    grep -q '"neighbours": [1-9.]' || fail "neighbours: no number in the log"

expect 0 'do not apply' "$glofnd" eval threshold similaritybank --anchors 20 --samples 64
expect 0 'do not apply' "$glofnd" eval fn similaritybank

# Options that have no effect are named; those of the runs above have one.
expect 0 'note: attract_alpha has no effect without action = attract' "$glofnd" pretrain --data $data --arch resnet8 --batch 24 \
    --epochs 1 --attract-alpha 0.001 --out idle
grep -q 'no effect' err && [ "$(grep -c 'no effect' err)" = 1 ] || fail "idle options: one note expected"

# Stopped after a checkpoint and continued.
train whole $glo $two $near --checkpoint-steps 4
for store in memory file; do
    (train half-$store $glo $two $near --checkpoint-steps 4 --store $store) &
    process=$!
    while [ -z "$(newest half-$store)" ] && kill -0 $process 2> /dev/null; do sleep 0.05; done
    kill -9 $(cat /proc/$process/task/$process/children 2> /dev/null) 2> /dev/null
    wait $process
    expect 0 finished "$glofnd" pretrain --out half-$store --resume --quiet
    cmp half-$store/model.safetensors whole/model.safetensors || fail "store $store: other weights after a kill"
    cmp half-$store/checkpoints/*/anchors.glofnd whole/checkpoints/*/anchors.glofnd || fail "store $store: other anchors"
done
exit 0
