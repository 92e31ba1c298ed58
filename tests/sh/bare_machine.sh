# Without oneDNN, MPI and the libraries of a GPU the program starts, what needs none of them works, and what needs one says which,
# and the package to install. A root of its own holds the program and the libraries that it names, no others.
. "$2/tests/sh/common.inc"
needs
grep -Eq '^CMAKE_BUILD_TYPE:[A-Z]+=(San|Tsan)$' "$build/CMakeCache.txt" && skip "sanitizers need /proc and more libraries"
needs_tools readelf ldd chroot
for library in libdnnl libmpi libnccl libcudnn libcublas libOpenCL libstdc++; do
    readelf -d "$glofnd" | grep -q "NEEDED.*\[$library" && fail "$glofnd cannot start without $library"
done

mkdir -p root/tmp root/dev
cp "$glofnd" root/glofnd
ldd "$glofnd" | sed -n 's/.*=> \(\/[^ ]*\) .*/\1/p; s/^[[:space:]]*\(\/[^ ]*\) .*/\1/p' | while read -r library; do
    mkdir -p "root$(dirname "$library")"
    cp -L "$library" "root$library"
done
if [ "$(id -u)" = 0 ]; then enter="chroot root"; else enter="unshare --user --map-root-user chroot root"; fi
$enter /glofnd --version > out 2> err || skip "no root of our own: $(cat err)"
bare() { env -i PATH="$PATH" HOME=/tmp "$@"; }

expect 0 'glofnd 1' bare $enter /glofnd --version
expect 0 'pretrain' bare $enter /glofnd --help
expect 0 'networks   oneDNN no' bare $enter /glofnd info
wants info 0 'ranks      '
command -v python3 > /dev/null || skip "the rest needs python3"
PYTHONPATH=$source/tests/sh python3 -c '
import random, struct
from npy_file import npy
npy("root/tmp/x.npy", "<f4", (120, 8), struct.pack("<960f", *[random.Random(1).gauss(0, 1) + i % 5 for i in range(960)]))' ||
    fail "no embeddings"
expect 0 'written' bare $enter /glofnd discover /tmp/x.npy --k 3 --out /tmp/found
[ -s root/tmp/found/summary.json ] || fail "discover: no result"
cp -r "$source/tests/fixtures/run-0.1" root/tmp/run || fail "no run"
expect 0 '' bare $enter /glofnd compare /tmp/run
expect 0 '' bare $enter /glofnd report /tmp/run --out /tmp/report.html
[ -s root/tmp/report.html ] || fail "report: no page"

tiny='--data shapes:n=32,size=16 --arch resnet8 --head-hidden 8 --head-out 8 --batch 8 --epochs 1'
bare $enter /glofnd pretrain $tiny --out /tmp/r > out 2> err
code=$?
wants 'pretrain without oneDNN' 1 'oneDNN'
grep -q 'Debian: libdnnl' err || fail "pretrain without oneDNN does not name the package"
[ -e root/tmp/r ] && fail "pretrain without oneDNN left a folder"
bare OMPI_COMM_WORLD_SIZE=2 $enter /glofnd pretrain $tiny --out /tmp/r > out 2> err
code=$?
wants 'ranks without MPI' 1 'several ranks need'
grep -Eq 'openmpi-bin|libopenmpi-dev|mpich' err || fail "ranks without MPI: the package is not named"
echo passed
