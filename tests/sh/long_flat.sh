# 200,000 steps of a tiny network (GLOFND_LONG_STEPS: another number), with a checkpoint every 1,000: memory, file descriptors,
# threads and disk stay as they are after the first tenth. Logs grow, by one line per epoch and per 1,000 steps.
. "$2/tests/sh/common.inc"
needs_runs
[ -r /proc/self/status ] || skip 'no /proc'
steps=${GLOFND_LONG_STEPS:-200000}
per_epoch=1000
epochs=$((steps / per_epoch))
[ $epochs -ge 20 ] || fail "too few steps: $steps"

"$glofnd" pretrain --quiet --data shapes:n=$((2 * per_epoch)),classes=4,size=8,seed=1 --arch resnet8 --size 8 --head-hidden 8 \
    --head-out 8 --batch 2 --warmup-epochs 0 --threads 1 --workers 2 --epochs $epochs --checkpoint-steps 1000 --log-steps 1000 \
    --out run 2> err &
process=$!

# One line per look: step, resident kB, descriptors, threads, kB of files that are no logs
look() {
    step=$(sed -n 's/.*"event": "step", "step": \([0-9]*\),.*/\1/p' run/log.jsonl 2> /dev/null | tail -n 1)
    memory=$(sed -n 's/^VmRSS:[^0-9]*\([0-9]*\) kB/\1/p' /proc/$process/status 2> /dev/null)
    threads=$(sed -n 's/^Threads:[^0-9]*\([0-9]*\)/\1/p' /proc/$process/status 2> /dev/null)
    files=$(ls /proc/$process/fd 2> /dev/null | wc -l)
    disk=$(du -sk --exclude='log.jsonl' --exclude='events.out*' run 2> /dev/null | cut -f 1)
    [ -n "$step" ] && [ -n "$memory" ] && [ "$files" -gt 0 ] && echo "$step $memory $files $threads ${disk:-0}"
}
while kill -0 $process 2> /dev/null; do
    look >> looks
    sleep 0.25
done
wait $process || fail "training failed: $(tail -n 3 err)"

# The largest of each number in [10 %, 50 %) of the steps, and in the rest. While a checkpoint is written there are two; a look
# may see them in one half only, and the final weights in the second.
checkpoint=$(du -sk "run/checkpoints/$(newest run)" | cut -f 1)
awk -v steps="$steps" -v disk=$((2 * checkpoint + 64)) '
    $1 >= steps / 10 { half = $1 >= steps / 2; n[half]++; for (k = 2; k <= 5; k++) if ($k > most[half, k]) most[half, k] = $k }
    END {
        if (n[0] < 3 || n[1] < 3) { print "too few looks:", n[0], n[1]; exit 1 }
        split("x memory/kB descriptors threads disk/kB", name, " ")
        split("0 1024 0 0 " disk, more, " ")
        for (k = 2; k <= 5; k++) {
            printf "%-12s %8d in the first half, %8d in the second\n", name[k], most[0, k], most[1, k]
            if (most[1, k] > most[0, k] + more[k]) { print "  it grows"; bad = 1 }
        }
        exit bad
    }' looks > out || fail "something grows over $steps steps"
cat out
[ "$(newest run)" = "step-$steps" ] || fail "the last checkpoint is $(newest run)"
[ "$(ls run/checkpoints | wc -l)" -le 2 ] || fail "checkpoints stay: $(ls run/checkpoints)"
lines=$(wc -l < run/log.jsonl)
[ "$lines" -le $((2 * epochs + 10)) ] || fail "$lines lines of log for $epochs epochs"
echo "passed: $steps steps"
