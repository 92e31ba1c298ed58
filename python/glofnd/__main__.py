"""python -m glofnd: the build, and what it can use on this machine. --options lists the options of the library; convert makes
files that the program reads (_convert.py)."""

import importlib.util
import os
import sys

from . import _convert, _lib


def main() -> int:
    if sys.argv[1:] == ["--options"]:
        for key, values, text in _lib.option_table():
            print(f"{key:17} {text}\n{'':17} {values}")
        return 0
    if sys.argv[1:2] == ["convert"]:
        return _convert.main(sys.argv[2:])
    if sys.argv[1:]:
        print("usage: python -m glofnd [--options | convert SOURCE TARGET]", file=sys.stderr)
        return 2
    print(f"build      {_lib.build_info()}")
    print(f"library    {_lib.library_path()}")
    print(f"cpu        {os.cpu_count()} online")
    print(f"cuda       {_lib.device_status('cuda') or 'ready'}")
    for name in ("numpy", "torch", "jax"):
        print(f"{name:10} {'yes' if importlib.util.find_spec(name) else 'not installed'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
