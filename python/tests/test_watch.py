"""Level 2: mistakes in a training loop that raise no error: one warning each; a right loop has none."""

import contextlib
import unittest
import warnings

try:
    import torch
    from torch.utils.checkpoint import checkpoint
except ImportError:
    raise unittest.SkipTest("PyTorch is not installed") from None

import glofnd.numpy
from glofnd.torch import GloFNDLoss, cached

BATCH, DIM = 8, 6


@contextlib.contextmanager
def said():
    """A list of the warnings of this block, as texts."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        texts = []
        yield texts
        texts.extend(str(x.message) for x in seen if issubclass(x.category, UserWarning))


def embeddings(seed, grad=True):
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(BATCH, DIM, generator=generator).requires_grad_(grad) for _ in range(2)]


def train(criterion, index, seed=0, **arguments):
    z1, z2 = embeddings(seed)
    criterion(z1, z2, index, **arguments).backward()


class OneWarning(unittest.TestCase):
    def expect(self, texts, *parts):
        self.assertEqual(len(texts), 1, texts)
        for part in parts:
            self.assertIn(part, texts[0])

    def test_positions_in_the_batch(self):
        criterion = GloFNDLoss(100)
        with said() as texts:
            for step in range(30):
                train(criterion, torch.arange(BATCH), step)
            criterion.stats()
        self.expect(texts, "0 .. 7 in every step", "WithIndex")

    def test_a_dataset_of_one_batch_has_the_same_positions(self):
        with said() as texts:
            for n in (BATCH, 2 * BATCH - 1):  # with drop_last this is all that a loader gives
                criterion = GloFNDLoss(n)
                for step in range(30):
                    train(criterion, torch.arange(BATCH), step)
        self.assertEqual(texts, [])

    def test_logit_scale_for_a_temperature(self):
        with said() as texts:
            criterion = GloFNDLoss(100, tau=14.3)
            train(criterion, torch.arange(BATCH))
            criterion.configure(tau=20)
        self.expect(texts, "tau is 14.3", "tau=0.0699")
        with said() as texts:
            glofnd.numpy.GloFND(100, tau=14.3)
        self.expect(texts, "tau is 14.3")
        for tau in (14.3, torch.tensor(14.3)):
            criterion = GloFNDLoss(100, loss="clip", learn_tau=False)
            with said() as texts:
                for step in range(12):
                    train(criterion, torch.randperm(100)[:BATCH], step, tau=tau)
            self.expect(texts, "tau is 14.3", "inverse")

    def test_validation_in_training_mode(self):
        criterion = GloFNDLoss(100)
        with said() as texts:
            for step in range(5):
                train(criterion, torch.randperm(100)[:BATCH], step)
                with torch.no_grad():
                    for batch in range(6):
                        criterion(*embeddings(batch, False), torch.randperm(100)[:BATCH])
        self.expect(texts, "torch.no_grad()", "criterion.eval()")

    def test_fresh_positions_in_every_epoch(self):
        criterion = GloFNDLoss(1000)
        with said() as texts:
            for epoch in range(6):
                criterion.set_epoch(epoch)
                for step in range(3):
                    train(criterion, torch.arange(BATCH) + BATCH * (3 * epoch + step))
        self.expect(texts, "came before", "same position")

    def test_fewer_pairs_than_one_over_alpha(self):
        for detector in ("glofnd", "single"):
            criterion = GloFNDLoss(2 * BATCH, alpha=1e-4, detector=detector)
            with said() as texts:
                for epoch in range(3):
                    criterion.set_epoch(epoch)
                    for part in torch.randperm(2 * BATCH).split(BATCH):
                        train(criterion, part)
            self.expect(texts, "alpha is 0.0001", "448 pairs", "larger alpha")

    def test_an_epoch_that_never_moves(self):
        for options, calls, part in (({"start_epoch": 2}, False, "never called"), ({"start_epoch": 2}, True, "always had the same epoch"),
                                     ({"lambda_warmup": 2}, True, "lambda_warmup=2 never ends")):
            criterion = GloFNDLoss(4 * BATCH, **options)
            with said() as texts:
                for _ in range(12):
                    if calls:
                        criterion.set_epoch(0)
                    for part_of_all in torch.randperm(4 * BATCH).split(BATCH):
                        train(criterion, part_of_all)
            self.expect(texts, part, "set_epoch(epoch)")


class NoWarning(unittest.TestCase):
    """Loops as they should be, with warnings as errors."""

    def setUp(self):
        caught = warnings.catch_warnings()
        caught.__enter__()
        self.addCleanup(caught.__exit__, None, None, None)
        warnings.simplefilter("error", UserWarning)

    def test_a_plain_loop(self):
        for shuffle in (False, True):
            for options in ({}, {"start_epoch": 1}, {"lambda_warmup": 1}, {"learner": "ring", "dim": DIM, "ring_rows": 1024},
                            {"detector": "positive"}, {"detector": "fnc"}, {"loss": "clip"}):
                n = 3 * BATCH
                criterion = GloFNDLoss(n, **options)
                for epoch in range(5):
                    criterion.train()
                    order = torch.randperm(n) if shuffle else torch.arange(n)
                    for step, index in enumerate(order.split(BATCH)):
                        criterion.set_epoch(epoch)  # as a callback of every step does
                        train(criterion, index, 10 * epoch + step)
                    criterion.eval()
                    with torch.no_grad():
                        for step in range(5):
                            criterion(*embeddings(step, False), torch.randperm(n)[:BATCH])
                    criterion.stats()
                    criterion.load_state_dict(criterion.state_dict())

    def test_activation_checkpointing(self):
        for reentrant in (False, True):
            criterion, n = GloFNDLoss(3 * BATCH), 3 * BATCH
            for step in range(30):
                z1, z2 = embeddings(step)
                index = torch.randperm(n)[:BATCH]
                losses = [checkpoint(lambda a, b: criterion(torch.tanh(a), b, index), z1, z2, use_reentrant=reentrant) for _ in range(2)]
                sum(losses).backward()

    def test_gradients_in_parts(self):
        criterion, n, model = GloFNDLoss(3 * BATCH), 3 * BATCH, torch.nn.Linear(DIM, DIM)
        step = cached(model, criterion, 3)
        for k in range(20):
            step(*embeddings(k, False), torch.randperm(n)[:BATCH]).backward()
        for k in range(20):  # by hand: embeddings without a graph, the loss on leaves, a second pass
            with torch.no_grad():
                leaves = [model(x) for x in embeddings(k, False)]
            leaves = [x.requires_grad_() for x in leaves]
            criterion(*leaves, torch.randperm(n)[:BATCH]).backward()
            for x, leaf in zip(embeddings(k, False), leaves):
                model(x).backward(leaf.grad)


if __name__ == "__main__":
    unittest.main()
