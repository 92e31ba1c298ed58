# Installs into a temporary folder, moves it, and builds against it as a user would: a C program by pkg-config (shared and
# static), a C++17 program by find_package. Usage: run.sh BUILD SOURCE
set -eu
build=$1 here=$2/tests/install
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

say() { echo "install: $*"; }

cmake --install "$build" --prefix "$work/first" >/dev/null
mv "$work/first" "$work/prefix"                         # an installed tree may be moved
headers=$(cd "$work/prefix/include" && echo *)
[ "$headers" = glofnd.h ] || { say "include holds: $headers"; exit 1; }
libdir=$(dirname "$(find "$work/prefix" -name libglofnd.a)")

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
    $cc $flags -DGLOFND_STATIC "$here/consumer.c" -o "$work/static" $(pkg-config --cflags glofnd) "$libdir/libglofnd.a" \
        $(pkg-config --static --libs glofnd | sed 's/-lglofnd//')
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
