#!/bin/sh
# archives.sh BUILD VERSION - after `make debs static`: source archive and archive of the static program, into BUILD/package. The
# latter holds a tree with presets, manual pages and completion: unpack it anywhere, and start bin/glofnd.
set -eu
build=$1 version=$2 out=$1/package
if git rev-parse --git-dir > /dev/null 2>&1; then
    git archive --format=tar.gz --prefix="glofnd-$version/" -o "$out/glofnd-$version.tar.gz" HEAD
else
    echo "no git checkout: no source archive"
fi
name=glofnd-$version-linux-$(uname -m)
rm -rf "$out/tree"
cmake --install "$build/static" --component program --strip --prefix "$out/tree/$name" > "$out/static.log" ||
    { cat "$out/static.log"; exit 1; }
# SOURCE_DATE_EPOCH makes the archive the same for every build.
tar -C "$out/tree" --sort=name --owner=0 --group=0 --numeric-owner ${SOURCE_DATE_EPOCH:+--mtime=@$SOURCE_DATE_EPOCH} -cf - "$name" |
    gzip -9n > "$out/$name.tar.gz"
