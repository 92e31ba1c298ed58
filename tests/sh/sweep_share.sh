# glofnd sweep --share: runs that share what comes before their detectors end with the bits of runs of their own; which may not
# share does not; what a trunk that fails leaves to the others.
. "$2/tests/sh/common.inc"
. "$2/tests/sh/share.inc"

# ----- every key that does nothing before -----

variant() {
    file=$1.cfg
    shift
    printf '%s\n' "$@" > "$file"
    variants=${variants+$variants,}$file
}
variant none detector=none
variant alpha alpha=0.2
variant early start_epoch=1
variant late start_epoch=3
variant never start_epoch=4
variant between update_epoch=1 mask_epoch=3
variant single detector=single
variant warm lambda_warmup=1 lambda_init=one
variant one lambda_init=one lambda_lr=0.2
variant rates lambda_lr=0.1 lambda_beta1=0.5 lambda_beta2=0.9
variant decay lambda_decay=1
variant weight action=weight omega=0.3
variant supcon action=attract attract_omega=0.5
variant fnc detector=fnc
variant topk detector=fnc fnc_rule=topk fnc_support=2
variant threshold detector=fnc fnc_rule=threshold fnc_threshold=0.3
variant oracle detector=oracle
variant components detector=components
variant kmeans detector=groups groups=kmeans kmeans_groups=3 kmeans_epochs=1 kmeans_iterations=5 kmeans_accept=0.9
variant plain detector=glofnd
expect 0 "20 runs, 0 finished" sweep --vary config=$variants --out shared --share --dry-run
branches 19 38
grep -q '^shared/config-fnc.cfg_seed-1  *to do, begins as config-none.cfg_seed-1 after 2 epochs$' out || fail "what is shared"
grep -q '^shared/config-none.cfg_seed-1  *to do$' out || fail "the one that is trained as it is"
[ ! -e shared ] || fail "--dry-run makes nothing"
expect 0 "config-none.cfg_seed-1 finished" sweep --vary config=$variants --out own
grep -q '^shared' err && fail "shared without --share"
expect 0 "config-late.cfg_seed-1 begins as config-none.cfg_seed-1 after 3 epochs" \
    sweep --vary config=$variants --out shared --share
branches 19 38
same own shared "every key"
for run in shared/*/; do
    grep -q "resumed at step" "${run%/}.log" || [ "$run" = shared/config-none.cfg_seed-1/ ] || fail "$run was not copied"
    [ "$(ls "$run/checkpoints")" = step-16 ] || fail "$run: checkpoints are left: $(ls "$run/checkpoints")"
done
sed 's/ *$//' own/compare.csv > a.csv
sed 's/ *$//' shared/compare.csv | cmp a.csv - || fail "other comparisons"
# Again: nothing is left to do or to share.
lines=$(wc -l < shared/sweep.jsonl)
expect 0 "shared: nothing" sweep --vary config=$variants --out shared --share
[ "$(wc -l < shared/sweep.jsonl)" -eq "$lines" ] || fail "a finished sweep does nothing"

# Ring and bank remember from the first step on, where there is a detector: one that remembers comes first, and others begin with
# the same weights.
for more in learner=ring similarity=bank; do
    grid="--set $more --set ring_rows=64 --vary detector=none,glofnd --vary alpha=0.1,0.2"
    expect 0 "finished" sweep $grid --out own-$more
    expect 0 "finished" sweep $grid --out shared-$more --share
    branches 3 7
    same own-$more shared-$more $more
done
unset variants
variant none detector=none
variant fnc detector=fnc
variant sgd learner=sgd
variant official learner=adam-official
variant bank similarity=bank
variant early similarity=bank bank_momentum=0.9 start_epoch=1
variant pulls similarity=bank bank_momentum=0.9 neighbours=2
variant fnc-bank detector=fnc similarity=bank bank_momentum=0.9
variant oracle-bank detector=oracle similarity=bank bank_momentum=0.4
variant ring learner=ring ring_rows=64
variant short-ring learner=ring ring_rows=32 start_epoch=3
variant all learner=ring ring_rows=64 similarity=bank bank_momentum=0.9
variant alpha learner=ring ring_rows=64 similarity=bank bank_momentum=0.9 alpha=0.2
expect 0 "finished" sweep --vary config=$variants --out own-memory
expect 0 "finished" sweep --vary config=$variants --out shared-memory --share
for begins in none:short-ring:3 fnc:all:2 sgd:all:2 official:all:2 early:all:1 pulls:all:2 fnc-bank:all:2 oracle-bank:all:2 \
    alpha:all:2; do
    epochs=${begins##*:} from=${begins#*:}
    grep -qx "config-${begins%%:*}.cfg_seed-1 begins as config-${from%:*}.cfg_seed-1 after $epochs epochs\?" err || fail "$begins"
done
branches 9 18
same own-memory shared-memory "what is remembered"
# In the working file of anchors, too.
variants=fnc.cfg,bank.cfg,ring.cfg
expect 0 "finished" sweep --set store=file --vary config=$variants --out own-file
expect 0 "finished" sweep --set store=file --vary config=$variants --out shared-file --share
branches 1 2
same own-file shared-file "store = file"
# A run that begins as a copy may be the beginning of another, where it starts later.
grid='--vary config=fnc.cfg,none.cfg,early.cfg'
expect 0 "finished" sweep $grid --out own-chain
expect 0 "config-fnc.cfg_seed-1 begins as config-none.cfg_seed-1 after 2 epochs" sweep $grid --out shared-chain --share
grep -q "config-none.cfg_seed-1 begins as config-early.cfg_seed-1 after 1 epoch$" err || fail "the first of the chain"
branches 2 3
same own-chain shared-chain "a chain"
grid='--set similarity=bank --set detector=glofnd --vary neighbours=0,2 --vary neighbour_rows=40,50 --vary neighbour_share=0.5
      --vary neighbour_weight=0.4'
expect 0 "4 runs, 0 finished" sweep $grid --out x --share --dry-run
branches 3 6
expect 0 "finished" sweep --set learner=ring --set ring_rows=64 --vary alpha=0.05,0.1 --out shared-rate --share
branches 1 2
expect 0 "finished" sweep --set learner=ring --set ring_rows=64 --vary alpha=0.05,0.1 --out own-rate
same own-rate shared-rate alpha

# Image and text: equal contents are no negatives from the first step on, and what is done with them acts then.
clip='--set task=clip --set embed_dim=16 --set text_width=16 --set text_layers=1 --set text_heads=2 --set context=16
      --set vocab_merges=50 --vary detector=none,glofnd --vary action=drop,weight'
expect 0 "finished" sweep $clip --out own-clip
expect 0 "finished" sweep $clip --out shared-clip --share
branches 2 4
same own-clip shared-clip clip

# ----- what may not be shared -----

nothing() {
    expect 0 "shared: nothing; $1 must be equal, as it acts from the first step on" sweep --vary "$2" --out x --share --dry-run
}
nothing similarity config=ring.cfg,bank.cfg
nothing learner config=bank.cfg,ring.cfg
nothing similarity config=all.cfg,ring.cfg
nothing ring_rows config=ring.cfg,short-ring.cfg
nothing bank_momentum config=bank.cfg,pulls.cfg
nothing batch batch=16,32
nothing tau tau=0.1,0.2
nothing epochs epochs=4,5
expect 0 "shared: nothing" sweep --seeds 1,2 --out x --share --dry-run
expect 0 "shared: nothing" sweep --set start_epoch=0 --vary alpha=0.1,0.2 --out x --share --dry-run
# The start of detectors counts, not that of runs: the last to start is the trunk.
expect 0 "begins as start_epoch-3_seed-2 after 1 epoch" sweep --vary start_epoch=1,3 --seeds 1,2 --out x --share --dry-run
branches 2 2

# ----- settings -----

printf 'config = tiny.cfg\nvary = alpha=0.1,0.2\nshare = 1\n' > file.sweep
expect 0 "shared: 1 run begins" "$glofnd" sweep --file file.sweep --out x --dry-run
expect 0 "2 runs, 0 finished" "$glofnd" sweep --file file.sweep --share=0 --out x --dry-run
grep -q "^shared" out && fail "--share=0 over a file"
expect 2 'share is "2"; expected 0 or 1' sweep --share=2 --seeds 1 --out x
expect 0 "as a copy of another" "$glofnd" reproduce cifar10 --data shapes:n=300 --eval knn --share --dry-run
expect 0 "runs, 0 finished" "$glofnd" reproduce cifar10 --data shapes:n=300 --eval knn --dry-run
grep -q "^shared" out && fail "reproduce shares without --share"
[ ! -e x ] || fail "--dry-run makes nothing"

# ----- a branch starts while its trunk is training -----

hold nobody nothing
expect 0 "finished" hooked --out own-jobs
hold detector-none_seed-1:2 jobs/detector-fnc_seed-1
expect 0 "finished" hooked --out jobs --share --jobs 2
[ -e held ] && [ ! -e too-late ] || fail "a branch has to wait for the end of its trunk"
same own-jobs jobs "two at a time"
[ "$(ls jobs/detector-none_seed-1/checkpoints | sort -V | tr '\n' ' ')" = "step-4 step-16 " ] ||
    fail "the user's checkpoint, and the newest: $(ls jobs/detector-none_seed-1/checkpoints)"

# ----- a trunk that fails -----

# Before its checkpoint: the others run by themselves.
printf 'detector = groups\ngroups = nowhere.txt\nstart_epoch = 3\n' > bad.cfg
expect 1 "config-plain.cfg_seed-1 shares nothing and begins by itself: config-bad.cfg_seed-1 has ended without its checkpoint" \
    sweep --vary config=plain.cfg,fnc.cfg,bad.cfg --out bad --share
wants "a trunk that fails" 1 "config-bad.cfg_seed-1 failed" "1 of 3 runs are incomplete" "config-fnc.cfg_seed-1 finished"
for name in plain fnc; do
    cmp own/config-$name.cfg_seed-1/model.safetensors bad/config-$name.cfg_seed-1/model.safetensors || fail "$name by itself"
done
# After it: they have what they need.
cat > hook.sh <<'HOOK'
#!/bin/sh
[ -e victim ] && [ "$(basename "$GLOFND_RUN"):$GLOFND_EPOCH" = "$(cat victim)" ] || exit 0
rm victim
run=$PPID
grep -q glofnd /proc/$run/comm || run=$(sed -n 's/^PPid:[[:space:]]*//p' /proc/$run/status)
kill -9 "$run"
HOOK
echo detector-none_seed-1:2 > victim
expect 1 "detector-none_seed-1 failed" hooked --out killed-trunk --share
wants "a trunk that fails later" 1 "detector-glofnd_seed-1 begins as detector-none_seed-1 after 2 epochs" \
    "detector-fnc_seed-1 finished"
expect 0 "detector-none_seed-1 finished" hooked --out killed-trunk --share
same own-jobs killed-trunk "a trunk that failed later"

# ----- a shared checkpoint that somebody evaluates -----

cp hook.sh kills.sh
cat > hook.sh <<HOOK
#!/bin/sh
[ "\$(basename "\$GLOFND_RUN"):\$GLOFND_EPOCH" = detector-none_seed-1:3 ] || exit 0
"$glofnd" eval knn "\$GLOFND_RUN/checkpoints/step-8" --quiet && touch evaluated.txt
HOOK
expect 0 "detector-fnc_seed-1 begins as detector-none_seed-1 after 2 epochs" hooked --out evaluated --share
[ -e evaluated.txt ] || fail "the checkpoint cannot be evaluated"
same own-jobs evaluated "an evaluated checkpoint"
[ ! -e evaluated/detector-none_seed-1/checkpoints/step-8 ] || fail "it stays"
mv kills.sh hook.sh

# ----- a branch that loses its configuration before its first own checkpoint -----

echo detector-fnc_seed-1:2 > victim
expect 1 "detector-fnc_seed-1 failed" hooked --out lost-config --share
branch=lost-config/detector-fnc_seed-1
[ "$(newest $branch)" = step-8 ] || fail "a checkpoint of its own: $(ls $branch/checkpoints)"
grep -v ^on_epoch $branch/config.cfg > before.cfg # a command of a file is not run
rm $branch/config.cfg
expect 0 "config.cfg is lost: it is restored from the one in $branch/checkpoints/step-8" "$glofnd" pretrain --resume --out $branch
grep -v ^on_epoch $branch/config.cfg | cmp - before.cfg || fail "restored: not the configuration of the branch"
cmp own-jobs/detector-fnc_seed-1/model.safetensors $branch/model.safetensors || fail "restored: weights differ"

# ----- more values later -----

grid() { sweep --set detector=glofnd --vary "$1" --out "$2" $3; }
expect 0 "finished" grid alpha=0.1,0.2,0.3 own-more ''
expect 0 "finished" grid alpha=0.1 more --share
expect 0 "alpha-0.3_seed-1 begins as alpha-0.2_seed-1 after 2 epochs" grid alpha=0.1,0.2,0.3 more --share
branches 1 2
same own-more more "more values"
