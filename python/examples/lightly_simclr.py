"""lightly's SimCLR with GloFND: the two lines that change are marked."""

import argparse

import torch
from lightly.models.modules import SimCLRProjectionHead
from lightly.transforms.simclr_transform import SimCLRTransform
from torch import nn
from torchvision.datasets import FakeData

from glofnd.torch import GloFNDLoss

parser = argparse.ArgumentParser()
parser.add_argument("--samples", type=int, default=512)
parser.add_argument("--epochs", type=int, default=2)
options = parser.parse_args()


class SimCLR(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone = nn.Sequential(nn.Conv2d(3, 16, 3, stride=2), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())
        self.projection_head = SimCLRProjectionHead(16, 64, 32)

    def forward(self, x):
        return self.projection_head(self.backbone(x))


class WithIndex(torch.utils.data.Dataset):
    """Any dataset, with the index in place of the label."""

    def __init__(self, dataset):
        self.dataset = dataset

    def __len__(self):
        return len(self.dataset)

    def __getitem__(self, index):
        return self.dataset[index][0], index


dataset = WithIndex(FakeData(options.samples, image_size=(3, 32, 32), transform=SimCLRTransform(input_size=32)))
loader = torch.utils.data.DataLoader(dataset, 64, shuffle=True, drop_last=True)
model = SimCLR()
optimizer = torch.optim.SGD(model.parameters(), lr=0.06)
criterion = GloFNDLoss(len(dataset), "simclr", tau=0.5, alpha=0.05)     # criterion = NTXentLoss()

for epoch in range(options.epochs):
    criterion.set_epoch(epoch)
    total = 0.0
    for (x0, x1), index in loader:
        loss = criterion(model(x0), model(x1), index) / 2               # loss = criterion(model(x0), model(x1)), a mean of both views
        total += loss.item()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    print(f"epoch {epoch}  loss {total / len(loader):.4f}")
