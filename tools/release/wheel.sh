#!/bin/sh
# wheel.sh OUT [x86_64|aarch64] - the wheel that is released, for Linux with glibc 2.28 or later, into OUT; its parts in OUT/parts-CPU.
#
#   glofnd/lib/libglofnd.so             the library, CPU alone
#   glofnd/lib/libglofnd_cuda13.so      the same with CUDA, where nvcc 13 is found; loaded if the driver can run it (glofnd/_lib.py)
#   glofnd/lib/libglofnd_cuda12.so      the same for older drivers; NVCC12 names nvcc of CUDA 12
#   glofnd/bin/glofnd                   the program. Libraries of images and compression are inside; oneDNN and MPI are opened if they are there
#
# Variables: CUDA=OFF leaves the two libraries with CUDA out; JOBS; PYTHON. Takes packages from PyPI into OUT/venv.
# aarch64 is cross-compiled: Debian's gcc-aarch64-linux-gnu, mmdebstrap.
set -eu
[ $# -ge 1 ] || { sed -n '2,/^set/s/^# \{0,1\}//p' "$0" >&2; exit 2; }
source=$(cd "$(dirname "$0")/../.." && pwd)
cpu=${2:-x86_64}
mkdir -p "$1"
out=$(cd "$1" && pwd)
parts=$out/parts-$cpu tree=$out/parts-$cpu/tree
jobs=${JOBS:-$(nproc 2> /dev/null || echo 2)}
rm -rf "$tree" && mkdir -p "$tree/lib" "$tree/bin" "$tree/share/glofnd" "$tree/include"

if [ ! -e "$out/venv/complete" ]; then
    ${PYTHON:-python3} -m venv "$out/venv"
    "$out/venv/bin/pip" install -q 'ziglang==0.17.*' 'auditwheel==6.*' 'scikit-build-core>=0.10' build
    touch "$out/venv/complete"
fi
export ZIG="$out/venv/bin/python" SOURCE_DATE_EPOCH="${SOURCE_DATE_EPOCH:-1577836800}" CROSS='' SYSROOT=''

case $cpu in
x86_64) set -- ;;
aarch64)
    CROSS=aarch64-linux-gnu- SYSROOT=$out/sysroot-aarch64
    sh "$source/tools/release/sysroot.sh" "$SYSROOT" arm64
    lib=$SYSROOT/usr/lib/aarch64-linux-gnu
    export PKG_CONFIG_SYSROOT_DIR=$SYSROOT PKG_CONFIG_LIBDIR=$lib/pkgconfig:$SYSROOT/usr/share/pkgconfig
    set -- -DCMAKE_SYSTEM_NAME=Linux -DCMAKE_SYSTEM_PROCESSOR=aarch64 -DCMAKE_FIND_ROOT_PATH="$SYSROOT" \
        -DCMAKE_LIBRARY_ARCHITECTURE=aarch64-linux-gnu -DCMAKE_FIND_ROOT_PATH_MODE_LIBRARY=ONLY \
        -DCMAKE_FIND_ROOT_PATH_MODE_INCLUDE=ONLY -DCMAKE_FIND_ROOT_PATH_MODE_PROGRAM=NEVER
    CUDA=OFF ;;
*) echo "wheel.sh: unknown processor $cpu" >&2; exit 2 ;;
esac
export CROSS SYSROOT

# build FOLDER TARGETS FLAGS...: paths of this machine do not enter the objects
build() {
    folder=$parts/$1 targets=$2
    shift 2
    cmake -S "$source" -B "$folder" -DCMAKE_C_COMPILER="$source/tools/release/cc_glibc228" -DCMAKE_BUILD_TYPE=Release \
        -DCMAKE_C_FLAGS_RELEASE="-O3 -DNDEBUG -ffile-prefix-map=$source=." -DGLOFND_OPENMP=OFF -DGLOFND_TESTS=OFF -DGLOFND_BENCH=OFF \
        -DGLOFND_EXAMPLES=OFF -DGLOFND_ARCHIVES=ON "$@" \
        > "$folder.log" 2>&1 || { tail -n 30 "$folder.log"; exit 1; }
    # shellcheck disable=SC2086
    cmake --build "$folder" --parallel "$jobs" --target $targets >> "$folder.log" 2>&1 || { grep -B 2 -A 8 'rror' "$folder.log" | tail -n 40; exit 1; }
}
strip=${CROSS}strip
mkdir -p "$parts"
echo "wheel: library and program for $cpu"
build cpu "glofnd_shared glofnd_cli" -DGLOFND_CUDA=OFF "$@"
$strip -o "$tree/lib/libglofnd.so" "$parts/cpu/libglofnd.so.$("$ZIG" "$source/tools/release/version.py")"
$strip -o "$tree/bin/glofnd" "$parts/cpu/glofnd"
cp -r "$source/configs" "$tree/share/glofnd/"
cp "$source"/include/*.h "$tree/include/"

# with_cuda MAJOR NVCC
with_cuda() {
    echo "wheel: library with CUDA $1"
    build "cuda$1" glofnd_shared -DGLOFND_CUDA=ON -DGLOFND_PROGRAM=OFF -DCMAKE_CUDA_COMPILER="$2" -DGLOFND_CUDA_ARCHITECTURES='80;90-real'
    $strip -o "$tree/lib/libglofnd_cuda$1.so" "$parts/cuda$1/libglofnd.so.$("$ZIG" "$source/tools/release/version.py")"
}
if [ "${CUDA:-}" != OFF ]; then
    nvcc=$(command -v nvcc || true)
    case $([ -n "$nvcc" ] && "$nvcc" --version) in
    *'release 13.'*) with_cuda 13 "$nvcc" ;;
    *) echo "wheel: no nvcc 13 on PATH: without libglofnd_cuda13.so" ;;
    esac
    if [ -n "${NVCC12:-}" ]; then with_cuda 12 "$NVCC12"; else echo "wheel: NVCC12 is not set: without libglofnd_cuda12.so"; fi
fi

rm -rf "$parts/pure" && mkdir "$parts/pure"
(cd "$source" && "$ZIG" -m build --wheel --no-isolation -C wheel.cmake=false -o "$parts/pure" > "$parts/pure.log" 2>&1) || { tail -n 20 "$parts/pure.log"; exit 1; }
wheel=$("$ZIG" "$source/tools/release/pack_wheel.py" "$parts"/pure/*.whl "$tree" "manylinux_2_28_$cpu" "$out")
"$ZIG" -m auditwheel show "$wheel" > "$parts/audit"
grep -q "manylinux_2_\(17\|[0-9]\|1[0-9]\|2[0-8]\)_$cpu" "$parts/audit" || { cat "$parts/audit"; echo "wheel.sh: $wheel needs a newer glibc than 2.28" >&2; exit 1; }
ls -l "$wheel"
