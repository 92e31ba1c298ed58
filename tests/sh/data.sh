# glofnd data, and what data says when it is opened: sizes, shards that were or may be cut, files left out, lists that are none,
# an export that is stopped.
. "$2/tests/sh/common.inc"
needs 'png yes'
shapes=shapes:n=90,classes=3,size=32,seed=1

expect 0 "90 samples written" "$glofnd" data export $shapes --per-shard 30 --out shards
expect 0 "90 samples written" "$glofnd" data export $shapes --folder --out images

# The size is that of the images, wherever they lie.
for spec in $shapes wds:shards folder:images csv:images/captions.csv; do
    expect 0 "size       32 x 32" "$glofnd" data info $spec
    wants "$spec" 0 "view       32 pixels"
    grep -q "^note" out && fail "$spec: a note"
done
"$glofnd" data export shapes:n=1,classes=1,size=48,seed=1 --folder --out other > /dev/null || fail "export of one"
cp -r images two && cp other/*/*.png two/0000001*/
expect 0 "size       differs: 32 x 32, 48 x 48" "$glofnd" data info folder:two
wants "two sizes" 0 "view       224 pixels"

# A shard that was cut, or came empty, is an error for everybody, also where an index was made before.
expect 0 "90 samples in 3 shards" "$glofnd" data index 'wds:shards/*.tar'
for bytes in 50000 0; do
    rm -rf cut && cp -rp shards cut
    truncate -s $bytes cut/shard-000001.tar
    text="cut/shard-000001.tar' is cut short: it ends at byte $bytes"
    [ $bytes -gt 0 ] || text="cut/shard-000001.tar' is empty"
    expect 1 "$text" "$glofnd" data info 'wds:cut/*.tar'
    expect 1 "$text" "$glofnd" data index 'wds:cut/*.tar'
    expect 1 "$text" "$glofnd" data export 'wds:cut/*.tar' --out never
    [ ! -e never ] || fail "an export of a cut shard began"
done

# So in training, which takes the size of the images.
if "$glofnd" info | grep -q 'oneDNN yes'; then
    for spec in folder:images wds:shards/shard-000000.tar; do
        data=$spec train run --epochs 1
        grep -qx 'size = 32' run/config.cfg || fail "$spec: the size of a run"
        rm -rf run
    done
    data=folder:two train run --epochs 1 --size 16
    grep -qx 'size = 16' run/config.cfg || fail "a size that was given"
    expect 1 "cut/shard-000001.tar' is empty" "$glofnd" pretrain --data 'wds:cut/*.tar' --arch resnet8 --batch 16 --out none
fi

# One that ends between two members is taken with a note, but not by who is strict: it may be cut there.
rm -rf cut again && cp -rp shards cut
truncate -s -1024 cut/shard-000001.tar
cut="1 shard without tar's end mark, perhaps cut short, the first: cut/shard-000001.tar"
strict="glofnd data: 'cut/shard-000001.tar' ends without tar's end mark"
expect 0 "note       $cut" "$glofnd" data info 'wds:cut/*.tar'
expect 0 "glofnd data: $cut" "$glofnd" data export 'wds:cut/*.tar' --out again
expect 1 "$strict" "$glofnd" data export 'wds:cut/*.tar' --out never --strict
[ ! -e never ] || fail "a strict export of a shard that may be cut began"
if "$glofnd" info | grep -q 'oneDNN yes'; then
    data='wds:cut/*.tar' train uncertain --epochs 1
    wants "a shard that may be cut" 0 "data: $cut"
    expect 1 "${strict#*: }" "$glofnd" pretrain --data 'wds:cut/*.tar' --arch resnet8 --batch 16 --out none --strict
    [ ! -e none ] || fail "a strict run with a shard that may be cut began"
fi
rm -rf again

# A label or caption that cannot be read is affects that sample only: one message, an error with --strict.
rm -rf parts && mkdir parts
for k in 0 1 2 3 4 5 6 7; do
    cp images/0000001*/"$(printf %010d.png $((k * 3 + 1)))" parts/$k.png
    echo "picture $k" > parts/$k.txt
    echo '{"similarity": NaN, "label": 1}' > parts/$k.json
done
printf '{"label": ' > parts/3.json
echo disc > parts/5.cls
if command -v tar > /dev/null; then
    (cd parts && tar cf ../parts.tar $(ls | sort))
    unused="2 members cannot be used, so that captions or labels are missing, in 1 shard, the first: parts.tar: '3.json' is not"
    strict="'parts.tar': '3.json' is not JSON:"
    for call in first again; do     # the second one from the index
        expect 0 "note       $unused" "$glofnd" data info wds:parts.tar
        wants "labels, $call" 0 "classes    2, with 0 to 7 samples; 1 without label"
    done
    expect 0 "glofnd data: $unused" "$glofnd" data index wds:parts.tar
    expect 0 "8 samples written" "$glofnd" data export wds:parts.tar --out again
    wants "export" 0 "glofnd data: $unused"
    expect 1 "$strict" "$glofnd" data export wds:parts.tar --out never --strict
    [ ! -e never ] || fail "a strict export without some labels began"
    if "$glofnd" info | grep -q 'oneDNN yes'; then
        data=wds:parts.tar train parted --epochs 1 --batch 8
        wants "labels that cannot be read" 0 "data: $unused"
        expect 0 "glofnd eval: $unused" "$glofnd" eval knn parted
        expect 1 "$strict" "$glofnd" pretrain --data wds:parts.tar --arch resnet8 --batch 8 --out none --strict
        [ ! -e none ] || fail "a strict run without some labels began"
    fi
    rm -rf again
fi

# A column of empty captions is none.
printf 'filepath,title\nparts/0.png,\nparts/1.png," "\n' > silent.csv
expect 0 "captions   no" "$glofnd" data info csv:silent.csv
printf 'filepath,title\nparts/0.png,\nparts/1.png,a disc\n' > late.csv
expect 0 "captions   yes; the first sample has none" "$glofnd" data info csv:late.csv

# Names of classes with separators stay whole in the list of captions.
"$glofnd" data export shapes:n=12,classes=3,size=16,seed=3 --out named > out 2> err || fail "named classes"
printf 'a\tb\n"q"\n, c\n' > named/classnames.txt
"$glofnd" data export wds:named --folder --out classes > out 2> err || fail "folders of named classes"
expect 0 'size       16 x 16' "$glofnd" data info csv:classes/captions.csv
grep -q 'by ' out && fail "files of the list that are not there"
grep -q 'captions   yes; the first sample has 1: a ' out || fail "a caption beside a name with a tab"

# What is left out is said.
for class in two/0000001*; do touch "$class/x.bmp"; done
endings='.jpg, .jpeg or .png'
"$glofnd" info | grep -q 'webp yes' && endings='.jpg, .jpeg, .png or .webp'
expect 0 "note       1 image with a different ending than $endings left out, the first: $class/x.bmp" \
    "$glofnd" data info folder:two
expect 0 "glofnd data: 1 image with a different ending" "$glofnd" data export folder:two --out again
mkdir -p beside/a beside/b
for name in a/0 b/1 y x; do cp parts/0.png beside/$name.png; done
expect 0 "note       2 images outside the class folders left out, the first: beside/x.png" "$glofnd" data info folder:beside

cp parts/0.png beside/a/bare
echo words > beside/b/words
expect 0 "1 file that is no image left out, the first: beside/b/words" "$glofnd" data info folder:beside
grep -q "images     3\|samples    3" out || fail "an image without an ending"
expect 0 "glofnd data: 2 images outside the class folders left out, the first: beside/x.png; 1 file that is no image left out" \
    "$glofnd" data export folder:beside --out bared

# Words.
expect 2 "what to do is missing" "$glofnd" data
expect 2 "data info: SPEC is missing" "$glofnd" data info
expect 2 "2 arguments are given; expected one SPEC" "$glofnd" data info $shapes extra
expect 2 "unknown verb \"inform\"" "$glofnd" data inform $shapes
printf '0.png 3\n' > list
expect 1 "as '0.png 3'; relative paths start at the folder of the list, a TAB separates" "$glofnd" data info list:list

# A stopped export leaves whole files only, and says that some are missing.
for form in "" --folder; do
    rm -rf part
    "$glofnd" data export shapes:n=2000000,classes=3,size=64,seed=1 --out part $form > out 2> err &
    for wait in 1 2 3 4 5 6 7 8 9 10; do [ -e part ] && sleep 0.2 && break || sleep 0.2; done
    kill -TERM $! && wait $!
    code=$?
    wants "export stopped" 1 "stopped after " " of 2000000 samples; delete part before the next attempt"
    find part -name '*.tmp-*' | grep -q . && fail "export stopped: a temporary file is left"
    expect 0 "samples    " "$glofnd" data info "$(sed -n 's/.*open them as \([^,]*\).*/\1/p' out)"
done
exit 0
