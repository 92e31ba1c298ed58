"""version.py: the version in include/glofnd.h."""
import os
import re

HEADER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "include", "glofnd.h")
with open(HEADER, encoding="utf-8") as file:
    text = file.read()
print(".".join(re.search(rf"^#define GLOFND_VERSION_{part} +(\d+)", text, re.M).group(1) for part in ("MAJOR", "MINOR", "PATCH")))
