# Images that cannot be read, on one, two and four ranks: the same samples take their places, and each is named in the log and
# counted once, whichever rank has met it.
. "$2/tests/sh/ranks.inc"
needs 'png yes' 'jpeg yes'

"$glofnd" data export shapes:n=72,classes=2,size=16,seed=4 --out images --folder >/dev/null || fail 'data export'
for number in 3 20 21 50; do
    victim=$(find images -name '*.png' | sort | sed -n ${number}p)
    printf '\377\330\377\340broken' >"${victim%.png}.jpg"
    rm "$victim"
done
flags='--data folder:images --arch resnet8 --size 16 --head-hidden 32 --head-out 16 --batch 16 --epochs 6 --start-epoch 1'
flags="$flags --alpha 0.1 --optimizer sgd --lr 0.0003 --lr-scaling none --threads 1 --log-steps 1 --checkpoint-steps 5"
damaged() { grep '"event": "damaged"' "$1/log.jsonl"; }

call "$glofnd" pretrain $flags --out one
wants 'one rank' 0
[ "$(grep -c 'unreadable sample' err)" = 1 ] || fail 'one rank: the first unreadable image is not reported once'
[ "$(damaged one | wc -l)" -gt 12 ] || fail "one rank: $(damaged one)"
[ "$(grep '"event": "epoch"' one/log.jsonl | sed 's/.*"damaged": \([0-9]*\).*/\1/' | awk '{n += $1} END {print n}')" = \
    "$(damaged one | wc -l)" ] || fail 'one rank: the epochs do not count what is named'
[ "$(damaged one | sed 's/.*"sample": \([0-9]*\).*/\1/' | sort -u | wc -l)" = 4 ] || fail "one rank: $(damaged one)"
for ranks in 2 4; do
    call mpirun -np $ranks "$glofnd" pretrain $flags --out "of-$ranks"
    wants "$ranks ranks" 0
    [ "$(grep -c 'unreadable sample' err)" = 1 ] || fail "$ranks ranks: the first unreadable image is not reported once"
    damaged one >a.named
    damaged "of-$ranks" >b.named
    cmp a.named b.named || fail "$ranks ranks: unreadable images are named otherwise than on one"
    close one "of-$ranks" "$ranks ranks" || fail "$ranks ranks: losses differ"
    [ "$(grep -o '"damaged": [0-9]*' one/log.jsonl)" = "$(grep -o '"damaged": [0-9]*' "of-$ranks/log.jsonl")" ] ||
        fail "$ranks ranks: unreadable images are counted otherwise than on one"
done

# strict: the rank that meets one ends all.
call mpirun -np 2 "$glofnd" pretrain $flags --out strict --strict
[ $code != 0 ] || fail 'strict: exit code 0'
[ "$(grep -c '^glofnd pretrain: .*jpg' err)" = 1 ] || fail 'strict: not reported once'

# In the first step: it leaves nothing, and the corrected command can be given as it is. On all ranks, and on the second alone,
# which finds other bytes under the same names, while the first waits for it.
cat >apart.sh <<'END'
[ "$OMPI_COMM_WORLD_RANK" -ge "$SOUND" ] && cd spoiled
exec "$glofnd" pretrain "$@"
END
"$glofnd" data export shapes:n=72,classes=2,size=16,seed=4 --out sound --folder >/dev/null || fail 'data export'
mkdir spoiled prepared && cp -r sound spoiled && echo mine >prepared/notes
find spoiled -name '*.png' -exec truncate -s 40 {} +
for SOUND in 0 1; do
    export SOUND
    for run in deep/run prepared; do
        set -- $flags --data folder:sound --epochs 1 --strict --out "$scratch/$run"
        call mpirun -np 2 sh apart.sh "$@"
        [ $code != 0 ] || fail "the first step: exit code 0"
        wants "the first step, from rank $SOUND on" $code 'of 2, which ends all of them' 'sound/'
        grep -q -- '--resume' err && fail "the first step, from rank $SOUND on: there is nothing to resume"
        [ ! -e deep ] && [ "$(ls prepared)" = notes ] || fail "the first step: it left $(ls -d deep/* prepared/*)"
    done
done
SOUND=2 call mpirun -np 2 sh apart.sh "$@"
wants 'the corrected command' 0 'finished'
