"""Level 3: glofnd.jax against the C step and finite differences."""

import copy
import os
import pickle
import tempfile
import unittest
from unittest import mock

try:
    import jax
except ImportError:
    raise unittest.SkipTest("JAX is not installed") from None
import jax.numpy as jnp
import numpy as np

import glofnd
from glofnd.jax import GloFNDLoss, errors, loss_and_state
from glofnd.numpy import GloFND

SAMPLES, BATCH, DIM = 64, 16, 8


def setUpModule():
    """On a machine with a GPU, too: steps on the CPU are equal to the bit."""
    jax.config.update("jax_default_device", jax.devices("cpu")[0])


def tearDownModule():
    jax.config.update("jax_default_device", None)


def batch(seed):
    rng = np.random.default_rng(seed)
    a = rng.normal(size=(BATCH, DIM)).astype(np.float32)
    b = (a + 0.5 * rng.normal(size=(BATCH, DIM))).astype(np.float32)
    return a, b, rng.permutation(SAMPLES)[:BATCH]


def make(loss="sogclr", **options):
    return GloFNDLoss(SAMPLES, loss, **{"alpha": 0.2, "lambda_lr": 0.2, "lambda_init": "one", **options})


class Jax(unittest.TestCase):
    def test_equal_to_the_c_step_to_the_bit(self):
        for options in ({}, {"loss": "simclr", "action": "attract"}, {"loss": "clip"}, {"loss": "fastclip", "action": "weight"},
                        {"loss": "isogclr"}, {"detector": "single"}, {"detector": "oracle"}, {"learner": "adam-official"}):
            with self.subTest(**options):
                criterion, plain = make(**options), GloFND(SAMPLES, alpha=0.2, lambda_lr=0.2, lambda_init="one", **options)
                labels = jnp.arange(BATCH) % 3 if options.get("detector") == "oracle" else None

                @jax.jit
                def step(a, b, index, state, epoch):
                    run = lambda a, b: loss_and_state(criterion, a, b, index, state, epoch=epoch, labels=labels)
                    return jax.value_and_grad(run, argnums=(0, 1), has_aux=True)(a, b)

                state = criterion.init()
                for epoch in range(4):
                    a, b, index = batch(epoch)
                    (loss, state), grads = step(a, b, index, state, epoch)
                    want = plain.step(a, b, index, epoch=epoch, labels=None if labels is None else np.asarray(labels))
                    self.assertEqual(float(loss), np.float32(want.loss))
                    np.testing.assert_array_equal(grads[0], want.grad_a)
                    np.testing.assert_array_equal(grads[1], want.grad_b)
                for side in range(plain.sides):
                    self.assertEqual(np.asarray(state)[side, :SAMPLES].tobytes(), plain.rows(side=side).tobytes())
                    np.testing.assert_array_equal(criterion.thresholds(state)[side], plain.thresholds(side=side))

    def test_state_is_functional(self):
        criterion = make()
        start = criterion.init()
        before = np.asarray(start).copy()
        one, after = criterion(*map(jnp.asarray, batch(0)), start)
        criterion(*map(jnp.asarray, batch(1)), after)
        two, again = criterion(*map(jnp.asarray, batch(0)), start)
        np.testing.assert_array_equal(start, before)
        self.assertEqual(one, two)
        np.testing.assert_array_equal(after, again)

    def test_donated_state_is_changed_in_place(self):
        criterion, arguments = make("clip"), tuple(map(jnp.asarray, batch(0)))
        _, want = criterion(*arguments, criterion.init())
        step = jax.jit(lambda state: criterion(*arguments, state)[1], donate_argnums=0)
        state = criterion.init()
        place = state.unsafe_buffer_pointer()
        state = step(state)
        self.assertEqual(state.unsafe_buffer_pointer(), place)
        np.testing.assert_array_equal(state, want)
        loop = jax.jit(lambda s: jax.lax.scan(lambda s, _: (criterion(*arguments, s)[1], None), s, None, length=3)[0], donate_argnums=0)
        size = "u32[" + ",".join(map(str, want.shape))
        self.assertNotIn("copy", [line.split("= ")[1].split("(")[0].split()[-1] for line in
                                  loop.lower(state).compile().as_text().splitlines() if f"= {size}" in line])

    def test_a_call_without_a_shared_buffer(self):
        """XLA shares the buffer of the state, as the call asks for; if it ever does not, the state is copied."""
        criterion, (a, b, index) = make(), map(jnp.asarray, batch(0))
        state = criterion.init()
        want, new_state = criterion(a, b, index, state)
        kinds = [jax.ShapeDtypeStruct(x.shape, x.dtype) for x in (want, a, a, want, state)]
        ids = jnp.stack([index, 0 * index], axis=1)
        call = jax.ffi.ffi_call("glofnd_step", kinds)
        got = call(a, b, ids, jnp.zeros(0, jnp.int32), jnp.int32(0), jnp.float32(0), state, handle=np.int64(criterion.handle),
                   epoch=np.int64(0), tau=np.float64(0), read=np.int64(0))
        self.assertEqual(got[0], want)
        np.testing.assert_array_equal(got[4], new_state)
        with self.assertRaisesRegex(Exception, "GLOFND_E_ARGUMENT: glofnd_step has other operands"):
            call(a, b, ids, jnp.zeros(0, jnp.int32), jnp.int32(0), jnp.float32(0), state, handle=np.int64(criterion.handle))

    def test_epochs_known_and_not(self):
        """An epoch is a constant of the program, or an operand; one that changes nothing is not read."""
        for options, differ, firsts in (({}, False, [0, 0, 0, 0]), ({"start_epoch": 2}, True, [0, 0, 2, 2]),
                                        ({"update_epoch": 1, "start_epoch": 2, "lambda_warmup": 1}, True, [0, 1, 2, 2]),
                                        ({"learner": "adam-official"}, True, [0, 1, 2, 3])):
            with self.subTest(**options):
                criterion = make(alpha=0.3, **options)
                self.assertEqual(criterion._phases.differ, differ)
                self.assertEqual([criterion._phases.first(epoch) for epoch in range(4)], firsts)
                constant = jax.jit(lambda s, a, b, index, epoch: criterion(a, b, index, s, epoch=epoch), static_argnums=4)
                operand = jax.jit(lambda s, a, b, index, epoch: criterion(a, b, index, s, epoch=epoch))
                states = [criterion.init()] * 3
                for epoch in range(4):
                    x = batch(epoch)
                    results = [constant(states[0], *x, epoch), operand(states[1], *x, epoch), criterion(*x, states[2], epoch=np.int64(epoch))]
                    losses, states = zip(*results)
                    self.assertEqual(losses[0], losses[1])
                    self.assertEqual(losses[0], losses[2])
                    np.testing.assert_array_equal(states[0], states[1])
                    np.testing.assert_array_equal(states[0], states[2])

    def test_temperatures_known_and_not(self):
        for loss in ("sogclr", "clip", "isogclr"):
            with self.subTest(loss):
                criterion, arguments = make(loss, tau=0.25, detector="none"), batch(0)
                run = jax.jit(lambda tau: criterion(*arguments, criterion.init(), tau=tau)[0])
                for tau in (0.5, 0.25):
                    self.assertEqual(run(tau), criterion(*arguments, criterion.init(), tau=tau)[0])
                self.assertEqual(run(0.0), criterion(*arguments, criterion.init())[0])
                with self.assertRaisesRegex(glofnd.OptionError, "tau is -1"), errors():
                    run(-1.0).block_until_ready()

    def test_rows_that_no_step_can_continue_from(self):
        criterion, (a, b, index) = make(), batch(0)
        rows = np.asarray(criterion.init()).copy()
        rows[0, index[3], 0] = np.float32(np.nan).view(np.uint32)
        with self.assertRaisesRegex(glofnd.NumericError, f"state.{index[3]}..lambda is not finite"):
            criterion(a, b, index, jnp.asarray(rows))
        criterion(a, b, np.delete(np.arange(SAMPLES), index[3])[:BATCH], jnp.asarray(rows))  # not among them

    def test_command_buffer_and_check_on_the_cpu(self):
        criterion = make(command_buffer=True)
        arguments = (*map(jnp.asarray, batch(0)), criterion.init())
        self.assertEqual(jax.jit(criterion)(*arguments)[0], make()(*arguments)[0])
        self.assertEqual(pickle.loads(pickle.dumps(criterion))._target, criterion._target)
        criterion.check()

    def test_scan_and_donation(self):
        criterion = make()
        a, b, index = (jnp.stack([jnp.asarray(x) for x in xs]) for xs in zip(*map(batch, range(5))))

        def body(state, x):
            loss, state = criterion(*x, state)
            return state, loss

        state, losses = jax.jit(lambda s: jax.lax.scan(body, s, (a, b, index)), donate_argnums=0)(criterion.init())
        loop, expected = criterion.init(), []
        for i in range(5):
            loss, loop = criterion(a[i], b[i], index[i], loop)
            expected.append(float(loss))
        np.testing.assert_array_equal(losses, expected)
        np.testing.assert_array_equal(state, loop)

    def test_gradient_of_tau_and_types(self):
        criterion = make("clip", detector="none")
        a, b, index = map(jnp.asarray, batch(0))
        run = lambda tau: criterion(a, b, index, criterion.init(), tau=tau)[0]
        slope = jax.grad(run)(0.3)
        self.assertAlmostEqual(float(slope), float(run(0.301) - run(0.299)) / 0.002, delta=2e-3 * abs(float(slope)) + 1e-3)
        for dtype in (jnp.bfloat16, jnp.float16):
            low = [x.astype(dtype) for x in (a, b)]
            grads = jax.grad(lambda x: 2 * criterion(x, low[1], index, criterion.init())[0])(low[0])
            exact = jax.grad(lambda x: 2 * criterion(x, low[1].astype(jnp.float32), index, criterion.init())[0])(
                low[0].astype(jnp.float32))
            self.assertEqual(grads.dtype, dtype)
            np.testing.assert_allclose(grads.astype(jnp.float32), exact, rtol=1e-2, atol=1e-4)

    def test_wrong_use(self):
        criterion = make()
        a, b, index = map(jnp.asarray, batch(0))
        state = criterion.init()
        for error, text, call in (
                (glofnd.ArgumentError, "one .batch, dim.", lambda: criterion(a, b[:, :4], index, state)),
                (glofnd.ArgumentError, "integers", lambda: criterion(a, b, index * 1.0, state)),
                (glofnd.ArgumentError, "as init", lambda: criterion(a, b, index, state[:, :5])),
                (glofnd.OptionError, "ring.*not available in glofnd.jax", lambda: make(learner="ring")),
                (glofnd.OptionError, "bank.*not available in glofnd.jax", lambda: make(similarity="bank")),
                (glofnd.ArgumentError, "z1 is int32; expected float32", lambda: criterion(a.astype(int), b.astype(int), index, state)),
                (glofnd.OptionError, "alpha", lambda: make(alpah=0.1)),
                (glofnd.AnchorIndexError, "0 .. 63", lambda: criterion(a, b, index + 64, state)),
                (glofnd.AnchorIndexError, "ids must differ", lambda: criterion(a, b, index * 0, state)),
                (glofnd.NumericError, "z1.*nan", lambda: criterion(a * jnp.nan, b, index, state)),
                (glofnd.NumericError, "nan", lambda: jax.grad(lambda x: criterion(x, b, index, state)[0])(a * jnp.nan)),
                (glofnd.UnsupportedError, "lax.scan", lambda: jax.vmap(lambda x: criterion(x, b, index, state)[0])(jnp.stack([a, a])))):
            with self.subTest(text), self.assertRaisesRegex(error, text):
                call()

    def test_a_second_wrong_call_raises_the_same(self):
        """JAX calls a compiled program by another way, which has another exception."""
        criterion, (a, b, index) = make(), batch(0)
        state = criterion.init()
        criterion(a, b, index, state)
        for convert in (np.asarray, jnp.asarray):
            for _ in range(3):
                with self.assertRaisesRegex(glofnd.AnchorIndexError, "^index.0. is -1; there are samples 0 .. 63$"):
                    criterion(*map(convert, (a, b)), convert(index * 0 - 1), state)
                with self.assertRaisesRegex(glofnd.ArgumentError, "epoch"):
                    criterion(a, b, convert(index), state, epoch=-1)
                with self.assertRaisesRegex(glofnd.OptionError, "tau"):
                    criterion(a, b, convert(index), state, tau=-1.0)

    def test_numbers_that_do_not_fit(self):
        criterion, (a, b, index) = make(), batch(0)
        state = criterion.init()
        with self.assertRaisesRegex(glofnd.AnchorIndexError, "index holds .*4294967296.* 0 .. 63"):  # not sample 0
            criterion(a, b, np.arange(BATCH) + 2**32, state)
        oracle = make(detector="oracle")
        none = oracle(a, b, index, state, labels=np.full(BATCH, -1))[0]
        self.assertEqual(oracle(a, b, index, state, labels=np.full(BATCH, -2**32))[0], none)
        classes = np.arange(BATCH) % 3
        for large in (2**40 * classes, 2**32 * classes + 5, (2**31 * (classes > 0) + classes).astype(np.uint32)):  # equal in 32 bits, or not
            self.assertEqual(oracle(a, b, index, state, labels=large)[0], oracle(a, b, index, state, labels=classes)[0])
        mixed = np.where(classes == 1, -1, 2**40 * classes)
        self.assertEqual(oracle(a, b, index, state, labels=mixed)[0], oracle(a, b, index, state, labels=np.where(classes == 1, -1, classes))[0])
        under_jit = jax.jit(lambda index: criterion(a, b, index, state)[0])
        self.assertEqual(under_jit(np.arange(BATCH, dtype=np.uint32)), criterion(a, b, np.arange(BATCH), state)[0])
        if hasattr(jax, "enable_x64"):
            with jax.enable_x64(True), self.assertRaisesRegex(glofnd.AnchorIndexError, "is -1"), errors():
                under_jit(jnp.arange(BATCH) + 2**32).block_until_ready()
            with jax.enable_x64(True), self.assertRaisesRegex(glofnd.AnchorIndexError, "4294967296"):
                criterion(a, b, jnp.arange(BATCH) + 2**32, state)
            with jax.enable_x64(True):
                traced = jax.jit(lambda x: oracle(a, b, index, state, labels=x)[0])
                self.assertEqual(traced(jnp.asarray(mixed)), oracle(a, b, index, state, labels=mixed)[0])

    def test_arguments_that_are_none(self):
        criterion, (a, b, index) = make(), batch(0)
        state = criterion.init()
        for error, text, call in (
                (glofnd.ArgumentError, "z1 is of type list", lambda: criterion(a.tolist(), b, index, state)),
                (glofnd.ArgumentError, "index is of type list", lambda: criterion(a, b, index.tolist(), state)),
                (glofnd.ArgumentError, "state is of type NoneType.*init", lambda: criterion(a, b, index, None)),
                (glofnd.ArgumentError, "epoch is 1.5", lambda: criterion(a, b, index, state, epoch=1.5)),
                (glofnd.ArgumentError, "epoch is None", lambda: criterion(a, b, index, state, epoch=None)),
                (glofnd.OptionError, "device", lambda: make(device="cpu")),
                (glofnd.OptionError, "tau is 'warm'", lambda: make(tau="warm")),
                (glofnd.ArgumentError, "num_samples is 64.5", lambda: GloFNDLoss(64.5))):
            with self.subTest(text), self.assertRaisesRegex(error, text):
                call()

    def test_the_call_cannot_be_made(self):
        from glofnd import jax as layer
        source, headers = os.path.join(layer._here, "xla_step.c"), [layer._header_folder(), jax.ffi.include_dir()]
        with tempfile.TemporaryDirectory() as folder:
            for compiler, text in (("no-such-compiler", "needs a C compiler"), ("false", "does not compile")):
                with self.subTest(text), mock.patch.dict(os.environ, CC=compiler), self.assertRaisesRegex(ImportError, text):
                    layer._compile(source, headers, folder, os.path.join(folder, "call.so"))
            self.assertEqual(os.listdir(folder), [])
        with mock.patch.object(layer.os.path, "exists", lambda path: False), self.assertRaisesRegex(ImportError, "glofnd.h is missing"):
            layer._header_folder()
        with mock.patch.object(layer, "_calls") as calls, self.assertRaisesRegex(glofnd.ArgumentError, "one per configuration"):
            calls.return_value.glofnd_xla_set.return_value = 1
            make()

    def test_failures_under_jit(self):
        criterion = make()
        a, b, index = map(jnp.asarray, batch(0))
        program = jax.jit(lambda index: criterion(a, b, index, criterion.init())[0])
        with self.assertRaisesRegex(jax.errors.JaxRuntimeError, "GLOFND_E_INDEX: index.* 0 .. 63"):
            program(index + 64).block_until_ready()
        with self.assertRaisesRegex(glofnd.AnchorIndexError, "^index.* 0 .. 63$"), errors():
            program(index + 64).block_until_ready()
        with self.assertRaisesRegex(glofnd.DeviceError, "^the GPU failed$"), errors():  # what XLA adds on a GPU is left out
            raise jax.errors.JaxRuntimeError("INTERNAL: GLOFND_E_DEVICE: the GPU failed [executable_name='jit_f']\nand more")
        with self.assertRaisesRegex(jax.errors.JaxRuntimeError, "of others"), errors():
            raise jax.errors.JaxRuntimeError("a failure of others")
        program(index)

    def test_pickle_and_copy(self):
        criterion = make("clip", start_epoch=3, tau=0.2)
        for other in (pickle.loads(pickle.dumps(criterion)), copy.deepcopy(criterion)):
            for epoch in (0, 3):
                arguments = (*map(jnp.asarray, batch(0)), criterion.init())
                self.assertEqual(other(*arguments, epoch=epoch)[0], criterion(*arguments, epoch=epoch)[0])


if __name__ == "__main__":
    unittest.main()
