# glofnd pretrain --task clip and what can be wrong around it: captions, vocabularies, weights to start from; a run that is
# stopped and resumed comes to the same bytes; embeddings of images and captions, and retrieval better than chance.
. "$2/tests/sh/common.inc"
needs_runs
needs 'png yes'

run() { call "$glofnd" "$@"; }

small='--task clip --arch resnet8 --embed-dim 16 --text-width 16 --text-layers 1 --text-heads 2 --context 16 --vocab-merges 200'
small="$small --batch 16 --epochs 3 --start-epoch 1 --threads 1 --workers 2 --log-steps 2"
data='--data shapes:n=80,classes=5,size=16,seed=1'

# ----- the command -----
run pretrain $data $small --out x --loss isogclr-views;        wants 'a loss for views' 2 'loss' 'two views'
run pretrain $data $small --out x --micro-batch 5;      wants 'a part that does not fit' 2 'micro_batch'
run pretrain $data $small --out x --vocab nowhere.gz;   wants 'no vocabulary' 1 'nowhere.gz'
echo 'no merges at all' > words.txt; echo 'a b c' >> words.txt
run pretrain $data $small --out x --vocab words.txt;    wants 'a bad vocabulary' 1 'words.txt'
mkdir flat && "$glofnd" data export shapes:n=4,classes=2,size=16 --out made --folder > /dev/null && mv made/*/*.png flat/
run pretrain --data folder:flat $small --batch 2 --out x;       wants 'no captions' 2 'caption' '.png'
run pretrain $data $small --arch vit --patch 7 --out x;        wants 'patches that do not fit' 2 'patch: 7' '16'
run pretrain $data $small --init nowhere.safetensors --out x;   wants 'no weights' 1 'nowhere.safetensors'
grep -q vocabulary err && fail 'a vocabulary was learned before the weights were looked for'
run pretrain --data csv:nowhere.csv $small --init nowhere.safetensors --out x;  wants 'neither' 1 'nowhere.safetensors'
printf 'PK\003\004\000\000\010\010\000\000' > torch.pt
run pretrain $data $small --init torch.pt --out x;             wants 'a file of torch.save' 1 'torch.pt' 'archive' 'glofnd convert'
for side in image text; do
    run pretrain $data $small --lock $side --out x;             wants 'a lock without weights' 2 'lock: ' 'init'
done
[ ! -e x ] || fail 'a run folder was left behind'

# ----- bad captions, missing images: counted, and the run continues -----
mkdir csv && "$glofnd" data export shapes:n=24,classes=2,size=16 --out csv/pictures --folder > /dev/null
{ printf 'filepath\ttitle\n'; sed -n '2,60p' csv/pictures/captions.csv | sed 's/^/pictures\//'
  printf 'pictures/none.png\tan image that is missing\n'
  first=$(sed -n 2p csv/pictures/captions.csv | cut -f1); printf 'pictures/%s\t\n' "$first"; printf 'pictures/%s\t  \n' "$first"
  printf 'pictures/%s\t"bytes \377\376 that are no text"\n' "$first"; } > csv/list.csv
run pretrain --data csv:csv/list.csv $small --out flawed;       wants 'flawed captions' 0 'left out' 'finished'
[ "$(grep -c '"event": "damaged"' flawed/log.jsonl)" -ge 3 ] || fail 'unreadable samples are not all in the log'
grep -q 'has no caption' flawed/log.jsonl || fail 'the log does not say what is wrong with a caption'
run pretrain --data csv:csv/list.csv $small --strict --out strict;      wants 'strict' 1 'csv'
run pretrain --data csv:csv/list.csv $small --detector oracle --out oracle;     wants 'no labels' 2 'detector: oracle' 'csv:csv'
grep -q vocabulary err || [ -e oracle ] && fail 'an oracle without labels was reported late'
letters() { head -c $1 /dev/zero | tr '\0' 'w'; }
{ printf 'filepath\ttitle\n'; sed -n '2,40p' csv/list.csv; printf 'pictures/%s\t' "$first"; letters 11000000; echo
  printf 'pictures/%s\t' "$first"; letters 17000000; echo; } > csv/long.csv
run pretrain --data csv:csv/long.csv $small --out long;         wants 'captions of 11 and 17 MB' 0 'finished'
grep '"event": "damaged"' long/log.jsonl | grep -q 'caption of 17000000 bytes' || fail 'a caption of 17 MB is not left out'
grep '"event": "damaged"' long/log.jsonl | grep -q 'caption of 11000000 bytes' && fail 'a caption of 11 MB is left out'

# ----- stopped and resumed: the same bytes -----
run pretrain $data $small --loss fastclip --out whole;          wants 'a whole run' 0 'vocabulary: ' 'finished'
"$glofnd" pretrain $data $small --loss fastclip --out stopped --checkpoint-steps 1 > /dev/null 2>&1 &
pid=$!
for _ in $(seq 400); do ls stopped/checkpoints 2> /dev/null | grep -q 'step-[4-9]' && break; sleep 0.05; done
kill -9 $pid 2> /dev/null
wait $pid 2> /dev/null
run pretrain --out stopped --resume --checkpoint-steps 0;       wants 'resumed' 0
for f in model.safetensors vocab.txt; do cmp -s whole/$f stopped/$f || fail "$f is another one after a resume"; done
for f in optim.safetensors anchors.glofnd state.json; do
    cmp -s whole/checkpoints/*/$f stopped/checkpoints/*/$f || [ $f = state.json ] || fail "$f is another one after a resume"
done
grep -o '"log_scale[^,}]*' whole/checkpoints/*/state.json > a; grep -o '"log_scale[^,}]*' stopped/checkpoints/*/state.json > b
cmp -s a b && [ -s a ] || fail 'the temperature is another one after a resume'

# ----- another vocabulary, other encoders -----
cp -r stopped other && sed -n '1p; 3p; 2{h;d}; 3{g;p;d}; 4,$p' stopped/vocab.txt > other/vocab.txt        # two merges exchanged
[ "$(wc -l < other/vocab.txt)" = "$(wc -l < stopped/vocab.txt)" ] && ! cmp -s other/vocab.txt stopped/vocab.txt || fail 'exchange'
run pretrain --out other --resume --epochs 4;                   wants 'another vocabulary' 1 'vocabulary differs from the one'
run pretrain --out stopped --resume --epochs 4 --text-width 32; wants 'another encoder' 2 'text_width'
for pair in "text-width 7" "text-layers 49" "image-layers 49"; do
    run pretrain --out none --task clip --data shapes:n=64 --$pair;  wants "an encoder that cannot be, $pair" 2 'out of range'
done
run pretrain --out stopped --resume --task views --loss sogclr; wants 'another task' 2 'task: it is'

# ----- weights to start from -----
run pretrain $data $small --loss fastclip --epochs 1 --start-epoch 0 --init whole/model.safetensors --out again
wants 'from weights' 0 'weights of whole/model.safetensors' 'all of them'
run pretrain $data $small --epochs 1 --start-epoch 0 --text-layers 2 --init whole/model.safetensors --out deeper
wants 'from other weights' 0 'resblocks.1'
run pretrain $data $small --init words.txt --out bad;           wants 'no weights' 1 'words.txt'

# ----- and the vocabulary they were made with -----
sed '1!s/\t.*/\twoolly mammoths quarrel beside twenty frozen puddles/' csv/list.csv > csv/other.csv
other="--data csv:csv/other.csv $small --epochs 1 --start-epoch 0"
tail -n +2 stopped/vocab.txt | head -n 40 > few && { echo few; cat few; } > fewer.txt
cp whole/model.safetensors alone.safetensors
for weights in whole/model.safetensors whole/checkpoints/step-*/model.safetensors; do
    rm -rf others && run pretrain $other --init $weights --out others
    wants "weights of $weights, other captions" 0 'which belongs to the weights' 'all of them'
    cmp -s whole/vocab.txt others/vocab.txt || fail 'weights with a vocabulary that is not theirs'
done
run pretrain $other --init alone.safetensors --out x;           wants 'a vocabulary is forgotten' 2 'vocab: it is empty' 'alone'
grep -q learned err && fail 'a vocabulary was learned for weights that had one'
run pretrain $other --init alone.safetensors --vocab whole/vocab.txt --out x1;  wants 'it is named' 0 'all of them'
run pretrain $other --init alone.safetensors --vocab fewer.txt --out x2
wants 'another size' 0 'token_embedding.weight' 'a different vocabulary'
run pretrain $other --init alone.safetensors --text-width 32 --out x3;          wants 'another text encoder' 0 'learned from'
run pretrain $other --init whole/model.safetensors --vocab other/vocab.txt --out x
wants 'one of equal size' 2 'vocab: other/vocab.txt has different tokens from whole/vocab.txt'
{ echo another first line; tail -n +2 whole/vocab.txt; } > copied.txt
run pretrain $other --init whole/model.safetensors --vocab copied.txt --out x4; wants 'a copy of it' 0 'all of them'
rm alone.safetensors
run pretrain --out x1 --resume --epochs 2;                      wants 'not needed any more' 0 'resumed at step' 'finished'
mkdir mixed && cp whole/model.safetensors mixed && cp fewer.txt mixed/vocab.txt
run pretrain $other --init mixed/model.safetensors --out x;     wants 'beside a foreign one' 2 'mixed/vocab.txt has' 'tokens'
[ ! -e x ] || fail 'a run folder was left behind'

# ----- parts of a batch, locked encoders -----
run pretrain $data $small --epochs 1 --start-epoch 0 --micro-batch 4 --lock text --init whole/model.safetensors --out locked
wants 'parts and a lock' 0 'finished'
for side in text image; do
    [ $side = text ] && flag=--text || flag=
    for weights in '' --untrained; do
        run embed locked $data $flag $weights --out $side$weights.npy; wants "embed $side of a locked run" 0
    done
done
cmp -s text.npy text--untrained.npy || fail 'a locked encoder of texts has moved'
cmp -s image.npy image--untrained.npy && fail 'the encoder of images beside a locked one has not moved'

# ----- embeddings -----
run embed whole $data --out image.npy;                          wants 'embed images' 0 '80 x 16'
run embed whole $data --text --out text.npy --samples owner.npy;        wants 'embed captions' 0 '320 x 16'
run embed whole $data --text --head --out text.npy;             wants 'embed both' 2 '--help explains'
run pretrain $data --arch resnet8 --head-hidden 8 --head-out 8 --batch 16 --epochs 1 --size 16 --out views; wants 'views' 0
run pretrain $data $small --lock text --init views/model.safetensors --out x;  wants 'the other one' 2 'lock: text' 'views/'
run embed views $data --text --out text.npy;                    wants 'captions of a run on images' 1 'text encoder'

# ----- it learns -----
run pretrain --data shapes:n=512,classes=12,size=16,seed=1 --task clip --arch resnet8 --embed-dim 32 --text-width 32 \
    --text-layers 1 --text-heads 2 --context 20 --vocab-merges 300 --batch 32 --epochs 8 --start-epoch 5 --lr 4e-3 --threads 2 \
    --quiet --out learned
wants 'learning' 0 'finished'
run eval retrieval learned --data shapes:n=200,classes=12,size=16,seed=1,split=test
awk '/^IR/ && $(NF - 1) >= 12 {good = 1} END {exit !good}' out || fail "retrieval is no better than chance"      # IR@10 in %: 5
