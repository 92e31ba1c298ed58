#!/bin/sh
# Runs replay on corrupt copies of the golden folder and expects the right exit status and message.
#     selftest.sh REPLAY GOLDEN
set -eu
replay=$1
golden=$2
work=$(mktemp -d "${TMPDIR:-/tmp}/replay-selftest.XXXXXX")
trap 'rm -rf "$work"' EXIT
case=A_dcl_glofnd_a0.05
failed=0

fresh() {
    rm -rf "$work/g"
    cp -R "$golden" "$work/g"
    chmod -R u+w "$work/g"
}

# expect STATUS WORD ARGUMENTS...: exit status, and a word of the output
expect() {
    status=$1
    word=$2
    shift 2
    got=0
    "$replay" "$@" >"$work/log" 2>&1 || got=$?
    if [ "$got" != "$status" ] || ! grep -q -e "$word" "$work/log"; then
        echo "replay $*: exit status $got, expected $status and the word '$word':"
        tail -n 5 "$work/log"
        failed=1
    fi
}

# zero FILE OFFSET_FROM_END: eight bytes become zero
zero() {
    size=$(wc -c <"$work/g/$1")
    dd if=/dev/zero of="$work/g/$1" bs=1 count=8 seek=$((size - $2)) conv=notrunc 2>"$work/dd" || cat "$work/dd"
}

# drop_lines FILE PATTERN
drop_lines() {
    grep -v -e "$2" "$work/g/$1" >"$work/lines"
    cp "$work/lines" "$work/g/$1"
}

tab=$(printf '\t')

fresh
expect 0 "1 agree, 0 differ" "$work/g" $case
expect 0 "worst at" "$work/g" $case --verbose
expect 0 "usage" --help

# the numbers differ
zero $case/loss.npy 8
expect 1 "FAIL loss" "$work/g" $case
fresh
zero $case/mask_ba_bb_bits.npy 8
expect 1 "FAIL mask_ba_bb_bits" "$work/g" $case
fresh
zero $case/log_recall.npy 72       # NaN at step 0: nothing was logged
expect 1 "FAIL log_recall" "$work/g" $case

# an output that is not computed must not pass
fresh
sed "s/^${case}${tab}loss${tab}/${case}${tab}loss_of_tomorrow${tab}/" "$work/g/manifest.tsv" >"$work/lines"
cp "$work/lines" "$work/g/manifest.tsv"
expect 1 "NOT COMPARED" "$work/g" $case

# missing files
fresh
expect 2 "no case 'absent'" "$work/g" absent
expect 2 "manifest.tsv: cannot be opened" "$work/nowhere"
expect 2 "no folder given"
expect 2 "unexpected '--fast'" "$work/g" --fast
rm "$work/g/$case/u.npy"
expect 2 "u.npy: cannot be opened" "$work/g" $case
fresh
drop_lines hyper.tsv "^${case}${tab}alpha${tab}"
expect 2 "no key 'alpha'" "$work/g" $case
fresh
drop_lines manifest.tsv "^${case}${tab}index${tab}"
expect 2 "no array 'index'" "$work/g" $case
fresh
drop_lines manifest.tsv "^${case}${tab}.*${tab}output"
expect 2 "no output" "$work/g" $case

# what is not of the format
fresh
printf 'cut' >"$work/g/$case/u.npy"
expect 2 "not a .npy file" "$work/g" $case
fresh
cp "$work/g/$case/loss.npy" "$work/g/$case/u.npy"
expect 2 "has shape 9; manifest.tsv says 9,64" "$work/g" $case
fresh
echo "one${tab}field too few" >>"$work/g/manifest.tsv"
expect 2 "2 fields; expected 6" "$work/g" $case
fresh
sed "s/^${case}${tab}B${tab}16/${case}${tab}B${tab}sixteen/" "$work/g/hyper.tsv" >"$work/lines"
cp "$work/lines" "$work/g/hyper.tsv"
expect 2 "a number is expected" "$work/g" $case
fresh
sed "s/^${case}${tab}family${tab}.*/${case}${tab}family${tab}trimodal/" "$work/g/hyper.tsv" >"$work/lines"
cp "$work/lines" "$work/g/hyper.tsv"
expect 2 "unknown family 'trimodal'" "$work/g" $case

exit $failed
