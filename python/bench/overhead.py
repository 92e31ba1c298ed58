"""What Python adds to a step of the C library: a small batch on one thread, where the step itself is short.

    python overhead.py [--device cuda]

Microseconds, smallest of a hundred rounds of 50 steps. "C": glofnd_step() and the loss, called by ctypes with a batch that is filled already. On a GPU the times are
those of queueing a step.
"""

import argparse
import time

import torch

from glofnd.torch import GloFNDLoss


def smallest(call, wait, rounds=100, steps=50):
    times = []
    for _ in range(rounds):
        wait()
        begin = time.perf_counter()
        for _ in range(steps):
            call()
        times.append(1e6 * (time.perf_counter() - begin) / steps)
    wait()
    return min(times)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cpu")
    device = parser.parse_args().device
    torch.set_num_threads(1)
    wait = torch.cuda.synchronize if device != "cpu" else lambda: None
    print(f"PyTorch {torch.__version__}, {device}\n\n| B | d | C | forward | Python adds | forward and backward | a loss of one addition |")
    print("|---|---|---|---|---|---|---|")
    for batch, dim in ((8, 8), (32, 64), (256, 128), (1024, 128))[:None if device != "cpu" else 2]:
        criterion = GloFNDLoss(max(1000, batch), "simclr", alpha=0.1, threads=1).to(device)
        a, b = (torch.randn(batch, dim, device=device, requires_grad=True) for _ in range(2))
        index = torch.arange(batch, device=device)
        core, grads = criterion._core, [torch.empty_like(a) for _ in range(2)]
        loss = torch.zeros(2, device=device)

        def both():
            a.grad = b.grad = None
            criterion(a, b, index).backward()

        def addition():
            a.grad = b.grad = None
            (a.sum() + b.sum()).backward()

        both()  # fills the batch of the core, on the device too
        pointers = [x.data_ptr() for x in (*grads, loss, loss[1:])]
        c = smallest(lambda: core.engine.queue_step(core.batch_at, *pointers), wait)
        forward = smallest(lambda: criterion(a, b, index), wait)
        print(f"| {batch} | {dim} | {c:.1f} | {forward:.1f} | {forward - c:.1f} | {smallest(both, wait):.1f} | {smallest(addition, wait):.1f} |")


if __name__ == "__main__":
    main()
