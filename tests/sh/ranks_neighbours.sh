# Averages and neighbours on several ranks: 1, 2 and 4 ranks have the losses of one process; a run that is killed ends as the one
# that was left alone, byte for byte; a checkpoint of R ranks continues with R' ranks.
. "$2/tests/sh/ranks.inc"
near="$images --similarity bank --neighbours 3 --neighbour-share 0.5 --neighbour-rows 100 --epochs 8"
found() { sed -n 's/.*"event": "step".*"neighbours": \([-0-9.e]*\).*/\1/p' "$1/log.jsonl"; }

call "$glofnd" pretrain $near --out one
wants 'one process' 0
call "$glofnd" pretrain $images --similarity bank --epochs 8 --out without
wants 'without neighbours' 0
close one without 'without neighbours' >/dev/null && fail 'neighbours have no effect'
for count in 1 2 4; do
    call ranks $count $near --out "ranks-$count"
    wants "$count ranks" 0
    close one "ranks-$count" "$count ranks" || fail "$count ranks: losses differ"
    found one >a.found
    found "ranks-$count" | paste -d ' ' a.found - >both.found
    awk '{ bad += $1 != $2; some += $1 > 1 } END { exit bad > 0 || NR < 18 || some < NR / 2 }' both.found ||
        fail "$count ranks: other neighbours: $(cat both.found)"
done

start killed 2 $near
kill -9 $mpirun $(cat pid.0 pid.1)
wait $mpirun 2>/dev/null && fail 'killed: exit 0'
call ranks 2 --out killed --resume
wants 'killed' 0 'resumed at step'
equal ranks-2 killed 'killed'
chained one $near

# The averages are in the checkpoint once: 32 bytes for each of 128 samples, in the file of the first rank.
sizes() {
    (cd "$1/checkpoints/step-64" && wc -c anchors.glofnd*) |
        awk '$2 != "total" { printf "%s %s ", $2, ($1 > 4096 ? "large" : "small") }'
}
[ "$(sizes ranks-2)" = 'anchors.glofnd large anchors.glofnd.00000-of-00002 small anchors.glofnd.00001-of-00002 small ' ] ||
    fail "files of a checkpoint: $(sizes ranks-2)"

# Every rank holds the averages of all samples: 1,024 more of them are 1,024 records of 20 + 32 bytes.
held() { sed -n 's/.*"loss": \([0-9]*\).*/\1/p' "$1/memory.json"; }
call ranks 2 $near --data shapes:n=1152,classes=4,size=16,seed=1 --epochs 1 --out more
wants 'more samples' 0
[ $(($(held more) - $(held ranks-2))) = $((1024 * 52)) ] || fail "memory: $(held ranks-2) and $(held more) bytes"

# A run without averages has none to continue with.
call ranks 2 $images --epochs 2 --out plain
wants 'without averages' 0
call ranks 2 --out plain --resume --epochs 3 --similarity bank
wants 'averages that are not there' 2 'bank keeps averages from the first step on, and plain/checkpoints/step-16 has none'

# A checkpoint with more than a run remembers continues as a run of its own: with averages, or the embeddings of a ring.
for more in "--similarity bank" "--learner ring --ring-rows 64"; do
    name=$(echo "$more" | tr -d ' -')
    late="$images --epochs 6 --start-epoch 4 --checkpoint-steps 0"
    call ranks 2 $late $more --checkpoint-epochs 4 --out "$name"
    wants "$more" 0
    call ranks 2 $late $more --detector fnc --similarity embedding --out "$name-own"
    wants "$more, fnc" 0
    mkdir -p "$name-fnc/checkpoints"
    cp -r "$name/checkpoints/step-32" "$name-fnc/checkpoints/"
    cp "$name/config.cfg" "$name/log.jsonl" "$name-fnc/"
    call ranks 2 --out "$name-fnc" --resume --detector fnc --similarity embedding
    wants "$more, then fnc" 0 'resumed at step 32'
    cmp "$name-own/model.safetensors" "$name-fnc/model.safetensors" || fail "$more, then fnc: weights differ"
    diff -r -x config.cfg -x DONE -x state.json "$name-own/checkpoints/step-48" "$name-fnc/checkpoints/step-48" ||
        fail "$more, then fnc: checkpoints differ"
done
echo "1, 2 and 4 ranks find the same neighbours"
