"""Hugging Face's Trainer: the loss, an index, and one callback for epochs, checkpoints and the log. --resume continues after a kill."""

import argparse

import torch
from torch import nn
from transformers import Trainer, TrainingArguments

from glofnd.torch import GloFNDLoss, WithIndex
from glofnd.transformers import GloFNDCallback

parser = argparse.ArgumentParser()
parser.add_argument("--samples", type=int, default=512)
parser.add_argument("--epochs", type=int, default=3)
parser.add_argument("--resume", action="store_true")
options = parser.parse_args()
torch.manual_seed(0)
x = torch.randn(16, 20).repeat(options.samples // 16, 1) + 0.5 * torch.randn(options.samples // 16 * 16, 20)
dataset = WithIndex([{"x": row} for row in x])                                  # [{"x": row} for row in x]


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 16))
        self.criterion = GloFNDLoss(len(dataset), "simclr", alpha=0.05)         # NT-Xent before

    def forward(self, x, index):
        first, second = (self.net(x + 0.2 * torch.randn_like(x)) for _ in range(2))
        return {"loss": self.criterion(first, second, index)}


model = Model()
arguments = TrainingArguments("out", num_train_epochs=options.epochs, per_device_train_batch_size=64, dataloader_drop_last=True,
                              save_strategy="epoch", logging_steps=4, report_to=[], use_cpu=True, disable_tqdm=True, learning_rate=1e-3)
trainer = Trainer(model, arguments, train_dataset=dataset, callbacks=[GloFNDCallback(model)])
trainer.train(resume_from_checkpoint=options.resume)
print("thresholds", [round(x, 4) for x in model.criterion.thresholds()[:5].tolist()])
