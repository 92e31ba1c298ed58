# Our safetensors files read by Python's package, and its files read by us; by torch as well where that is there. Skipped where
# python3 has no safetensors (PYTHON names another one).
. "$2/tests/sh/common.inc"
program=$build/tests/unit_safetensors
python=${PYTHON:-python3}
needs_tools "$python"
"$python" -c 'import safetensors, numpy' 2>/dev/null || skip "$python has no safetensors"
[ -x "$program" ] || skip "built without cmocka"

"$program" write ours || fail "a file could not be written"
"$python" - . <<'EOF' || fail "our file in Python"
import struct, sys
import numpy
import safetensors
import safetensors.numpy

def check(what, ok):
    if not ok:
        sys.exit("FAILED: " + what)

raw = bytes([0, 1, 0, 1, 1, 0x3c, 0, 0xbc, 0x80, 0x3f, 2, 0x40, 3, 0xc0, 5, 0x3f, 7] + [0] * 7 + list(range(1, 25)))
kinds = {"F32": "<f4", "F16": "<f2", "F64": "<f8", "I64": "<i8", "I32": "<i4", "I8": "i1", "U8": "u1", "BOOL": "?"}
texts = {"format": "pt", "quote \"\\\n": "\u20ac"}

def expected(name):
    rows = 1 if name == "BOOL" else 2
    count = rows * 3 * numpy.dtype(kinds[name]).itemsize
    return numpy.frombuffer(raw[:count], kinds[name]).reshape(rows, 3)

# Ours, by the package: every type numpy has; bfloat16 as bytes.
with safetensors.safe_open(sys.argv[1] + "/ours", "numpy") as f:
    check("texts", f.metadata() == texts)
    check("names", set(f.keys()) == set(kinds) | {"BF16"})
    for name in kinds:
        x = f.get_tensor(name)
        check(name, x.dtype == numpy.dtype(kinds[name]) and x.shape == expected(name).shape and
              x.tobytes() == expected(name).tobytes())
found = dict(safetensors.deserialize(open(sys.argv[1] + "/ours", "rb").read()))
check("BF16", found["BF16"]["dtype"] == "BF16" and found["BF16"]["shape"] == [2, 3] and bytes(found["BF16"]["data"]) == raw[:12])
size, = struct.unpack("<Q", open(sys.argv[1] + "/ours", "rb").read(8))
check("padding", size % 8 == 0)

# Theirs, for us: one file of all types. numpy has no bfloat16, so that one is written as F16 and renamed in the header.
arrays = {name: expected(name).copy() for name in kinds}
arrays["BF16"] = numpy.frombuffer(raw[:12], "<f2").reshape(2, 3).copy()
theirs = safetensors.numpy.save(arrays, metadata=texts)
size, = struct.unpack("<Q", theirs[:8])
head = theirs[8:8 + size].replace(b'"BF16":{"dtype":"F16"', b'"BF16":{"dtype":"BF16"')
check("renamed", len(head) == size + 1)
theirs = struct.pack("<Q", len(head)) + head + theirs[8 + size:]
open(sys.argv[1] + "/theirs", "wb").write(theirs)

# As PyTorch loads weights.
try:
    import torch
    from safetensors.torch import load_file
except ImportError:
    print("without torch")
else:
    weights = load_file(sys.argv[1] + "/ours")
    for name in kinds:
        check("torch " + name, weights[name].numpy().tobytes() == expected(name).tobytes())
    check("torch BF16", weights["BF16"].dtype == torch.bfloat16 and
          weights["BF16"].view(torch.int16).numpy().tobytes() == raw[:12])
    print("with torch " + torch.__version__)
EOF
"$program" check theirs || fail "the file of Python here"
echo "safetensors agrees both ways"
