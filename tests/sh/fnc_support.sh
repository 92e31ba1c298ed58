# FNC's support views in training: they decide the flags, do not move the weights otherwise, and a resumed run has the same bits.
. "$2/tests/sh/common.inc"
needs_runs
data=shapes:n=96,classes=4,size=16,seed=3
losses() { grep '"event": "step"' "$1/log.jsonl" | sed 's/.*"loss": \([^,]*\).*"kept": \([^,]*\),.*/\1 \2/'; }
fnc="--detector fnc --fnc-rule topk --epochs 3 --start-epoch 1 --log-steps 1"

train plain $fnc
for flags in "--fnc-support 1" "--fnc-support 3" \
    "--fnc-rule threshold --fnc-threshold 0.5 --fnc-support 2"; do
    run=$(echo "$flags" | tr -cd 'a-z0-9')
    train "$run" $fnc $flags
    losses plain | head -n 6 > a
    losses "$run" | head -n 6 | cmp -s a - || fail "$flags: other bits before the detector begins"
    losses plain > a
    losses "$run" | cmp -s a - && fail "$flags: no effect"
    case $flags in
    *threshold*) ;;
    *)
        losses "$run" | tail -n 3 | cut -d' ' -f2 > kept
        losses plain | tail -n 3 | cut -d' ' -f2 | cmp - kept || fail "$flags: another k"
        ;;
    esac
done

# Killed after a checkpoint and continued: the same bits, wherever it was.
train whole $fnc --fnc-support 3 --checkpoint-steps 4
(train half $fnc --fnc-support 3 --checkpoint-steps 4) &
process=$!
while [ -z "$(newest half)" ] && kill -0 $process 2> /dev/null; do sleep 0.05; done
kill -9 $(cat /proc/$process/task/$process/children 2> /dev/null) 2> /dev/null
wait $process
expect 0 finished "$glofnd" pretrain --out half --resume --quiet
cmp half/model.safetensors whole/model.safetensors || fail "other weights after a kill"
expect 2 "fnc_support: support views are for task views" "$glofnd" pretrain --task clip --data "$data" --out clip --detector fnc \
    --fnc-rule topk --fnc-support 1
exit 0
