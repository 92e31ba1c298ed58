# Installs into a temporary folder, moves it, and builds against it as docs/library.md tells users: a C program by pkg-config
# (shared and static), a C++17 program by find_package; then a project that has this one inside. Usage: run.sh BUILD SOURCE
set -eu
build=$1 source=$2 here=$2/tests/install
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

say() { echo "install: $*"; }

cmake --install "$build" --prefix "$work/first" >/dev/null
mv "$work/first" "$work/prefix"                         # an installed tree may be moved
headers=$(cd "$work/prefix/include" && echo *)
[ "$headers" = "glofnd.h glofnd_discover.h glofnd_experimental.h" ] || { say "include holds: $headers"; exit 1; }
libdir=$(dirname "$(find "$work/prefix" -name libglofnd.a)")

# The program: presets by their name, manual pages, completion.
if [ -x "$work/prefix/bin/glofnd" ]; then
    for file in man/man1/glofnd.1 man/man1/glofnd-pretrain.1 man/man3/libglofnd.3 glofnd/configs/demo.cfg \
        bash-completion/completions/glofnd zsh/vendor-completions/_glofnd fish/vendor_completions.d/glofnd.fish \
        doc/glofnd/LICENSE doc/glofnd/docs/commands.md doc/glofnd/examples/02_step.c; do
        [ -s "$work/prefix/share/$file" ] || { say "share/$file is missing"; exit 1; }
    done
    (cd "$work" && prefix/bin/glofnd sweep --config demo --seeds 1,2 --out runs --dry-run >/dev/null) ||
        { say "no preset 'demo'"; exit 1; }
    say "program: presets, manual pages, completion"
fi

# C, pkg-config
PKG_CONFIG_PATH=$libdir/pkgconfig
export PKG_CONFIG_PATH
cc=${CC:-cc}
flags="-std=c17 -Wall -Wextra -Werror -pedantic"
if command -v pkg-config >/dev/null; then
    # shellcheck disable=SC2046,SC2086  # lists of flags
    $cc $flags "$here/consumer.c" -o "$work/shared" $(pkg-config --cflags --libs glofnd)
    LD_LIBRARY_PATH=$libdir "$work/shared"
    # shellcheck disable=SC2046,SC2086
    $cc $flags -DGLOFND_STATIC "$here/consumer.c" -o "$work/static" \
        $(pkg-config --static --cflags --libs glofnd | sed 's/-lglofnd/-l:libglofnd.a/')
    "$work/static"
    say "C consumers by pkg-config: shared and static"
else
    say "no pkg-config: C consumers left out"
fi

# C++17, CMake package
if command -v "${CXX:-c++}" >/dev/null; then
    cmake -S "$here" -B "$work/cpp" -DCMAKE_PREFIX_PATH="$work/prefix" >"$work/cpp.log" 2>&1 || { cat "$work/cpp.log"; exit 1; }
    cmake --build "$work/cpp" >"$work/cpp.log" 2>&1 || { cat "$work/cpp.log"; exit 1; }
    "$work/cpp/with_shared"
    "$work/cpp/with_static"
    say "C++ consumers by find_package: shared and static"
else
    say "no C++ compiler: C++ consumers left out"
fi

# Inside another project: that one installs its own program and nothing of ours, and needs nothing of ours that it did not build.
configure_host() { cmake -S "$here/host" -DGLOFND_SOURCE="$source" -DGLOFND_CUDA=OFF -DCMAKE_BUILD_TYPE=Debug "$@"; }
{ configure_host -B "$work/host" && cmake --build "$work/host" --target host --parallel 2 &&
    cmake --install "$work/host" --prefix "$work/its"; } >"$work/host.log" 2>&1 || { cat "$work/host.log"; exit 1; }
"$work/its/bin/host"
installed=$(cd "$work/its" && find . -type f)
[ "$installed" = ./bin/host ] || { say "the host's install step installed: $installed"; exit 1; }
configure_host -B "$work/both" -DGLOFND_INSTALL=ON >"$work/host.log" 2>&1 || { cat "$work/host.log"; exit 1; }
grep -q 'glofnd\.h' "$work/both/glofnd/cmake_install.cmake" || { say "GLOFND_INSTALL=ON installs no header"; exit 1; }
say "inside another project: installed only if that one asks for it"

if cmake --build "$work/host" --target help | grep -q glofnd_train; then say "GLOFND_PROGRAM is not off by default"; exit 1; fi
