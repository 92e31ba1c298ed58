"""Times losses under jax.jit on the device that JAX chooses: this package beside the same loss written in jax.numpy.

    python jax_loss.py [--batch 1024 8192 32768] [--dim 512 128] [--dtype bfloat16 float32] [--loss simclr clip] [--seconds 60]
                       [--samples 131072] [--keep]

Milliseconds of value and gradients of both embeddings, smallest of three rounds; the state of --samples samples goes in and out, donated unless --keep
says that it is not. A row is printed when it is done; after --seconds no further one is begun. jax.numpy multiplies float32 with precision "highest"
(no TF32). "graph": with thresholds, and command_buffer=True. The error is the largest difference of the gradients, relative to the largest value.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import time

import jax
import jax.numpy as jnp
import numpy as np

import glofnd
from glofnd.jax import GloFNDLoss

TAU = {"simclr": 0.1, "clip": 0.07}
OURS = {"glofnd": {"detector": "none"}, "+ thresholds": {}, "graph": {"command_buffer": True}}


def cross_entropy(logits, target):
    return (jax.nn.logsumexp(logits, axis=1) - jnp.take_along_axis(logits, target[:, None], 1)[:, 0]).mean()


def plain(loss, z1, z2):
    z1, z2 = (z / jnp.linalg.norm(z.astype(jnp.float32), axis=1, keepdims=True).astype(z.dtype) for z in (z1, z2))
    n = z1.shape[0]
    precision = "highest" if z1.dtype == jnp.float32 else None
    product = lambda x, y: jnp.matmul(x, y.T, precision=precision, preferred_element_type=jnp.float32) / TAU[loss]
    if loss == "clip":
        logits = product(z1, z2)
        return (cross_entropy(logits, jnp.arange(n)) + cross_entropy(logits.T, jnp.arange(n))) / 2
    z = jnp.concatenate([z1, z2])
    logits = jnp.where(jnp.eye(2 * n, dtype=bool), -jnp.inf, product(z, z))
    return cross_entropy(logits, jnp.roll(jnp.arange(2 * n), n))


def milliseconds(step):
    """Of one of the steps that are queued one behind the other: what a training loop sees."""
    jax.block_until_ready(step())
    begin = time.perf_counter()
    jax.block_until_ready(step())
    repeats = max(1, min(50, int(0.05 / (time.perf_counter() - begin))))
    rounds = []
    for _ in range(3):
        begin = time.perf_counter()
        for _ in range(repeats):
            result = step()
        jax.block_until_ready(result)
        rounds.append(1e3 * (time.perf_counter() - begin) / repeats)
    return min(rounds)


@functools.lru_cache(maxsize=None)
def programs(loss, samples, keep):
    """(criterion, value and gradients) per column, and those of jax.numpy."""
    made = {}
    for name, options in OURS.items():
        criterion = GloFNDLoss(samples, loss, tau=TAU[loss], **options)
        scale = 0.5 if loss == "simclr" else 1.0  # the library sums the two views

        def run(z1, z2, index, state, criterion=criterion, scale=scale):
            value, state = criterion(z1, z2, index, state)
            return scale * value, state

        made[name] = criterion, jax.jit(jax.value_and_grad(run, argnums=(0, 1), has_aux=True), donate_argnums=() if keep else 3)
    return made, jax.jit(jax.value_and_grad(lambda z1, z2: plain(loss, z1, z2), argnums=(0, 1)))


def ours(criterion, compiled, z):
    """(milliseconds, gradient of the first embeddings)."""
    index, state, grads = jnp.arange(z[0].shape[0]), criterion.init(), None

    def step():
        nonlocal state, grads
        (_, state), grads = compiled(*z, index, state)
        return grads
    took = milliseconds(step)
    criterion.check()
    return took, grads[0]


def measure(loss, batch, dim, dtype, samples, keep):
    rng = np.random.default_rng(0)
    a = rng.standard_normal((batch, dim), dtype=np.float32)
    z = [jnp.asarray(x, dtype) for x in (a, a + 0.7 * rng.standard_normal(a.shape, dtype=np.float32))]
    columns, other = programs(loss, samples, keep)
    results = {name: ours(*column, z) for name, column in columns.items()}
    cells = [took for took, _ in results.values()]
    try:
        cells.append(milliseconds(lambda: other(*z)))
        want = np.asarray(other(*z)[1][0], np.float32)
        error = f"{np.abs(np.asarray(results['glofnd'][1], np.float32) - want).max() / np.abs(want).max():.1e}"
    except jax.errors.JaxRuntimeError as failure:
        cells, error = [*cells[:len(OURS)], float("nan")], str(failure)[:60]
    print(f"| {loss} | {batch} | {dim} | {dtype} | " + " | ".join(f"{x:.3f}" for x in cells) + f" | {error} |", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch", type=int, nargs="+", default=[1024, 8192, 32768])
    parser.add_argument("--dim", type=int, nargs="+", default=[512, 128])
    parser.add_argument("--dtype", nargs="+", default=["bfloat16", "float32"])
    parser.add_argument("--loss", nargs="+", default=["simclr", "clip"], choices=sorted(TAU))
    parser.add_argument("--seconds", type=float, default=1e9)
    parser.add_argument("--samples", type=int, default=1 << 17)
    parser.add_argument("--keep", action="store_true")
    options = parser.parse_args()
    begin = time.monotonic()
    print(f"{jax.devices()[0].device_kind}, JAX {jax.__version__}, glofnd {glofnd.__version__}\n")
    print("| loss | B | d | type | " + " | ".join(OURS) + " | jax.numpy | difference |\n" + "|---" * (6 + len(OURS)) + "|", flush=True)
    for dtype, dim, batch, loss in itertools.product(options.dtype, options.dim, options.batch, options.loss):
        if time.monotonic() - begin > options.seconds:
            print(f"stopped after {options.seconds:g} s, before {loss} {batch} x {dim} {dtype}", flush=True)
            return
        measure(loss, batch, dim, dtype, options.samples, options.keep)


if __name__ == "__main__":
    main()
