# discover_images.sh BUILD SOURCE - images compared by their pixels, without a network: a folder, splits, a stored result; names,
# labels and classes are those of the data; what does not go together is refused.
. "$2/tests/sh/common.inc"
needs "png yes"
discover() { "$glofnd" discover "$@" --quiet; }

"$glofnd" data export shapes:n=60,classes=4,size=24,seed=3 --folder --out a > /dev/null || fail "export"
class=$(ls a | grep -v txt | head -1) first=
for f in a/"$class"/*.png; do [ -n "$first" ] || first=$f; done
cp "$first" "a/$class/zz_copy.png"
head -c 60 "$first" > "a/$class/zz_cut.png"

expect 0 "62 x 192 from folder:a" discover folder:a --k 3 --html --out found
grep -q "1 exact cop" found/summary.txt || fail "the copy is not counted"
grep -q "zz_copy.png" found/remove.tsv || fail "the copy is not removed under its name"
grep -q "unreadable: .*zz_cut.png" found/bad_rows.tsv || fail "the cut file is not listed"
head -1 found/label_issues.tsv | grep -q "suggested_class" || fail "no names of classes"
[ "$(wc -l < found/classes.txt)" -eq 4 ] || fail "classes.txt has not four names"
[ -s found/index.html ] || fail "no page"

# the same decisions from the stored result, with the images again
expect 0 "keep=central" discover folder:a --from found --keep central --out central
expect 0 "keep=largest" discover folder:a --keep largest --k 3 --out largest
expect 1 "other embeddings" discover shapes:n=62,classes=4,size=24,seed=9 --from found --keep central --out x

mkdir b && cp "$first" b/one.png && cp a/"$class"/zz_copy.png b/two.png
expect 0 "2 of 2 rows of new have a duplicate in old (2 exact)" discover --split new=folder:b --split old=folder:a --k 1 --out leaks
grep -q "new:.*one.png" leaks/leaks.tsv || fail "the leak is not listed"

expect 2 "leave --data out" discover folder:a --data folder:a --k 3 --out x
expect 1 "the only EMB" discover folder:a b.npy --k 3 --out x
expect 2 "--split old=SPEC" discover folder:a --query b.npy --stored found --out x
expect 2 "goes with a run" discover folder:a --head --k 3 --out x
expect 1 nothing discover folder:nothing --k 3 --out x
expect 1 "goes with files" discover folder:a --label-column y --k 3 --out x

# what is no file of embeddings
expect 1 "glofnd discover folder:b" discover b --k 3 --out x
echo PK > e.npz
expect 1 'np.load(FILE)["NAME"]' discover e.npz --k 3 --out x

# names of classes as labels: a line per row, a column with and without a title, an array of texts
needs_tools python3
python3 - << 'PY'
import struct
names = ["dog", "c\u00e4t", ""] * 4
open("x.csv", "w").write("".join("%d,%d\n" % (i * i + 1, 7 * i - 9) for i in range(12)))
open("y.txt", "w", encoding="utf-8").write("".join(n + "\n" for n in names))
open("y.csv", "w", encoding="utf-8").write("kind\n" + "".join((n or "nan") + "\n" for n in names))
def npy(name, kind, rows, body):
    h = ("{'descr': '%s', 'fortran_order': False, 'shape': (%s,)}" % (kind, rows)).encode() + b"\n"
    open(name, "wb").write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(h)) + h + body)
npy("y.npy", "<U3", 12, b"".join(n.ljust(3, "\0").encode("utf-32-le") for n in names))
npy("big.npy", ">U3", 12, b"".join(n.ljust(3, "\0").encode("utf-32-be") for n in names))
npy("cut.npy", "<U3", 12, b"\0" * 143)
npy("wide.npy", "<U99999", 12, b"")
npy("wrap.npy", "<U4", 2 ** 60, b"\0" * 16)
PY
for y in y.txt y.csv y.npy big.npy; do
    expect 0 "12 x 2" discover x.csv --labels $y --k 2 --out "of_$y"
    printf 'c\303\244t\ndog\n' | cmp - "of_$y/classes.txt" || fail "$y: names of classes"
    cmp of_y.txt/rows.npy "of_$y/rows.npy" || fail "$y: labels"
done
expect 1 "143 bytes of data" discover x.csv --labels cut.npy --k 2 --out x
expect 1 "at most 65536 letters" discover x.csv --labels wide.npy --k 2 --out x
expect 1 "bytes of data" discover x.csv --labels wrap.npy --k 2 --out x
expect 1 "12 labels for 60" discover shapes:n=60,classes=4,size=24,seed=3 --labels y.txt --k 2 --out x
exit 0
