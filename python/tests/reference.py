"""The method in plain PyTorch, float64, with every matrix materialised and gradients by autograd.

Written from the paper's equations and docs/method.md, not from the C code: one row at a time where that is easier to read. State
is a list of dictionaries, one per side and anchor.
"""

import math

import torch
from torch.nn.functional import logsigmoid

DEFAULTS = {"loss": "sogclr", "pairing": "views", "detector": "glofnd", "action": "drop", "learner": "adam", "lambda_init": "one", "alpha": 0.01,
            "omega": 0.5, "lambda_lr": 0.05, "lambda_beta1": 0.9, "lambda_beta2": 0.98, "tau": 0.1, "gamma": 0.9, "rho": 6.5,
            "bias": -10.0, "attract_omega": 0.0, "tau_lr": 0.01, "tau_min": 0.01, "ring_rows": 16384,
            "margin": 0.1, "fnc_rule": "quantile", "update_epoch": 0, "mask_epoch": 0, "similarity": "embedding", "bank_momentum": 0.5}
RING_RATE, TAU_BETAS = 0.3, (0.9, 0.999)  # constants of the method


class Reference:
    def __init__(self, n, **options):
        self.o = {**DEFAULTS, **options}
        if self.o["loss"] == "clip":
            self.o |= {"loss": "simclr", "pairing": "image-text"}
        self.two_views = self.o["pairing"] == "views"
        self.sides = 1 if self.two_views else 2
        self.state = [[{"lambda": 1.0, "m": 0.0, "v": 0.0, "u": None, "clock": 0, "tau": None, "tau_m": 0.0, "tau_v": 0.0,
                        "tau_clock": 0} for _ in range(n)] for _ in range(self.sides)]
        self.shared = [{"lambda": 1.0, "m": 0.0, "v": 0.0, "clock": 0} for _ in range(self.sides)]
        self.ring = [[] for _ in range(self.sides)]  # (id, unit row)
        self.bank = [[None] * n for _ in range(self.sides)]  # averages, rounded to float16 as a store keeps them

    # ----- rows: one embedding as anchor against the candidates of its side -----

    def rows(self, z, side):
        """(sample, similarities [negatives], positive similarity, column samples) of every row of a side."""
        count = z[0].shape[0]
        if self.two_views:
            every = torch.stack(z, 1).reshape(2 * count, -1)
            owner = torch.arange(2 * count) // 2
            for r in range(2 * count):
                sims = every @ every[r]
                negative = owner != owner[r]
                yield int(owner[r]), sims[negative], sims[r ^ 1], owner[negative]
        else:
            for i in range(count):
                sims = z[1 - side] @ z[side][i]
                negative = torch.arange(count) != i
                yield i, sims[negative], sims[i], torch.arange(count)[negative]

    # ----- averages over visits -----

    def averages(self, z, ids):
        """What thresholds are compared with, in place of z: the new average of every sample."""
        if self.o["similarity"] != "bank":
            return z
        means = [z[0] + z[1]] if self.two_views else z
        out = [torch.nn.functional.normalize(mean, dim=1) for mean in means]
        for side, rows in enumerate(out):
            for i, own_id in enumerate(ids):
                old, m = self.bank[side][own_id], self.o["bank_momentum"]
                if old is not None:
                    rows[i] = torch.nn.functional.normalize(m * old + (1 - m) * rows[i], dim=0)
                self.bank[side][own_id] = rows[i].half().double()
        return out * 2 if self.two_views else out

    # ----- thresholds -----

    def quantile(self, sims):
        """Over samples: both views of one have the same average."""
        if self.two_views and self.o["similarity"] == "bank":
            sims = sims.sort().values[::2]
        return torch.quantile(sims, 1 - self.o["alpha"]).item()

    def adam(self, row, gradient, epoch):
        o = self.o
        if o["learner"] == "sgd":
            row["lambda"] -= o["lambda_lr"] * gradient
        else:
            t = epoch + 1 if o["learner"] == "adam-official" else max(1, row["clock"] + 1 - (o["lambda_init"] == "quantile"))
            row["m"] = o["lambda_beta1"] * row["m"] + (1 - o["lambda_beta1"]) * gradient
            row["v"] = o["lambda_beta2"] * row["v"] + (1 - o["lambda_beta2"]) * gradient ** 2
            m, v = row["m"] / (1 - o["lambda_beta1"] ** t), row["v"] / (1 - o["lambda_beta2"] ** t)
            row["lambda"] -= o["lambda_lr"] * m / (math.sqrt(v) + 1e-8)
        row["lambda"] = min(1.0, max(-1.0, row["lambda"]))
        row["clock"] += 1

    def move(self, row, sims, epoch):
        """sims: the rows of an anchor (or, with one threshold for all, of the batch), each a vector."""
        if row["clock"] == 0 and self.o["lambda_init"] == "quantile":
            row["lambda"] = sum(map(self.quantile, sims)) / len(sims)
            row["clock"] = 1
            return
        above = sum(int((s > row["lambda"]).sum()) for s in sims) if row["lambda"] < 1 else 0
        self.adam(row, self.o["alpha"] - above / sum(len(s) for s in sims), epoch)

    def move_by_ring(self, row, sample, z, side, own_id):
        ring = self.ring[0 if self.two_views else 1 - side]
        if len(ring) < math.ceil(1 / self.o["alpha"]):
            return
        keys = torch.stack([unit for other, unit in ring if other != own_id])
        best = round(self.o["alpha"] * len(keys))
        values = []
        for view in (z if self.two_views else [z[side]]):
            values.append(torch.sort(keys @ view[sample], descending=True).values[best - 1].item())
        rate = max(1 / (row["clock"] + 1), RING_RATE)
        row["lambda"] = (1 - rate) * row["lambda"] + rate * sum(values) / len(values)
        row["clock"] += 1

    def learn(self, z, ids, epoch):
        o = self.o
        if o["detector"] not in ("glofnd", "mutual", "single") or epoch < o["update_epoch"]:
            return
        for side in range(self.sides):
            by_sample = {}
            for sample, sims, _, _ in self.rows(z, side):
                by_sample.setdefault(sample, []).append(sims)
            if o["detector"] == "single":
                self.move(self.shared[side], [s for sims in by_sample.values() for s in sims], epoch)
                continue
            for sample, sims in by_sample.items():
                row = self.state[side][ids[sample]]
                if o["learner"] == "ring":
                    self.move_by_ring(row, sample, z, side, ids[sample])
                else:
                    self.move(row, sims, epoch)

    def push(self, z, ids):
        for side in range(self.sides):
            for i, own_id in enumerate(ids):
                for view in (z if self.two_views else [z[side]]):
                    self.ring[side].append((own_id, view[i].clone()))
            del self.ring[side][:-self.o["ring_rows"]]

    # ----- flags -----

    def flagged(self, side, sample, sims, positive, columns, ids, labels, groups, epoch):
        o = self.o
        flags = torch.zeros(len(sims), dtype=torch.bool)
        if epoch < o["mask_epoch"]:
            return flags
        if o["detector"] in ("glofnd", "single"):
            threshold = (self.shared[side] if o["detector"] == "single" else self.state[side][ids[sample]])["lambda"]
            if threshold < 1:
                flags |= sims > threshold
        elif o["detector"] == "fnc" and o["fnc_rule"] == "quantile":
            flags |= sims > self.quantile(sims)
        elif o["detector"] == "fnc":
            order = sorted(range(len(sims)), key=lambda c: (-sims[c].item(), c))
            flags[order[:math.ceil(o["alpha"] * len(sims))]] = True
        elif o["detector"] == "mutual":
            other = self.state[side if self.two_views else 1 - side]
            least = torch.tensor([max(self.state[side][ids[sample]]["lambda"], other[ids[int(c)]]["lambda"]) for c in columns],
                                 dtype=sims.dtype)
            flags |= (sims > least) & (least < 1)
        elif o["detector"] == "positive":
            flags |= sims > positive + o["margin"]
        elif o["detector"] == "positive-relative":
            flags |= sims > positive + o["margin"] * abs(positive)
        elif o["detector"] == "oracle":
            flags |= (labels[columns] == labels[sample]) & (labels[sample] >= 0)
        if groups is not None:
            flags |= (groups[columns] == groups[sample]) & (groups[sample] >= 0)
        if flags.all() and o["loss"] != "sigmoid":
            assert o["similarity"] != "bank", "such a row is not modelled here"
            flags[sims.argmin()] = False
        return flags

    # ----- loss -----

    def step(self, a, b, ids, labels=None, groups=None, epoch=0, tau=None, bias=None):
        """(value of the loss, a scalar whose gradients are those of the step). Moves the state."""
        o = self.o
        ids = [int(i) for i in ids]
        z = [torch.nn.functional.normalize(x, dim=1) for x in (a, b)]
        still = [x.detach() for x in z]
        tau = o["tau"] if tau is None else tau
        self.b = o["bias"] if bias is None else bias
        judged = self.averages(still, ids)
        self.learn(judged, ids, epoch)
        value, surrogate, new_u = 0.0, 0.0, [{} for _ in range(self.sides)]
        for side in range(self.sides):
            own = {}  # sample: (its temperature, gradients of its rows)
            for (sample, sims, positive, columns), (_, compared, own_positive, _) in zip(self.rows(z, side), self.rows(judged, side)):
                flags = self.flagged(side, sample, compared, own_positive, columns, ids, labels, groups, epoch)
                row = self.state[side][ids[sample]]
                own_tau = tau
                if o["loss"] == "isogclr":
                    own_tau, slopes = own.setdefault(
                        sample, (torch.tensor(row["tau"] or o["tau"], dtype=torch.float64, requires_grad=True), []))
                row_value, row_surrogate, u = self.row_loss(row, sims, positive, flags, own_tau)
                value, surrogate = value + row_value.detach() / len(ids), surrogate + row_surrogate / len(ids)
                if u is not None:
                    new_u[side].setdefault(sample, []).append(u)
                if o["loss"] == "isogclr":
                    slopes.append(torch.autograd.grad(row_surrogate, own_tau, retain_graph=True)[0].item())
            for sample, (own_tau, slopes) in own.items():
                self.move_tau(self.state[side][ids[sample]], own_tau, sum(slopes) / len(slopes))
            for sample, u in new_u[side].items():
                self.state[side][ids[sample]]["u"] = sum(u) / len(u)
        if o["learner"] == "ring":
            self.push(judged, ids)
        return value, surrogate

    def row_loss(self, row, sims, positive, flags, tau):
        """(value, scalar with the gradients of the row, new u) of one row."""
        o = self.o
        weight = torch.ones_like(sims)
        weight[flags] = o["omega"] if o["action"] == "weight" else 0.0
        count = weight.sum()
        align = positive
        if o["action"] == "attract":
            align = (positive + sims[flags].sum()) / (1 + int(flags.sum()))
        if o["loss"] == "sigmoid":  # every pair by itself, half of it from each of its anchors
            x = sims / tau + self.b
            if o["action"] == "attract":
                weight[flags] = o["attract_omega"]
            loss = -logsigmoid(positive / tau + self.b) - (weight * logsigmoid(-x)).sum()
            if o["action"] == "attract":
                loss = loss - logsigmoid(x[flags]).sum()
            return loss / 2, loss / 2, None
        if o["loss"] == "simclr":  # the mean over both sides
            denominator = len(sims) / count * (weight * torch.exp(sims / tau)).sum() + torch.exp(positive / tau)
            loss = (torch.log(denominator) - align / tau) / 2
            return loss, loss, None
        mean = (weight * torch.exp(sims / tau)).sum() / count
        u = mean.detach().item() if row["u"] is None else (1 - o["gamma"]) * row["u"] + o["gamma"] * mean.detach().item()
        if o["loss"] in ("fastclip", "isogclr"):
            # u is a constant, and the gradient is that of tau (log u + rho) with d log u = d mean / u.
            value = -align + tau * (math.log(u) + o["rho"])
            slope = -align + tau * (math.log(u) + o["rho"]) + (tau.detach() if torch.is_tensor(tau) else tau) * mean / u
            return value, slope, u
        value = -align + tau * torch.log(count * u)
        return value, -align + tau * mean / u, u

    def move_tau(self, row, tau, gradient):
        o = self.o
        row["tau_clock"] += 1
        row["tau_m"] = TAU_BETAS[0] * row["tau_m"] + (1 - TAU_BETAS[0]) * gradient
        row["tau_v"] = TAU_BETAS[1] * row["tau_v"] + (1 - TAU_BETAS[1]) * gradient ** 2
        m = row["tau_m"] / (1 - TAU_BETAS[0] ** row["tau_clock"])
        v = row["tau_v"] / (1 - TAU_BETAS[1] ** row["tau_clock"])
        row["tau"] = min(1.0, max(o["tau_min"], tau.item() - o["tau_lr"] * m / (math.sqrt(v) + 1e-8)))
