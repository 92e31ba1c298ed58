# glofnd embed beside its run: weights of a file, formats by suffix, names, the data of the run found from elsewhere.
. "$2/tests/sh/common.inc"
needs_runs
data=shapes:n=40,classes=4,size=16,seed=3
train run --epochs 1
train r18 --epochs 1 --arch resnet18 --size 16
embed() { call "$glofnd" embed "$@" --quiet; wants "embed $*" 0; }

# The data of the run is the default. Weights of a file give the bytes of the run that wrote it; the network follows from shapes.
embed run --data $data --out a.npy
embed run --out b.npy
cmp -s a.npy b.npy || fail "the data of the run is another one"
embed --weights run/model.safetensors --data $data --out c.npy
cmp -s a.npy c.npy || fail "weights of a file"
embed --weights r18/model.safetensors --arch resnet18 --data $data --out d.npy
embed r18 --out e.npy
cmp -s d.npy e.npy || fail "weights of a ResNet-18"
call "$glofnd" embed --weights r18/model.safetensors --arch resnet34 --data $data --out x.npy
wants 'another network' 1 'holds a resnet18 by its tensors; --arch is resnet34'
call "$glofnd" embed --weights run/checkpoints/*/optim.safetensors --data $data --out x.npy
wants 'no network' 1 'no network that is known here'
# changed FROM TO CODE: a file whose tensors t = {name: (dtype, shape, bytes)} were changed by Python code
changed() {
    python3 -c '
import json, struct, sys
data = open(sys.argv[1], "rb").read()
n = struct.unpack("<Q", data[:8])[0]
head = json.loads(data[8:8 + n])
head.pop("__metadata__", None)
part = lambda offsets: data[8 + n + offsets[0]:8 + n + offsets[1]]
t = {k: (v["dtype"], v["shape"], part(v["data_offsets"])) for k, v in head.items()}
exec(sys.argv[3])
head, at = {}, 0
for k, v in t.items():
    head[k] = {"dtype": v[0], "shape": v[1], "data_offsets": [at, at + len(v[2])]}
    at += len(v[2])
head = json.dumps(head).encode()
open(sys.argv[2], "wb").write(struct.pack("<Q", len(head)) + head + b"".join(v[2] for v in t.values()))' "$@" || fail "no file $2"
}
if command -v python3 > /dev/null; then
    changed r18/model.safetensors lacks.safetensors 'del t["layer4.1.bn2.weight"]'
    changed r18/model.safetensors stemless.safetensors 'del t["conv1.weight"]'
    changed r18/model.safetensors front.safetensors 't = {"encoder." + k: v for k, v in t.items()}'
    changed r18/model.safetensors deeper.safetensors 't["layer3.2.conv1.weight"] = t["layer3.1.conv1.weight"]'
    refused() { call "$glofnd" embed --weights "$@"; }
    refused lacks.safetensors --data $data --out x.npy
    wants 'a tensor is missing' 1 'lacks.safetensors: the tensor layer4.1.bn2.weight is missing (1 of the' 'save all of'
    refused stemless.safetensors --data $data --out x.npy
    wants 'no first convolution' 1 'stemless.safetensors: the tensor conv1.weight is missing' 'save all of'
    refused front.safetensors --data $data --out x.npy
    wants 'names with a prefix' 1 "'encoder.' in front" '--prefix encoder.'
    refused deeper.safetensors --data $data --out x.npy
    wants 'a deeper network' 1 'layer3.2.conv1.weight is of a deeper network'
    call "$glofnd" pretrain --quiet --data $data --arch resnet18 --size 16 --batch 16 --epochs 1 --init deeper.safetensors \
        --out deep
    wants 'a deeper network to begin with' 1 'layer3.2.conv1.weight is of a deeper network'
fi
call "$glofnd" embed --weights nowhere.safetensors --data $data --out x.npy;  wants 'no file' 1 'nowhere.safetensors'
call "$glofnd" embed run --weights run/model.safetensors --out x.npy;         wants 'both' 2 'not both'
call "$glofnd" embed --weights run/model.safetensors --out x.npy;             wants 'no data' 2 '--data is missing'
call "$glofnd" embed run --arch resnet8 --out x.npy;                          wants 'an arch of a run' 2 'go with --weights'
call "$glofnd" embed --out x.npy;                                             wants 'neither' 2 'RUN is missing'
[ ! -e x.npy ] || fail "a refused call left a file"

# An image encoder of open_clip's names.
clip=shapes:n=32,classes=4,size=32,seed=5
if "$glofnd" pretrain --quiet --task clip --data "$clip" --arch vit --size 32 --patch 16 --image-width 64 --image-layers 2 \
    --image-heads 1 --embed-dim 16 --text-width 32 --text-layers 1 --text-heads 2 \
    --context 16 --batch 16 --epochs 1 --out vit > /dev/null 2> err; then
    sed -i 's/^eval_view = .*/eval_view = clip/' vit/config.cfg
    embed vit --out f.npy
    embed --weights vit/model.safetensors --arch vit --data "$clip" --out g.npy
    cmp -s f.npy g.npy || fail "weights of a ViT"
else fail "a run of task clip"; fi

# Formats by suffix; names beside.
mkdir -p 'pics/cat' 'pics/dog'
"$glofnd" data export $data --folder --out made > /dev/null 2>&1
i=0
find made -name '*.png' | sort | head -n 6 > list
while read -r file; do
    i=$((i + 1))
    cp "$file" "pics/$([ $i -gt 3 ] && echo dog || echo cat)/a \"$i\", b.png"
done < list
if "$glofnd" info | grep -q 'png yes'; then
    [ $i -eq 6 ] || fail "no pictures"
    embed run --data folder:pics --out p.npy --names names.txt --labels l.npy --samples s.npy
    [ "$(wc -l < names.txt)" -eq 6 ] && grep -q 'cat/a "1", b.png' names.txt || fail "names: $(cat names.txt)"
    embed run --data folder:pics --out p.csv
    [ "$(wc -l < p.csv)" -eq 7 ] || fail "rows of p.csv"
    head -n 1 p.csv | grep -q '^sample,name,label,x0,x1,.*,x63$' || fail "the heading of p.csv"
    grep -q '^0,"pics/cat/a ""1"", b.png",0,' p.csv || fail "quotes of p.csv: $(cut -c1-60 p.csv)"
    embed run --data folder:pics --out p.safetensors
    grep -aq '"embeddings":{"dtype":"F32","shape":\[6,64\]' p.safetensors || fail "tensors: $(head -c 300 p.safetensors)"
    [ "$(tail -c 1536 p.npy | cksum)" = "$(tail -c 1608 p.safetensors | head -c 1536 | cksum)" ] || fail "p.safetensors"
    call "$glofnd" discover p.npy --names names.txt --labels l.npy --k 1 --out found
    wants 'discover after embed' 0
fi
for name in x x.parquet x.pt; do
    call "$glofnd" embed run --out $name
    wants "a format that is not written: $name" 2 '.npy, .safetensors or .csv'
    [ ! -e $name ] || fail "a refused call wrote $name"
done
call "$glofnd" embed run --out x.npy --labels y.csv;    wants 'labels as .csv' 2 '--labels' '.npy'
call "$glofnd" embed run --out x.npy --names x.npy;     wants 'one file twice' 2 'different files'

# A relative path in config.cfg is found from the folder of the run, wherever the command is given.
if [ $i -eq 6 ]; then
    mkdir -p runs elsewhere
    call "$glofnd" pretrain --quiet --data folder:pics --arch resnet8 --batch 4 --epochs 1 --size 16 --head-hidden 16 \
        --head-out 8 --out runs/r
    wants 'a run on a folder' 0
    embed runs/r --out here.npy
    cd elsewhere
    embed ../runs/r --out there.npy
    wants 'elsewhere' 0 "$scratch/pics"
    cmp -s ../here.npy there.npy || fail "the data of the run, found from elsewhere"
    call "$glofnd" eval knn ../runs/r --k 1 --test folder:../pics --quiet
    wants 'eval from elsewhere' 0 'of folder:pics'
    call "$glofnd" discover ../runs/r --k 1 --out found --quiet;            wants 'discover from elsewhere' 0
    call "$glofnd" report ../runs/r --out r.html --quiet;                   wants 'report from elsewhere' 0
    grep -q 'no pictures' err && fail "the report has no pictures"
    call "$glofnd" pretrain --out ../runs/r --resume --epochs 2 --quiet;    wants 'resumed from elsewhere' 0 finished
    mv ../pics ../gone
    call "$glofnd" embed ../runs/r --out there.npy;                         wants 'moved data' 1 'give its SPEC by --data'
fi
exit 0
