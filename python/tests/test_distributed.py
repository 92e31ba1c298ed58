"""Level 2: R ranks by gloo give what one rank gives: loss, gradients in both roles, and state that follows the sample."""

import os
import socket
import tempfile
import unittest

try:
    import torch
except ImportError:
    raise unittest.SkipTest("PyTorch is not installed") from None
import torch.distributed as dist
import torch.multiprocessing as mp

import glofnd
from glofnd.torch import GloFNDLoss

SAMPLES, BATCH, DIM, STEPS = 40, 16, 8, 4
CASES = (
    {"loss": "sogclr"}, {"loss": "simclr", "action": "attract"}, {"loss": "clip", "detector": "fnc"},
    {"loss": "fastclip", "action": "weight"}, {"loss": "isogclr"}, {"loss": "sigmoid", "pairing": "image-text", "action": "attract"}, {"loss": "sogclr", "detector": "single"},
    {"loss": "sogclr", "detector": "oracle"}, {"loss": "sogclr2", "learner": "ring", "dim": DIM, "ring_rows": 64},
    {"loss": "sogclr", "similarity": "bank", "dim": DIM}, {"loss": "clip", "similarity": "bank", "dim": DIM, "detector": "single"},
    {"loss": "sogclr", "similarity": "bank", "dim": DIM, "action": "attract"},
    {"loss": "sogclr", "similarity": "bank", "dim": DIM, "neighbours": 3},
    {"loss": "simclr", "similarity": "bank", "dim": DIM, "neighbours": 2, "neighbour_share": 0.5, "neighbour_rows": 25},
    {"loss": "sogclr", "keys": True}, {"loss": "sogclr2", "keys": True, "learner": "ring", "dim": DIM, "ring_rows": 64},
    {"loss": "clip", "keys": True, "similarity": "bank", "dim": DIM, "detector": "single"},
    {"loss": "simclr", "learner": "shrinkage"}, {"loss": "clip", "learner": "shrinkage", "keys": True},
    {"loss": "sogclr", "learner": "shrinkage", "detector": "single"},
    {"loss": "simclr", "positives": True}, {"loss": "clip", "positives": True, "guide": True, "detector": "fixed-mutual"},
    {"loss": "sogclr", "repeats": True}, {"loss": "isogclr", "repeats": True, "lambda_init": "quantile"},
    {"loss": "clip", "repeats": True, "detector": "mutual"}, {"loss": "sogclr2", "repeats": True, "keys": True, "learner": "ring", "dim": DIM, "ring_rows": 64},
)
GUIDE = torch.randn(SAMPLES, 5, generator=torch.Generator().manual_seed(7)), torch.linspace(-0.5, 0.5, SAMPLES)
COPIES = [0, 0, 2, 3, 4, 0, 6, 7, 2, 9, 10, 11, 12, 2, 14, 0]  # option repeats: which samples of a batch are one, on one rank and on several
KEYS = torch.from_numpy(glofnd.keys([f"sample {i}" for i in range(SAMPLES)]))


def batches():
    generator = torch.Generator().manual_seed(0)
    for _ in range(STEPS):
        a = torch.randn(BATCH, DIM, generator=generator)
        yield a, a + 0.5 * torch.randn(BATCH, DIM, generator=generator), torch.randperm(SAMPLES, generator=generator)[:BATCH]


def train(options, rank, world, device="cpu"):
    """Losses, gradients of a linear layer after DDP's mean, gradients of log_scale, state."""
    torch.manual_seed(0)
    net = torch.nn.Linear(DIM, DIM).to(device)
    options = dict(options)
    keys = KEYS if options.pop("keys", False) else None
    positives = options.pop("positives", False)
    if options.pop("guide", False):
        options["guide"] = GUIDE
    options = {**({} if options.get("learner") == "shrinkage" else {"lambda_lr": 0.2}), **options}
    criterion = GloFNDLoss(SAMPLES if keys is None else None, alpha=0.2, threads=1, **({"math": "exact"} if device == "cuda" else {}), **options).to(device)
    model = torch.nn.parallel.DistributedDataParallel(net) if world > 1 else net
    own = slice(rank * BATCH // world, (rank + 1) * BATCH // world)
    losses, grads = [], []
    for epoch, (a, b, index) in enumerate(batches()):
        index = index[COPIES] if options.get("repeats") else index
        criterion.set_epoch(epoch)
        net.zero_grad()
        criterion.zero_grad()
        a, b, index = a.to(device), b.to(device), index.to(device)
        labels = index[own] % 4 * (2**40 if world > 1 else 1) if options.get("detector") == "oracle" else None  # equality counts
        z = model(torch.cat([a[own], b[own]])).chunk(2)
        sets = {"positives": index[own] % 9 * 2**33 - 2**33} if positives else {}
        loss = criterion(*z, index[own] if keys is None else keys.to(device)[index[own]], labels, **sets)
        loss.backward()
        losses.append(loss.item())
        grads += [net.weight.grad.cpu().clone(), net.bias.grad.cpu().clone()]
        grads += [criterion.log_scale.grad.cpu().clone()] if criterion.log_scale is not None else []
    return losses, grads, {key: value.cpu() for key, value in criterion.state_dict().items()}


def run(rank, world, port, folder):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=world)
    results = [train(options, rank, world) for options in CASES]
    torch.save(results, os.path.join(folder, f"{rank}.pt"))
    refuse_unequal(rank)
    refuse_other_options(rank)
    refuse_a_wrong_index(rank, world)
    refuse_a_foreign_group(rank)
    dist.destroy_process_group()


def refuse_unequal(rank):
    """Ranks that disagree all raise, none waits."""
    a, b, index = next(batches())
    size = 4 + (rank == 0)
    try:
        GloFNDLoss(SAMPLES, threads=1)(a[:size], b[:size], index[:size])
    except glofnd.ArgumentError as failure:
        assert "drop_last" in str(failure)
        return
    raise AssertionError("unequal batches were accepted")


def refuse_other_options(rank):
    """The same for options, the number of samples, and train() on some ranks only."""
    a, b, index = next(batches())
    for first, other in (({"alpha": 0.1}, {"alpha": 0.2}), ({"tau": 0.1}, {"tau": 0.2}), ({"num_samples": SAMPLES + 5}, {}), (None, {})):
        options = dict((first or {}) if rank == 0 else other)
        criterion = GloFNDLoss(options.pop("num_samples", SAMPLES), threads=1 + rank, **options)
        if first is None and rank == 0:
            criterion.eval()
        try:
            criterion(a[:4], b[:4], index[4 * rank:4 * rank + 4])
        except glofnd.ArgumentError as failure:
            assert "same options" in str(failure)
            continue
        raise AssertionError(f"{first} and {other} were accepted")


def refuse_a_wrong_index(rank, world):
    """All ranks raise for a sample that only one of them got wrong; the next step works, and its statistics are those of all ranks."""
    a, b, index = next(batches())
    size = BATCH // world
    own = slice(size * rank, size * (rank + 1))
    for options in ({}, {"similarity": "bank", "dim": DIM}):
        criterion = GloFNDLoss(SAMPLES, threads=1, **options)
        wrong = index[own].clone()
        wrong[0] = SAMPLES if rank == world - 1 else wrong[0]
        try:
            criterion(a[own], b[own], wrong)
        except glofnd.AnchorIndexError as failure:
            assert f"[{size * (world - 1)}] is {SAMPLES}" in str(failure), failure
        else:
            raise AssertionError("a wrong index was accepted")
        assert int(criterion.state_dict()["clock"].sum()) == 0, "a refused step moved the state"
        loss = criterion(a[own], b[own], index[own])
        stats = criterion.stats()
        assert abs(stats["loss"] - loss.item()) <= 1e-6 * abs(loss.item())
        assert stats["pairs"] == 2 * size * (2 * BATCH - 2), stats["pairs"]
        criterion(a[own], b[own], index[own])
        counts = criterion.epoch_stats()  # of this rank's samples, as those of stats()
        assert (counts["steps"], counts["pairs"]) == (2, 2 * stats["pairs"]), counts
        every = [None] * world
        dist.all_gather_object(every, counts)
        total = glofnd.sum_stats(every)
        assert total["pairs"] == 2 * 2 * BATCH * (2 * BATCH - 2), total


def refuse_a_foreign_group(rank):
    """A loss of ranks 0 and 1 works there; others would train alone, in silence."""
    group = dist.new_group([0, 1])
    a, b, index = next(batches())
    own = slice(4 * (rank % 2), 4 * (rank % 2) + 4)
    try:
        GloFNDLoss(SAMPLES, threads=1, process_group=group)(a[own], b[own], index[own])
    except glofnd.ArgumentError as failure:
        assert rank > 1 and "not in process_group" in str(failure), (rank, failure)
        return
    assert rank < 2, "a rank outside of the group was accepted"


class Ranks(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.one = [train(options, 0, 1) for options in CASES]

    def test_two_ranks(self):
        self.check(2)

    def test_four_ranks(self):
        self.check(4)

    def check(self, world):
        with socket.socket() as probe, tempfile.TemporaryDirectory() as folder:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
            probe.close()
            mp.spawn(run, (world, port, folder), nprocs=world)
            for rank in range(world):
                results = torch.load(os.path.join(folder, f"{rank}.pt"), weights_only=True)
                for options, mine, want in zip(CASES, results, self.one):
                    with self.subTest(rank=rank, **options):
                        self.compare(mine, want)

    def compare(self, mine, want):
        torch.testing.assert_close(mine[0], want[0], rtol=2e-6, atol=2e-6)
        for x, y in zip(mine[1], want[1]):
            torch.testing.assert_close(x, y, rtol=2e-5, atol=2e-5 * y.abs().max().item())
        self.assertEqual(mine[2].keys(), want[2].keys())
        for key, value in want[2].items():
            if key == "shared":
                mine[2][key], value = mine[2][key].view(torch.float32), value.view(torch.float32)
            ulp = 2**-10 if value.dtype == torch.float16 else 2e-6  # averages are rounded: one unit of numbers up to 1
            torch.testing.assert_close(mine[2][key], value, rtol=2e-5, atol=ulp, msg=lambda text, key=key: f"{key}: {text}")


if __name__ == "__main__":
    unittest.main()
