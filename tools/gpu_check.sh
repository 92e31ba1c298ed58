#!/bin/sh
# gpu_check.sh [-j JOBS] [-b BUILD] [PART...] - all checks that need a GPU, one line per check: ok, FAIL or skipped, with its
# seconds.
#
# JOBS: checks at a time (1); several share the GPU. BUILD (or the variable BUILD; default: build) is a build folder with CUDA, or
# a folder of its programs alone (glofnd, replay, unit_*, cuda_*, gpu_lost.so, old_driver/). PART: some of the parts below, or
# names of single checks; none: all. Each check works in its own folder under LOGS (default: BUILD/gpu_check), with its output
# (log) and exit status (status). LIMIT and SANITIZER_LIMIT: seconds for one program (300), and for one under compute-sanitizer
# (300): a program that does not end is a failure. Exit status: 0 if nothing failed. A missing program is a failure: name the
# parts to run.
#
# A new check is one line at the end:    check PART NAME COMMAND...    exit status 0: ok, 77: skipped, else FAIL
# COMMAND is a program, or a function of this file before it: on_gpu, sanitized TOOL, own TOOL, refuses TEXT.
set -u
build=${BUILD:-build} jobs=1
while getopts b:j: option; do
    case $option in
        b) build=$OPTARG ;;
        j) jobs=$OPTARG ;;
        *) sed -n '2,/^set/s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
    esac
done
shift $((OPTIND - 1))
wanted=" $* "
case $jobs in '' | *[!0-9]* | 0*) echo "gpu_check: -j $jobs: expected a number of checks at a time" >&2; exit 2 ;; esac
source=$(cd "$(dirname "$0")/.." && pwd)
export GLOFND_SOURCE="${GLOFND_SOURCE:-$source}"       # fixtures of tests: the build may have been made elsewhere
[ -d "$build" ] || { echo "gpu_check: $build: no such folder; build first, or name the build folder with -b" >&2; exit 2; }
build=$(cd "$build" && pwd)
if "$build/glofnd" info 2>/dev/null | grep 'no CUDA device'; then
    echo 'skipped: all checks need a GPU'
    exit 77
fi
logs=${LOGS:-$build/gpu_check}
mkdir -p "$logs" || exit 2
logs=$(cd "$logs" && pwd)
cores=$(getconf _NPROCESSORS_ONLN)
export OMP_WAIT_POLICY=passive OMP_NUM_THREADS="${OMP_NUM_THREADS:-$(((cores + jobs - 1) / jobs))}"      # jobs share the cores
known=' ' checks=' '            # all parts, all names of checks
names=                          # of checks that were started
number=0

# at PROGRAM: its path in a build folder, or in a folder of programs
at() { if [ -e "$build/tests/$1" ]; then echo "$build/tests/$1"; else echo "$build/$1"; fi; }

# A check takes a token from this pipe before it starts and returns it at its end, so JOBS of them run at a time.
tokens=$(mktemp -u "$logs/tokens.XXXXXX")
mkfifo "$tokens" && exec 3<>"$tokens" && rm "$tokens" || exit 2
for token in $(seq "$jobs"); do echo "$token" >&3; done
trap 'trap - INT TERM; kill 0' INT TERM         # background jobs do not receive Ctrl-C

# limited PROGRAM...: ends it after LIMIT seconds
limited() {
    timeout -k 5 "${LIMIT:-300}" "$@"
    limited_status=$?
    [ $limited_status != 124 ] || echo "stopped after ${LIMIT:-300} seconds"
    return $limited_status
}

# run_check NAME COMMAND...: in its folder; prints one line at its end
run_check() {
    name=$1
    shift
    case $1 in */*) set -- limited "$@" ;; esac
    began=$(date +%s)
    (cd "$logs/$name" && "$@") >"$logs/$name/log" 2>&1 3>&-
    status=$?
    took=$(($(date +%s) - began))
    echo $status >"$logs/$name/status"
    case $status in
        0) word=ok ;;
        77) word=skipped ;;
        *) word=FAIL ;;
    esac
    printf '%-8s %-28s %4d s  %s\n' "$word" "$name" "$took" "$(grep -v '^$' "$logs/$name/log" | tail -n 1 | cut -c 1-90)"
    echo >&3
}

# check PART NAME COMMAND...
check() {
    part=$1 name=$2
    shift 2
    case $known in *" $part "*) ;; *) known="$known$part " ;; esac
    checks="$checks$name "
    case $wanted in '  ' | *" $part "* | *" $name "*) ;; *) return ;; esac
    read -r token <&3
    names="$names $name" number=$((number + 1))
    rm -rf "${logs:?}/$name" && mkdir "$logs/$name" || exit 2
    run_check "$name" "$@" &
}

# alone PART NAME COMMAND...: a check that runs while no other one does
alone() {
    wait
    check "$@"
    wait
}

# on_gpu PROGRAM...: a test of the CPU, on the GPU
on_gpu() { GLOFND_TEST_DEVICE=cuda limited "$@"; }

# sanitized TOOL PROGRAM...: a finding is a failure, as is a run that does not end
sanitized() {
    tool=$1
    shift
    command -v compute-sanitizer >/dev/null || { echo 'skipped: compute-sanitizer is not installed'; return 77; }
    timeout -k 5 "${SANITIZER_LIMIT:-300}" compute-sanitizer --tool "$tool" --error-exitcode 1 \
        --port $((49152 + 16 * number)) "$@"                    # several at a time need different ports
}

# Names of all kernels of this project.
kernels=$(find "$source/lib/cuda" "$source/train" -name '*.cu*' -exec cat {} + |
    tr '\n' ' ' |
    grep -oE '__global__ +void( +__launch_bounds__\([^()]*\))? +[A-Za-z_0-9]+ *\(' | sed 's/ *($//; s/.* //' | sort -u)

# own TOOL PROGRAM...: the same, for these kernels only: those of cuDNN and cuBLASLt take minutes. Some of theirs, for bf16 and
# for rounded float32, fail under racecheck even if it checks no kernel at all (compute-sanitizer 2025.3 on an H200): checks under
# racecheck avoid them.
own() {
    own_tool=$1
    shift
    sanitized "$own_tool" $(for kernel in $kernels; do echo --kernel-name "kns=_Z${#kernel}$kernel"; done) "$@"
}

# ----- runs of the command line -----

small='--data shapes:n=256,classes=4,size=32,seed=1 --arch resnet8 --batch 32 --epochs 4 --start_epoch 1 --head_hidden 64
    --head_out 32 --checkpoint_steps 4 --threads 4'
pretrain() { out=$1; shift; "$build/glofnd" pretrain --out "$out" $small "$@"; }

# steps_under sanitized|own TOOL FLAGS...: two training steps, without timing algorithms
steps_under() {
    how=$1 tool=$2
    shift 2
    $how "$tool" "$build/glofnd" pretrain --out run $small --data shapes:n=64,classes=4,size=32,seed=1 --epochs 1 \
        --start_epoch 0 --device cuda --deterministic 2 "$@"
}

tiny_clip='--task clip --arch vit --patch 8 --size 16 --image_width 64 --image_layers 1 --image_heads 2 --text_width 64
    --text_layers 1 --text_heads 2 --context 24 --vocab_merges 40 --embed_dim 32'

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

# resumes FLAGS...: a killed and resumed run ends with the bits of an undisturbed run that has chosen the same algorithms
resumes() {
    pretrain whole --device cuda "$@" || return 1
    mkdir broken && cp whole/plans.txt broken/
    killed broken --device cuda "$@"
    "$build/glofnd" pretrain --out broken --resume || return 1
    cmp whole/model.safetensors broken/model.safetensors &&
        cmp whole/checkpoints/*/anchors.glofnd broken/checkpoints/*/anchors.glofnd
}

# lost FLAGS...: the GPU is lost in the middle of a run, which reports that and names its last checkpoint. Resumed on the GPU it
# ends with the bits of an undisturbed run; a copy of it ends on the CPU
lost() {
    pretrain whole --device cuda --epochs 8 "$@" || return 1
    mkdir broken && cp whole/plans.txt broken/
    GPU_LOST_AT='broken/checkpoints/step-*/DONE' LD_PRELOAD=$(at gpu_lost.so) "$build/glofnd" pretrain --out broken $small \
        --device cuda --epochs 8 "$@" >said.txt 2>&1
    status=$?
    cat said.txt
    [ $status = 1 ] && grep -q '^glofnd pretrain: the GPU failed' said.txt &&
        grep -q 'checkpoint,* broken/checkpoints/step-[0-9]*.* with: glofnd pretrain --out broken --resume' said.txt &&
        grep -q 'device cpu' said.txt || return 1
    cp -r broken moved
    "$build/glofnd" pretrain --out moved --resume --device cpu || return 1
    "$build/glofnd" pretrain --out broken --resume || return 1
    cmp whole/model.safetensors broken/model.safetensors
}

# moves FROM TO: a run that is killed on one device continues to its end on the other
moves() {
    killed moved --device "$1"
    "$build/glofnd" pretrain --out moved --resume --device "$2" >moved.txt 2>&1
    status=$?
    cat moved.txt
    [ $status = 0 ] && grep -q 'resumed' moved.txt
}

# repeats: without timing two runs choose the same algorithms
repeats() {
    for run in once again; do pretrain $run --device cuda --precision bf16 --deterministic 2 || return 1; done
    cmp once/model.safetensors again/model.safetensors
}

# named_runs: short runs of other methods end, with about the losses of the CPU (cuda_named compares closely)
named_runs() {
    while read -r name flags; do
        for device in cuda cpu; do
            "$build/glofnd" pretrain --out "$name-$device" $small --epochs 2 --start_epoch 0 --lr 1e-6 --device $device $flags \
                </dev/null || return 1
            grep '"event": "epoch"' "$name-$device/log.jsonl" | sed 's/.*"loss": *\([-0-9.e+]*\).*/\1/' >"$name-$device.txt"
        done
        paste "$name-cuda.txt" "$name-cpu.txt" | awk -v name="$name" '
            { d = $1 - $2; if (NF != 2 || d * d > 4e-4 * $2 * $2) { print name ": " $0; bad = 1 } }
            END { exit bad || NR != 2 }' || return 1
    done <<EOF
wcl --loss simclr --detector components --action attract --attract_omega 1
views --loss isogclr-views
support --detector fnc --fnc_rule topk --fnc_support 3 --alpha 0.05
threshold --detector fnc --fnc_rule threshold --fnc_support 2 --fnc_threshold 0.6
positive --detector positive --margin -0.1
mutual --detector mutual --alpha 0.05 --lambda-init quantile
relative --detector positive-relative --margin -0.1 --action weight
EOF
}

# ranked COUNT FLAGS...: pretraining over MPI
ranked() {
    count=$1
    shift
    OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 mpirun --oversubscribe -np "$count" "$build/glofnd" pretrain "$@"
}

# one_rank FLAGS...: a run of one rank over MPI and NCCL ends with the bits of a run without ranks
one_rank() {
    command -v mpirun >/dev/null || { echo 'skipped: mpirun is not installed'; return 77; }
    pretrain alone --device cuda "$@" || return 1
    mkdir ranked && cp alone/plans.txt ranked/
    ranked 1 --out ranked $small --device cuda "$@" || return 1
    cmp alone/model.safetensors ranked/model.safetensors
}

near='--similarity bank --neighbours 3 --neighbour_share 0.5 --start_epoch 0'

# other_ranks: a run with averages begins with two ranks on the CPU, and continues as one rank on the GPU, and there without ranks
other_ranks() {
    command -v mpirun >/dev/null || { echo 'skipped: mpirun is not installed'; return 77; }
    ranked 2 --out run $small $near --epochs 2 --device cpu || return 1
    ranked 1 --out run --resume --epochs 3 --device cuda >one.txt 2>&1 || { cat one.txt; return 1; }
    "$build/glofnd" pretrain --out run --resume --epochs 4 --device cuda >none.txt 2>&1 || { cat none.txt; return 1; }
    grep -q 'resumed' one.txt && grep -q 'resumed' none.txt || { cat one.txt none.txt; return 1; }
    [ "$(grep -c '"event": "epoch"' run/log.jsonl)" = 4 ]
}

# refuses TEXT COMMAND...: fails with a message that suggests the CPU, before a run begins
refuses() {
    text=$1
    shift
    "$@" >said.txt 2>&1
    status=$?
    cat said.txt
    [ $status != 0 ] && [ $status -lt 126 ] && grep -q "$text" said.txt && grep -q 'cpu' said.txt && [ ! -e refused/log.jsonl ]
}

# with_broken LIBRARY COMMAND...: an empty file of that name is found first
with_broken() {
    mkdir broken_libs && : >"broken_libs/$1" && : >"broken_libs/${1%.so.*}.so"
    shift
    with_libraries "$PWD/broken_libs" "$@"
}

# with_libraries FOLDER COMMAND...: the libraries in it are found first
with_libraries() {
    folder=$1
    shift
    LD_LIBRARY_PATH=$folder:${LD_LIBRARY_PATH:-} "$@"
}

# says TEXT COMMAND...: ends well, and says so
says() {
    text=$1
    shift
    "$@" >said.txt 2>&1
    status=$?
    cat said.txt
    [ $status = 0 ] && grep -q "$text" said.txt
}

# some_rows: a table of 2,000 embeddings of 16 numbers
some_rows() { awk 'BEGIN { srand(3); for (i = 0; i < 2000; i++) { for (j = 0; j < 16; j++) printf "%s%.4f", j ? "," : "", rand() - 0.5; print "" } }' >rows.csv; }

# slow_discovery: without cuBLASLt discovery works, and says that it is slow
slow_discovery() { some_rows && says 'cuBLASLt was not found' with_broken libcublasLt.so.13 "$build/glofnd" discover rows.csv --device cuda --out found; }

begin="$build/glofnd pretrain --out refused --device cuda"
large='--data shapes:n=4096,classes=4,size=32,seed=1 --arch resnet50 --size 224 --batch 4000 --epochs 1 --deterministic 2'

# units_on_gpu: discovery in units on the GPU, with and without ranks and after kill -9, writes the files of the CPU
units_on_gpu() {
    command -v python3 >/dev/null || { echo 'skipped: python3 is not installed'; return 77; }
    PYTHONPATH="$source/tests/sh" PYTHONDONTWRITEBYTECODE=1 python3 - <<'PY' || return 1
import array, random
from npy_file import npy
random.seed(2)
N, D = 9000, 48
x = array.array("f")
for i in range(N):
    x.extend(random.gauss(0, 1) for _ in range(D)) if i % 100 != 7 else x.extend(x[-D:])
npy("x.npy", "<f4", (N, D), x.tobytes())
PY
    for options in '--k 5 --dup 0.9 --negatives 3' '--alpha 0.01 --dup 0.5'; do
        rm -rf plain whole units small ranks killed killed.partial cells
        "$build/glofnd" discover x.npy $options --quiet --out plain || return 1
        "$build/glofnd" discover x.npy $options --device cuda --quiet --out whole && diff -r plain whole || return 1
        "$build/glofnd" discover x.npy $options --device cuda --resume --quiet --out units && diff -r plain units || return 1
        "$build/glofnd" discover x.npy $options --device cuda --memory 0.001 --quiet --out small || return 1
        diff -r plain small || return 1
        "$build/glofnd" discover x.npy $options --device cuda --resume --quiet --out killed & process=$!
        while kill -0 $process 2>/dev/null && [ ! -e killed.partial/pairs-000002 ]; do sleep 0.01; done
        kill -9 $process 2>/dev/null
        wait $process 2>/dev/null
        [ -e killed ] || "$build/glofnd" discover x.npy $options --device cuda --resume --quiet --out killed || return 1
        diff -r plain killed || return 1
        "$build/glofnd" discover x.npy --dup 0.5 --duplicates --device cuda --quiet --out cells || return 1
        "$build/glofnd" discover x.npy --dup 0.5 --duplicates --quiet --out cpu_cells || return 1
        diff -r -x 'summary.*' cells cpu_cells || return 1
        "$build/glofnd" discover x.npy --dup 0.5 --duplicates --device cuda --resume --quiet --out unit_cells || return 1
        diff -r cells unit_cells || return 1
        rm -r cpu_cells unit_cells
        "$build/glofnd" discover x.npy $options --approx 3 --device cuda --out approx 2> said || return 1
        grep -q 'compares on the CPU' said || return 1
        "$build/glofnd" discover x.npy $options --approx 3 --quiet --out cpu_approx && diff -r approx cpu_approx || return 1
        rm -r approx cpu_approx
        command -v mpirun >/dev/null || continue
        OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 mpirun --oversubscribe -np 2 "$build/glofnd" discover x.npy \
            $options --device cuda --quiet --out ranks && diff -r plain ranks || return 1
    done
}

golden="$(at replay) $source/tests/golden"

# ----- the checks: the longest first -----

check training curves_and_resuming "$(at cuda_train)" -memory_is_counted
check loss passes "$(at cuda_pass)"
check loss small_temperatures "$(at cuda_shift)"
check loss moving_thresholds "$(at cuda_moving)"
check nets whole_nets "$(at cuda_net)"
check nets ops "$(at cuda_nn)"
check nets norms "$(at cuda_norm)"
check nets stems "$(at cuda_stem)"
check nets fused_convolutions "$(at cuda_point)"
check nets fused_windows "$(at cuda_window)"
check loss large_batches "$(at cuda_large)"
check loss types_and_strides "$(at cuda_batch)"
check loss loss_on_device "$(at cuda_loss)"
check loss state_of_the_caller "$(at cuda_lent)"
check loss keys "$(at cuda_keys)"
check loss state_of_the_caller_bits on_gpu "$(at unit_lent)"
check views views "$(at cuda_augment)"
check errors failing_calls "$(at cuda_fault)"
check ranks ranks_share_a_gpu "$(at cuda_ranks)"
check ranks averages_of_ranks "$(at cuda_averages)"
check encoders whole_encoders "$(at cuda_clipnet)"
check encoders encoder_ops "$(at cuda_attention)"
check encoders encoder_training "$(at cuda_clip_train)"
check discover discovery "$(at cuda_discover)"
check discover discovery_in_units on_gpu "$(at unit_units)"
check discover discovery_files units_on_gpu
check errors lost_device lost

check training_sanitizers steps_racecheck steps_under own racecheck --tf32 0
check training_sanitizers steps_racecheck_image_text steps_under own racecheck $tiny_clip
check training_sanitizers steps_memcheck steps_under sanitized memcheck
check training_sanitizers steps_memcheck_bf16 steps_under sanitized memcheck --precision bf16
check training_sanitizers steps_memcheck_image_text steps_under sanitized memcheck $tiny_clip
check training_sanitizers steps_initcheck steps_under own initcheck
check training_sanitizers steps_synccheck steps_under own synccheck --precision bf16

check loss_sanitizers step_memcheck sanitized memcheck $golden A_dcl_glofnd_a0.05 --device cuda
check loss_sanitizers step_memcheck_image_text sanitized memcheck $golden C_v3_glofnd_a0.05_resume_2rank --device cuda
check loss_sanitizers step_racecheck sanitized racecheck $golden A_dcl_uglofnd_a0.05 --device cuda
check loss_sanitizers step_racecheck_image_text sanitized racecheck $golden C_v1_glofnd_a0.05 --device cuda
check loss_sanitizers types_memcheck sanitized memcheck "$(at cuda_batch)" 'a_*'
check loss_sanitizers types_strides_memcheck sanitized memcheck "$(at cuda_batch)" 'unit_rows*'
check loss_sanitizers passes_racecheck sanitized racecheck "$(at cuda_pass)" few_small_shapes
check loss_sanitizers passes_memcheck sanitized memcheck "$(at cuda_pass)" 'few_*_shapes'
check loss_sanitizers selections_memcheck sanitized memcheck "$(at cuda_select)" few_wanted_samples
check loss_sanitizers selections_racecheck sanitized racecheck --kernel-name kns=quantile "$(at cuda_select)" few_wanted_samples
check loss_sanitizers hopper_memcheck sanitized memcheck "$(at cuda_pass)" 'few_processors_*'
# In the kernels for Hopper racecheck (compute-sanitizer 2025.3 on an H200) sees accesses of threads to shared memory, but not
# those of the copy engine and of warpgroup products: it missed a stage of wide_kernel that was released before it was read, but
# found a missing barrier in stats_pairs and stats_wgmma. grad_wgmma is excluded because of two false reports: the numbers of the
# columns, which workers read before one thread of each warp, synchronized with the others, arrives at a barrier, and which the
# fetching warp overwrites after it has waited there (no report if all threads arrive); and partial gradients, although all
# workers meet at bar.sync between writing and reading (reason unknown).
# Under racecheck the kernels in flow (flow_stats, flow_weigh) end with "the sanitizer failed to handle a hardware exception";
# memcheck and synccheck report nothing.
check loss_sanitizers hopper_racecheck sanitized racecheck --kernel-name-exclude kns=grad_wgmma "$(at cuda_pass)" \
    'few_processors_*'
check loss_sanitizers hopper_synccheck sanitized synccheck "$(at cuda_pass)" 'few_processors_*'
check loss_sanitizers large_memcheck sanitized memcheck "$(at cuda_pass)" 'large_tiles_*'
check loss_sanitizers large_racecheck sanitized racecheck "$(at cuda_pass)" 'large_few_*'
check loss_sanitizers large_synccheck sanitized synccheck "$(at cuda_pass)" 'large_tiles_*'
check loss_sanitizers averages_memcheck sanitized memcheck "$(at cuda_averages)" 'neighbours_*'
check loss_sanitizers averages_racecheck sanitized racecheck "$(at cuda_averages)" 'few_*'
check views_sanitizers views_racecheck sanitized racecheck "$(at cuda_augment)" test_quick
check views_sanitizers views_memcheck sanitized memcheck "$(at cuda_augment)" test_quick
check nets_sanitizers norms_racecheck own racecheck "$(at cuda_nn)" '*norms_agree'
for part in small_teams_agree shortcuts_agree; do
    check nets_sanitizers "${part}_memcheck" own memcheck "$(at cuda_norm)" $part
    check nets_sanitizers "${part}_racecheck" own racecheck "$(at cuda_norm)" $part
done
check nets_sanitizers stems_memcheck own memcheck "$(at cuda_stem)" small_stems_agree
check nets_sanitizers stems_racecheck own racecheck "$(at cuda_stem)" small_stems_agree
check nets_sanitizers points_memcheck own memcheck "$(at cuda_point)" 'small_*'
check nets_sanitizers points_racecheck own racecheck "$(at cuda_point)" 'small_*'
check nets_sanitizers windows_memcheck own memcheck "$(at cuda_window)" 'small_*'
check nets_sanitizers windows_racecheck own racecheck "$(at cuda_window)" 'small_*'
check nets_sanitizers images_racecheck own racecheck "$(at cuda_nn)" 'convolutions_of_images*'
check nets_sanitizers pooling_racecheck own racecheck "$(at cuda_nn)" maxima_agree
check nets_sanitizers optimizers_racecheck own racecheck "$(at cuda_nn)" optimizers_agree
check encoders_sanitizers encoders_memcheck sanitized memcheck "$(at cuda_attention)" 'small_shapes*'
check encoders_sanitizers encoders_racecheck own racecheck "$(at cuda_attention)" 'small_shapes*'
check discover_sanitizers discovery_memcheck sanitized memcheck "$(at cuda_discover)" 'a_small*'
check discover_sanitizers discovery_racecheck own racecheck "$(at cuda_discover)" 'own_kernels*'

check loss selection "$(at cuda_select)"
check loss given_similarities "$(at cuda_detect)"
check loss named_methods "$(at cuda_named)"
check loss_sanitizers named_memcheck sanitized memcheck "$(at cuda_named)" 'small_*'
check loss_sanitizers named_racecheck sanitized racecheck "$(at cuda_named)" 'small_*'

check ranks one_rank_over_nccl one_rank
check ranks one_rank_with_averages one_rank $near
check ranks averages_move_on other_ranks
check ranks nccl "$(at cuda_nccl)"

check runs killed_and_resumed resumes
check runs killed_and_resumed_bf16 resumes --precision bf16
check runs killed_and_resumed_bank resumes --similarity bank --start_epoch 0
check runs killed_and_resumed_kmeans resumes --detector groups --groups kmeans --kmeans_groups 4,9 --kmeans_epochs 1
check runs other_methods named_runs
check runs from_gpu_to_cpu moves cuda cpu
check runs from_cpu_to_gpu moves cpu cuda
check runs equal_without_timing repeats

check errors no_device refuses 'no CUDA device' env CUDA_VISIBLE_DEVICES= $begin $small
check errors old_driver refuses 'driver is for CUDA 11.4' with_libraries "$(at old_driver)" $begin $small
check errors no_cudnn refuses 'cuDNN 9 was not found' with_broken libcudnn.so.9 $begin $small
check errors no_cublas refuses 'cuBLASLt was not found' with_broken libcublasLt.so.13 $begin $small
check errors slow_discovery slow_discovery
check errors out_of_memory refuses 'pretrain: .*out of memory' $begin $large
check errors anchors_in_a_file refuses 'store: ' $begin $small --store file

# Many short steps, each with a wait: beside 12 other checks these take minutes, alone seconds.
alone loss golden_replay $golden --device cuda
alone loss step_on_device "$(at cuda_step)"
alone loss step_values on_gpu "$(at unit_step)"
alone loss step_candidates on_gpu "$(at unit_candidates)"
alone loss step_repeats on_gpu "$(at unit_repeats)"
alone loss step_positives on_gpu "$(at unit_positives)"
alone loss step_fixed on_gpu "$(at unit_fixed)"
alone loss step_matrix on_gpu "$(at unit_matrix)"
check loss matrix "$(at cuda_matrix)"
alone loss step_learners on_gpu "$(at unit_learner)"
alone loss step_ranks_and_bits on_gpu "$(at unit_equal)"
alone loss step_keys on_gpu "$(at unit_keys)"
alone loss step_marks on_gpu "$(at unit_marks)"
alone loss step_neighbours on_gpu "$(at unit_neighbours)"
alone loss step_named on_gpu "$(at unit_named_methods)"
alone loss step_fnc_support on_gpu "$(at unit_fnc_support)"
alone loss golden_marks on_gpu "$(at golden_marks)"
# Measures the free memory of the GPU.
alone training memory_is_counted "$(at cuda_train)" memory_is_counted

failed=0
for name in $names; do
    case $(cat "$logs/$name/status") in 0 | 77) ;; *) failed=$((failed + 1)) ;; esac
done
for part in $wanted; do
    case $known$checks in *" $part "*) continue ;; esac
    echo "gpu_check: unknown part or check: $part; parts:$known" >&2
    failed=$((failed + 1))
done
echo "$number checks, $failed failed"
[ $failed = 0 ]
