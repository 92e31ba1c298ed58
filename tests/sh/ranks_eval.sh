# What evaluations see of runs that several ranks have trained: thresholds are those of all of them, as one rank would have
# learned them, for images alone and for images and captions. Also where the name of the folder looks like a pattern.
. "$2/tests/sh/ranks.inc"

images="$images --lambda-init quantile --epochs 3"
call "$glofnd" pretrain $images --out one
wants 'one rank' 0
call ranks 2 $images --out 'two[2]'
wants 'two ranks' 0
call ranks 3 $images --batch 18 --out three
wants 'three ranks' 0

# thresholds RUN: sample and learned threshold of every image
thresholds() {
    call "$glofnd" eval threshold "$1" --plain --out .
    wants "eval threshold $1" 0 'learned'
    grep -q '^learned  *128 ' out || fail "eval threshold $1: not all images have a threshold"
    tail -n +2 thresholds.tsv | cut -f 1,3 | awk 'NF != 2 { exit 1 } { print }' || fail "$1: a threshold is missing"
}
thresholds one > a
thresholds 'two[2]' > b
thresholds three > /dev/null
paste a b | awk '
    function far(x, y) { return x - y > 1e-3 || y - x > 1e-3 }
    { if ($1 != $3 || far($2, $4)) bad++; if ($2 != last) differ++; last = $2 }
    END { exit bad > 0 || NR != 128 || differ < 64 }' || fail "thresholds of 2 ranks: $(paste a b | head -n 20)"
call "$glofnd" eval fn 'two[2]' --detector glofnd
wants 'eval fn' 0 'images as they are, all pairs'
call "$glofnd" report 'two[2]' --samples 100 --out page.html
wants 'report' 0 'page.html'
grep -q 'no threshold learned' page.html && fail 'report: no thresholds'
grep -q 'learned by GloFND' page.html || fail 'report: no density of the learned thresholds'

# A resume on one rank finds what was there, in this folder, too. (From epoch 4 on thresholds move again.)
call "$glofnd" pretrain --out 'two[2]' --resume --epochs 4 --start-epoch 4 --ranks single
wants 'on with one rank' 0 'resumed at step 24'
thresholds 'two[2]' > c
paste b c | awk '$2 != $4 { bad++ } END { exit bad > 0 }' || fail "thresholds of a folder with brackets: $(paste b c | head -n 5)"

call ranks 2 $pairs --lambda-init quantile --epochs 3 --out pairs
wants 'images and captions' 0
call "$glofnd" eval fn pairs --detector glofnd
wants 'eval fn of images and captions' 0 'image to text, all pairs' 'text to image, all pairs'
echo 'thresholds of several ranks are seen'
