"""On a GPU, with a library that has CUDA: the same numbers as the CPU, the caller's stream, devices. Skipped elsewhere."""

import contextlib
import copy
import os
import socket
import tempfile
import unittest
import warnings
from unittest import mock

try:
    import torch
except ImportError:
    raise unittest.SkipTest("PyTorch is not installed") from None

import torch.distributed as dist

import glofnd
from glofnd import _torch_op
from glofnd.torch import GloFNDLoss

from . import test_distributed
from .test_torch import BATCH, DIM, SAMPLES, batch, same_state

OBSTACLE = glofnd.device_status("cuda") if torch.cuda.is_available() else "PyTorch sees no GPU"
LOSSES = ("sogclr", "simclr", "clip", "sogclr2", "fastclip", "isogclr")


def make(loss="sogclr", **options):
    return GloFNDLoss(SAMPLES, loss, **{"alpha": 0.2, "lambda_lr": 0.2, "lambda_init": "one", "math": "exact", **options})


def on_gpu(seed, dtype=torch.float32):
    a, b, index = batch(seed)
    return a.cuda().to(dtype).requires_grad_(), b.cuda().to(dtype).requires_grad_(), index.cuda()


def stepped(criterion, a, b, index):
    """What only the device sees is raised at the latest by stats(); the loss is NaN until then."""
    loss = criterion(a, b, index)
    if not torch.isnan(loss):
        raise AssertionError("the loss of a wrong step is a number")
    criterion.stats()


@unittest.skipIf(OBSTACLE, OBSTACLE)
class Cuda(unittest.TestCase):
    def test_a_wrong_loop_is_named_when_the_caller_waits(self):
        criterion = GloFNDLoss(SAMPLES, tau=0.2).cuda()
        index = torch.arange(BATCH, device="cuda")
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            for seed in range(15):
                a, b, _ = on_gpu(seed)
                criterion(a, b, index).backward()
            self.assertEqual([str(x.message) for x in seen], [])
            criterion.stats()
            criterion.stats()
        self.assertEqual(len(seen), 1)
        self.assertIn("in every step", str(seen[0].message))

    def test_numbers_of_the_cpu(self):
        for loss in LOSSES:
            for options in ({}, {"detector": "single"}, {"detector": "fnc"}, {"action": "attract"},
                            {"learner": "ring", "dim": DIM}, {"similarity": "bank", "dim": DIM},
                            {"similarity": "bank", "dim": DIM, "action": "attract"}):
                with self.subTest(loss=loss, **options):
                    here, there = make(loss, **options), make(loss, **options).cuda()
                    for seed in range(4):
                        a, b, index = batch(seed)
                        a.requires_grad_()
                        x, y, device_index = on_gpu(seed)
                        one, two = here(a, b, index), there(x, y, device_index)
                        one.backward()
                        two.backward()
                        torch.testing.assert_close(two.cpu(), one.detach(), rtol=2e-5, atol=2e-5)
                        torch.testing.assert_close(x.grad.cpu(), a.grad, rtol=2e-4, atol=2e-5 * a.grad.abs().max().item())
                    for key, value in here.state_dict().items():
                        if value.is_floating_point():
                            ulp = 2**-10 if value.dtype == torch.float16 else 2e-5
                            torch.testing.assert_close(there.state_dict()[key].cpu(), value, rtol=2e-5, atol=ulp)

    def test_state_moves_between_devices(self):
        for options in ({}, {"loss": "isogclr"}, {"learner": "ring", "dim": DIM}, {"similarity": "bank", "dim": DIM}):
            criterion = make(**options).cuda()
            criterion(*on_gpu(0))
            back = copy.deepcopy(criterion).cpu()
            self.assertTrue(same_state(criterion.cpu(), back))
            self.assertEqual(back(*batch(1)), criterion(*batch(1)))

    def test_store_files_of_both_devices(self):
        for options in ({}, {"loss": "isogclr"}, {"learner": "ring", "dim": DIM}, {"similarity": "bank", "dim": DIM}):
            with self.subTest(**options), tempfile.TemporaryDirectory() as folder:
                criterion = make(**options).cuda()
                criterion(*on_gpu(0))
                criterion.save_store(os.path.join(folder, "store"))
                for other in (make(**options), make(**options).cuda()):
                    other.load_store(os.path.join(folder, "store"))
                    self.assertTrue(same_state(criterion, other))
                self.assertEqual(other(*on_gpu(1)), criterion(*on_gpu(1)))

    def test_current_stream(self):
        streams, criteria = [torch.cuda.Stream() for _ in range(2)], [make().cuda() for _ in range(3)]
        for seed in range(20):
            for stream, criterion in zip(streams, criteria):
                with torch.cuda.stream(stream):
                    criterion(*on_gpu(seed)).backward()
            criteria[2](*on_gpu(seed)).backward()
        torch.cuda.synchronize()
        self.assertTrue(same_state(criteria[0], criteria[2]) and same_state(criteria[1], criteria[2]))

    def test_types_autocast_and_compile(self):
        net = torch.nn.Linear(DIM, DIM).cuda()
        for dtype in (torch.bfloat16, torch.float16):
            a, b, index = on_gpu(0, dtype)
            criterion = make().cuda()
            criterion(a, b, index).backward()
            self.assertEqual(a.grad.dtype, dtype)
        compiled, eager = make().cuda(), make().cuda()
        step = torch.compile(lambda a, b, index: compiled(net(a), net(b), index), fullgraph=True)
        for seed in range(3):
            with torch.autocast("cuda", dtype=torch.bfloat16):
                a, b, index = on_gpu(seed)
                step(a, b, index).backward()
                eager(net(a), net(b), index).backward()
        torch.testing.assert_close(compiled.thresholds(), eager.thresholds())

    def test_float32_is_as_exact_as_in_pytorch(self):
        """With math="split"; the default "auto" rounds to bfloat16 at this temperature."""
        generator = torch.Generator().manual_seed(0)
        a = torch.randn(512, 64, generator=generator)
        b = a + torch.randn(512, 64, generator=generator)
        grads = {}
        for name, dtype, device, math in (("exact", torch.float32, "cpu", {}), ("float32", torch.float32, "cuda", {"math": "split"}),
                                          ("bf16", torch.float32, "cuda", {"math": "bf16"}), ("auto", torch.float32, "cuda", {})):
            criterion = GloFNDLoss(512, "simclr", detector="none", tau=0.1, **math).to(device)
            for kind in (torch.bfloat16, dtype):  # the type may change between steps
                x = a.clone().to(device, kind).requires_grad_()
                criterion(x, b.to(device, kind), torch.arange(512, device=device)).backward()
            grads[name] = x.grad.cpu()
        error = {name: ((grads[name] - grads["exact"]).abs().max() / grads["exact"].abs().max()).item() for name in grads}
        self.assertLess(error["float32"], 1e-5)
        self.assertGreater(error["bf16"], 1e-4)
        self.assertEqual(error["auto"], error["bf16"])

    def test_wrong_use(self):
        a, b, index = on_gpu(0)
        criterion = make().cuda()
        for error, text, call in (
                (glofnd.ArgumentError, "index on cpu", lambda: criterion(a, b, index.cpu())),
                (glofnd.ArgumentError, "this loss on cpu", lambda: make()(a, b, index)),
                (glofnd.AnchorIndexError, "outside the store", lambda: stepped(criterion, a, b, index + SAMPLES)),
                (glofnd.AnchorIndexError, "differ", lambda: stepped(criterion, a, b, index * 0)),
                (glofnd.NumericError, "", lambda: stepped(criterion, a * float("nan"), b, index))):
            with self.subTest(text), self.assertRaisesRegex(error, text):
                call()
        self.assertTrue(same_state(criterion, make().cuda()), "a refused call moved the state")
        criterion(a, b, index)

    def test_a_failure_is_raised_by_a_later_step(self):
        criterion = make().cuda()
        a, b, index = on_gpu(0)
        criterion(a, b, index + SAMPLES)
        torch.cuda.synchronize()
        with self.assertRaises(glofnd.AnchorIndexError):
            criterion(a, b, index)
        criterion(a, b, index)
        criterion.stats()

    def test_a_step_waits_for_nothing(self):
        for loss, options in (("sogclr", {}), ("clip", {"learn_tau": True}), ("simclr", {"detector": "single"})):
            criterion = make(loss, **options).cuda()
            a, b, index = on_gpu(0)
            criterion(a, b, index).backward()  # the workspace is allocated here
            torch.cuda.synchronize()
            done = torch.cuda.Event()
            torch.cuda._sleep(2_000_000_000)  # about a second
            done.record()
            for _ in range(3):
                criterion(a, b, index).backward()
            self.assertFalse(done.query(), f"{loss}: a step waited for the work queued before it")
            self.assertGreater(criterion.stats()["pairs"], 0)
            self.assertTrue(done.query())

    def test_labels_of_any_size(self):
        """Only their equality counts, and no step waits to look at them."""
        a, b, index = on_gpu(0)
        small = torch.arange(len(index), device="cuda") % 5 - 1
        for name, detector in (("labels", "oracle"), ("groups", "groups"), ("labels", "glofnd")):
            for large in (torch.where(small < 0, small, small * 2**32), torch.where(small < 0, small * 2**40, 2**62 - small), small.to(torch.int8)):
                with self.subTest(name=name, detector=detector, dtype=large.dtype):
                    one, two = make(detector=detector).cuda(), make(detector=detector).cuda()
                    for _ in range(2):  # the first one allocates
                        want = one(a, b, index, **{name: small.to(torch.int32)})
                    two(a, b, index, **{name: large})
                    torch.cuda.synchronize()
                    torch.cuda.set_sync_debug_mode("error")
                    try:
                        got = two(a, b, index, **{name: large})
                    finally:
                        torch.cuda.set_sync_debug_mode("default")
                    self.assertEqual(got, want)
                    self.assertEqual(str(two.stats()), str(one.stats()))
                    self.assertTrue(same_state(one, two))

    def test_learned_temperature_stays_on_the_device(self):
        here, there = make("clip"), make("clip").cuda()
        for seed in range(3):
            a, b, index = batch(seed)
            here(a, b, index).backward()
            there(a.cuda(), b.cuda(), index.cuda()).backward()
        torch.testing.assert_close(there.log_scale.grad.cpu(), here.log_scale.grad, rtol=1e-4, atol=1e-6)
        self.assertAlmostEqual(there.stats()["grad_tau"], here.stats()["grad_tau"], delta=1e-4 * abs(here.stats()["grad_tau"]))
        self.assertAlmostEqual(there.stats()["tau_mean"], here.stats()["tau_mean"], places=6)

    def test_cuda_graph(self):
        for loss, options in (("sogclr", {}), ("clip", {"learn_tau": True})):
            captured, eager = make(loss, **options).cuda(), make(loss, **options).cuda()
            x = on_gpu(0)
            side = torch.cuda.Stream()
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                captured(*x).backward()
            torch.cuda.current_stream().wait_stream(side)
            eager(*on_gpu(0)).backward()
            x[0].grad = x[1].grad = None
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                result = captured(*x)
                result.backward()
            for seed in range(1, 20):
                y = on_gpu(seed)
                with torch.no_grad():
                    for to, source in zip(x, y):
                        to.copy_(source)
                graph.replay()
                want = eager(*y)
                want.backward()
                torch.testing.assert_close(result, want, rtol=0, atol=0)
                torch.testing.assert_close(x[0].grad, y[0].grad, rtol=0, atol=0)
            self.assertTrue(same_state(captured, eager))
            self.assertEqual(captured.stats()["loss"], eager.stats()["loss"])

    def test_capture_without_a_step_before_is_refused(self):
        criterion = make().cuda()
        x = on_gpu(0)
        with self.assertRaisesRegex(glofnd.UnsupportedError, "before the capture"):
            with torch.cuda.graph(torch.cuda.CUDAGraph()):
                criterion(*x)
        torch.cuda.synchronize()
        criterion(*x)
        criterion.stats()

    def test_workspace_is_memory_of_pytorch(self):
        criterion = make().cuda()
        before = torch.cuda.memory_allocated()
        criterion(*on_gpu(0))
        self.assertGreater(torch.cuda.memory_allocated(), before)
        for size in (BATCH, 4, 12, BATCH):  # smaller batches fit
            a, b, index = on_gpu(0)
            criterion(a[:size], b[:size], index[:size])
        criterion.stats()

    def test_labels_groups_and_failed_loads(self):
        """Labels and groups of 64 bits, compiled or not, as on the CPU; a state that does not fit leaves the one of the device."""
        a, b, index = batch(0)
        for name, detector in (("labels", "oracle"), ("groups", "groups")):
            here, there = make(detector=detector).eval(), make(detector=detector).cuda().eval()
            for values in (index % 3, index % 3 - 1, index * 0 - 2**32, (index % 3).int()):
                torch._dynamo.reset()
                expected = here(a, b, index, **{name: values})
                step = lambda x, y, i, v: there(x, y, i, **{name: v})  # noqa: E731
                for call in (step, torch.compile(step, fullgraph=True, backend="aot_eager")):
                    torch.testing.assert_close(call(a.cuda(), b.cuda(), index.cuda(), values.cuda()).cpu(), expected, rtol=2e-5, atol=2e-5)
        criterion = make().cuda()
        criterion(*on_gpu(0))
        before = copy.deepcopy(criterion)
        with self.assertRaisesRegex(glofnd.StateError, "not finite"):
            criterion.load_state_dict({**criterion.state_dict(), "lambda": torch.full((1, SAMPLES), float("nan"))})
        self.assertTrue(same_state(criterion, before))
        self.assertEqual(criterion(*on_gpu(1)), before(*on_gpu(1)))

    def test_mask(self):
        here, there = make(lambda_init="quantile"), make(lambda_init="quantile").cuda()
        self.assertTrue(torch.equal(here.mask(*batch(0)), there.mask(*(x.detach() for x in on_gpu(0))).cpu()))
        self.assertEqual(there.mask(*(x.detach() for x in on_gpu(0))).shape, (BATCH, 2, 2, BATCH))

    def test_discover_gives_the_bits_of_the_cpu(self):
        generator = torch.Generator().manual_seed(0)
        x = torch.randn(30, 32, generator=generator)[torch.randint(30, (3000,), generator=generator)]
        x = x + 0.5 * torch.randn(3000, 32, generator=generator)
        x[100:120] = x[:20]
        x[7] = 0.0
        for options in ({"k": 20}, {"alpha": 0.01, "labels": torch.arange(3000) % 30}, {"k": 3, "duplicates": 0.9}):
            with self.subTest(**{key: value for key, value in options.items() if key != "labels"}):
                here = glofnd.discover(x, device="cpu", **options)
                for there in (glofnd.discover(x, device="cuda", **options), glofnd.discover(x.cuda(), device="cuda", **options)):
                    for name in ("threshold", "above", "mutual", "same_label", "neighbours", "similarities", "component",
                                 "duplicate_group", "first", "other", "similarity"):
                        self.assertEqual(getattr(here, name).tobytes(), getattr(there, name).tobytes(), name)


# ----- ranks ------------------------------------------------------------------------------------------------------------------

RANK_CASES = tuple(case for case in test_distributed.CASES if case.get("neighbour_share", 1) == 1 and not case.get("repeats"))
REPEATS = {"loss": "sogclr", "repeats": True}  # copies of a sample on both ranks


def refuse_copies_on_both_ranks(rank):
    """Both ranks raise, none waits."""
    try:
        test_distributed.train(REPEATS, rank, 2, "cuda")
    except glofnd.AnchorIndexError as failure:
        assert "copies of a sample must lie on one rank" in str(failure), failure
        return
    raise AssertionError("copies of a sample on both ranks were accepted")


def several_ranks_on_one_gpu(rank, port, folder):
    """gloo takes tensors of the GPU; NCCL wants a GPU per rank."""
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    dist.init_process_group("gloo", rank=rank, world_size=2)
    torch.save([test_distributed.train(options, rank, 2, "cuda") for options in RANK_CASES], os.path.join(folder, f"{rank}.pt"))
    refuse_copies_on_both_ranks(rank)
    dist.destroy_process_group()


@contextlib.contextmanager
def one_rank_by_nccl():
    """A group of one rank, whose steps go the way of several ranks."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    dist.init_process_group("nccl", init_method=f"tcp://127.0.0.1:{port}", rank=0, world_size=1)
    try:
        with mock.patch.object(_torch_op.Core, "shares", lambda core: core.group is not False):
            yield
    finally:
        dist.destroy_process_group()


@unittest.skipIf(OBSTACLE, OBSTACLE)
class Ranks(unittest.TestCase):
    def test_two_ranks_on_one_gpu(self):
        """Numbers of one rank, to the tolerances of test_distributed."""
        compare = test_distributed.Ranks().compare
        with socket.socket() as probe, tempfile.TemporaryDirectory() as folder:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
            probe.close()
            torch.multiprocessing.spawn(several_ranks_on_one_gpu, (port, folder), nprocs=2)
            alone = [test_distributed.train(options, 0, 1, "cuda") for options in RANK_CASES]
            for rank in range(2):
                results = torch.load(os.path.join(folder, f"{rank}.pt"), weights_only=True)
                for options, mine, want in zip(RANK_CASES, results, alone):
                    with self.subTest(rank=rank, **options):
                        compare(mine, want)

    def test_nccl_gives_the_bits_of_one_rank(self):
        if not dist.is_nccl_available():
            self.skipTest("this PyTorch has no NCCL")
        for loss in LOSSES:
            for options in ({}, {"detector": "single"}, {"learner": "shrinkage"}, {"similarity": "bank", "dim": DIM}):
                with self.subTest(loss=loss, **options), one_rank_by_nccl():
                    named = options if "learner" in options else {"lambda_lr": 0.2, **options}
                    ranks, alone = (GloFNDLoss(SAMPLES, loss, alpha=0.2, math="exact", process_group=group, **named).cuda() for group in (None, False))
                    for seed in range(4):
                        x, y = on_gpu(seed), on_gpu(seed)
                        one, two = ranks(*x), alone(*y)
                        one.backward()
                        two.backward()
                        torch.testing.assert_close(one, two, rtol=2e-6, atol=2e-6)
                        torch.testing.assert_close(x[0].grad, y[0].grad, rtol=2e-5, atol=2e-5 * y[0].grad.abs().max().item())
                    for key, value in alone.state_dict().items():
                        if value.is_floating_point():
                            torch.testing.assert_close(ranks.state_dict()[key], value, rtol=2e-5, atol=2e-6, msg=key)

    def test_ranks_wait_for_nothing(self):
        """By NCCL, once the shared thresholds are there and the kind of step is known."""
        if not dist.is_nccl_available():
            self.skipTest("this PyTorch has no NCCL")
        for loss, options in (("sogclr", {}), ("clip", {"learn_tau": True}), ("simclr", {"detector": "single"}),
                              ("sogclr", {"similarity": "bank", "dim": DIM}), ("simclr", {"learner": "adam"}), ("simclr", {"learner": "shrinkage"})):
            with self.subTest(loss=loss, **options), one_rank_by_nccl():
                criterion = GloFNDLoss(SAMPLES, loss, alpha=0.2, **options).cuda()
                a, b, index = on_gpu(0)
                for _ in range(3):
                    criterion(a, b, index).backward()
                    torch.cuda.synchronize()
                torch.cuda.set_sync_debug_mode("error")
                done = torch.cuda.Event()
                try:
                    torch.cuda._sleep(2_000_000_000)
                    done.record()
                    for _ in range(3):
                        criterion(a, b, index).backward()
                    self.assertFalse(done.query(), f"{loss}: a step of ranks waited for the work queued before it")
                finally:
                    torch.cuda.set_sync_debug_mode("default")
                self.assertGreater(criterion.stats()["pairs"], 0)


if __name__ == "__main__":
    unittest.main()
