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

# fresh FOLDER...: a new copy of the golden folder; these .npz files as folders of .npy files
fresh() {
    rm -rf "$work/g"
    cp -R "$golden" "$work/g"
    chmod -R u+w "$work/g"
    for folder; do unpack "$folder"; done
}

# offsets TEXT FILE: the bytes where it occurs
offsets() { LC_ALL=C grep -a -b -o -F -e "$1" "$2" | cut -d: -f1; }

# unpack CASE: its members have no extra field, so the data of each begins after its name and ends where the next header begins
unpack() {
    mkdir "$work/g/$1"
    { offsets "$(printf 'PK\003\004')" "$work/g/$1.npz"; offsets "$(printf 'PK\001\002')" "$work/g/$1.npz"; } >"$work/headers"
    while read -r header && read -r next <&3 && [ "$(tail -c +$((header + 3)) "$work/g/$1.npz" | head -c 1)" = "$(printf '\003')" ]; do
        length=$(tail -c +$((header + 27)) "$work/g/$1.npz" | head -c 1 | od -An -tu1)
        name=$(tail -c +$((header + 31)) "$work/g/$1.npz" | head -c $((length)))
        tail -c +$((header + 31 + length)) "$work/g/$1.npz" | head -c $((next - header - 30 - length)) >"$work/g/$1/$name"
    done <"$work/headers" 3<<EOF
$(tail -n +2 "$work/headers")
EOF
    rm "$work/g/$1.npz"
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

fresh $case inputs_uni
expect 0 "1 agree, 0 differ" "$work/g" $case
expect 0 "worst at" "$work/g" $case --verbose
expect 0 "usage" --help

# the numbers differ
zero $case/loss.npy 8
expect 1 "FAIL loss" "$work/g" $case
fresh $case
zero $case/mask_ba_bb_bits.npy 8
expect 1 "FAIL mask_ba_bb_bits" "$work/g" $case
fresh $case
zero $case/log_recall.npy 72       # NaN at step 0: nothing was logged
expect 1 "FAIL log_recall" "$work/g" $case

# an output that is not computed must not pass
fresh $case
sed "s/^${case}${tab}loss${tab}/${case}${tab}loss_of_tomorrow${tab}/" "$work/g/manifest.tsv" >"$work/lines"
cp "$work/lines" "$work/g/manifest.tsv"
expect 1 "NOT COMPARED" "$work/g" $case

# missing files
fresh $case
expect 2 "no case 'absent'" "$work/g" absent
expect 2 "manifest.tsv: cannot be opened" "$work/nowhere"
expect 2 "no folder given"
expect 2 "unexpected '--fast'" "$work/g" --fast
rm "$work/g/$case/u.npy"
expect 2 "u.npy: cannot be opened" "$work/g" $case
fresh $case
drop_lines hyper.tsv "^${case}${tab}alpha${tab}"
expect 2 "no key 'alpha'" "$work/g" $case
fresh $case
drop_lines manifest.tsv "^${case}${tab}index${tab}"
expect 2 "no array 'index'" "$work/g" $case
fresh $case
drop_lines manifest.tsv "^${case}${tab}.*${tab}output"
expect 2 "no output" "$work/g" $case

# what is not of the format
fresh $case
printf 'cut' >"$work/g/$case/u.npy"
expect 2 "not a .npy file" "$work/g" $case
fresh $case
cp "$work/g/$case/loss.npy" "$work/g/$case/u.npy"
expect 2 "has shape 9; manifest.tsv says 9,64" "$work/g" $case
fresh $case
echo "one${tab}field too few" >>"$work/g/manifest.tsv"
expect 2 "2 fields; expected 6" "$work/g" $case
fresh $case
sed "s/^${case}${tab}B${tab}16/${case}${tab}B${tab}sixteen/" "$work/g/hyper.tsv" >"$work/lines"
cp "$work/lines" "$work/g/hyper.tsv"
expect 2 "a number is expected" "$work/g" $case
fresh $case
sed "s/^${case}${tab}family${tab}.*/${case}${tab}family${tab}trimodal/" "$work/g/hyper.tsv" >"$work/lines"
cp "$work/lines" "$work/g/hyper.tsv"
expect 2 "unknown family 'trimodal'" "$work/g" $case

# the same case in one file: a flipped value, a missing array, damage
zero_member() { # ARRAY: the last eight bytes of it in the file of the case
    start=$(offsets "$1" "$work/g/$case.npz" | head -n 1)
    end=$(offsets "$(printf 'PK\003\004')" "$work/g/$case.npz" | awk -v start="$start" '$1 > start { print; exit }')
    dd if=/dev/zero of="$work/g/$case.npz" bs=1 count=8 seek=$((end - 8)) conv=notrunc 2>"$work/dd" || cat "$work/dd"
}
fresh
expect 0 "1 agree, 0 differ" "$work/g" $case
zero_member loss.npy
expect 1 "FAIL loss" "$work/g" $case
fresh
zero_member mask_ba_bb_bits.npy
expect 1 "FAIL mask_ba_bb_bits" "$work/g" $case
fresh
sed "s/$case.u.npy/$case\/w.npy/" "$work/g/manifest.tsv" >"$work/lines"
cp "$work/lines" "$work/g/manifest.tsv"
expect 2 "w.npy: no such array" "$work/g" $case
fresh
head -c 3000 "$golden/$case.npz" >"$work/g/$case.npz"
expect 2 "not a .npz file" "$work/g" $case
rm "$work/g/$case.npz"
expect 2 "$case/loss.npy: cannot be opened" "$work/g" $case

exit $failed
