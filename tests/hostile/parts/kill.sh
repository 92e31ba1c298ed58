# kill.sh - SIGKILL at each file-system call of a command. Afterwards the same command, or its --resume, must come to the same
# end as a run that nothing has disturbed, and the newest complete checkpoint must still be there or be replaced by a newer one.

# Steps of the newest complete checkpoint; 0: none.
complete_steps() {
    for folder in "$1"/checkpoints/step-* "$1"/checkpoints/before-*; do
        [ -e "$folder/DONE" ] && echo "${folder##*-}"
    done | sort -n | tail -n 1 | grep . || echo 0
}

"$glofnd" pretrain $tiny --out whole --epochs 2 > /dev/null 2>&1 || skip "pretrain does not work here"

share 30
row "pretrain, new: killed at each call, resumed"
calls kill "$tmp/r" "$glofnd" pretrain $tiny --out r --epochs 2
possible "$count"
for n in $(spread "$count"); do
    more || break
    rm -rf r
    fault kill "$n" "$tmp/r"
    killed "call $n" "$glofnd" pretrain $tiny --out r --epochs 2
    check "resume fails" "$glofnd" pretrain $tiny --out r --resume --epochs 2
    check "another end" same_end whole r
done
