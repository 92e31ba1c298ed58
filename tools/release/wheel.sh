#!/bin/sh
# wheel.sh OUT [x86_64|aarch64] - the wheel that is released, for Linux with glibc 2.28 or later, into OUT. Its parts stay in
# OUT/parts-CPU, so that a second call builds only what has changed.
#
#   glofnd/lib/libglofnd.so             the library, CPU alone
#   glofnd/lib/libglofnd_cuda13.so      the library with CUDA 13. Python loads it if the driver can run it (glofnd/_lib.py)
#   glofnd/lib/libglofnd_cuda12.so      the library with CUDA 12, for older drivers
#   glofnd/bin/glofnd                   the program, with image and compression libraries inside. It opens oneDNN and MPI if they are there
#
# Variables: CUDA="13 12" (versions to build for; OFF: none; aarch64 has none), JOBS, PYTHON. Packages come from PyPI into OUT/venv.
# cuda_toolkit.sh fetches the CUDA compilers. aarch64 is cross-compiled: Debian's gcc-aarch64-linux-gnu and mmdebstrap.
set -eu
[ $# -ge 1 ] || { sed -n '2,/^set/s/^# \{0,1\}//p' "$0" >&2; exit 2; }
source=$(cd "$(dirname "$0")/../.." && pwd)
cpu=${2:-x86_64}
mkdir -p "$1"
out=$(cd "$1" && pwd)
parts=$out/parts-$cpu tree=$out/parts-$cpu/tree
jobs=${JOBS:-$(nproc 2> /dev/null || echo 2)}
rm -rf "$tree" && mkdir -p "$tree/lib" "$tree/bin" "$tree/share/glofnd" "$tree/include"

sh "$source/tools/release/venv.sh" "$out"
# One script is the compiler for all processors: ccache must ask it which one it is.
export CCACHE_COMPILERCHECK='%compiler% --version'
export ZIG="$out/venv/bin/python" SOURCE_DATE_EPOCH="${SOURCE_DATE_EPOCH:-1577836800}" CROSS='' SYSROOT=''

case $cpu in
x86_64) set -- ;;
aarch64)
    CROSS=aarch64-linux-gnu- SYSROOT=$out/sysroot-aarch64
    sh "$source/tools/release/sysroot.sh" "$SYSROOT" arm64
    lib=$SYSROOT/usr/lib/aarch64-linux-gnu
    export PKG_CONFIG_SYSROOT_DIR="$SYSROOT" PKG_CONFIG_LIBDIR="$lib/pkgconfig:$SYSROOT/usr/share/pkgconfig"
    set -- -DCMAKE_SYSTEM_NAME=Linux -DCMAKE_SYSTEM_PROCESSOR=aarch64 -DCMAKE_FIND_ROOT_PATH="$SYSROOT" \
        -DCMAKE_LIBRARY_ARCHITECTURE=aarch64-linux-gnu -DCMAKE_FIND_ROOT_PATH_MODE_LIBRARY=ONLY \
        -DCMAKE_FIND_ROOT_PATH_MODE_INCLUDE=ONLY -DCMAKE_FIND_ROOT_PATH_MODE_PROGRAM=NEVER
    CUDA=OFF ;;
*) echo "wheel.sh: unknown processor $cpu" >&2; exit 2 ;;
esac
export CROSS SYSROOT
version=$(sh "$source/tools/release/version.sh")

# build FOLDER TARGETS FLAGS...: paths of this machine do not enter the objects
build() {
    folder=$parts/$1 targets=$2
    shift 2
    cmake -S "$source" -B "$folder" -DCMAKE_C_COMPILER="$source/tools/release/cc_glibc228" -DCMAKE_BUILD_TYPE=Release \
        -DCMAKE_C_FLAGS_RELEASE="-O3 -DNDEBUG -ffile-prefix-map=$source=. -ffile-prefix-map=$folder=build" \
        -DGLOFND_OPENMP=OFF -DGLOFND_TESTS=OFF -DGLOFND_BENCH=OFF -DGLOFND_EXAMPLES=OFF -DGLOFND_ARCHIVES=ON "$@" \
        > "$folder.log" 2>&1 || { tail -n 30 "$folder.log"; exit 1; }
    # shellcheck disable=SC2086
    cmake --build "$folder" --parallel "$jobs" --target $targets >> "$folder.log" 2>&1 ||
        { grep -B 2 -A 8 'rror' "$folder.log" | tail -n 40; exit 1; }
}
strip=${CROSS}strip
mkdir -p "$parts"
echo "wheel: library and program for $cpu"
build cpu "glofnd_shared glofnd_cli" -DGLOFND_CUDA=OFF "$@"
"$strip" -o "$tree/lib/libglofnd.so" "$parts/cpu/libglofnd.so.$version"
"$strip" -o "$tree/bin/glofnd" "$parts/cpu/glofnd"
cp -r "$source/configs" "$tree/share/glofnd/"
cp "$source"/include/*.h "$tree/include/"

[ "${CUDA:-}" != OFF ] || CUDA=none
for major in ${CUDA:-13 12}; do
    [ "$major" != none ] || continue
    echo "wheel: library with CUDA $major"
    sh "$source/tools/release/cuda_toolkit.sh" "$out/cuda$major" "$major"
    build "cuda$major" glofnd_shared -DGLOFND_CUDA=ON -DGLOFND_PROGRAM=OFF -DCMAKE_CUDA_COMPILER="$out/cuda$major/bin/nvcc" \
        -DCMAKE_CUDA_FLAGS_RELEASE="-O3 -DNDEBUG -Xcompiler=-ffile-prefix-map=$source=.,-ffile-prefix-map=$parts=build" \
        -DGLOFND_CUDA_ARCHITECTURES='80;90-real'
    "$strip" -o "$tree/lib/libglofnd_cuda$major.so" "$parts/cuda$major/libglofnd.so.$version"
done

rm -rf "$parts/pure" && mkdir "$parts/pure"
(cd "$source" && "$ZIG" -m build --wheel --no-isolation -C wheel.cmake=false -o "$parts/pure" > "$parts/pure.log" 2>&1) ||
    { tail -n 20 "$parts/pure.log"; exit 1; }
wheel=$("$ZIG" "$source/tools/release/pack_wheel.py" "$parts"/pure/*.whl "$tree" "manylinux_2_28_$cpu" "$out")
"$ZIG" -m auditwheel show "$wheel" > "$parts/audit"
tr '\n' ' ' < "$parts/audit" | grep -Eq "constrains the platform tag to \"manylinux_2_(5|12|17|2[0-8])_$cpu\"|consistent with the following platform tag: *\"manylinux_2_(5|12|17|2[0-8])_$cpu\"" ||
    { cat "$parts/audit"; echo "wheel.sh: $wheel needs a newer glibc than 2.28" >&2; exit 1; }
[ "$(wc -c < "$wheel")" -lt 40000000 ] || { echo "wheel.sh: $wheel is larger than 40 MB" >&2; exit 1; }
ls -l "$wheel"
