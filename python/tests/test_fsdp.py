"""Level 2: fully_shard() of PyTorch beside GloFNDLoss, two ranks by gloo: weights and thresholds of one process, also after a restart. The loss
is no part of the sharded model."""

import os
import socket
import tempfile
import unittest

try:
    import torch
    from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict, set_model_state_dict
    from torch.distributed.fsdp import fully_shard
except ImportError:
    raise unittest.SkipTest("this PyTorch has no fully_shard") from None
import torch.distributed as dist
import torch.multiprocessing as mp

from glofnd.torch import GloFNDLoss

SAMPLES, BATCH, DIM, STEPS = 40, 16, 8, 6
WHOLE = StateDictOptions(full_state_dict=True, cpu_offload=True)
EVERYWHERE = StateDictOptions(full_state_dict=True, broadcast_from_rank0=True)


def network():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(DIM, 32), torch.nn.ReLU(), torch.nn.Linear(32, DIM))


def batches():
    generator = torch.Generator().manual_seed(1)
    for _ in range(STEPS):
        a = torch.randn(BATCH, DIM, generator=generator)
        yield a, a + 0.5 * torch.randn(BATCH, DIM, generator=generator), torch.randperm(SAMPLES, generator=generator)[:BATCH]


def train(model, criterion, rank, world, first, last):
    optimizer = torch.optim.SGD([*model.parameters(), *criterion.parameters()], lr=0.1)
    own = slice(rank * BATCH // world, (rank + 1) * BATCH // world)
    for step, (a, b, index) in enumerate(batches()):
        if first <= step < last:
            criterion.set_epoch(step // 2)
            optimizer.zero_grad()
            criterion(*model(torch.cat([a[own], b[own]])).chunk(2), index[own]).backward()
            optimizer.step()


def make_loss():
    return GloFNDLoss(SAMPLES, "clip", alpha=0.2, tau=0.2, threads=1)


def run(rank, port, folder):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=2)
    mesh = dist.device_mesh.init_device_mesh("cpu", (2,))

    def sharded():
        model = network()
        for part in (model[0], model[2], model):
            fully_shard(part, mesh=mesh)
        return model

    path = os.path.join(folder, "half.pt")
    model, criterion = sharded(), make_loss()
    train(model, criterion, rank, 2, 0, STEPS // 2)
    weights = get_model_state_dict(model, options=WHOLE)
    if rank == 0:
        torch.save({"model": weights, "glofnd": criterion.state_dict()}, path)
    dist.barrier()
    model, criterion = sharded(), make_loss()  # as a new process does
    saved = torch.load(path, weights_only=True)
    set_model_state_dict(model, saved["model"], options=EVERYWHERE)
    criterion.load_state_dict(saved["glofnd"])
    train(model, criterion, rank, 2, STEPS // 2, STEPS)
    torch.save({"model": get_model_state_dict(model, options=WHOLE), "glofnd": criterion.state_dict()}, os.path.join(folder, f"{rank}.pt"))
    dist.destroy_process_group()


class Sharded(unittest.TestCase):
    def test_two_ranks_are_one(self):
        with socket.socket() as probe, tempfile.TemporaryDirectory() as folder:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
            probe.close()
            mp.spawn(run, (port, folder), nprocs=2)
            first, second = (torch.load(os.path.join(folder, f"{rank}.pt"), weights_only=True) for rank in range(2))
        model, criterion = network(), make_loss()
        train(model, criterion, 0, 1, 0, STEPS)
        for key, value in model.state_dict().items():
            torch.testing.assert_close(first["model"][key], value, rtol=2e-5, atol=2e-6, msg=key)
        for key, value in criterion.state_dict().items():
            if key != "shared":
                torch.testing.assert_close(first["glofnd"][key], value, rtol=2e-5, atol=2e-6, msg=key)
            self.assertTrue(torch.equal(first["glofnd"][key], second["glofnd"][key]), key)


if __name__ == "__main__":
    unittest.main()
