#!/bin/sh
# deps.sh - looks for what the build needs, and says what it found and which packages are missing. The build goes on without them:
# it names what it cannot do without. With everything present this takes a few milliseconds.
#
#   tools/deps.sh              look, and print the command that installs what is missing
#   tools/deps.sh --install    look, and install what is missing, on Debian-like systems
#   tools/deps.sh --check      look; exit 1 if something is missing
#   tools/deps.sh ... --demo   look for the images of `make demo`, too
set -u

mode='' demo=0
for flag in "$@"; do
    case $flag in
    --install | --check) mode=$flag ;;
    --demo) demo=1 ;;
    *) echo "usage: $0 [--install | --check] [--demo]" >&2; exit 2 ;;
    esac
done

images=/usr/share/datasets/fashion-mnist/train-images-idx3-ubyte.gz
found='' missing=''

have() { command -v "$1" >/dev/null 2>&1; }

# note PACKAGE NAME FOUND?: one line of the list
note() {
    if [ "$3" = 0 ]; then found="$found $2"; else missing="$missing $1"; fi
}

cc=${CC:-cc}        # may carry flags
cxx=${CXX:-c++}
have_compiler() { have "${cc%% *}" && have "${cxx%% *}" && have make; }

# The pkg-config file; without pkg-config, the header where Debian puts it.
have_cmocka() {
    if have pkg-config; then pkg-config --exists cmocka; else [ -e /usr/include/cmocka.h ]; fi
}

# have_library PKG_CONFIG_MODULE HEADER
have_library() {
    if have pkg-config && pkg-config --exists "$1"; then return 0; fi
    [ -e "/usr/include/$2" ]
}

have_numpy() {
    [ -e /usr/lib/python3/dist-packages/numpy ] || { have python3 && python3 -c 'import numpy' 2>/dev/null; }
}

look() {
    found='' missing=''
    have_compiler; note build-essential compiler $?
    have cmake; note cmake cmake $?
    have pkg-config; note pkg-config pkg-config $?
    have_cmocka; note libcmocka-dev cmocka $?
    have_library libjpeg jpeglib.h; note libjpeg62-turbo-dev libjpeg $?
    have_library libpng png.h; note libpng-dev libpng $?
    have_library libwebp webp/decode.h; note libwebp-dev libwebp $?
    have_library libutf8proc utf8proc.h; note libutf8proc-dev utf8proc $?
    have_library zlib zlib.h; note zlib1g-dev zlib $?
    have_library libzstd zstd.h; note libzstd-dev libzstd $?
    have_library dnnl dnnl.h; note libdnnl-dev oneDNN $?
    have_library lbfgs lbfgs.h; note liblbfgs-dev liblbfgs $?
    have_library ompi-c mpi.h && have mpirun; note "libopenmpi-dev openmpi-bin" "Open MPI" $?
    have_numpy; note python3-numpy NumPy $?     # tests of the Python package
    if [ $demo = 1 ]; then [ -e "$images" ]; note dataset-fashion-mnist Fashion-MNIST $?; fi
    if have git; then found="$found git"; fi    # only for the commit in the build info
}

report() {
    echo "deps: found${found:- nothing}${missing:+; missing:$missing}"
}

# Debian-like: apt-get to install with, dpkg to be sure whose packages these names are.
debian_like() { have apt-get && have dpkg; }

as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"
    elif ! have sudo; then echo "deps: neither root nor sudo" >&2; return 1
    elif [ -t 0 ]; then sudo "$@"
    else sudo -n "$@"
    fi
}

apt() {
    as_root env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 -qq "$@"
}

# The package lists of a fresh machine are often empty or old: fetch them when the first try fails.
install_missing() {
    echo "deps: installing with apt-get:$missing"
    # shellcheck disable=SC2086  # a list of packages
    apt install -y --no-install-recommends $missing >/dev/null 2>&1 && return 0
    # shellcheck disable=SC2086
    apt update >/dev/null && apt install -y --no-install-recommends $missing >/dev/null
}

by_hand() {
    if debian_like; then echo "deps: please install them: sudo apt-get install$missing"
    else echo "deps: please install what these Debian packages contain:$missing"
    fi
}

look
report
[ -z "$missing" ] && exit 0
if [ "$mode" != --install ]; then
    by_hand
    [ "$mode" != --check ]
    exit
fi
if ! debian_like; then
    by_hand
elif install_missing; then
    look
    report
else
    echo "deps: installation failed" >&2
    by_hand
fi
exit 0
