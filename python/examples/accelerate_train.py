"""Hugging Face Accelerate: the loss is prepared like a model, and registered, so that save_state() has its thresholds. Run it alone, or
by `accelerate launch` on several processes, with DistributedDataParallel or FSDP: every process sees the whole batch."""

import argparse

import torch
from accelerate import Accelerator, DataLoaderConfiguration
from torch import nn

from glofnd.torch import GloFNDLoss

parser = argparse.ArgumentParser()
parser.add_argument("--samples", type=int, default=512)
parser.add_argument("--epochs", type=int, default=3)
parser.add_argument("--resume", action="store_true")
options = parser.parse_args()

torch.manual_seed(0)
# The order of the samples is that of the epoch, also after a restart.
accelerator = Accelerator(cpu=not torch.cuda.is_available(), dataloader_config=DataLoaderConfiguration(use_seedable_sampler=True))
data = torch.utils.data.TensorDataset(torch.randn(options.samples, 20), torch.arange(options.samples))
loader = torch.utils.data.DataLoader(data, 64 // accelerator.num_processes, shuffle=True, drop_last=True)
net = nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 16))
criterion = GloFNDLoss(options.samples, "simclr", alpha=0.05).to(accelerator.device)       # NT-Xent before
net, optimizer, loader = accelerator.prepare(net, torch.optim.Adam(net.parameters(), lr=1e-3), loader)
accelerator.register_for_checkpointing(criterion)                                           # new: thresholds
if options.resume:
    accelerator.load_state("out/epoch0")

for epoch in range(1 if options.resume else 0, options.epochs):
    criterion.set_epoch(epoch)                                                              # new
    torch.manual_seed(epoch)
    loader.set_epoch(epoch)
    for x, index in loader:
        first, second = (net(x + 0.2 * torch.randn_like(x)) for _ in range(2))
        accelerator.backward(criterion(first, second, index))
        optimizer.step()
        optimizer.zero_grad()
    accelerator.save_state(f"out/epoch{epoch}")
accelerator.print("thresholds", [round(x, 3) for x in criterion.thresholds()[:5].tolist()])
