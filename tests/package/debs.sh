# The Debian packages in a clean Debian: installed by apt with what they depend on, and tried as a new user would. Without a clean
# root (mmdebstrap, rights of root, network) they are unpacked into a folder, and the program is tried there.
. "$2/tests/package/common.inc"
needs_tools make dpkg-deb dpkg-shlibdeps python3
make_it debs
for name in glofnd libglofnd-dev libglofnd1; do
    [ "$(ls "$made/${name}_$version"-*.deb | wc -l)" = 1 ] || fail "no package $name"
done
if command -v lintian > /dev/null; then
    lintian --fail-on error "$made"/*_"$version"-*.deb > out 2>&1 || fail "lintian finds errors"
fi

if [ "$(id -u)" = 0 ] && command -v mmdebstrap > /dev/null && (new_root "$scratch/system") > root.out 2>&1; then
    cp "$made"/*_"$version"-*.deb system/srv/
    inside system sh -c 'apt-get -qq update && apt-get -qq install -y --no-install-recommends /srv/*.deb' > apt.log 2>&1 ||
        { tail -n 20 apt.log; fail "apt cannot install the packages"; }
    try() { inside system "$@"; }
    clean=1 at=/srv
else
    echo "no clean root: $(tail -n 1 root.out 2> /dev/null)"
    mkdir -p system/srv
    for file in "$made"/*_"$version"-*.deb; do dpkg-deb -x "$file" system || fail "$file"; done
    try() { (cd "$scratch/system/srv" && PATH=$scratch/system/usr/bin:$PATH "$@"); }
    clean=0 at=$scratch/system/srv
fi

# ----- the program -----

expect 0 "glofnd $version" try glofnd --version
expect 0 '2 runs' try glofnd sweep --config demo --seeds 1,2 --out $at/sweep --dry-run
[ -s system/usr/share/man/man1/glofnd-pretrain.1.gz ] && [ -s system/usr/share/man/man3/libglofnd.3.gz ] || fail "no manual pages"
[ -s system/usr/share/zsh/vendor-completions/_glofnd ] || fail "no completion of zsh"
cat > system/srv/try << 'END'
. "$1/usr/share/bash-completion/completions/glofnd"
COMP_WORDS=(glofnd pretrain --detector glo) COMP_CWORD=3 COMPREPLY=()
_glofnd
echo "completes to ${COMPREPLY[*]}"
END
top=$([ $clean = 1 ] || echo "$scratch/system")
expect 0 'completes to glofnd' try bash $at/try "$top"
pictures system/srv/pictures
embeddings system/srv/x.npy
tiny="--data folder:$at/pictures --arch resnet8 --size 16 --batch 8 --epochs 2 --head-hidden 16 --head-out 8"
if [ $clean = 1 ]; then
    expect 1 'libdnnl2' try glofnd pretrain $tiny --out $at/run
    inside system apt-get -qq install -y libdnnl2 man-db gcc libc6-dev pkg-config > apt.log 2>&1 || { tail apt.log; fail "apt"; }
    expect 0 'PRETRAIN' try man glofnd-pretrain
fi
expect 0 'finished' try glofnd pretrain $tiny --out $at/run
expect 0 'knn' try glofnd eval knn $at/run
expect 0 'written' try glofnd embed $at/run --out $at/e.npy
expect 0 'written' try glofnd discover $at/e.npy --k 3 --html --out $at/found
expect 0 'written' try glofnd discover $at/x.npy --labels $at/x.labels.npy --k 3 --out $at/found2
expect 0 '' try glofnd report $at/run --out $at/report.html
[ -s system/srv/report.html ] && [ -s system/srv/found/index.html ] || fail "no pages"

# ----- the library -----

cp "$source/tests/install/consumer.c" system/srv/
if [ $clean = 1 ]; then
    expect 0 '' try sh -c 'cc -std=c17 -Wall -Werror /srv/consumer.c -o /srv/consumer $(pkg-config --cflags --libs glofnd) &&
        /srv/consumer'
fi
echo "packages of $version: $([ $clean = 1 ] && echo 'in a clean Debian' || echo unpacked), passed"
