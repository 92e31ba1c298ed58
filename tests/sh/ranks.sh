# Several ranks as users start them: mpirun glofnd pretrain. A run of 2 ranks that is killed, stopped, held up and loses a rank,
# one after the other, ends as the one that was left alone, byte for byte; a checkpoint of R ranks continues with R' ranks and the
# losses of one. The numbers of a step on R ranks are compared by mpi_step and mpi_train; what ranks refuse to do by
# ranks_refused.sh.
. "$2/tests/sh/ranks.inc"

# ----- one run, interrupted in every way -----

long='--epochs 40 --checkpoint-steps 16'     # enough steps for all that follows on a fast machine; checkpoints take the time
call ranks 2 $images $long --out two
wants 'two ranks' 0
[ "$(grep -c '^finished' err)" = 1 ] || fail 'two ranks: the end is not reported once'

# again FLAGS...: the run continues, from a checkpoint
again() {
    : >tried.err
    start tried 2 --resume "$@"
    grep -q 'resumed at step' tried.err || fail "not resumed: $(cat tried.err)"
}
start tried 2 $images $long
kill -9 $mpirun $(cat pid.0 pid.1)
wait $mpirun 2>/dev/null && fail 'all ranks killed: exit 0'

again
kill -9 "$(cat pid.1)"
ended 10 "$(cat pid.0)" $mpirun || fail 'one rank killed: the others go on'
wait $mpirun 2>/dev/null && fail 'one rank killed: exit 0'

# mpirun hands SIGUSR1 on: all stop with a checkpoint.
again
kill -USR1 $mpirun
wait $mpirun || fail "SIGUSR1: exit $?: $(cat tried.err)"
grep -q '^stopped' tried.err || fail "SIGUSR1: $(cat tried.err)"
[ "$(grep -c '^stopping' tried.err)" = 1 ] || fail "SIGUSR1: $(cat tried.err)"
[ -e tried/model.safetensors ] && fail 'SIGUSR1: weights of an unfinished run'

# One process on a signal of its own: all stop together, and mpirun exits 0.
again
kill -INT "$(cat pid.1)"
wait $mpirun || fail "SIGINT of a rank: exit $?: $(cat tried.err)"
grep -q '^stopped' tried.err || fail "SIGINT of a rank: $(cat tried.err)"

# A rank that falls silent for longer than allowed is named, once, and ends all.
again --rank-timeout 3
kill -STOP "$(cat pid.1)"
ended 30 "$(cat pid.0)" "$(cat pid.1)" $mpirun || fail "a silent rank: the others wait: $(cat tried.err)"
wait $mpirun 2>/dev/null && fail 'a silent rank: exit 0'
[ "$(grep -c '^glofnd pretrain: rank 1 on .* has not been heard of for .* seconds' tried.err)" = 1 ] ||
    fail "a silent rank: not reported once: $(cat tried.err)"
grep -q -- '--resume' tried.err || fail "a silent rank: it does not say how to go on: $(cat tried.err)"

# One that is slower than that but comes back changes nothing but time.
again --rank-timeout 60
kill -STOP "$(cat pid.1)"
sleep 1.5
kill -CONT "$(cat pid.1)"
wait $mpirun || fail "a rank held up: exit $?: $(cat tried.err)"
equal two tried 'after all interruptions'

# Of SIGTERM mpirun makes SIGTERM for all, and SIGKILL the given seconds later: enough for a checkpoint, unless others want
# this disk.
for seconds in 2 6 20; do
    rm -rf ordered ordered.err
    export OMPI_MCA_odls_base_sigkill_timeout=$seconds
    start ordered 2 $images --epochs 20000
    kill -TERM $mpirun
    ended 70 $mpirun "$(cat pid.0)" "$(cat pid.1)" || fail 'SIGTERM: it continues'
    wait $mpirun 2>/dev/null
    grep -q '^stopped' ordered.err && break
    [ $seconds = 20 ] && fail "SIGTERM: $(cat ordered.err)"
done
unset OMPI_MCA_odls_base_sigkill_timeout

# ----- other numbers of ranks -----

call "$glofnd" pretrain $images --epochs 8 --out one
wants 'one rank' 0
call ranks 2 $images --epochs 8 --out pair
wants 'two ranks' 0
close one pair '2 ranks' || fail '2 ranks: losses differ'
chained one $images --epochs 8
for name in model optim; do
    a=$(wc -c <one/checkpoints/step-64/$name.safetensors) b=$(wc -c <chain/checkpoints/step-64/$name.safetensors)
    [ "$a" = "$b" ] || fail "chain: $name.safetensors has $b bytes, not $a"
done

# ----- images and captions -----

call ranks 2 $pairs --epochs 8 --out pairs
wants 'images and captions' 0
start pairs-killed 2 $pairs --epochs 8
kill -9 $mpirun $(cat pid.0 pid.1)
wait $mpirun 2>/dev/null
call ranks 2 --out pairs-killed --resume
wants 'images and captions, killed' 0 'resumed at step'
equal pairs pairs-killed 'images and captions, killed'
call "$glofnd" pretrain $pairs --epochs 8 --out pairs-one
wants 'images and captions on one rank' 0
close pairs-one pairs 'images and captions, 2 ranks' || fail 'images and captions: losses differ'
# Thresholds in the log are those of all ranks' anchors.
seen="$pairs --epochs 4 --start-epoch 0 --lambda-init quantile"
call "$glofnd" pretrain $seen --out seen-one
wants 'thresholds on one rank' 0
call ranks 2 $seen --out seen
wants 'thresholds on two ranks' 0
lambdas() { sed -n 's/.*"lambda_image": \([-0-9.e]*\), "lambda_text": \([-0-9.e]*\),.*/\1 \2/p' "$1/log.jsonl"; }
lambdas seen-one >a.lambdas
lambdas seen >b.lambdas
paste -d ' ' a.lambdas b.lambdas | awk '
    function far(x, y) { return x - y > 1e-4 || y - x > 1e-4 }
    { if (far($1, $3) || far($2, $4)) bad++; if ($1 != $2) differ++ }
    END { exit bad > 0 || NR != 4 || !differ }' || fail "thresholds of 2 ranks: $(paste a.lambdas b.lambdas)"

echo "killed, stopped, held up and resumed ranks end as the others do"
