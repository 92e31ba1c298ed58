# RUN/model.safetensors in PyTorch: the names and shapes of torchvision's resnet18 (tests/fixtures/resnet18_keys.tsv), numbers
# that
# load, and where torchvision is there, load_state_dict(strict) and a forward. Skipped where no python3 has torch (PYTHON names
# another one).
. "$2/tests/sh/common.inc"
needs_runs
keys=$source/tests/fixtures/resnet18_keys.tsv
python=''
for candidate in ${PYTHON:-python3 /usr/bin/python3}; do
    "$candidate" -c 'import torch' 2>/dev/null && python=$candidate && break
done
[ -n "$python" ] || skip "no python3 with torch"
expect 0 finished "$glofnd" pretrain --data shapes:n=8,size=32 --arch resnet18 --stem 0 --head-hidden 8 --head-out 4 --batch 4 \
    --epochs 1 --out run

"$python" - run/model.safetensors "$keys" <<'PYTHON_END' || fail "the weights in PyTorch"
import json, struct, sys, warnings
warnings.simplefilter("ignore")
import torch

def check(what, ok):
    if not ok:
        sys.exit("FAILED: " + what)

def read(path):     # safetensors by hand; by the package too, where it is there
    data = open(path, "rb").read()
    size, = struct.unpack("<Q", data[:8])
    head = json.loads(data[8:8 + size])
    check("format", head.pop("__metadata__").get("format") == "pt")      # beside step and checksum
    tensors = {}
    for name, x in head.items():
        check(name + " is F32", x["dtype"] == "F32")
        begin, end = x["data_offsets"]
        raw = bytearray(data[8 + size + begin:8 + size + end])
        tensors[name] = torch.frombuffer(raw, dtype=torch.float32).reshape(x["shape"])
    return tensors

weights = read(sys.argv[1])
backbone = {k: v for k, v in weights.items() if not k.startswith("head.")}
lines = [line.rstrip("\n").split("\t") for line in open(sys.argv[2])]
expected = {name: [int(n) for n in shape.split("x")] for name, shape in lines}
check("names: " + str(sorted(set(expected) ^ set(backbone))), set(expected) == set(backbone))
for name, shape in expected.items():
    check("shape of " + name, list(backbone[name].shape) == shape)
    check("numbers of " + name, bool(torch.isfinite(backbone[name]).all()))
check("a head", len(weights) > len(backbone))
check("running variances moved", not bool((backbone["bn1.running_var"] == 1).all()))
try:
    from safetensors.torch import load_file
    theirs = load_file(sys.argv[1])
    check("safetensors agrees", set(theirs) == set(weights) and all(torch.equal(theirs[k], weights[k]) for k in weights))
    print("read by safetensors")
except ImportError:
    print("without safetensors")
try:
    import torchvision
    net = torchvision.models.resnet18()
    net.fc = torch.nn.Identity()
    net.load_state_dict(backbone, strict=True)
    check("features", bool(torch.isfinite(net.eval()(torch.randn(2, 3, 64, 64))).all()))
    print("loaded by torchvision " + torchvision.__version__)
except ImportError:
    print("without torchvision")
print("%d tensors of the backbone as torchvision names them, torch %s" % (len(backbone), torch.__version__))
PYTHON_END
