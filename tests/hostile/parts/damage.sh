# damage.sh - each file of a run is damaged, and every command reads it: it must refuse, or give what the undamaged run gives.
# Logs (log.jsonl, eval.jsonl, events, memory.json) have no checksums: there commands may leave lines out, but not fail badly.

# NAME: how to damage; $1 the file
damages='
flip-begin
flip-middle
flip-end
cut-empty
cut-half
cut-byte
zeros
longer
removed
'
at_byte() { # FILE AT: flips a bit of this byte
    byte=$(od -An -tu1 -j "$2" -N 1 "$1")
    printf "\\$(printf %o $((byte ^ 4)))" | dd of="$1" bs=1 seek="$2" conv=notrunc 2> /dev/null
}
damage() {
    size=$(wc -c < "$2")
    case $1 in
        flip-begin) [ "$size" -gt 12 ] && at_byte "$2" 12 ;;
        flip-middle) [ "$size" -gt 2 ] && at_byte "$2" $((size / 2 + 1)) ;;
        flip-end) [ "$size" -gt 2 ] && at_byte "$2" $((size - 2)) ;;
        cut-empty) : > "$2" ;;
        cut-half) head -c $((size / 2)) "$2" > half && cat half > "$2" ;;
        cut-byte) [ "$size" -gt 0 ] && head -c $((size - 1)) "$2" > half && cat half > "$2" ;;
        zeros) dd if=/dev/zero of="$2" bs=1 seek=$((size / 3)) count=$((size / 8 + 1)) conv=notrunc 2> /dev/null ;;
        longer) printf '\000' >> "$2" ;;
        removed) rm "$2" ;;
    esac
}

# NAME and words; what it gives is its output, and what it writes: made, made.npy. A new command is one line.
data=shapes:n=32,classes=4,size=8,seed=1
commands="
knn $glofnd eval knn r --k 3
fn $glofnd eval fn r
threshold $glofnd eval threshold r --out made
embed $glofnd embed r --data $data --out made.npy
discover $glofnd discover r --data $data --k 3 --out made
resume $glofnd pretrain --quiet --out r --resume --epochs 3
report $glofnd report r --samples 20 --out made
compare $glofnd compare r
info $glofnd data info $data
"
# What a command gave: the trained weights, or its output and files, without times.
given() {
    case $1 in
        resume) cksum < r/model.safetensors ;;
        report | compare) echo "exit $code" ;;
        *)
            sed -e 's/[0-9.]* s\b//g' "$tmp/out"
            [ -d made ] && cat made/*.tsv made/*.npy 2> /dev/null | cksum
            for one in made made.npy; do [ -f $one ] && cksum < $one; done
            ;;
    esac
}
# Files without a checksum; and a checkpoint without DONE is an unfinished one, not a damaged one.
is_log() { case "$1 $2" in *.jsonl\ * | *tfevents* | */memory.json\ * | *"/DONE removed") return 0 ;; esac; return 1; }

# bare: stopped, without RUN/model.safetensors; whole: finished and evaluated
"$glofnd" pretrain $tiny --out whole --epochs 2 > "$tmp/log" 2>&1 &&
    "$glofnd" eval knn whole --k 5 > "$tmp/log" 2>&1 && cp -r whole bare && rm bare/model.safetensors ||
    { skip "pretrain does not work here"; return 0; }

rows 2
for state in whole bare; do
    row "$state run: each file damaged in each way, read by each command"
    echo "$commands" | grep . > commands
    files=$(cd "$state" && find . -type f | sort)
    possible $(($(echo "$files" | wc -l) * $(echo "$damages" | grep -c .) * $(wc -l < commands)))
    while read -r name words; do
        rm -rf r made made.npy*
        cp -r "$state" r
        $words > "$tmp/out" 2> "$tmp/err"
        code=$?
        given "$name" > "right-$name"
        [ "$code" = 0 ] || { begin_try "$name" && differs "the undamaged run is refused"; }
    done < commands
    # All pairs of files and damages, in an order that spreads over both, and all commands for each.
    for file in $files; do for how in $damages; do echo "$file $how"; done; done > pairs
    for n in $(spread "$(wc -l < pairs)"); do
        more || break
        read -r file how << END
$(sed -n "${n}p" pairs)
END
        while read -r name words; do
            rm -rf r made made.npy*
            cp -r "$state" r
            damage "$how" "r/$file" 2> /dev/null || continue
            try "$name, $file $how" '0|1|2' $words < /dev/null
            if [ "$code" = 0 ] && ! is_log "$file" "$how"; then
                given "$name" > given
                check "damaged data is used" cmp "right-$name" given
            elif [ "$code" != 0 ]; then
                check "refused without a message" test -s "$tmp/err"
                case $name in resume) check "files of the run are lost" test -e r/checkpoints ;; esac
            fi
        done < commands
    done
done
