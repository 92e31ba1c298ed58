"""The command glofnd: starts the program inside of this package."""

import os
import sys

PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin", "glofnd")


def main() -> int:
    if not os.path.exists(PROGRAM):
        print("glofnd: this installation has the Python package alone, without the program. Install a wheel, or build the program "
              "from source with `make glofnd`.", file=sys.stderr)
        return 1
    try:
        os.execv(PROGRAM, [sys.argv[0], *sys.argv[1:]])
    except OSError as failure:
        print(f"glofnd: {PROGRAM} cannot be started: {failure.strerror}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
