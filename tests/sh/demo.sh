# tools/demo.sh on a tiny configuration: a line for every seed, with figures in every column, and a page.
. "$2/tests/sh/common.inc"
needs_runs
mkdir build && cp "$glofnd" build/glofnd
sed -e 's/^data = .*/data = shapes:n=256,classes=4,size=16,seed=1/' -e 's/^batch = .*/batch = 32/' \
    -e 's/^epochs = .*/epochs = 3/' "$source/configs/demo.cfg" > demo.cfg
DEMO_CONFIG=$scratch/demo.cfg call sh "$source/tools/demo.sh" build
wants 'the demo' 0 'same class among flagged pairs' 'report.html in a browser'
for seed in 1 2 3; do
    grep -qE "^ +$seed( +[0-9.]+){3} +[0-9.]+x( +[0-9.]+){4}\$" out || fail "no line of seed $seed"
    [ -s build/demo/seed$seed/model.safetensors ] || fail "no run of seed $seed"
done
awk '/^ +[123] / { if ($4 < 15 || $4 > 35 || $2 <= 0) exit 1 }' out || fail "a quarter of random pairs share one of four classes"
[ -s build/demo/report.html ] || fail "no page"
exit 0
