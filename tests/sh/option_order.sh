# What counts where files and flags disagree: a flag over all files wherever it stands, a later file over an earlier one; in
# pretrain, with --resume, in sweep and its files. Told from config.cfg, which has to have the same as the run.
. "$2/tests/sh/common.inc"
needs_runs
printf '%s\n' 'data = shapes:n=32,classes=4,size=16,seed=3' 'arch = resnet8' 'batch = 8' 'epochs = 3' 'warmup_epochs = 0' \
    'head_hidden = 16' 'head_out = 8' 'alpha = 0.25' 'update_epoch = 1' 'mask_epoch = 2' > base.cfg
printf '%s\n' 'epochs = 2' 'alpha = 0.125' > other.cfg
has() { # RUN LINE...
    folder=$1
    shift
    for line in "$@"; do grep -qx "$line" "$folder/config.cfg" || fail "$folder: no \"$line\"; $(cat "$folder/config.cfg")"; done
}
run() { expect 0 "finished" "$glofnd" pretrain --quiet "$@"; }

# ----- pretrain -----
run --epochs 1 --config base.cfg --out before
has before 'epochs = 1' 'alpha = 0.25'
[ "$(grep -c '"event": "epoch"' before/log.jsonl)" -eq 1 ] || fail "a flag before a file: epochs of the run"
run --config base.cfg --epochs 1 --out behind
cmp before/config.cfg behind/config.cfg || fail "the place of a flag changes the configuration"
cmp before/model.safetensors behind/model.safetensors || fail "the place of a flag changes the run"
run --set alpha=0.5 --batch=16 --strict --config=base.cfg --out forms
has forms 'alpha = 0.5' 'batch = 16' 'strict = 1' 'epochs = 3'
run --alpha 0.5 --config base.cfg --alpha 0.75 --out twice
has twice 'alpha = 0.75'
# Several files.
run --alpha 0.5 --config base.cfg --config other.cfg --out later
has later 'alpha = 0.5' 'epochs = 2' 'batch = 8'
run --config other.cfg --config base.cfg --out earlier
has earlier 'alpha = 0.25' 'epochs = 3'
# A key that stands for two others, which the file has.
run --start-epoch 0 --config base.cfg --out start
has start 'start_epoch = 0' 'update_epoch = 0' 'mask_epoch = 0'
# Words that look like flags are values where values are; help needs no file.
expect 2 "folder:--config" "$glofnd" pretrain --config base.cfg --data --config --out x
expect 0 "usage: glofnd pretrain" "$glofnd" pretrain --config nowhere.cfg --help
expect 2 "unknown option \"alhpa\"" "$glofnd" pretrain --alhpa 1 --config nowhere.cfg --out x
[ ! -e x ] || fail "a command that cannot work makes nothing"

# ----- resume: the run's own configuration, then files, then flags -----
rm before/model.safetensors
run --epochs 3 --resume --config other.cfg --out before
has before 'epochs = 3' 'alpha = 0.125' 'batch = 8'
cmp before/config.cfg before/checkpoints/*/config.cfg || fail "a resumed run: the configuration in its checkpoint"
grep -q "resumed at step 4" err || fail "it was not resumed"
[ "$(grep -c '"event": "epoch"' before/log.jsonl)" -eq 3 ] || fail "a resumed run: epochs"
run --resume --out before
has before 'epochs = 3' 'alpha = 0.125'

# ----- sweep -----
listed() { # PATTERN N FLAGS...: a plan of N runs, the first of this name
    name=$1 runs=$2
    shift 2
    expect 0 "$runs run" "$glofnd" sweep "$@" --out grid --dry-run
    grep -q "^grid/$name " out || fail "sweep $*: no run $name"
}
printf '%s\n' 'config = base.cfg' 'vary = alpha=0.1,0.2' 'vary = tau=0.1,0.5' 'seeds = 1,2,3' 'set = epochs=2' > a.sweep
printf '%s\n' 'vary = alpha=0.7' 'seeds = 9' > b.sweep
listed alpha-0.1_tau-0.1_seed-1 12 --file a.sweep
for place in '--seeds 7 --file a.sweep' '--file a.sweep --seeds 7'; do listed alpha-0.1_tau-0.1_seed-7 4 $place; done
# A key that a flag varies or sets is not varied by the file.
listed alpha-0.3_tau-0.1_seed-1 6 --vary alpha=0.3 --file a.sweep
listed tau-0.1_seed-1 6 --set alpha=0.3 --file a.sweep
listed alpha-0.1_tau-0.1_data-shapes_n_64_seed-1 12 --vary data=shapes:n=64 --file a.sweep
expect 2 "alpha is varied twice" "$glofnd" sweep --vary alpha=1 --vary alpha=2 --file a.sweep --out grid
# A later file over an earlier one.
listed alpha-0.7_tau-0.1_seed-9 2 --file a.sweep --file b.sweep
listed alpha-0.1_tau-0.1_seed-1 12 --file b.sweep --file a.sweep
# Runs have what was asked for.
sweep() { "$glofnd" sweep --seeds 1 --out "$@"; }
expect 0 "seed-1 finished" sweep one --set epochs=1 --set alpha=0.3 --set tau=0.5 --file a.sweep
has one/seed-1 'epochs = 1' 'alpha = 0.3' 'tau = 0.5' 'batch = 8'
expect 0 "seed-1 finished" sweep two --set tau=0.5 --config base.cfg --config other.cfg
has two/seed-1 'epochs = 2' 'alpha = 0.125' 'tau = 0.5' 'batch = 8'
# The file's configuration gives way to that of a flag.
printf '%s\n' 'config = nowhere.cfg' 'set = epochs=1' > c.sweep
expect 0 "seed-1 finished" sweep three --config base.cfg --file c.sweep
has three/seed-1 'epochs = 1' 'alpha = 0.25'
exit 0
