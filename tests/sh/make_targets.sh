# The front to CMake: `make glofnd` is the program alone and without CUDA, also for the demo, `make` has no tests, `make test` has
# all; ccache is used where it is; a build folder of another place is named.
. "$2/tests/sh/common.inc"
unset MAKEFLAGS MAKEOVERRIDES MFLAGS MAKELEVEL       # `make test CUDA=OFF` hands them down
needs_tools make cmake
cd "$source" || exit 1
dry() { make -n --no-print-directory BUILD="$scratch/fresh" "$@" > "$scratch/out" 2> "$scratch/err" || fail "make -n $*"; }
dry glofnd
grep -q 'GLOFND_CUDA=OFF' "$scratch/out" || fail "make glofnd builds CUDA"
grep -q -- '--target glofnd_cli' "$scratch/out" || fail "make glofnd builds more than the program"
dry demo
grep -q 'GLOFND_CUDA=OFF' "$scratch/out" || fail "make demo, which trains on the CPU, builds CUDA"
dry all
grep -q -- '--target programs' "$scratch/out" || fail "make builds the tests"
grep -q 'GLOFND_CUDA=AUTO' "$scratch/out" || fail "make leaves CUDA out"
dry test
grep -q -- '--target' "$scratch/out" && fail "make test does not build all"
mkdir "$scratch/known" && echo 'GLOFND_CUDA:STRING=ON' > "$scratch/known/CMakeCache.txt"
make -n --no-print-directory BUILD="$scratch/known" glofnd > "$scratch/out"
grep -q 'GLOFND_CUDA=ON' "$scratch/out" || fail "make glofnd changes a configured folder"

cmake -S . -B "$scratch/lean" -DGLOFND_PROGRAM=OFF -DGLOFND_CUDA=OFF > "$scratch/out" 2>&1 || fail "configure"
cmake --build "$scratch/lean" --target help > "$scratch/out" 2>&1
grep -q 'programs' "$scratch/out" || fail "no target of programs"
if command -v ccache > /dev/null; then
    grep -rq 'bin/ccache' "$scratch/lean/CMakeFiles" || fail "ccache is there and is not used"
    cmake -S . -B "$scratch/lean" -DGLOFND_CCACHE=OFF > "$scratch/out" 2>&1 || fail "configure"
    grep -rq 'bin/ccache' "$scratch/lean/CMakeFiles" && fail "ccache is used though it is off"
fi

mkdir "$scratch/copy"
for name in Makefile CMakeLists.txt cmake include lib train programs examples tools LICENSE; do ln -s "$source/$name" "$scratch/copy/$name"; done
cp -r "$scratch/lean" "$scratch/copy/build"
cd "$scratch/copy" || exit 1
call make all CMAKE_FLAGS=-DGLOFND_PROGRAM=OFF
[ "$code" != 0 ] || exit 0      # a CMake that does not mind
wants 'a build folder of another place' "$code" 'was made for another place of the sources'
