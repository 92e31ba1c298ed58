#!/bin/sh
# all.sh [DIST] - everything that is released, into DIST (dist/): wheels, the Python source distribution, the source archive, Debian packages,
# the static program, release notes, SHA256SUMS. The same commit gives the same bytes. `make release` calls it.
#
# Variables: BUILD (build/release), JOBS, PARTS="x86_64 aarch64 sdist packages", CUDA (see wheel.sh), DEBFULLNAME and DEBEMAIL (the maintainer
# in the packages; default: the committer). Needs the network, gcc-aarch64-linux-gnu, mmdebstrap, python3-venv, file.
set -eu
source=$(cd "$(dirname "$0")/../.." && pwd)
cd "$source"
mkdir -p "${1:-dist}" "${BUILD:-build/release}"
dist=$(cd "${1:-dist}" && pwd) build=$(cd "${BUILD:-build/release}" && pwd)
version=$(sh tools/release/version.sh)
parts=${PARTS:-x86_64 aarch64 sdist packages}
notes=$(sh tools/release/notes.sh "$version")
if git rev-parse --git-dir > /dev/null 2>&1; then
    SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
    DEBFULLNAME=${DEBFULLNAME:-$(git log -1 --format=%cn)} DEBEMAIL=${DEBEMAIL:-$(git log -1 --format=%ce)}
else
    echo "release: no git checkout" >&2
    exit 1
fi
export SOURCE_DATE_EPOCH DEBFULLNAME DEBEMAIL
export LC_ALL=C TZ=UTC
umask 022
find "$dist" -mindepth 1 -maxdepth 1 -exec rm -rf {} +

wants() { case " $parts " in *" $1 "*) ;; *) return 1 ;; esac; }
for cpu in x86_64 aarch64; do
    wants $cpu || continue
    sh tools/release/wheel.sh "$build" $cpu
    mv "$build/glofnd-$version-py3-none-manylinux_2_28_$cpu.whl" "$dist/"
done
if wants sdist; then
    sh tools/release/venv.sh "$build"
    "$build/venv/bin/python" -m build --sdist --no-isolation -o "$dist" > "$build/sdist.log" 2>&1 || { tail -n 20 "$build/sdist.log"; exit 1; }
fi
if wants packages; then
    git archive --format=tar --prefix="glofnd-$version/" HEAD | gzip -9n > "$dist/glofnd-$version-source.tar.gz"
    env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL make --no-print-directory package BUILD="$build" CUDA=OFF ${JOBS:+JOBS=$JOBS} \
        CMAKE_FLAGS="-DCMAKE_C_FLAGS=-ffile-prefix-map=$source=." > "$build/package.log" 2>&1 || { tail -n 30 "$build/package.log"; exit 1; }
    mv "$build/package/glofnd-$version-linux-$(uname -m).tar.gz" "$dist/"
    # Written again by dpkg-deb, which takes the date from SOURCE_DATE_EPOCH.
    for deb in "$build/package"/*_"$version"-*.deb; do
        rm -rf "$build/deb"
        dpkg-deb -R "$deb" "$build/deb"
        dpkg-deb --root-owner-group -Zxz -b "$build/deb" "$dist/${deb##*/}" > /dev/null
    done
fi
printf '%s\n' "$notes" > "$dist/RELEASE_NOTES.md"
(
    cd "$dist"
    rm -f SHA256SUMS
    sums=$(find . -type f ! -name RELEASE_NOTES.md | sed 's|^./||' | sort | xargs sha256sum)
    printf '%s\n' "$sums" > SHA256SUMS
    printf '\n### Files\n\n| SHA-256 | file |\n|---|---|\n' >> RELEASE_NOTES.md
    echo "$sums" | awk '{ printf "| `%s` | %s |\n", $1, $2 }' >> RELEASE_NOTES.md
)
ls -l "$dist"
