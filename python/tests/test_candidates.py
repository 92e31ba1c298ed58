"""Level 2: negatives beyond the batch and one direction, against dense losses in plain PyTorch: values, gradients by autograd, thresholds."""

import tempfile
import unittest

try:
    import torch
    import torch.nn.functional as F
except ImportError:
    raise unittest.SkipTest("PyTorch is not installed") from None

import numpy as np

import glofnd
import glofnd.numpy
from glofnd.torch import GloFNDLoss, cached

TAU = 0.05
PLAIN = {"detector": "none", "tau": TAU, "learn_tau": False, "math": "exact"}


def rows(n, dim, seed):
    return torch.randn(n, dim, generator=torch.Generator().manual_seed(seed))


def leaves(*tensors):
    return [x.clone().requires_grad_() for x in tensors]


def one_way(q, d, more, banned=None, tau=TAU):
    """MultipleNegativesRankingLoss: cross entropy of every query over all documents, and more. banned: pairs that are none."""
    q, d = F.normalize(q, dim=1), F.normalize(torch.cat([d, *more]), dim=1)
    scores = q @ d.T / tau
    if banned is not None:
        scores = scores.masked_fill(banned, -torch.inf)
    return F.cross_entropy(scores, torch.arange(len(q)))


class Dense(unittest.TestCase):
    def compare(self, got, want, tensors, others, tolerance=2e-5):
        self.assertAlmostEqual(got.item(), want.item(), delta=tolerance * abs(want.item()) + 1e-6)
        got.backward()
        want.backward()
        for x, y in zip(tensors, others):
            self.assertLess((x.grad - y.grad).abs().max().item(), tolerance * y.grad.abs().max().item())

    def test_forward_is_multiple_negatives_ranking(self):
        for m in (0, 5, 40):
            a, b, n = rows(12, 16, 1), rows(12, 16, 2), rows(m, 16, 3)
            x, y = leaves(a, b, n), leaves(*(t.double() for t in (a, b, n)))
            criterion = GloFNDLoss(12, "clip", directions="forward", **PLAIN)
            with self.subTest(m):
                more = {"negatives": x[2]} if m else {}
                count = 3 if m else 2
                self.compare(criterion(x[0], x[1], torch.arange(12), **more), one_way(y[0], y[1], [y[2]]), x[:count], y[:count])

    def test_both_directions_with_a_set_for_each(self):
        given = rows(12, 16, 1), rows(12, 16, 2), rows(7, 16, 3), rows(9, 16, 4)
        x, y = leaves(*given), leaves(*(t.double() for t in given))
        got = GloFNDLoss(12, "clip", **PLAIN)(x[0], x[1], range(12), negatives=(x[2], x[3]))
        self.compare(got, (one_way(y[0], y[1], [y[3]]) + one_way(y[1], y[0], [y[2]])) / 2, x, y)

    def test_two_views_share_one_set(self):
        given = rows(6, 8, 1), rows(6, 8, 2), rows(11, 8, 3)
        x, y = leaves(*given), leaves(*(t.double() for t in given))
        got = GloFNDLoss(6, "simclr", **PLAIN)(x[0], x[1], range(6), negatives=x[2])
        every, more = F.normalize(torch.cat(y[:2]), dim=1), F.normalize(y[2], dim=1)
        scores = torch.cat([every @ every.T, every @ more.T], 1) / TAU
        scores = scores.masked_fill(F.pad(torch.eye(12, dtype=torch.bool), (0, 11)), -torch.inf)
        self.compare(got, F.cross_entropy(scores, (torch.arange(12) + 6) % 12), x, y)

    def test_a_candidate_of_the_sample_is_no_negative(self):
        given = rows(6, 8, 1), rows(6, 8, 2), rows(5, 8, 3)
        ids = torch.tensor([3, -1, 0, 77, 3])
        x, y = leaves(*given), leaves(*(t.double() for t in given))
        got = GloFNDLoss(80, "clip", directions="forward", **PLAIN)(x[0], x[1], range(6), negatives=x[2], negatives_index=ids)
        banned = F.pad(torch.arange(6)[:, None] == ids[None, :], (6, 0))
        self.compare(got, one_way(y[0], y[1], [y[2]], banned), x, y)

    def test_thresholds_see_them(self):
        """With learner "adam" lambda starts at the quantile of all negatives of a row."""
        a, b, n = rows(6, 8, 1), rows(6, 8, 2), rows(30, 8, 3)
        criterion = GloFNDLoss(6, "clip", alpha=0.1, directions="forward", learner="adam")
        criterion(a, b, range(6), negatives=n)
        scores = F.normalize(a.double(), dim=1) @ F.normalize(torch.cat([b, n]).double(), dim=1).T
        for i in range(6):
            row = torch.cat([scores[i, :i], scores[i, i + 1:]])
            self.assertAlmostEqual(criterion.thresholds()[i, 0].item(), torch.quantile(row, 0.9).item(), places=5)
        self.assertTrue((criterion.thresholds()[:, 1] == 1).all())  # nobody of that side is an anchor
        self.assertEqual(criterion.stats()["pairs"], 6 * 35)


class Uses(unittest.TestCase):
    def test_a_queue_gets_no_gradient(self):
        a, b = leaves(rows(8, 4, 1), rows(8, 4, 2))
        queue = rows(20, 4, 3)
        criterion = GloFNDLoss(8, "sogclr", detector="none")
        criterion(a, b, range(8), negatives=queue, negatives_index=torch.arange(20) - 1).backward()
        self.assertIsNone(queue.grad)
        self.assertGreater(a.grad.abs().max().item(), 0)
        before = criterion(a, b, range(8))  # the next step has none
        self.assertEqual(criterion.stats()["pairs"], 16 * 14)
        self.assertTrue(torch.isfinite(before))

    def test_half_precision_and_slices(self):
        a, b, wide = rows(8, 4, 1).bfloat16(), rows(8, 4, 2).bfloat16(), rows(20, 9, 3)
        n = wide[:, 2:6].requires_grad_()
        criterion = GloFNDLoss(8, "clip", **PLAIN)
        got = criterion(a, b, range(8), negatives=n)
        want = GloFNDLoss(8, "clip", **PLAIN)(a.float(), b.float(), range(8), negatives=n.detach().bfloat16().float())
        self.assertAlmostEqual(got.item(), want.item(), places=5)
        got.backward()
        self.assertEqual(n.grad.dtype, torch.float32)

    def test_eval_does_not_move_and_training_goes_on_to_the_bit(self):
        a, b, n = rows(8, 4, 1), rows(8, 4, 2), rows(6, 4, 3)
        make = lambda: GloFNDLoss(8, "sogclr", alpha=0.2)  # noqa: E731
        one, other = make(), make()
        for step in range(6):
            if step == 3:
                state = other.state_dict()
                other = make()
                other.load_state_dict(state)
            other.eval()
            other(a, b, range(8), negatives=n)
            other.train()
            self.assertEqual(one(a + step, b, range(8), negatives=n).item(), other(a + step, b, range(8), negatives=n).item())
        self.assertTrue(torch.equal(one.thresholds(), other.thresholds()))

    def test_in_parts(self):
        model = torch.nn.Linear(5, 4)
        criterion = GloFNDLoss(8, "clip", detector="none", learn_tau=False)
        loss = cached(model, criterion, chunk=3)(rows(8, 5, 1), rows(8, 5, 2), range(8), negatives=rows(7, 5, 3))
        loss.backward()
        of_parts = model.weight.grad.clone()
        model.zero_grad()
        criterion(model(rows(8, 5, 1)), model(rows(8, 5, 2)), range(8), negatives=model(rows(7, 5, 3))).backward()
        self.assertLess((of_parts - model.weight.grad).abs().max().item(), 1e-6)

    def test_in_a_compiled_graph(self):
        criterion = GloFNDLoss(8, "clip", detector="none", learn_tau=False)
        a, b, n = rows(8, 4, 1), rows(8, 4, 2), rows(6, 4, 3).requires_grad_()
        compiled = torch.compile(lambda: criterion(a, b, torch.arange(8), negatives=n), backend="aot_eager", fullgraph=True)
        compiled().backward()
        seen = n.grad.clone()
        n.grad = None
        criterion(a, b, torch.arange(8), negatives=n).backward()
        self.assertTrue(torch.equal(seen, n.grad))


class Arrays(unittest.TestCase):
    def test_numpy_equals_torch(self):
        a, b, n1, n2 = (rows(k, 8, s) for k, s in ((6, 1), (6, 2), (5, 3), (4, 4)))
        x = leaves(a, b, n1, n2)
        loss = GloFNDLoss(6, "clip", alpha=0.2, learn_tau=False)(x[0], x[1], range(6), negatives=(x[2], x[3]))
        loss.backward()
        engine = glofnd.numpy.GloFND(6, loss="clip", alpha=0.2)
        result = engine.step(a.numpy(), b.numpy(), range(6), negatives=(n1.numpy(), n2.numpy()))
        self.assertAlmostEqual(result.loss, loss.item(), places=6)
        for got, want in zip((result.grad_a, result.grad_b, *result.grad_negatives), x):
            np.testing.assert_array_equal(got, want.grad.numpy())
        single = engine.step(a.numpy(), b.numpy(), range(6), negatives=n2.numpy(), negatives_index=[0, 1, -1, 9])
        self.assertEqual(single.grad_negatives.shape, (4, 8))
        self.assertEqual(single.stats["pairs"], 2 * 6 * 5 + 6 * 4 - 2)
        self.assertIsNone(engine.step(a.numpy(), b.numpy(), range(6)).grad_negatives)
        loss, grad_a, grad_b, stats = single  # as before

    def test_numpy_refuses(self):
        a, n = rows(6, 8, 1).numpy(), rows(4, 8, 2).numpy()
        views, texts = glofnd.numpy.GloFND(6), glofnd.numpy.GloFND(6, loss="clip")
        for engine, more, text in ((views, {"negatives": (n, n)}, "pair"), (texts, {"negatives": n[:, :4]}, "expected float32"),
                                   (texts, {"negatives": n.astype(np.float16)}, "expected float32"),
                                   (texts, {"negatives_index": [1]}, "without negatives"),
                                   (texts, {"negatives": n, "negatives_index": [1]}, "one number per sample"),
                                   (texts, {"negatives": n * np.nan}, "row 0 holds")):
            with self.subTest(text), self.assertRaisesRegex(glofnd.Error, text):
                engine.step(a, a, range(6), **more)


class Repeats(unittest.TestCase):
    def test_copies_are_no_negatives(self):
        given = rows(6, 8, 1), rows(6, 8, 2)
        ids = torch.tensor([0, 1, 0, 2, 3, 0])
        x, y = leaves(*given), leaves(*(t.double() for t in given))
        got = GloFNDLoss(4, "simclr", pairing="image-text", repeats=True, **PLAIN)(x[0], x[1], ids)
        banned = (ids[:, None] == ids[None, :]) & ~torch.eye(6, dtype=torch.bool)
        # The kept negatives count (n/c) = 1 times: n is what is left of a row.
        want = (one_way(y[0], y[1], [], banned) + one_way(y[1], y[0], [], banned)) / 2
        self.assertAlmostEqual(got.item(), want.item(), places=4)
        got.backward()
        want.backward()
        for of, other in zip(x, y):
            self.assertLess((of.grad - other.grad).abs().max().item(), 2e-5 * other.grad.abs().max().item())

    def test_a_threshold_moves_once(self):
        a, b = rows(6, 8, 1), rows(6, 8, 2)
        criterion = GloFNDLoss(4, alpha=0.2, repeats=True)
        criterion(a, b, [0, 1, 0, 2, 3, 0])
        self.assertEqual(criterion.state_dict()["clock"].flatten().tolist(), [1] * 4)
        self.assertEqual(criterion.stats()["pairs"], 3 * 2 * 6 + 3 * 2 * 10)
        with self.assertRaisesRegex(glofnd.AnchorIndexError, "ids must differ"):
            GloFNDLoss(4)(a, b, [0, 1, 0, 2, 3, 0])
        with self.assertRaisesRegex(glofnd.AnchorIndexError, "no negative"):
            criterion(a, b, [1] * 6)


def supcon(a, b, sets, tau=TAU):
    """L_out of Khosla et al. 2020 over the rows of both views; a number below 0 is of no set."""
    z, sets = F.normalize(torch.cat([a, b]), dim=1), torch.cat([sets, sets])
    scores, n = z @ z.T / tau, len(a)
    own = torch.eye(2 * n, dtype=torch.bool)
    near = ((sets[:, None] == sets[None, :]) & (sets[:, None] >= 0)) | own.roll(n, 0)
    near &= ~own
    log_all = scores.masked_fill(own, -torch.inf).logsumexp(1)
    return (log_all - (scores * near).sum(1) / near.sum(1)).mean()


class Positives(unittest.TestCase):
    sets = torch.tensor([4, -1, 4, 7, -1, 7, 4, 9])

    def compare(self, loss, want, **options):
        given = rows(8, 6, 1), rows(8, 6, 2)
        x, y = leaves(*given), leaves(*(t.double() for t in given))
        got = GloFNDLoss(8, loss, **{**PLAIN, **options})(x[0], x[1], range(8), positives=self.sets)
        Dense.compare(self, got, want(*y), x, y, 5e-5)  # type: ignore[arg-type]

    def test_it_is_supcon(self):
        self.compare("simclr", lambda a, b: supcon(a, b, self.sets))

    def test_sigmoid_has_a_term_for_each(self):
        def dense(a, b):
            scores = F.normalize(a, dim=1) @ F.normalize(b, dim=1).T / TAU - 3
            near = (self.sets[:, None] == self.sets[None, :]) & (self.sets[:, None] >= 0) | torch.eye(8, dtype=torch.bool)
            return F.softplus(torch.where(near, -scores, scores)).sum() / 8

        self.compare("sigmoid", dense, pairing="image-text", bias=-3, learn_bias=False)

    def test_thresholds_see_the_other_pairs(self):
        a, b = rows(8, 6, 1), rows(8, 6, 2)
        criterion = GloFNDLoss(8, "sogclr", alpha=0.2)
        criterion(a, b, range(8), positives=self.sets)
        self.assertEqual(criterion.stats()["pairs"], 4 * (8 * 7 - 3 * 2 - 2))
        keep = criterion.mask(a, b, range(8), positives=self.sets)
        self.assertFalse(keep[0, :, :, [2, 6]].any())
        self.assertTrue(keep[1].any())

    def test_training_goes_on_to_the_bit_and_numpy_is_the_same(self):
        a, b = rows(8, 6, 1), rows(8, 6, 2)
        make = lambda: GloFNDLoss(8, "sogclr", alpha=0.2)  # noqa: E731
        one, other, arrays = make(), make(), glofnd.numpy.GloFND(8, loss="sogclr", alpha=0.2)
        for step in range(6):
            if step == 3:
                state = other.state_dict()
                other = make()
                other.load_state_dict(state)
            x, y = leaves(a + step, b)
            loss = one(x, y, range(8), positives=self.sets)
            loss.backward()
            self.assertEqual(loss.item(), other(a + step, b, range(8), positives=self.sets).item())
            result = arrays.step((a + step).numpy(), b.numpy(), range(8), positives=self.sets.numpy())
            np.testing.assert_array_equal(result.grad_a, x.grad.numpy())
        self.assertTrue(torch.equal(one.thresholds(), other.thresholds()))

    def test_with_candidates_in_a_compiled_graph(self):
        criterion = GloFNDLoss(8, "clip", detector="none", learn_tau=False)
        a, b, n = *leaves(rows(8, 6, 1)), rows(8, 6, 2), rows(5, 6, 3)
        compiled = torch.compile(lambda: criterion(a, b, torch.arange(8), negatives=n, positives=self.sets), backend="aot_eager", fullgraph=True)
        compiled().backward()
        seen, a.grad = a.grad, None
        criterion(a, b, torch.arange(8), negatives=n, positives=self.sets).backward()
        self.assertTrue(torch.equal(seen, a.grad))
        self.assertEqual(criterion.stats()["pairs"], 2 * (8 * 7 - 3 * 2 - 2) + 8 * 5)

    def test_refusals(self):
        a = rows(8, 6, 1)
        for criterion, sets, text in (
                (GloFNDLoss(8), self.sets.float(), "positives is torch.float32; expected integers"),
                (GloFNDLoss(8), self.sets[:5], r"positives has shape \[5\]"),
                (GloFNDLoss(8), [0] * 8, "positives is of type list"),
                (GloFNDLoss(8), torch.zeros(8, dtype=torch.int64), "no negative"),
                (GloFNDLoss(8, compat="official"), self.sets, "compat official"),
                (GloFNDLoss(8, similarity="bank", dim=6), self.sets, "similarity bank"),
                (GloFNDLoss(8, detector="fnc", fnc_rule="topk"), self.sets, "fnc_rule topk")):
            with self.subTest(text), self.assertRaisesRegex(glofnd.Error, text):
                criterion(a, a, torch.arange(8), positives=sets)


class Guide(unittest.TestCase):
    """Detector fixed, against masks that are written down here."""

    def setUp(self):
        self.a, self.b = rows(8, 6, 1), rows(8, 6, 2)
        self.guide, self.thresholds = rows(20, 11, 3), torch.linspace(-0.2, 0.5, 20)
        self.thresholds[7] = float("nan")
        self.index = torch.tensor([3, 19, 0, 7, 11, 2, 5, 13])

    def flags(self, mutual):
        z, theta = F.normalize(self.guide[self.index], dim=1), self.thresholds[self.index]
        s = z @ z.T
        above = s > theta[:, None]
        return (above & above.T if mutual else above) & ~torch.eye(8, dtype=torch.bool)

    def test_it_flags_by_the_guide(self):
        for mutual in (False, True):
            x, y = leaves(self.a, self.b), leaves(self.a.double(), self.b.double())
            detector = "fixed-mutual" if mutual else "fixed"
            criterion = GloFNDLoss(20, "clip", guide=(self.guide, self.thresholds), **{**PLAIN, "detector": detector, "directions": "forward"})
            flags = self.flags(mutual)
            self.assertGreater(int(flags.sum()), 5)
            n = 7 / (7 - flags.sum(1)).double()
            q, d = F.normalize(y[0], dim=1), F.normalize(y[1], dim=1)
            scores = q @ d.T / TAU
            scaled = scores + torch.where(torch.eye(8, dtype=torch.bool), 0.0, n.log()[:, None])
            want = (scaled.masked_fill(flags, -torch.inf).logsumexp(1) - scores.diag()).mean()
            Dense.compare(self, criterion(x[0], x[1], self.index), want, x, y)  # type: ignore[arg-type]
            self.assertEqual(criterion.stats()["flagged"], int(flags.sum()))
            keep = criterion.mask(self.a, self.b, self.index)
            self.assertTrue(torch.equal(keep[:, 0], ~flags & ~torch.eye(8, dtype=torch.bool)))

    def test_of_a_file_an_array_and_a_batch(self):
        options = {"detector": "fixed", "tau": 0.2}
        one = GloFNDLoss(20, guide=(self.guide, self.thresholds), **options)
        with tempfile.TemporaryDirectory() as folder:
            np.save(folder + "/e.npy", self.guide.numpy().astype(np.float64))
            np.save(folder + "/t.npy", self.thresholds.numpy())
            of_files = GloFNDLoss(20, guide=(folder + "/e.npy", folder + "/t.npy"), **options)
        of_batch = GloFNDLoss(None, **options)
        arrays = glofnd.numpy.GloFND(20, **options)
        pair = self.guide[self.index], self.thresholds[self.index]
        want = one(self.a, self.b, self.index).item()
        self.assertEqual(of_files(self.a, self.b, self.index).item(), want)
        self.assertEqual(of_batch(self.a, self.b, self.index, guide=pair).item(), want)
        got = arrays.step(self.a.numpy(), self.b.numpy(), self.index.numpy(), guide=[x.numpy() for x in pair])
        self.assertAlmostEqual(got.loss, want, places=6)
        np.testing.assert_array_equal(arrays.mask(self.a.numpy(), self.b.numpy(), self.index.numpy(), guide=[x.numpy() for x in pair]),
                                      one.mask(self.a, self.b, self.index).numpy())

    def test_in_a_compiled_graph(self):
        criterion = GloFNDLoss(20, detector="fixed", guide=(self.guide, self.thresholds))
        x, = leaves(self.a)
        compiled = torch.compile(lambda: criterion(x, self.b, self.index), backend="aot_eager", fullgraph=True)
        compiled().backward()
        criterion.eval()
        self.assertEqual(compiled().item(), criterion(x, self.b, self.index).item())

    def test_refusals(self):
        good = self.guide, self.thresholds
        for options, text in (({"detector": "glofnd", "guide": good}, "only detector 'fixed'"), ({"detector": "fixed", "guide": self.guide}, "a pair"),
                              ({"detector": "fixed", "guide": (self.guide[:4], self.thresholds)}, r"shape \[4, 11\]"),
                              ({"detector": "fixed", "guide": (self.guide.long(), self.thresholds)}, "int64"),
                              ({"detector": "fixed", "similarity": "bank", "dim": 6}, "similarity: bank")):
            with self.subTest(text), self.assertRaisesRegex(glofnd.Error, text):
                GloFNDLoss(20, **options)
        with self.assertRaisesRegex(glofnd.Error, "needs guide="):
            GloFNDLoss(20, detector="fixed")(self.a, self.b, self.index)
        with self.assertRaisesRegex(glofnd.Error, "guide is None"):
            glofnd.numpy.GloFND(20, detector="fixed").step(self.a.numpy(), self.b.numpy(), self.index.numpy())
        with self.assertRaisesRegex(glofnd.NumericError, "row 0"):
            GloFNDLoss(20, detector="fixed", guide=(self.guide / 0, self.thresholds))(self.a, self.b, self.index)


class Refusals(unittest.TestCase):
    def test_what_cannot_be_meant(self):
        a, n = rows(6, 8, 1), rows(4, 8, 2)
        views, texts = GloFNDLoss(6), GloFNDLoss(6, "clip")
        forward = GloFNDLoss(6, "clip", directions="forward")
        for criterion, more, text in (
                (views, {"negatives": (n, n)}, "pair"),
                (texts, {"negatives": n[:, :4]}, r"shape \[4, 4\]"),
                (texts, {"negatives": n[0]}, r"shape \[8\]"),
                (texts, {"negatives": n.long()}, "int64"),
                (texts, {"negatives": [1.0, 2.0, 3.0]}, "list"),
                (texts, {"negatives": (None, None)}, "pair of None"),
                (texts, {"negatives": n.to("meta")}, "meta"),
                (texts, {"negatives_index": torch.arange(4)}, "without negatives"),
                (texts, {"negatives": n, "negatives_index": torch.arange(3)}, "expected 4 integers"),
                (texts, {"negatives": n, "negatives_index": torch.zeros(4)}, "expected 4 integers"),
                (texts, {"negatives": (n, None), "negatives_index": (None, torch.arange(4))}, "without negatives"),
                (texts, {"negatives": n / 0}, "row 0 holds"),
                (forward, {"negatives": (n, n)}, "directions forward"),
                (GloFNDLoss(6, compat="official"), {"negatives": n}, "compat official"),
                (GloFNDLoss(6, similarity="bank", dim=8), {"negatives": n}, "similarity bank"),
                (GloFNDLoss(6, detector="fnc", fnc_rule="topk"), {"negatives": n}, "fnc_rule topk")):
            with self.subTest(text), self.assertRaisesRegex(glofnd.Error, text):
                criterion(a, a, torch.arange(6), **more)
            self.assertEqual(int(criterion.state_dict()["clock"].sum()), 0)  # no refused step moved a threshold
            self.assertTrue(bool(criterion.state_dict()["log_u"].isneginf().all()))
        with self.assertRaisesRegex(glofnd.OptionError, "directions"):
            GloFNDLoss(6, "simclr", directions="forward")


if __name__ == "__main__":
    unittest.main()
