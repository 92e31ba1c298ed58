# Resuming with other data: anchors follow their samples by name if --remap asks for it, and without it other data is refused.
# Equal data under another path or in other shards is equal.
. "$2/tests/sh/common.inc"
needs_runs
needs 'png yes'
tiny='--arch resnet8 --head-hidden 16 --head-out 8 --batch 8 --epochs 2 --start-epoch 0 --log-steps 2 --size 16'
run() { call "$glofnd" pretrain "$@"; }

# ----- grown: eight images that sort before the others, so that every row moves -----
"$glofnd" data export shapes:n=40,classes=2,size=16 --out images --folder >/dev/null || fail 'data export'
mkdir away
find images -name '*.png' | sort | head -n 8 >eight
keep_away() { while read -r f; do mv "$f" "away/$(echo "$f" | tr / +)"; done <eight; }
bring_back() { while read -r f; do mv "away/$(echo "$f" | tr / +)" "$f"; done <eight; }
keep_away
run --data folder:images $tiny --out run;       wants 'a run' 0 '32 images' 'epochs of 4 steps'
cp -r run plain
bring_back
before=$(print_of run)
run --out run --resume --epochs 4
wants 'grown' 1 'of its 32 samples 32 are found and 0 are missing, and 8 are new' '--remap'
[ "$before" = "$(print_of run)" ] || fail 'grown: files changed'
run --out other --remap --data folder:images $tiny;     wants 'without --resume' 2 '--remap goes with --resume'
run --out run --resume --epochs 4 --remap
wants 'grown, --remap' 0 '32 anchors kept, 8 new, 0 lost' 'epoch 3 begins' 'finished'
grep -q '"event": "remap", "step": 10, "kept": 32, "new": 8, "lost": 0' run/log.jsonl || fail "grown: $(grep remap run/log.jsonl)"
[ "$(ls run/checkpoints)" = step-20 ] || fail "four epochs of five steps: $(ls run/checkpoints)"
ls run | grep -q anchors && fail "a scratch file is left: $(ls run)"

# ----- what was kept is what was there: with the eight gone again, in a store mapped from a file as in memory -----
keep_away
cp -r run mapped
run --out run --resume --epochs 5 --remap;      wants 'shrunk' 0 '32 anchors kept, 0 new, 8 lost' 'epoch 5 begins'
[ "$(ls run/checkpoints)" = step-20 ] || fail "five epochs of four steps: $(ls run/checkpoints)"
[ "$(wc -c <run/checkpoints/step-20/keys.glofnd)" = 288 ] || fail "shrunk: step-20 is the one of before"
run --out mapped --resume --epochs 5 --remap --store file;      wants 'shrunk, mapped' 0 '32 anchors kept'
cmp run/model.safetensors mapped/model.safetensors || fail 'store = file: weights'
same_state run mapped || fail 'store = file: checkpoints'

# ----- equal data: --remap changes nothing, nor does another path, nor shards cut elsewhere -----
cp -r plain same
run --out plain --resume --epochs 3;            wants 'equal' 0 'resumed at step 8'
mv images moved
run --out same --resume --epochs 3 --remap --data folder:moved;         wants 'equal, moved' 0 'resumed at step 8'
grep -q 'other data' out err && fail "equal, moved"
cmp plain/model.safetensors same/model.safetensors || fail 'equal: weights'
same_state plain same || fail 'equal: checkpoints'
timeless plain >a.log
timeless same >b.log
cmp a.log b.log || fail 'equal: logs'

"$glofnd" data export shapes:n=24,classes=2,size=16 --out tens --per-shard 10 >/dev/null || fail 'data export'
"$glofnd" data export shapes:n=24,classes=2,size=16 --out fives --per-shard 5 >/dev/null || fail 'data export'
run --data "wds:tens/*.tar" $tiny --out shards; wants 'shards' 0 '24 images'
run --out shards --resume --epochs 3 --data "wds:fives/*.tar";  wants 'other shards' 0 'resumed at step 6'
mv "$(ls fives/*.tar | head -n 1)" fives/zzz.tar
before=$(print_of shards)
run --out shards --resume --epochs 4;           wants 'another order' 1 'in a different order' '--remap'
[ "$before" = "$(print_of shards)" ] || fail 'another order: files changed'
run --out shards --resume --epochs 4 --remap;   wants 'another order, --remap' 0 '24 anchors kept, 0 new, 0 lost'

# ----- drawn images are called by seed and number: under the same numbers other classes are other pictures -----
run --data shapes:n=32,classes=2,size=16,seed=1 $tiny --out drawn;      wants 'drawn' 0 '32 images'
for flag in '' --remap; do
    run --out drawn --resume --epochs 3 --data shapes:n=32,classes=4,size=16,seed=1 $flag
    wants "other classes $flag" 1 'has different pictures from shapes:n=32,classes=2,size=16,seed=1'
done
run --out drawn --resume --epochs 3 --data shapes:n=40,classes=2,size=16,seed=1 --remap
wants 'more of them' 0 '32 anchors kept, 8 new, 0 lost'
run --out drawn --resume --epochs 4 --data shapes:n=32,classes=4,size=16,seed=2 --remap
wants 'all others' 0 '0 anchors kept, 32 new, 40 lost'

echo 'anchors follow their samples'
