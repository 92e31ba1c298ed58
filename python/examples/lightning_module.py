"""PyTorch Lightning: the loss is a submodule, so checkpoints hold its thresholds and the device follows the trainer."""

import argparse

import pytorch_lightning as pl
import torch
from torch import nn

from glofnd.torch import GloFNDLoss

parser = argparse.ArgumentParser()
parser.add_argument("--samples", type=int, default=512)
parser.add_argument("--epochs", type=int, default=3)
parser.add_argument("--resume", action="store_true")
options = parser.parse_args()


class Contrastive(pl.LightningModule):
    def __init__(self, num_samples):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 16))
        self.criterion = GloFNDLoss(num_samples, "sogclr", alpha=0.05)  # NT-Xent before
        self.configure_optimizers = lambda: torch.optim.Adam(self.net.parameters(), lr=1e-3)

    def training_step(self, batch, number):
        self.criterion.set_epoch(self.current_epoch)  # new
        torch.manual_seed(self.global_step)
        first, second = (self.net(batch[0] + 0.2 * torch.randn_like(batch[0])) for _ in range(2))
        return self.criterion(first, second, batch[1])


pl.seed_everything(0)
data = torch.utils.data.TensorDataset(torch.randn(options.samples, 20), torch.arange(options.samples))
sampler = torch.utils.data.DistributedSampler(data, 1, 0)  # its order depends on the epoch alone: a resumed run sees the same batches
checkpoints = pl.callbacks.ModelCheckpoint("out", "{epoch}", save_top_k=-1)
trainer = pl.Trainer(max_epochs=options.epochs, devices=1, logger=False, enable_progress_bar=False, callbacks=[checkpoints])
module = Contrastive(len(data))
trainer.fit(module, torch.utils.data.DataLoader(data, 64, sampler=sampler), ckpt_path="out/epoch=0.ckpt" if options.resume else None)
print("thresholds", [round(x, 3) for x in module.criterion.thresholds()[:5].tolist()])
