# errors.sh - each file-system call of a command fails once, or all do from one call on (scenarios.inc). The command must say so
# or come to the right end; nothing that was complete may be lost; and repeated or resumed without the error it must come to the
# same end as one that nothing has disturbed. Interrupted calls and short reads and writes must not be noticed at all.
. "$source/tests/hostile/scenarios.inc"

# WHAT and the exit codes that are right
errors='
EIO 0|1
ENOSPC 0|1
ENOSPC+ 0|1
EMFILE 0|1
EACCES 0|1
EINTR 0
short 0
'

if ! prepare > "$tmp/log" 2>&1; then
    tail -n 5 "$tmp/log" >&2
    begin_try "the commands work" && differs "they do not, undisturbed"
    return 0
fi

prepare_ranks > "$tmp/log" 2>&1 || rm -rf ranks_end

rows $(($(echo "$scenarios" | grep -c .) * $(echo "$errors" | grep -c .)))
for line in $(echo "$scenarios" | awk 'NF { print $1 ":" $2 }'); do
    name=${line%:*} folder=${line#*:}
    usable "$name" || { skip "$name: no mpirun"; continue; }
    for error in $(echo "$errors" | awk 'NF { print $1 ":" $2 }'); do
        what=${error%:*} codes=${error#*:}
        row "$name: $what at each call, then repeated or resumed"
        clean
        "$name"_start > "$tmp/log" 2>&1
        calls "$what" "$tmp/$folder" $("$name"_words)
        possible "$count"
        for n in $(spread "$count"); do
            more || break
            disturbed "$name" "$folder" "$what" "$n" "$codes"
        done
    done
done
