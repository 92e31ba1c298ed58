# Several ranks as users start them: mpirun glofnd pretrain. A run of 2 ranks that is killed, stopped or held up ends as the one
# that was left alone, byte for byte; a checkpoint of R ranks goes on with R' ranks and the losses of one; the death of one rank
# ends all; and whatever makes training together impossible is said before it begins, once, with the number of the rank.
# The numbers of a step on R ranks are compared by mpi_step and mpi_train.
set -u
glofnd=$1/glofnd
[ -x "$glofnd" ] || exit 77
"$glofnd" info | grep -q 'oneDNN yes' || exit 77
"$glofnd" info | grep -q 'JSON lines yes' || exit 77
command -v mpirun >/dev/null || { echo 'skipped: there is no mpirun'; exit 77; }
"$glofnd" info | grep -q '^ranks by .*MPI v' || { echo 'skipped: built without MPI'; exit 77; }
# As root, and on fewer cores than ranks.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
export OMPI_MCA_mpi_yield_when_idle=1
export OMPI_MCA_btl_vader_single_copy_mechanism=none OMP_NUM_THREADS=1 OMP_WAIT_POLICY=passive
scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT
trap 'exit 1' HUP INT TERM
cd "$scratch" || exit 1
export glofnd
failures=0
fail() { echo "FAILED: $*"; failures=$((failures + 1)); }

# What mpirun starts: leaves its number, and gives rank 1 the flags in ODD besides.
cat >rank.sh <<'END'
echo $$ >"pid.$OMPI_COMM_WORLD_RANK"
[ "$OMPI_COMM_WORLD_RANK" = 1 ] && set -- "$@" ${ODD:-}
exec "$glofnd" pretrain "$@"
END
ranks() { # COUNT FLAGS...
    count=$1
    shift
    rm -f pid.*
    mpirun -np "$count" sh rank.sh "$@"
}

images='--data shapes:n=128,classes=4,size=16,seed=1 --arch resnet8 --head-hidden 32 --head-out 16 --batch 16'
images="$images --threads 1 --workers 1 --start-epoch 1 --alpha 0.1 --optimizer sgd --lr 0.0003 --lr-scaling none"
images="$images --checkpoint-steps 4 --log-steps 3"
pairs='--data shapes:n=64,classes=4,size=16,seed=2 --task clip --arch resnet8 --embed-dim 16 --text-width 32 --text-layers 1'
pairs="$pairs --text-heads 2 --context 16 --batch 16 --threads 1 --workers 1 --start-epoch 1 --optimizer sgd"
pairs="$pairs --lr 0.0003 --lr-scaling none --checkpoint-steps 3 --log-steps 2"

# ----- comparing -----

timeless() { sed -e 's/"time_[a-z]*": [^,}]*//g' -e 's/"[a-z_]*_per_s": [^,}]*//g' "$1/log.jsonl"; }
equal() { # A B WHAT: the same bytes
    cmp "$1/model.safetensors" "$2/model.safetensors" || fail "$3: weights differ"
    diff -r "$1/checkpoints" "$2/checkpoints" || fail "$3: checkpoints differ"
    timeless "$1" >a.log
    timeless "$2" >b.log
    [ "$(wc -l <a.log)" -gt 20 ] || fail "$3: a short log"
    cmp a.log b.log || fail "$3: logs differ"
    [ "$(ls "$1")" = "$(ls "$2")" ] || fail "$3: $(ls "$2")"
}
losses() { sed -n 's/.*"event": "step", "step": \([0-9]*\),.*"loss": \([-0-9.e]*\),.*/\1 \2/p' "$1/log.jsonl"; }
close() { # A B WHAT: are there the same steps, with losses within 1e-4?
    losses "$1" >a.losses
    losses "$2" >b.losses
    [ "$(wc -l <a.losses)" -gt 20 ] || fail "$3: a short log"
    paste -d ' ' a.losses b.losses | awk -v what="$3" '
        function size(x) { return x < 0 ? -x : x }
        { d = size($2 - $4) / (size($2) > 1 ? size($2) : 1); if (d > worst) worst = d; if ($1 != $3 || d > 1e-4) bad++ }
        END { printf "%s: %d losses, worst difference %.1e\n", what, NR, worst; exit bad > 0 }'
}

# ----- stopping -----

newest() { ls "$1/checkpoints" 2>/dev/null | sed -n 's/^step-\([0-9]*\)$/\1/p' | sort -n | tail -n 1; }
await_checkpoint() { # RUN PROCESS: until there is another complete one than before
    had=$(newest "$1")
    while kill -0 "$2" 2>/dev/null; do
        has=$(newest "$1")
        [ "$has" != "$had" ] && [ -e "$1/checkpoints/step-$has/DONE" ] && return
        sleep 0.02
    done
    fail "$1: it ended before it could be stopped: $(cat "$1.err")"
}
start() { # RUN COUNT FLAGS...: in the background; returns when there is another checkpoint
    run=$1 count=$2
    shift 2
    rm -f pid.*
    mpirun -np "$count" sh rank.sh "$@" --out "$run" 2>>"$run.err" &
    mpirun=$!
    await_checkpoint "$run" $mpirun
}
resume() { # RUN COUNT: to the end
    ranks "$2" --out "$1" --resume 2>>"$1.err" || fail "$1: exit $? at resume: $(cat "$1.err")"
    grep -q 'resumed at step' "$1.err" || fail "$1: not resumed: $(cat "$1.err")"
}
is_alive() { kill -0 "$1" 2>/dev/null && ! grep -q '^State:.*Z' "/proc/$1/status" 2>/dev/null; } # nobody has waited for a zombie
ended() { # SECONDS PROCESS...: all of them are gone by then
    left=$(($1 * 20))
    shift
    while [ $left -gt 0 ]; do
        alive=0
        for p in "$@"; do is_alive "$p" && alive=1; done
        [ $alive = 0 ] && return 0
        sleep 0.05
        left=$((left - 1))
    done
    return 1
}

ranks 2 $images --epochs 16 --out two 2>two.err || fail "two: exit $?: $(cat two.err)"
[ "$(grep -c '^finished' two.err)" = 1 ] || fail "two: $(cat two.err)"

start killed 2 $images --epochs 16
kill -9 $mpirun $(cat pid.0 pid.1)
wait $mpirun 2>/dev/null && fail 'killed: exit 0'
resume killed 2
equal two killed 'all ranks killed'

start bereft 2 $images --epochs 16
kill -9 "$(cat pid.1)"
ended 10 "$(cat pid.0)" $mpirun || fail 'one rank killed: the others go on'
wait $mpirun 2>/dev/null && fail 'one rank killed: exit 0'
resume bereft 2
equal two bereft 'one rank killed'

start held 2 $images --epochs 16
kill -STOP "$(cat pid.1)"
sleep 1
kill -CONT "$(cat pid.1)"
wait $mpirun || fail "held: exit $?: $(cat held.err)"
equal two held 'a rank held up'

# mpirun hands SIGUSR1 on: all stop with a checkpoint.
start asked 2 $images --epochs 16
kill -USR1 $mpirun
wait $mpirun || fail "SIGUSR1: exit $?: $(cat asked.err)"
grep -q '^stopped' asked.err || fail "SIGUSR1: $(cat asked.err)"
[ "$(grep -c '^stopping' asked.err)" = 1 ] || fail "SIGUSR1: $(cat asked.err)"
[ -e asked/model.safetensors ] && fail 'SIGUSR1: weights of an unfinished run'
resume asked 2
equal two asked SIGUSR1

# Of SIGTERM it makes SIGTERM for all, and SIGKILL the given seconds later: enough for a checkpoint here.
export OMPI_MCA_odls_base_sigkill_timeout=2
start ordered 2 $images --epochs 2000
kill -TERM $mpirun
ended 30 $mpirun "$(cat pid.0)" "$(cat pid.1)" || fail 'SIGTERM: it goes on'
wait $mpirun 2>/dev/null
unset OMPI_MCA_odls_base_sigkill_timeout
grep -q '^stopped' ordered.err || fail "SIGTERM: $(cat ordered.err)"
start ordered 2 --resume
kill -INT "$(cat pid.0)"
wait $mpirun || fail "SIGTERM: exit $? after resume: $(cat ordered.err)"
grep -q 'resumed at step' ordered.err || fail "SIGTERM: not resumed: $(cat ordered.err)"

# One process on a signal of its own: all stop together, and mpirun is content.
start signalled 2 $images --epochs 16
kill -INT "$(cat pid.1)"
wait $mpirun || fail "SIGINT of a rank: exit $?: $(cat signalled.err)"
grep -q '^stopped' signalled.err || fail "SIGINT of a rank: $(cat signalled.err)"
resume signalled 2
equal two signalled 'SIGINT of a rank'

# ----- other numbers of ranks -----

"$glofnd" pretrain $images --epochs 16 --out one 2>one.err || fail "one: exit $?: $(cat one.err)"
close one two '2 ranks' || fail '2 ranks: losses differ'
# A similarity within rounding of a threshold may fall on either side of it, and both sides add in another order: a chain that
# differs is repeated, which stops at other steps.
chain() {
    rm -rf chain chain.err
    start chain 1 $images --epochs 16
    for next in 2 4 1; do
        kill -INT "$(cat pid.0)"
        wait $mpirun || fail "chain: exit $?: $(cat chain.err)"
        [ $next = 1 ] || start chain $next --resume
    done
    "$glofnd" pretrain --out chain --resume 2>>chain.err || fail "chain: exit $?: $(cat chain.err)"
    [ "$(grep -c 'resumed at step' chain.err)" = 3 ] || fail "chain: $(cat chain.err)"
}
for attempt in 1 2 3; do
    chain
    close one chain '1, 2, 4 and 1 ranks' && break
done
close one chain 'the chain' || fail '1, 2, 4 and 1 ranks: losses differ'
for name in model optim; do
    a=$(wc -c <one/checkpoints/step-128/$name.safetensors) b=$(wc -c <chain/checkpoints/step-128/$name.safetensors)
    [ "$a" = "$b" ] || fail "chain: $name.safetensors has $b bytes, not $a"
done

# ----- images and captions -----

ranks 2 $pairs --epochs 16 --out pairs 2>pairs.err || fail "pairs: exit $?: $(cat pairs.err)"
start pairs-killed 2 $pairs --epochs 16
kill -9 $mpirun $(cat pid.0 pid.1)
wait $mpirun 2>/dev/null
resume pairs-killed 2
equal pairs pairs-killed 'images and captions, killed'
"$glofnd" pretrain $pairs --epochs 16 --out pairs-one 2>pairs-one.err || fail "pairs-one: exit $?: $(cat pairs-one.err)"
close pairs-one pairs 'images and captions, 2 ranks' || fail 'images and captions: losses differ'

# ----- what cannot be: said once, before anything is done -----

refused() { # WHAT PATTERN COUNT FLAGS...
    what=$1 pattern=$2
    shift 2
    timeout 60 mpirun -np "$1" sh rank.sh --out refused $(shift; echo "$@") >refused.err 2>&1 && fail "$what: exit 0"
    [ "$(grep -c '^glofnd pretrain: ' refused.err)" = 1 ] || fail "$what: not said once: $(cat refused.err)"
    grep '^glofnd pretrain: ' refused.err | grep -q "$pattern" || fail "$what: $(cat refused.err)"
    [ -e refused ] && fail "$what: it left $(ls -d refused refused/*)"
    rm -rf refused
}
refused 'a batch that cannot be divided' '^glofnd pretrain: rank 0: batch: 16 samples cannot be divided among 3' 3 $images
refused 'anchors in a file' 'rank 0: store: ' 2 $images --store file
refused 'no samples left' 'fewer than 2' 4 $images --batch 4
refused 'a wrong value' 'rank 0: .*epochs' 2 $images --epochs none
ODD='--data cifar100:nowhere' refused 'no data on a rank' 'rank 1: .*nowhere' 2 $images
ODD='--data shapes:n=64,classes=4,size=16,seed=1' refused 'other data on a rank' "rank 1 has another value of 'data'" 2 $images
ODD='--lr 0.1' refused 'another configuration' "rank 1 has another value of 'lr'" 2 $images
ODD='--epochs none' refused 'a wrong value on a rank' 'rank 1: .*epochs' 2 $images
ODD='--out elsewhere' refused 'another folder on a rank' 'rank 1: elsewhere is not there' 2 $images
mkdir elsewhere
ODD='--out elsewhere' refused 'another folder on a rank' 'rank 1: elsewhere is another folder' 2 $images
"$glofnd" info | grep -q 'CUDA device' || refused 'no GPU' 'rank [01]: ' 2 $images --device cuda
: >refused.file
timeout 60 mpirun -np 2 sh rank.sh $images --out refused.file/run >refused.err 2>&1 && fail 'a file in the way: exit 0'
[ "$(grep -c 'rank 0: .*refused.file/run' refused.err)" = 1 ] || fail "a file in the way: $(cat refused.err)"
if [ "$(id -u)" != 0 ]; then
    mkdir locked && chmod 555 locked
    timeout 60 mpirun -np 2 sh rank.sh $images --out locked >refused.err 2>&1 && fail 'a read-only folder: exit 0'
    [ "$(grep -c 'rank 0: locked cannot be written to' refused.err)" = 1 ] || fail "a read-only folder: $(cat refused.err)"
fi
cp -r bereft damaged
echo more >>damaged/checkpoints/step-128/anchors.glofnd.00001-of-00002
timeout 60 mpirun -np 2 sh rank.sh --out damaged --resume >refused.err 2>&1 && fail 'a damaged part: exit 0'
[ "$(grep -c 'rank 0: .*00001-of-00002 is damaged' refused.err)" = 1 ] || fail "a damaged part: $(cat refused.err)"

# ----- launchers and --ranks -----

"$glofnd" pretrain $images --epochs 2 --out alone 2>/dev/null || fail "alone: exit $?"
"$glofnd" pretrain $images --epochs 2 --ranks mpi --out mpi-alone 2>mpi-alone.err || fail "--ranks mpi: $(cat mpi-alone.err)"
cat >own.sh <<'END'
exec "$glofnd" pretrain "$@" --out "single-$OMPI_COMM_WORLD_RANK"
END
mpirun -np 2 sh own.sh $images --epochs 2 --ranks single 2>single.err || fail "--ranks single: $(cat single.err)"
for run in single-0 single-1; do cmp alone/model.safetensors $run/model.safetensors || fail "$run: weights differ"; done
[ "$(losses alone | cut -c 1-12)" = "$(losses mpi-alone | cut -c 1-12)" ] || fail '--ranks mpi alone: losses differ'
ranks 2 --out two --resume 2>already.err || fail "finished already: exit $?"
[ "$(grep -c '^finished already' already.err)" = 1 ] || fail "finished already: $(cat already.err)"

[ $failures = 0 ] && echo "killed, stopped and resumed ranks end as the others do"
exit $((failures > 0))
