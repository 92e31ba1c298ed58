#!/usr/bin/env python3
"""Is the GPU fed? Trains ResNet-50 on folders of JPEG files, with few CPU cores, and says how busy the GPU is.

    bench_feed.py --build build [--cores 8] [--count 1024] [--batch 128] [--epochs 8] [--decode exact,fast]
                  [--folder DIR] [--plans FILE] [--seconds 600] [--json]

Draws folders of JPEG files (build/bench/data --write): all 500 x 375, and the sizes that photos of Flickr8k have. Trains on
each with every decoder, and once on drawn images that the GPU keeps, where no file is read: that is a step that never waits.
`busy` is its time per step over that of the run (median epoch, all that lies between steps included), `load` the share of a
step in which the program waits for its batch, as it logs it (`time_load`), `cores` the CPU time per second of the whole run. The
first two epochs do not count. --plans: the algorithms of cuDNN that an earlier run has chosen (`plans.txt` of its folder), which
saves most of the time before the first step; those chosen now are added to it. --seconds: rows for which no time is left are
skipped. A run that fails is a row that says so. Exit status: 0, 1 failed or skipped, 2 usage.
"""
import argparse
import json
import os
import pathlib
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

STARTED = time.monotonic()
FOLDERS = {
    "500 x 375": "500x375",
    "Flickr8k": "500x375,500x333,375x500,500x334,333x500,500x375,500x281,357x500",
}


def fail(text):
    print(f"bench_feed.py: {text}", file=sys.stderr)
    sys.exit(1)


def arguments():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--build", default="build")
    p.add_argument("--cores", type=int, default=8)
    p.add_argument("--count", type=int, default=1024)
    p.add_argument("--batch", type=int, default=128)
    p.add_argument("--epochs", type=int, default=8)
    p.add_argument("--arch", default="resnet50")
    p.add_argument("--size", type=int, default=224)
    p.add_argument("--device", default="cuda")
    p.add_argument("--precision", default="bf16")
    p.add_argument("--decode", default="exact,fast")
    p.add_argument("--folder", default="", help="measure this folder instead of drawn ones")
    p.add_argument("--plans", default="", help="file of chosen algorithms, read and written")
    p.add_argument("--seconds", type=float, default=600)
    p.add_argument("--json", action="store_true")
    return p.parse_args()


def draw(a, place):
    """Folders by name."""
    if a.folder:
        return {pathlib.Path(a.folder).name: pathlib.Path(a.folder)}
    folders = {}
    for k, (name, sizes) in enumerate(FOLDERS.items()):
        folders[name] = place / f"files{k}"
        folders[name].mkdir()
        command = [f"{a.build}/bench/data", "--write", str(folders[name]), "--count", str(a.count), "--sizes", sizes]
        if subprocess.run(command + ["--threads", str(os.cpu_count())]).returncode:
            fail("the files cannot be drawn")
    return folders


def bytes_of(folder):
    return statistics.mean(f.stat().st_size for f in folder.iterdir())


def train(a, place, data, decode):
    """Figures of one run, or {"failed": why}."""
    run, plans = place / "run", pathlib.Path(a.plans) if a.plans else place / "plans.txt"
    left = a.seconds - (time.monotonic() - STARTED)
    if left < 1:
        return {"failed": "no time left"}
    shutil.rmtree(run, ignore_errors=True)
    run.mkdir()
    if plans.exists():  # the algorithms that the first run has timed
        shutil.copy(plans, run / "plans.txt")
    cores = sorted(os.sched_getaffinity(0))[: a.cores]
    command = [f"{a.build}/glofnd", "pretrain", "--data", data, "--out", str(run), "--arch", a.arch, "--size", str(a.size),
               "--batch", str(a.batch), "--epochs", str(a.epochs), "--precision", a.precision, "--device", a.device,
               "--workers", str(len(cores)), "--threads", str(len(cores)), "--decode", decode, "--log_steps", "1",
               "--checkpoint_minutes", "1000"]
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=left,
                              preexec_fn=lambda: os.sched_setaffinity(0, cores))
    except subprocess.TimeoutExpired:
        return {"failed": f"not finished after {left:.0f} s"}
    wall, after = time.monotonic() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        return {"failed": " ".join(command) + "\n" + done.stdout[-3000:]}
    rows = [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]
    steps = [r for r in rows if r.get("event") == "step" and r["epoch"] >= 2]
    ends = [r["time_elapsed"] for r in rows if r.get("event") == "epoch" and r["epoch"] >= 1]
    epochs = [end - begin for begin, end in zip(ends, ends[1:])]
    if (run / "plans.txt").exists():
        shutil.copy(run / "plans.txt", plans)
    shutil.rmtree(run)
    per_step = statistics.median(epochs) * len(epochs) / len(steps)  # with all that comes between steps
    begins = {r["epoch"]: r["time_load"] for r in reversed(steps)}
    first = statistics.mean(begins.values())  # what the first step of an epoch waits for its batch
    return {"steps": len(steps), "step_ms": 1e3 * per_step, "images_per_s": a.batch / per_step,
            "load": statistics.mean(r["time_load"] for r in steps) / per_step, "first_load_ms": 1e3 * first,
            "read_ms": 1e3 * statistics.mean(r["time_read"] for r in steps) / a.batch,
            "wall_s": wall, "cores": (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) / wall}


def show(a, name, decode, figures, reference):
    if "failed" not in figures:
        figures["busy"] = reference.get("step_ms", float("nan")) / figures["step_ms"]
    if a.json:
        print(json.dumps({"bench": "feed", "files": name, "decode": decode, **figures}), flush=True)
        return
    if "failed" in figures:
        print(f"{name:28} {decode:8} failed: {figures['failed']}", flush=True)
        return
    print(f"{name:28} {decode:8} {figures['step_ms']:8.2f} ms/step {figures['images_per_s']:8.0f} images/s  busy "
          f"{100 * figures['busy']:6.1f} %  load {100 * figures['load']:5.1f} %  read {figures['read_ms']:.3f} ms/image  cores "
          f"{figures['cores']:.1f}", flush=True)


def main():
    a = arguments()
    with tempfile.TemporaryDirectory() as folder:
        place = pathlib.Path(folder)
        ran = [kept := train(a, place, f"shapes:n={a.count},classes=20,size={a.size},seed=1", "exact")]
        show(a, "none: images on the GPU", "-", kept, kept)
        for name, files in draw(a, place).items():
            name = f"{name}, {bytes_of(files) / 1e3:.0f} kB"
            for decode in a.decode.split(","):
                ran.append(train(a, place, f"folder:{files}?split=all", decode))
                show(a, name, decode, ran[-1], kept)
    return 1 if any("failed" in figures for figures in ran) else 0


if __name__ == "__main__":
    sys.exit(main())
