# Runs that differ in the threads of the loader alone end with the same weights. In a build with the thread sanitizer this is also
# the test that a whole run has no race: the first one ends the program.
. "$2/tests/sh/common.inc"
needs_runs

small='--data shapes:n=64,classes=4,size=16,seed=1 --arch resnet8 --head-hidden 32 --head-out 16 --batch 16 --epochs 2'
for workers in 1 3; do
    call "$glofnd" pretrain $small --start-epoch 1 --workers $workers --prefetch $workers --out run$workers --quiet
    wants "$workers workers" 0
done
cmp run1/model.safetensors run3/model.safetensors || fail "1 and 3 workers: weights differ"
echo "equal weights with 1 and 3 workers"
