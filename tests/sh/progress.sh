# Progress: a log file shows the first step and the remaining time, `embed` has a line on a terminal, --quiet is silent.
. "$2/tests/sh/common.inc"
needs_runs
data=shapes:n=64,classes=4,size=16,seed=3
tiny="--data $data --arch resnet8 --batch 16 --epochs 2 --warmup-epochs 0 --head-hidden 16 --head-out 8"

for term in xterm dumb ''; do
    rm -rf run
    call env TERM="$term" "$glofnd" pretrain $tiny --out run
    wants "a run with TERM '$term'" 0 'epoch   1/2 | step      1 | loss' '| eta '
    [ "$(grep -c 'step  *[0-9]* |' err)" -eq 1 ] || fail "a short run has one line of progress, not one per step"
    grep -q "$(printf '\033')" err && fail "escape sequences in a file"
done
call "$glofnd" pretrain $tiny --quiet --out silent
wants 'a quiet run' 0 'finished'
grep -q '| eta ' err && fail "--quiet shows progress"
cmp -s run/model.safetensors silent/model.safetensors || fail "progress changes the weights"

call "$glofnd" embed run --data $data --out a.npy --quiet
wants 'embed --quiet' 0 '64 x 64 features'
call "$glofnd" eval knn run --k 5 --quiet
wants 'eval --quiet' 0 'top-1'
call "$glofnd" embed run --data $data --out a.npy --quiet=1
wants 'a value for --quiet' 2 'quiet'
call "$glofnd" info --quiet
wants 'a verb without progress' 2 'unknown flag --quiet'

command -v script > /dev/null || exit 0        # a terminal
TERM=xterm script -qc "'$glofnd' embed run --data $data --out b.npy" /dev/null > screen 2>&1 < /dev/null
grep -q 'images: 64 of 64 encoded | eta' screen || fail "embed has no progress line: $(cat screen)"
TERM=xterm script -qc "'$glofnd' embed run --data $data --out c.npy --quiet" /dev/null > screen 2>&1 < /dev/null
grep -q 'encoded' screen && fail "embed --quiet has one"
cmp -s b.npy c.npy || fail "--quiet changes the features"
exit 0
