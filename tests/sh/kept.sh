# A run that fails after it has begun says what is kept of it and how to go on, and continues once the reason is gone.
. "$2/tests/sh/common.inc"
needs_runs
needs 'png yes'
"$glofnd" data export shapes:n=48,classes=3,size=16,seed=1 --out images --folder > /dev/null || fail 'no images'
run='--data folder:images --arch resnet8 --batch 8 --epochs 2 --head-hidden 16 --head-out 8 --threads 1 --workers 1 --strict'

bad=$(ls images/*/*.png | head -n 1)
cp "$bad" good.png && head -c 40 good.png > "$bad"
call "$glofnd" pretrain $run --out early
wants 'a failure before any checkpoint' 1 "$bad" 'no checkpoint yet' \
    'begin again with: glofnd pretrain --out early --resume'
call "$glofnd" pretrain $run --checkpoint-steps 1 --out late
wants 'a failure after checkpoints' 1 "$bad" 'progress up to checkpoint late/checkpoints/step-' \
    '--out late --resume'
grep -q 'device cpu' err && fail 'the CPU is offered to a run on it'
cp good.png "$bad"
call "$glofnd" pretrain --out late --resume --checkpoint-steps 0
wants 'the reason is gone' 0 'resumed at step' 'finished'
call "$glofnd" pretrain $run --out whole
wants 'a run that was left alone' 0
cmp whole/model.safetensors late/model.safetensors || fail 'the run that failed came to other weights'
