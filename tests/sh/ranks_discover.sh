# ranks_discover.sh BUILD SOURCE - discovery over 2 and 4 ranks: the bytes of one rank; refusals reach all of them.
. "$2/tests/sh/ranks.inc"
export ASAN_OPTIONS="${ASAN_OPTIONS:-}:detect_leaks=0"     # Open MPI leaves blocks behind
needs_tools python3
export PYTHONPATH="$2/tests/sh" PYTHONDONTWRITEBYTECODE=1     # npy_file.py

python3 - << 'PY' || fail "embeddings"
import array, random
from npy_file import npy
random.seed(4)
N, D = 5000, 24
x = array.array("f")
for i in range(N):
    x.extend(random.gauss(0, 1) for _ in range(D)) if i % 50 != 7 else x.extend(x[-D:])
npy("x.npy", "<f4", (N, D), x.tobytes())
PY

options='--k 5 --dup 0.9 --threads 1'
expect 0 "written" "$glofnd" discover x.npy $options --quiet --out one
for ranks in 2 4; do
    expect 0 "written" mpirun -np $ranks "$glofnd" discover x.npy $options --out "by$ranks"
    grep -q "$ranks ranks" err || fail "not $ranks ranks: $(cat err)"
    [ "$(grep -c written out)" = 1 ] || fail "$ranks ranks said it more than once"
    diff -r one "by$ranks" || fail "$ranks ranks differ from one"
    [ ! -e "by$ranks.partial" ] || fail "parts were left"
done
options='--k 5 --dup 0.8 --keep central --sample 5 --split a=0:2000 --split b=2000:5000 --threads 1'
expect 0 "written" "$glofnd" discover x.npy $options --quiet --out whole
expect 0 "written" mpirun -np 3 "$glofnd" discover x.npy $options --out by3
diff -r whole by3 || fail "decisions of 3 ranks differ from those of one"
for mode in "--duplicates --dup 0.8" "--approx 3 --k 5 --dup 0.8" "--duplicates --dup exact"; do
    rm -rf cells_*
    expect 0 "written" "$glofnd" discover x.npy $mode --threads 1 --quiet --out cells_1
    for ranks in 2 4; do
        expect 0 "written" mpirun -np $ranks "$glofnd" discover x.npy $mode --threads 1 --out "cells_$ranks"
        diff -r cells_1 "cells_$ranks" || fail "$mode: $ranks ranks differ from one"
        [ ! -e "cells_$ranks.partial" ] || fail "$mode: parts were left"
    done
done
call mpirun -np 2 "$glofnd" discover x.npy --learned --out z
[ "$code" != 0 ] && grep -q "not over several ranks" err || fail "--learned over ranks: $(cat err)"
call mpirun -np 2 "$glofnd" discover nothing.npy --out z
[ "$code" != 0 ] && [ "$(grep -c 'nothing.npy' err)" = 1 ] || fail "no file, over ranks: $(cat err)"
# Ranks with different flags, files or folders: the first difference is named, and nothing is left behind.
call mpirun -np 1 "$glofnd" discover x.npy --k 5 --out z : -np 1 "$glofnd" discover x.npy --k 6 --out z
[ "$code" != 0 ] && grep -q "rank 1 has a different --k from rank 0" err || fail "ranks with another --k: $(cat err)"
call mpirun -np 1 "$glofnd" discover x.npy --k 5 --out z : -np 1 "$glofnd" discover x.npy --k 5 --out other_z
[ "$code" != 0 ] && grep -q "rank 1 has a different --out from rank 0" err || fail "ranks with another --out: $(cat err)"
cp x.npy same.npy
call mpirun -np 1 "$glofnd" discover x.npy --k 5 --out z : -np 1 "$glofnd" discover same.npy --k 5 --out z
[ "$code" != 0 ] && grep -q "rank 1 has a different EMB from rank 0" err || fail "ranks with other files: $(cat err)"
[ ! -e z ] && [ ! -e z.partial ] && [ ! -e other_z ] && [ ! -e other_z.partial ] || fail "something was left behind"

# ----- a rank is killed, or stopped: it is named, all end, and the same command continues -----

cat > rank.sh << 'END'
echo $$ > "pid.$OMPI_COMM_WORLD_RANK"
exec "$@"
END
python3 - << 'PY' || fail "embeddings"
import array, random
from npy_file import npy
random.seed(6)
N, D = 40000, 32
npy("y.npy", "<f4", (N, D), array.array("f", (random.gauss(0, 1) for _ in range(N * D))).tobytes())
PY
expect 0 "written" "$glofnd" discover y.npy --k 5 --quiet --out plain
# lose SIGNAL: sends it to rank 1 once some units are finished
lose() {
    rm -rf pid.* lost lost.partial
    mpirun -np 3 sh rank.sh "$glofnd" discover y.npy --k 5 --threads 1 --rank-timeout 2 --out lost > out 2> err &
    mpirun=$!
    while [ ! -e lost.partial/pairs-000002 ] && [ ! -e lost ] && kill -0 $mpirun 2> /dev/null; do sleep 0.02; done
    kill "-$1" "$(cat pid.1)" 2> /dev/null
    wait $mpirun && fail "a rank was lost by -$1: exit 0"
    ended 30 "$(cat pid.0)" "$(cat pid.2)" || fail "ranks continue without rank 1"
    [ -e lost.partial/plan ] && [ ! -e lost ] || fail "no parts are left after -$1"
}
lose KILL
grep -q 'rank 1' err || fail "the killed rank is not named: $(cat err)"
lose STOP
grep -q "rank 1 on .* has not been heard of" err || fail "the silent rank is not named: $(cat err)"
grep -q "finished parts are in lost.partial: the same command continues" err || fail "no way on: $(cat err)"
kill -9 "$(cat pid.1)" 2> /dev/null
expect 0 "written" mpirun -np 2 "$glofnd" discover y.npy --k 5 --threads 1 --out lost
grep -q "are already in lost.partial" err || fail "it began anew: $(cat err)"
diff -r plain lost || fail "after lost ranks the result differs"
[ ! -e lost.partial ] || fail "parts were left"
