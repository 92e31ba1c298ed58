# glofnd data bpe: a vocabulary from captions, packed or not, repeatable; messages and exit codes.
. "$2/tests/sh/common.inc"
needs

# The same file as ever; fewer merges are its beginning.
expect 0 "683 tokens, 169 merges" "$glofnd" data bpe shapes:n=4096,classes=120 --out a.txt
cmp a.txt "$source/tests/fixtures/bpe/learned.bpe.txt" || fail "not the vocabulary that was learned before"
expect 0 "564 tokens, 50 merges" "$glofnd" data bpe shapes:n=4096,classes=120 --out b.txt --merges 50
[ "$(head -n 51 a.txt)" = "$(cat b.txt)" ] || fail "fewer merges are other merges"

"$glofnd" data bpe shapes:n=4096,classes=120 --out a.gz > out 2> err
if grep -q "without zlib" err; then
    [ ! -e a.gz ] || fail "a failed call left a file"
else
    gzip -dc a.gz | cmp - a.txt || fail "the packed file differs"
fi

# A line break inside a field, an empty caption, images that are not there: texts are read all the same.
printf 'filepath\ttitle\nx.jpg\t"one two\ntwo two"\ny.jpg\t\n' > list.csv
expect 0 "captions   1, 4 words, 2 different" "$glofnd" data bpe csv:list.csv --out c.txt
grep -q "without    1 samples" out || fail "samples without caption are not counted"

expect 2 "--out is needed" "$glofnd" data bpe shapes
expect 2 "an integer" "$glofnd" data bpe shapes --out d.txt --merges 49000
printf 'x.png\t1\n' > list.txt && touch x.png
expect 1 "no captions" "$glofnd" data bpe list:list.txt --out d.txt
printf 'filepath\ttitle\nx.jpg\t\n' > empty.csv
printf 'filepath\ttitle\nx.png\tred \033[31m text\n' > escape.csv
expect 0 'has 1: red \x1b[31m text' "$glofnd" data info csv:escape.csv
expect 1 "no captions; shapes:, wds: with .txt files, csv: with texts in its column" "$glofnd" data bpe csv:empty.csv --out d.txt
printf 'filepath\ttitle\nx.jpg\t\302\240\n' > blank.csv
expect 1 "no word to learn from: " "$glofnd" data bpe csv:blank.csv --out d.txt
[ ! -e d.txt ] || fail "a failed call left a file"
exit 0
