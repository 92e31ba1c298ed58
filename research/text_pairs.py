"""Contrastive training on pairs of captions, with rules for false negatives; a transformer of six layers.

    python text_pairs.py DATA LOG [--jobs 12] [--epochs 12] [--seeds 1,2,3] [--minilm] BATCH:NAME[:OPTION=VALUE,...] ...

The transformer starts from random weights, or with --minilm from those of all-MiniLM-L6-v2.

DATA is the file of text_data.py. Each row, as `128:glofnd:alpha=0.002`, is trained once for every seed; --jobs runs share the
GPU, and each adds a line of JSON to LOG. Rows of one seed and batch have equal weights and equal batches. The options are those of
glofnd.torch.GloFNDLoss; NAME is only a name.

A positive pair is two captions of one image. The other three captions of an image are not used, but two pairs are made from each
image, so that the pairs of one image are known false negatives of each other: precision and recall are measured against them, over
all pairs of the last epoch. Scores after training: STS-B (Spearman x 100) and retrieval of the other captions of an image.
"""
from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

WIDTH, LAYERS, HEADS, LENGTH = 384, 6, 12, 24


class Block(nn.Module):
    """Norms come before attention and perceptron, or, as in BERT, after them."""

    def __init__(self, norm_last: bool) -> None:
        super().__init__()
        self.norm_last = norm_last
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        n, t, _ = x.shape
        q, k, v = self.qkv(x if self.norm_last else self.norm1(x)).view(n, t, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        seen = self.out(F.scaled_dot_product_attention(q, k, v, attn_mask=mask).transpose(1, 2).reshape(n, t, -1))
        if self.norm_last:
            x = self.norm1(x + seen)
            return self.norm2(x + self.down(F.gelu(self.up(x))))
        x = x + seen
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Encoder(nn.Module):
    def __init__(self, words: int, minilm: dict | None = None) -> None:
        super().__init__()
        self.norm_last = minilm is not None
        self.word, self.place = nn.Embedding(words, WIDTH), nn.Embedding(LENGTH, WIDTH)
        nn.init.normal_(self.word.weight, std=0.02)
        nn.init.normal_(self.place.weight, std=0.02)
        self.blocks, self.norm = nn.ModuleList(Block(self.norm_last) for _ in range(LAYERS)), nn.LayerNorm(WIDTH)
        if minilm is not None:
            self.load_minilm(minilm)

    def load_minilm(self, weights: dict) -> None:
        """Weights under BERT's names. The type of the only sentence is part of the places."""
        own = {"word.weight": weights["embeddings.word_embeddings.weight"],
               "place.weight": (weights["embeddings.position_embeddings.weight"][:LENGTH]
                                + weights["embeddings.token_type_embeddings.weight"][0])}
        for kind in ("weight", "bias"):
            own[f"norm.{kind}"] = weights[f"embeddings.LayerNorm.{kind}"]
            for i in range(LAYERS):
                bert, block = f"encoder.layer.{i}.", f"blocks.{i}."
                own[f"{block}qkv.{kind}"] = torch.cat([weights[f"{bert}attention.self.{x}.{kind}"] for x in ("query", "key", "value")])
                for name, of in (("out", "attention.output.dense"), ("norm1", "attention.output.LayerNorm"),
                                 ("up", "intermediate.dense"), ("down", "output.dense"), ("norm2", "output.LayerNorm")):
                    own[f"{block}{name}.{kind}"] = weights[f"{bert}{of}.{kind}"]
        self.load_state_dict(own)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        with torch.autocast(words.device.type, dtype=torch.bfloat16, cache_enabled=False):
            words = words[:, :LENGTH].long()
            real = words != 0
            x, mask = self.word(words) + self.place.weight, real[:, None, None, :]
            if self.norm_last:
                x = self.norm(x)
            for block in self.blocks:
                x = block(x, mask)
            x = (x if self.norm_last else self.norm(x)) * real[..., None]
        return F.normalize(x.sum(1).float() / real.sum(1, keepdim=True), dim=1)


def ranks(x: np.ndarray) -> np.ndarray:
    """Ranks; equal values share their mean rank."""
    _, inverse, counts = np.unique(x, return_inverse=True, return_counts=True)
    return (np.cumsum(counts) - (counts - 1) / 2)[inverse]


def train(data: str, seed: int, batch: int, name: str, options: dict, epochs: int, minilm: bool) -> dict:
    from glofnd.torch import GloFNDLoss

    arrays, device = np.load(data), "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(seed)
    draw = torch.Generator().manual_seed(seed)

    def on_device(key: str) -> torch.Tensor:
        return torch.from_numpy(arrays[key].astype(np.int32)).to(device)

    captions = on_device("train")
    pairs = 2 * len(captions)
    weights = {k[len("minilm."):]: torch.from_numpy(arrays[k].astype(np.float32)) for k in arrays.files if k.startswith("minilm.")}
    net = Encoder(int(arrays["words"]), weights if minilm else None).to(device)
    criterion = GloFNDLoss(pairs, loss="simclr", tau=0.05, **{"start_epoch": epochs // 4, **options}).to(device)
    steps = pairs // batch
    total, warm = steps * epochs, 0.06 * steps * epochs
    rate = (5e-5 if minilm else 5e-4) * min(1.0, (batch / 1024) ** 0.5)
    optimizer = torch.optim.AdamW(net.parameters(), lr=rate, weight_decay=0.01, fused=device == "cuda")
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda s: min(1.0, (s + 1) / warm) * (1 - s / total))

    result = {"name": name, "batch": batch, "seed": seed, "options": options, "epochs": epochs, "start": "minilm" if minilm else "random"}
    if minilm:
        result["untrained"] = scores(net, arrays, on_device)
    if device == "cuda":        # one launch for the network; other shapes and evaluation use it as it is
        net = torch.cuda.make_graphed_callables(net, (captions[:batch, :2].reshape(2 * batch, -1).contiguous(),))
    began, counts, shares = time.time(), dict.fromkeys(("pairs", "flagged", "same", "hits"), 0), []
    for epoch in range(epochs):
        criterion.set_epoch(epoch)
        order = torch.randperm(pairs, generator=draw).to(device)
        flagged = seen = 0
        for step in range(steps):
            index = order[step * batch:(step + 1) * batch]
            image, half = index // 2, index % 2
            z1, z2 = net(torch.cat([captions[image, 2 * half], captions[image, 2 * half + 1]])).chunk(2)
            last = epoch == epochs - 1
            loss = criterion(z1, z2, index, labels=image if last else None)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            if last or step % 16 == 0:
                stats = criterion.stats()
                flagged, seen = flagged + stats["flagged"], seen + stats["pairs"]
                for key in counts if last else ():
                    counts[key] += stats[key]
        shares.append(flagged / seen)
    result.update({"seconds": round(time.time() - began), "loss": round(loss.item(), 4),
                   "flagged_share": [float(f"{x:.3g}") for x in shares], **counts})
    hits, marked, same = counts["hits"], counts["flagged"], counts["same"]
    result["precision"] = round(hits / marked, 4) if marked else None
    result["recall"] = round(hits / same, 4) if same else None
    result["f1"] = round(2 * hits / (marked + same), 4) if marked + same else None
    return {**result, **scores(net, arrays, on_device)}


@torch.no_grad()
def scores(net: nn.Module, arrays: dict, on_device) -> dict:
    """STS-B, Spearman x 100; retrieval of the other captions of an image."""
    result, training = {}, net.training
    net.eval()
    for split in ("dev", "test"):
        a, b = net(on_device(f"sts_{split}_a")), net(on_device(f"sts_{split}_b"))
        x, y = ranks((a * b).sum(1).cpu().numpy()), ranks(arrays[f"sts_{split}_y"])
        result[f"sts_{split}"] = round(100 * float(np.corrcoef(x, y)[0, 1]), 2)
    texts = torch.cat([on_device("val"), on_device("test_2016")])
    n = len(texts)
    z = torch.stack([net(texts[:, k]) for k in range(5)])
    first = ten = 0.0
    for k in range(5):
        others = torch.cat([z[i] for i in range(5) if i != k])
        hit = (z[k] @ others.T).topk(10).indices % n == torch.arange(n, device=z.device)[:, None]
        first, ten = first + hit[:, 0].float().mean().item() / 5, ten + hit.any(1).float().mean().item() / 5
    net.train(training)
    return {**result, "recall_at_1": round(100 * first, 2), "recall_at_10": round(100 * ten, 2)}


def main() -> None:
    p = argparse.ArgumentParser()
    p.add_argument("data")
    p.add_argument("log")
    p.add_argument("rows", nargs="+")
    p.add_argument("--jobs", type=int, default=12)
    p.add_argument("--epochs", type=int, default=12)
    p.add_argument("--seeds", default="1,2,3")
    p.add_argument("--minilm", action="store_true")
    p.add_argument("--one", type=int, help=argparse.SUPPRESS)  # this seed of the only row, here
    a = p.parse_args()
    if a.one is not None:
        batch, name, options = (a.rows[0] + "::").split(":")[:3]
        values = dict(x.split("=") for x in options.split(",") if x)
        values = {k: v if not v.replace(".", "").replace("-", "").replace("e", "").isdigit() else float(v) if "." in v else int(v)
                  for k, v in values.items()}
        torch.set_num_threads(1)
        line = json.dumps(train(a.data, a.one, int(batch), name, values, a.epochs, a.minilm))
        with open(a.log, "a", encoding="utf-8") as file:
            file.write(line + "\n")
        print(line, flush=True)
        return
    waiting = [(row, seed) for seed in map(int, a.seeds.split(",")) for row in a.rows]
    running: list[subprocess.Popen] = []
    while waiting or running:
        running = [x for x in running if x.poll() is None]
        while waiting and len(running) < a.jobs:
            row, seed = waiting.pop(0)
            running.append(subprocess.Popen([sys.executable, __file__, a.data, a.log, row, "--epochs", str(a.epochs), "--one", str(seed)]
                                            + ["--minilm"] * a.minilm))
        time.sleep(0.2)


if __name__ == "__main__":
    main()
