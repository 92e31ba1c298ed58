"""Level 3 on a GPU: glofnd.jax on an NVIDIA GPU against its steps on the CPU and plain PyTorch in float64. Skipped elsewhere."""

import pickle
import unittest

try:
    import jax
except ImportError:
    raise unittest.SkipTest("JAX is not installed") from None
import jax.numpy as jnp
import numpy as np

import glofnd
from glofnd.jax import GloFNDLoss, errors

from .test_jax import BATCH, SAMPLES, batch, make

GPUS = [device for device in jax.devices() if device.platform == "gpu"]
OBSTACLE = glofnd.device_status("cuda") if GPUS else "JAX sees no NVIDIA GPU (install jax[cuda13])"
CASES = ({}, {"loss": "simclr", "action": "attract"}, {"loss": "clip"}, {"loss": "sogclr2"}, {"loss": "fastclip", "action": "weight"},
         {"loss": "isogclr"}, {"detector": "single"}, {"detector": "fnc"}, {"detector": "oracle"}, {"learner": "adam-official"},
         {"lambda_init": "quantile"})


def stepper(criterion):
    """(loss, new state, gradients) of a step, compiled; runs where its arrays are."""
    @jax.jit
    def step(a, b, index, labels, state, epoch):
        run = lambda a, b: criterion(a, b, index, state, epoch=epoch, labels=labels)
        (loss, state), grads = jax.value_and_grad(run, argnums=(0, 1), has_aux=True)(a, b)
        return loss, state, grads
    return step


def floats(state):
    """(float words of rows, counters of rows) as NumPy; log u of samples that were never seen is -inf."""
    rows = np.asarray(state)
    values = np.nan_to_num(rows[..., [0, 1, 2, 3, 5, 6, 7]].copy().view(np.float32), neginf=-1e3)
    return values, rows[..., [4, 8]]


def close(got, want, tolerance):
    got, want = np.asarray(got, np.float64), np.asarray(want, np.float64)
    np.testing.assert_allclose(got, want, rtol=0, atol=tolerance * max(np.abs(want).max(), 1e-6))


@unittest.skipIf(OBSTACLE, OBSTACLE)
class JaxCuda(unittest.TestCase):
    def put(self, *arrays):
        return [jax.device_put(x, GPUS[0]) for x in arrays]

    def test_numbers_of_the_cpu(self):
        cpu = jax.devices("cpu")[0]
        for number, options in enumerate(CASES):
            for math in ("exact", "split") if number < 3 else ("exact",):
                with self.subTest(math=math, **options):
                    criterion = make(**options, math=math)
                    step, states = stepper(criterion), [jax.device_put(criterion.init(), device) for device in (cpu, GPUS[0])]
                    labels = np.arange(BATCH, dtype=np.int32) % 3
                    for epoch in range(4):
                        data = (*batch(epoch), labels)
                        (one, states[0], here), (two, states[1], there) = (
                            step(*(jax.device_put(x, device) for x in data), state, epoch)
                            for device, state in zip((cpu, GPUS[0]), states))
                        self.assertEqual(two.devices(), {GPUS[0]})
                        close(two, one, 2e-5)
                        for got, want in zip(there, here):
                            close(got, want, 2e-5)
                    (want, clocks), (got, gpu_clocks) = map(floats, states)
                    close(got, want, 2e-5)
                    np.testing.assert_array_equal(gpu_clocks, clocks)

    def test_float64_reference(self):
        try:
            import torch
        except ImportError:
            self.skipTest("PyTorch is not installed: the reference is written in it")
        from .reference import Reference
        for loss in ("sogclr", "simclr", "clip", "fastclip"):
            with self.subTest(loss=loss):
                criterion, reference = make(loss, tau=0.25, math="split"), Reference(SAMPLES, loss=loss, alpha=0.2, lambda_lr=0.2, tau=0.25)
                step, (state,) = stepper(criterion), self.put(criterion.init())
                for epoch in range(4):
                    a, b, index = batch(epoch)
                    x = [torch.tensor(t, dtype=torch.float64, requires_grad=True) for t in (a, b)]
                    value, surrogate = reference.step(*x, index, None, None, epoch)
                    surrogate.backward()
                    got, state, grads = step(*self.put(a, b, index), None, state, epoch)
                    close(got, value.item(), 2e-5)
                    for ours, theirs in zip(grads, x):
                        close(ours, theirs.grad.numpy(), 2e-5)
                want = [[row["lambda"] for row in rows] for rows in reference.state]
                close(criterion.thresholds(state), want, 2e-5)

    def test_large_batch(self):
        """The kernels of large batches, wide and narrow, against the CPU."""
        rng = np.random.default_rng(0)
        for loss, dim in (("simclr", 128), ("clip", 512), ("sogclr", 96)):
            with self.subTest(loss=loss, dim=dim):
                a = rng.normal(size=(1024, dim)).astype(np.float32)
                b = (a + 0.5 * rng.normal(size=a.shape)).astype(np.float32)
                index = rng.permutation(2000)[:1024]
                criterion = GloFNDLoss(2000, loss, alpha=0.05, lambda_init="one", math="split")
                step, results = stepper(criterion), []
                for device in (jax.devices("cpu")[0], GPUS[0]):
                    state = jax.device_put(criterion.init(), device)
                    results.append(step(*(jax.device_put(x, device) for x in (a, b, index)), None, state, 0))
                (one, _, here), (two, _, there) = results
                close(two, one, 2e-5)
                close(there[0], here[0], 2e-5)
                close(there[1], here[1], 2e-5)

    def test_state_is_functional_and_steps_repeat_to_the_bit(self):
        criterion = make()
        (start,) = self.put(criterion.init())
        before = np.asarray(start).copy()
        one, after = criterion(*self.put(*batch(0)), start)
        criterion(*self.put(*batch(1)), after)
        two, again = criterion(*self.put(*batch(0)), start)
        np.testing.assert_array_equal(start, before)
        self.assertEqual(one, two)
        np.testing.assert_array_equal(after, again)
        self.assertEqual(after.devices(), {GPUS[0]})

    def test_scan_donation_and_pickle(self):
        criterion = make()
        data = self.put(*(np.stack(xs) for xs in zip(*map(batch, range(5)))))

        def body(state, x):
            loss, state = criterion(*x, state)
            return state, loss

        state, losses = jax.jit(lambda s: jax.lax.scan(body, s, data), donate_argnums=0)(*self.put(criterion.init()))
        other, (loop,), expected = pickle.loads(pickle.dumps(criterion)), self.put(criterion.init()), []
        for i in range(5):
            loss, loop = other(*(x[i] for x in data), loop)
            expected.append(float(loss))
        np.testing.assert_array_equal(losses, expected)
        np.testing.assert_array_equal(state, loop)
        np.testing.assert_array_equal(pickle.loads(pickle.dumps(state)), loop)

    def test_gradient_of_tau_and_types(self):
        criterion = make("clip", detector="none", math="split")
        a, b, index, state = self.put(*batch(0), criterion.init())
        run = lambda tau: criterion(a, b, index, state, tau=tau)[0]
        slope = jax.grad(run)(0.3)
        self.assertAlmostEqual(float(slope), float(run(0.301) - run(0.299)) / 0.002, delta=2e-3 * abs(float(slope)) + 1e-3)
        for dtype in (jnp.bfloat16, jnp.float16):
            low = [x.astype(dtype) for x in (a, b)]
            slope = lambda x, y: jax.grad(lambda x: 2 * criterion(x, y, index, state)[0])(x)
            grads = slope(*low)
            self.assertEqual(grads.dtype, dtype)
            np.testing.assert_allclose(grads.astype(jnp.float32), slope(*(x.astype(jnp.float32) for x in low)), rtol=1e-2, atol=1e-4)

    def test_work_before_and_after_is_in_order(self):
        """The step reads what other work of the program made, and is read by work queued after it."""
        criterion = make(detector="none")
        a, b, index, state = self.put(*batch(0), criterion.init())
        big, = self.put(np.random.default_rng(0).normal(size=(4096, 4096)).astype(np.float32))

        @jax.jit
        def program(a, b, big):
            slow = jax.lax.fori_loop(0, 20, lambda _, x: jnp.tanh(x @ big / 64), big)
            late = a + 0 * slow[0, 0]
            loss, _ = criterion(late, b, index, state)
            return loss * 2

        want, _ = criterion(a, b, index, state)
        for _ in range(5):
            self.assertEqual(float(program(a, b, big)), 2 * float(want))

    def test_wrong_use(self):
        criterion = make()
        a, b, index, state = self.put(*batch(0), criterion.init())
        for error, text, call in (
                (glofnd.AnchorIndexError, "^index.0., .* is outside the store$", lambda i: criterion(a, b, i + 64, state)),
                (glofnd.AnchorIndexError, "differ", lambda i: criterion(a, b, i * 0, state)),
                (glofnd.NumericError, "", lambda i: criterion(a * jnp.nan, b, i, state))):
            with self.subTest(text):
                with self.assertRaisesRegex(error, text):
                    call(index)
                with self.assertRaisesRegex(error, text), errors():
                    jax.block_until_ready(jax.jit(call)(index))
        with self.assertRaises(ValueError):  # JAX's own: arrays of one program are on one device
            criterion(a, b, index, jax.device_put(state, jax.devices("cpu")[0]))
        loss, _ = criterion(a, b, index, state)  # a refused step leaves nothing behind
        self.assertEqual(loss, make()(a, b, index, state)[0])

    @unittest.skipUnless(len(GPUS) > 1, "needs two GPUs")
    def test_second_gpu(self):
        criterion = make()
        with self.assertRaisesRegex(glofnd.DeviceError, "CUDA device 1, but this loss was made on device 0"):
            criterion(*(jax.device_put(x, GPUS[1]) for x in (*batch(0), criterion.init())))


if __name__ == "__main__":
    unittest.main()
