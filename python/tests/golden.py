"""The golden cases of tests/golden (numbers of the authors' code): reading, options, start state, comparison."""

import math
import os

import numpy as np

ROOT = os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", "tests", "golden")
TOLERANCE = 2e-5  # of the largest value of an array, as in tests/replay
DETECTORS = {"none": "none", "-": "none", "glofnd": "glofnd", "uglofnd": "single", "fnd": "fnc", "oracle": "oracle"}


def _table(name):
    with open(os.path.join(ROOT, name), encoding="ascii") as file:
        return [line.rstrip("\n").split("\t") for line in file]


def _array(file):
    folder, name = os.path.split(file)
    with np.load(os.path.join(ROOT, folder + ".npz")) as arrays:
        return arrays[name[:-len(".npy")]]


class Case:
    """One golden case: `hyper` by key, arrays by name (`inputs`, `outputs`)."""

    def __init__(self, name):
        self.name = name
        self.hyper = {key: value for case, key, value in _table("hyper.tsv") if case == name}
        self.arrays = {row[1]: _array(row[5]) for row in _table("manifest.tsv") if row[0] == name}
        self.wanted = {row[1] for row in _table("manifest.tsv") if row[0] == name and row[2] == "output"}
        self.two_views = self.hyper["family"].startswith("unimodal")
        self.sides = 1 if self.two_views else 2

    def number(self, key, default=0.0):
        return float(self.hyper.get(key, default))

    def options(self):
        hyper, family = self.hyper, self.hyper["family"]
        options = {"compat": "official", "detector": DETECTORS[hyper["detector"]], "normalize": int(self.two_views)}
        if self.two_views:
            options["loss"] = {"dcl": "sogclr", "cl": "simclr"}[hyper["loss_type"]]
            options["tau"] = self.number("tau")
            if options["loss"] == "sogclr":
                options["gamma"] = self.number("gamma")
        elif family == "bimodal_clip":
            options |= {"loss": "simclr", "pairing": "image-text"}
        else:
            options |= {"loss": "fastclip" if hyper["multiply_tau"] == "1" else "sogclr", "pairing": "image-text"}
            if "rho" in hyper:
                options["rho"] = self.number("rho")
        if "alpha" in hyper:
            options |= {"alpha": self.number("alpha"), "update_epoch": int(hyper["start_update"]),
                        "mask_epoch": int(hyper["lda_start"]), "lambda_warmup": int(hyper.get("u_warmup", 0))}
        if options["detector"] in ("glofnd", "single"):
            options |= {"lambda_lr": self.number("lr_lda"), "lambda_beta1": self.number("beta1"),
                        "lambda_beta2": self.number("beta2"),
                        "lambda_init": "quantile" if hyper["init_quantile"] == "1" else "one"}
        return options

    def gamma(self, epoch):
        """Image-text: gamma of an epoch, 0 where the loss has none."""
        if self.two_views or "gamma_min" not in self.hyper or self.hyper["family"] == "bimodal_clip":
            return 0.0
        low, decay = self.number("gamma_min"), self.number("gamma_decay_epochs")
        if self.hyper.get("gamma_schedule", "cosine") != "cosine" or epoch >= decay:
            return low
        return low + (1 - low) * 0.5 * (1 + math.cos(math.pi * epoch / decay)) if epoch > 0 else 1.0

    def steps(self):
        """(a, b, index, labels, epoch, tau, gamma) of every step."""
        a, b = (self.arrays[name] for name in (("h1", "h2") if self.two_views else ("im", "tt")))
        for t in range(int(self.hyper["steps"])):
            epoch = int(self.arrays["epoch"][t]) if "epoch" in self.arrays else 0
            index = self.arrays["index"][t] if "index" in self.arrays else np.arange(a.shape[1])
            labels = self.arrays["labels"][t] if "labels" in self.arrays else None
            tau = 0.0 if self.two_views else 1.0 / math.exp(float(self.arrays["log_scale"][t]))
            yield a[t], b[t], index, labels, epoch, tau, self.gamma(epoch)

    def side_name(self, base, side):
        return base if self.sides == 1 else base + ("_im", "_tt")[side]

    def start_rows(self, rows, side):
        """The rows that the case starts from, and its shared row (None: as the library starts)."""
        learned = self.hyper["detector"] in ("glofnd", "uglofnd")
        resume, start = self.hyper.get("resume") == "1", self.number("lambda_init", 1.0)
        shared = None
        if learned and (resume or start != 1.0):
            target = rows if self.hyper["detector"] == "glofnd" else rows[:1].copy()
            for field, name, default in (("lambda", "lda0", start), ("m", "m0", 0.0), ("v", "v0", 0.0)):
                target[field] = self.arrays[self.side_name(name, side)] if resume else default
            target["clock"] = 1
            shared = None if target is rows else target[0]
        averages = self.arrays.get(self.side_name("u0", side))
        if resume and averages is not None:
            with np.errstate(divide="ignore"):
                rows["log_u"] = np.log(averages.astype(np.float64))
        return rows, shared


def one_rank_cases():
    names = sorted({row[0] for row in _table("hyper.tsv")})
    return [name for name in names if name[0] in "ABC" and not name.endswith("2rank") and name != "C_gamma_schedule"]


def two_rank_cases():
    return sorted({row[0] for row in _table("hyper.tsv") if row[0].endswith("2rank")})


def error(got, want):
    """Largest difference, relative to the largest finite value of `want`; NaN must meet NaN."""
    got, want = np.asarray(got, np.float64), np.asarray(want, np.float64)
    if not np.array_equal(np.isnan(got), np.isnan(want)):
        return math.inf
    finite = want[np.isfinite(want)]
    largest = np.abs(finite).max() if finite.size else 0.0
    difference = np.nanmax(np.abs(got - want), initial=0.0)
    return float(difference / largest) if largest else float(difference)


def mask_bits(keep):
    """A mask [rows][2][2][cols] or [rows][2][cols] in the packing of the golden arrays: two int64 [rows]."""
    packed = []
    for view in range(2):
        bits = np.concatenate([keep[:, view, 1 - view], keep[:, view, view]], 1) if keep.ndim == 4 else keep[:, view]
        value = (bits.astype(np.uint64) << np.arange(bits.shape[1], dtype=np.uint64)).sum(1, dtype=np.uint64)
        packed.append(value.view(np.int64))
    return packed
