# A reader of messages that ends (`2>&1 | tee log` on Ctrl-C, `| head`, a log collector that dies) does not end the work.
. "$2/tests/sh/common.inc"
needs_runs
# no_reader: returns when a write to stdout fails
no_reader() {
    trap '' PIPE
    while echo 2> /dev/null; do sleep 0.01; done
}
small='--data shapes:n=48,classes=4,size=16,seed=1 --arch resnet8 --head-hidden 32 --head-out 16 --batch 16'
small="$small --threads 1 --workers 1"

# ----- training with no reader from the beginning: it finishes -----
{
    no_reader
    "$glofnd" pretrain $small --epochs 3 --log-steps 1 --out whole 2>&1
    echo $? > code
} | :
[ "$(cat code)" = 0 ] || fail "a run without a reader ended with $(cat code)"
[ -e whole/model.safetensors ] || fail "a run without a reader has no model"

# ----- the reader ends, then comes the signal to stop: the checkpoint is written -----
mkfifo messages
head -n 1 < messages > first &
"$glofnd" pretrain $small --epochs 100000 --checkpoint-minutes 1000 --log-steps 1 --out stopped 2> messages &
run=$!
until [ "$(wc -l 2> /dev/null < stopped/log.jsonl || echo 0)" -gt 30 ]; do
    kill -0 $run 2> /dev/null || fail "training ended with its reader: $(cat stopped/log.jsonl | tail -n 1)"
    sleep 0.05
done
kill -INT $run
wait $run
code=$?
[ "$code" = 0 ] || fail "stopped without a reader: exit code $code"
last=$(sed -n 's/.*"event": "step", "step": \([0-9]*\),.*/\1/p' stopped/log.jsonl | tail -n 1)
[ "$(newest stopped)" = "step-$last" ] || fail "stopped at step $last, the newest checkpoint is $(newest stopped)"

# ----- a filter ends quietly, as by SIGPIPE; a full disk is an error -----
{
    no_reader
    "$glofnd" help pretrain 2> err
    echo $? > code
} | :
[ "$(cat code)" = 141 ] || fail "a filter without a reader ended with $(cat code)"
[ ! -s err ] || fail "a filter without a reader says: $(cat err)"
if [ -e /dev/full ]; then
    "$glofnd" info > /dev/full 2> err
    [ $? = 1 ] || fail "a full disk is no error"
    grep -q 'cannot be written' err || fail "a full disk: $(cat err)"
fi
echo passed
