"""PyTorch Lightning: the loss is a submodule, so checkpoints hold its thresholds and the device follows the trainer."""

import argparse

import pytorch_lightning as pl
import torch
from torch import nn

from glofnd.torch import GloFNDLoss

parser = argparse.ArgumentParser()
parser.add_argument("--samples", type=int, default=512)
parser.add_argument("--epochs", type=int, default=3)
options = parser.parse_args()


class Contrastive(pl.LightningModule):
    def __init__(self, num_samples):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 16))
        self.criterion = GloFNDLoss(num_samples, "sogclr", alpha=0.05)  # NT-Xent before

    def on_train_epoch_start(self):
        self.criterion.set_epoch(self.current_epoch)

    def training_step(self, batch, _):
        x, index = batch
        first, second = (self.net(x + 0.2 * torch.randn_like(x)) for _ in range(2))
        loss = self.criterion(first, second, index)
        self.log("loss", loss)
        self.log("lambda", self.criterion.stats()["lambda_mean"])
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3)


data = torch.utils.data.TensorDataset(torch.randn(options.samples, 20), torch.arange(options.samples))
loader = torch.utils.data.DataLoader(data, 64, shuffle=True, drop_last=True)
module = Contrastive(len(data))
trainer = pl.Trainer(max_epochs=options.epochs, accelerator="auto", devices=1, logger=False, enable_checkpointing=False,
                     enable_progress_bar=False, enable_model_summary=False)
trainer.fit(module, loader)
print({name: round(value.item(), 4) for name, value in trainer.callback_metrics.items()})
print("thresholds", [round(x, 3) for x in module.criterion.thresholds()[:5].tolist()])
