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
exit 0
