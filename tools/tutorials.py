#!/usr/bin/env python3
"""Runs the code of docs/tutorials and docs/start/training.md, records what it prints, and makes a notebook of each tutorial. The page is
the one source.

usage: tutorials.py run PAGE [--small]     run the code of a page, in a temporary folder, and print what it prints
       tutorials.py record PAGE            the same, and write the outputs into the page
       tutorials.py notebooks [--check]    write docs/tutorials/*.ipynb from the pages; --check: only compare

A block ```python or ```sh is a cell, and a block ```text directly behind it is its output. All Python cells share their names. Cells of
the shell run with -e in the same folder. Comments of the page steer this tool; readers do not see them:

  <!-- test: IMAGES = 600; EPOCHS = 2 -->     with --small these lines take the place of assignments to the same names
  <!-- not run -->                            the next cell needs what no test has, such as root: it is shown only
  <!-- shown: ^epoch -->                      only lines of the output that match are shown

A run fails if a cell fails, if a cell with an output prints nothing, if a cell without one prints something, or if the first shown line
has other words than in the page. GLOFND_LIBRARY, PYTHONPATH and PATH choose the package and the program.
"""

import json
import os
import re
import subprocess
import sys
import tempfile

ROOT = os.path.join(os.path.dirname(os.path.realpath(__file__)), "..")
FOLDER = os.path.join(ROOT, "docs", "tutorials")
BLOCK = re.compile(r"^```(\w*)\n([\s\S]*?)^```\n", re.MULTILINE)
COMMENT = re.compile(r"^<!-- (.*?) -->\n\n?", re.MULTILINE)


class Cell:
    """A block of code of a page, and where its output is."""

    def __init__(self, kind, code, run, shown):
        self.kind, self.code, self.run, self.shown = kind, code, run, shown
        self.output = self.place = None  # the text, and its (start, end) in the page


def cells_of(page):
    found, last = [], None
    for match in BLOCK.finditer(page):
        kind, code = match.groups()
        between = page[last.end() if last else 0:match.start()]
        comments = COMMENT.findall(between)
        if kind in ("python", "sh"):
            shown = next((c[7:] for c in comments if c.startswith("shown: ")), "")
            found.append(Cell(kind, code, "not run" not in comments, shown))
        elif kind == "text" and last and last.group(1) in ("python", "sh") and not between.strip():
            found[-1].output, found[-1].place = code, match.span(2)
        last = match
    return found


def smaller(code, settings):
    """The code with other values: `NAME = value` of Python, `NAME=value` of the shell."""
    for setting in settings.split(";") if settings else ():
        name, value = (part.strip() for part in setting.split("=", 1))
        code = re.sub(rf"^{name}( ?= ?)[^\n#]*", lambda match: name + match.group(1) + value, code, flags=re.MULTILINE)
    return code


def words(text):
    """What stays of a line if its numbers change."""
    return re.sub(r"[-+]?\d[\d.,e]*", "#", " ".join(text.split()))


PYTHON = """\
import runpy, sys, os
names = {"__name__": "__main__"}
while True:
    line = sys.stdin.readline()
    if not line:
        break
    path = line.strip()
    with open(path) as file:
        code = compile(file.read(), path, "exec")
    sys.stdout = os.fdopen(os.open(path + ".out", os.O_WRONLY | os.O_CREAT), "w")
    kept = os.dup(1)
    os.dup2(sys.stdout.fileno(), 1)         # what C code and programs print, too
    exec(code, names)
    sys.stdout.flush()
    os.dup2(kept, 1)
    os.write(1, b"done\\n")
"""


def run(path, small):
    """Runs the cells of a page. Returns the page with the outputs of this run."""
    with open(path, encoding="utf-8") as file:
        page = file.read()
    settings = next((c[6:] for c in COMMENT.findall(page) if c.startswith("test: ")), "") if small else ""
    edits = []
    with tempfile.TemporaryDirectory() as folder:
        scratch = os.path.join(folder, "cells")
        work = os.path.join(folder, "work")
        os.mkdir(scratch), os.mkdir(work)
        child = subprocess.Popen([sys.executable, "-c", PYTHON], cwd=work, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        try:
            for number, cell in enumerate(cells_of(page), 1):
                if not cell.run:
                    continue
                code, where = smaller(cell.code, settings), f"{os.path.basename(path)}, cell {number}"
                name = os.path.join(scratch, f"cell{number}.{cell.kind}")
                with open(name, "w", encoding="utf-8") as file:
                    file.write(code)
                if cell.kind == "sh":
                    done = subprocess.run(["bash", "-e", name], cwd=work, stdout=subprocess.PIPE, text=True)
                    text, failed = done.stdout, done.returncode
                else:
                    child.stdin.write(name + "\n")
                    child.stdin.flush()
                    failed = child.stdout.readline() != "done\n"
                    with open(name + ".out", encoding="utf-8") as file:
                        text = file.read()
                text = "".join(line.rstrip() + "\n" for line in text.rstrip().split("\n") if re.search(cell.shown, line)) if text.strip() else ""
                print(text, end="", flush=True)
                if failed:
                    sys.exit(f"{where}: failed:\n{code}")
                if bool(text) != (cell.output is not None):
                    sys.exit(f"{where}: " + ("its output is not in the page" if text else "prints nothing, but the page has an output"))
                if text and cell.output.strip() and small and words(text.split("\n")[0]) != words(cell.output.split("\n")[0]):
                    sys.exit(f"{where}: the output begins with\n{text.splitlines()[0]}\nthe page has\n{cell.output.splitlines()[0]}")
                if text:
                    edits.append((cell.place, text))
        finally:
            child.stdin.close()
            child.wait()
    for (start, end), text in reversed(edits):
        page = page[:start] + text + page[end:]
    return page


# ----- notebooks -----


def notebook(page, name):
    cells = []

    def add(kind, text, output=None):
        cell = {"cell_type": kind, "id": f"{name}-{len(cells)}", "metadata": {}, "source": text.strip("\n").splitlines(keepends=True)}
        if kind == "code":
            cell["execution_count"] = None
            cell["outputs"] = [{"output_type": "stream", "name": "stdout", "text": output.splitlines(keepends=True)}] if output else []
        cells.append(cell)

    def add_text(text):
        text = COMMENT.sub("", text)
        if text.strip():
            add("markdown", text)

    add("markdown", f"*This notebook is made from [{name}.md]({name}.md) by `tools/tutorials.py notebooks`.*")
    at, found = 0, iter(cells_of(page))
    for match in BLOCK.finditer(page):
        if match.group(1) not in ("python", "sh"):
            continue
        cell = next(found)
        add_text(page[at:match.start()])
        add("code", ("%%bash\n" if cell.kind == "sh" else "") + cell.code, cell.output)
        at = cell.place[1] + len("```\n") if cell.place else match.end()
    add_text(page[at:])
    about = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}, "language_info": {"name": "python"}}
    return json.dumps({"cells": cells, "metadata": about, "nbformat": 4, "nbformat_minor": 5}, indent=1, ensure_ascii=False) + "\n"


def notebooks(check):
    old = []
    for page in sorted(os.listdir(FOLDER)):
        name, kind = os.path.splitext(page)
        if kind != ".md" or name == "index":
            continue
        with open(os.path.join(FOLDER, page), encoding="utf-8") as file:
            text = notebook(file.read(), name)
        path = os.path.join(FOLDER, name + ".ipynb")
        if check:
            with open(path, encoding="utf-8") as file:
                old += [name] if file.read() != text else []
        else:
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
    if old:
        sys.exit(f"the notebooks are older than their pages: {', '.join(old)}; run tools/tutorials.py notebooks")


def main():
    what, *rest = sys.argv[1:] or [""]
    if what == "notebooks" and rest in ([], ["--check"]):
        notebooks(bool(rest))
    elif what == "run" and len(rest) in (1, 2) and rest[1:] in ([], ["--small"]):
        run(rest[0], bool(rest[1:]))
    elif what == "record" and len(rest) == 1:
        page = run(rest[0], False)
        with open(rest[0], "w", encoding="utf-8") as file:
            file.write(page)
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main()
