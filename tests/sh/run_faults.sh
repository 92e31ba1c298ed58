# run_faults.sh - file-system calls that fail, or a kill between them, do not lose the state of a run or its log. Calls fail by
# tests/hostile/shim.c.
. "$2/tests/sh/common.inc"
shim=$build/tests/hostile_shim.so
[ -e "$shim" ] || skip "no shim"
needs_runs
data=shapes:n=32,classes=4,size=8,seed=1
export OMP_NUM_THREADS=1
train finished --epochs 1
resume() { "$glofnd" pretrain --quiet --out "$1" --resume --epochs 2; }
# with FAULT N FOLDER COMMAND...: the command, with the fault at its N-th call on files in FOLDER
with() {
    what=$1 at=$2 under=$3
    shift 3
    (export LD_PRELOAD="$shim" HOSTILE_DO="$what" HOSTILE_AT="$at" HOSTILE_UNDER="$under" && "$@")
}
# calls_on FAULT FOLDER PATTERN COMMAND...: numbers of the calls that match
calls_on() {
    rm -f trace
    what=$1 under=$2 pattern=$3
    shift 3
    (export LD_PRELOAD="$shim" HOSTILE_DO="$what" HOSTILE_UNDER="$under" HOSTILE_TRACE="$PWD/trace" && "$@") > /dev/null 2>&1
    grep -E "$pattern" trace | cut -d' ' -f1
}

# ----- checkpoints that cannot be listed are not "none" -----
for fault in EIO EACCES EMFILE; do
    cp -r finished l
    for n in $(calls_on $fault "$PWD/l/checkpoints" '(opendir|readdir|lstat|access)' resume l); do
        rm -rf l
        cp -r finished l
        with $fault "$n" "$PWD/l/checkpoints" resume l > out 2> err && code=0 || code=$?
        grep -q "starting from the beginning" err && fail "$fault at call $n: begins again"
        [ "$code" = 0 ] || [ -e l/checkpoints/step-2/DONE ] || [ -e l/checkpoints/step-4/DONE ] ||
            fail "$fault at call $n: the checkpoint is lost"
    done
    rm -rf l
done
cp -r finished l
mv l/checkpoints elsewhere
ln -s /a/disk/not/mounted l/checkpoints
cp l/log.jsonl log.before
expect 1 "checkpoints cannot be read" resume l
cmp l/log.jsonl log.before || fail "the log is cut"

# ----- a log that cannot be read is not cut; what is cut stays until a checkpoint is complete -----
cp -r finished r
for n in $(calls_on EIO "$PWD/r/log.jsonl" '(read|pread|open|stat)' resume r); do
    rm -rf r
    cp -r finished r
    with EIO "$n" "$PWD/r/log.jsonl" resume r > out 2> err
    grep -q "curves have a gap" err && fail "EIO at call $n: the log is taken for a short one"
    [ "$(head -c "$(wc -c < finished/log.jsonl)" r/log.jsonl | cksum)" = "$(cksum < finished/log.jsonl)" ] ||
        fail "EIO at call $n: the log is cut"
done
rm -rf r
cp -r finished r
cp -r finished whole
expect 0 "" resume whole
calls_on EINTR "$PWD/r" . resume r > numbers
for n in $(awk 'NR % 7 == 1' numbers); do
    rm -rf r
    cp -r finished r
    with EINTR "$n" "$PWD/r" resume r > out 2> err || fail "EINTR at call $n: $(cat err)"
    cmp r/model.safetensors whole/model.safetensors || fail "EINTR at call $n"
    timeless r > a.log
    timeless whole > b.log
    cmp a.log b.log || fail "EINTR at call $n: logs differ"
done
cp -r finished k
echo '{"event": "step", "step": 99}' >> k/log.jsonl
n=$(calls_on kill "$PWD/k" 'mkdir .*tmp-' resume k | head -n 1)
rm -rf k
cp -r finished k
echo '{"event": "step", "step": 99}' >> k/log.jsonl
with kill "$n" "$PWD/k" resume k > out 2>&1 && fail "not killed"
grep -q '"step": 99' k/log.jsonl.cut || fail "what was cut from the log is lost before a checkpoint"
expect 0 "" resume k
[ ! -e k/log.jsonl.cut ] || fail "log.jsonl.cut is left"

# ----- an interrupted clean-up: DONE goes first, --remap keeps the newest -----
"$glofnd" data export shapes:n=40,classes=4,size=16,seed=3 --folder --out img > out 2>&1 || fail "export: $(cat out)"
T="--quiet --data folder:img --arch resnet8 --head-hidden 16 --head-out 8 --batch 8 --warmup-epochs 0 --epochs 6"
T="$T --checkpoint-steps 10 --threads 1"
calls_on kill "$PWD/m/checkpoints" . "$glofnd" pretrain $T --out m > numbers
awk '/rename .*tmp-20/ { done = 1 } done && /unlink .*step-10\// { print $1 }' trace > removals
rm -rf m
with kill "$(sed -n 2p removals)" "$PWD/m/checkpoints" "$glofnd" pretrain $T --out m > out 2>&1 && fail "not killed"
[ "$(ls m/checkpoints | tr '\n' ' ')" = "step-10 step-20 " ] || fail "other checkpoints: $(ls m/checkpoints)"
[ ! -e m/checkpoints/step-10/DONE ] || fail "a half-removed checkpoint still has DONE"
rm -rf m
with kill "$(sed -n 1p removals)" "$PWD/m/checkpoints" "$glofnd" pretrain $T --out m > out 2>&1 && fail "not killed"
[ -e m/checkpoints/step-10/DONE ] && [ -e m/checkpoints/step-20/DONE ] ||
    fail "two whole checkpoints expected: $(ls m/checkpoints/*)"
rm "$(ls img/*/*.png | head -n 1)"
cp -r m m0
for n in $(calls_on kill "$PWD/m" '(rename|unlink|mkdir)' "$glofnd" pretrain --quiet --out m --resume --remap | head -n 24); do
    rm -rf m
    cp -r m0 m
    with kill "$n" "$PWD/m" "$glofnd" pretrain --quiet --out m --resume --remap > out 2>&1
    if [ ! -e m/checkpoints/step-20/DONE ] && [ ! -e m/checkpoints/before-20/DONE ]; then
        [ "$(newest m)" != step-10 ] || fail "killed at call $n: back at step-10, half of the run is lost: $(ls m/checkpoints)"
    fi
    if [ -e m/checkpoints/before-20/DONE ]; then
        [ ! -e m/checkpoints/step-10/DONE ] || fail "killed at call $n: step-10 would be preferred to before-20"
    fi
done

# ----- killed at any call of a run whose only checkpoint is the last one: it can be continued -----
only_flags() {
    echo "--quiet --data $data --arch resnet8 --batch 16 --warmup-epochs 0 --head-hidden 8 --head-out 8 --epochs 1"
}
call "$glofnd" pretrain $(only_flags) --out only
wants "pretrain only" 0
for n in $(calls_on kill "$PWD/q" '(rename|mkdir)' "$glofnd" pretrain $(only_flags) --out q); do
    rm -rf q
    with kill "$n" "$PWD/q" "$glofnd" pretrain $(only_flags) --out q > out 2>&1 && continue
    [ -e q ] || continue
    call "$glofnd" pretrain $(only_flags) --out q --resume
    wants "killed at call $n" 0
    cmp q/model.safetensors only/model.safetensors || fail "killed at call $n: other weights"
done

# ----- an evaluation file that cannot be inspected is not made -----
for n in $(calls_on EIO "$PWD/g/eval.jsonl" stat "$glofnd" pretrain $(only_flags) --out g); do
    rm -rf g
    with EIO "$n" "$PWD/g/eval.jsonl" "$glofnd" pretrain $(only_flags) --out g > out 2> err
    [ ! -e g/eval.jsonl ] || fail "EIO at call $n: eval.jsonl appears"
done
