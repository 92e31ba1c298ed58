# Every program of examples/ that this build has runs and prints what its comment promises. 07_fashion trains on stand-ins for the
# images of Fashion-MNIST: it continues from a checkpoint with the same numbers, and refuses files that do not fit.
. "$2/tests/sh/common.inc"
examples=$build/examples
[ -x "$examples/01_detect" ] || skip "no examples in this build"

expect 0 "the top 10% of 400 begin where lambda says, within 0.0" "$examples/01_detect"
expect 0 "thresholds off by 0.0" "$examples/02_step"
expect 0 "1200 embeddings and 1200 thresholds: the same bits" "$examples/03_store_resume"

# 04_ranks: every number of ranks prints the numbers of one, up to rounding.
if [ -x "$examples/04_ranks" ]; then
    needs_ranks
    for ranks in 1 2 4; do
        expect 0 "$ranks ranks, $((192 / ranks)) samples of every batch each" mpirun -np $ranks "$examples/04_ranks"
        grep '^step' out > ranks.$ranks
        [ "$(wc -l < ranks.$ranks)" = 8 ] || fail "04_ranks on $ranks ranks: not 8 lines"
        paste ranks.1 ranks.$ranks | awk '{ d = $4 - $11; e = $6 - $13; if (d * d > 1e-6 || e * e > 1e-3) exit 1 }' ||
            fail "04_ranks: other numbers on $ranks ranks"
    done
    expect 1 "3 ranks do not divide 8 parts" mpirun -np 3 "$examples/04_ranks"
fi

# 05_cuda, without a GPU: a clear message, and the exit code of a skipped test.
if [ -x "$examples/05_cuda" ]; then
    call "$examples/05_cuda"
    [ "$code" = 77 ] && wants "05_cuda without a GPU" 77 "no GPU to run on: " || wants 05_cuda 0 "epoch 30  loss"
fi

expect 0 "20 groups, 20 pairs" "$examples/06_discover" found
wants 06_discover 0 "group 0: 0 2980" "keep 2980 of 3000 rows"
[ "$(wc -l < found/keep.txt)" = 2980 ] || fail "06_discover: keep.txt"
expect 1 "missing.npy" "$examples/06_discover" found missing.npy
printf 'x,y,z\n1,0,0\n0,1,0\n1,0,0\n0,0,1\n0,1,1\n1,1,0\n1,0,1\n' > rows.csv
expect 0 "keep 6 of 7 rows" "$examples/06_discover" found rows.csv

# 07_fashion: 10,000 images in the form of Fashion-MNIST's files; a label is the shape of a bright rectangle.
awk 'BEGIN {
    srand(1)
    printf "\\0\\0\\10\\3\\0\\0\\47\\20\\0\\0\\0\\34\\0\\0\\0\\34" > "images.octal"
    printf "\\0\\0\\10\\1\\0\\0\\47\\20" > "labels.octal"
    for (s = 0; s < 50; s++) {          # 50 images, each 200 times
        row = ""
        wide = 3 + 2 * (s % 5) + rand()
        high = s % 10 < 5 ? 3 : 10
        for (y = -14; y < 14; y++) for (x = -14; x < 14; x++)
            row = row (x * x < wide * wide && y * y < high * high && rand() < 0.9 ? "\\310" : "\\0")
        printf "%s", row > "rows.octal"
        printf "\\%03o", s % 10 > "row_labels.octal"
    }
}'
octal() { printf "$(cat "$1")"; }
octal rows.octal > rows && octal row_labels.octal > row_labels
{ octal images.octal; for i in $(seq 200); do cat rows; done; } > images
{ octal labels.octal; for i in $(seq 200); do cat row_labels; done; } > labels
mkdir whole cut
expect 0 "of these" "$examples/07_fashion" images labels whole 4
cp out whole.txt
expect 0 "epoch  2" "$examples/07_fashion" images labels cut 2
expect 0 "continuing after epoch 2" "$examples/07_fashion" images labels cut 4
grep '^epoch *[34]' whole.txt > a
grep '^epoch' out > b
cmp a b || fail "07_fashion: a continued run prints other numbers"
cmp whole/weights.bin cut/weights.bin && cmp whole/thresholds-0.glofnd cut/thresholds-0.glofnd || fail "07_fashion: other checkpoints"
awk '/of these/ { sub(".*of these *", ""); share = $1 } END { exit !(share > 40) }' whole.txt || fail "07_fashion: flags no better than chance"
expect 1 "not an IDX file" "$examples/07_fashion" labels images cut 4
head -c 1000 images > short
expect 1 "fewer than 10000 samples" "$examples/07_fashion" short labels cut 4
expect 1 "cannot be opened" "$examples/07_fashion" none labels cut 4
echo "$(ls "$examples" | grep -c '^0') examples run"
