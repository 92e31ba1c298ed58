# Runs that differ in the threads of the loader alone end with the same weights. In a build with the thread sanitizer this is also
# the test that a whole run has no race: the first one ends the program.
set -u
glofnd=$1/glofnd
[ -x "$glofnd" ] || exit 77
"$glofnd" info | grep -q 'oneDNN yes' || exit 77
"$glofnd" info | grep -q 'JSON lines yes' || exit 77
export OMP_WAIT_POLICY=passive
scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT
cd "$scratch" || exit 1

small='--data shapes:n=64,classes=4,size=16,seed=1 --arch resnet8 --head-hidden 32 --head-out 16 --batch 16 --epochs 2'
for workers in 1 3; do
    "$glofnd" pretrain $small --start-epoch 1 --workers $workers --prefetch $workers --out run$workers --quiet 2>err || {
        echo "FAILED: $workers workers"
        cat err
        exit 1
    }
done
cmp run1/model.safetensors run3/model.safetensors || exit 1
echo "equal weights with 1 and 3 workers"
