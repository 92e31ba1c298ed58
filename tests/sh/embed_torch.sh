# Files of torch.save, converted by python -m glofnd convert: embed --weights gives the features of torchvision's network to
# rounding, for a plain state_dict and for a checkpoint of a wrapped model in channels_last; pretrain begins with them. Without
# conversion the message says how to do it.
# Skipped where no python3 has torch and torchvision (PYTHON names another one).
. "$2/tests/sh/common.inc"
needs_runs
needs 'png yes'
python=''
for candidate in ${PYTHON:-python3 /usr/bin/python3}; do
    "$candidate" -c 'import torch, torchvision, PIL' 2>/dev/null && python=$candidate && break
done
[ -n "$python" ] || skip "no python3 with torch, torchvision and Pillow"
expect 0 '' "$glofnd" data export shapes:n=6,classes=3,size=40,seed=3 --folder --out pics

"$python" - <<'PYTHON_END' || fail "files of PyTorch"
import torch, torchvision
torch.manual_seed(0)
net = torchvision.models.resnet18()
for module in net.modules():      # numbers that a network without training does not have
    if isinstance(module, torch.nn.BatchNorm2d):
        torch.nn.init.uniform_(module.running_mean, -0.5, 0.5)
        torch.nn.init.uniform_(module.running_var, 0.5, 2)
        torch.nn.init.uniform_(module.weight, 0.5, 1.5)
net.eval()
torch.save(net.state_dict(), "plain.pth")
torch.save(net.state_dict(), "old.pth", _use_new_zipfile_serialization=False)
torch.save(net, "module.pt")
optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3)
net(torch.randn(2, 3, 64, 64)).sum().backward()
optimizer.step()
net.load_state_dict(torch.load("plain.pth"))
net.to(memory_format=torch.channels_last)
wrapped = {"module." + name: x for name, x in net.state_dict().items()}
others = {"epoch": 3, "best": 0.5, "args": ["a", None], "optimizer": optimizer.state_dict()}
torch.save({**others, "state_dict": wrapped}, "wrapped.bin")
torch.save({name: x.half() for name, x in net.state_dict().items()}, "half.pth")
PYTHON_END

cp "$2/python/glofnd/_convert.py" convert.py    # alone: beside it lies a torch.py
for name in plain.pth wrapped.bin half.pth; do
    expect 0 '' "$python" convert.py $name $name.safetensors
    expect 0 '' "$glofnd" embed --weights $name.safetensors --data folder:pics --out $name.npy --names names.txt --quiet
done
cmp -s plain.pth.npy wrapped.bin.npy || fail "a wrapped checkpoint gives other features"
"$python" - <<'PYTHON_END' || fail "features"
import PIL.Image, torch, torchvision
from torchvision.transforms import CenterCrop, Compose, Normalize, Resize, ToTensor

def npy(path):      # without NumPy, which PyTorch may lack
    data = open(path, "rb").read()
    begin = 10 + int.from_bytes(data[8:10], "little")
    return torch.frombuffer(bytearray(data[begin:]), dtype=torch.float32).reshape(6, 512).double()

view = Compose([Resize(256), CenterCrop(224), ToTensor(), Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])])
x = torch.stack([view(PIL.Image.open(name).convert("RGB")) for name in open("names.txt").read().splitlines()]).double()
net = torchvision.models.resnet18().double().eval()
for name, limit in (("plain.pth", 5e-6), ("half.pth", 5e-6)):
    net.fc = torch.nn.Linear(512, 1000).double()
    net.load_state_dict(torch.load(name))
    net.fc = torch.nn.Identity()
    with torch.no_grad():
        want = net(x)
    error = ((npy(name + ".npy") - want).abs().max() / want.abs().max()).item()
    print(name, error)
    assert error < limit, (name, error)
PYTHON_END

embed() { "$glofnd" embed --weights "$1" --data folder:pics --out x.npy; }
expect 1 'a pickle, as torch.save wrote it; convert it: python -m glofnd convert old.pth' embed old.pth
expect 1 'a zip archive, as torch.save writes it; convert it: python -m glofnd convert module.pt' embed module.pt
expect 1 'torch.save(model.state_dict(), ...)' "$python" convert.py module.pt x.npy
expect 0 'old.safetensors: 122 tensors' "$python" convert.py old.pth old.safetensors
cmp -s old.safetensors plain.pth.safetensors || fail "a file of PyTorch before 1.6 gives other weights"
[ ! -e x.npy ] || fail "a refused call left a file"
pretrain() {
    "$glofnd" pretrain --data folder:pics --arch resnet18 --stem 0 --size 32 --head-hidden 8 --head-out 4 --batch 3 \
        --epochs 1 "$@"
}
expect 0 'weights of plain.pth.safetensors' pretrain --init plain.pth.safetensors --out run
expect 1 'python -m glofnd convert' pretrain --init module.pt --out no
[ ! -e no ] || fail "a refused run left a folder"
exit 0
