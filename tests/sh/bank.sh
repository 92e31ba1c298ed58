# Flags by averages over views and visits (similarity bank), and neighbours, in training. Each has an effect, and not before the
# detector begins; a resumed run has the same bits, with anchors in memory and mapped from a file.
. "$2/tests/sh/common.inc"
needs_runs
data=shapes:n=96,classes=4,size=16,seed=3
losses() { grep '"event": "step"' "$1/log.jsonl" | sed 's/.*"loss": \([^,]*\).*/\1/'; }
glo="--detector glofnd --alpha 0.2 --lambda-init quantile --epochs 3 --start-epoch 1 --log-steps 1"
bank="--similarity bank --action attract"
near="--neighbours 2 --neighbour-rows 40"

train plain $glo
for flags in "--similarity bank" "--similarity bank --bank-momentum 0" "$bank" \
    "--similarity bank --neighbours 3 --neighbour-rows 50 --neighbour-share 0.5"; do
    run=$(echo "$flags" | tr -cd 'a-z0-9')
    train "$run" $glo $flags
    losses plain | head -n 6 > a
    losses "$run" | head -n 6 | cmp -s a - || fail "$flags: other bits before the detector begins"
    losses plain > a
    losses "$run" | cmp -s a - && fail "$flags: no effect"
done
grep '"event": "step"' similaritybankneighbours3neighbourrows50neighbourshare05/log.jsonl | tail -n 1 |
    grep -q '"neighbours": [1-9.]' || fail "neighbours: no number in the log"

expect 0 'do not apply' "$glofnd" eval threshold similaritybank --anchors 20 --samples 64
expect 0 'do not apply' "$glofnd" eval fn similaritybank

# Options that have no effect are named; those of the runs above have one.
expect 0 'note: attract_omega has no effect without action = attract' "$glofnd" pretrain --data $data --arch resnet8 --batch 24 \
    --epochs 1 --attract-omega 0.001 --out idle
grep -q 'no effect' err && [ "$(grep -c 'no effect' err)" = 1 ] || fail "idle options: one note expected"

# Stopped after a checkpoint and continued.
train whole $glo $bank $near --checkpoint-steps 4
for store in memory file; do
    (train half-$store $glo $bank $near --checkpoint-steps 4 --store $store) &
    process=$!
    while [ -z "$(newest half-$store)" ] && kill -0 $process 2> /dev/null; do sleep 0.05; done
    kill -9 $(cat /proc/$process/task/$process/children 2> /dev/null) 2> /dev/null
    wait $process
    expect 0 finished "$glofnd" pretrain --out half-$store --resume --quiet
    cmp half-$store/model.safetensors whole/model.safetensors || fail "store $store: other weights after a kill"
    cmp half-$store/checkpoints/*/anchors.glofnd whole/checkpoints/*/anchors.glofnd || fail "store $store: other anchors"
done
exit 0
