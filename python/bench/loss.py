"""Times contrastive losses inside PyTorch, forward and backward: this package beside others, in one run.

    python loss.py [--device cuda] [--batch 1024 4096] [--dim 128] [--dtype float32 bfloat16] [--task views clip] [--json FILE]
    python loss.py --cpu-time --rounds 3 ...                      # one thread, CPU time: for a machine that is busy with other work
    python loss.py --gpu-tour [--budget 200] [--peers FOLDER]     # every size on a GPU, in one process, within some minutes
    python loss.py --gpu-tour --cases 8192x512:bfloat16 1024x128:float32 ...   # these sizes, in this order

Columns: median and smallest time of a step, peak of memory above the embeddings, largest error of the gradient relative to its largest value,
against float64 (not where thresholds leave pairs out, or the loss is another one). Packages that are not installed, and cases
without memory, are named and skipped. Embeddings are unit vectors; the time includes their gradient, and no network.

On the CPU every case has a process of its own, and a step is timed by itself. With `--rounds` the losses of a size take turns, and
the smallest of their times counts. The tour queues steps one after the other and waits
at the end, as training does; memory is the peak of PyTorch's allocator, which also holds the workspace of this package.
`--peers FOLDER` is put in front of sys.path: wheels unpacked by `pip install --no-deps --target FOLDER`. What they import beyond
PyTorch and NumPy, and do not need for the loss alone, is replaced by placeholders where it is missing.

With bfloat16 embeddings this package multiplies in bfloat16 too (math="bf16"), as the others do; float32 embeddings: math="split"
on a GPU (others: TF32 off).
"""

from __future__ import annotations

import argparse
import importlib.abc
import importlib.machinery
import importlib.metadata
import json
import resource
import statistics
import subprocess
import sys
import time
import types

import torch
import torch.nn.functional as F

TAU = {"views": 0.1, "clip": 0.07}
SAMPLES = 1 << 17
THREADS = 0  # of this package; 0: all


# ----- losses: name -> (package, maker of loss(z1, z2, index)) ----------------------------------------------------------------


def glofnd_loss(task, detector):
    def make(device):
        from glofnd.torch import GloFNDLoss
        loss = "simclr" if task == "views" else "clip"
        # Means over 2 B rows, as everyone else: the library sums the two views.
        scale = 0.5 if task == "views" else 1.0
        made = {}

        def run(z1, z2, index):
            math = "bf16" if z1.dtype == torch.bfloat16 else "split"
            if math not in made:
                made[math] = GloFNDLoss(SAMPLES, loss, detector=detector, tau=TAU[task], learn_tau=False, normalize=False,
                                        math=math, threads=THREADS).to(device)
            return scale * made[math](z1, z2, index)
        return run
    return make


def plain_views(z1, z2, index):
    z = torch.cat([z1, z2])
    logits = z @ z.t() / TAU["views"]
    logits.fill_diagonal_(float("-inf"))
    n = z1.shape[0]
    return F.cross_entropy(logits, torch.arange(2 * n, device=z.device).roll(n))


def plain_clip(z1, z2, index):
    logits = z1 @ z2.t() / TAU["clip"]
    target = torch.arange(z1.shape[0], device=z1.device)
    return (F.cross_entropy(logits, target) + F.cross_entropy(logits.t(), target)) / 2


def lightly_views(device):
    from lightly.loss import NTXentLoss
    loss = NTXentLoss(temperature=TAU["views"])
    return lambda z1, z2, index: loss(z1, z2)


def metric_learning_views(device):
    from pytorch_metric_learning.losses import NTXentLoss, SelfSupervisedLoss
    loss = SelfSupervisedLoss(NTXentLoss(temperature=TAU["views"]))
    return lambda z1, z2, index: loss(z1, z2)


def libauc_views(device):
    from libauc.losses import GCLoss
    loss = GCLoss("unimodal", N=SAMPLES, tau=TAU["views"], device=device)

    def first(z1, z2, index):
        result = loss(z1, z2, index)
        return result[0] if isinstance(result, tuple) else result
    return first


def open_clip_clip(device):
    from open_clip import ClipLoss
    loss, scale = ClipLoss(), torch.tensor(1 / TAU["clip"], device=device)
    return lambda z1, z2, index: loss(z1, z2, scale)


def inf_clip(device):
    from inf_cl import cal_flash_loss

    def run(z1, z2, index):  # one call is one direction
        scale, head = torch.tensor(1 / TAU["clip"], device=device, dtype=z1.dtype), 256 if z1.shape[1] % 256 == 0 else 128
        return (cal_flash_loss(z1, z2, None, scale, head).mean() + cal_flash_loss(z2, z1, None, scale, head).mean()) / 2
    return run


def siglip_clip(device):
    from siglip_kernel import fused_siglip_loss
    log_temperature = torch.tensor(2.3, device=device, requires_grad=True)
    bias = torch.tensor(-10.0, device=device, requires_grad=True)
    return lambda z1, z2, index: fused_siglip_loss(z1, z2, log_temperature, bias)


LOSSES = {
    "views": {
        "glofnd simclr": ("glofnd", glofnd_loss("views", "none")),
        "glofnd simclr + thresholds": ("glofnd", glofnd_loss("views", "glofnd")),
        "PyTorch, plain": ("torch", lambda device: plain_views),
        "PyTorch, compiled": ("torch", lambda device: torch.compile(plain_views)),
        "lightly NTXentLoss": ("lightly", lightly_views),
        "pytorch-metric-learning NTXentLoss": ("pytorch-metric-learning", metric_learning_views),
        "libauc GCLoss (another loss)": ("libauc", libauc_views),
    },
    "clip": {
        "glofnd clip": ("glofnd", glofnd_loss("clip", "none")),
        "glofnd clip + thresholds": ("glofnd", glofnd_loss("clip", "glofnd")),
        "PyTorch, plain": ("torch", lambda device: plain_clip),
        "PyTorch, compiled": ("torch", lambda device: torch.compile(plain_clip)),
        "open_clip ClipLoss": ("open_clip_torch", open_clip_clip),
        "inf-cl": ("inf-cl", inf_clip),
        "siglip-kernel (another loss)": ("siglip-kernel", siglip_clip),
    },
}


# ----- packages that are carried without all they depend on -------------------------------------------------------------------


class Placeholders(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Stands in for packages that are missing here and that a loss does not call. Their own subpackages' __init__ is skipped, too:
    it imports all the rest of a package."""

    NAMES = ("torchvision", "timm", "sklearn", "scipy", "PIL", "tqdm", "huggingface_hub", "ftfy", "regex", "requests", "pydantic",
             "urllib3", "psutil", "aenum", "hydra", "omegaconf", "pytorch_lightning", "lightly_utils", "safetensors", "sentencepiece",
             "transformers", "matplotlib", "cv2", "av", "dateutil", "six", "certifi", "faiss", "record_keeper")
    BARE = ("lightly", "lightly.loss", "lightly.models", "lightly.models.modules", "lightly.utils", "open_clip",
            "pytorch_metric_learning")

    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in self.NAMES:
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec):
        module = types.ModuleType(spec.name)
        module.__getattr__ = lambda key: type(key, (), {}) if not key.startswith("__") else None
        return module

    def exec_module(self, module):
        pass

    @classmethod
    def install(cls, folder):
        sys.path.insert(0, folder)
        sys.meta_path.append(cls())  # the last one asked: only where the real package is missing
        for name in cls.BARE:
            bare = types.ModuleType(name)
            bare.__path__ = [f"{folder}/{name.replace('.', '/')}"]
            sys.modules[name] = bare
        for name, place, kind in (("lightly.loss", "lightly.loss.ntx_ent_loss", "NTXentLoss"),
                                  ("open_clip", "open_clip.loss", "ClipLoss")):
            try:
                setattr(sys.modules[name], kind, getattr(importlib.import_module(place), kind))
            except ImportError as failure:
                print(f"{name}: {failure}")


def version(package):
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        if package == "glofnd":
            import glofnd
            return glofnd.__version__
        return None


# ----- what is right ----------------------------------------------------------------------------------------------------------


def exact_gradient(task, z1, z2, chunk=2048):
    """d loss / d z1 in float64, without the whole matrix of similarities."""
    z1, z2 = z1.detach().double(), z2.detach().double()
    n = z1.shape[0]
    rows, cols = (torch.cat([z1, z2]),) * 2 if task == "views" else (z1, z2)
    target = torch.arange(2 * n, device=z1.device).roll(n) if task == "views" else torch.arange(n, device=z1.device)

    def logits_of(rows, cols, r):
        logits = rows[r] @ cols.t() / TAU[task]
        if task == "views":
            logits[torch.arange(len(r), device=r.device), r] = float("-inf")
        return logits

    def one_side(rows, cols, grad_rows, grad_cols):
        for r in torch.arange(len(rows), device=rows.device).split(chunk):
            p = torch.softmax(logits_of(rows, cols, r), 1)
            p[torch.arange(len(r), device=r.device), target[r]] -= 1
            p /= TAU[task] * len(rows)
            grad_rows[r] += p @ cols
            grad_cols += p.t() @ rows[r]

    grad_a, grad_b = torch.zeros_like(rows), torch.zeros_like(cols)
    one_side(rows, cols, grad_a, grad_b)
    if task == "views":
        return (grad_a + grad_b)[:n]
    one_side(cols, rows, grad_b, grad_a)
    return grad_a / 2


# ----- measuring --------------------------------------------------------------------------------------------------------------


def wait(device):
    if device == "cuda":
        torch.cuda.synchronize()


def memory(device):
    """Bytes in use: on CUDA the whole device, since not all of it is PyTorch's."""
    if device == "cuda":
        free, total = torch.cuda.mem_get_info()
        return total - free
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def embeddings(batch, dim, dtype, device):
    generator = torch.Generator().manual_seed(0)
    a = F.normalize(torch.randn(batch, dim, generator=generator), dim=1)
    b = F.normalize(a + 0.7 * F.normalize(torch.randn(batch, dim, generator=generator), dim=1), dim=1)
    return [x.to(device, dtype).requires_grad_() for x in (a, b)], torch.arange(batch, device=device)


def measure(options):
    """One line of the table; runs in a process of its own."""
    global THREADS
    clock = time.perf_counter
    if options["cpu_time"]:
        torch.set_num_threads(1)
        THREADS, clock = 1, time.process_time
    task, name, device = options["task"], options["name"], options["device"]
    (z1, z2), index = embeddings(options["batch"], options["dim"], getattr(torch, options["dtype"]), device)
    loss = LOSSES[task][name][1](device)
    few, few_index = embeddings(8, options["dim"], getattr(torch, options["dtype"]), device)
    loss(*few, few_index).backward()  # imports, kernels and threads are no memory of the step
    if device == "cuda":
        torch.cuda.empty_cache()
    before = memory(device)

    def step():
        z1.grad = z2.grad = None
        loss(z1, z2, index).backward()

    started = clock()
    step()
    wait(device)
    step()
    wait(device)
    peak = memory(device) - before
    times = []
    while len(times) < 3 or (clock() - started < options["seconds"] and len(times) < 200):
        begin = clock()
        step()
        wait(device)
        times.append(clock() - begin)
    error = None if "thresholds" in name or "another loss" in name else gradient_error(task, z1, z2)
    return {"ms": 1e3 * statistics.median(times), "best_ms": 1e3 * min(times), "peak_mb": peak / 1e6, "error": error}


def gradient_error(task, z1, z2):
    """Largest error of z1.grad, relative to its largest value; along the sphere, because some losses normalise once more."""
    return distance_of(z1, exact_gradient(task, z1, z2))


# ----- the tour of a GPU ------------------------------------------------------------------------------------------------------

MATERIALISING = ("PyTorch, plain", "lightly NTXentLoss", "pytorch-metric-learning NTXentLoss", "open_clip ClipLoss")
COMPILED_AT = {(1024, 128), (32768, 512)}
OWN_KERNELS_AT = {(8192, 512), (32768, 768), (65536, 768)}  # of inf-cl: each shape is compiled first


def tour_cases(options, dtypes):
    """Those asked for; or all, the largest first: they matter most, should time run out."""
    for case in options.cases:
        shape, dtype = case.split(":")
        batch, dim = map(int, shape.split("x"))
        for task in ("clip", "views"):
            yield task, batch, dim, dtype
    if options.cases:
        return
    for batch in sorted(options.batch or [1024, 8192, 32768, 65536], reverse=True):
        for dim in sorted(options.dim or [128, 512, 768], reverse=True):
            for task in ("clip", "views"):
                for dtype in dtypes:
                    yield task, batch, dim, dtype


def skips(name, task, batch, dim, dtype):
    if name == "PyTorch, compiled":
        return (batch, dim) not in COMPILED_AT
    if name == "inf-cl" or name.startswith("siglip"):
        return (batch, dim) not in OWN_KERNELS_AT or dtype != "bfloat16"
    if "libauc" in name:
        return True
    rows = batch * (2 if task == "views" else 1)
    return name in MATERIALISING and rows * rows * 4 > 60e9  # several matrices of this size do not fit


def tour_measure(loss, z1, z2, index):
    def step():
        z1.grad = z2.grad = None
        loss(z1, z2, index).backward()

    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    begin = time.perf_counter()
    step()
    torch.cuda.synchronize()
    peak = torch.cuda.max_memory_allocated() - before
    if time.perf_counter() - begin < 3:
        step()
        torch.cuda.synchronize()
    begin = time.perf_counter()
    step()
    torch.cuda.synchronize()
    once = time.perf_counter() - begin
    repeats = max(1, min(100, int(0.08 / once)))
    rounds = []
    for _ in range(3 if once < 1 else 1):
        begin = time.perf_counter()
        for _ in range(repeats):
            step()
        torch.cuda.synchronize()
        rounds.append((time.perf_counter() - begin) / repeats)
    return {"ms": 1e3 * statistics.median(rounds), "best_ms": 1e3 * min(rounds), "once_ms": 1e3 * once, "peak_mb": peak / 1e6}


def tour_one(options, losses, task, batch, dim, dtype, exact):
    (z1, z2), index = embeddings(batch, dim, getattr(torch, dtype), "cuda")
    for name, (package, make) in LOSSES[task].items():
        if name in options.without or not version(package) or skips(name, task, batch, dim, dtype) or time.perf_counter() > options.stop:
            continue
        try:
            if (task, name) not in losses or package == "glofnd":  # a new one, so that its workspace counts
                losses[task, name] = make("cuda")
            result = tour_measure(losses[task, name], z1, z2, index)
            if "thresholds" not in name and "another loss" not in name and time.perf_counter() < options.stop:
                if "gradient" not in exact:
                    exact["gradient"] = exact_gradient(task, z1, z2)
                result["error"] = distance_of(z1, exact["gradient"])
        except torch.cuda.OutOfMemoryError:
            result = {"failed": "out of memory"}
        except Exception as failure:  # noqa: BLE001  one package must not end the tour
            result = {"failed": (str(failure).strip().splitlines() or [type(failure).__name__])[0][:100]}
        z1.grad = z2.grad = None
        show(options, {"task": task, "name": name, "device": "cuda", "batch": batch, "dim": dim, "dtype": dtype}, result, package)


def distance_of(z1, exact):
    unit = F.normalize(z1.detach().double(), dim=1)
    got, want = (g - unit * (g * unit).sum(1, keepdim=True) for g in (z1.grad.double(), exact))
    return ((got - want).abs().max() / want.abs().max()).item()


def tour_graph(options, batch, dim, dtype):
    """This package's step, captured and replayed as a CUDA graph: no host in between."""
    (z1, z2), index = embeddings(batch, dim, getattr(torch, dtype), "cuda")
    for task in ("views", "clip"):
        loss = LOSSES[task][f"glofnd {'simclr' if task == 'views' else 'clip'} + thresholds"][1]("cuda")
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                loss(z1, z2, index).backward()
        torch.cuda.current_stream().wait_stream(side)
        z1.grad = z2.grad = None
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            loss(z1, z2, index).backward()
        graph.replay()
        torch.cuda.synchronize()
        begin = time.perf_counter()
        for _ in range(100):
            graph.replay()
        torch.cuda.synchronize()
        ms = 10 * (time.perf_counter() - begin)
        result = {"ms": ms, "best_ms": ms, "peak_mb": 0.0}
        show(options, {"task": task, "name": "glofnd + thresholds, CUDA graph", "device": "cuda", "batch": batch, "dim": dim,
                       "dtype": dtype}, result, "glofnd")
        z1.grad = z2.grad = None


def tour(options):
    if options.peers:
        Placeholders.install(options.peers)
    torch.backends.cuda.matmul.allow_tf32 = False
    options.stop = time.perf_counter() + options.budget
    print_versions(options, ("views", "clip"), torch.cuda.get_device_name())
    losses, dtypes = {}, options.dtype or ["bfloat16", "float32"]
    for case in tour_cases(options, dtypes):
        if time.perf_counter() > options.stop:
            print(f"(the budget of {options.budget:g} s is spent)")
            break
        tour_one(options, losses, *case, {})
    for dtype in dtypes:
        try:
            tour_graph(options, 1024, 128, dtype)
        except Exception as failure:  # noqa: BLE001
            print(f"CUDA graph: {failure}")


def run_one(options):
    done = subprocess.run([sys.executable, __file__, "--one", json.dumps(options)], capture_output=True, text=True)
    lines = done.stdout.strip().splitlines()
    if done.returncode == 0 and lines:
        return json.loads(lines[-1])
    if done.returncode < 0:
        return {"failed": f"ended by signal {-done.returncode}"}
    text = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
    return {"failed": "out of memory" if "out of memory" in text.lower() or "can't allocate" in text else text[:100]}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--batch", type=int, nargs="+")
    parser.add_argument("--dim", type=int, nargs="+")
    parser.add_argument("--dtype", nargs="+")
    parser.add_argument("--task", nargs="+", default=["views", "clip"])
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--json")
    parser.add_argument("--cpu-time", action="store_true")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--without", nargs="*", default=[], help="names of losses to leave out")
    parser.add_argument("--gpu-tour", action="store_true")
    parser.add_argument("--cases", nargs="*", default=[], metavar="BxD:TYPE")
    parser.add_argument("--budget", type=float, default=200.0)
    parser.add_argument("--peers")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measure(json.loads(options.one))))
        return
    if options.gpu_tour:
        tour(options)
        return
    machine = torch.cuda.get_device_name() if options.device == "cuda" else f"{torch.get_num_threads()} CPU threads"
    print_versions(options, options.task, machine)
    for task in options.task:
        for batch in options.batch or [1024, 4096]:
            for dim in options.dim or [128]:
                for dtype in options.dtype or ["float32"]:
                    table(options, task, batch, dim, dtype)


def print_versions(options, tasks, machine):
    print(f"{machine}, PyTorch {torch.__version__}")
    for task in tasks:
        for name, (package, _) in LOSSES[task].items():
            print(f"  {task}: {name}: {package} {version(package) or 'is not installed: skipped'}")
    print("\n| task | B | d | type | loss | ms | best | peak MB | error |\n|---|---|---|---|---|---|---|---|---|", flush=True)


def table(options, task, batch, dim, dtype):
    names = [name for name, (package, _) in LOSSES[task].items() if version(package) and name not in options.without]
    cases = {name: {"task": task, "name": name, "device": options.device, "batch": batch, "dim": dim, "dtype": dtype,
                    "seconds": options.seconds, "cpu_time": options.cpu_time} for name in names}
    results = {name: [] for name in names}
    for _ in range(options.rounds):
        for name in names:
            results[name].append(run_one(cases[name]))
    for name in names:
        best = min(results[name], key=lambda result: result.get("best_ms", float("inf")))
        show(options, cases[name], best, LOSSES[task][name][0])


def show(options, case, result, package):
    error = "" if result.get("error") is None else f"{result['error']:.1e}"
    numbers = result.get("failed") or f"{result['ms']:.3f} | {result['best_ms']:.3f} | {result['peak_mb']:.0f} | {error}"
    print(f"| {case['task']} | {case['batch']} | {case['dim']} | {case['dtype']} | {case['name']} | {numbers} |", flush=True)
    if options.json:
        with open(options.json, "a", encoding="utf-8") as file:
            file.write(json.dumps({**case, **result, "version": version(package), "torch": torch.__version__}) + "\n")


if __name__ == "__main__":
    main()
