# --device cuda where there is no GPU, or its driver is too old: said plainly, the CPU is offered, and no run is begun.
. "$2/tests/sh/common.inc"
needs_runs
needs 'backends cpu cuda'
run='--data shapes:n=64,classes=4,size=16,seed=1 --arch resnet8 --batch 16 --epochs 1 --device cuda'
old=$build/tests/old_driver
refuses() {
    what=$1
    shift
    wants "$what" 1 'no CUDA device' 'cpu' "$@"
    [ ! -e r ] || fail "$what: a run folder was left"
}
with_old() { LD_LIBRARY_PATH=$old:${LD_LIBRARY_PATH:-} "$@"; }

call env CUDA_VISIBLE_DEVICES= "$glofnd" pretrain $run --out r
refuses 'no device'
[ -e "$old/libcuda.so.1" ] || skip 'the old driver is not built'
call with_old "$glofnd" pretrain $run --out r
refuses 'an old driver' 'the NVIDIA driver is for CUDA 11.4' 'needs one for' 'update the driver'
call with_old "$glofnd" info
wants 'info with an old driver' 0 'the NVIDIA driver is for CUDA 11.4' 'needs driver 5'
call with_old "$build/tests/replay" "$source/tests/golden" --device cuda
wants 'replay with an old driver' 77 'skipped' 'the NVIDIA driver is for CUDA 11.4'
exit 0
