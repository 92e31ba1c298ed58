# A run that is killed at random moments and resumed each time ends as the run that was left alone: weights, checkpoint and log
# equal byte for byte, but for the times in the log. With SIGKILL, and with SIGINT, which leaves a checkpoint and exit code 0;
# with anchors in memory, and mapped from a file, which must not be seen in the results.
. "$2/tests/sh/common.inc"
needs_runs
seed=${SEED:-$$}
echo "SEED=$seed"
now() { date +%s.%N; }

small='--data shapes:n=192,classes=6,size=16,seed=1 --arch resnet8 --head-hidden 64 --head-out 32 --batch 16 --epochs 8'
small="$small --start-epoch 1 --checkpoint-steps 5 --log-steps 3"

events=events.out.tfevents.glofnd
expect_same() { # A B WHAT
    equal "$@"
    grep -v '^store =' "$1/config.cfg" >a.cfg
    grep -v '^store =' "$2/config.cfg" >b.cfg
    cmp a.cfg b.cfg || fail "$3: configurations differ"
    [ "$(wc -c <"$1/$events")" = "$(wc -c <"$2/$events")" ] || fail "$3: event files differ in length"
}

# Until RUN has a checkpoint it did not have (every other kill: so the kills fall at different steps whatever the machine's
# speed), and then up to LONGEST seconds more.
wait_to_kill() { # RUN PROCESS LONGEST TURN
    had=$(newest "$1")
    while [ $(($4 % 2)) = 0 ] && [ "$(newest "$1")" = "$had" ] && kill -0 "$2" 2>/dev/null; do sleep 0.01; done
    sleep "$(awk -v s=$seed -v t="$3" 'BEGIN {srand(s); rand(); printf "%.3f", t * rand()}')"
}

# killed NAME LONGEST FLAGS...: kills ten times and then lets it finish. 1: it was done before.
killed() {
    run=$1 longest=$2
    shift 2
    rm -rf "$run"
    kills=0
    : >"$run.err"
    while [ $kills -lt 10 ]; do
        seed=$((seed + 1))
        "$glofnd" pretrain "$@" --out "$run" --resume 2>>"$run.err" &
        process=$!
        wait_to_kill "$run" $process "$longest" $kills
        kill -9 $process 2>/dev/null || return 1
        wait $process 2>/dev/null
        [ $? = 137 ] || return 1
        kills=$((kills + 1))
    done
    "$glofnd" pretrain "$@" --out "$run" --resume 2>>"$run.err" || fail "$run: exit $? after kills"
}

compare() { # NAME STORE FLAGS...: the run that is killed has its anchors there
    name=$1 store=$2
    shift 2
    begin=$(now)
    "$glofnd" pretrain "$@" --out "$name" 2>/dev/null || fail "$name: exit $?"
    longest=$(awk -v a="$begin" -v b="$(now)" 'BEGIN {print 0.15 * (b - a)}')
    for attempt in 1 2 3 4 5; do
        killed "$name-killed" "$longest" "$@" --store "$store" && break
        [ $attempt = 5 ] && fail "$name: never killed ten times"
        longest=$(awk -v t="$longest" 'BEGIN {print t / 1.5}')
    done
    steps=$(grep -o 'resumed at step [0-9]*' "$name-killed.err" | sort -u | wc -l)
    echo "$name: ten kills, $steps different steps resumed at"
    [ "$steps" -ge 3 ] || fail "$name: resumed at $steps different steps only: $(cat "$name-killed.err")"
    expect_same "$name" "$name-killed" "$name"
}

compare glofnd memory $small
compare ring file $small --learner ring --ring-rows 100 --optimizer adamw --lr 0.001 --lr-scaling none

# SIGINT in the middle: exit 0, a checkpoint of that step, and the end is the same.
"$glofnd" pretrain $small --out interrupted 2>interrupted.err &
process=$!
while ! [ -d interrupted/checkpoints ] && kill -0 $process 2>/dev/null; do sleep 0.02; done
kill -INT $process
wait $process
code=$?
[ $code = 0 ] || fail "SIGINT: exit $code"
grep -q '^stopped' interrupted.err || fail "SIGINT: $(cat interrupted.err)"
[ -e interrupted/model.safetensors ] && fail 'SIGINT: weights of an unfinished run'
ls interrupted/checkpoints/step-*/DONE >/dev/null || fail 'SIGINT: no checkpoint'
"$glofnd" pretrain --out interrupted --resume 2>>interrupted.err || fail "SIGINT: exit $? at resume"
grep -q 'resumed at step' interrupted.err || fail "SIGINT: not resumed: $(cat interrupted.err)"
expect_same glofnd interrupted SIGINT

echo "killed and interrupted runs end as the others do"
