#!/usr/bin/env python3
"""Writes tests/fixtures/curve/clip_*.txt: training steps of a small image-text model computed by PyTorch in float64, for
tests/train/golden_curve.c.

    python3 tools/generate/make_golden_clip_curve.py [OUTPUT FOLDER] [CASE ...]

Needs torch, torchvision and numpy. Weights, images and tokens are drawn from keyed Philox streams, as the C side draws them; the
encoders are CLIP's ViT and text transformer, with the names of open_clip. Losses, learner, schedules and AdamW are written down
here from docs/method.md and, where `compat = official`, from the authors' formulas; gradients are autograd's. Lines:

    case vit 0 SIZE 1 DIM SEED      set KEY VALUE ...      what the C side is to be configured with
    step K LR LOSS KEPT TAU                        objective, share of kept negatives and temperature before the step, at step K
    moved:NAME SHAPE norm sum p0 p1 p2 p3          final minus initial parameter
    scale VALUE                                    log(1/tau) at the end
    anchor0 ID CLOCK LAMBDA LOG_U                  state of an image as anchor at the end; anchor1: of a text

Comments say how far the same steps in PyTorch's float32 end from these numbers, and how close any similarity came to a threshold.
"""
import math
import os
import sys

import numpy as np
import torch
from torch import nn

import make_resnet_golden as streams
from make_golden_curve import CLASSES, SIM_MARGIN, Unsuitable, first_suitable, quantile, view
from make_resnet_golden import between, line, stream_u32

N, BATCH, EPOCHS, UPDATE, MASK, ALPHA = 64, 16, 5, 1, 2, 0.1
WIDTH, LAYERS, HEADS, PATCH, SIZE, DIM, CONTEXT, VOCAB = 32, 2, 2, 4, 16, 24, 12, 514
WEIGHTS, WORDS, CLASS_WORDS = 8, 9, 10          # "epoch" of the streams
EPS, RHO, LAMBDA_LR = 1e-14, 6.5, 0.01
GAMMA_MIN, GAMMA_DECAY, WARMUP = 0.2, 3, 3
ADAM_EPS = 1e-3                                 # large: where a gradient is rounding error, so would be the move

CASES = {
    "clip_plain": dict(loss="clip", detector="none", tau=0.07, lr=0.004, weight_decay=0.1, grad_clip=0.4,
                       gamma_schedule="constant"),
    "clip_sogclr2_glofnd": dict(loss="sogclr2", tau=0.05, lr=0.0003, weight_decay=0.1, gamma_schedule="cosine"),
    "clip_fastclip_official": dict(loss="fastclip", compat="official", tau=0.031, lr=0.0003, weight_decay=0.1, scale_lr=0.01,
                                   gamma_schedule="cosine"),
}


# ----- data -----

def name_lane(name):
    h = 2166136261
    for b in name.encode():
        h = ((h ^ b) * 16777619) & 0xFFFFFFFF
    return h


def initial(name, p):
    n = p.numel()
    u = between(-1.0, 1.0, n, WEIGHTS, 0, name_lane(name))
    if p.dim() > 1 and "positional" not in name:        # what all samples share is small, else all embeddings are alike
        v = math.sqrt(3.0 / (n // p.shape[0])) * u
    else:
        v = 0.05 * u + (1.0 if name.endswith(".weight") else 0.0)
    return torch.from_numpy(v.astype(np.float32).astype(np.float64)).reshape(p.shape)


def caption(sample):
    """Start, three words of the class, some of the sample, end, zeros."""
    length = 5 + sample % 5
    words = np.concatenate([stream_u32(3, CLASS_WORDS, sample % CLASSES, 0), stream_u32(length - 3, WORDS, sample, 0)])
    ids = [VOCAB - 2] + [int(w % 512) for w in words] + [VOCAB - 1]
    return ids + [0] * (CONTEXT - len(ids))


def batch_ids(epoch, step):
    return [(7 * (step * BATCH + j) + 3 * epoch) % N for j in range(BATCH)]


# ----- encoders -----

class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.c_fc, self.c_proj = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        return self.c_proj(nn.functional.gelu(self.c_fc(x)))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.attn = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True)
        self.ln_1, self.ln_2, self.mlp = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH), Mlp()

    def forward(self, x, mask):
        y = self.ln_1(x)
        x = x + self.attn(y, y, y, need_weights=False, attn_mask=mask)[0]
        return x + self.mlp(self.ln_2(x))


class Blocks(nn.Module):
    def __init__(self):
        super().__init__()
        self.resblocks = nn.ModuleList([Block() for _ in range(LAYERS)])

    def forward(self, x, mask=None):
        for block in self.resblocks:
            x = block(x, mask)
        return x


class Image(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(3, WIDTH, PATCH, PATCH, bias=False)
        self.class_embedding = nn.Parameter(torch.zeros(WIDTH))
        self.positional_embedding = nn.Parameter(torch.zeros((SIZE // PATCH) ** 2 + 1, WIDTH))
        self.ln_pre, self.transformer, self.ln_post = nn.LayerNorm(WIDTH), Blocks(), nn.LayerNorm(WIDTH)
        self.proj = nn.Parameter(torch.zeros(WIDTH, DIM))

    def forward(self, x):
        x = self.conv1(x).flatten(2).transpose(1, 2)
        first = self.class_embedding.expand(x.shape[0], 1, WIDTH)
        x = self.ln_pre(torch.cat([first, x], dim=1) + self.positional_embedding)
        return self.ln_post(self.transformer(x)[:, 0]) @ self.proj


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.visual = Image()
        self.token_embedding = nn.Embedding(VOCAB, WIDTH)
        self.positional_embedding = nn.Parameter(torch.zeros(CONTEXT, WIDTH))
        self.transformer, self.ln_final = Blocks(), nn.LayerNorm(WIDTH)
        self.text_projection = nn.Parameter(torch.zeros(WIDTH, DIM))

    def text(self, ids):
        mask = torch.full((CONTEXT, CONTEXT), -math.inf, dtype=self.positional_embedding.dtype).triu(1)
        x = self.transformer(self.token_embedding(ids) + self.positional_embedding, mask)
        return self.ln_final(x[range(len(ids)), ids.argmax(1)]) @ self.text_projection


# ----- the method -----

class Anchors:
    def __init__(self):
        self.lam, self.m, self.v = np.ones(N), np.zeros(N), np.zeros(N)
        self.clock, self.log_u = np.zeros(N, dtype=np.int64), np.full(N, -np.inf)


def move(a, i, row, epoch, official):
    if epoch == UPDATE if official else a.clock[i] == 0:        # lambda_init = quantile
        a.lam[i] = min(1.0, max(-1.0, quantile(row)))
        a.clock[i] += 1
        return
    g = ALPHA - np.mean(row > a.lam[i])
    a.m[i] = 0.9 * a.m[i] + 0.1 * g
    a.v[i] = 0.98 * a.v[i] + 0.02 * g * g
    t = epoch + 1 if official else a.clock[i]   # visits but the first, which was no step of Adam
    a.clock[i] += 1
    step = (a.m[i] / (1 - 0.9 ** t)) / (math.sqrt(a.v[i] / (1 - 0.98 ** t)) + (EPS if official else 1e-8))
    a.lam[i] = min(1.0, max(-1.0, a.lam[i] - LAMBDA_LR * step))


def gamma(epoch, keys):
    if keys["gamma_schedule"] == "constant":
        return 0.9
    if epoch == 0:
        return 1.0
    return GAMMA_MIN if epoch >= GAMMA_DECAY else GAMMA_MIN + (1 - GAMMA_MIN) * (1 + math.cos(math.pi * epoch / GAMMA_DECAY)) / 2


def detect(a, sim, ids, epoch, keys):
    """Moves the thresholds; which pairs are kept, and the least distance of a similarity to a threshold."""
    keep, near = ~np.eye(BATCH, dtype=bool), np.inf
    if keys.get("detector") == "none":
        return keep, near
    for j, i in enumerate(ids):
        row = np.delete(sim[j], j)
        before = a.lam[i]
        if epoch >= UPDATE:
            move(a, i, row, epoch, keys.get("compat") == "official")
            near = min([near] + [np.abs(row - t).min() for t in (before, a.lam[i]) if t < 1.0])
        if epoch >= MASK:
            keep[j] &= sim[j] <= a.lam[i]
    return keep, near


def averaged(a, ids, log_g, epoch, keys):
    old, rate = a.log_u[ids], gamma(epoch, keys)
    fresh = np.isinf(old) | (rate >= 1.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        mixed = np.logaddexp(np.log1p(-rate) + old, math.log(rate) + log_g) if rate < 1.0 else log_g
    log_u = np.where(fresh, log_g, mixed)
    a.log_u[ids] = log_u
    return log_u


def side_terms(a, s, k, ids, epoch, keys):
    """One side: the number to differentiate for the embeddings, the objective's share, log u or None, and what was kept."""
    keep, near = detect(a, s.detach().double().numpy(), ids, epoch, keys)
    if not keep.any(axis=1).all():
        raise Unsuitable
    c = torch.from_numpy(keep.sum(axis=1)).to(s.dtype)
    kept = torch.from_numpy(keep)
    none = torch.full_like(s, -math.inf)
    if keys["loss"] == "clip":
        lse = torch.logsumexp(torch.where(kept | torch.eye(BATCH, dtype=torch.bool), k * s, none), dim=1)
        loss = (lse - k * s.diagonal()).sum() / (2 * BATCH)
        return loss, loss.item(), None, keep, near
    official = keys.get("compat") == "official"
    power = k * (s - s.diagonal()[:, None]) if official else k * s
    log_g = torch.logsumexp(torch.where(kept, power, none), dim=1) - torch.log(c)
    log_u = averaged(a, ids, log_g.detach().double().numpy(), epoch, keys)
    u = torch.from_numpy(log_u).to(s.dtype)
    if official:
        ratio = torch.exp(log_g - torch.log(torch.exp(u) + EPS))
        return ratio.sum() / BATCH / k.detach(), (ratio.sum() / BATCH / k).item(), u, keep, near
    surrogate = (torch.exp(log_g - u) / k - s.diagonal()).sum() / BATCH
    value = (-s.diagonal() + (torch.log(c) + u) / k).sum().item() / BATCH
    return surrogate, value, u, keep, near


def contrast(anchors, image, text, log_scale, ids, epoch, keys):
    x, t = (nn.functional.normalize(z, dim=1, eps=1e-12) for z in (image, text))
    learned = keys["loss"] in ("clip", "fastclip")
    k = torch.exp(log_scale) if learned else torch.exp(log_scale).detach()
    s = x @ t.T
    parts = [side_terms(anchors[0], s, k, ids, epoch, keys), side_terms(anchors[1], s.T, k, ids, epoch, keys)]
    number, value = parts[0][0] + parts[1][0], parts[0][1] + parts[1][1]
    if keys["loss"] == "fastclip":
        logs = sum(torch.log(torch.exp(p[2]) + EPS).mean() for p in parts)
        tail = RHO / k + logs / (2 * k)
        number, value = number + tail, value + tail.item()
    kept = np.mean([p[3].sum(axis=1).mean() / (BATCH - 1) for p in parts])
    return number, value, kept, min(p[4] for p in parts)


# ----- optimizer and schedules -----

def rate(keys, step, total):
    if step < WARMUP:
        return keys["lr"] * (step + 1) / WARMUP
    return keys["lr"] / 2 * (1 + math.cos(math.pi * (step - WARMUP) / (total - WARMUP)))


def adam(p, g, state, lr, wd, t):
    m, v = state
    p.mul_(1 - lr * wd)
    m.mul_(0.9).add_(g, alpha=0.1)
    v.mul_(0.999).addcmul_(g, g, value=0.001)
    p.sub_(lr * (m / (1 - 0.9 ** t)) / ((v / (1 - 0.999 ** t)).sqrt() + ADAM_EPS))


def optimize(model, log_scale, state, keys, lr, t):
    params = dict(model.named_parameters())
    if "grad_clip" in keys:
        norm = math.sqrt(sum((p.grad ** 2).sum().item() for p in params.values()))
        shrink = min(1.0, keys["grad_clip"] / (norm + 1e-6))
        for p in params.values():
            p.grad.mul_(shrink)
    for name, p in params.items():
        plain = p.dim() < 2 or any(part in name for part in ("bn", "ln", "bias"))
        moments = state.setdefault(name, (torch.zeros_like(p), torch.zeros_like(p)))
        adam(p, p.grad, moments, lr, 0.0 if plain else keys["weight_decay"], t)
    if log_scale.grad is None:
        return
    own = lr
    if keys["loss"] == "fastclip":
        own = keys["scale_lr"] * (1 / 3 if math.exp(-log_scale.item()) <= 0.03 else 1.0)
    moments = state.setdefault("logit_scale", (torch.zeros_like(log_scale), torch.zeros_like(log_scale)))
    adam(log_scale, log_scale.grad, moments, own, 0.0, t)
    log_scale.clamp_(0.0, math.log(100.0))


def train(keys, dtype):
    model = Model()
    with torch.no_grad():
        for name, p in model.named_parameters():
            p.copy_(initial(name, p))
    model = model.to(dtype)
    log_scale = torch.tensor(float(np.float32(-math.log(keys["tau"]))), dtype=dtype, requires_grad=True)
    start = {name: p.detach().clone() for name, p in model.named_parameters()}
    anchors, state, steps, near, total = (Anchors(), Anchors()), {}, [], np.inf, EPOCHS * N // BATCH
    for step in range(total):
        epoch, k = step // (N // BATCH), step % (N // BATCH)
        ids = batch_ids(epoch, k)
        x = np.stack([view(SIZE, epoch, i, 0) for i in ids]).transpose(0, 3, 1, 2)
        image = model.visual(torch.from_numpy(x.astype(np.float64).copy()).to(dtype))
        text = model.text(torch.tensor([caption(i) for i in ids]))
        number, value, kept, distance = contrast(anchors, image, text, log_scale, ids, epoch, keys)
        model.zero_grad()
        log_scale.grad = None
        number.backward()
        lr, tau = rate(keys, step, total), math.exp(-log_scale.item())
        with torch.no_grad():
            optimize(model, log_scale, state, keys, lr, step + 1)
        steps.append((lr, value, tau, kept))
        near = min(near, distance)
        if dtype == torch.float64 and near < SIM_MARGIN:
            raise Unsuitable
    moved = {name: (p.detach() - start[name]).double() for name, p in model.named_parameters()}
    return steps, moved, anchors, log_scale.item(), near


def deviation(exact, single):
    top = max(abs(s[1]) for s in exact[0])
    losses = max(abs(x[1] - y[1]) for x, y in zip(exact[0], single[0])) / top
    moves = {k: ((exact[1][k] - single[1][k]).norm() / exact[1][k].norm()).item() for k in exact[1]}
    worst = max(moves, key=moves.get)
    lam = max(np.abs(exact[2][s].lam - single[2][s].lam).max() for s in (0, 1))
    return f"losses {losses:.1e} of the largest, moves {moves[worst]:.1e} of their norms ({worst}), lambda {lam:.1e}"


def run(case):
    keys = CASES[case]
    exact = first_suitable(lambda: train(keys, torch.float64))
    steps, moved, anchors, log_scale, near = exact
    settings = dict(keys, data=f"shapes:n={N},classes={CLASSES},size={SIZE}", task="clip", patch=PATCH, image_width=WIDTH,
                    image_layers=LAYERS, image_heads=HEADS, text_width=WIDTH, text_layers=LAYERS, text_heads=HEADS,
                    context=CONTEXT, embed_dim=DIM, batch=BATCH, epochs=EPOCHS, warmup_steps=WARMUP, update_epoch=UPDATE,
                    mask_epoch=MASK, alpha=ALPHA, rho=RHO, lambda_init="quantile", lambda_lr=LAMBDA_LR, gamma_min=GAMMA_MIN,
                    gamma_decay=GAMMA_DECAY, adam_eps=ADAM_EPS, mask_duplicates=0)
    lines = [f"case vit 0 {SIZE} 1 {DIM} {streams.SEED}\n"] + [f"set {key} {value}\n" for key, value in settings.items()]
    lines += [f"# PyTorch's float32: {deviation(exact, train(keys, torch.float32))}\n",
              f"# least distance of a similarity to a threshold: {near:.1e}\n"]
    lines += [f"step {k} {lr:.12g} {value:.12g} {kept:.12g} {tau:.12g}\n" for k, (lr, value, tau, kept) in enumerate(steps)]
    lines += [line("moved:" + name, x) for name, x in moved.items()] + [f"scale {log_scale:.12g}\n"]
    for side, a in enumerate(anchors):
        log_u = np.where(np.isinf(a.log_u), 0.0, a.log_u)       # clip has none
        lines += [f"anchor{side} {i} {a.clock[i]} {a.lam[i]:.12g} {log_u[i]:.12g}\n" for i in range(N)]
    return lines


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    folder = sys.argv[1] if len(sys.argv) > 1 else os.path.join(here, "..", "..", "tests", "fixtures", "curve")
    for case in sys.argv[2:] or CASES:
        path = os.path.join(folder, case + ".txt")
        lines = run(case)
        with open(path, "w", encoding="ascii") as f:
            f.writelines(lines)
        print(path, "".join(x for x in lines if x.startswith("#")), sep="\n")


if __name__ == "__main__":
    main()
