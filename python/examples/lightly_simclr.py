"""lightly's SimCLR with GloFND. What the lines that change were before stands behind them: the loss, and the index it asks for."""

import argparse

import torch
from lightly.models.modules import SimCLRProjectionHead
from lightly.transforms.simclr_transform import SimCLRTransform
from torch import nn
from torchvision.datasets import FakeData

from glofnd.torch import GloFNDLoss, WithIndex

parser = argparse.ArgumentParser()
parser.add_argument("--samples", type=int, default=512)
parser.add_argument("--epochs", type=int, default=2)
parser.add_argument("--resume", action="store_true")
options = parser.parse_args()
torch.manual_seed(0)
backbone = nn.Sequential(nn.Conv2d(3, 16, 3, stride=2), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())
dataset = FakeData(options.samples, image_size=(3, 32, 32), transform=SimCLRTransform(input_size=32))
loader = torch.utils.data.DataLoader(WithIndex(dataset), 64, True, num_workers=1, drop_last=True)   # DataLoader(dataset, ...
model = nn.Sequential(backbone, SimCLRProjectionHead(16, 64, 32))
optimizer = torch.optim.SGD(model.parameters(), lr=0.06)
criterion = GloFNDLoss(len(dataset), "simclr", tau=0.5, alpha=0.05)     # criterion = NTXentLoss()
parts = {"model": model, "optimizer": optimizer, "criterion": criterion}
for name, state in torch.load("epoch0.pt", weights_only=True).items() if options.resume else ():
    parts[name].load_state_dict(state)
for epoch in range(1 if options.resume else 0, options.epochs):
    torch.manual_seed(epoch)
    criterion.set_epoch(epoch)                                          # new
    total = 0.0
    for (x0, x1), _, index in loader:                                   # for (x0, x1), _ in loader:
        loss = criterion(model(x0), model(x1), index) / 2               # loss = criterion(model(x0), model(x1)), a mean of both views
        total += loss.item()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    torch.save({name: part.state_dict() for name, part in parts.items()}, f"epoch{epoch}.pt")
    print(f"epoch {epoch}  loss {total / len(loader):.4f}")
print("thresholds", [round(x, 4) for x in criterion.thresholds()[:5].tolist()])
