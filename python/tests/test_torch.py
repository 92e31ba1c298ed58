"""Level 2: glofnd.torch.GloFNDLoss in what people do with PyTorch."""

import copy
import gc
import math
import os
import threading
import unittest
import warnings

try:
    import torch
except ImportError:
    raise unittest.SkipTest("PyTorch is not installed") from None
import numpy as np
from torch.utils.checkpoint import checkpoint

import glofnd
from glofnd.numpy import GloFND
from glofnd.torch import GloFNDLoss

SAMPLES, BATCH, DIM = 64, 16, 8


def batch(seed, n=BATCH, dim=DIM):
    generator = torch.Generator().manual_seed(seed)
    a = torch.randn(n, dim, generator=generator)
    b = a + 0.5 * torch.randn(n, dim, generator=generator)
    return a, b, torch.randperm(SAMPLES, generator=generator)[:n]


def leaves(seed, dtype=torch.float32):
    a, b, index = batch(seed)
    return a.to(dtype).requires_grad_(), b.to(dtype).requires_grad_(), index


def make(loss="sogclr", **options):
    return GloFNDLoss(SAMPLES, loss, **{"alpha": 0.2, "lambda_lr": 0.2, "lambda_init": "one", **options})


def same_state(one, two):
    x, y = one.state_dict(), two.state_dict()
    return x.keys() == y.keys() and all(torch.equal(x[key], y[key]) for key in x)


class Numbers(unittest.TestCase):
    def test_equal_to_the_c_step_to_the_bit(self):
        for loss in ("sogclr", "fastclip"):
            criterion, plain = make(loss, learn_tau=False), GloFND(SAMPLES, loss=loss, alpha=0.2, lambda_lr=0.2, lambda_init="one")
            for seed in range(4):
                a, b, index = leaves(seed)
                criterion.set_epoch(seed)
                value = criterion(a, b, index)
                value.backward()
                want = plain.step(a.detach().numpy(), b.detach().numpy(), index.numpy(), epoch=seed)
                self.assertEqual(value.item(), torch.tensor(want.loss, dtype=torch.float32).item())
                self.assertTrue(torch.equal(a.grad, torch.from_numpy(want.grad_a)))
                self.assertTrue(torch.equal(b.grad, torch.from_numpy(want.grad_b)))
            for side in range(plain.sides):
                rows = plain.rows(side=side)
                for name in ("lambda", "m", "v", "log_u"):
                    self.assertEqual(criterion.state_dict()[name][side].numpy().tobytes(), rows[name].tobytes())

    def test_gradcheck(self):
        # Thresholds start at 1 and stay there (alpha 0), and u is that of the batch (gamma 1): then the loss is differentiable.
        for loss in ("simclr", "clip", "sogclr", "sogclr2"):
            criterion = make(loss, alpha=0.0, gamma=1.0, tau=0.5, learn_tau=False).eval()
            a, b, index = batch(0, n=5, dim=4)
            inputs = [x.double().requires_grad_() for x in (a, b)]
            self.assertTrue(torch.autograd.gradcheck(lambda x, y: criterion(x, y, index).double(), inputs, eps=1e-2, atol=2e-3,
                                                     rtol=1e-2, nondet_tol=0.0))

    def test_learned_temperature(self):
        for loss in ("clip", "fastclip", "sigmoid"):
            criterion = make(loss, tau=0.2, detector="none").eval()
            a, b, index = batch(1)
            criterion(a, b, index).backward()
            gradient, h = criterion.log_scale.grad.item(), 1e-3
            values = []
            for step in (h, -h):
                with torch.no_grad():
                    criterion.log_scale += step
                values.append(criterion(a, b, index).item())
                with torch.no_grad():
                    criterion.log_scale -= step
            self.assertAlmostEqual(gradient, (values[0] - values[1]) / (2 * h), delta=2e-3 * abs(gradient) + 2e-4)
        with torch.no_grad():
            criterion.log_scale.fill_(9.0)
        self.assertAlmostEqual(criterion.tau, 0.01)
        criterion.zero_grad()
        criterion(a, b, index).backward()
        self.assertNotEqual(criterion.log_scale.grad.item(), 0.0)  # it can come back
        self.assertIsNone(make("sogclr").log_scale)
        with self.assertRaisesRegex(glofnd.OptionError, "no learnable temperature"):
            make("sogclr", learn_tau=True)

    def test_sigmoid_is_siglip(self):
        # The loss of the paper, as open_clip has it: the sum over all pairs of the batch, divided by its size.
        for scale, bias in ((10.0, -10.0), (3.0, -1.5), (100.0, 0.0), (20.0, 4.0)):
            criterion = make("sigmoid", pairing="image-text", detector="none", tau=1 / scale, bias=bias)
            a, b, index = leaves(3)
            logit_scale, logit_bias = (torch.tensor(x, dtype=torch.float64, requires_grad=True) for x in (math.log(scale), bias))
            x, y = (torch.nn.functional.normalize(z.detach().double(), dim=1).requires_grad_() for z in (a, b))
            logits = logit_scale.exp() * x @ y.T + logit_bias
            want = -torch.nn.functional.logsigmoid((2 * torch.eye(BATCH) - 1) * logits).sum() / BATCH
            want.backward()
            value = criterion(a, b, index)
            value.backward()
            torch.testing.assert_close(value.double(), want, rtol=2e-6, atol=0)
            for ours, theirs in ((criterion.log_scale, logit_scale), (criterion.logit_bias, logit_bias)):
                torch.testing.assert_close(ours.grad.double(), theirs.grad, rtol=1e-5, atol=1e-6)
            raw, unit = a.detach().double(), x.detach()
            slope = (x.grad - unit * (unit * x.grad).sum(1, keepdim=True)) / raw.norm(dim=1, keepdim=True)
            torch.testing.assert_close(a.grad.double(), slope, rtol=1e-4, atol=1e-6)

    def test_learned_bias(self):
        criterion, fixed = make("sigmoid", bias=-3.0, detector="none"), make("sigmoid", bias=-3.0, detector="none", learn_bias=False)
        a, b, index = batch(1)
        self.assertEqual(criterion(a, b, index), fixed(a, b, index))
        self.assertEqual((criterion.bias, fixed.bias), (-3.0, -3.0))
        self.assertIsNone(fixed.logit_bias)
        self.assertIn("logit_bias", criterion.state_dict())
        with torch.no_grad():
            criterion.logit_bias.fill_(0.0)  # not the default
        fixed.configure(bias=0.0)
        self.assertEqual(criterion(a, b, index), fixed(a, b, index))
        again = make("sigmoid", detector="none")
        again.load_state_dict(criterion.state_dict())
        self.assertEqual(again.bias, 0.0)
        with self.assertRaisesRegex(glofnd.OptionError, "learn_bias: loss 'clip' has no bias; sigmoid has one|learn_bias: .* has no bias"):
            make("clip", learn_bias=True)
        with self.assertRaisesRegex(glofnd.OptionError, "bias: it is learned here"):
            criterion.configure(bias=1.0)
        with torch.no_grad():
            criterion.logit_bias.fill_(math.nan)
        with self.assertRaisesRegex(glofnd.OptionError, "bias"):
            criterion(a, b, index)

    def test_strides_and_types(self):
        a, b, index = batch(2)
        want = make()(a, b, index)
        views = torch.stack([a, b], 1)
        self.assertEqual(make()(views[:, 0], views[:, 1], index), want)
        self.assertEqual(make()(a.t().contiguous().t(), b, index.int()), want)
        self.assertEqual(make()(a.double(), b.double(), index), want)
        one = a[:1].expand(BATCH, DIM)
        self.assertEqual(make()(one, b, index), make()(one.contiguous(), b, index))
        for dtype in (torch.bfloat16, torch.float16):
            x, y, _ = leaves(2, dtype)
            loss = make()(x, y, index)
            loss.backward()
            self.assertEqual((loss.dtype, x.grad.dtype), (torch.float32, dtype))
            self.assertEqual(loss, make()(x.detach().float(), y.detach().float(), index))

    def test_mask_and_thresholds(self):
        criterion = make(lambda_init="quantile")
        a, b, index = batch(3)
        before = copy.deepcopy(criterion)
        keep = criterion.mask(a, b, index)
        self.assertTrue(same_state(criterion, before))
        criterion(a, b, index)
        stats = criterion.stats()
        self.assertEqual(int(keep.sum()), stats["pairs"] - stats["flagged"])
        z = torch.nn.functional.normalize(torch.stack([a, b], 1).reshape(-1, DIM), dim=1)
        sims = (z @ z.t()).reshape(BATCH, 2, BATCH, 2).permute(0, 1, 3, 2)
        expected = (sims <= criterion.thresholds(index)[:, None, None, None]) & ~torch.eye(BATCH, dtype=torch.bool)[:, None, None]
        self.assertTrue(torch.equal(keep, expected))
        self.assertEqual(criterion.thresholds().shape, (SAMPLES,))
        for loss in ("sogclr", "clip"):  # averages of the earlier steps are in it
            nearest = {"neighbours": 2} if loss == "sogclr" else {}
            averaging = make(loss, similarity="bank", dim=DIM, lambda_init="quantile", **nearest)
            averaging(*batch(4))
            before, keep = copy.deepcopy(averaging), averaging.mask(a, b, index)
            self.assertTrue(same_state(averaging, before))
            averaging(a, b, index)
            self.assertEqual(int(keep.sum()), averaging.stats()["pairs"] - averaging.stats()["flagged"])
        self.assertEqual(make("clip").thresholds(index).shape, (BATCH, 2))


class EpochStats(unittest.TestCase):
    COUNTS = ("pairs", "flagged", "same", "hits")

    def test_counts_of_an_epoch_add_up(self):
        for loss in ("sogclr", "clip"):
            criterion = make(loss, lambda_init="quantile", start_epoch=1)
            empty = criterion.epoch_stats()
            self.assertEqual([empty[name] for name in ("steps", *self.COUNTS)], [0] * 5)
            self.assertTrue(all(math.isnan(empty[name]) for name in ("flagged_share", "precision", "recall", "f1")))
            for epoch in range(3):
                criterion.set_epoch(epoch)
                every, judged = [], 0
                for step in range(5):
                    a, b, index = batch(10 * epoch + step)
                    labels = index % 3 if step != 1 else None
                    criterion(a, b, index, labels)
                    every.append(criterion.stats())
                    judged += every[-1]["flagged"] if labels is not None else 0
                    if step == 2:
                        with self.assertRaises(glofnd.Error):
                            criterion(a, b, index * 0, labels)
                        criterion.eval()(a, b, index, labels)  # moves nothing and is no training step
                        criterion.mask(a, b, index)
                        criterion.train()
                total = criterion.epoch_stats()
                self.assertEqual(total["steps"], 5)
                for name in self.COUNTS if epoch else ("pairs", "flagged"):
                    self.assertEqual(total[name], sum(x[name] for x in every), name)
                self.assertEqual(str(glofnd.sum_stats(every)), str(total))
                if epoch == 0:  # nothing is flagged before start_epoch, which is no recall of 0
                    self.assertEqual((total["flagged"], total["flagged_share"], total["same"]), (0, 0.0, 0))
                    self.assertTrue(all(math.isnan(total[name]) for name in ("precision", "recall", "f1")))
                    continue
                self.assertTrue(0 < judged < total["flagged"])
                self.assertEqual(total["flagged_share"], total["flagged"] / total["pairs"])
                self.assertEqual((total["precision"], total["recall"]), (total["hits"] / judged, total["hits"] / total["same"]))
                self.assertAlmostEqual(total["f1"], 2 / (1 / total["precision"] + 1 / total["recall"]), places=12)
                self.assertNotAlmostEqual(total["precision"], sum(x["precision"] for x in every if x["same"]) / 4, places=5)

    def test_ranks_and_losses_add_up(self):
        one, other = make(lambda_init="quantile"), make(lambda_init="quantile", alpha=0.4)
        for step in range(3):
            a, b, index = batch(step)
            one(a, b, index, index % 3)
            other(a, b, index)
        parts = [one.epoch_stats(), other.epoch_stats()]
        total = glofnd.sum_stats(parts)
        self.assertEqual(total["steps"], 6)
        for name in self.COUNTS:
            self.assertEqual(total[name], parts[0][name] + parts[1][name])
        self.assertEqual(total["precision"], parts[0]["precision"])  # no labels in the others
        self.assertLess(total["judged"], total["flagged"])
        for wrong in ([3], ["text"], [{"pairs": 1}], [None]):
            with self.assertRaisesRegex(glofnd.ArgumentError, "expected dicts of criterion.stats"):
                glofnd.sum_stats(wrong)

    def test_on_a_gpu_nothing_adds_them_up(self):
        criterion = make()
        criterion._core.is_cuda = True
        with self.assertRaisesRegex(glofnd.UnsupportedError, "does not wait.*glofnd.sum_stats"):
            criterion.epoch_stats()


class WrongUse(unittest.TestCase):
    def test_it_raises_at_once(self):
        a, b, index = batch(0)
        nan = a.clone()
        nan[2, 1] = float("nan")
        criterion = make()
        for error, text, call in (
                (glofnd.ArgumentError, "same .batch, dim.", lambda: criterion(a, b[:, :4], index)),
                (glofnd.ArgumentError, "same .batch, dim.", lambda: criterion(a[0], b[0], index)),
                (glofnd.ArgumentError, "one number per sample", lambda: criterion(a, b, index[:4])),
                (glofnd.ArgumentError, "integers", lambda: criterion(a, b, index.float())),
                (glofnd.ArgumentError, "floating", lambda: criterion(a.long(), b, index)),
                (glofnd.ArgumentError, "on meta", lambda: criterion(a, b, index.to("meta"))),
                (glofnd.AnchorIndexError, "0 .. 63", lambda: criterion(a, b, index + 64)),
                (glofnd.AnchorIndexError, "differ", lambda: criterion(a, b, index * 0)),
                (glofnd.NumericError, "row 2", lambda: criterion(nan, b, index)),
                (glofnd.ArgumentError, "label", lambda: make(detector="oracle")(a, b, index)),
                (glofnd.OptionError, "alpha", lambda: make(alpah=1)),
                (glofnd.OptionError, "dim", lambda: make(learner="ring")),
                (glofnd.OptionError, "criterion.to", lambda: make(device="cuda")),
                (glofnd.ArgumentError, "no step", lambda: make().stats()),
                (glofnd.ArgumentError, "detach", lambda: criterion(a, b, index, tau=torch.tensor(0.1, requires_grad=True)))):
            with self.subTest(text), self.assertRaisesRegex(error, text):
                call()
        self.assertTrue(same_state(criterion, make()), "a refused call moved the state")

    def test_state_that_does_not_fit(self):
        quiet = warnings.catch_warnings()
        quiet.__enter__()
        self.addCleanup(quiet.__exit__)
        warnings.simplefilter("ignore")
        for other in (GloFNDLoss(SAMPLES + 1), make("clip"), make(dim=DIM, learner="ring"),
                      make(dim=DIM, similarity="bank")):
            with self.assertRaisesRegex(glofnd.StateError, "(?s)(num_samples=64|shape|Missing).*strict=False") as caught:
                other.load_state_dict(make().state_dict())
            self.assertIsInstance(caught.exception, RuntimeError)  # as PyTorch's own
            with self.assertWarnsRegex(UserWarning, "keeps its own thresholds"):  # the advice of the message
                other.load_state_dict(make().state_dict(), strict=False)
            self.assertTrue(same_state(other, copy.deepcopy(other)))
            with self.assertRaisesRegex(RuntimeError, "num_samples=64|shape|saved"):  # inside of a model PyTorch collects the failures
                torch.nn.ModuleDict({"loss": other}).load_state_dict({"loss." + key: x for key, x in make().state_dict().items()})


class Training(unittest.TestCase):
    def test_operator(self):
        criterion = make()
        a, b, index = batch(0)
        arguments = (a, b, index, None, None, None, criterion._clock, criterion._handle, 0)
        torch.library.opcheck(torch.ops.glofnd.step.default, arguments)

    def test_compile(self):
        net = torch.nn.Linear(DIM, DIM)
        compiled, eager = make(), make()
        step = torch.compile(lambda a, b, index: compiled(net(a), net(b), index), fullgraph=True, backend="aot_eager")
        torch._dynamo.reset()
        torch._dynamo.utils.counters.clear()
        for epoch in range(12):
            compiled.set_epoch(epoch)
            eager.set_epoch(epoch)
            a, b, index = leaves(epoch)
            x, y, _ = leaves(epoch)
            one, two = step(a, b, index), eager(net(x), net(y), index)
            one.backward()
            two.backward()
            self.assertEqual(one, two)
            self.assertTrue(torch.equal(a.grad, x.grad))
        self.assertEqual(torch._dynamo.utils.counters["stats"]["unique_graphs"], 1)
        self.assertTrue(same_state(compiled, eager))

    def test_compiled_step_without_a_use_still_moves(self):
        criterion = make()
        step = torch.compile(lambda a, b, index: (criterion(a, b, index), a.sum())[1], fullgraph=True, backend="aot_eager")
        step(*batch(0))
        self.assertFalse(same_state(criterion, make()))

    def test_activation_checkpointing(self):
        net = torch.nn.Linear(DIM, DIM)
        for reentrant in (False, True):
            checked, plain = make(), make()
            for seed in range(4):
                a, b, index = leaves(seed)
                x, y, _ = leaves(seed)
                one = checkpoint(lambda a, b: checked(net(a), net(b), index), a, b, use_reentrant=reentrant)
                two = plain(net(x), net(y), index)
                one.backward()
                two.backward()
                self.assertEqual(one, two)
                self.assertTrue(torch.equal(a.grad, x.grad))
            self.assertTrue(same_state(checked, plain))

    def test_activation_checkpointing_of_the_same_samples(self):
        """Each step has its own gradients, though all have the same index; a call without gradients in between is another one."""
        for reentrant in (False, True):
            torch.manual_seed(0)
            net = torch.nn.Linear(DIM, DIM)
            checked, plain = make(), make()
            a, b, index = leaves(0)
            x, y, _ = leaves(0)
            for _ in range(6):
                for criterion, inputs in ((checked, (a, b)), (plain, (x, y))):
                    with torch.no_grad():
                        criterion(net(2 * inputs[0] + 1), net(inputs[1]), index)
                one = checkpoint(lambda a, b: checked(net(a), net(b), index), a, b, use_reentrant=reentrant)
                gradient = [torch.autograd.grad(loss, net.weight)[0] for loss in (plain(net(x), net(y), index),)][0]
                net.zero_grad()
                one.backward()
                self.assertTrue(torch.equal(net.weight.grad, gradient))
                with torch.no_grad():
                    net.weight -= 0.1 * gradient
            self.assertTrue(same_state(checked, plain))

    def test_flags_from_the_first_epoch_on(self):
        for seed in range(3):
            criterion = GloFNDLoss(SAMPLES, alpha=0.2)
            criterion(*batch(seed))
            self.assertGreater(criterion.stats()["flagged"], 0)
        authors = GloFNDLoss(SAMPLES, alpha=0.2, compat="official")
        authors(*batch(0))
        self.assertEqual(authors.stats()["flagged"], 0)

    def test_numbers_of_numpy_are_options(self):
        one = GloFNDLoss(64, alpha=np.float64(0.1), start_epoch=np.int64(3), tau=torch.tensor(0.25))
        one.configure(gamma=np.float32(0.5))
        self.assertEqual((one.tau, one._core.values["alpha"]), (0.25, 0.1))

    def test_options_that_cannot_change(self):
        learned = make("clip")
        for key, value in (("loss", "clip"), ("learner", "ring"), ("similarity", "bank")):
            with self.subTest(key), self.assertRaisesRegex(glofnd.OptionError, key):
                make().configure(**{key: value})
        with self.assertRaisesRegex(glofnd.OptionError, "learned"):
            learned.configure(tau=0.5)
        learned.configure(start_epoch=4, loss="clip")
        self.assertEqual(learned._core.values["start_epoch"], 4)

    def test_numbers_as_tau_and_epoch(self):
        criterion, (a, b, index) = make("clip", learn_tau=False), batch(0)
        self.assertEqual(criterion.eval()(a, b, index, tau=0.25), criterion(a, b, index, tau=torch.tensor(0.25)))
        for text, call in (("one number", lambda: criterion(a, b, index, tau=torch.tensor([0.1, 0.2]))),
                           ("integer", lambda: criterion.set_epoch(1.5)), ("from 0", lambda: criterion.set_epoch(-1)),
                           ("its name is tau", lambda: make(temperature=0.1)),
                           ("its name is tau", lambda: make().configure(t=0.1)), ("its name is tau", lambda: GloFND(4, temp=0.1)),
                           ("its name is lambda_lr", lambda: make(lr=0.1)), ("is num_samples", lambda: GloFND(4, dataset_size=4)), ("num_samples is 0", lambda: GloFNDLoss(0)),
                           ("groups is None", lambda: make(detector="groups")(a, b, index)),
                           ("batch has 0 samples", lambda: make()(a[:0], b[:0], index[:0]))):
            with self.subTest(text), self.assertRaisesRegex(glofnd.Error, text):
                call()
        criterion.set_epoch(np.int64(3))

    def test_start_epoch_is_the_name_in_messages(self):
        for call in (lambda: make(start_epoch=1, update_epoch=2), lambda: make(update_epoch=2).configure(start_epoch=1),
                     lambda: GloFND(SAMPLES, start_epoch=1, update_epoch=2)):
            with self.assertRaisesRegex(glofnd.OptionError, "^start_epoch: .* before update_epoch"):
                call()
        with self.assertRaisesRegex(glofnd.OptionError, "give one"):
            GloFND(SAMPLES, start_epoch=1, mask_epoch=1)
        late, name_of_c, epoch_0 = (make(lambda_init="quantile", **options) for options in (
            {"start_epoch": 1}, {"mask_epoch": 1}, {"start_epoch": 0}))
        for criterion, flags in ((late, False), (name_of_c, False), (epoch_0, True)):
            criterion(*batch(0))
            self.assertEqual(criterion.stats()["flagged"] > 0, flags)

    def test_wrong_samples_and_types(self):
        criterion = make()
        a, b, index = batch(0)
        for text, call in (("there are samples 0", lambda: criterion.thresholds(torch.tensor([-1]))),
                           ("integers", lambda: criterion.thresholds(torch.tensor([1.5]))),
                           ("expected a tensor", lambda: criterion(a.numpy(), b, index)),
                           ("labels is torch.uint64.*labels.to", lambda: criterion(a, b, index, labels=index.to(torch.uint64)))):
            with self.subTest(text), self.assertRaisesRegex(glofnd.Error, text):
                call()
        self.assertEqual(criterion.thresholds([0, 3]).shape, (2,))

    def test_labels_of_any_size(self):
        """Only their equality counts: labels that are equal in 32 bits differ, and negative ones are none."""
        a, b, index = batch(0)
        small = torch.arange(len(index)) % 5 - 1
        for name, detector in (("labels", "oracle"), ("groups", "groups"), ("labels", "glofnd")):
            want = make(detector=detector)
            value = want(a, b, index, **{name: small})
            for large in (torch.where(small < 0, small, small * 2**32), torch.where(small < 0, small * 2**40, 2**62 - small), small.to(torch.int8)):
                criterion = make(detector=detector)
                self.assertEqual(criterion(a, b, index, **{name: large}), value)
                torch.testing.assert_close(torch.tensor(list(criterion.stats().values())), torch.tensor(list(want.stats().values())),
                                           rtol=0, atol=0, equal_nan=True)
                torch.testing.assert_close(criterion.mask(a, b, index, **{name: large}), want.mask(a, b, index, **{name: small}))

    def test_autocast_and_grad_scaler(self):
        net, index = torch.nn.Linear(DIM, DIM), batch(0)[2]
        for dtype in (torch.bfloat16, torch.float16):
            scaler = torch.amp.GradScaler("cpu", enabled=dtype == torch.float16)
            optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
            criterion = make()
            with torch.autocast("cpu", dtype=dtype):
                z = [net(x) for x in batch(0)[:2]]
                loss = criterion(*z, index)
            self.assertEqual((z[0].dtype, loss.dtype), (dtype, torch.float32))
            z[0].retain_grad()
            scaler.scale(loss).backward()
            exact = [x.detach().float().requires_grad_() for x in z]
            make()(*exact, index).backward()
            scale = scaler.get_scale() if dtype == torch.float16 else 1.0
            torch.testing.assert_close(z[0].grad.float() / scale, exact[0].grad, atol=1e-4, rtol=1e-2)
            self.assertTrue((z[0].grad != 0).all(), "gradients underflow")
            scaler.step(optimizer)
            scaler.update()

    def test_small_gradients_of_float16_survive_until_they_are_scaled(self):
        a, b, index = batch(0)
        half = [(4000 * x).half().requires_grad_() for x in (a, b)]
        exact = [x.detach().float().requires_grad_() for x in half]
        (make()(*half, index) * 65536.0).backward()
        make()(*exact, index).backward()
        torch.testing.assert_close(half[0].grad.float() / 65536.0, exact[0].grad, rtol=2e-3, atol=1e-10)

    def test_gradient_accumulation(self):
        a, b, index = leaves(0)
        criterion = make()
        (criterion(a, b, index) / 4).backward()
        quarter = a.grad.clone()
        a.grad = None
        make()(a, b, index).backward()
        torch.testing.assert_close(4 * quarter, a.grad)

    def test_it_trains(self):
        torch.manual_seed(0)
        data = torch.randn(SAMPLES, 12)
        for loss in ("simclr", "clip"):
            net = torch.nn.Sequential(torch.nn.Linear(12, 32), torch.nn.ReLU(), torch.nn.Linear(32, DIM))
            criterion = make(loss)
            optimizer = torch.optim.Adam([*net.parameters(), *criterion.parameters()], lr=1e-2)
            losses = []
            for epoch in range(5):
                criterion.set_epoch(epoch)
                for index in torch.randperm(SAMPLES).split(16):
                    views = [data[index] + 0.1 * torch.randn(16, 12) for _ in range(2)]
                    value = criterion(net(views[0]), net(views[1]), index)
                    optimizer.zero_grad()
                    value.backward()
                    optimizer.step()
                    losses.append(value.item())
            self.assertLess(losses[-1], 0.7 * losses[0])

    def test_double_backward_is_refused(self):
        a, b, index = leaves(0)
        for power in (1, 2):  # 1: the gradient would be a constant, in silence
            with self.subTest(power), self.assertRaisesRegex(glofnd.UnsupportedError, "create_graph"):
                torch.autograd.grad(make()(a, b, index) ** power, a, create_graph=True)

    def test_temperature_as_a_number(self):
        a, b, index = batch(0)
        for number in (0.07, np.float64(0.07), torch.tensor([0.07])):
            self.assertAlmostEqual(make("simclr")(a, b, index, tau=number).item(), make("simclr", tau=0.07)(a, b, index).item(), 5)
        for wrong in (torch.tensor([0.1, 0.2]), "0.1", [0.1], None.__class__):
            with self.subTest(str(wrong)), self.assertRaisesRegex(glofnd.ArgumentError, "tau .*expected one number"):
                make()(a, b, index, tau=wrong)

    def test_epoch_is_checked_at_once(self):
        criterion = make()
        for wrong in (1.5, -1, "2", None, 2**31):
            with self.subTest(str(wrong)), self.assertRaisesRegex(glofnd.ArgumentError, "epoch.*expected"):
                criterion.set_epoch(wrong)
        for right in (3, np.int64(3), torch.tensor(3)):
            criterion.set_epoch(right)
            self.assertEqual(criterion.epoch, 3)

    def test_a_forgotten_epoch_is_said_once(self):
        def warnings_of(criterion, steps):
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                for seed in range(steps):
                    criterion(*batch(seed))
            return [str(x.message) for x in caught]
        an_epoch = SAMPLES // BATCH
        criterion = make(start_epoch=2)
        self.assertEqual(warnings_of(criterion, 3 * an_epoch - 1), [])
        self.assertRegex(warnings_of(criterion, an_epoch)[0], "set_epoch.*start_epoch=2")
        self.assertEqual(warnings_of(criterion, 4 * an_epoch), [])
        called = make(start_epoch=2)
        called.set_epoch(0)
        for criterion in (called, make()):
            self.assertEqual(warnings_of(criterion, 5 * an_epoch), [])

    def test_threads(self):
        def run(out, seed):
            criterion = make()
            for i in range(20):
                out[seed] = criterion(*batch(100 * seed + i)).item()
        alone, together = {}, {}
        for seed in (1, 2):
            run(alone, seed)
        workers = [threading.Thread(target=run, args=(together, seed)) for seed in (1, 2)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        self.assertEqual(alone, together)

    def test_loader_with_worker_processes(self):
        make()(*batch(0))  # the library's threads run before the fork
        data = torch.utils.data.TensorDataset(torch.randn(SAMPLES, DIM), torch.arange(SAMPLES))
        criterion = make()
        for x, index in torch.utils.data.DataLoader(data, 16, shuffle=True, num_workers=2):
            criterion(x, x + 0.1, index)
        self.assertTrue((criterion.state_dict()["log_u"] > -float("inf")).all())

    def test_many_steps_do_not_grow(self):
        def resident():
            with open("/proc/self/statm", encoding="ascii") as file:
                return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        criterion, start = make(threads=1), 0
        generator = torch.Generator().manual_seed(0)
        for number in range(1200):
            a, b, index = leaves(int(torch.randint(1000, (), generator=generator)))
            n = int(torch.randint(2, BATCH + 1, (), generator=generator))
            criterion(a[:n], b[:n], index[:n]).backward()
            if number % 50 == 0:
                copy.deepcopy(criterion).state_dict()
            if number == 200:
                gc.collect()
                start = resident()
        gc.collect()
        self.assertLess(resident() - start, 4 << 20)


if __name__ == "__main__":
    unittest.main()
