# signals.sh - signals at random moments of a training, again and again until it is finished: it must come to the same end as one
# that nothing has disturbed, and each stop must keep what was complete.
. "$source/tests/hostile/scenarios.inc"

long="--epochs 60 --checkpoint-steps 7"
"$glofnd" pretrain $tiny --out whole $long > "$tmp/log" 2>&1 || { skip "pretrain does not work here"; return 0; }

# NAME and the exit codes that are right; 0: it was asked to stop, and has, with a checkpoint
signals='
INT 0
TERM 0
HUP 0
KILL 0|137
'
drawn=1
# A number below $1, drawn anew.
draw() {
    drawn=$(((drawn * 1103515245 + 12345) % 2147483648))
    echo $((drawn / 65536 % $1))
}

rows "$(echo "$signals" | grep -c .)"
for line in $(echo "$signals" | awk 'NF { print $1 ":" $2 }'); do
    signal=${line%:*} codes=${line#*:}
    row "SIG$signal at random moments of a training, until it is finished"
    while more; do
        rm -rf r
        "$glofnd" pretrain $tiny --out r $long > "$tmp/out" 2> "$tmp/err" &
        process=$!
        stops=0
        while [ "$stops" -lt 40 ] && [ ! -e r/model.safetensors ]; do
            drawn=$(((drawn * 1103515245 + 12345) % 2147483648))
            sleep "0.$(printf %03d $((20 + drawn / 65536 % 400)))"
            had=$(complete_steps r)
            begin_try "stop $stops"
            kill -"$signal" "$process" 2> /dev/null
            wait "$process"
            code=$?
            end_try "$codes"
            check "the newest complete checkpoint is lost" kept r
            stops=$((stops + 1))
            [ -d r ] || break
            "$glofnd" pretrain $tiny --out r --resume $long > "$tmp/out" 2> "$tmp/err" &
            process=$!
        done
        wait "$process"
        code=$?
        begin_try "the end after $stops stops"
        end_try 0
        [ -d r ] && check "it cannot be continued" "$glofnd" pretrain $tiny --out r --resume $long
        [ -d r ] && check "another end" same_end whole r
    done
done
