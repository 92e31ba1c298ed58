#!/bin/sh
# gpu_check.sh [BUILD] - everything that needs a GPU, one line per check: ok, FAIL or skipped, with the seconds it took.
#
# BUILD (default: build) is a build folder with CUDA. Output of failing checks stays in BUILD/gpu_check/. Exit status: 0 if nothing failed.
# A new check is one line at the end.
set -u
build=${1:-build}
source=$(cd "$(dirname "$0")/.." && pwd)
tests=$build/tests
logs=$build/gpu_check
failed=0
[ -d "$tests" ] || { echo "gpu_check: $tests: no such folder; build first, or name the build folder" >&2; exit 2; }
mkdir -p "$logs"

# check NAME COMMAND...: exit status 77 is skipped
check() {
    name=$1
    shift
    began=$(date +%s)
    "$@" >"$logs/$name.log" 2>&1
    status=$?
    took=$(($(date +%s) - began))
    case $status in
        0) word=ok ;;
        77) word=skipped ;;
        *) word=FAIL failed=1 ;;
    esac
    printf '%-8s %-34s %4d s  %s\n' "$word" "$name" "$took" "$(tail -n 1 "$logs/$name.log" | cut -c 1-100)"
}

# on_gpu PROGRAM...: a test made for the CPU
on_gpu() { GLOFND_TEST_DEVICE=cuda "$@"; }

# sanitized TOOL PROGRAM...: a finding is a failure
sanitized() {
    tool=$1
    shift
    command -v compute-sanitizer >/dev/null || { echo "skipped: compute-sanitizer is not installed"; return 77; }
    compute-sanitizer --tool "$tool" --error-exitcode 1 "$@"
}

check golden_replay "$tests/replay" "$source/tests/golden" --device cuda
check step_values on_gpu "$tests/unit_step"
check step_learners on_gpu "$tests/unit_learner"
check step_ranks_and_bits on_gpu "$tests/unit_equal"
check step_on_device "$tests/cuda_step"
check step_memcheck sanitized memcheck "$tests/replay" "$source/tests/golden" A_dcl_glofnd_a0.05 --device cuda
check step_memcheck_image_text sanitized memcheck "$tests/replay" "$source/tests/golden" C_v3_glofnd_a0.05_resume_2rank --device cuda
check step_racecheck sanitized racecheck "$tests/replay" "$source/tests/golden" A_dcl_uglofnd_a0.05 --device cuda
# small_run TOOL OPTION...: two training steps of a small network under compute-sanitizer
small_run() {
    rm -rf "$logs/run"
    sanitized "$@" "$build/glofnd" pretrain --out "$logs/run" --data shapes:n=64,classes=4,size=32,seed=1 --arch resnet8 --batch 32 \
        --epochs 1 --start_epoch 0 --head_hidden 64 --head_out 32 --device cuda --precision bf16
}

check views "$tests/cuda_augment"
check views_memcheck sanitized memcheck "$tests/cuda_augment" quick
check views_racecheck sanitized racecheck "$tests/cuda_augment" quick
check net_ops "$tests/cuda_nn"
check whole_nets "$tests/cuda_net"
check training_runs "$tests/cuda_train"
check training_memcheck small_run memcheck
check net_racecheck sanitized racecheck "$tests/cuda_nn" '*norms_agree'     # cuDNN's kernels do not run under racecheck
exit $failed
