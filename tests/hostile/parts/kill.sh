# kill.sh - SIGKILL at each file-system call of a command (scenarios.inc). Afterwards the same command, or its --resume, must come
# to the same end as one that nothing has disturbed, and the newest complete checkpoint must still be there.
. "$source/tests/hostile/scenarios.inc"

if ! prepare > "$tmp/log" 2>&1; then
    tail -n 5 "$tmp/log" >&2
    begin_try "the commands work" && differs "they do not, undisturbed"
    return 0
fi
prepare_ranks > "$tmp/log" 2>&1 || rm -rf ranks_end

rows "$(echo "$scenarios" | grep -c .)"
for line in $(echo "$scenarios" | awk 'NF { print $1 ":" $2 }'); do
    name=${line%:*} folder=${line#*:}
    usable "$name" || { skip "$name: no mpirun"; continue; }
    row "$name: killed at each call, then repeated or resumed"
    clean
    "$name"_start > "$tmp/log" 2>&1
    calls kill "$tmp/$folder" $("$name"_words)
    possible "$count"
    for n in $(spread "$count"); do
        more || break
        disturbed "$name" "$folder" kill "$n" '0|1|137' # 1: of a sweep whose run was killed
    done
done
