# Weights for another image size and context: positions are resized and said to be, also by what evaluates the weights a run began
# with; the run records open_clip's view for evaluation.
. "$2/tests/sh/common.inc"
needs_runs
begin() {
    expect 0 finished "$glofnd" pretrain --task clip --arch vit --patch 8 --image-width 16 --image-layers 1 --image-heads 2 \
        --text-width 16 --text-layers 1 --text-heads 2 --embed-dim 8 --batch 8 --epochs 1 --warmup-steps 0 --threads 1 "$@"
}

begin --data shapes:n=16,size=40 --size 16 --context 12 --out small
grep -q '^eval_view = clip$' small/config.cfg || fail "the view of a run from scratch"
grep -q '^crop_filter = bicubic$' small/config.cfg || fail "the crops of a run from scratch"
begin --data shapes:n=16,size=40 --size 24 --context 8 --vocab small/vocab.txt --init small/model.safetensors --out large
grep -q '2 resized: visual.positional_embedding (2x2 to 3x3), positional_embedding (12 to 8)' out err ||
    fail "no word of the resize"
grep -q '^eval_view = clip$' large/config.cfg || fail "the view of a run from weights"
expect 0 '16 x 8' "$glofnd" embed large --untrained --data shapes:n=16,size=40 --out images.npy
sed 's/^eval_view = clip$/eval_view = center/' large/config.cfg > edited && mv edited large/config.cfg
expect 0 '16 x 8' "$glofnd" embed large --untrained --data shapes:n=16,size=40 --out others.npy
cmp -s images.npy others.npy && fail "eval_view changes nothing"
exit 0
