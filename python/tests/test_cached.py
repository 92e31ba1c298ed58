"""Level 2: glofnd.torch.cached(): the gradients of the whole batch, part by part; thresholds move once."""

import os
import socket
import unittest

try:
    import torch
    import torch.distributed as dist
    import torch.multiprocessing as mp
except ImportError:
    raise unittest.SkipTest("PyTorch is not installed") from None

from torch import nn

import glofnd
from glofnd.torch import GloFNDLoss, cached

BATCH, DIM, SAMPLES = 24, 10, 96


def net(seed=0, drop=0.0):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(DIM, 16), nn.ReLU(), nn.Dropout(drop), nn.Linear(16, 8))


def inputs(seed):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(BATCH, DIM, generator=generator)
    return x, x + 0.3 * torch.randn(BATCH, DIM, generator=generator), torch.randperm(SAMPLES, generator=generator)[:BATCH]


def gradients(*modules):
    return torch.cat([p.grad.reshape(-1) for module in modules for p in module.parameters()])


class Cached(unittest.TestCase):
    def compare(self, chunk, **options):
        model, other = net(), net()
        whole, parts = (GloFNDLoss(SAMPLES, alpha=0.2, **options) for _ in range(2))
        step = cached(other, parts, chunk)
        for seed in range(1, 5):  # seed 0 leads to a pair whose similarity is its threshold, up to rounding
            x1, x2, index = inputs(seed)
            labels = index % 5
            want, have = whole(model(x1), model(x2), index, labels), step(x1, x2, index, labels)
            self.assertAlmostEqual(have.item(), want.item(), 5)
            for x in model, other, whole, parts:
                x.zero_grad()
            want.backward()
            have.backward()
            torch.testing.assert_close(gradients(other, parts), gradients(model, whole), rtol=1e-4, atol=1e-6)
        state, expected = parts.state_dict(), whole.state_dict()
        self.assertTrue(torch.equal(state["clock"], expected["clock"]))  # once a step
        torch.testing.assert_close(state["lambda"], expected["lambda"], rtol=1e-5, atol=1e-6)

    def test_gradients_are_those_of_the_whole_batch(self):
        for chunk in (1, 7, 24, 100):
            with self.subTest(chunk):
                self.compare(chunk)

    def test_with_every_kind_of_mask(self):
        for options in ({"loss": "clip"}, {"detector": "oracle"}, {"detector": "fnc"}, {"action": "attract", "loss": "simclr"}, {"detector": "none"}):
            with self.subTest(options):
                self.compare(7, **options)

    def test_dropout_is_the_same_in_both_passes(self):
        model = net(drop=0.5)
        seen = []
        model[2].register_forward_hook(lambda _m, _i, out: seen.append((out != 0).detach()))
        torch.manual_seed(3)
        cached(model, GloFNDLoss(SAMPLES), 7)(*inputs(0)).backward()
        first, second = seen[:len(seen) // 2], seen[len(seen) // 2:]
        self.assertEqual(len(first), 8)
        self.assertTrue(all(any(torch.equal(x, y) for y in second) for x in first))

    def test_memory_of_a_part(self):
        """In the first pass no activation stays: what autograd keeps of the model are inputs."""
        model, rows = net(), []
        def save(x):
            rows.append(tuple(x.shape))
            return x
        with torch.autograd.graph.saved_tensors_hooks(save, lambda x: x):
            model(inputs(0)[0])
            self.assertIn((BATCH, 16), rows)
            rows.clear()
            cached(model, GloFNDLoss(SAMPLES), 6)(*inputs(0))
        self.assertFalse([shape for shape in rows if shape and shape[-1] == 16])

    def test_two_encoders_and_named_inputs(self):
        class Text(nn.Module):
            def __init__(self):
                super().__init__()
                self.body = net(1)

            def forward(self, features):
                return self.body(features["x"] * features["scale"])

        image, text = net(), Text()
        criterion = GloFNDLoss(SAMPLES, "clip", alpha=0.1)
        x1, x2, index = inputs(0)
        features = {"x": x2, "scale": 2.0}
        cached((image, text), criterion, 5)(x1, features, index.tolist()).backward()
        have = gradients(image, text)
        criterion = GloFNDLoss(SAMPLES, "clip", alpha=0.1)
        image.zero_grad(), text.zero_grad()
        criterion(image(x1), text(features), index).backward()
        torch.testing.assert_close(have, gradients(image, text), rtol=1e-4, atol=1e-6)

    def test_without_gradients(self):
        model, criterion = net(), GloFNDLoss(SAMPLES)
        with torch.no_grad():
            self.assertFalse(cached(model, criterion, 7)(*inputs(0)).requires_grad)

    def test_autocast(self):
        model, criterion = net(), GloFNDLoss(SAMPLES)
        with torch.autocast("cpu", torch.bfloat16):
            loss = cached(model, criterion, 7)(*inputs(0))
        loss.backward()
        self.assertEqual(model[0].weight.grad.dtype, torch.float32)

    def test_wrong_use(self):
        criterion = GloFNDLoss(SAMPLES)
        for kind, text, call in ((glofnd.ArgumentError, "chunk is 0", lambda: cached(net(), criterion, 0)),
                                 (glofnd.ArgumentError, "chunk is 2.5", lambda: cached(net(), criterion, 2.5)),
                                 (glofnd.ArgumentError, "expected a module, or a pair", lambda: cached((net(),) * 3, criterion, 2)),
                                 (glofnd.ArgumentError, "type str; expected tensors", lambda: cached(net(), criterion, 2)("ab", "cd", [0, 1])),
                                 (glofnd.ArgumentError, "model returns dict", lambda: cached(lambda x: {}, criterion, 2)(*inputs(0)))):
            with self.subTest(text), self.assertRaisesRegex(kind, text):
                call()


def _rank(rank, port, result):
    os.environ.update(MASTER_ADDR="localhost", MASTER_PORT=str(port))
    dist.init_process_group("gloo", rank=rank, world_size=2)
    model = nn.parallel.DistributedDataParallel(net())
    step = cached(model, GloFNDLoss(SAMPLES, alpha=0.2), 5)
    x1, x2, index = inputs(0)
    mine = slice(rank * BATCH // 2, (rank + 1) * BATCH // 2)
    for _ in range(2):
        model.zero_grad()
        step(x1[mine], x2[mine], index[mine]).backward()
    result[rank] = gradients(model).tolist()
    dist.destroy_process_group()


class Ranks(unittest.TestCase):
    def test_two_ranks_are_one(self):
        with socket.socket() as free:
            free.bind(("localhost", 0))
            port = free.getsockname()[1]
        result = mp.get_context("spawn").Manager().dict()
        mp.spawn(_rank, (port, result), nprocs=2)
        model, criterion = net(), GloFNDLoss(SAMPLES, alpha=0.2)
        x1, x2, index = inputs(0)
        for _ in range(2):
            model.zero_grad()
            criterion(model(x1), model(x2), index).backward()
        for rank in range(2):
            torch.testing.assert_close(torch.tensor(result[rank]), gradients(model), rtol=1e-4, atol=1e-6)


if __name__ == "__main__":
    unittest.main()
