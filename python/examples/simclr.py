"""SimCLR in plain PyTorch, with GloFND instead of NT-Xent: the dataset returns its index, and the loss gets it.

    python simclr.py                          one process
    torchrun --nproc-per-node 2 simclr.py     the same on two: batches are shared, and results are those of one process
                                              with the same batches, up to rounding
"""

import argparse
import os

import torch
import torch.distributed as dist
from torch import nn

from glofnd.torch import GloFNDLoss

parser = argparse.ArgumentParser()
parser.add_argument("--samples", type=int, default=2048)
parser.add_argument("--epochs", type=int, default=10)
parser.add_argument("--batch", type=int, default=256)
options = parser.parse_args()


class Blobs(torch.utils.data.Dataset):
    """Images of 8 kinds; two noisy views and the index of each."""

    def __init__(self, count):
        self.kind = torch.arange(count) % 8
        self.image = torch.randn(8, 3, 16, 16)[self.kind] + 0.7 * torch.randn(count, 3, 16, 16)

    def __len__(self):
        return len(self.image)

    def __getitem__(self, index):
        first, second = (self.image[index] + 0.5 * torch.randn(3, 16, 16) for _ in range(2))
        return first, second, index


ranks = int(os.environ.get("WORLD_SIZE", 1))
on_gpu = torch.cuda.is_available() and torch.cuda.device_count() >= int(os.environ.get("LOCAL_WORLD_SIZE", 1))
if ranks > 1:
    dist.init_process_group("nccl" if on_gpu else "gloo")
torch.manual_seed(0)
device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", 0))) if on_gpu else torch.device("cpu")
data = Blobs(options.samples)
sampler = torch.utils.data.DistributedSampler(data) if ranks > 1 else torch.utils.data.RandomSampler(data)
loader = torch.utils.data.DataLoader(data, options.batch // ranks, sampler=sampler, drop_last=True)
net = nn.Sequential(nn.Conv2d(3, 16, 3, stride=2), nn.ReLU(), nn.Flatten(), nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 32))
net = net.to(device)
model = nn.parallel.DistributedDataParallel(net) if ranks > 1 else net
optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3)
criterion = GloFNDLoss(len(data), "simclr", alpha=0.1, start_epoch=2, lambda_init="quantile").to(device)  # instead of NT-Xent

for epoch in range(options.epochs):
    criterion.set_epoch(epoch)
    if ranks > 1:
        sampler.set_epoch(epoch)
    for x1, x2, index in loader:
        z1, z2 = model(torch.cat([x1, x2]).to(device)).chunk(2)
        loss = criterion(z1, z2, index.to(device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    stats = criterion.stats()
    print(f"epoch {epoch}  loss {loss.item():.4f}  flagged {stats['flagged'] / stats['pairs']:.3f}  "
          f"mean threshold {stats['lambda_mean']:.3f}")
