#!/bin/sh
# cuda_toolkit.sh FOLDER 12|13 - a CUDA compiler for x86-64 in FOLDER (bin/nvcc), without an installer: from PyPI's packages of NVIDIA, and
# for CUDA 12, whose nvcc is not there, from Debian trixie's package nvidia-cuda-toolkit, which is only unpacked. Needs python3 with
# pip; for CUDA 12 also apt-get and dpkg-deb. It has what libglofnd needs: headers, nvcc, and the static runtime.
set -eu
[ $# = 2 ] || { sed -n '2,/^set/s/^# \{0,1\}//p' "$0" >&2; exit 2; }
mkdir -p "$1"
out=$(cd "$1" && pwd)
[ ! -e "$out/complete" ] || exit 0
get=$out/get
rm -rf "$get" "$out/bin" "$out/include" "$out/lib" "$out/lib64" "$out/nvvm"
mkdir -p "$get" "$out/bin" "$out/include" "$out/lib" "$out/nvvm"
ln -s lib "$out/lib64"

# fetch PATTERN PACKAGE...: files of these packages whose path matches, as they lie below bin/, include/, lib/, nvvm/
fetch() {
    pattern=$1
    shift
    python3 -m pip download -q --no-deps --only-binary :all: --platform manylinux_2_28_x86_64 --platform manylinux_2_27_x86_64 --platform manylinux_2_17_x86_64 \
        --platform manylinux2014_x86_64 --platform manylinux_2_12_x86_64 --platform manylinux2010_x86_64 -d "$get" "$@"
    python3 - "$get" "$out" "$pattern" << 'END'
import glob, os, re, sys, zipfile
get, out, pattern = sys.argv[1:]
for wheel in glob.glob(get + "/*.whl"):
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            inside = re.match(r"nvidia/[^/]+/((?:bin|include|lib|nvvm)/.*[^/])$", name)
            if inside and re.search(pattern, inside[1]):
                path = os.path.join(out, inside[1])
                os.makedirs(os.path.dirname(path), exist_ok=True)
                with open(path, "wb") as file:
                    file.write(archive.read(name))
                if "/bin/" in "/" + inside[1]:
                    os.chmod(path, 0o755)
    os.remove(wheel)
END
}

case $2 in
13)
    fetch . 'nvidia-cuda-nvcc==13.0.*' 'nvidia-nvvm==13.0.*' 'nvidia-cuda-crt==13.0.*' 'nvidia-cuda-runtime==13.0.*' 'nvidia-cuda-cccl==13.0.*'
    fetch '^include/' 'nvidia-cublas==13.0.*' ;;
12)
    mirror=$(cat /etc/apt/sources.list.d/debian.sources /etc/apt/sources.list 2> /dev/null |
        sed -n 's/^URIs: *//p; s/^deb *\(\[[^]]*\]\)* *\([a-z]*:[^ ]*\).*/\2/p' | head -n 1)
    [ -n "$mirror" ] || mirror=http://deb.debian.org/debian
    mkdir -p "$get/state/lists/partial" "$get/cache/archives/partial" "$get/deb"
    : > "$get/state/status"
    echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror trixie non-free" > "$get/list"
    options="-qq -o Dir::State=$get/state -o Dir::State::status=$get/state/status -o Dir::Cache=$get/cache
        -o Dir::Etc::sourcelist=$get/list -o Dir::Etc::sourceparts=/dev/null -o APT::Sandbox::User=root"
    # shellcheck disable=SC2086
    apt-get $options update
    # shellcheck disable=SC2086
    (cd "$get" && apt-get $options download nvidia-cuda-toolkit && dpkg-deb -x nvidia-cuda-toolkit_*.deb deb)
    (cd "$get/deb/usr/bin" && cp cudafe++ ptxas fatbinary nvlink bin2c "$out/bin/")
    cp "$get/deb/usr/lib/nvidia-cuda-toolkit/bin/nvcc" "$get/deb/usr/lib/nvidia-cuda-toolkit/bin/cicc" "$out/bin/"
    cp -r "$get/deb/usr/lib/nvidia-cuda-toolkit/libdevice" "$out/nvvm/"
    stub=$(find "$get/deb" -name link.stub | head -n 1)
    [ -n "$stub" ] || { echo "cuda_toolkit.sh: the package nvidia-cuda-toolkit has no link.stub" >&2; exit 1; }
    mkdir -p "$out/bin/crt" && cp "${stub%/*}"/*.stub "$out/bin/crt/"
    printf '%s\n' 'TOP = $(_HERE_)/..' 'CICC_PATH = $(TOP)/bin' 'NVVMIR_LIBRARY_DIR = $(TOP)/nvvm/libdevice' 'PATH += $(TOP)/bin:' \
        'INCLUDES += "-I$(TOP)/include"' 'LIBRARIES =+ "-L$(TOP)/lib"' > "$out/bin/nvcc.profile"
    fetch '^include/' 'nvidia-cuda-nvcc-cu12==12.4.*' 'nvidia-cuda-runtime-cu12==12.4.*' 'nvidia-cuda-cccl-cu12==12.4.*' 'nvidia-cublas-cu12==12.4.*'
    # The packages of 12.4 have no static runtime. A later one of CUDA 12 links with objects of an earlier compiler, but its device
    # runtime does not link with the earlier nvlink. Nothing here launches kernels from kernels: an empty archive takes its place.
    fetch '^lib/libcudart_static\.a$' 'nvidia-cuda-runtime-cu12==12.9.*'
    ar rc "$out/lib/libcudadevrt.a" ;;
*) echo "cuda_toolkit.sh: CUDA 12 or 13, not $2" >&2; exit 2 ;;
esac
rm -rf "$get"
"$out/bin/nvcc" --version | sed -n 's/.*release \([0-9.]*\).*/cuda_toolkit: CUDA \1/p'
: > "$out/complete"
