#!/bin/sh
# gpu_check.sh [-b BUILD] [PART...] - everything that needs a GPU, one line per check: ok, FAIL or skipped, with its seconds.
#
# BUILD (or the variable BUILD; default: build) is a build folder with CUDA, or just a folder of its programs (glofnd, replay,
# unit_*, cuda_*). PART: some of those below, in the order given there; none: all. Output of the checks goes to LOGS (default:
# BUILD/gpu_check). SANITIZER_LIMIT: seconds for one run under compute-sanitizer (300). Exit status: 0 if nothing failed. A
# program that was not built is a failure: name the parts that are wanted.
#
# A new check is one line at the end:    check PART NAME COMMAND...    exit status 0: ok, 77: skipped, else FAIL
# COMMAND is a program, or a function of this file before it: on_gpu, sanitized TOOL, refuses TEXT.
set -u
build=${BUILD:-build}
while getopts b: option; do
    case $option in
        b) build=$OPTARG ;;
        *) sed -n '2,/^set/s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
    esac
done
shift $((OPTIND - 1))
wanted=" $* "
source=$(cd "$(dirname "$0")/.." && pwd)
[ -d "$build" ] || { echo "gpu_check: $build: no such folder; build first, or name the build folder by -b" >&2; exit 2; }
build=$(cd "$build" && pwd)
logs=${LOGS:-$build/gpu_check}
mkdir -p "$logs" || exit 2
logs=$(cd "$logs" && pwd)
known=' '
count=0
failed=0

# at PROGRAM: where it is in a build folder, or in a folder of programs
at() { if [ -x "$build/tests/$1" ]; then echo "$build/tests/$1"; else echo "$build/$1"; fi; }

# check PART NAME COMMAND...
check() {
    part=$1 name=$2
    shift 2
    case $known in *" $part "*) ;; *) known="$known$part " ;; esac
    case $wanted in '  ' | *" $part "*) ;; *) return ;; esac
    began=$(date +%s)
    (cd "$logs" && "$@") >"$logs/$name.log" 2>&1
    status=$?
    took=$(($(date +%s) - began))
    case $status in
        0) word=ok ;;
        77) word=skipped ;;
        *) word=FAIL failed=$((failed + 1)) ;;
    esac
    count=$((count + 1))
    printf '%-8s %-28s %4d s  %s\n' "$word" "$name" "$took" "$(grep -v '^$' "$logs/$name.log" | tail -n 1 | cut -c 1-90)"
}

# on_gpu PROGRAM...: a test made for the CPU
on_gpu() { GLOFND_TEST_DEVICE=cuda "$@"; }

# sanitized TOOL PROGRAM...: a finding is a failure, and so is a run that does not end
sanitized() {
    tool=$1
    shift
    command -v compute-sanitizer >/dev/null || { echo 'skipped: compute-sanitizer is not installed'; return 77; }
    timeout -k 5 "${SANITIZER_LIMIT:-300}" compute-sanitizer --tool "$tool" --error-exitcode 1 "$@"
}

# ----- runs of the command line -----

small='--data shapes:n=256,classes=4,size=32,seed=1 --arch resnet8 --batch 32 --epochs 4 --start_epoch 1 --head_hidden 64
    --head_out 32 --checkpoint_steps 4 --threads 4'
pretrain() { out=$1; shift; "$build/glofnd" pretrain --out "$out" $small "$@"; }

# steps_under TOOL: two training steps in bf16, without trying algorithms
steps_under() {
    rm -rf run
    sanitized "$1" "$build/glofnd" pretrain --out run $small --data shapes:n=64,classes=4,size=32,seed=1 --epochs 1 \
        --start_epoch 0 --device cuda --precision bf16 --deterministic 2
}

# killed RUN FLAGS...: a run that is killed after its first checkpoint
killed() {
    run=$1
    shift
    "$build/glofnd" pretrain --out "$run" $small "$@" & process=$!
    while kill -0 $process 2>/dev/null && ! ls "$run"/checkpoints/step-*/DONE >/dev/null 2>&1; do sleep 0.01; done
    kill -9 $process 2>/dev/null
    wait $process 2>/dev/null
    [ ! -e "$run/model.safetensors" ] || echo 'it had finished before it was killed'
}

# resumes FLAGS...: killed and resumed, a run ends with the bits of one that was left alone and has chosen the same algorithms
resumes() {
    rm -rf whole broken
    pretrain whole --device cuda "$@" || return 1
    mkdir broken && cp whole/plans.txt broken/
    killed broken --device cuda "$@"
    "$build/glofnd" pretrain --out broken --resume || return 1
    cmp whole/model.safetensors broken/model.safetensors &&
        cmp whole/checkpoints/*/anchors.glofnd broken/checkpoints/*/anchors.glofnd
}

# moves FROM TO: a run that is killed on one device goes on to its end on the other
moves() {
    rm -rf moved
    killed moved --device "$1"
    "$build/glofnd" pretrain --out moved --resume --device "$2" >moved.txt 2>&1
    status=$?
    cat moved.txt
    [ $status = 0 ] && grep -q 'resumed at step' moved.txt
}

# repeats: without timing two runs choose the same algorithms
repeats() {
    rm -rf once again
    for run in once again; do pretrain $run --device cuda --precision bf16 --deterministic 2 || return 1; done
    cmp once/model.safetensors again/model.safetensors
}

# one_rank: a run of one rank over MPI and NCCL ends with the bits of a run without ranks
one_rank() {
    command -v mpirun >/dev/null || { echo 'skipped: mpirun is not installed'; return 77; }
    rm -rf alone ranked
    pretrain alone --device cuda || return 1
    mkdir ranked && cp alone/plans.txt ranked/
    OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 mpirun -np 1 "$build/glofnd" pretrain --out ranked $small \
        --device cuda || return 1
    cmp alone/model.safetensors ranked/model.safetensors
}

# refuses TEXT COMMAND...: fails, says so, and offers the CPU; no run was begun
refuses() {
    text=$1
    shift
    rm -rf refused
    "$@" >said.txt 2>&1
    status=$?
    cat said.txt
    [ $status != 0 ] && [ $status -lt 126 ] && grep -q "$text" said.txt && grep -q 'cpu' said.txt && [ ! -e refused/log.jsonl ]
}

# with_broken LIBRARY COMMAND...: a file of that name which is no library is found first
with_broken() {
    mkdir -p broken_libs && rm -f broken_libs/* && : >"broken_libs/$1" && : >"broken_libs/${1%.so.*}.so"
    shift
    LD_LIBRARY_PATH=$PWD/broken_libs:${LD_LIBRARY_PATH:-} "$@"
}

begin="$build/glofnd pretrain --out refused --device cuda"
large='--data shapes:n=40000,classes=4,size=32,seed=1 --arch resnet50 --size 224 --batch 20000 --epochs 1'

# ----- the checks -----

check loss golden_replay "$(at replay)" "$source/tests/golden" --device cuda
check loss step_values on_gpu "$(at unit_step)"
check loss step_learners on_gpu "$(at unit_learner)"
check loss step_ranks_and_bits on_gpu "$(at unit_equal)"
check loss step_on_device "$(at cuda_step)"
check loss passes "$(at cuda_pass)"
check loss selection "$(at cuda_select)"
check loss given_similarities "$(at cuda_detect)"
check loss_sanitizers step_memcheck sanitized memcheck "$(at replay)" "$source/tests/golden" A_dcl_glofnd_a0.05 --device cuda
check loss_sanitizers step_memcheck_image_text sanitized memcheck "$(at replay)" "$source/tests/golden" \
    C_v3_glofnd_a0.05_resume_2rank --device cuda
check loss_sanitizers step_racecheck sanitized racecheck "$(at replay)" "$source/tests/golden" A_dcl_uglofnd_a0.05 --device cuda

check views views "$(at cuda_augment)"
check views_sanitizers views_memcheck sanitized memcheck "$(at cuda_augment)" quick
check views_sanitizers views_racecheck sanitized racecheck "$(at cuda_augment)" quick

check nets ops "$(at cuda_nn)"
check nets whole_nets "$(at cuda_net)"
# Whole steps have not ended under racecheck in the time they were given: what is of this project in them has its races looked for by itself,
# here, and in the parts of the loss and of the views.
check nets_sanitizers norms_racecheck sanitized racecheck "$(at cuda_nn)" '*norms_agree'
check nets_sanitizers pooling_racecheck sanitized racecheck "$(at cuda_nn)" maxima_agree
check nets_sanitizers optimizers_racecheck sanitized racecheck "$(at cuda_nn)" optimizers_agree

check towers tower_ops "$(at cuda_attention)"
check towers whole_towers "$(at cuda_clipnet)"
check towers_sanitizers towers_memcheck sanitized memcheck "$(at cuda_attention)" 'small_shapes*'
check towers_sanitizers towers_racecheck sanitized racecheck "$(at cuda_attention)" 'small_shapes*'

check training curves_and_resuming "$(at cuda_train)"
check runs killed_and_resumed resumes
check runs killed_and_resumed_bf16 resumes --precision bf16
check runs from_gpu_to_cpu moves cuda cpu
check runs from_cpu_to_gpu moves cpu cuda
check runs equal_without_timing repeats
check runs one_rank_over_nccl one_rank
check training_sanitizers steps_memcheck steps_under memcheck

check towers tower_training "$(at cuda_clip_train)"
check discover discovery "$(at cuda_discover)"

check errors no_device refuses 'no CUDA device' env CUDA_VISIBLE_DEVICES= $begin $small
check errors no_cudnn refuses 'cuDNN 9 was not found' with_broken libcudnn.so.9 $begin $small
check errors no_cublas refuses 'cuBLASLt was not found' with_broken libcublasLt.so.13 $begin $small
check errors out_of_memory refuses 'memory' $begin $large
check errors anchors_in_a_file refuses 'store: ' $begin $small --store file

for part in $wanted; do
    case $known in *" $part "*) continue ;; esac
    echo "gpu_check: there is no part $part; there are:$known" >&2
    failed=$((failed + 1))
done
echo "$count checks, $failed failed"
[ $failed = 0 ]
