# Two ranks, each with its heartbeat, the thread that sums gradients, and the loader's: two runs end with the same weights. In a
# build with the thread sanitizer this is also the test that these threads have no race of their own: what happens inside of MPI,
# which was built without it, is not reported.
. "$2/tests/sh/ranks.inc"

cat > silent << 'END'
called_from_lib:libmpi.so
race:libmpi.so
race:libopen-pal.so
race:libpmix.so
race:libevent
race:mca_
thread:libpmix.so
thread:libopen-pal.so
deadlock:libpmix.so
mutex:libpmix.so
END
export TSAN_OPTIONS="${TSAN_OPTIONS:-} suppressions=$scratch/silent ignore_noninstrumented_modules=1 halt_on_error=0 exitcode=66"
for name in a b; do
    call ranks 2 $images --epochs 2 --rank-timeout 100 --out $name
    grep -q 'WARNING: ThreadSanitizer' err && fail "a race in a run of two ranks"
    wants "two ranks" 0
done
cmp a/model.safetensors b/model.safetensors || fail 'two runs of two ranks: weights differ'
echo passed
