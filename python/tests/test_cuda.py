"""On a GPU, with a library that has CUDA: the same numbers as the CPU, the caller's stream, devices. Skipped elsewhere."""

import copy
import unittest

try:
    import torch
except ImportError:
    raise unittest.SkipTest("PyTorch is not installed") from None

import glofnd
from glofnd.torch import GloFNDLoss

from .test_torch import BATCH, DIM, SAMPLES, batch, same_state

OBSTACLE = glofnd.device_status("cuda") if torch.cuda.is_available() else "PyTorch sees no GPU"
LOSSES = ("sogclr", "simclr", "clip", "sogclr2", "fastclip", "isogclr")


def make(loss="sogclr", **options):
    return GloFNDLoss(SAMPLES, loss, **{"alpha": 0.2, "lambda_lr": 0.2, "math": "exact", **options})


def on_gpu(seed, dtype=torch.float32):
    a, b, index = batch(seed)
    return a.cuda().to(dtype).requires_grad_(), b.cuda().to(dtype).requires_grad_(), index.cuda()


@unittest.skipIf(OBSTACLE, OBSTACLE)
class Cuda(unittest.TestCase):
    def test_numbers_of_the_cpu(self):
        for loss in LOSSES:
            for options in ({}, {"detector": "single"}, {"detector": "fnc"}, {"action": "attract"},
                            {"learner": "ring", "dim": DIM}):
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
                            torch.testing.assert_close(there.state_dict()[key].cpu(), value, rtol=2e-5, atol=2e-5)

    def test_state_moves_between_devices(self):
        for options in ({}, {"loss": "isogclr"}, {"learner": "ring", "dim": DIM}):
            criterion = make(**options).cuda()
            criterion(*on_gpu(0))
            back = copy.deepcopy(criterion).cpu()
            self.assertTrue(same_state(criterion.cpu(), back))
            self.assertEqual(back(*batch(1)), criterion(*batch(1)))

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

    def test_wrong_use(self):
        a, b, index = on_gpu(0)
        criterion = make().cuda()
        for error, text, call in (
                (glofnd.ArgumentError, "index on cpu", lambda: criterion(a, b, index.cpu())),
                (glofnd.ArgumentError, "this loss on cpu", lambda: make()(a, b, index)),
                (glofnd.AnchorIndexError, "outside the store", lambda: criterion(a, b, index + SAMPLES)),
                (glofnd.AnchorIndexError, "differ", lambda: criterion(a, b, index * 0)),
                (glofnd.NumericError, "", lambda: criterion(a * float("nan"), b, index))):
            with self.subTest(text), self.assertRaisesRegex(error, text):
                call()
        self.assertTrue(same_state(criterion, make().cuda()), "a refused call moved the state")
        criterion(a, b, index)

    def test_mask(self):
        here, there = make(lambda_init="quantile"), make(lambda_init="quantile").cuda()
        self.assertTrue(torch.equal(here.mask(*batch(0)), there.mask(*(x.detach() for x in on_gpu(0))).cpu()))
        self.assertEqual(there.mask(*(x.detach() for x in on_gpu(0))).shape, (BATCH, 2, 2, BATCH))


if __name__ == "__main__":
    unittest.main()
