"""Level 3: the calls of xla_step.c that serve a GPU, on a machine without one. A stand-in for the driver takes the memory of the host for that of the
device and counts what is asked of it; the steps are those of a context for the CPU, so results are known to the bit."""

import ctypes
import os
import shutil
import subprocess
import tempfile
import unittest

try:
    import jax
except ImportError:
    raise unittest.SkipTest("JAX is not installed") from None
import jax.numpy as jnp
import numpy as np

import glofnd
from glofnd import jax as layer
from glofnd._engine import Engine

from .test_jax import BATCH, SAMPLES, batch

DRIVER = r"""
#include <string.h>
int copies, waits, capturing, device, pushes;     /* counted, or set by the test */
int cuMemcpyDtoHAsync_v2(void *to, unsigned long long from, size_t n, void *s) { (void)s; copies++; memcpy(to, (void *)from, n); return 0; }
int cuMemcpyDtoDAsync_v2(unsigned long long to, unsigned long long from, size_t n, void *s) { (void)s; copies++; memcpy((void *)to, (void *)from, n); return 0; }
int cuStreamSynchronize(void *s) { (void)s; waits++; return 0; }
int cuStreamIsCapturing(void *s, int *out) { (void)s; *out = capturing; return 0; }
int cuCtxGetDevice(int *out) { *out = device; return 0; }
int cuCtxGetCurrent(void **out) { *out = &device; return 0; }
int cuCtxPushCurrent_v2(void *c) { pushes += c == &device; return 0; }
int cuCtxPopCurrent_v2(void **c) { *c = &device; pushes--; return 0; }
"""

# Hands a call of the CPU to the call of a GPU, with a stream; and what a context for the CPU cannot do.
SHIM = r"""
#include <glofnd.h>
#include "xla/ffi/api/c_api.h"
XLA_FFI_Handler *step, *begin;                    /* set by the test */
void *stream, *streams[8];                        /* of the next call; those that the context was given */
int given, reserved, noticed, checked, replays;   /* noticed: the status that the device has seen; replays: no step is captured */
static XLA_FFI_Error *get_stream(XLA_FFI_Stream_Get_Args *args) { args->stream = stream; return 0; }
static XLA_FFI_Error *call(XLA_FFI_Handler *handler, XLA_FFI_CallFrame f, XLA_FFI_ExecutionStage stage) {
    XLA_FFI_Api api = *f.api;
    api.XLA_FFI_Stream_Get = get_stream;
    f.api = &api, f.stage = stage;
    return handler(&f);
}
XLA_FFI_Error *as_cuda(XLA_FFI_CallFrame *f) {
    if (f->extension_start || f->stage != XLA_FFI_ExecutionStage_EXECUTE) return step(f);
    XLA_FFI_Error *error = begin ? call(begin, *f, XLA_FFI_ExecutionStage_INITIALIZE) : 0;
    return error || replays ? error : call(step, *f, XLA_FFI_ExecutionStage_EXECUTE);
}
int take_stream(void *c, void *s) { (void)c; streams[given++ % 8] = s; return 0; }
int reserve(void *c, int64_t rows, int64_t cols, int64_t dim, size_t *bytes) { (void)c, (void)bytes; reserved = rows == cols ? (int)(rows * dim) : -1; return 0; }
int loss_later(void *c, float *loss, float *grad_tau) { (void)c; if (loss) *loss = 7, *grad_tau = 8; const int was = noticed; noticed = 0; return was; }
int stats_later(void *c, void *stats) { (void)c, (void)stats; checked++; const int was = noticed; noticed = 0; return was; }
const char *text_later(void *c) { (void)c; return "batch.id[2], or the slot given for it, is outside the store"; }
"""


def build(folder, name, source, *flags):
    path = os.path.join(folder, name)
    with open(path + ".c", "w", encoding="utf-8") as file:
        file.write(source)
    subprocess.run([shutil.which(os.environ.get("CC", "cc")), "-std=gnu17", "-fPIC", "-shared", "-Wl,-Bsymbolic", path + ".c", "-o", path, *flags], check=True)
    return ctypes.CDLL(path)


def number(library, name):
    return ctypes.c_int.in_dll(library, name)


@unittest.skipIf(layer._sees_gpu(), "this process has a real driver")
class JaxCalls(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if not shutil.which(os.environ.get("CC", "cc")):
            raise unittest.SkipTest("there is no C compiler")
        with open("/proc/self/maps", encoding="utf-8") as maps:
            if "libcuda.so" in maps.read():
                raise unittest.SkipTest("this process has a driver already")
        with tempfile.TemporaryDirectory() as folder:
            # By its name the stand-in is found before a driver of this machine.
            cls.driver = build(folder, "libcuda.so.1", DRIVER, "-Wl,-soname,libcuda.so.1")
            cls.shim = build(folder, "shim.so", SHIM, f"-I{layer._header_folder()}", f"-I{jax.ffi.include_dir()}")
        cls.set_handlers(layer._calls().glofnd_xla_step_cuda, None)  # registering asks it for its version
        jax.ffi.register_ffi_target("glofnd_step_as_cuda", jax.ffi.pycapsule(cls.shim.as_cuda), platform="cpu")

    @classmethod
    def set_handlers(cls, step, begin):
        for name, handler in (("step", step), ("begin", begin)):
            ctypes.c_void_p.in_dll(cls.shim, name).value = ctypes.cast(handler, ctypes.c_void_p).value if handler else None

    def make(self, loss="sogclr", graph=False, **options):
        """A loss whose steps go through the calls of a GPU, and one on the CPU."""
        options = {"alpha": 0.2, "lambda_lr": 0.2, "lambda_init": "one", **options}
        criterion, plain = (layer.GloFNDLoss(SAMPLES, loss, **options) for _ in range(2))
        calls = layer._calls()
        if graph:
            self.set_handlers(calls.glofnd_xla_step_graph, calls.glofnd_xla_begin_graph)
        else:
            self.set_handlers(calls.glofnd_xla_step_cuda, None)
        self.engine = Engine(1, 0, criterion._engine.values)
        self.table = layer._alive[criterion.handle][1]
        self.table.ctx[1] = self.engine._context.value
        self.replace("ctx_stream", "take_stream")
        self.replace("ctx_reserve", "reserve")
        for library, names in ((self.driver, ("copies", "waits", "capturing", "device", "pushes")),
                               (self.shim, ("given", "reserved", "noticed", "checked", "replays"))):
            for name in names:
                number(library, name).value = 0
        self.use_stream(0x100)
        self.assertEqual(calls.glofnd_xla_set(criterion.handle, ctypes.byref(self.table)), 0)
        self.addCleanup(self.give_back, self.table, self.engine)
        criterion._target = "glofnd_step_as_cuda"
        return criterion, plain

    @staticmethod
    def give_back(table, engine):
        table.ctx[1], table.unknown = None, 0
        engine.close()

    def replace(self, field, function):
        setattr(self.table, field, ctypes.cast(getattr(self.shim, function), ctypes.c_void_p).value)

    def use_stream(self, stream):
        ctypes.c_void_p.in_dll(self.shim, "stream").value = stream

    def counted(self, name):
        return number(self.driver if name in ("copies", "waits", "pushes") else self.shim, name).value

    def expect_same(self, criterion, plain, epochs=range(3), dtype=np.float32, **arguments):
        labels = jnp.arange(BATCH) % 3
        steps = [jax.jit(lambda a, b, index, state, epoch, x=x: jax.value_and_grad(
            lambda a, b: x(a, b, index, state, epoch=epoch, labels=labels, **arguments), argnums=(0, 1), has_aux=True)(a, b), donate_argnums=3)
            for x in (criterion, plain)]
        states = [plain.init(), plain.init()]
        for epoch in epochs:
            a, b, index = batch(epoch)
            results = [step(a.astype(dtype), b.astype(dtype), index, state, epoch) for step, state in zip(steps, states)]
            states = [result[0][1] for result in results]
            jax.tree.map(np.testing.assert_array_equal, *results)

    def test_steps_wait_for_nothing(self):
        for options in ({}, {"loss": "clip"}, {"loss": "isogclr"}, {"detector": "single"}, {"detector": "oracle"}):
            with self.subTest(**options):
                self.expect_same(*self.make(**options))
                self.assertEqual((self.counted("waits"), self.counted("copies")), (0, 0))
                self.assertEqual(ctypes.c_void_p.in_dll(self.shim, "streams").value, 0x100)

    def test_shorter_types(self):
        criterion, plain = self.make("clip")
        self.expect_same(criterion, plain, dtype=jnp.bfloat16)
        self.assertEqual(self.table.unknown, 1)

    def test_a_temperature_is_read_where_it_is(self):
        criterion, plain = self.make("clip", tau=0.25)
        a, b, index = batch(0)
        one, two = (jax.jit(jax.value_and_grad(lambda tau, x=x: x(a, b, index, plain.init(), tau=tau)[0])) for x in (criterion, plain))
        for tau in (0.5, 0.2, 0.0):
            self.assertEqual(one(tau), two(tau))
        self.assertEqual((self.counted("waits"), self.counted("copies")), (0, 0))
        individual, plain = self.make("isogclr", tau=0.25)
        one, two = (jax.jit(lambda tau, x=x: x(a, b, index, plain.init(), tau=tau)[0]) for x in (individual, plain))
        self.assertEqual(one(0.2), two(0.2))
        self.assertEqual((self.counted("waits"), self.counted("copies")), (1, 1))

    def test_an_epoch_that_matters_is_waited_for(self):
        criterion, plain = self.make(start_epoch=1)
        self.expect_same(criterion, plain)
        self.assertEqual((self.counted("waits"), self.counted("copies")), (3, 3))
        constant = jax.jit(lambda state, epoch: criterion(*batch(0), state, epoch=epoch), static_argnums=1)
        constant(criterion.init(), 2)
        self.assertEqual((self.counted("waits"), self.counted("copies")), (3, 3))
        number(self.driver, "capturing").value = 1
        with self.assertRaisesRegex(glofnd.UnsupportedError, "command buffer"), layer.errors():
            jax.block_until_ready(jax.jit(lambda epoch: criterion(*batch(0), plain.init(), epoch=epoch))(0))

    def test_state_that_shares_no_buffer_is_copied(self):
        criterion, plain = self.make()
        a, b, index = map(jnp.asarray, batch(0))
        state = plain.init()
        want, new_state = plain(a, b, index, state)
        kinds = [jax.ShapeDtypeStruct(x.shape, x.dtype) for x in (want, a, a, want, state)]
        got = jax.ffi.ffi_call("glofnd_step_as_cuda", kinds)(
            a, b, jnp.stack([index, 0 * index], axis=1), jnp.zeros(0, jnp.int32), jnp.int32(0), jnp.float32(0), state,
            handle=np.int64(criterion.handle), epoch=np.int64(0), tau=np.float64(0), read=np.int64(0))
        self.assertEqual(got[0], want)
        np.testing.assert_array_equal(got[4], new_state)
        self.assertEqual((self.counted("waits"), self.counted("copies")), (0, 1))

    def test_another_stream_waits_for_the_one_before(self):
        criterion, plain = self.make()
        step = jax.jit(lambda state: criterion(*batch(0), state)[0])
        for stream, waits in ((0x100, 0), (0x200, 1), (0x200, 1), (0x100, 2)):
            self.use_stream(stream)
            step(plain.init()).block_until_ready()
            self.assertEqual(self.counted("waits"), waits)

    def test_failures_that_the_device_saw(self):
        criterion, plain = self.make()
        for field, function in (("ctx_loss", "loss_later"), ("ctx_stats", "stats_later"), ("ctx_error", "text_later")):
            self.replace(field, function)
        step = jax.jit(lambda state: criterion(*batch(0), state)[0])
        self.assertEqual(step(plain.init()), 7)
        number(self.shim, "noticed").value = 12
        with self.assertRaisesRegex(glofnd.AnchorIndexError, "^index.2., or the slot.*outside the store$"), layer.errors():
            step(plain.init()).block_until_ready()
        step(plain.init()).block_until_ready()
        number(self.shim, "noticed").value = 12
        with self.assertRaises(glofnd.AnchorIndexError):
            criterion.check()
        criterion.check()  # no step since then: nothing is waited for
        self.assertEqual((self.counted("checked"), self.counted("pushes")), (1, 0))
        with self.assertRaises(glofnd.AnchorIndexError), layer.errors():
            step(plain.init()).block_until_ready()
            number(self.shim, "noticed").value = 12
        with self.assertRaises(glofnd.AnchorIndexError):  # called directly, a step waits
            number(self.shim, "noticed").value = 12
            criterion(*map(jnp.asarray, batch(0)), plain.init())

    def test_a_command_buffer(self):
        """Every run begins with a call that takes memory and reports failures; a capture records the step and waits for nothing."""
        criterion, plain = self.make(graph=True)
        self.expect_same(criterion, plain)
        self.assertEqual(self.counted("reserved"), BATCH * 8)
        step = jax.jit(lambda state: criterion(*batch(0), state)[0])
        number(self.driver, "capturing").value = 1
        self.use_stream(0x300)
        step(plain.init()).block_until_ready()
        number(self.driver, "capturing").value = 0
        self.use_stream(0x100)
        step(plain.init()).block_until_ready()
        self.assertEqual((self.counted("waits"), self.counted("copies")), (0, 0))
        for field, function in (("ctx_loss", "loss_later"), ("ctx_error", "text_later")):
            self.replace(field, function)
        number(self.shim, "replays").value = 1
        step(plain.init()).block_until_ready()
        number(self.shim, "noticed").value = 12
        with self.assertRaises(glofnd.AnchorIndexError), layer.errors():
            step(plain.init()).block_until_ready()

    def test_wrong_gpus(self):
        criterion, plain = self.make()
        step = jax.jit(lambda state: criterion(*batch(0), state)[0])
        number(self.driver, "device").value = 1
        with self.assertRaisesRegex(glofnd.DeviceError, "on CUDA device 1, but this loss was made on device 0"), layer.errors():
            step(plain.init()).block_until_ready()
        self.table.ctx[1] = None
        with self.assertRaisesRegex(glofnd.DeviceError, "this libglofnd cannot use"), layer.errors():
            step(plain.init()).block_until_ready()


if __name__ == "__main__":
    unittest.main()
