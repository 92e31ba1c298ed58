# discover_workers.sh BUILD SOURCE - workers share a search without MPI: some are killed, and the result is that of one process.
. "$2/tests/sh/common.inc"
needs_tools python3
export PYTHONPATH="$2/tests/sh" PYTHONDONTWRITEBYTECODE=1     # npy_file.py
python3 - << 'PY' || fail "embeddings"
import array, random
from npy_file import npy
random.seed(3)
N, D = 12000, 32
x = array.array("f")
for i in range(N):
    x.extend(random.gauss(0, 1) for _ in range(D)) if i % 100 != 7 else x.extend(x[-D:])
npy("x.npy", "<f4", (N, D), x.tobytes())
PY
# UNITS OPTIONS ...: a worker is killed in the middle, after some UNITS are finished and while it holds a claim; two others finish.
# Then the last call.
share() {
    stage=$1
    shift
    rm -rf plain shared shared.partial
    expect 0 "written" "$glofnd" discover x.npy "$@" --quiet --out plain
    work() { exec "$glofnd" discover x.npy "$@" --worker --rank-timeout 1 --threads 1 --quiet --out shared; }
    begun() { ls shared.partial/"$stage"-* > /dev/null 2>&1; }
    work "$@" > worker1 2> worker1.err &
    first=$!
    while ! begun && kill -0 $first 2> /dev/null; do :; done
    kill -STOP $first
    ls shared.partial > left
    grep -q "^claim-$stage-" left || echo "killed between two units"
    work "$@" > worker2 2> worker2.err &
    second=$!
    work "$@" > worker3 2> worker3.err &
    third=$!
    kill -9 $first
    wait $first 2> /dev/null
    for pid in $second $third; do
        code=0
        wait $pid || code=$?
        [ $code = 0 ] || fail "a worker ended with $code: $(cat worker?.err)"
    done
    [ ! -s worker1 ] || fail "the first worker was not killed in the middle: $(cat worker1)"
    set -- "$@" --out shared
    grep -q "all parts are in shared.partial" worker2 || fail "worker 2: $(cat worker2)"
    [ ! -e shared ] || fail "a worker has written the result"
    expect 0 "written" "$glofnd" discover x.npy "$@" --resume
    units=$(sed -n 's/.* in \([0-9]*\) units.*/\1/p' err)
    grep -q "in $units units, of which $units are already in shared.partial" err || fail "not all were there: $(cat err)"
    diff -r plain shared || fail "$*: workers have another result"
    [ ! -e shared.partial ] || fail "parts were left"
}
share pairs --k 5 --dup 0.9 --negatives 3
share pairs --k 30 --top 3 --approx 5 --memory 0.002
share cells --dup 0.9 --duplicates

# A worker that comes after all is done has nothing to replace; other settings are refused; what does not go together.
expect 1 "shared" "$glofnd" discover x.npy --dup 0.9 --duplicates --out shared --worker
expect 0 "all parts are in" "$glofnd" discover x.npy --k 5 --out y --worker --quiet
expect 1 "parts of another search" "$glofnd" discover x.npy --k 6 --out y --worker --force
expect 2 "give one of them" "$glofnd" discover x.npy --k 5 --out y --worker --resume
expect 2 "--worker does not go with" "$glofnd" discover x.npy --learned --out z --worker
[ ! -e z ] && [ ! -e z.partial ] || fail "something was left behind"
