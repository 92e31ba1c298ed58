# glofnd sweep --share: kills and interruptions at any moment leave nothing half-copied, and the same command continues to the
# bits of runs of their own.
. "$2/tests/sh/common.inc"
. "$2/tests/sh/share.inc"

hold nobody nothing
expect 0 "finished" hooked --out own-jobs

# ----- interrupted -----

# have_ended OUT: no run of that sweep is left
have_ended() { ! pgrep -f "glofnd pretrain.*--out=$1/" > running; }
# stop SIGNAL OUT: the sweep is held as above, and ended by the signal
stop() {
    "$glofnd" $words --out "$PWD/$2" --share > out 2> err &
    pid=$!
    soon "not held within a minute" [ -e held ]
    kill -"$1" $pid
    sleep 0.5 # the sweep asks its run to end, which waits for its command
    touch go
    wait $pid
    code=$?
    soon "runs of a killed sweep go on" have_ended "$PWD/$2" # they end by themselves
    rm go
}
# Before the shared checkpoint, after it, and in branches.
for how in TERM:none:2 TERM:glofnd:2 KILL:none:0 KILL:none:2 KILL:fnc:3; do
    signal=${how%%:*} at=${how#*:} out=stop-$(echo "$how" | tr : -)
    hold "detector-${at%:*}_seed-1:${at#*:}" go
    stop $signal $out
    [ $signal = KILL ] || wants "stopped at $at" 1 "stopped; the same command continues"
    hold nobody nothing
    call hooked --out "$PWD/$out" --share
    wants "again after $signal at $at" 0 "fnc"
    same own-jobs $out "$signal at $at"
    [ -z "$(ls -d $out/*.tmp-* 2> /dev/null)" ] || fail "$signal at $at: leftovers"
    [ "$(ls $out/detector-none_seed-1/checkpoints | sort -V | tr '\n' ' ')" = "step-4 step-16 " ] ||
        fail "$signal at $at: $(ls $out/detector-none_seed-1/checkpoints)"
    rm -r $out
done

# ----- started again while a run of the killed sweep is still ending -----

hold detector-none_seed-1:0 go
"$glofnd" $words --out early --share > out 2> err &
pid=$!
soon "not held within a minute" [ -e held ]
kill -KILL $pid
wait $pid
hooked --out early --share > out 2>&1 &
pid=$!
soon "no run waits" grep -q "detector-none_seed-1 waits: another process still uses its folder" out
echo nobody > hold
touch go
wait $pid || fail "again at once: exit $?"
rm go
same own-jobs early "again at once"

# ----- killed while copying, at every call -----

shim=$build/tests/hostile_shim.so
[ -e "$shim" ] || exit 0
printf '#!/bin/sh\nexit 0\n' > hook.sh
copy=$PWD/k/detector-fnc_seed-1.tmp-copy
# with WHAT N: the sweep with that at the N-th call below the copy
with() {
    export HOSTILE_DO="$1" HOSTILE_AT="$2" HOSTILE_UNDER="$copy" HOSTILE_COUNT="$PWD/calls"
    (export LD_PRELOAD="$shim" && hooked --out k --share)
}
with kill 0 > /dev/null 2>&1
cp calls all
same own-jobs k "counted"
with_start() { rm -rf k && cp -r begun k; }
rm -rf k
call with kill 1
[ "$code" = 137 ] && [ ! -e k/detector-fnc_seed-1 ] || fail "not killed at the first call"
cp -r k begun
count=$(cat all)
[ "$count" -gt 20 ] || fail "only $count calls to copy a run"
n=1
while [ $n -le "$count" ]; do
    with_start
    call with kill $n
    [ "$code" = 137 ] || fail "not killed at call $n of $count"
    [ ! -e k/detector-fnc_seed-1 ] || [ -e k/detector-fnc_seed-1/checkpoints/step-8/DONE ] || fail "half a copy after call $n"
    expect 0 "detector-fnc_seed-1 finished" hooked --out k --share
    same own-jobs k "killed at call $n"
    [ ! -e "$copy" ] || fail "killed at call $n: the copy is left"
    n=$((n + 9))
done
# A copy that cannot be made is none: the run begins by itself.
with_start
call with ENOSPC+ 3
wants "a full disk" 0 "detector-fnc_seed-1 shares nothing and begins by itself: " "detector-fnc_seed-1 finished"
same own-jobs k "a full disk"
