"""Level 2: every loss x pairing x detector x action x learner against plain PyTorch in float64 (reference.py), over several steps."""

import itertools
import unittest

try:
    import torch
except ImportError:
    raise unittest.SkipTest("PyTorch is not installed") from None

import glofnd
from glofnd.torch import GloFNDLoss

from .reference import Reference

SAMPLES, BATCH, DIM, STEPS = 14, 9, 6, 4
LOSSES = tuple(itertools.product(("sogclr", "simclr", "fastclip", "isogclr", "sigmoid"), ("views", "image-text")))
DETECTORS = ("none", "glofnd", "single", "fnc", "oracle", "groups", "positive", "positive-relative")
ACTIONS = ("drop", "attract", "weight")
LEARNERS = ("adam", "sgd", "adam-official", "ring")
TOLERANCE = 2e-5  # of the largest value, as for the golden cases


def batches(seed):
    generator = torch.Generator().manual_seed(seed)
    centers = torch.randn(3, DIM, generator=generator)
    for step in range(STEPS):
        ids = torch.randperm(SAMPLES, generator=generator)[:BATCH]
        base = centers[ids % 3] + torch.randn(BATCH, DIM, generator=generator)
        a, b = (base + 0.3 * torch.randn(BATCH, DIM, generator=generator) for _ in range(2))
        yield step, a, b, ids, (ids % 3).to(torch.int32), (ids % 4 - 1).to(torch.int32)


def relative(got, want):
    got, want = torch.as_tensor(got, dtype=torch.float64), torch.as_tensor(want, dtype=torch.float64)
    return ((got - want).abs().max() / want.abs().max().clamp(min=1e-6)).item()


class AllCombinations(unittest.TestCase):
    def test_values_gradients_and_state(self):
        tried, refused = 0, 0
        mutual = itertools.product(LOSSES, ("mutual",), ACTIONS)
        for number, ((loss, pairing), detector, action) in enumerate([*itertools.product(LOSSES, DETECTORS, ACTIONS), *mutual]):
            for learner in LEARNERS if detector in ("glofnd", "mutual", "single") else ("adam",):
                options = {"loss": loss, "pairing": pairing, "detector": detector, "action": action, "learner": learner, "alpha": 0.2,
                           "tau": 0.25, "lambda_lr": 0.2, "gamma": 0.7, "margin": -0.05,
                           "lambda_init": "quantile" if (number % 2 or detector == "mutual") and learner != "ring" else "one"}
                with self.subTest(**options):
                    try:
                        criterion = GloFNDLoss(SAMPLES, dim=DIM, ring_rows=32, **{"lambda_init": "one", **options})
                    except glofnd.Error:
                        self.assertEqual((detector, learner), ("single", "ring"))  # the one combination that does not exist
                        refused += 1
                        continue
                    self.compare(criterion, Reference(SAMPLES, ring_rows=32, **options), number - 48 if detector == "mutual" else number % 192, options)
                    tried += 1
        self.assertEqual((tried, refused), (510, 30))

    def test_top_k_and_late_flags(self):
        late = {"mask_epoch": 2, "update_epoch": 1, "lambda_lr": 0.4}
        for number, options in enumerate(({"detector": "fnc", "fnc_rule": "topk"}, late)):
            options |= {"alpha": 0.2, "tau": 0.25}
            for loss in ("sogclr", "clip"):
                with self.subTest(loss=loss, **options):
                    criterion = GloFNDLoss(SAMPLES, loss, **{"lambda_init": "one", **options})
                    self.compare(criterion, Reference(SAMPLES, loss=loss, **options), number, {"loss": loss, **options})

    def test_averages_over_visits(self):
        cases = itertools.product(LOSSES, (("glofnd", "adam"), ("glofnd", "ring"), ("single", "sgd"), ("fnc", "adam")), ACTIONS)
        for number, ((loss, pairing), (detector, learner), action) in enumerate(cases):
            options = {"loss": loss, "pairing": pairing, "detector": detector, "action": action, "learner": learner, "alpha": 0.2,
                       "tau": 0.25, "lambda_lr": 0.2, "gamma": 0.7, "similarity": "bank", "bank_momentum": (0.0, 0.6, 0.9)[number % 3]}
            with self.subTest(**options):
                criterion = GloFNDLoss(SAMPLES, dim=DIM, ring_rows=32, **{"lambda_init": "one", **options})
                self.compare(criterion, Reference(SAMPLES, ring_rows=32, **options), number % 24, options)

    def compare(self, criterion, reference, seed, options):
        detector, learned_tau = options.get("detector", "glofnd"), criterion.log_scale is not None
        flagged = 0
        for epoch, a, b, ids, labels, groups in batches(seed):
            criterion.set_epoch(epoch)
            x = [t.clone().requires_grad_() for t in (a, b)]
            y = [t.double().requires_grad_() for t in (a, b)]
            tau = [torch.tensor(0.25 + 0.01 * epoch, dtype=d, requires_grad=True) if learned_tau else None
                   for d in (torch.float32, torch.float64)]
            with_labels = labels if detector == "oracle" else None
            with_groups = groups if detector == "groups" else None
            if criterion.logit_bias is not None:
                criterion.logit_bias.grad = None
                with torch.no_grad():
                    criterion.logit_bias.fill_(-2.0 + 0.5 * epoch)
            loss = criterion(*x, ids, with_labels, groups=with_groups, tau=tau[0])
            bias = [None, None]
            if criterion.logit_bias is not None:
                bias = [criterion.logit_bias, torch.tensor(-2.0 + 0.5 * epoch, dtype=torch.float64, requires_grad=True)]
            value, surrogate = reference.step(*y, ids, with_labels, with_groups, epoch, tau=tau[1], bias=bias[1])
            loss.backward()
            surrogate.backward()
            self.assertLess(relative(loss.detach(), value), TOLERANCE)
            for ours, theirs in zip(x + [tau[0], bias[0]], y + [tau[1], bias[1]]):
                if ours is not None:
                    self.assertLess(relative(ours.grad, theirs.grad), TOLERANCE)
            flagged += criterion.stats()["flagged"]
        if detector != "none":
            self.assertGreater(flagged, 0, "this case flags nothing and proves little")
        self.compare_state(criterion, reference, detector)

    def compare_state(self, criterion, reference, detector):
        state = criterion.state_dict()
        for side in range(reference.sides):
            rows = reference.state[side]
            if detector in ("glofnd", "mutual"):
                self.assertLess(relative(state["lambda"][side], [row["lambda"] for row in rows]), TOLERANCE)
                self.assertEqual(state["clock"][side].tolist(), [row["clock"] for row in rows])
            if detector == "single":
                self.assertLess(relative(criterion.thresholds()[:1].reshape(-1)[side if reference.sides == 2 else 0],
                                         reference.shared[side]["lambda"]), TOLERANCE)
            u = [row["u"] for row in rows]
            if any(value is not None for value in u):
                got = [0.0 if x is None else y for x, y in zip(u, state["log_u"][side].exp().tolist())]
                self.assertLess(relative(got, [x or 0.0 for x in u]), TOLERANCE)
            if "bank" in state:  # float16: one unit in the last place of numbers up to 1
                want = [[0.0] * DIM if row is None else row.tolist() for row in reference.bank[side]]
                torch.testing.assert_close(state["bank"][side].double(), torch.tensor(want, dtype=torch.float64), rtol=0, atol=2**-10)
            if "tau" in state:
                self.assertLess(relative(state["tau"][side], [row["tau"] or 0.0 for row in rows]), TOLERANCE)


if __name__ == "__main__":
    unittest.main()
