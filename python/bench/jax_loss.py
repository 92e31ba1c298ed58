"""Times losses under jax.jit on the device that JAX chooses: this package beside the same loss written in jax.numpy.

    python jax_loss.py [--batch 1024 8192 32768] [--dim 128 512] [--dtype float32 bfloat16]

Milliseconds of value and gradients of both embeddings, smallest of three rounds; state of 131,072 samples goes in and out, donated. jax.numpy multiplies
float32 with precision "highest" (no TF32). The error is the largest difference of the gradients, relative to the largest value.
"""

from __future__ import annotations

import argparse
import time

import jax
import jax.numpy as jnp
import numpy as np

import glofnd
from glofnd.jax import GloFNDLoss

SAMPLES, TAU = 1 << 17, {"simclr": 0.1, "clip": 0.07}


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
    jax.block_until_ready(step())
    begin = time.perf_counter()
    jax.block_until_ready(step())
    repeats = max(1, min(50, int(0.1 / (time.perf_counter() - begin))))
    rounds = []
    for _ in range(3):
        begin = time.perf_counter()
        for _ in range(repeats):
            result = step()
        jax.block_until_ready(result)
        rounds.append(1e3 * (time.perf_counter() - begin) / repeats)
    return min(rounds)


def measure(loss, batch, dim, dtype):
    rng = np.random.default_rng(0)
    a = rng.normal(size=(batch, dim)).astype(np.float32)
    z = [jnp.asarray(x, dtype) for x in (a, a + 0.7 * rng.normal(size=a.shape).astype(np.float32))]
    index, grads, cells = jnp.arange(batch), {}, []
    for name, detector in (("glofnd", "none"), ("glofnd + thresholds", "glofnd")):
        criterion = GloFNDLoss(SAMPLES, loss, detector=detector, tau=TAU[loss])
        scale = 0.5 if loss == "simclr" else 1.0  # the library sums the two views
        run = lambda z1, z2, state: (lambda x: (scale * x[0], x[1]))(criterion(z1, z2, index, state))
        compiled = jax.jit(jax.value_and_grad(run, argnums=(0, 1), has_aux=True), donate_argnums=2)
        state = criterion.init()

        def step():
            nonlocal state
            (_, state), grads[name] = compiled(*z, state)
            return grads[name]
        cells.append(milliseconds(step))
    other = jax.jit(jax.value_and_grad(lambda z1, z2: plain(loss, z1, z2), argnums=(0, 1)))
    try:
        cells.append(milliseconds(lambda: other(*z)))
        want = np.asarray(other(*z)[1][0], np.float32)
        error = f"{np.abs(np.asarray(grads['glofnd'][0], np.float32) - want).max() / np.abs(want).max():.1e}"
    except jax.errors.JaxRuntimeError as failure:
        cells, error = [*cells[:2], float("nan")], str(failure)[:60]
    print(f"| {loss} | {batch} | {dim} | {dtype} | " + " | ".join(f"{x:.2f}" for x in cells) + f" | {error} |", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch", type=int, nargs="+", default=[1024, 8192, 32768])
    parser.add_argument("--dim", type=int, nargs="+", default=[128, 512])
    parser.add_argument("--dtype", nargs="+", default=["float32"])
    options = parser.parse_args()
    print(f"{jax.devices()[0].device_kind}, JAX {jax.__version__}, glofnd {glofnd.__version__}\n")
    print("| loss | B | d | type | glofnd | + thresholds | jax.numpy | difference |\n|---|---|---|---|---|---|---|---|")
    for dtype in options.dtype:
        for batch in options.batch:
            for dim in options.dim:
                for loss in ("simclr", "clip"):
                    measure(loss, batch, dim, dtype)


if __name__ == "__main__":
    main()
