#!/bin/sh
# run.sh - a hostile trial of the program: kills, failing calls, damaged files, signals, several processes; one table at the end.
#
#     tests/hostile/run.sh [--minutes M] [--build BUILD] [--keep] [PART...]       M: for all parts together (60)
#
# A part is a file parts/PART.sh, which is sourced; default: all of them, in the order of the list below. Exit 0: nothing
# differed. Exit 77: the program cannot be tried here. --keep: the folder of what differed stays, and is named.
#
# What a part can use
#   $glofnd $build $source      the program, its build folder, the sources
#   $shim                       the library of shim.c
#   $tmp                        scratch folder of the part, empty and the current folder when it begins
#   row NAME                    begins a row of the table: all tries up to the next row count in it
#   try NAME CODES COMMAND...   one try: runs the command with a time limit ($limit seconds, 60), output in $tmp/out and $tmp/err.
#                               CODES: the exit codes that are right, "0", "1|2", "0|1"; "refused": 1 or 2, with a message
#                               Any other code, a signal, a time-out, a report of a sanitizer and output of "Assertion" count as
#                               differed. $code: its exit code, 128 + the signal; $ok: 1 as long as nothing differed.
#   killed NAME COMMAND...      the same, but SIGKILL is expected, or a run to its end (0)
#   check WHAT COMMAND...       an invariant after a try: the command must succeed, or the try counts as differed (once)
#   differs WHAT                says that the last try differed
#   spread N                    the numbers 1..N, far ones first: a loop over them that stops early has covered all of N thinly
#   more                        true while the row has time left: `for n in $(spread 300); do more || break; ...; done`
#   share PERCENT               of the part's time for the rows that follow, each (default: what is left)
#   rows N                      instead: N rows follow, which share the time that is left evenly
#   possible N                  how many tries the row would have with enough time; shown in the table
#   skip WHY                    ends the part
#   fault WHAT N FOLDER         the next try has WHAT (see shim.c) happen at its N-th call on files in FOLDER
#   calls WHAT FOLDER COMMAND.. runs the command, and sets $count to the number of calls that WHAT can happen to
#   $tiny                       flags of a training of 0.1 s: "$glofnd" pretrain $tiny --out r
#
# A new part: one word in `parts` below. A new command or file: one line in the tables of the parts.
set -u
parts="kill errors damage signals writers corpora names"

minutes=60 build= keep=0 chosen=
source=$(cd "$(dirname "$0")/../.." && pwd)
while [ $# -gt 0 ]; do
    case $1 in
        --minutes) minutes=$2; shift ;;
        --build) build=$2; shift ;;
        --keep) keep=1 ;;
        -*) echo "usage: run.sh [--minutes M] [--build BUILD] [--keep] [PART...]" >&2; exit 2 ;;
        *) chosen="$chosen $1" ;;
    esac
    shift
done
build=$(cd "${build:-$source/build}" 2> /dev/null && pwd) || { echo "run.sh: no build folder" >&2; exit 77; }
glofnd=$build/glofnd
[ -x "$glofnd" ] || { echo "run.sh: $glofnd is missing" >&2; exit 77; }
root=$(mktemp -d "${TMPDIR:-/tmp}/glofnd-hostile.XXXXXX")
trap 'status=$?; cd /; [ "$keep" = 1 ] && [ -s "$root/differed" ] || rm -rf "$root"; exit $status' EXIT
trap 'exit 130' INT TERM HUP
shim=$root/shim.so      # compiled here: a build with sanitizers would have them in it
${CC:-cc} -O1 -shared -fPIC -o "$shim" "$source/tests/hostile/shim.c" -ldl || { echo "run.sh: no C compiler" >&2; exit 77; }
export OMP_NUM_THREADS=1 OMP_WAIT_POLICY=passive TERM=dumb LC_ALL=C
: > "$root/table"
: > "$root/differed"

# ----- rows and tries -----

row_name= tried=0 survived=0 bad=0 all=0 limit=60 ok=1 code=0 share_of=0 rows_left=0
now() { date +%s; }
close_row() {
    [ -n "$row_name" ] && [ "$tried" -gt 0 ] &&
        printf '%s\t%s\t%s\t%s\t%s\t%s\n' "$part" "$row_name" "$all" "$tried" "$survived" "$bad" >> "$root/table"
    row_name= tried=0 survived=0 bad=0 all=0
}
row() {
    close_row
    row_name=$1
    row_ends=$part_ends
    [ "$rows_left" -gt 0 ] && row_ends=$(($(now) + (part_ends - $(now)) / rows_left)) && rows_left=$((rows_left - 1))
    [ "$share_of" -gt 0 ] && row_ends=$(($(now) + part_seconds * share_of / 100))
    [ "$row_ends" -gt "$part_ends" ] && row_ends=$part_ends
    echo "  $part: $row_name" >&2
}
share() { share_of=$1; }
rows() { rows_left=$1; }
possible() { all=$1; }
more() { [ "$tried" -eq 0 ] || [ "$(now)" -lt "$row_ends" ]; }     # every row has one try at least
differs() {
    [ "$ok" = 1 ] && { bad=$((bad + 1)) survived=$((survived - 1)); }
    ok=0
    {
        echo "$part: $row_name: $try_name: $*"
        [ -s "$tmp/err" ] && tail -n 5 "$tmp/err" | sed 's/^/    /'
    } | tee -a "$root/differed" >&2
    [ "$keep" = 1 ] && cp -r "$tmp" "$root/differed-$(wc -l < "$root/differed")" 2> /dev/null
    return 0
}
# begin_try NAME; end_try CODES: for tries that are more than one command
begin_try() {
    try_name=$1 ok=1
    tried=$((tried + 1)) survived=$((survived + 1))
    : > "$tmp/out"
    : > "$tmp/err"
}
end_try() {
    grep -q -e 'ERROR: .*Sanitizer' -e 'runtime error:' -e 'Assertion .* failed' "$tmp/err" "$tmp/out" &&
        differs "a sanitizer or an assertion reports"
    case $code in 124) differs "no end within $limit s"; return ;; esac
    case $1 in
        refused)
            case $code in 1 | 2) ;; *) differs "exit code $code, not refused"; return ;; esac
            [ -s "$tmp/err" ] || differs "refused without a message"
            ;;
        *) case "|$1|" in *"|$code|"*) ;; *) differs "exit code $code, expected $1" ;; esac ;;
    esac
    [ "$ok" = 1 ]
}
try() {
    begin_try "$1"
    try_codes=$2
    shift 2
    timeout -k 5 "$limit" env $injected "$@" > "$tmp/out" 2> "$tmp/err"
    code=$?
    injected=
    end_try "$try_codes"
}
# timeout(1) reports a killed command as 137
killed() {
    try_name=$1
    shift
    try "$try_name" '0|137' "$@"
}
check() {
    check_what=$1
    shift
    "$@" > "$tmp/check" 2>&1 && return 0
    cat "$tmp/check" >> "$tmp/err"
    differs "$check_what"
    return 1
}
skip() {
    echo "  $part: skipped: $*" >&2
    printf '%s\t%s\t0\t0\t0\t0\n' "$part" "skipped: $*" >> "$root/table"
    row_name=
}
# The numbers 1..N: every 16th, then every 8th, ...
spread() {
    awk -v n="$1" 'BEGIN { for (s = 32; s >= 1; s /= 2) for (i = 1; i <= n; i++) if ((i - 1) % s == 0 && !done[i]++) print i }'
}

# ----- the program -----

injected=
fault() {
    injected="LD_PRELOAD=$shim HOSTILE_DO=$1 HOSTILE_AT=$2 HOSTILE_UNDER=$3"
}
calls() {
    rm -f "$tmp/count"
    call_what=$1 call_under=$2
    shift 2
    env LD_PRELOAD="$shim" HOSTILE_DO="$call_what" HOSTILE_UNDER="$call_under" HOSTILE_COUNT="$tmp/count" \
        "$@" > "$tmp/out" 2> "$tmp/err"
    count=$(cat "$tmp/count" 2> /dev/null || echo 0)
}
tiny="--quiet --data shapes:n=32,classes=4,size=8,seed=1 --arch resnet8 --head-hidden 8 --head-out 8 --batch 8"
tiny="$tiny --warmup-epochs 0 --threads 1"
# The log without times, which differ between equal runs
timeless() { sed -e 's/"time_[a-z]*": [^,}]*//g' -e 's/"[a-z_]*_per_s": [^,}]*//g' "$1/log.jsonl"; }
newest() { ls "$1/checkpoints" 2> /dev/null | grep '^step-[0-9]*$' | sort -t- -k2n | tail -n 1; }
# same_end A B: these runs came to the same weights, checkpoint and log, and no other files are left
same_end() {
    cmp "$1/model.safetensors" "$2/model.safetensors" || return 1
    diff -r -x config.cfg -x DONE "$1/checkpoints" "$2/checkpoints" || return 1
    timeless "$1" > "$tmp/log.a"
    timeless "$2" > "$tmp/log.b"
    cmp "$tmp/log.a" "$tmp/log.b" || return 1
    [ "$(ls "$1")" = "$(ls "$2")" ] || { ls "$1" "$2"; return 1; }
}

# ----- all parts -----

started=$(now)
set -- ${chosen:-$parts}
left=$#
for part in "$@"; do
    file=$source/tests/hostile/parts/$part.sh
    part_seconds=$(((minutes * 60 - ($(now) - started)) / left))
    [ "$part_seconds" -gt 0 ] || part_seconds=1
    part_ends=$(($(now) + part_seconds))
    left=$((left - 1)) share_of=0 rows_left=0 limit=60
    if [ ! -e "$file" ]; then
        [ -n "$chosen" ] && { echo "run.sh: no part $part" >&2; exit 2; }
        continue
    fi
    tmp=$root/$part
    mkdir "$tmp"
    cd "$tmp" || exit 1
    . "$file"
    close_row
    cd "$root" || exit 1
    rm -rf "$tmp"
done

echo
echo "hostile trial: $((($(now) - started) / 60)) minutes"
awk -F'\t' 'BEGIN { printf "%-9s %-58s %8s %7s %9s %9s\n", "part", "what", "possible", "tried", "survived", "differed" }
    { printf "%-9s %-58s %8s %7d %9d %9d\n", $1, $2, $3 ? $3 : "-", $4, $5, $6; t += $4; s += $5; d += $6 }
    END { printf "%-9s %-58s %8s %7d %9d %9d\n", "all", "", "", t, s, d }' "$root/table"
if [ -s "$root/differed" ]; then
    echo
    echo "differed:"
    grep -v '^    ' "$root/differed" | head -n 40
    [ "$keep" = 1 ] && echo "kept in $root"
    exit 1
fi
