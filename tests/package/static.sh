# `make static`: a program that needs no library of the machine. In a root that holds nothing else it finds, reports, compares and
# evaluates as the program of this build does, to the byte.
. "$2/tests/package/common.inc"
needs
needs_tools make readelf chroot python3
[ "$(id -u)" = 0 ] || skip "an empty root needs the rights of root"
make_it static
static=$build/static/glofnd
readelf -lW "$static" | grep -q INTERP && fail "$static names a loader"
readelf -d "$static" | grep -q NEEDED && fail "$static names libraries"

mkdir -p root/tmp
cp "$static" root/glofnd
embeddings root/tmp/x.npy
cp -r "$source/tests/fixtures/run-0.1" root/tmp/run && cp -r root/tmp root/same || fail "no run"
bare() { env -i HOME=/tmp PATH="$PATH" chroot root /glofnd "$@"; }
ours() { (cd root/same && "$glofnd" "$@"); }
expect 0 "glofnd $version" bare --version
expect 0 'written' bare discover tmp/x.npy --labels tmp/x.labels.npy --k 3 --html --out tmp/found
expect 0 'written' ours discover x.npy --labels x.labels.npy --k 3 --html --out found
for file in neighbours.tsv mutual.tsv anchors.npy keep.txt; do
    [ ! -e root/same/found/$file ] || cmp root/same/found/$file root/tmp/found/$file || fail "discover: other bytes in $file"
done
[ -s root/tmp/found/index.html ] && [ -s root/tmp/found/anchors.npy ] || fail "discover: no page or table"
expect 0 '' ours compare run
cp out want
expect 0 '' bare compare tmp/run
sed 's/tmp\/run/run/' out | cmp - want || fail "compare prints another table"
expect 0 '' bare report tmp/run --out tmp/page.html
[ -s root/tmp/page.html ] || fail "report: no page"
expect 0 '' ours eval knn x.npy --labels x.labels.npy
cp out want
expect 0 '' bare eval knn tmp/x.npy --labels tmp/x.labels.npy
sed 's/tmp.x/x/g' out | cmp - want || fail "eval prints other figures"
# Whoever downloaded it cannot install a library for it.
expect 1 'the static program has no oneDNN; use the complete one' bare pretrain --data shapes:n=32,size=16 --arch resnet8 \
    --batch 8 --epochs 1 --out tmp/r
expect 0 'the static program has no MPI' bare info
cat out err | grep -q 'lib[a-z]*-dev\|build again' && fail "advice that does not fit a static program"
echo "$(wc -c < "$static") bytes: passed"
