# A detector that has not begun yet changes no bit: runs of one seed are paired from the first step.
. "$2/tests/sh/common.inc"
needs_runs
data=shapes:n=384,classes=4,size=16,seed=3

# losses RUN EPOCHS: loss and gradient of every step before the detector begins
losses() { grep '"event": "step"' "$1/log.jsonl" | head -n "$2" | sed 's/.*"loss": \([^,]*\).*"grad_norm": \([^,]*\),.*/\1 \2/'; }
train none --epochs 3 --start-epoch 2 --batch 64 --log-steps 1 --detector none
losses none 12 > none.txt
[ "$(wc -l < none.txt)" -eq 12 ] || fail "12 steps before the start"
for flags in "--detector glofnd" "--detector glofnd --learner ring --ring-rows 64" "--detector single" "--detector fnc" \
    "--detector fnc --fnc-rule topk" "--detector oracle" "--detector components" "--detector glofnd --lambda-warmup 1" \
    "--detector glofnd --learner shrinkage" "--detector single --learner shrinkage" \
    "--detector positive --margin -0.3" \
    "--detector glofnd --compat official --lambda-init one"; do
    run=$(echo "$flags" | tr -cd 'a-z0-9')
    case $flags in *official*) compat="--compat official" ;; *) compat= ;; esac
    [ -z "$compat" ] || {
        train paired --epochs 3 --start-epoch 2 --batch 64 --log-steps 1 --detector none $compat
        losses paired 12 > none.txt
    }
    train "$run" --epochs 3 --start-epoch 2 --batch 64 --log-steps 1 $flags
    losses "$run" 12 > with.txt
    cmp none.txt with.txt || fail "$flags: other bits than without a detector before it begins"
    losses "$run" 18 | tail -n 6 > after.txt
    losses none 18 | tail -n 6 | cmp -s - after.txt && fail "$flags: it begins"
done

# A resumed run: the options of its epoch.
train half --epochs 1 --start-epoch 1 --batch 64 --log-steps 1 --detector glofnd
call "$glofnd" pretrain --out half --resume --epochs 3 --start-epoch 2 --quiet
wants "resume" 0

small() { call "$glofnd" pretrain --data "$data" --arch resnet8 --batch 64 --head-hidden 32 --head-out 8 "$@"; }

# The default of a new run flags on time, however few epochs there are, and says what it expects; the paper's lambda = 1 is
# warned of.
small --epochs 3 --out default
wants "a run of three epochs" 0 "flags: expected from epoch 2 of 3 on" ", flagged "
flagged=$(grep '"event": "epoch"' default/log.jsonl | tail -n 2 | grep -c '"flagged": 0\.0[0-9]*[1-9]')
[ "$flagged" = 2 ] || fail "both epochs with the detector flag pairs"
small --epochs 3 --lambda-init one --out paper
wants "lambda from 1" 0 "warning: this run will flag next to nothing" "it is 0.90 at best"
# Fewer pairs than 1/alpha: no share of them is alpha. One warning says so.
small --epochs 2 --start-epoch 1 --alpha 1e-6 --out rare
wants "no share" 0 "warning: alpha is 1e-06, and this run sees 96768 pairs, fewer than 1/alpha"
[ "$(grep -c 'fewer than 1/alpha' err)" = 1 ] || fail "the warning comes once"
# Epochs in which nothing was flagged have no precision: not 100 % (0/0), and no recall of 1e-11.
small --epochs 2 --start-epoch 0 --lambda-init one --lambda-lr 0.0000001 --out nothing
wants "nothing flagged" 0 "flagged 0.00%, precision –, recall 0.0%;"
none='"flagged": 0\.0, "precision": null, "recall": null, "f1": null'
[ "$(grep '"event": "epoch"' nothing/log.jsonl | grep -c "$none")" = 2 ] ||
    fail "precision of nothing: $(grep -o '"flagged.*f1": [^,]*' nothing/log.jsonl)"
small --epochs 1 --detector none --out bare
wants "no detector" 0 "no detector"
# A logit scale is no temperature.
small --epochs 1 --detector none --tau 14.3 --out scale
wants "tau above 1" 0 "note: tau is above 1"
grep -qi "lambda\|flag" err && fail "a run without a detector speaks of lambda"
exit 0
