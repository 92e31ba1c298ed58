"""Times contrastive losses inside PyTorch, forward and backward: this package beside others, in one run.

    python loss.py [--device cuda] [--batch 1024 4096] [--dim 128] [--dtype float32 bfloat16] [--task views clip] [--json FILE]

Columns: median time of a step, peak of memory above the embeddings, largest error of the gradient relative to its largest value,
against float64 (not where thresholds leave pairs out, which is another loss). Packages that are not installed, and cases
without memory, are named and skipped. Embeddings are unit vectors; the time includes their gradient, and no network.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import resource
import statistics
import subprocess
import sys
import time

import torch
import torch.nn.functional as F

TAU = {"views": 0.1, "clip": 0.07}
SAMPLES = 1 << 20


# ----- losses: name -> (package, maker of loss(z1, z2, index)) ----------------------------------------------------------------


def glofnd_loss(task, detector):
    def make(device):
        from glofnd.torch import GloFNDLoss
        loss = "simclr" if task == "views" else "clip"
        # Means over 2 B rows, as everyone else: the library sums the two views.
        scale = 0.5 if task == "views" else 1.0
        criterion = GloFNDLoss(SAMPLES, loss, detector=detector, tau=TAU[task], learn_tau=False, normalize=False).to(device)
        return lambda z1, z2, index: scale * criterion(z1, z2, index)
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
    from inf_cl import cal_inf_loss
    scale = torch.tensor(1 / TAU["clip"], device=device)
    return lambda z1, z2, index: cal_inf_loss(z1, z2, scale=scale)


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
    },
}


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

    started = time.perf_counter()
    step()
    wait(device)
    step()
    wait(device)
    peak = memory(device) - before
    times = []
    while len(times) < 5 or (time.perf_counter() - started < options["seconds"] and len(times) < 200):
        begin = time.perf_counter()
        step()
        wait(device)
        times.append(time.perf_counter() - begin)
    error = None if "thresholds" in name or "another loss" in name else gradient_error(task, z1, z2)
    return {"ms": 1e3 * statistics.median(times), "best_ms": 1e3 * min(times), "peak_mb": peak / 1e6, "error": error}


def gradient_error(task, z1, z2):
    """Largest error of z1.grad, relative to its largest value; along the sphere, because some losses normalise once more."""
    unit = F.normalize(z1.detach().double(), dim=1)
    got, want = (g - unit * (g * unit).sum(1, keepdim=True) for g in (z1.grad.double(), exact_gradient(task, z1, z2)))
    return ((got - want).abs().max() / want.abs().max()).item()


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
    parser.add_argument("--batch", type=int, nargs="+", default=[1024, 4096])
    parser.add_argument("--dim", type=int, nargs="+", default=[128])
    parser.add_argument("--dtype", nargs="+", default=["float32"])
    parser.add_argument("--task", nargs="+", default=["views", "clip"])
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--json")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measure(json.loads(options.one))))
        return
    machine = torch.cuda.get_device_name() if options.device == "cuda" else f"{torch.get_num_threads()} CPU threads"
    print(f"{machine}, PyTorch {torch.__version__}")
    for task in options.task:
        for name, (package, _) in LOSSES[task].items():
            print(f"  {task}: {name}: {package} {version(package) or 'is not installed: skipped'}")
    print("\n| task | B | d | type | loss | ms | peak MB | error |\n|---|---|---|---|---|---|---|---|")
    for task in options.task:
        for batch in options.batch:
            for dim in options.dim:
                for dtype in options.dtype:
                    table(options, task, batch, dim, dtype)


def table(options, task, batch, dim, dtype):
    for name, (package, _) in LOSSES[task].items():
        if not version(package):
            continue
        case = {"task": task, "name": name, "device": options.device, "batch": batch, "dim": dim, "dtype": dtype,
                "seconds": options.seconds}
        result = run_one(case)
        error = "" if result.get("error") is None else f"{result['error']:.1e}"
        numbers = result.get("failed") or f"{result['ms']:.3f} | {result['peak_mb']:.0f} | {error}"
        print(f"| {task} | {batch} | {dim} | {dtype} | {name} | {numbers} |", flush=True)
        if options.json:
            with open(options.json, "a", encoding="utf-8") as file:
                file.write(json.dumps({**case, **result, "version": version(package), "torch": torch.__version__}) + "\n")


if __name__ == "__main__":
    main()
