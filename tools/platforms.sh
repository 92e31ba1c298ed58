#!/bin/sh
# platforms.sh OUT [clang] [musl] [aarch64] - builds libglofnd for other compilers, C libraries and processors, warnings being
# errors, and runs what can run without more: examples, and the golden cases (tests/replay). aarch64 runs under qemu-user. Each
# that cannot be tried here is named and left out. Debian: clang, musl-tools, gcc-aarch64-linux-gnu with qemu-user-static.
set -eu
[ $# -ge 1 ] || { echo "usage: $0 OUT [clang] [musl] [aarch64]" >&2; exit 2; }
mkdir -p "$1"
out=$(cd "$1" && pwd)
shift
[ $# -gt 0 ] || set -- clang musl aarch64
source=$(cd "$(dirname "$0")/.." && pwd)
jobs=${JOBS:-$(nproc 2> /dev/null || echo 2)}
tried=0

have() { command -v "$1" > /dev/null; }

# try NAME COMPILER RUNNER FLAGS...: RUNNER "": none is needed
try() {
    name=$1 compiler=$2 runner=$3 build=$out/$1
    shift 3
    have "$compiler" || { echo "$name: left out, no $compiler"; return 0; }
    [ -z "$runner" ] || have "${runner%% *}" || { echo "$name: left out, no $runner"; return 0; }
    cmake -S "$source" -B "$build" -DCMAKE_C_COMPILER="$compiler" -DGLOFND_WERROR=ON -DGLOFND_PROGRAM=OFF -DGLOFND_CUDA=OFF \
        "$@" > "$build.log" 2>&1 || { cat "$build.log"; exit 1; }
    cmake --build "$build" --parallel "$jobs" >> "$build.log" 2>&1 || { tail -n 40 "$build.log"; exit 1; }
    threads=$(sed -n 's/^OpenMP_C_FLAGS:STRING=\(-.*\)/\1/p' "$build/CMakeCache.txt")
    case " $* " in *GLOFND_OPENMP=OFF*) threads= ;; esac
    # shellcheck disable=SC2086
    "$compiler" -std=gnu17 -O2 -DGLOFND_EXPERIMENTAL -D_GNU_SOURCE -I"$source/src" -I"$source/include" -I"$source/tests" \
        "$source"/tests/replay/*.c "$source"/src/optim/*.c "$build/libglofnd.a" $threads -lpthread -lm -o "$build/replay" \
        >> "$build.log" 2>&1 || { tail -n 40 "$build.log"; exit 1; }
    # shellcheck disable=SC2086
    for program in "$build"/examples/min_step "$build"/examples/detect; do
        LD_LIBRARY_PATH=$build $runner "$program" > "$build.out" 2>&1 ||
            { cat "$build.out"; echo "$name: $program failed"; exit 1; }
    done
    # shellcheck disable=SC2086
    $runner "$build/replay" "$source/tests/golden" > "$build.out" 2>&1 ||
        { tail -n 20 "$build.out"; echo "$name: replay failed"; exit 1; }
    tried=$((tried + 1))
    echo "$name: library without warnings, examples and golden cases run; $(tail -n 1 "$build.out")"
}

for platform in "$@"; do
    case $platform in
    clang) try clang clang "" ;;
    musl) try musl musl-gcc "" -DGLOFND_OPENMP=OFF ;;
    aarch64)
        emulator=qemu-aarch64-static
        have $emulator || emulator=qemu-aarch64
        try aarch64 aarch64-linux-gnu-gcc "$emulator -L /usr/aarch64-linux-gnu" -DCMAKE_SYSTEM_NAME=Linux \
            -DCMAKE_SYSTEM_PROCESSOR=aarch64 ;;
    *) echo "platforms: unknown platform $platform" >&2; exit 2 ;;
    esac
done
echo "$tried of $# platforms tried"
[ $tried -gt 0 ] || exit 77
