# A copied checkpoint continues with another detector: with the bits of a run of its own.
. "$2/tests/sh/common.inc"
needs_runs
settings='--data shapes:n=64,classes=4,size=16,seed=3 --arch resnet8 --head-hidden 16 --head-out 8 --batch 16 --epochs 4
          --start-epoch 2 --warmup-epochs 1 --alpha 0.1 --threads 1 --quiet'
run() { expect 0 "finished" "$glofnd" pretrain "$@"; }

run $settings --detector none --checkpoint-steps 8 --keep-checkpoints 4 --out none
[ -e none/checkpoints/step-8/DONE ] || fail "no checkpoint where the detector starts: $(ls none/checkpoints)"
for detector in glofnd fnc single; do
    run $settings --detector $detector --out own-$detector
    mkdir -p branch-$detector/checkpoints
    cp -r none/checkpoints/step-8 branch-$detector/checkpoints/
    cp none/config.cfg none/log.jsonl branch-$detector/
    run --resume --out branch-$detector --detector $detector --quiet
    cmp own-$detector/model.safetensors branch-$detector/model.safetensors ||
        fail "$detector: other weights than a run of its own"
    cmp own-$detector/checkpoints/step-16/anchors.glofnd branch-$detector/checkpoints/step-16/anchors.glofnd ||
        fail "$detector: other thresholds than a run of its own"
    grep -qx "detector = $detector" branch-$detector/config.cfg || fail "$detector: not in the new config.cfg"
    ! cmp -s none/model.safetensors branch-$detector/model.safetensors || fail "$detector: as without a detector"
done

# ----- detectors that remember -----

# as_own RUN OWN WHAT
as_own() {
    cmp $2/model.safetensors $1/model.safetensors || fail "$3: other weights than a run of its own"
    cmp $2/checkpoints/step-16/anchors.glofnd $1/checkpoints/step-16/anchors.glofnd ||
        fail "$3: other anchors than a run of its own"
}
copy() {
    mkdir -p $2/checkpoints
    cp -r $1/checkpoints/step-8 $2/checkpoints/
    cp $1/config.cfg $1/log.jsonl $2/
}

# Averages and embeddings that a run does not use are left out.
run $settings --similarity bank --neighbours 3 --checkpoint-epochs 2 --out bank
copy bank bank-fnc
run --resume --out bank-fnc --detector fnc --similarity embedding --neighbours 0 --quiet
as_own bank-fnc own-fnc "from averages to none"
run $settings --learner ring --ring-rows 64 --checkpoint-epochs 2 --out ring
copy ring ring-fnc
run --resume --out ring-fnc --detector fnc --quiet
run $settings --learner ring --ring-rows 64 --detector fnc --out own-ring-fnc
as_own ring-fnc own-ring-fnc "from a ring to none"

# What a checkpoint lacks is refused before the first step, and nothing changes.
# refuses RUN TEXT FLAGS...
refuses() {
    name=$1 text=$2
    shift 2
    print_of $name > before
    expect 2 "$text" "$glofnd" pretrain --resume --out $name --quiet "$@"
    ! grep -q "step 8:" err || fail "only at the first step: $*"
    print_of $name | cmp - before || fail "a refused call changes the run: $*"
}
copy none none-bank
at=none-bank/checkpoints/step-8
refuses none-bank "similarity: bank keeps averages from the first step on, and $at has none; resume with --similarity embedding" \
    --detector glofnd --similarity bank
copy ring ring-rows
refuses ring-rows "has a ring of 64 embeddings, and 32 are given; resume with --ring-rows 64" --ring-rows 32
refuses ring-rows "similarity: the ring of the run to resume holds embeddings; give --similarity embedding" --similarity bank

# ----- another learner -----

# Where there are no thresholds yet, and where the one before learned none.
copy ring ring-adam
run --resume --out ring-adam --learner adam --quiet
run $settings --learner adam --out own-adam
as_own ring-adam own-adam "from a ring to Adam"
copy ring ring-auto
run --resume --out ring-auto --learner auto --quiet
as_own ring-auto own-glofnd "from a ring to the default"
copy none none-sgd
run --resume --out none-sgd --detector glofnd --learner sgd --lambda-lr 5 --quiet
run $settings --learner sgd --lambda-lr 5 --out own-sgd
as_own none-sgd own-sgd "from none to SGD"
! cmp -s own-sgd/model.safetensors own-glofnd/model.safetensors || fail "SGD: as Adam"
cp -r own-fnc late-fnc
run --resume --out late-fnc --detector glofnd --learner sgd --epochs 6 --quiet
cp -r own-glofnd late
refuses late "has thresholds learned with 'shrinkage' since the end of epoch 2, and 'sgd' is given; resume with --learner shrinkage" \
    --learner sgd --epochs 6
# An option of Adam makes auto mean Adam; auto and what it stands for are one learner.
refuses late "has thresholds learned with 'shrinkage' since the end of epoch 2, and 'adam' is given" --lambda-lr 0.1 --epochs 6
run --resume --out late --learner shrinkage --epochs 5 --quiet
cp -r bank late-bank
refuses late-bank "has thresholds learned with 'bank' since the end of epoch 2, and 'embedding' is given" \
    --similarity embedding --neighbours 0 --epochs 6
# Keys alone make no memory: a detector that does not use them keeps nothing.
run $settings --detector none --learner ring --ring-rows 64 --checkpoint-epochs 2 --out idle-ring
refuses idle-ring "learner: ring remembers embeddings from the first step on" --detector glofnd --epochs 6
run $settings --detector none --similarity bank --checkpoint-epochs 2 --out idle-bank
refuses idle-bank "similarity: bank keeps averages from the first step on" --detector glofnd --epochs 6
refuses ring-fnc "learner: ring remembers embeddings from the first step on" --detector glofnd --epochs 6
copy none none-ring
refuses none-ring "learner: ring remembers embeddings from the first step on" --detector glofnd --learner ring
# Its weights can be evaluated before it continues.
copy ring early
sed -i 's/^learner = .*/learner = adam/' early/config.cfg
expect 0 "top-1" "$glofnd" eval knn early --quiet

# ----- a checkpoint that was evaluated -----

expect 0 "weights of step 8, none/checkpoints/step-8" "$glofnd" eval knn none/checkpoints/step-8 --quiet
expect 0 "learned                    64 " "$glofnd" eval threshold own-sgd/checkpoints/step-16/ --anchors 64 --quiet
"$glofnd" eval fn own-sgd/checkpoints/step-16 --quiet > fn.txt 2>&1 || fail "eval fn of a checkpoint"
! grep -q "no learned thresholds" fn.txt || fail "eval fn of a checkpoint: no thresholds"
run --task clip --data shapes:n=64,classes=4,size=16,seed=3 --arch resnet8 --batch 16 --epochs 2 --embed-dim 16 --text-width 16 \
    --text-layers 1 --text-heads 2 --context 16 --vocab-merges 50 --threads 1 --quiet --out texts
expect 0 "top1" "$glofnd" eval zeroshot texts/checkpoints/step-8 --data shapes:n=64,classes=4,size=16,split=test --quiet
expect 1 "would lie in a checkpoint" "$glofnd" report none/checkpoints/step-8
for flag in '' --resume; do
    expect 1 "none/checkpoints/step-8 is a checkpoint; to continue its run give the run's folder" \
        "$glofnd" pretrain $settings --out none/checkpoints/step-8 $flag
    expect 1 "is a checkpoint" "$glofnd" pretrain $settings --out none/checkpoints/step-8/ $flag
done
[ -s none/checkpoints/step-8/eval.jsonl ] && [ -d none/checkpoints/step-8/eval ] || fail "results are not stored"
run --resume --out none --epochs 5 --keep-checkpoints 1 --quiet
[ "$(ls none/checkpoints)" = step-20 ] || fail "an evaluated checkpoint stays: $(ls none/checkpoints)"
