# run_state.sh - evaluations read weights and thresholds of one step, the newest complete one; corrupt weights are not used; the
# files of a run are not overwritten.
. "$2/tests/sh/common.inc"
needs_runs
data=shapes:n=32,classes=4,size=8,seed=1
export OMP_NUM_THREADS=1
train finished --epochs 1
# flip FILE AT: one bit of it
flip() {
    byte=$(od -An -tu1 -j "$2" -N 1 "$1")
    printf "\\$(printf %o $((byte ^ 64)))" | dd of="$1" bs=1 seek="$2" conv=notrunc 2> /dev/null
}
cp -r finished run

# ----- weights and thresholds are of one step, the newest complete one -----
"$glofnd" pretrain --quiet --out run --resume --epochs 4000 --checkpoint-steps 8 > train.out 2>&1 &
training=$!
for i in $(seq 300); do
    later=$(newest run)
    [ "$later" != step-2 ] && [ -e "run/checkpoints/$later/DONE" ] && break
    sleep 0.1
done
kill -INT "$training"
wait "$training"
[ -e run/model.safetensors ] || fail "the model of the shorter run is gone"
last=$(newest run)
[ "$last" != step-2 ] || fail "no later checkpoint"
cp -r run bare
rm bare/model.safetensors
for kind in knn fn; do
    expect 0 "weights of step ${last#step-}," "$glofnd" eval $kind run
    cp out first
    expect 0 "weights of step ${last#step-}," "$glofnd" eval $kind bare
    cmp first out || fail "eval $kind: the old model is used beside new thresholds"
done
expect 0 "bare/model.safetensors is not there: the run has not finished" "$glofnd" eval knn bare
expect 0 "model.safetensors is of step 2" "$glofnd" eval knn run
expect 0 "weights of step ${last#step-}," "$glofnd" embed run --data $data --out e.npy
expect 0 "" "$glofnd" embed bare --data $data --out f.npy
cmp e.npy f.npy || fail "embed uses the old model"
expect 0 "weights of step ${last#step-}," "$glofnd" discover run --data $data --out d
expect 0 "weights of step ${last#step-}" "$glofnd" report run --out p.html
grep -q "Weights of step ${last#step-}" p.html || fail "the page does not name the step"
expect 0 "" "$glofnd" pretrain --quiet --out run --resume --epochs $((${last#step-} / 2 + 5))
expect 0 "" "$glofnd" compare run
grep -q "knn" out && fail "evaluations of earlier weights are shown"

# ----- corrupt weights are not used -----
cp -r finished u
rm u/model.safetensors
flip u/checkpoints/step-2/model.safetensors 30001
expect 1 "is corrupt" "$glofnd" eval knn u
expect 1 "is corrupt" "$glofnd" embed u --data $data --out x.npy
expect 1 "is corrupt" "$glofnd" discover u --data $data --out x
cp -r finished v
rm -r v/checkpoints
expect 0 "weights of step 2," "$glofnd" eval knn v
flip v/model.safetensors 30001
expect 1 "is corrupt" "$glofnd" eval knn v
expect 1 "is corrupt" "$glofnd" pretrain --quiet --data $data --arch resnet8 --batch 16 \
    --warmup-epochs 0 --epochs 1 --init v/model.safetensors --out w
cp -r finished v2
flip v2/model.safetensors 30001
expect 0 "model.safetensors is corrupt" "$glofnd" eval knn v2
cp -r finished v3
flip v3/checkpoints/step-2/anchors.glofnd 200
expect 1 "is corrupt" "$glofnd" eval fn v3

# ----- a lost or changed configuration -----
cp -r finished c
rm c/config.cfg
expect 0 "weights of step 2," "$glofnd" eval knn c
cp -r finished c2
sed 's/^seed = .*/seed = 77/' finished/config.cfg > c2/config.cfg
expect 1 "not the one its checkpoint was made under: seed" "$glofnd" eval knn c2

# ----- a finished run has no leftovers -----
cp -r finished z
mkdir z/checkpoints/step-1 z/checkpoints/tmp-9
echo x > z/checkpoints/step-1/model.safetensors
: > z/log.jsonl.cut
expect 0 "finished already" "$glofnd" pretrain --out z --resume
[ "$(ls z/checkpoints) $(ls z/*.cut 2> /dev/null)" = "step-2 " ] || fail "leftovers: $(ls z z/checkpoints)"

# ----- outputs do not overwrite the files of a run -----
cp -r finished o
print_of o > before
expect 1 "is a file of the run" "$glofnd" embed o --data $data --out o/model.safetensors
expect 1 "would lie in a checkpoint" "$glofnd" embed o --data $data --out o/e.npy --labels o/checkpoints/step-2/keys.glofnd
expect 1 "is a file of the run" "$glofnd" compare o --out o/log.jsonl
expect 1 "is a file of the run" "$glofnd" report o --out o/config.cfg
print_of o > after
cmp before after || fail "a file of the run was changed"
expect 0 "" "$glofnd" embed o --data $data --out o/features.npy
