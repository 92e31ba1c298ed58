#!/bin/sh
# platforms.sh OUT [clang] [musl] [aarch64] [aarch64-program] [cuda12] - builds for other compilers, C libraries and processors,
# warnings being errors, and runs what can run without more:
#   clang musl aarch64   libglofnd; examples, and the golden cases (tests/replay)
#   aarch64-program      the program with all its libraries, of Debian's arm64 packages (mmdebstrap, network); 20 tests of
#                        kernels, method, pairs and images, and a run, by qemu
#   cuda12               compiles all CUDA sources with nvcc 12, from Debian's and PyPI's packages (network): nothing runs
# aarch64 runs under qemu-user. Each that cannot be tried here is named and left out. Debian: clang, musl-tools,
# gcc-aarch64-linux-gnu with qemu-user-static.
set -eu
[ $# -ge 1 ] || { echo "usage: $0 OUT [clang] [musl] [aarch64] [aarch64-program] [cuda12]" >&2; exit 2; }
mkdir -p "$1"
out=$(cd "$1" && pwd)
shift
[ $# -gt 0 ] || set -- clang musl aarch64 aarch64-program cuda12
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
    "$compiler" -std=gnu17 -O2 -DGLOFND_EXPERIMENTAL -D_GNU_SOURCE -I"$source/lib" -I"$source/train" -I"$source/include" -I"$source/tests" \
        "$source"/tests/replay/*.c "$source"/train/optim/*.c "$build/libglofnd.a" $threads -lpthread -lm -o "$build/replay" \
        >> "$build.log" 2>&1 || { tail -n 40 "$build.log"; exit 1; }
    # shellcheck disable=SC2086
    for program in "$build"/examples/02_step "$build"/examples/01_detect; do
        LD_LIBRARY_PATH=$build $runner "$program" > "$build.out" 2>&1 ||
            { cat "$build.out"; echo "$name: $program failed"; exit 1; }
    done
    # shellcheck disable=SC2086
    $runner "$build/replay" "$source/tests/golden" > "$build.out" 2>&1 ||
        { tail -n 20 "$build.out"; echo "$name: replay failed"; exit 1; }
    tried=$((tried + 1))
    echo "$name: library without warnings, examples and golden cases run; $(tail -n 1 "$build.out")"
}

emulator=qemu-aarch64-static
have $emulator || emulator=qemu-aarch64

# A tree of Debian's arm64 packages: nothing of it is configured or run while it is made.
make_sysroot() {
    [ -e "$out/sysroot.done" ] && return 0
    have mmdebstrap || { echo "$name: left out, no mmdebstrap"; return 1; }
    packages=libc6-dev,libgcc-12-dev,libcmocka-dev,libjpeg62-turbo-dev,libpng-dev,libwebp-dev,libutf8proc-dev,zlib1g-dev
    packages=$packages,libzstd-dev,liblbfgs-dev,libdnnl-dev,libopenmpi-dev
    release=$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)
    list=$(ls /etc/apt/sources.list.d/debian.sources /etc/apt/sources.list 2> /dev/null | head -n 1)
    rm -rf "$out/sysroot"
    mmdebstrap --variant=extract --architectures=arm64 --include=$packages "$release" "$out/sysroot" "$list" \
        > "$out/sysroot.log" 2>&1 || { echo "$name: left out, no arm64 packages: $(tail -n 1 "$out/sysroot.log")"; return 1; }
    : > "$out/sysroot.done"
}

try_aarch64_program() {
    name=aarch64-program build=$out/aarch64-program sysroot=$out/sysroot
    for tool in aarch64-linux-gnu-gcc $emulator; do have $tool || { echo "$name: left out, no $tool"; return 0; }; done
    make_sysroot || return 0
    lib=$sysroot/usr/lib/aarch64-linux-gnu
    PKG_CONFIG_SYSROOT_DIR=$sysroot PKG_CONFIG_LIBDIR=$lib/pkgconfig:$sysroot/usr/share/pkgconfig \
        cmake -S "$source" -B "$build" -DCMAKE_C_COMPILER=aarch64-linux-gnu-gcc -DCMAKE_SYSTEM_NAME=Linux \
        -DCMAKE_SYSTEM_PROCESSOR=aarch64 -DCMAKE_SYSROOT="$sysroot" -DCMAKE_FIND_ROOT_PATH="$sysroot" \
        -DCMAKE_LIBRARY_ARCHITECTURE=aarch64-linux-gnu -DCMAKE_FIND_ROOT_PATH_MODE_LIBRARY=ONLY \
        -DCMAKE_FIND_ROOT_PATH_MODE_INCLUDE=ONLY -DCMAKE_FIND_ROOT_PATH_MODE_PROGRAM=NEVER \
        "-DCMAKE_CROSSCOMPILING_EMULATOR=$(command -v $emulator);-L;$sysroot" \
        -DGLOFND_WERROR=ON -DGLOFND_CUDA=OFF -DGLOFND_BENCH=OFF > "$build.log" 2>&1 || { tail -n 40 "$build.log"; exit 1; }
    # unit_equal is not among them: gcc 12 for aarch64 fails with an internal error.
    tests="unit_rng unit_order unit_options unit_npy unit_neon unit_tiles unit_simd_exp unit_select unit_layers unit_loss
        unit_learner unit_marks golden_marks unit_pairs_sweep unit_kmeans unit_augment unit_pixel_loops unit_image unit_jpeg_part
        unit_webp"
    # shellcheck disable=SC2086
    cmake --build "$build" --parallel "$jobs" --target glofnd_cli $tests >> "$build.log" 2>&1 ||
        { grep -B 2 -A 8 'error' "$build.log" | tail -n 40; exit 1; }
    # shellcheck disable=SC2086
    ctest --test-dir "$build" --parallel "$jobs" -R "^($(echo $tests | tr ' ' '|'))\$" > "$build.out" 2>&1 ||
        { tail -n 30 "$build.out"; echo "$name: tests failed"; exit 1; }
    run="$emulator -L $sysroot $build/glofnd"
    rm -rf "$build/run"
    $run pretrain --data shapes:n=32,size=16 --arch resnet8 --head-hidden 8 --head-out 8 --batch 8 --epochs 1 --threads 1 \
        --workers 1 --out "$build/run" --quiet > "$build.run" 2>&1 || { cat "$build.run"; echo "$name: a run failed"; exit 1; }
    tried=$((tried + 1))
    echo "$name: program without warnings; $(grep -c 'Passed' "$build.out") tests and a run by qemu; $($run info |
        sed -n 's/.*\(kernels for .*\)/\1/p' | head -n 1)"
}

# The compiler of CUDA 12 out of a newer Debian's package (its part non-free, from the mirror of this machine), which is only
# unpacked; headers out of PyPI's packages.
get_cuda12() {
    [ -e "$get/done" ] && return 0
    for tool in python3 apt-get dpkg-deb; do have $tool || { echo "no $tool"; return 1; }; done
    rm -rf "$get"
    mkdir -p "$get/state/lists/partial" "$get/cache/archives/partial" "$get/nvvm" "$get/deb"
    : > "$get/state/status"
    mirror=$(cat /etc/apt/sources.list.d/debian.sources /etc/apt/sources.list 2> /dev/null |
        sed -n 's/^URIs: *//p; s/^deb *\(\[[^]]*\]\)* *\([a-z]*:[^ ]*\).*/\2/p' | head -n 1)
    echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror trixie non-free" > "$get/list"
    options="-qq -o Dir::State=$get/state -o Dir::State::status=$get/state/status -o Dir::Cache=$get/cache
        -o Dir::Etc::sourcelist=$get/list -o Dir::Etc::sourceparts=/dev/null -o APT::Sandbox::User=root"
    # shellcheck disable=SC2086
    { apt-get $options update && (cd "$get" && apt-get $options download nvidia-cuda-toolkit) &&
        dpkg-deb -x "$get"/nvidia-cuda-toolkit_*.deb "$get/deb"; } > "$get/log" 2>&1 || { tail -n 1 "$get/log"; return 1; }
    mkdir "$get/bin"
    for tool in cudafe++ ptxas fatbinary bin2c; do cp "$get/deb/usr/bin/$tool" "$get/bin/" || return 1; done
    for tool in nvcc cicc; do cp "$get/deb/usr/lib/nvidia-cuda-toolkit/bin/$tool" "$get/bin/" || return 1; done
    cp -r "$get/deb/usr/lib/nvidia-cuda-toolkit/libdevice" "$get/nvvm/"
    printf '%s\n' 'TOP = $(_HERE_)/..' 'CICC_PATH = $(TOP)/bin' 'NVVMIR_LIBRARY_DIR = $(TOP)/nvvm/libdevice' \
        'PATH += $(TOP)/bin:' > "$get/bin/nvcc.profile"
    { python3 -m venv "$get/venv" && "$get/venv/bin/python" -m pip -q install --no-deps 'nvidia-cuda-nvcc-cu12==12.4.*' \
        'nvidia-cuda-runtime-cu12==12.4.*' 'nvidia-cuda-cccl-cu12==12.4.*' 'nvidia-cublas-cu12==12.4.*' \
        nvidia-cudnn-cu12 nvidia-nccl-cu12; } > "$get/log" 2>&1 || { tail -n 1 "$get/log"; return 1; }
    : > "$get/done"
}

# All CUDA sources through nvcc 12; objects alone, as nothing could run.
try_cuda12() {
    name=cuda12 build=$out/cuda12 get=$out/cuda12-tools
    get_cuda12 || { echo "$name: left out, no compiler of CUDA 12"; return 0; }
    parts=$(echo "$get"/venv/lib/python3*/site-packages/nvidia)
    nvcc=$get/bin/nvcc
    include=$(for folder in "$parts"/*/include; do printf -- '-I%s ' "$folder"; done)
    rm -rf "$build"
    mkdir -p "$build"
    (cd "$source" && find lib/cuda train/nn/cuda train/loader/cuda train/dist/cuda -name '*.cu' -o -name '*.c' ! -path '*/absent/*') | LC_ALL=C sort > "$build/list"
    define="-DGLOFND_EXPERIMENTAL -DGF_HAVE_HOPPER -I$source/include -I$source/lib -I$source/train"
    while read -r file; do
        case $file in
        *sm90*) target="-gencode arch=compute_90a,code=sm_90a" ;;
        *) target="-gencode arch=compute_90,code=sm_90" ;;
        esac
        case $file in
        *.c) echo "cc -std=c17 -D_GNU_SOURCE= -O1 -Wall -Wextra -Werror $define" \
            "$(echo "$include" | sed 's/-I/-isystem /g') -c $source/$file -o $build/$(basename "$file").o" ;;
        *) echo "$nvcc -std=c++17 -O1 $target $define $include" \
            "--expt-relaxed-constexpr -Xcompiler=-fno-exceptions,-fno-rtti -Werror=all-warnings -c $source/$file" \
            "-o $build/$(basename "$file").o" ;;
        esac
    done < "$build/list" > "$build/commands"
    xargs -P "$jobs" -I {} sh -c '{} || { echo "failed: {}"; exit 255; }' < "$build/commands" > "$build.log" 2>&1 ||
        { tail -n 30 "$build.log"; echo "$name: CUDA sources do not compile"; exit 1; }
    tried=$((tried + 1))
    release=$("$nvcc" --version | sed -n 's/.*release \([0-9.]*\).*/\1/p')
    echo "$name: $(wc -l < "$build/list") CUDA sources compile with CUDA $release; nothing was run"
}

for platform in "$@"; do
    case $platform in
    clang) try clang clang "" ;;
    musl) try musl musl-gcc "" -DGLOFND_OPENMP=OFF ;;
    aarch64)
        try aarch64 aarch64-linux-gnu-gcc "$emulator -L /usr/aarch64-linux-gnu" -DCMAKE_SYSTEM_NAME=Linux \
            -DCMAKE_SYSTEM_PROCESSOR=aarch64 ;;
    aarch64-program) try_aarch64_program ;;
    cuda12) try_cuda12 ;;
    *) echo "platforms: unknown platform $platform" >&2; exit 2 ;;
    esac
done
echo "$tried of $# platforms tried"
[ $tried -gt 0 ] || exit 77
