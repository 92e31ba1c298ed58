#!/usr/bin/env python3
"""The steps of build/bench/cuda/clip_step and build/bench/encoders in PyTorch: both encoders of CLIP, its loss, backward, AdamW.

    bench_torch_clip.py [--image rn50|vitb32|vit] [--size 224] [--patch 32] [--width W --layers N --heads H] [--text-width 512
                        --text-layers 12 --text-heads 8] [--context 77] [--batch 256] [--precision bf16] [--device cuda]
                        [--threads N] [--compile [default|max-autotune] [--turn]] [--steps 20] [--cpu-time]

What PyTorch's own guides recommend is on: autocast for bf16, channels_last, scaled_dot_product_attention, fused AdamW, on a GPU
TF32 and cudnn.benchmark. With --compile the encoders go through torch.compile. On a GPU it prints one JSON object: the median of
--steps, by CUDA events. On the CPU one for every step, by its parts. With --steps 0 it waits for lines of input and measures once
(on a GPU the median of 20 steps) for each, so that others can take turns with it.
Texts are as long as captions of Flickr8k (LENGTHS: 14.1 tokens on average); all positions of the context are computed, as
open_clip does.
Needs torch >= 2.0. Exit status: 0, 1 failed, 2 usage, 3 this Python has no torch, or there is no GPU.
"""
import argparse
import contextlib
import json
import math
import sys
import time

try:
    import torch
    import torch.nn.functional as F
    from torch import nn
    from bench_torch_compile import Turn, compiled
except ImportError as missing:
    print(f"bench_torch_clip.py: {missing} ({sys.executable})", file=sys.stderr)
    sys.exit(3)


# Captions of 4, 5, .. 42 of CLIP's tokens among the 30,000 of Flickr8k's training part: bench/support/caption_lengths.h.
LENGTHS = (8, 24, 132, 366, 855, 1795, 2413, 2666, 3129, 3095, 3090, 2741, 2432, 1938, 1493, 1061, 786, 611, 420, 293, 192,
           144, 89, 78, 52, 33, 25, 8, 6, 7, 6, 5, 2, 2, 1, 1, 0, 0, 1)


def lengths(n, context):
    """Of n texts: the n quantiles of LENGTHS."""
    every = [4 + k for k, count in enumerate(LENGTHS) for _ in range(count)]
    return [min(context, every[(2 * i + 1) * len(every) // (2 * n)]) for i in range(n)]


class QuickGELU(nn.Module):
    def forward(self, x):
        return x * torch.sigmoid(1.702 * x)


class Attention(nn.Module):
    def __init__(self, width, heads, causal):
        super().__init__()
        self.heads, self.causal = heads, causal
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x):
        n, length, width = x.shape
        q, k, v = self.qkv(x).view(n, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        return self.out(y.transpose(1, 2).reshape(n, length, width))


class Block(nn.Module):
    def __init__(self, width, heads, causal):
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attn = Attention(width, heads, causal)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), QuickGELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class Text(nn.Module):
    def __init__(self, width, layers, heads, context, vocab, embed):
        super().__init__()
        self.token, self.position = nn.Embedding(vocab, width), nn.Parameter(0.01 * torch.randn(context, width))
        self.blocks = nn.Sequential(*(Block(width, heads, True) for _ in range(layers)))
        self.ln, self.proj = nn.LayerNorm(width), nn.Linear(width, embed, bias=False)

    def forward(self, tokens):
        x = self.blocks(self.token(tokens) + self.position)
        return self.proj(self.ln(x[torch.arange(len(x), device=x.device), tokens.argmax(-1)]))


class ViT(nn.Module):
    def __init__(self, size, patch, width, layers, heads, embed):
        super().__init__()
        self.conv = nn.Conv2d(3, width, patch, patch, bias=False)
        self.first, self.position = nn.Parameter(torch.randn(width)), nn.Parameter(torch.randn((size // patch) ** 2 + 1, width))
        self.ln_pre, self.ln_post = nn.LayerNorm(width), nn.LayerNorm(width)
        self.blocks = nn.Sequential(*(Block(width, heads, False) for _ in range(layers)))
        self.proj = nn.Linear(width, embed, bias=False)

    def forward(self, x):
        x = self.conv(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.first.to(x.dtype).expand(len(x), 1, -1), x], 1) + self.position
        return self.proj(self.ln_post(self.blocks(self.ln_pre(x))[:, 0]))


class Bottleneck(nn.Module):
    def __init__(self, inner, planes, stride):
        super().__init__()
        pool = nn.AvgPool2d(stride) if stride > 1 else nn.Identity()
        self.conv1, self.bn1 = nn.Conv2d(inner, planes, 1, bias=False), nn.BatchNorm2d(planes)
        self.conv2, self.bn2 = nn.Conv2d(planes, planes, 3, padding=1, bias=False), nn.BatchNorm2d(planes)
        self.pool = pool
        self.conv3, self.bn3 = nn.Conv2d(planes, 4 * planes, 1, bias=False), nn.BatchNorm2d(4 * planes)
        self.short = nn.Identity()
        if stride > 1 or inner != 4 * planes:
            self.short = nn.Sequential(pool, nn.Conv2d(inner, 4 * planes, 1, bias=False), nn.BatchNorm2d(4 * planes))

    def forward(self, x):
        y = F.relu(self.bn1(self.conv1(x)), inplace=True)
        y = self.pool(F.relu(self.bn2(self.conv2(y)), inplace=True))
        return F.relu(self.bn3(self.conv3(y)) + self.short(x), inplace=True)


class ResNet(nn.Module):
    """CLIP's ResNet-50: three convolutions in the stem, average pools for strides, attention pooling."""

    def __init__(self, size, width, heads, embed):
        super().__init__()
        half, layers, inner = width // 2, [], width
        for a, b, stride in ((3, half, 2), (half, half, 1), (half, width, 1)):
            layers += [nn.Conv2d(a, b, 3, stride, 1, bias=False), nn.BatchNorm2d(b), nn.ReLU(inplace=True)]
        layers.append(nn.AvgPool2d(2))
        for i, blocks in enumerate((3, 4, 6, 3)):
            for k in range(blocks):
                layers.append(Bottleneck(inner, width << i, 2 if k == 0 and i > 0 else 1))
                inner = 4 * (width << i)
        self.body, self.heads = nn.Sequential(*layers), heads
        self.position = nn.Parameter(torch.randn((size // 32) ** 2 + 1, inner) / inner ** 0.5)
        self.q, self.kv, self.c = nn.Linear(inner, inner), nn.Linear(inner, 2 * inner), nn.Linear(inner, embed)

    def forward(self, x):
        x = self.body(x).flatten(2).transpose(1, 2)
        x = torch.cat([x.mean(1, keepdim=True), x], 1) + self.position
        n, length, width = x.shape
        q = self.q(x[:, :1]).view(n, 1, self.heads, -1).transpose(1, 2)
        k, v = self.kv(x).view(n, length, 2, self.heads, -1).permute(2, 0, 3, 1, 4)
        return self.c(F.scaled_dot_product_attention(q, k, v).reshape(n, width))


class Step:
    def __init__(self, a):
        embed = 1024 if a.image == "rn50" else 512
        image = (ResNet(a.size, a.width, a.heads, embed) if a.image == "rn50"
                 else ViT(a.size, a.patch, a.width, a.layers, a.heads, embed))
        self.device, self.half = a.device, a.precision == "bf16"
        self.clock = time.process_time if a.cpu_time else time.perf_counter
        self.image = image.to(a.device).to(memory_format=torch.channels_last)
        self.text = Text(a.text_width, a.text_layers, a.text_heads, a.context, a.vocab, embed).to(a.device)
        self.scale = nn.Parameter(torch.tensor(2.659, device=a.device))
        parameters = [*self.image.parameters(), *self.text.parameters(), self.scale]
        self.optimizer = torch.optim.AdamW(parameters, lr=1e-4, fused=True)
        if a.compile:
            turn = Turn()
            self.image = compiled(self.image, a.compile, turn.wait if a.turn else lambda: None)
            self.text = compiled(self.text, a.compile, lambda: None)
        self.x = torch.randn(a.batch, 3, a.size, a.size, device=a.device).to(memory_format=torch.channels_last)
        self.tokens = torch.zeros(a.batch, a.context, dtype=torch.long)
        self.tokens[:, 0] = a.vocab - 2
        for text, length in zip(self.tokens, lengths(a.batch, a.context)):
            text[1:length - 1] = torch.randint(1, a.vocab - 2, (length - 2,))
            text[length - 1] = a.vocab - 1
        self.tokens = self.tokens.to(a.device)
        self.target = torch.arange(a.batch, device=a.device)
        if a.compile and a.turn:    # the text encoder, which has no convolution to choose, is compiled before the turn
            self.embed(self.text, self.tokens).sum().backward()
            self.optimizer.zero_grad(set_to_none=True)

    def embed(self, encoder, x):
        with torch.autocast(self.device, dtype=torch.bfloat16) if self.half else contextlib.nullcontext():
            return encoder(x).float()

    def loss(self, a, b):
        logits = self.scale.exp() * F.normalize(a, dim=-1) @ F.normalize(b, dim=-1).T
        return (F.cross_entropy(logits, self.target) + F.cross_entropy(logits.T, self.target)) / 2

    def move(self):
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)

    def take(self):
        if self.device == "cuda":
            torch.compiler.cudagraph_mark_step_begin()
        loss = self.loss(self.embed(self.image, self.x), self.embed(self.text, self.tokens))
        loss.backward()
        self.move()
        return loss

    def take_parts(self):
        """The same, with the way back through each encoder by itself; milliseconds of images, texts, loss, optimizer."""
        marks = [self.clock()]

        def mark():
            marks.append(self.clock())
        image = self.embed(self.image, self.x)
        mark()
        text = self.embed(self.text, self.tokens)
        mark()
        leaves = [z.detach().requires_grad_() for z in (image, text)]
        value = self.loss(*leaves)
        value.backward()
        mark()
        image.backward(leaves[0].grad)
        mark()
        text.backward(leaves[1].grad)
        mark()
        self.move()
        mark()
        if not math.isfinite(value.item()):
            raise ArithmeticError("the loss is not finite")
        took = [1e3 * (b - a) for a, b in zip(marks, marks[1:])]
        return took[0] + took[3], took[1] + took[4], took[2], took[5]


def timed(step, steps):
    """Median milliseconds of a step, and the last loss."""
    times = []
    for _ in range(steps):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        loss = step.take()
        end.record()
        times.append((begin, end))
    torch.cuda.synchronize()
    return sorted(b.elapsed_time(e) for b, e in times)[steps // 2], loss.item()


def on_gpu(args):
    torch.backends.cudnn.benchmark = torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
    step = Step(args)
    for _ in range(5):
        step.take()
    torch.cuda.synchronize()
    print("bench_torch_clip.py: ready", file=sys.stderr, flush=True)
    for _ in range(1) if args.steps else sys.stdin:
        ms, loss = timed(step, args.steps or 20)
        print(json.dumps({"bench": "torch clip", "image": args.image, "batch": args.batch, "precision": args.precision,
                          "compile": args.compile, "ms": round(ms, 3), "pairs/s": round(args.batch / ms * 1e3),
                          "loss": round(loss, 4), "torch": torch.__version__}), flush=True)


def on_cpu(args):
    if args.threads:
        torch.set_num_threads(args.threads)
    step = Step(args)
    for _ in range(args.steps) if args.steps else sys.stdin:
        parts = step.take_parts()
        named = {name: round(ms, 3) for name, ms in zip(("image", "text", "loss", "optimizer"), parts)}
        print(json.dumps({"bench": "torch clip", "encoder": args.image, "precision": args.precision, "ms": round(sum(parts), 3),
                          **named, "torch": torch.__version__}), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--image", default="rn50", choices=("rn50", "vitb32", "vit"))
    for name, value in (("size", 224), ("patch", 32), ("width", 0), ("layers", 12), ("heads", 0), ("text-width", 512),
                        ("text-layers", 12), ("text-heads", 8), ("context", 77), ("vocab", 49408), ("batch", 256), ("steps", 20),
                        ("threads", 0)):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--precision", default="bf16", choices=("fp32", "bf16"))
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    parser.add_argument("--cpu-time", action="store_true", help="on the CPU: seconds of the processor")
    parser.add_argument("--compile", nargs="?", default="", const="default", choices=("", "default", "max-autotune"))
    parser.add_argument("--turn", action="store_true", help="when compiled, wait for a line of input before the first kernel")
    args = parser.parse_args()
    args.width = args.width or (64 if args.image == "rn50" else 768)
    args.heads = args.heads or (args.width // 2 if args.image == "rn50" else args.width // 64)
    if args.batch < 2 or args.size < 32 or args.threads < 0 or args.steps < 0:
        parser.error("batch starts at 2, size at 32, threads and steps at 0")
    if args.device == "cuda" and not torch.cuda.is_available():
        print("bench_torch_clip.py: no GPU", file=sys.stderr)
        sys.exit(3)
    torch.manual_seed(0)
    (on_gpu if args.device == "cuda" else on_cpu)(args)


if __name__ == "__main__":
    try:
        main()
    except (ArithmeticError, MemoryError, RuntimeError) as problem:
        print(f"bench_torch_clip.py: {problem}", file=sys.stderr)
        sys.exit(1)
