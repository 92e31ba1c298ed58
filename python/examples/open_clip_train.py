"""open_clip in a loop of your own: one line in place of ClipLoss. Its own program: python -m glofnd.open_clip -- ARGUMENTS."""

import argparse

import open_clip
import torch

from glofnd.open_clip import GloFNDClipLoss

parser = argparse.ArgumentParser()
parser.add_argument("--samples", type=int, default=512)
parser.add_argument("--epochs", type=int, default=3)
parser.add_argument("--resume", action="store_true")
options = parser.parse_args()
torch.manual_seed(0)
model = open_clip.CLIP(64, {"image_size": 32, "patch_size": 8, "width": 64, "layers": 2, "head_width": 32},
                       {"context_length": 12, "width": 64, "heads": 2, "layers": 2})
COLOURS = "black blue green cyan red magenta yellow white".split()
kind = torch.arange(options.samples) % 16                                   # a colour, and the side that it is on
images = 0.3 * torch.randn(options.samples, 3, 32, 32)
images[..., :16] += ((kind[:, None] >> torch.tensor([2, 1, 0]) & 1) * (kind < 8)[:, None])[..., None, None]
images[..., 16:] += ((kind[:, None] >> torch.tensor([2, 1, 0]) & 1) * (kind >= 8)[:, None])[..., None, None]
texts = open_clip.tokenize([f"{COLOURS[k % 8]} on the {'right' if k > 7 else 'left'}, photo {i}" for i, k in enumerate(kind)], 12)
data = torch.utils.data.TensorDataset(images, texts, torch.arange(options.samples))
loader = torch.utils.data.DataLoader(data, 64, shuffle=True, drop_last=True)
criterion = GloFNDClipLoss(alpha=0.05)                                      # criterion = open_clip.ClipLoss()
parts = {"model": model, "optimizer": torch.optim.AdamW(model.parameters(), lr=5e-4), "criterion": criterion}
for name, state in torch.load("epoch0.pt", weights_only=True).items() if options.resume else ():
    parts[name].load_state_dict(state)
for epoch in range(1 if options.resume else 0, options.epochs):
    torch.manual_seed(epoch)
    criterion.set_epoch(epoch)                                              # new
    for image, text, index in loader:
        parts["optimizer"].zero_grad()
        loss = criterion(*model(image, text), index=index)                  # loss = criterion(*model(image, text))
        loss.backward()
        parts["optimizer"].step()
    torch.save({name: part.state_dict() for name, part in parts.items()}, f"epoch{epoch}.pt")
    print(f"epoch {epoch}  loss {loss.item():.4f}")
print("thresholds", [round(x, 4) for x in criterion.criterion.thresholds(torch.arange(5)).reshape(-1).tolist()])
