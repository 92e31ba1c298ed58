"""Level 2: the state of glofnd.torch.GloFNDLoss: state_dict, pickle, copies, store files."""

import copy
import io
import os
import pathlib
import pickle
import tempfile
import unittest
import warnings

try:
    import torch
except ImportError:
    raise unittest.SkipTest("PyTorch is not installed") from None

import glofnd
from glofnd.numpy import GloFND
from glofnd.torch import GloFNDLoss

from .test_torch import BATCH, DIM, SAMPLES, batch, make, same_state


class State(unittest.TestCase):
    CASES = ({}, {"loss": "clip"}, {"detector": "single"}, {"loss": "isogclr"}, {"learner": "ring", "dim": DIM},
             {"loss": "fastclip", "learner": "ring", "dim": DIM, "ring_rows": 24}, {"similarity": "bank", "dim": DIM},
             {"loss": "clip", "similarity": "bank", "dim": DIM, "bank_momentum": 0.9},
             {"similarity": "bank", "dim": DIM, "action": "attract", "learner": "ring"},
             {"similarity": "bank", "dim": DIM, "neighbours": 2, "neighbour_weight": 0.7})

    def trained(self, **options):
        criterion = make(**options)
        for seed in range(3):
            criterion.set_epoch(seed)
            criterion(*batch(seed))
        return criterion

    def test_save_and_load(self):
        for options in self.CASES:
            with self.subTest(**options):
                criterion, file = self.trained(**options), io.BytesIO()
                torch.save(criterion.state_dict(), file)
                file.seek(0)
                loaded = make(**options)
                self.trained_differently(loaded)
                loaded.load_state_dict(torch.load(file, weights_only=True))
                self.assertTrue(same_state(criterion, loaded))
                self.assertEqual(loaded.epoch, 2)
                self.assertEqual(criterion(*batch(9)), loaded(*batch(9)))
                self.assertTrue(same_state(criterion, loaded))

    def trained_differently(self, criterion):
        criterion(*batch(77))

    def test_inside_of_a_model(self):
        def model():
            return torch.nn.ModuleDict({"net": torch.nn.Linear(DIM, DIM), "criterion": make()})
        one, two = model(), model()
        one["criterion"](*batch(0))
        two.load_state_dict(one.state_dict())
        self.assertTrue(same_state(one["criterion"], two["criterion"]))
        self.assertEqual(set(one.state_dict()) - {"net.weight", "net.bias"},
                         {"criterion." + name for name in ("lambda", "m", "v", "log_u", "clock", "shared", "epoch")})

    def test_copy_and_pickle(self):
        for options in self.CASES:
            with self.subTest(**options):
                criterion = self.trained(**options)
                for other in (copy.deepcopy(criterion), pickle.loads(pickle.dumps(criterion))):
                    self.assertTrue(same_state(criterion, other))
                    other(*batch(5))
                    self.assertFalse(same_state(criterion, other))

    def test_equal_to_the_store_file(self):
        for options in self.CASES:
            with self.subTest(**options), tempfile.TemporaryDirectory() as folder:
                criterion = self.trained(**options)
                criterion.save_store(os.path.join(folder, "store"))
                options = {key: value for key, value in options.items() if key != "dim"}
                stored = GloFND.load(os.path.join(folder, "store"), alpha=0.2, lambda_lr=0.2, **options)
                self.check_load_store(criterion, stored, folder, options)
                state = criterion.state_dict()
                for side in range(stored.sides):
                    for name in ("lambda", "m", "v", "log_u", "clock"):
                        self.assertEqual(state[name][side].numpy().tobytes(), stored.rows(side=side)[name].tobytes())
                    if "bank" in state:
                        self.assertGreater(int(state["bank"][side].any(dim=1).sum()), BATCH)
                        self.assertEqual(state["bank"][side].numpy().tobytes(), stored.bank(side=side).tobytes())
                if "ring_index" in state:
                    ids, a, b = stored.ring()
                    self.assertEqual(state["ring_index"].tolist(), ids.tolist())
                    self.assertEqual(state["ring_a"].numpy().tobytes(), a.tobytes())
                    self.assertTrue(b is None or state["ring_b"].numpy().tobytes() == b.tobytes())

    def test_another_number_of_samples_and_strict_false(self):
        saved = self.trained().state_dict()
        with self.assertRaisesRegex(glofnd.StateError, "num_samples=64.*resize.65"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            GloFNDLoss(SAMPLES + 1).load_state_dict(saved)
        for other in (GloFNDLoss(SAMPLES + 1), make("clip"), make(similarity="bank", dim=DIM)):
            before = copy.deepcopy(other)
            with self.assertWarnsRegex(UserWarning, "own thresholds"):
                keys = other.load_state_dict(saved, strict=False)
            self.assertRegex(" ".join(keys.missing_keys), "lambda .*saved")
            self.assertTrue(same_state(other, before))
            model = torch.nn.ModuleDict({"net": torch.nn.Linear(2, 2), "criterion": other})
            whole = {"net.weight": torch.ones(2, 2), "net.bias": torch.ones(2), **{"criterion." + key: x for key, x in saved.items()}}
            with self.assertWarnsRegex(UserWarning, "criterion.*own thresholds"):
                model.load_state_dict(whole, strict=False)
            self.assertTrue(same_state(other, before))
            self.assertEqual(model["net"].weight.sum(), 4)
            other(*batch(1))

    def test_state_that_the_loss_does_not_keep(self):
        for options in ({"similarity": "bank", "dim": DIM}, {"learner": "ring", "ring_rows": 16, "dim": DIM}, {"loss": "isogclr"}):
            with self.subTest(**options):
                saved, other = self.trained(**options).state_dict(), make(**({"loss": "sogclr2"} if "loss" in options else {}))
                before = copy.deepcopy(other)
                with self.assertWarnsRegex(UserWarning, "(bank|ring|tau).*own thresholds"):
                    keys = other.load_state_dict(saved, strict=False)
                self.assertRegex(" ".join(keys.missing_keys), "lambda .*saved")
                self.assertTrue(same_state(other, before))

    def test_a_dataset_that_grew(self):
        for options in self.CASES:
            with self.subTest(**options):
                criterion, before = self.trained(**options), self.trained(**options)
                thresholds, new = criterion.thresholds(), GloFNDLoss(SAMPLES + 5, **{**criterion._core.values, "dim": DIM})
                criterion.resize(SAMPLES + 5)
                self.assertTrue(torch.equal(criterion.thresholds()[:SAMPLES], thresholds))
                self.assertTrue(options.get("detector") == "single" or
                                torch.equal(criterion.thresholds()[SAMPLES:], new.thresholds()[SAMPLES:]))
                self.assertEqual(criterion(*batch(9)), before(*batch(9)))
                a, b, index = batch(10)
                criterion(a, b, index + 5)
                new.load_state_dict(criterion.state_dict())
                self.assertTrue(same_state(new, criterion))
                with self.assertRaisesRegex(glofnd.ArgumentError, "num_samples is 64; .*69"):
                    criterion.resize(SAMPLES)

    def test_eval_does_not_move(self):
        criterion = self.trained()
        before = copy.deepcopy(criterion)
        criterion.eval()(*batch(4))
        self.assertTrue(same_state(criterion, before))
        criterion.train()(*batch(4))
        self.assertFalse(same_state(criterion, before))

    def check_load_store(self, criterion, stored, folder, options):
        """PyTorch reads what it wrote, and what NumPy wrote."""
        for write in (criterion.save_store, stored.save_store):
            path = pathlib.Path(folder, "other")
            write(path)
            other = make(**{"dim": DIM, **options})
            self.trained_differently(other)
            other.load_store(path)
            other.set_epoch(criterion.epoch)
            self.assertTrue(same_state(criterion, other))
        self.assertEqual(copy.deepcopy(criterion)(*batch(5)), other(*batch(5)))

    def test_store_file_of_another_loss(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "store")
            self.trained().save_store(path)
            for text, options in (("num_samples.*resize.65", None), ("sides", {"loss": "clip"}), ("ring", {"learner": "ring", "dim": DIM}),
                                  ("average", {"similarity": "bank", "dim": DIM})):
                other = GloFNDLoss(SAMPLES + 1) if options is None else make(**options)
                with self.subTest(text), self.assertRaisesRegex(glofnd.StateError, text):
                    other.load_store(path)
                other(*batch(0))
            with self.assertRaisesRegex(glofnd.FileError, "none"):
                make().load_store(os.path.join(folder, "none"))


if __name__ == "__main__":
    unittest.main()
