# tools/demo_clip.sh on a tiny configuration: two lines for every seed, with figures in every column, and a page.
. "$2/tests/sh/common.inc"
needs_runs
mkdir build && cp "$glofnd" build/glofnd
sed -e 's/^data = .*/data = shapes:n=256,classes=4,size=16,seed=1,captions=class/' -e 's/^batch = .*/batch = 32/' \
    -e 's/^epochs = .*/epochs = 3/' "$source/configs/demo-clip.cfg" > demo.cfg
DEMO_CONFIG=$scratch/demo.cfg call sh "$source/tools/demo_clip.sh" build
wants 'the demo' 0 'same class among flagged pairs' 'report.html in a browser' 'before training'
for seed in 1 2 3; do
    for pairs in 'image to text' 'text to image'; do
        grep -qE "^ +$seed +$pairs( +[0-9.]+){3} +[0-9.]+x( +[0-9.]+){2}\$" out || fail "no line of seed $seed, $pairs"
    done
    [ -s build/demo-clip/seed$seed/model.safetensors ] || fail "no run of seed $seed"
done
awk '/^ +[123]  / { if ($7 < 15 || $7 > 35 || $5 <= 0) exit 1 }' out || fail "a quarter of random pairs share one of four classes"
[ -s build/demo-clip/report.html ] || fail "no page"
exit 0
