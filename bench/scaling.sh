#!/bin/sh
# Weak and strong scaling of training on the ranks that mpirun can start here: `sh bench/scaling.sh BUILD [RANKS...]`.
# Strong: BATCH samples in all, for all numbers of ranks. Weak: a quarter of it on each rank. BATCH, ARCH, SIZE and MPIRUN
# ("mpirun --hostfile hosts", "mpirun --oversubscribe") may be set. Efficiency: images/s of a rank, against the first number's.
set -u
build=${1:?"usage: sh bench/scaling.sh BUILD [RANKS...]"}
shift
[ $# -gt 0 ] || set -- 1 2 4
batch=${BATCH:-64} arch=${ARCH:-resnet18} size=${SIZE:-32} mpirun=${MPIRUN:-mpirun}
bench=$build/bench/ranks
[ -x "$bench" ] || { echo "there is no $build/bench/ranks: build the benchmarks"; exit 1; }
field() { sed -n "s/.*\"$1\": \([0-9.]*\).*/\1/p"; }
measure() { # KIND BATCH RANKS
    line=$($mpirun -np "$3" "$bench" --quick --steps 8 --arch "$arch" --size "$size" --batch "$2" --json | grep step_ms)
    [ -n "$line" ] || { echo "$bench failed on $3 ranks"; exit 1; }
    images=$(echo "$line" | field images_per_s)
    [ "$3" = "$first" ] && base=$(awk -v i="$images" -v r="$3" 'BEGIN {print i / r}')
    printf '%-7s %6s %7s %10s %12s %10s %10s\n' "$1" "$3" "$2" "$(echo "$line" | field step_ms)" "$images" \
        "$(echo "$line" | field talk_share)" "$(awk -v i="$images" -v b="$base" -v r="$3" 'BEGIN {printf "%.2f", i / b / r}')"
}
printf '%-7s %6s %7s %10s %12s %10s %10s\n' kind ranks batch 'step ms' images/s 'comm share' efficiency
first=$1
for ranks in "$@"; do measure strong "$batch" "$ranks"; done
each=$((batch / 4 > 2 ? batch / 4 : 2))
for ranks in "$@"; do measure weak $((each * ranks)) "$ranks"; done
