"""open_clip's training step with GloFND: the model keeps its logit_scale, the loss gives it its gradient."""

import argparse

import open_clip
import torch

from glofnd.torch import GloFNDLoss

parser = argparse.ArgumentParser()
parser.add_argument("--samples", type=int, default=512)
parser.add_argument("--epochs", type=int, default=3)
options = parser.parse_args()

torch.manual_seed(0)
model = open_clip.CLIP(
    64, vision_cfg={"image_size": 32, "patch_size": 8, "width": 64, "layers": 2, "head_width": 32},
    text_cfg={"context_length": 12, "vocab_size": 64, "width": 64, "heads": 2, "layers": 2})
kind = torch.arange(options.samples) % 16
images = torch.randn(16, 3, 32, 32)[kind] + 0.3 * torch.randn(options.samples, 3, 32, 32)
texts = torch.randint(1, 60, (16, 12))[kind]
texts[:, 1] = torch.randint(1, 60, (options.samples,))
texts[:, -1] = 63  # open_clip takes the text at its largest token
data = torch.utils.data.TensorDataset(images, texts, torch.arange(options.samples))
loader = torch.utils.data.DataLoader(data, 64, shuffle=True, drop_last=True)
optimizer = torch.optim.AdamW(model.parameters(), lr=5e-4)
# criterion = open_clip.ClipLoss()
criterion = GloFNDLoss(len(data), "clip", alpha=0.05, learn_tau=False, start_epoch=1, lambda_init="quantile")

for epoch in range(options.epochs):
    criterion.set_epoch(epoch)
    for image, text, index in loader:
        image_features, text_features, logit_scale = model(image, text)
        # loss = criterion(image_features, text_features, logit_scale)
        loss = criterion(image_features, text_features, index, tau=1 / logit_scale)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    stats = criterion.stats()
    print(f"epoch {epoch}  loss {loss.item():.4f}  logit scale {logit_scale.item():.2f}  flagged {stats['flagged']}")
