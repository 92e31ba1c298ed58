# run_writers.sh - several processes in one folder: evaluations at the same time, two sweeps, a log that is removed.
. "$2/tests/sh/common.inc"
needs_runs
data=shapes:n=32,classes=4,size=8,seed=1
export OMP_NUM_THREADS=1
train finished --epochs 1

# ----- a log that is removed during training is written again -----
"$glofnd" pretrain --quiet --out x --data $data --arch resnet8 --batch 16 --head-hidden 8 --head-out 8 --epochs 20000 \
    --log-steps 1 --checkpoint-steps 20 --warmup-epochs 0 > x.out 2>&1 &
training=$!
until_there() {
    for i in $(seq 600); do
        ls $1 > listed 2> /dev/null && return
        sleep 0.1
    done
}
until_there "x/checkpoints/step-*/DONE"
rm x/log.jsonl
until_there x/log.jsonl
kill -INT "$training"
wait "$training"
grep -q "removed or replaced during training" x.out || fail "the deleted log is not noticed: $(cat x.out)"
last=$(newest x)
[ "$(grep -c '"event": "step"' x/log.jsonl)" = "${last#step-}" ] || fail "lines of the log are lost: $last"

# ----- two writers -----
cp -r finished y
for i in 1 2 3 4 5 6; do "$glofnd" eval knn y --k "$i" > "out.$i" 2> "err.$i" & done
wait
[ "$(grep -c '"event": "knn"' y/eval.jsonl)" = 6 ] || fail "lines of eval.jsonl are lost: $(cat y/eval.jsonl err.*)"
mkdir s
S="--data $data --set arch=resnet8 --set batch=16 --set epochs=3000 --set warmup_epochs=0"
S="$S --set head_hidden=8 --set head_out=8 --seeds 1 --out s"
"$glofnd" sweep $S > sweep.out 2> sweep.err &
first=$!
for i in $(seq 300); do
    [ -e s/sweep.jsonl ] && break
    sleep 0.1
done
expect 1 "s is in use by another process; two sweeps need two folders" "$glofnd" sweep $S
kill -INT "$first"
wait "$first" || true
