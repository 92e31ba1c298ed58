# Parts of a dataset by its SPEC, and a report after images were removed.
. "$2/tests/sh/common.inc"
needs_runs
needs 'png yes'
"$glofnd" data export shapes:n=60,classes=3,size=16,seed=3 --folder --out images > out 2> err || fail "no images"

# Every format takes a part: drawn images, folders, shards; `data info` and a run count it.
"$glofnd" data export shapes:n=60,classes=3,size=16,seed=3 --out shards > out 2> err || fail "no shards"
for spec in shapes:n=60,classes=3,size=16,seed=3 folder:images 'wds:shards/*.tar'; do
    expect 0 '12' "$glofnd" data info "$spec?every=5"
    expect 0 '7' "$glofnd" data info "$spec?first=7"
    expect 2 'fraction' "$glofnd" data info "$spec?fraction=2"
    expect 0 '20' "$glofnd" data info "$spec?labels=1"
    expect 2 'is no class' "$glofnd" data info "$spec?labels=3"
    expect 2 'it has:' "$glofnd" data info "$spec?frist=7"
    grep -q 'first' err || fail "$spec: the options that all have are not named"
done
mkdir flat && cp images/*/*.png flat
expect 2 'no labels, which ?labels needs' "$glofnd" data info 'folder:flat?labels=0'
expect 2 'no labels, which ?imbalance needs' "$glofnd" data info 'folder:flat?imbalance=10'
data='folder:images?fraction=0.5'
train half --epochs 2 --start-epoch 0
grep -q ': 30 images, ' err || fail "the run is not of 30 images"
"$glofnd" embed half --quiet --out half.npy --names names > out 2> err || fail "embed"
[ "$(wc -l < names)" -eq 30 ] || fail "names of a part"

# Two of sixty images are removed: the pictures stay, with a note. Most of them removed, it is other data.
data=folder:images
train run --epochs 3 --start-epoch 0
call "$glofnd" report run --out all.html --quiet
wants 'a report' 0
find images -name '*.png' | sort | sed -n '5p;40p' > gone
while read -r file; do rm "$file"; done < gone
call "$glofnd" report run --out fewer.html --quiet
wants 'a report after two images were removed' 0 '2 samples of the training are missing'
grep -q 'no pictures' err && fail "the gallery is gone"
[ "$(grep -c '<img\|sprite' fewer.html)" -gt 0 ] || fail "a page without pictures"
call "$glofnd" eval threshold run --quiet
wants 'figures are of all samples or refused' 1 'give the data it was trained on by --data'
find images -name '*.png' | sort | sed -n '1,30p' > gone
while read -r file; do rm "$file"; done < gone
call "$glofnd" report run --out other.html --quiet
wants 'a report on other data' 0 'no pictures of run'
exit 0
