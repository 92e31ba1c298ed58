# writers.sh - two processes at once in one place: both are right, or the second is refused with a message, and what they leave is
# whole.
. "$source/tests/hostile/scenarios.inc"

data=shapes:n=32,classes=4,size=8,seed=1
"$glofnd" pretrain $tiny --out one --epochs 1 > "$tmp/log" 2>&1 &&
    "$glofnd" pretrain $tiny --out end --epochs 6 > "$tmp/log" 2>&1 &&
    cp -r one longer && "$glofnd" pretrain --quiet --out longer --resume --epochs 6 > "$tmp/log" 2>&1 &&
    "$glofnd" embed one --data $data --out x.npy > "$tmp/log" 2>&1 &&
    "$glofnd" discover x.npy --k 3 --out found > "$tmp/log" 2>&1 ||
    { skip "the commands do not work here"; return 0; }

# both A CODES B CODES: runs the two word lists at the same time; the file `codes` has their exit codes
both() {
    begin_try "$row_name"
    $1 > out.a 2> err.a &
    first=$!
    $3 > out.b 2> err.b
    second=$?
    wait "$first"
    code=$?
    cat err.a err.b > "$tmp/err"
    end_try "$2"
    code=$second
    end_try "$4"
    [ "$code" = 0 ] || [ -s err.b ] || differs "refused without a message"
}
at_least_one() { grep -q . out.a || grep -q . out.b; }

rows 9
row "two trainings in one folder"
while more; do
    rm -rf r
    cp -r one r
    both "$glofnd pretrain --quiet --out r --resume --epochs 6" '0|1' "$glofnd pretrain --quiet --out r --resume --epochs 6" '0|1'
    check "it cannot be continued" "$glofnd" pretrain --quiet --out r --resume --epochs 6
    check "another end" same_end longer r
done

row "two new trainings in one folder"
while more; do
    rm -rf r
    both "$glofnd pretrain $tiny --out r --epochs 6" '0|1' "$glofnd pretrain $tiny --out r --epochs 6" '0|1'
    check "it cannot be continued" "$glofnd" pretrain $tiny --out r --epochs 6 --resume
    check "another end" same_end end r
done

row "two evaluations of one run"
while more; do
    rm -rf w
    cp -r one w
    both "$glofnd eval knn w --k 3" 0 "$glofnd eval fn w" 0
    check "lines of eval.jsonl are lost" grep -q '"event": "knn"' w/eval.jsonl
    check "lines of eval.jsonl are lost" grep -q '"event": "fn"' w/eval.jsonl
    check "lines of eval.jsonl are damaged" sh -c '"$1" compare w 2>&1 | grep -q damaged && exit 1 || exit 0' sh "$glofnd"
done

# Weights and thresholds of one step, whatever training does meanwhile; it may be asked to call again.
row "an evaluation during training"
while more; do
    rm -rf r
    cp -r one r
    both "$glofnd pretrain --quiet --out r --resume --epochs 6 --checkpoint-steps 1" 0 "$glofnd eval fn r" '0|1'
    [ "$code" = 0 ] || check "another failure" grep -q 'call again' err.b
    check "another end" cmp r/model.safetensors longer/model.safetensors
done

row "a report during training"
while more; do
    rm -rf r
    cp -r one r
    both "$glofnd pretrain --quiet --out r --resume --epochs 6 --checkpoint-steps 1" 0 \
        "$glofnd report r --samples 20 --out p.html" 0
    check "another end" cmp r/model.safetensors longer/model.safetensors
done

row "two discoveries into one folder"
while more; do
    rm -rf d d.*
    both "$glofnd discover x.npy --k 3 --out d" '0|1' "$glofnd discover x.npy --k 3 --out d" '0|1'
    check "another result" diff -r found d
    check "leftovers" test "$(echo d*)" = d
done

row "two discoveries that replace one result"
while more; do
    rm -rf d d.*
    cp -r found d
    echo mine > d/notes.txt
    both "$glofnd discover x.npy --k 3 --out d --force" '0|1' "$glofnd discover x.npy --k 3 --out d --force" '0|1'
    check "another result" diff -r -x notes.txt found d
    check "it cannot be repeated" "$glofnd" discover x.npy --k 3 --out d --force
    check "files of the user are lost" test "$(cat d/notes.txt)" = mine
    check "leftovers" test "$(echo d*)" = d
done

row "two embeddings to one file"
while more; do
    rm -rf o
    mkdir o
    both "$glofnd embed one --data $data --out o/x.npy" 0 "$glofnd embed one --data $data --out o/x.npy" 0
    check "another file" cmp x.npy o/x.npy
    check "leftovers" test "$(ls o)" = x.npy
done

row "two sweeps in one folder"
while more; do
    rm -rf s
    both "$(sweep_words)" '0|1' "$(sweep_words)" '0|1'
    check "it cannot be continued" $(sweep_words)
    check "evaluations are repeated" test "$(grep -c '"event": "evaluated"' s/sweep.jsonl)" = 2
done
