"""python -m glofnd: the build, and what it can use on this machine. --options lists the options of the library; convert makes
files that the program reads (_convert.py); leaks compares splits, for continuous integration."""

import importlib.util
import os
import sys

from . import _convert, _lib


def leaks(words: list[str]) -> int:
    """Embedding files, one per split: 0 if none has a duplicate in another, else 1."""
    import argparse

    from ._discover import leaks as leaks_between
    parser = argparse.ArgumentParser(prog="python -m glofnd leaks", description="Exit status 1 if splits share samples.")
    parser.add_argument("split", nargs="+", help="embedding files; the first split stays whole")
    parser.add_argument("--duplicates", default="0.98", help='similarity of duplicates (0.98), or "exact"')
    asked = parser.parse_args(words)
    found = leaks_between(*asked.split, duplicates=asked.duplicates if asked.duplicates == "exact" else float(asked.duplicates))
    between = [(a, b) for a in range(len(found.splits)) for b in range(len(found.splits)) if a != b and found.split_leaks[a, b]]
    for a, b in between:
        print(f"{found.split_leaks[a, b]} rows of {asked.split[a]} have a duplicate in {asked.split[b]} ({found.split_exact[a, b]} exact)")
    if not between:
        print("no split has a duplicate in another")
    return 1 if between else 0


def main() -> int:
    if sys.argv[1:] == ["--options"]:
        for key, values, text in _lib.option_table():
            print(f"{key:17} {text}\n{'':17} {values}")
        return 0
    if sys.argv[1:2] == ["convert"]:
        return _convert.main(sys.argv[2:])
    if sys.argv[1:2] == ["leaks"]:
        return leaks(sys.argv[2:])
    if sys.argv[1:]:
        print("usage: python -m glofnd [--options | convert SOURCE TARGET | leaks TRAIN TEST ... [--duplicates S]]", file=sys.stderr)
        return 2
    print(f"build      {_lib.build_info()}")
    print(f"library    {_lib.library_path()}")
    print(f"cpu        {os.cpu_count()} online")
    print(f"cuda       {_lib.device_status('cuda') or 'ready'}")
    for name in ("numpy", "torch", "jax"):
        print(f"{name:10} {'yes' if importlib.util.find_spec(name) else 'not installed'}")
    return 0


if __name__ == "__main__":
    try:
        status = main()
        sys.stdout.flush()
    except BrokenPipeError:  # the reader ended, as `| head` does: no traceback, and the status of a program that SIGPIPE ended
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        status = 141
    sys.exit(status)
