"""engine="ray" of glofnd.discover(): processes of a Ray cluster share the blocks of one search.

Every task opens the files itself and computes blocks that no other task works on (worker of glofnd_discover_spec). Blocks are files in
one folder, so files and folder lie on a file system that all machines share. If a task dies, the others take its block over after
`patience` seconds, and Ray may start it again. The result is that of one process, to the bit.
"""

from __future__ import annotations

import os
from typing import Any, Callable, Optional

import numpy as np

from ._lib import ArgumentError, Error, UnsupportedError


def _work(paths: list[str], columns: dict[str, str], label: Optional[np.ndarray], search: dict[str, Any]) -> str:
    """A task: computes blocks until all are there. A failed search is returned as text: Ray does not need to try it again."""
    from ._discover import run_search
    from ._embeddings import Files
    try:
        run_search(Files(paths, **columns), label, {**search, "worker": 1})
        return ""
    except Error as failure:
        return f"{type(failure).__name__}: {failure}"


def compute_blocks(paths: list[str], columns: dict[str, str], label: Optional[np.ndarray], search: dict[str, Any], workers: int,
                   tell: Callable[[float], Any]) -> None:
    """Returns once no task runs; what dead ones left open, the caller computes. tell(share): may return a true value to stop."""
    try:
        import ray
    except ImportError:
        raise UnsupportedError('engine is "ray", which is not installed: pip install ray') from None
    if not ray.is_initialized():
        ray.init(log_to_driver=False)
    threads = search["threads"] or 1
    count = workers or max(1, int(ray.cluster_resources().get("CPU", 1)) // threads)
    environment = {"env_vars": {key: os.environ[key] for key in ("GLOFND_LIBRARY", "PYTHONPATH") if key in os.environ}}
    task = ray.remote(num_cpus=threads, max_retries=3, runtime_env=environment)(_work)
    where = [os.path.abspath(path) for path in paths]
    shared = {**search, "threads": threads, "parts": os.path.abspath(search["parts"])}
    running = [task.remote(where, columns, label, shared) for _ in range(count)]
    try:
        while running:
            done, running = ray.wait(running, timeout=0.5)
            for one in done:
                try:
                    why = ray.get(one)
                except ray.exceptions.RayError:  # the process died, and so did those that Ray started in its place
                    continue
                if why:
                    raise ArgumentError(f"a task of Ray failed: {why}")
            if tell(0.0):
                raise KeyboardInterrupt
    finally:
        for one in running:
            ray.cancel(one, force=True)
