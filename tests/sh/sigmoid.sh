# Loss sigmoid learns its temperature and its bias with the weights, for images and for pairs: a run that continues a checkpoint ends
# with the bits of one that was left alone. With --scale-lr 0 both stay.
. "$2/tests/sh/common.inc"
needs_runs
common='--arch resnet8 --batch 16 --epochs 3 --start-epoch 1 --threads 1 --workers 1 --optimizer adamw --lr 0.002 --lr-scaling none
        --loss sigmoid --checkpoint-epochs 1 --log-steps 1 --quiet'
images="--data shapes:n=64,classes=4,size=16,seed=1 --head-hidden 16 --head-out 8 $common"
pairs="--data shapes:n=64,classes=4,size=16,seed=2 --task clip --embed-dim 8 --text-width 16 --text-layers 1 --text-heads 2 --context 16
       $common"
values() { sed -n 's/.*"event": "step".*"'"$2"'": \([-0-9.e]*\).*/\1/p' "$1/log.jsonl"; }

for kind in images pairs; do
    eval "flags=\$$kind"
    expect 0 finished "$glofnd" pretrain $flags --out $kind
    # The bias begins at -10, where the loss is that of the positives: it rises at first, and moves in every step.
    values $kind bias | awk '{ bad += $1 == last || (NR <= 4 && $1 < last); last = $1 } BEGIN { last = -10 } END { exit bad > 0 || NR != 12 }' ||
        fail "$kind: bias $(values $kind bias | tr '\n' ' ')"
    mkdir -p $kind-half/checkpoints
    cp -r $kind/checkpoints/step-4 $kind-half/checkpoints/
    cp $kind/config.cfg $kind/log.jsonl $kind-half/
    [ ! -e $kind/vocab.txt ] || cp $kind/vocab.txt $kind-half/
    expect 0 "resumed at step 4" "$glofnd" pretrain --out $kind-half --resume --quiet
    for file in model.safetensors optim.safetensors anchors.glofnd; do
        cmp $kind/checkpoints/step-12/$file $kind-half/checkpoints/step-12/$file || fail "$kind: $file differs"
    done
    for value in '"bias"' '"bias_m"' '"bias_v"' '"log_scale"' '"log_scale_m"' '"log_scale_v"'; do
        grep -o "$value: [-0-9.e+]*" $kind/checkpoints/step-12/state.json > a || fail "$kind: no $value in state.json"
        grep -o "$value: [-0-9.e+]*" $kind-half/checkpoints/step-12/state.json | cmp - a || fail "$kind: $value differs"
    done
done
values pairs tau | sort -u | wc -l | grep -q '^12$' || fail "pairs: the temperature stays"

expect 0 finished "$glofnd" pretrain $images --scale-lr 0 --out fixed
[ -z "$(values fixed bias)" ] || fail "scale_lr 0: the bias moves"
exit 0
