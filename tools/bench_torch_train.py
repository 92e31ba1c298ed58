#!/usr/bin/env python3
"""The training step of bench/train and bench/cuda/train_step in PyTorch: two views, SogCLR with GloFND, backward, SGD.

    bench_torch_train.py --arch resnet18 --size 32 --batch 128 --precision bf16 [--threads N] [--steps N] [--cpu-time]
                         [--device cuda [--compile default|max-autotune [--turn]]]

What PyTorch's own guides recommend is on: channels_last, autocast for bf16, fused SGD, on a GPU TF32 and cudnn.benchmark. Prints
one JSON object per step, on a GPU one with the median of --steps, by CUDA events. With --steps it takes as many steps; without,
one for every line of its input, so that another program can take turns with it.
Needs torch >= 1.13 and torchvision. Exit status: 0, 1 failed, 2 usage, 3 this Python has no torch or no torchvision.
"""
import argparse
import contextlib
import json
import math
import sys
import time

try:
    import torch
    import torchvision
    from bench_torch import SogCLR
    from bench_torch_compile import Turn, compiled
except ImportError as missing:
    print(f"bench_torch_train.py: {missing} ({sys.executable})", file=sys.stderr)
    sys.exit(3)


def encoder(arch, size):
    """torchvision's net, with the CIFAR stem for small images, and the head 2048 -> 128 with batch norm."""
    net = getattr(torchvision.models, arch)(zero_init_residual=True)
    if size <= 64:
        net.conv1 = torch.nn.Conv2d(3, 64, 3, padding=1, bias=False)
        net.maxpool = torch.nn.Identity()
    net.fc = torch.nn.Sequential(torch.nn.Linear(net.fc.in_features, 2048, bias=False), torch.nn.BatchNorm1d(2048),
                                 torch.nn.ReLU(inplace=True), torch.nn.Linear(2048, 128, bias=False),
                                 torch.nn.BatchNorm1d(128, affine=False))
    return net.to(memory_format=torch.channels_last).train()


def sgd(parameters):
    rest = dict(lr=0.03, momentum=0.9, weight_decay=1e-4)
    try:
        return torch.optim.SGD(parameters, fused=True, **rest)
    except (TypeError, RuntimeError):   # an older torch
        return torch.optim.SGD(parameters, **rest)


class Step:
    def __init__(self, args):
        self.device, self.batch = args.device, args.batch
        self.net = encoder(args.arch, args.size).to(args.device)
        self.optimizer = sgd(self.net.parameters())
        self.loss = SogCLR(args.batch, "glofnd").to(args.device)
        self.ids = torch.arange(args.batch, device=args.device)
        self.x = torch.rand(2 * args.batch, 3, args.size, args.size, device=args.device).to(memory_format=torch.channels_last)
        self.half = args.precision == "bf16"
        self.clock = time.process_time if args.cpu_time else time.perf_counter
        if args.compile:
            turn = Turn()
            self.net = compiled(self.net, args.compile, turn.wait if args.turn else lambda: None)

    def autocast(self):
        return torch.autocast(self.device, dtype=torch.bfloat16) if self.half else contextlib.nullcontext()

    def queue(self):
        """One step on a GPU, not waited for."""
        torch.compiler.cudagraph_mark_step_begin()
        with self.autocast():
            z = self.net(self.x).float()
        value = self.loss(z[:self.batch], z[self.batch:], self.ids, self.ids)
        value.backward()
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return value

    def take(self):
        """One step; milliseconds of forward, loss, backward, optimizer."""
        marks = [self.clock()]
        with self.autocast():
            z = self.net(self.x).float()
        marks.append(self.clock())
        value = self.loss(z[:self.batch], z[self.batch:], self.ids, self.ids)
        marks.append(self.clock())
        value.backward()
        marks.append(self.clock())
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        marks.append(self.clock())
        if not math.isfinite(value.item()):
            raise ArithmeticError("the loss is not finite")
        return [1e3 * (b - a) for a, b in zip(marks, marks[1:])]


def on_gpu(args):
    torch.backends.cudnn.benchmark = torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
    step, start, times = Step(args), time.perf_counter(), []
    for _ in range(5):
        step.queue()
    torch.cuda.synchronize()
    ready = time.perf_counter() - start
    for _ in range(args.steps or 20):
        times.append([torch.cuda.Event(enable_timing=True) for _ in range(2)])
        times[-1][0].record()
        value = step.queue()
        times[-1][1].record()
    torch.cuda.synchronize()
    if not math.isfinite(value.item()):
        raise ArithmeticError("the loss is not finite")
    ms = sorted(a.elapsed_time(b) for a, b in times)[len(times) // 2]
    print(json.dumps({"bench": "torch", "arch": args.arch, "size": args.size, "precision": args.precision,
                      "compile": args.compile or "eager", "ms": round(ms, 3), "views/s": round(2e3 * args.batch / ms),
                      "ready_s": round(ready, 1), "torch": torch.__version__}), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--arch", default="resnet18", choices=("resnet18", "resnet34", "resnet50"))
    parser.add_argument("--size", type=int, default=32, help="pixels")
    parser.add_argument("--batch", type=int, default=128, help="samples; each gives two views")
    parser.add_argument("--precision", default="fp32", choices=("fp32", "bf16"))
    parser.add_argument("--threads", type=int, default=0, help="threads; 0: as torch would")
    parser.add_argument("--steps", type=int, default=0, help="steps to take; 0: one per line of input")
    parser.add_argument("--cpu-time", action="store_true", help="seconds of the processor")
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--compile", default="", choices=("", "default", "max-autotune"), help="torch.compile's mode")
    parser.add_argument("--turn", action="store_true", help="when compiled, wait for a line of input before the first kernel")
    args = parser.parse_args()
    if args.batch < 2 or args.size < 8 or args.threads < 0 or args.steps < 0:
        parser.error("batch starts at 2, size at 8, threads and steps at 0")
    if args.threads:
        torch.set_num_threads(args.threads)
    torch.manual_seed(0)
    if args.device == "cuda":
        return on_gpu(args)
    step = Step(args)
    for _ in range(args.steps) if args.steps else sys.stdin:
        parts = step.take()
        print(json.dumps({"bench": "torch", "arch": args.arch, "precision": args.precision, "ms": round(sum(parts), 3),
                          "forward": round(parts[0], 3), "loss": round(parts[1], 3), "backward": round(parts[2], 3),
                          "optimizer": round(parts[3], 3), "torch": torch.__version__}), flush=True)


if __name__ == "__main__":
    try:
        main()
    except (ArithmeticError, MemoryError, RuntimeError) as problem:
        print(f"bench_torch_train.py: {problem}", file=sys.stderr)
        sys.exit(1)
